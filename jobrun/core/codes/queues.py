"""Error codes of the compile layer: queues, and the pipelines that they make of tasks."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E192": Code(
        "a queue without two ends",
        "Tasks read and write queues that 'queues' declares. A queue is there for one run of a"
        " group, and belongs to a node unless it is shared: so in each group that uses it, and on"
        " each node, there must be a task that writes to it and one that reads from it.",
        "queues: {batches: {}}\n"
        "epoch: [{task: prep, steps: [x = 1], write: {batches: [x]}}]   # nobody reads them",
    ),
    "E193": Code(
        "records of a queue that differ",
        "All tasks that write to a queue send the same blobs, in the same order; a task that reads"
        " from it gets them by these names. So each name is written once in a list.",
        "queues: {q: {}}\nepoch:\n"
        "  - {task: a, steps: [x = 1, y = 2], write: {q: [x, y]}}\n"
        "  - {task: b, steps: [x = 1, y = 2], write: {q: [y, x]}}\n"
        "  - {task: c, read: q, steps: []}",
    ),
}
