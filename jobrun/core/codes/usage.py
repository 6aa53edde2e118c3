"""Error codes of the usage layer."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E400": Code(
        "no such command",
        "The first word after 'jobrun' names a command; 'jobrun --help' lists them.",
        "jobrun rnu kmeans.yaml",
    ),
    "E401": Code(
        "no such option",
        "Options are written in full, as '--help' of the command shows them. Values of the spec "
        "are set with --set, such as --set params.k=12.",
        "jobrun run kmeans.yaml --epoch 5",
    ),
    "E402": Code(
        "something is missing on the command line",
        "The command needs an argument that was not given.",
        "jobrun validate",
    ),
    "E403": Code(
        "a value on the command line is not usable",
        "The value of an option or an argument has the wrong form, or is out of its range.",
        "jobrun run kmeans.yaml --epochs three",
    ),
    "E404": Code(
        "the command line cannot be read",
        "There is a word too many, or an option lacks its value.",
        "jobrun schema kmeans.yaml",
    ),
    "E405": Code(
        "no such code",
        "Codes are a letter and three digits; 'jobrun explain' without an argument lists them.",
        "jobrun explain E9999",
    ),
    "E406": Code(
        "no such node or blob in a checkpoint",
        "The checkpoint is sound, but holds nothing of that name; without --node and --blob all "
        "of it is shown.",
        "jobrun inspect-checkpoint kmeans --blob centroids",
    ),
    "E407": Code(
        "a checkpoint is damaged",
        "The files of the epoch are not those that its manifest tells of. 'jobrun resume' would "
        "say so, too, and continue from an older epoch.",
        "jobrun inspect-checkpoint kmeans@12",
    ),
    "E408": Code(
        "no checkpoint of that epoch",
        "Either the epoch was never saved, or 'keep' of the spec let it go, or what stands behind "
        "the '@' is not a number.",
        "jobrun inspect-checkpoint kmeans@9999",
    ),
    "E409": Code(
        "no such function",
        "'jobrun ops' lists what expressions can use: functions, and draws behind 'rng.'.",
        "jobrun ops segment_summ",
    ),
    "E410": Code(
        "the output cannot be written",
        "Standard output goes to a file or a device that takes no more. A reader that went away "
        "is not an error.",
        "jobrun plan kmeans.yaml > /dev/full",
    ),
    "E411": Code(
        "there is not enough memory",
        "The system gave the process no more memory: a limit (ulimit -v, a container's) or the "
        "machine's end. Nothing that was saved is lost; 'jobrun resume' continues.",
        "ulimit -v 500000; jobrun run kmeans.yaml",
    ),
    "E412": Code(
        "a library cannot be loaded",
        "One of the libraries that jobrun is built on is missing, damaged, or found no memory.",
        "ulimit -v 200000; jobrun run kmeans.yaml",
    ),
    "E413": Code(
        "the system refuses",
        "A limit of the process (open files, size of a file), a permission or a full disk. "
        "Nothing that was saved is lost; 'jobrun resume' continues once it is mended.",
        "ulimit -n 12; jobrun run kmeans.yaml",
    ),
    "E414": Code(
        "internal error",
        "A defect of jobrun. Checkpoints that were reported as saved are not touched by it. The "
        "report holds the versions, the command line and where it happened; --debug shows the "
        "same at once.",
        "jobrun run kmeans.yaml --debug",
    ),
    "E415": Code(
        "the working directory is not there any more",
        "Somebody removed or renamed the folder that the shell is in; relative paths mean nothing "
        "there.",
        "mkdir gone; cd gone; rmdir ../gone; jobrun run ../kmeans.yaml",
    ),
    "E417": Code(
        "the process that starts the runs of a proof is gone",
        "'jobrun prove' starts its runs from one process that has everything imported. It was "
        "killed, or found no memory.",
        "ulimit -v 300000; jobrun prove kmeans.yaml",
    ),
    "E418": Code(
        "the unbroken run of a proof fails",
        "Before anything is killed the job runs to its end twice. It did not get there, or not "
        "with the exit code 0 or 9.",
        "jobrun prove broken.yaml",
    ),
    "E419": Code(
        "there is nothing to prove",
        "A job with 'checkpoint: none' starts over when it is killed; that is what it says.",
        "jobrun prove without-checkpoints.yaml",
    ),
    "E420": Code(
        "a spec that cannot be put in order",
        "'jobrun fmt' moves text and never drops any. Where a key cannot be moved without a "
        "comment losing its place, or an anchor coming behind its alias, it leaves the file alone "
        "and says where.",
        "jobrun fmt kmeans.yaml",
    ),
    "E421": Code(
        "a blob or a run that cannot be taken elsewhere",
        "Not every format holds every blob: a table has one blob of one or two axes, safetensors "
        "real numbers only. A run that keeps its checkpoints outside its directory cannot be "
        "copied as a whole.",
        "jobrun ckpt export kmeans --format csv --out all.csv",
    ),
    "E422": Code(
        "a word that cannot be a tag",
        "Tags are single words, so that they can be written on a command line without quotes.",
        "jobrun runs tag brisk-heron 'my best run'",
    ),
    "E423": Code(
        "a run that is not finished",
        "It has saved epochs, and 'jobrun resume' could go on from the newest. Removing it would "
        "throw that away.",
        "jobrun runs remove brisk-heron",
    ),
    "E424": Code(
        "no such metric",
        "Metrics are those of the spec's 'metrics' and of its 'metric' steps; the latter are "
        "called 'task.name'.",
        "jobrun metrics kmeans loss",
    ),
    "E425": Code(
        "the run is not running here",
        "Only a run that lives, on this host, can be asked to end; a signal does not reach "
        "another host.",
        "jobrun stop kmeans",
    ),
    "E426": Code(
        "the run could not be ended",
        "Its process belongs to another user, or it has not ended within the time given.",
        "jobrun stop kmeans --wait 5s",
    ),
    "E427": Code(
        "nobody is there to be asked",
        "Removing runs asks first, and standard error is no terminal.",
        "jobrun runs remove brisk-heron < /dev/null 2> log",
    ),
    "E428": Code(
        "no such task in the logs",
        "A task has a log as soon as it says something: by a 'log' step, a program's output, or "
        "what a callable prints.",
        "jobrun logs latest llyod",
    ),
    "E429": Code(
        "one thing to compare with",
        "A run is compared with another run, or with a spec as it is now, not with both and not "
        "with nothing.",
        "jobrun diff kmeans",
    ),
    "E430": Code(
        "nothing says which checkpoints may go",
        "'jobrun ckpt prune' deletes what 'checkpoint: {keep: ...}' of the spec does not keep. "
        "Without 'keep' every checkpoint is kept.",
        "jobrun ckpt prune kmeans      # add --last 3",
    ),
    "E431": Code(
        "too many runs for one page",
        "A page with so many curves over each other could not be read. 'jobrun report --json' and "
        "'--tensorboard' have the same limit.",
        "jobrun report a b c d e f g h i j k l m n o p q",
    ),
    "E432": Code(
        "files for TensorBoard need an extra",
        "They are written with the package tensorboardX, which jobrun does not need otherwise.",
        "jobrun report latest --tensorboard tb",
    ),
    "E433": Code(
        "the file to be written is something else",
        "A page replaces an older page, and never a file that is none.",
        "jobrun report --out kmeans.yaml",
    ),
    "E434": Code(
        "something has this name already",
        "Files and directories that are there are not replaced unasked.",
        "jobrun ckpt export kmeans --out kmeans.npz      # a second time",
    ),
    "E435": Code(
        "an axis of a sweep cannot be read",
        "--grid takes the name of a param, or seed, and its values: a list with commas, or, with "
        "--random, a range LOW..HIGH or log:LOW..HIGH. Each name is given once.",
        "jobrun sweep train.yaml --grid lr",
    ),
    "E436": Code(
        "a range without a number of points",
        "Of a range, --random N draws N values. A grid needs a list of values.",
        "jobrun sweep train.yaml --grid lr=0.001..0.1",
    ),
    "E437": Code(
        "too many points for one sweep",
        "Each point is a run with a directory of its own; more than 10,000 of them are most "
        "likely not meant.",
        "jobrun sweep train.yaml --grid seed=0..100000 --random 50000",
    ),
    "E438": Code(
        "there is no such sweep yet",
        "Without --grid, 'jobrun sweep' takes the points that the sweep of this name had before; "
        "--name and --run-dir say which sweep that is.",
        "jobrun sweep train.yaml --status",
    ),
    "E439": Code(
        "refused: the sweep runs already",
        "Another process works on the sweep of this name in this run directory.",
        "jobrun sweep train.yaml --grid lr=0.1,0.01      # in a second terminal",
    ),
    "E445": Code(
        "the batch system does not take the job",
        "'jobrun submit' writes a script and hands it to Slurm's sbatch, which is not there, or "
        "refuses: for an unknown partition, a time limit beyond what is allowed, or more than the "
        "machines have.",
        "jobrun submit kmeans.yaml --partition nowhere",
    ),
}
