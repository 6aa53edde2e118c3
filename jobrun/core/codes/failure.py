"""Error codes of the compile layer: what tasks do about failures, and what is for other places."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E122": Code(
        "a failure that cannot be only told",
        "With on_error: warn the group goes on after the task has failed, wherever that was. So"
        " the task may write nothing that others see: no state, no blob of the node or of the"
        " group, no output; and no task may need it. It is meant for work whose loss hurts nobody,"
        " such as a notification or a plot. Blobs of its own and files are free.",
        "init: [{task: i, steps: [w = 1]}]\n"
        "epoch: [{task: t, on_error: warn, steps: [w += 1]}]   # half of it may be done",
    ),
    "E123": Code(
        "an amount that makes no sense",
        "A time limit must be longer than 0, and an amount of a resource not negative.",
        "epoch: [{task: t, timeout: 0s, steps: [x = 1]}]",
    ),
    "E124": Code(
        "settings that contradict each other",
        "One of two settings would never have an effect, or they say different things of one"
        " node: a failure that on_error: warn only tells is never tried again; and a host or"
        " resource in props is another than the one beside it.",
        "epoch: [{task: t, retry: {max: 2}, on_error: warn, steps: [x = 1]}]",
    ),
    "E126": Code(
        "a deadline that is no time",
        "'deadline' is 'auto', which asks the batch system, or a time in ISO 8601, local where it"
        " names no zone. How long an invocation may take is said with --time.",
        "deadline: 18h",
    ),
    "E125": Code(
        "a remote net reads an output",
        "A remote net is kept for another place and may run there at any time, so there is no"
        " moment at which the output of a task would be the one that is meant.",
        "nets: {f: ['y = t.x']}\nepoch: {tasks: [{task: t, steps: [x = 1], outputs: [x]}],"
        " remote: [{net: f, node: local}]}",
    ),
    "W135": Code(
        "host and resources count in a cluster only",
        "They say on which machine of a cluster a node is to be. The session 'ray' heeds them; with"
        " 'threads' and 'processes' all nodes are on this machine, with whatever it has.",
        "nodes: {trainer: {host: node17, resources: {gpu: 1}}}",
    ),
    "W136": Code(
        "a remote net does not run by itself",
        "It is kept, shown by plan, and handed to the session. The session 'threads' has nobody"
        " who would ask for it.",
        "nets: {f: [x = 1]}\n"
        "epoch: {tasks: [{task: t, steps: [x = 1]}], remote: [{net: f, node: local}]}",
    ),
}
