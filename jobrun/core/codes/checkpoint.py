"""Error codes of the checkpoint layer."""

from __future__ import annotations

from jobrun.core.codes import objectstores
from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E300": Code(
        "a checkpoint's file is not there",
        "The manifest of an epoch names its files, and one is missing. An epoch is used as a "
        "whole or not at all. Put the file back from a copy of the run, or continue from "
        "another epoch; jobrun falls back to the last good one by itself.",
        "rm runs/digits-kmeans/*/checkpoints/epoch-000003/trainer.h5",
    ),
    "E301": Code(
        "not a jobrun checkpoint",
        "The file does not start as each checkpoint file of jobrun does. It may be empty, "
        "another program's HDF5 file, or not HDF5 at all.",
        "jobrun inspect-checkpoint data/digits.npz",
    ),
    "E302": Code(
        "a checkpoint file of the wrong length",
        "The file is shorter or longer than its own header says: a copy was cut short, or "
        "something was appended. None of it is used. Use another epoch, or copy it again.",
        "truncate -s 5000 runs/digits-kmeans/*/checkpoints/epoch-000003/trainer.h5",
    ),
    "E303": Code(
        "a damaged checkpoint",
        "A checksum does not match: at least one byte is not what was written. Nothing of the "
        "file is used, and HDF5 never sees it. Use another epoch, or a copy of this one, and "
        "check the disk.",
        "jobrun inspect-checkpoint digits-kmeans@3",
    ),
    "E304": Code(
        "a checkpoint of another node, epoch or run",
        "The file is whole, but it is not the one that belongs here: it was renamed, or copied "
        "from elsewhere. State of different epochs or runs is never mixed. Put the right "
        "file back, or use another epoch.",
        "cp epoch-000002/trainer.h5 epoch-000003/trainer.h5",
    ),
    "E305": Code(
        "a checkpoint's file is not a plain file",
        "It is a symbolic link, a pipe, a device, has several names (hard links), or changes "
        "while it is read. Whoever can place such a thing could make jobrun read another file, "
        "or wait for ever. Put a plain copy there if you trust it.",
        "ln -sf /somewhere/else.h5 epoch-000003/trainer.h5",
    ),
    "E306": Code(
        "a checkpoint that jobrun did not write like this",
        "Its checksums match, but its HDF5 part has links, external or virtual data, filters, "
        "types or items that a checkpoint never has. Such a file could read other files or "
        "ask for endless memory, so none of its data are read.",
        "jobrun inspect-checkpoint downloaded.h5",
    ),
    "E307": Code(
        "a checkpoint lacks a blob or a node",
        "The state that the job declares is not what was saved: a blob or a node is missing. "
        "That happens when the spec was changed so that init makes other blobs, or on other nodes.",
        "jobrun resume digits-kmeans --spec changed.yaml",
    ),
    "E308": Code(
        "a checkpoint of a newer format",
        "A later jobrun wrote it, in a format that this one does not know. Use that version, "
        "or a newer one, to read it.",
        "jobrun inspect-checkpoint from-a-newer-version.h5",
    ),
    "E309": Code(
        "a blob that no checkpoint can hold",
        "What a checkpoint cannot give back exactly, it does not store. It holds arrays and "
        "numpy scalars of numbers, bools, dates, text or bytes of fixed width and records of "
        "these, with at most 32 dimensions; Python numbers, bools and text; and counters.",
        "init:\n  - task: make\n    steps: [{call: 'mod:thirty_three_dimensions', out: x}]",
    ),
    "E310": Code(
        "there is no such epoch",
        "The store has no committed epoch of that number. Epochs are committed as "
        "'checkpoint.every' says, and deleted as 'checkpoint.keep' says.",
        "jobrun resume digits-kmeans --epoch 99",
    ),
    "E313": Code(
        "the disk refuses to keep a checkpoint",
        "Writing, making durable, renaming or deleting failed: the disk is full, read-only, "
        "or reports errors. What was being written is removed, and earlier epochs are "
        "untouched. After a failed fsync the same file is never tried again, since the "
        "kernel may have dropped its bytes and would still say yes.",
        "checkpoint: {dir: /mnt/full-disk}",
    ),
    "E314": Code(
        "an epoch is there already",
        "A checkpoint never replaces another one. Something else, perhaps another run, has "
        "saved this epoch to the same directory.",
        "checkpoint: {dir: /shared/one-directory-for-two-runs}",
    ),
    "E315": Code(
        "a checkpoint cannot be read",
        "The operating system refuses: no permission, or the disk reports an error. The epoch "
        "counts as unusable; an older one is used where there is one.",
        "chmod 000 runs/digits-kmeans/*/checkpoints/epoch-000003/trainer.h5",
    ),
    "E316": Code(
        "it is not known whether an epoch is durable",
        "The epoch is complete and in place, but making its name durable failed. It was not "
        "reported as saved. It would survive a kill; whether it would survive a power cut is "
        "open. A resume verifies it and uses it if it is there.",
        "a disk that reports an error to fsync of the directory checkpoints/",
    ),
    "E317": Code(
        "what was saved is not what is on disk",
        "Between a node's report that its file is written and the commit, a file in the "
        "staging directory was changed, removed or added. The epoch is not committed.",
        "rm -rf runs/digits-kmeans/*/checkpoints/.tmp-*   # while the job runs",
    ),
    "E318": Code(
        "the disk refuses a copy of a checkpoint",
        "An upload copies a saved epoch to another directory. Making, writing or renaming there "
        "failed. The checkpoint itself is untouched; what was copied so far is used again by the "
        "next try.",
        "checkpoint: {upload: {to: /mnt/full-disk, required: true}}",
    ),
    "E319": Code(
        "another checkpoint is where a copy should go",
        "An upload never replaces a checkpoint that differs from the one to be copied: other "
        "bytes, another run, or the same epoch computed again. An equal one is left as it is.",
        "cp -r other-run/epoch-000012 /backup/walk/20261121-0942-brisk-heron/",
    ),
    "E320": Code(
        "a copy is not what was copied",
        "Each copied file is read again before the copy gets its name, and one has other bytes: "
        "the disk failed, or something else writes there. The copy does not exist.",
        "checkpoint: {upload: {to: /mnt/failing-disk}}",
    ),
    "E321": Code(
        "an upload failed, and is required",
        "With 'required: true' a run whose checkpoints could not be copied ends with 7. All "
        "epochs are saved; 'jobrun resume' runs the upload again, then download and exit.",
        "checkpoint: {upload: {to: /not/mounted, required: true}}",
    ),
    "E322": Code(
        "a metadata handler failed",
        "The handler that was handed to the runner raised an error of its own, or answered what "
        "is no answer. What was saved before is there.",
        "run(job, metadata=MyHandler())   # MyHandler.accessible returns None",
    ),
    "E323": Code(
        "a metadata handler wants to begin anew",
        "A run never starts over by itself: a handler may choose among the epochs that are there, "
        "or leave the choice to the run by answering None.",
        "def last_epoch(self, wanted): return Chosen(-1, 'begin anew')",
    ),
    "E324": Code(
        "a metadata handler allows no save",
        "Before each save every handler is asked whether one can be made now; one said no. It "
        "counts as a save that failed: 'checkpoint.on_error' says what that means.",
        "def accessible(self, epoch): return False",
    ),
    "E325": Code(
        "a stored blob is not of the expected type",
        "A checkpoint is asked for a blob of one kind, dtype and shape, and holds it with another. "
        "Nothing is converted: that would change bits. Nothing was read.",
        "init:   # saved with float32, resumed with float64\n"
        '  - task: make\n    steps: ["w = zeros(3, dtype=float32)"]',
    ),
    "E326": Code(
        "a codec is not installed",
        "Checkpoints are compressed with a filter of the package hdf5plugin, which is needed to "
        "write and to read them. 'deflate' needs nothing.",
        "checkpoint: {compression: zstd}",
    ),
    "E327": Code(
        "a node's file was not collected as it was written",
        "With 'checkpoint.node_dir' each node writes its file on its own machine, and the master, "
        "or an object store, gets it before the epoch counts. What came is not what was written, "
        "or it came from a node that has been replaced, or for another save. Nothing of it is "
        "used; the save is tried once more.",
        "checkpoint: {node_dir: /mnt/failing-disk, collect: master}",
    ),
    **objectstores.CODES,
}
