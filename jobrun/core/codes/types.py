"""Error codes of dtypes and shapes, found before anything runs by the rules of operators."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E290": Code(
        "shapes do not fit",
        "The shapes are known before anything runs, from the spec and from the headers of data"
        " files, and no values of such shapes can be computed with like that. Lengths are compared"
        " from the last axis; an axis of length 1 fits any other. 'jobrun plan' shows the shapes.",
        "steps: [X = zeros((9, 3)), 'W = zeros((4, 2))', 'y = X @ W']",
    ),
    "E291": Code(
        "a value of the wrong kind",
        "The dtype is known before anything runs, and what is done with it has no meaning for it,"
        " or would lose what cannot be lost in place. Convert it first, with astype, int or float."
        " 'jobrun ops NAME' shows what a function takes.",
        "steps: ['n = zeros(3, dtype=int64)', n += 0.5]   # say n = n + 0.5",
    ),
    "E292": Code(
        "no such axis, item or length",
        "Axes are counted from 0, or from the end with -1, and so are items. A length is 0 or"
        " more. A number of the spec has no items.",
        "steps: ['x = zeros((2, 3))', 's = sum(x, axis=2)']",
    ),
    "E294": Code(
        "writers of a queue disagree",
        "Two tasks send a blob of the same name to one queue, with different dtypes or numbers of"
        " axes: whoever reads it would get one or the other, as it happens. In a queue with"
        " 'batch' the lengths behind the first axis must be the same, too.",
        "queues: {q: {}}   # one task sends x = zeros(3), another x = zeros(3, dtype=float32)",
    ),
    "W138": Code(
        "what would fail if it is reached",
        "A step behind a condition of which nothing is known before the run could not be computed:"
        " its shapes or dtypes do not fit. If it is never reached, take it out.",
        "steps: ['x = zeros(3)', {if: rng.random() < 0.5, then: ['y = x @ zeros(4)']}]",
    ),
    "W139": Code(
        "results that may stay on a node's machine",
        "'checkpoint.node_dir' is for nodes that do not see the run's directory. What such a node"
        " saves into ${run.dir} goes into a directory of that name on its own machine, and nobody"
        " collects it: only checkpoints are.",
        "checkpoint: {node_dir: /var/tmp, collect: master}\n"
        "exit: [{task: export, steps: [{save: {w: '${run.dir}/w.npy'}}]}]",
    ),
}
