"""Error codes of the runner layer: runs on disk, what a resume does, drift, preflight."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E350": Code(
        "not a jobrun run directory",
        "A run's directory holds a run.json. The path that was given has none: it is another "
        "folder, or a run whose making was interrupted before anything was in it.",
        "jobrun resume ./results",
    ),
    "E351": Code(
        "no such run, or several",
        "A run is named by its path, by 'latest', by its job's name (the newest run), or by the "
        "start of its own name that no other run has.",
        "jobrun resume b      # brisk-heron or brave-otter?",
    ),
    "E352": Code(
        "the newest run is unfinished",
        "Starting anew beside an unfinished run is seldom meant, so 'run' asks. Go on with it "
        "(resume, or run --resume auto), or say that a new one is wanted (run --resume never).",
        "jobrun run kmeans.yaml      # after a kill",
    ),
    "E353": Code(
        "the run is in use",
        "A live process holds the run's lock. The lock is the kernel's: it ends with its holder, "
        "however that ends, so there is never anything to unlock.",
        "jobrun resume latest      # in a second terminal",
    ),
    "E354": Code(
        "the disk says no",
        "A file of the run's directory could not be made, written or synced: no space, a quota, "
        "missing permissions, a read-only or failing disk. Epochs that were saved are there.",
        "jobrun run kmeans.yaml --run-dir /read-only",
    ),
    "E355": Code(
        "the lock file was replaced",
        "Before every commit the runner looks whether the lock file is still the one it holds. It "
        "is not, so another runner may work in the same run, and nothing more is written.",
        "rm runs/kmeans/20261121-0942-brisk-heron/run.lock      # while it runs",
    ),
    "E356": Code(
        "committed.jsonl is damaged",
        "The list of the epochs that were saved is damaged before its last line, so it cannot be "
        "told whether one is missing. The checkpoints themselves have checksums of their own: "
        "name the epoch to go on from.",
        "jobrun resume latest --epoch 12",
    ),
    "E357": Code(
        "a saved epoch is gone",
        "The newest epoch that was reported as saved is not there any more; somebody or something "
        "removed it. Put it back, or choose an older epoch yourself: going back is never done "
        "without your word.",
        "rm -r checkpoints/epoch-000012; jobrun resume latest",
    ),
    "E358": Code(
        "no stored epoch can be used",
        "Every epoch that is there is damaged, and each one's reason is given. Nothing was moved "
        "or deleted, and the run does not start over by itself.",
        "jobrun resume latest      # all files cut short by a full disk's copy",
    ),
    "E359": Code(
        "the wanted epoch cannot be used",
        "'--epoch N' goes on from exactly that epoch. It was not saved, was removed by the "
        "retention policy, or is damaged.",
        "jobrun resume latest --epoch 99",
    ),
    "E360": Code(
        "nothing to resume",
        "There is no unfinished run below the run directory, or none of that name.",
        "jobrun run kmeans.yaml --resume must",
    ),
    "E361": Code(
        "the run kept no checkpoints",
        "With 'checkpoint: none' nothing is saved, so nothing can be gone on with.",
        "checkpoint: none",
    ),
    "E362": Code(
        "stopped on request",
        "A signal, --time, --max-epochs or a stop request ended this invocation before the job's "
        "end. What was whole is saved; resume continues.",
        "jobrun run kmeans.yaml --max-epochs 3",
    ),
    "E363": Code(
        "interrupted",
        "Ctrl-C ended this invocation. What was whole is saved; resume continues.",
        "jobrun run kmeans.yaml      # and Ctrl-C",
    ),
    "E364": Code(
        "an expectation does not hold",
        "The job has ended in good order, but an item of 'expect', looked at after the exit "
        "group, is false.",
        "expect: [shift < 0.01]",
    ),
    "E365": Code(
        "a fail_if holds",
        "An item of 'fail_if' became true, so the epoch was dropped before it was saved: the "
        "newest checkpoint is from before it.",
        "fail_if: ['loss != loss']",
    ),
    "E366": Code(
        "a condition is not true or false",
        "Items of stop, fail_if and expect must be a bool, not a number or an array: what an "
        "array of bools means is for you to say, with any(...) or all(...).",
        "stop: [{when: tol - shift}]",
    ),
    "E367": Code(
        "a metric is not one number",
        "A metric is one number (or bool, or text) per epoch; one that patience counts on must be "
        "a number.",
        "metrics: {spread: x - mean(x)}",
    ),
    "E368": Code(
        "an output cannot be stored",
        "An output that is read after its group ended has to survive a kill, so it is stored in "
        "the checkpoint's manifest. That is for small things: numbers, text, arrays up to 1 MiB.",
        "outputs: [X]      # a gigabyte, read in exit",
    ),
    "E369": Code(
        "the spec, or what it uses, has changed",
        "A resume goes on with what was run. Stop limits, retention, metrics, logging and the "
        "description may change; params may that say 'drift: safe'; anything else would give "
        "numbers that no spec explains. Undo the change, accept it by name, or start a new run.",
        "jobrun resume latest --set params.lr=0.2",
    ),
    "E370": Code(
        "other numerics, and --strict",
        "Another numpy, BLAS or processor may change the last bits of results. Without --strict "
        "that is a warning.",
        "jobrun resume latest --strict      # on another machine",
    ),
    "E371": Code(
        "a constant is not what it was",
        "What 'rebuild' tasks make is not stored but made again at every start, and recognised by "
        "its digest. It came out differently: the data, or the code that makes it, has changed.",
        "init: [{task: data, rebuild: true, steps: [{load: {X: data/new.npz::data}}]}]",
    ),
    "E372": Code(
        "a data file is missing",
        "A 'load' step names a file that is not there. Paths start at the folder of the file "
        "that holds them.",
        "steps: [{load: {X: 'data/digit.npz::data'}}]",
    ),
    "E373": Code(
        "a data file cannot be read",
        "The head of a data file makes no sense: it is cut short, or is of another format than "
        "its name says.",
        "steps: [{load: {X: 'half-a-download.npz::data'}}]",
    ),
    "E374": Code(
        "a callable cannot be found",
        "The module of a 'call' step is neither beside the spec nor installed, or has no function "
        "of that name. Nothing is imported to find out, unless you say --imports.",
        "steps: [{call: 'mymodule:step', out: w}]",
    ),
    "E375": Code(
        "the run's own files are damaged, or newer",
        "run.json or spec/resolved.yaml is missing, is not what jobrun writes, or was written by "
        "a newer version. Checkpoints are not touched.",
        "echo > run.json",
    ),
    "E376": Code(
        "a run made from Python",
        "A job that was built in Python has no spec, so the command line cannot go on with it."
        " Resume it where the job is built: jobrun.resume(path, job). What differs from the graph"
        " in the run's spec/graph.txt counts as drift.",
        "jobrun resume latest   # of a run that jobrun.run(job) started",
    ),
    "E377": Code(
        "the state does not fit into memory",
        "Of the blobs that init makes, the sizes that are known before they are made add up to"
        " more than the machine has. Nothing was allocated.",
        "init: [{task: a, steps: ['w = zeros((1000000, 1000000, 8))']}]",
    ),
    "E378": Code(
        "the run is not running",
        "There is no live process to ask.",
        "touch runs/kmeans/20261121-0942-brisk-heron/stop-request      # after its end",
    ),
    "E379": Code(
        "a defect of jobrun ended the run",
        "An error that nobody foresaw. What was saved before it is there; the report says more.",
        "jobrun resume latest",
    ),
    "E380": Code(
        "somebody else could change the run",
        "A directory of the run belongs to another user and everyone may write into it, or it is a "
        "link that another user made. What is in it could be changed, or led elsewhere, while it "
        "is used. Use a directory of your own; --trust-dir says that everyone there is trusted.",
        "jobrun resume /tmp/shared/kmeans/20261121-0942-brisk-heron",
    ),
    "E381": Code(
        "the disk has no room for a checkpoint",
        "Before each checkpoint, and at the start as far as sizes are known, the space and the "
        "number of files that the disk has left are compared with what is needed. Epochs that were "
        "saved are there.",
        "df -h runs; df -i runs",
    ),
    "E382": Code(
        "a fork that does not fit",
        "A fork takes the state of an epoch of another run. Either the job has state that the "
        "epoch does not hold, or a pattern of --blobs means nothing that both have.",
        "jobrun fork latest --blobs centroids",
    ),
    "E383": Code(
        "JOBRUN_DEADLINE is no time",
        "With 'deadline: auto' this variable counts before those of the batch system.",
        "JOBRUN_DEADLINE=18h jobrun run kmeans.yaml",
    ),
    "E384": Code(
        "a file that its reader dies of",
        "A single checkpoint file may come from anywhere, so it is first read by a process of its "
        "own, with limits on memory, time and processor. That process died, or took too long.",
        "jobrun inspect-checkpoint download.h5",
    ),
    "E385": Code(
        "the list of pinned epochs cannot be read",
        "pins.json in a run's directory lists the epochs that are kept whatever 'keep' says. As "
        "long as it cannot be read, no epoch is deleted.",
        "echo oops > runs/kmeans/latest/pins.json",
    ),
    "E386": Code(
        "the process that computes has ended by itself",
        "A callable or a library ended it without a word: by os._exit, by a crash, or because the "
        "kernel killed it, often for lack of memory. The epoch it was in is dropped; what was "
        "saved before is intact, and a resume goes on from it. Where the interpreter could still "
        "tell, the stack of the thread that did it follows.",
        "def step(x): os._exit(0)      # in a callable",
    ),
    "E387": Code(
        "state that cannot go to another number of nodes",
        "A resume may have another 'count' of nodes if the job says how its state lies on them. "
        "'{partition: rows}': the nodes have parts of one array, which are put together in the "
        "order of the nodes and divided again, part k of m of n rows being k*n//m to (k+1)*n//m. "
        "'replicated': all nodes have the same bits, which is looked at. Whatever is not declared "
        "belongs to its node, and is not made up.",
        "state: {U: {partition: rows}, V: replicated}\nnodes: {trainer: {count: 4}}     # was 2",
    ),
    "E388": Code(
        "replicated state that differs",
        "The job declares that all nodes have the same bits of this blob, and a resume on another "
        "number of nodes has found that they have not. Which of them is right nobody can tell.",
        "state: {V: replicated}\nepoch: [{task: t, node: trainer, steps: [V += node.index]}]",
    ),
    "E395": Code(
        "a node is lost",
        "In the sessions 'processes' and 'ray' each node is a process, and this one has ended:"
        " somebody killed it, it crashed, the memory was not enough, or its machine is gone. The"
        " epoch is dropped, the node gets a new"
        " process, all nodes load the last saved epoch, and the run goes on; only after more than"
        " --max-failures losses with nothing saved in between does it end with this error.",
        "kill -9 PID      # of a node's process",
    ),
    "E396": Code(
        "a node's process cannot be started",
        "In the sessions 'processes' and 'ray' each node is a process of its own. The system"
        " refused to start one; or a machine of the Ray cluster had no room for a minute, has"
        " another version of jobrun, or other modules in the folder of the spec.",
        "ulimit -u 20; jobrun run spec.yaml --session processes",
    ),
    "E397": Code(
        "a node does not see where the epochs are",
        "Each node writes its own file of an epoch. Before anything runs the master makes a small"
        " file where the epochs go, and each node looks for it: this one does not see it, or may"
        " not write there, since its machine does not share that disk. Without that look the first"
        " epoch would fail when it is saved, after all of init.",
        "jobrun run spec.yaml --session ray:HEAD:6379 --run-dir /tmp/runs   # /tmp is not shared\n"
        "checkpoint: {node_dir: /var/tmp, collect: master}   # does without a shared disk",
    ),
    "E398": Code(
        "the cluster cannot be used",
        "With --session ray:ADDRESS nodes run in a Ray cluster that is there already. It does not"
        " answer at that address, does not let this program in (all machines need the same token),"
        " or has no machine with the 'host' and the 'resources' that a node asks for.",
        "nodes: {trainer: {resources: {gpu: 1}}}\njobrun run spec.yaml --session ray:auto",
    ),
    "W180": Code(
        "a program is not on PATH",
        "A 'run' step starts a program that is not there now. An earlier step may still make it.",
        "steps: [{run: [gmx, mdrun]}]",
    ),
    "W181": Code(
        "little space is left",
        "The disk that holds the run is nearly full; a save that fails ends the run.",
        "df -h runs",
    ),
    "W182": Code(
        "the run is on an unusual file system",
        "On a network file system the lock of a run can be lost when the server restarts; what is "
        "in memory does not survive a reboot; an overlay ends with its container.",
        "jobrun run kmeans.yaml --run-dir /dev/shm/runs",
    ),
    "W183": Code(
        "a finished run's newest checkpoint is damaged or gone",
        "The run has ended and nothing is left to run, but its last state cannot be read back any "
        "more. An older epoch, if one is good, makes it again.",
        "jobrun resume latest --epoch 9",
    ),
}
