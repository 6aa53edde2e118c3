"""Error codes of the compile layer: needs, races, state, and blobs that are not there."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E170": Code(
        "an unknown task",
        "needs, and x.y in expressions, name a task of the job.",
        "epoch: [{task: a}, {task: b, needs: [aa]}]",
    ),
    "E171": Code(
        "a task needs itself",
        "A task cannot wait for its own end.",
        "epoch: [{task: a, needs: [a]}]",
    ),
    "E172": Code(
        "needs across groups",
        "Groups run one after the other: init, then epochs, then download, then exit. needs orders"
        " the tasks of one group.",
        "init: [{task: a}]\nepoch: [{task: b, needs: [a]}]",
    ),
    "E173": Code(
        "tasks that wait for each other",
        "The needs of these tasks form a circle, so none of them could start.",
        "epoch: [{task: a, needs: [b]}, {task: b, needs: [a]}]",
    ),
    "E174": Code(
        "a task's name is taken",
        "Names of tasks are unique in the job, also but for case: logs and outputs are found by"
        " them.",
        "init: [{task: a}]\nepoch: [{task: a}]",
    ),
    "E175": Code(
        "a constant is written",
        "What a rebuild task makes is never stored: it is made again at every start and compared"
        " by digest. A change would be lost at a resume.",
        "init: [{task: d, rebuild: true, steps: [X = zeros(3)]}]\n"
        "epoch: [{task: t, steps: [X += 1]}]",
    ),
    "E176": Code(
        "a shared blob is deleted",
        "State must be there at the end of every epoch: it is what a checkpoint holds. And what"
        " set-up made for all tasks of a group is deleted by that set-up's exit.",
        "init: [{task: i, steps: [w = 1]}]\nepoch: [{task: t, steps: [del w]}]",
    ),
    "E177": Code(
        "two tasks race on a blob",
        "Tasks of a group run at the same time. If one writes a blob that another uses, the result"
        " depends on timing. Order them with needs, or use a counter's atomic operators, or write"
        " hogwild: true if the race is wanted.",
        "init: [{task: i, steps: [w = 1]}]\n"
        "epoch: [{task: a, steps: [w += 1]}, {task: b, steps: [x = w]}]",
    ),
    "E178": Code(
        "instances race on a blob",
        "All instances of a task run at the same time and share the blobs of the task, the group"
        " and the node. What only the body makes belongs to each instance.",
        "init: [{task: i, steps: [w = 1]}]\nepoch: [{task: a, instances: 4, steps: [w += 1]}]",
    ),
    "E179": Code(
        "state that init may not make",
        "The names of the state are fixed before the job runs, and each must be there when init"
        " has ended. Make it on every way through init.",
        "init: [{task: i, steps: [{if: k > 1, then: [w = 1]}]}]",
    ),
    "E180": Code(
        "an unknown blob",
        "Nothing makes a blob of this name where it could be read.",
        "init: [{task: i, steps: [shift = inf]}]\nepoch: [{task: t, steps: [y = shft]}]",
    ),
    "E181": Code(
        "a blob is read before it is made",
        "On some way through the task the blob is read before the step that makes it: that step"
        " comes later, or in a branch that may not be taken, or in a loop that may have no pass.",
        "steps: [{if: k > 1, then: [x = 1]}, 'y = x']",
    ),
    "E182": Code(
        "a blob of another task may not be there yet",
        "Another task of the group makes the blob, and nothing says that it has ended. Tasks start"
        " together unless needs orders them.",
        "init: [{task: a, steps: [x = 1]}, {task: b, steps: [y = x]}]   # b wants needs: [a]",
    ),
    "E183": Code(
        "a blob that cannot be seen from here",
        "Blobs that a task of epoch or exit first makes are its own and end with it; each node has"
        " its own blobs. Make what is shared in init, or hand it over as an output: task.output.",
        "epoch: [{task: a, steps: [x = 1]}, {task: b, needs: [a], steps: [y = x]}]",
    ),
    "E184": Code(
        "state of a node that is not checkpointed",
        "Without a checkpoint of the node its state could not come back at a resume, so it ends"
        " with init, in an unbroken run too.",
        "nodes: {a: {}, b: {}}\ncheckpoint: {nodes: [a]}   # and epoch reads a blob of b",
    ),
    "E185": Code(
        "branches of parallel race",
        "The branches run at the same time. If one writes a blob that another uses, the result"
        " depends on timing.",
        "steps: [{parallel: [[x = 1], [x = 2]]}]",
    ),
    "E186": Code(
        "a net reads what it was not given",
        "A net with 'in' or 'out' has names of its own: its parameters, and what its steps and"
        " set-up make. Everything else is handed over.",
        "nets: {f: {out: [b], steps: [b = w]}}   # say in: [w]\n"
        "epoch: [{task: t, steps: [{net: f, out: {b: y}}]}]",
    ),
    "E187": Code(
        "instances are gone at the task's exit",
        "What the body of a task with instances makes belongs to each instance. The exit of the"
        " task runs once, after all of them.",
        "{task: t, instances: 2, steps: [x = 1], setup: {task: {exit: [y = x]}}}",
    ),
    "E188": Code(
        "a deleted blob is read",
        "On some way to this step the blob has been deleted, for example in an earlier pass of the"
        " loop.",
        "steps: [x = 1, del x, 'y = x']",
    ),
    "E189": Code(
        "a loop without an end",
        "A loop that runs forever needs a stop inside it.",
        "steps: [{loop: forever, steps: [x = 1]}]",
    ),
    "E190": Code(
        "not carried out yet",
        "The spec language has this, and this version of jobrun does not carry it out. It is"
        " refused rather than ignored.",
        "checkpoint: {every: 50 records}",
    ),
    "E191": Code(
        "an output with the name of an attribute",
        "x.size is the size of blob x, so an output of task x could not be read by that name. The"
        " attributes are T, shape, size, ndim and dtype.",
        "outputs: [{size: len(X)}]   # say {rows: len(X)}",
    ),
    "W130": Code(
        "download seems to fetch data",
        "The download group runs once, after the last epoch: it brings results together. Data is"
        " fetched in init.",
        "download: [{task: get, steps: [{run: 'curl -O https://example.org/x.npz'}]}]",
    ),
    "W131": Code(
        "a step that is never reached",
        "The step before it always leaves the block.",
        "steps: [stop, 'x = 1']",
    ),
    "W132": Code(
        "no state",
        "What tasks of init make in the node's workspace is the state. This init makes none (or is"
        " private, or all of it is rebuild), so checkpoints hold nothing.",
        "init: {workspace: private, tasks: [{task: i, steps: [w = 1]}]}",
    ),
    "W133": Code(
        "a node without tasks",
        "The node is declared, and no task of any group runs on it.",
        "nodes: {a: {}, b: {}}\nepoch: [{task: t, node: a}]",
    ),
    "W134": Code(
        "a net that is never used",
        "The net is declared, and no step uses it.",
        "nets: {f: [x = 1]}",
    ),
}
