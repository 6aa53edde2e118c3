"""Error codes of the runtime layer."""

from __future__ import annotations

from jobrun.core.codes import between, objects, reading, types
from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E200": Code(
        "a step failed",
        "An expression or an operator raised an error while the job ran; the message names the"
        " error. Most are values whose shapes or dtypes do not fit. A log step before the"
        " failing one can show them: log: '{x.shape} {x.dtype}'. The epoch was dropped.",
        "steps: ['y = x @ w']   # x has 3 columns, w has 4 rows",
    ),
    "E201": Code(
        "a blob is missing",
        "A step reads a blob that nothing has made at that moment. The compiler refuses specs"
        " that can do this; at run time it comes from a graph built in Python, or from an exit"
        " block that runs after a failure and reads what the body did not get to make.",
        "steps: [{if: ready, then: ['y = 1']}, 'z = y']",
    ),
    "E202": Code(
        "a blob cannot hold this value",
        "A blob holds an array (of any dtype but object), a numpy or Python scalar, text, a"
        " counter, or a dict, list or tuple of these, of bytes and None; or an object with"
        " state_dict() and load_state_dict(). None alone, arrays of Python objects, masked arrays,"
        " functions and other classes could not be stored and compared exactly.",
        "steps: [{call: 'lib:fit', out: model}]   # fit returns a function",
    ),
    "E203": Code(
        "a condition is not a bool",
        "if, while, stop_if, assert and stop conditions take a bool and nothing else, so that a"
        " number or an array never decides by accident. Compare it, or reduce it with any or all.",
        "steps: [{stop_if: n}]   # say n > 0",
    ),
    "E204": Code(
        "a loop count is not an integer",
        "The count of a loop is an integer, read again at each pass; a float is not rounded.",
        "steps: [{loop: n / 2, steps: [...]}]   # say n // 2",
    ),
    "E205": Code(
        "an assertion does not hold",
        "The condition of an assert step was false. The epoch was dropped; a resume continues"
        " from the last saved one.",
        "steps: [{assert: loss < 1e3, message: 'the loss grew to {loss}'}]",
    ),
    "E206": Code(
        "a callable raised an error",
        "The Python function of a call step raised. The message names the error and the place in"
        " the user's file; the notes hold the frames of the user's code.",
        "steps: [{call: 'model:fit', with: {x: x}}]",
    ),
    "E207": Code(
        "a callable cannot be imported",
        "The module of a call step, or something it imports, cannot be found or loaded. It is"
        " looked for in the spec's folder first, then among the installed packages.",
        "steps: [{call: 'modle:fit'}]",
    ),
    "E208": Code(
        "a callable returned something else than its step says",
        "With one name in out the result is that blob; with several the function returns as many"
        " values; without out it returns None.",
        "steps: [{call: 'lib:split', out: [a, b]}]   # split returns three values",
    ),
    "E209": Code(
        "a program failed",
        "The program of a run step ended with an exit code other than 0 (and other than 75, which"
        " means: call me again) or was killed by a signal. Its output is in the task's log.",
        "steps: [{run: [grep, pattern, file.txt]}]   # grep ends with 1 when nothing is found",
    ),
    "E210": Code(
        "a program could not be started",
        "The program of a run step is not on PATH (127), is not executable (126), or the system"
        " refused to start it. Only PATH, HOME, LANG, TZ, TMPDIR, JOBRUN_* and the variables listed"
        " in env reach a program.",
        "steps: [{run: [no-such-program]}]",
    ),
    "E211": Code(
        "a program did not write its result",
        "A file named in the out of a run step was not there after the program had ended well.",
        "steps: [{run: [make-table], out: {t: table.npy}}]",
    ),
    "E212": Code(
        "a metric is not a single number",
        "A metric is a number, a bool or text; an array of one item counts as its item.",
        "steps: [{metric: {loss: losses}}]   # say mean(losses)",
    ),
    "E213": Code(
        "a value does not fit its format",
        "The format behind the colon in {value:format} is Python's; it must suit the value's kind.",
        "steps: [{log: '{name:.3f}'}]   # name is text",
    ),
    "E214": Code(
        "a program's folder cannot be kept",
        "What a state_dir holds is stored in the checkpoint: files, folders, and links from one to"
        " another inside it. A pipe, a socket, a device, or a link that leads out of the folder"
        " would not be the same on another machine.",
        "steps: [{run: 'mkfifo $JOBRUN_STATE_DIR/pipe', state_dir: solver}]",
    ),
    "E215": Code(
        "tasks did not end",
        "After a failure or a stop, tasks have a limited time to reach their next step boundary."
        " One did not, most likely inside a callable that never returns, so the process has to end"
        " without another save.",
        "steps: [{call: 'lib:wait_forever'}]",
    ),
    "E216": Code(
        "state is missing at the end of an epoch",
        "A blob that init made, and that every checkpoint must hold, was not there (or was not a"
        " value that can be stored) when the epoch ended.",
        "epoch: [{task: t, steps: ['del w']}]   # w is state",
    ),
    "E217": Code(
        "unknown session",
        "A session is where tasks run: threads, processes or ray (with the extra jobrun[ray]);"
        " others come from installed packages that declare the entry point group jobrun.sessions.",
        "jobrun run spec.yaml --session thread",
    ),
    "E218": Code(
        "an output is not there",
        "A step reads the output of a task that has not ended yet, or never ran.",
        "steps: ['x = other.y']   # without needs: [other]",
    ),
    "E219": Code(
        "tasks wait for each other",
        "The needs of the tasks of one group form a circle, or name a task that is not in the"
        " group.",
        "epoch: [{task: a, needs: [b], steps: []}, {task: b, needs: [a], steps: []}]",
    ),
    "E220": Code(
        "a task took too long",
        "The task declares timeout, and was not over when that had passed, counted from its start"
        " and for all its instances together. It fails as a failing step does: the group ends, the"
        " epoch is dropped, exits run. Programs are killed at once. The message names the step.",
        "epoch: [{task: t, timeout: 10m, steps: [{run: ./solve}]}]",
    ),
    "E222": Code(
        "the system refuses a step",
        "A limit of the process (open files, memory), a permission or a full disk, met while a step"
        " ran. Nothing that was saved is lost; 'jobrun resume' continues once it is mended.",
        "ulimit -n 10; jobrun run kmeans.yaml",
    ),
    "E221": Code(
        "records that cannot be joined",
        "A queue with batch gives out several records as one, each value joined along its first"
        " axis: all of one name must have one dtype and one shape behind that axis. Scalars become"
        " a vector. Nothing is converted.",
        "queues: {rows: {batch: 8}}   # one record has x of shape (3,), the next of shape (3, 2)",
    ),
    "E280": Code(
        "a data file is not there",
        "Paths in a spec are relative to the file that holds them; those given with --set, to the"
        " working directory.",
        "steps: [{load: {X: 'data/digit.npz::data'}}]   # the file is digits.npz",
    ),
    "E281": Code(
        "a data file has no such member",
        "Behind '::' stands the name of an array in an .npz file, of a column of a table, or the"
        " path of a dataset in an HDF5 file. It may be left out only where there is one, or, for"
        " a table, to get all columns.",
        "steps: [{load: {X: 'data/digits.npz::dat'}}]",
    ),
    "E282": Code(
        "a data file cannot be read",
        "The file is cut short, damaged, not what its name says, or the operating system refuses."
        " A table needs lines of the same length, and numbers where a matrix is read.",
        "steps: [{load: {X: 'renamed-text-file.npy'}}]",
    ),
    "E283": Code(
        "an unknown data format",
        "The ending of the name decides how a file is read and written: .npy, .npz, .csv, .tsv,"
        " .h5 or .hdf5.",
        "steps: [{load: {X: data.parquet}}]",
    ),
    "E284": Code(
        "a data file holds Python objects",
        "Arrays of objects are stored as pickles, and reading a pickle can run any code; jobrun"
        " never reads one. Save the data with one numeric dtype, or text of fixed width.",
        "numpy.save('x.npy', [None, 1])",
    ),
    "E285": Code(
        "the disk refuses to keep a data file",
        "A file is written beside its place, made durable, and then renamed, so what was there"
        " before is unchanged. The message says what the operating system said.",
        "steps: [{save: {w: /read-only/w.npy}}]",
    ),
    "E286": Code(
        "a value does not fit into a data format",
        "An .npy file holds one array, a table one- or two-dimensional arrays of numbers or text,"
        " HDF5 has no dates. An .npz file holds any array, under a name.",
        "steps: [{save: {cube: cube.csv}}]   # three axes",
    ),
    "E287": Code(
        "an HDF5 member that leads elsewhere",
        "Soft and external links, external storage and virtual datasets can make a file show the"
        " content of another one, and a dataset can promise more data than it has. None of these"
        " is read from a data file.",
        "steps: [{load: {X: 'downloaded.h5::/linked'}}]",
    ),
    **between.CODES,
    **objects.CODES,
    **reading.CODES,
    **types.CODES,
}
