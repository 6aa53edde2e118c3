"""Error codes of the compile layer: what a spec says of readers."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E119": Code(
        "a reader that cannot be meant",
        "A reader names its fields, since nothing is read before the job is checked: by a list"
        " where they are called as in the source, else by a mapping from each name to that of the"
        " source. Keys that have no effect on the kind of source are refused.",
        "readers: {train: {npz: data.npz, batch: 64}}   # and what are the fields?",
    ),
    "E120": Code(
        "a reader's position has no one place",
        "A reader has one position on each node that reads it, which is part of the state. So the"
        " node must be among those that are saved, and tasks that read one reader on one node do"
        " so one after the other; the instances of one task may share it.",
        "epoch: [{task: a, read: train}, {task: b, read: train}]   # at the same time",
    ),
    "E121": Code(
        "data that never end, or end in every epoch",
        "data_finished stops the job when a reader has found no more records. It needs a task of"
        " 'epoch' that reads the reader, and restart: never, since else each epoch begins anew."
        " A limit that is reached is not the end of the data, also when nothing is left behind it.",
        "stop: [{data_finished: train}]   # train: {npz: …, fields: [x]}",
    ),
    "W137": Code(
        "a reader that is never read",
        "No task reads it, by itself or zipped with others, so it has no effect.",
        "readers: {train: {npz: data.npz, fields: [x]}}   # and no task says read: train",
    ),
}
