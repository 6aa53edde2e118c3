"""Error codes of the compile layer: tasks, names and order. Syntax has those of ``compile``."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E130": Code(
        "a draw between epochs",
        "Metrics and conditions are looked at between epochs, where there is no random stream."
        " Draw in a task and look at the blob.",
        "stop: [{when: rng.random() < 0.1}]",
    ),
    "E131": Code(
        "no value between epochs",
        "epoch, iter, instance and node.name belong to a task that runs. Metrics and conditions"
        " read state blobs and outputs. To stop after a number of epochs write {epochs: N}.",
        "stop: [{when: epoch >= 10}]",
    ),
    "E132": Code(
        "looking changes a blob",
        "A metric or condition may be looked at again after a resume, so it cannot change what it"
        " looks at. Change the blob in a task.",
        "stop: [{when: count_down(left)}]",
    ),
    "E133": Code(
        "several values where one is wanted",
        "The blob is on several nodes, or the task runs on several. Name the node, or reduce the"
        " values over the nodes to one.",
        "stop: [{when: {of: d < tol, nodes: trainer_*, reduce: all}}]   # instead of d < tol",
    ),
    "E134": Code(
        "neither a node nor a task",
        "x.y reads output y of task x, or in metrics and conditions the blob y of node x.",
        "metrics: {loss: trainr.loss}",
    ),
    "E135": Code(
        "a blob that is not there between epochs",
        "Metrics and conditions read the state (what init makes), constants and outputs. What an"
        " epoch makes ends with it: make the blob in init, or declare it as an output of the task"
        " and read task.output.",
        "metrics: {loss: loss}   # loss is first made in epoch",
    ),
    "E136": Code(
        "keep.every is a number of epochs",
        "Retention keeps every N-th epoch; a duration makes no sense there.",
        "checkpoint: {keep: {every: 10m}}",
    ),
    "E137": Code(
        "no stop condition",
        "A job without one never ends. If that is meant, it must be written: endless: true.",
        "stop: [{epochs: 10}]",
    ),
    "E138": Code(
        "an unknown metric",
        "no_improvement and keep.best watch a metric of the job's metrics, by its name.",
        "metrics: {loss: loss}\nstop: [{no_improvement: {of: los, for: 5}}]",
    ),
    "E139": Code(
        "no task in epoch",
        "The epoch group is what is repeated; without a task there is nothing to repeat. Work"
        " that is done once can be a job of one epoch.",
        "epoch: []",
    ),
    "E140": Code(
        "a rebuilt task needs one that is not",
        "At a resume only the rebuild tasks of init run again, so they can need only each other.",
        "init: [{task: a, steps: [x = 1]}, {task: b, rebuild: true, needs: [a], steps: [y = 1]}]",
    ),
    "E141": Code(
        "a node is needed",
        "With several nodes each task says where it runs: a node, a counted name for one task on"
        " each of its nodes, or a pattern.",
        "nodes: {a: {}, b: {}}\nepoch: [{task: t, steps: [x = 1]}]",
    ),
    "E142": Code(
        "an unknown node",
        "The name, counted name or pattern stands for no node of 'nodes'.",
        "nodes: {trainer: {count: 2}}\nepoch: [{task: t, node: trainer_2, steps: [x = 1]}]",
    ),
    "E143": Code(
        "a net uses itself",
        "Nets are put in where they are used, so one that uses itself, directly or through"
        " others, would have no end. Use a loop.",
        "nets: {a: [{net: b}], b: [{net: a}]}",
    ),
    "E144": Code(
        "steps too deep inside each other",
        "Loops, branches and nets inside each other have a bound. Move inner steps out.",
        "steps: [{loop: 2, steps: [{loop: 2, steps: [{loop: 2, steps: […]}]}]}]   # and so on",
    ),
    "E145": Code(
        "an unknown net",
        "A net step names a net of 'nets'.",
        "nets: {assign: [a = 1]}\nepoch: [{task: t, steps: [{net: asign}]}]",
    ),
    "E146": Code(
        "nets that grow without measure",
        "Nets that use nets that use nets multiply. Past a bound the job is refused before it"
        " fills the memory. Use loops.",
        "nets: {a: [{net: b}, {net: b}], b: [{net: c}, {net: c}], c: […]}   # and so on",
    ),
    "E147": Code(
        "a net is called wrongly",
        "A net with 'in' or 'out' takes a value for each parameter and gives its results by name;"
        " a net that is a plain list works on the caller's names and takes neither.",
        "nets: {f: {in: [a], out: [b], steps: [b = a]}}\n"
        "epoch: [{task: t, steps: [{net: f, in: {x: 1}}]}]",
    ),
    "E148": Code(
        "an unknown output",
        "x.y reads the output y of task x, which must be listed in its 'outputs'.",
        "steps: ['y = prep.total']   # prep has no outputs",
    ),
    "E149": Code(
        "an output that is not there yet",
        "An output is taken when its task ends. A task reads outputs of earlier groups, and of"
        " tasks of its own group that it needs.",
        "epoch: [{task: a, outputs: [x], steps: [x = 1]}, {task: b, steps: [y = a.x]}]",
    ),
    "E150": Code(
        "a blob with the name of a param",
        "Params are constants of the spec and readable in every expression, so a blob of the same"
        " name would be ambiguous.",
        "params: {k: 10}\ninit: [{task: t, steps: [k = 3]}]",
    ),
    "E151": Code(
        "a word of the language as a name",
        "Functions, constants, dtypes and words such as epoch and rng are reserved; jobrun ops"
        " lists the functions.",
        "steps: [{load: {sum: data.npy}}]",
    ),
    "E152": Code(
        "a condition that is no bool",
        "Conditions take true or false and nothing else, so that no number or array decides by"
        " accident.",
        "steps: [{if: n - 1, then: [x = 1]}]   # say n > 1",
    ),
    "E153": Code(
        "writing to a pass number",
        "The name given by 'as' counts the passes of its loop; it cannot be assigned.",
        "steps: [{loop: 3, as: i, steps: [i = 5]}]",
    ),
    "E154": Code(
        "iter outside of a loop",
        "iter is the number of the innermost loop's pass, from 0.",
        "steps: ['x = iter']",
    ),
    "E155": Code(
        "a loop count that is no whole number",
        "loop takes an int, an expression that gives one, or 'forever'.",
        "steps: [{loop: 2.5, steps: [x = 1]}]",
    ),
    "E156": Code(
        "stop leaves an unknown block",
        "stop names a block around it: 'task', a guard, or a loop with 'name'. If and net are no"
        " blocks.",
        "steps: [{loop: 3, name: outer, steps: [{stop: outr}]}]",
    ),
    "E157": Code(
        "a block's name is taken",
        "A block around this one has the name, or it is 'task', which means the task's body.",
        "steps: [{loop: 3, name: a, steps: [{loop: 3, name: a, steps: [{stop: a}]}]}]",
    ),
    "E158": Code(
        "an unknown operator",
        "op names one of the operators that jobrun ops lists.",
        "steps: [{op: segmnt_sum, in: [x, s, 3], out: [t, n]}]",
    ),
    "E159": Code(
        "results and names do not match",
        "out names as many blobs as the operator has results, and an operator without an effect"
        " must have its result named.",
        "steps: [{op: segment_sum, in: [x, s, 3], out: t}]   # it has two results",
    ),
    "E160": Code(
        "inout must be a blob",
        "What a callable may change in place must be a blob itself, not a value made from one.",
        "steps: [{call: 'lib:f', with: {w: w + 1}, inout: [w]}]",
    ),
    "E161": Code(
        "run without a program",
        "run takes a line for bash, or a list that starts with the program.",
        "steps: [{run: []}]",
    ),
    "E162": Code(
        "a member that varies",
        "The part behind :: is a fixed name; put ${…} into the path.",
        "steps: [{save: {w: 'w.npz::w${epoch}'}}]",
    ),
    "E163": Code(
        "a report without an interval",
        "A report runs every so often, and once more at the end; the interval must be longer than"
        " 0.",
        "report: [{every: 0s, steps: [{log: hi}]}]",
    ),
    "E164": Code(
        "rebuild outside of init",
        "A rebuild task makes constants again at every start; that is part of init.",
        "epoch: [{task: t, rebuild: true, steps: [x = 1]}]",
    ),
    "E165": Code(
        "a task's report with a node",
        "The report of a task runs where the task runs. A report of the group may name a node.",
        "epoch: [{task: t, report: [{node: a, steps: [{log: hi}]}]}]",
    ),
    "E166": Code(
        "two outputs of one name",
        "Each output of a task has a name of its own.",
        "outputs: [loss, {loss: loss / n}]",
    ),
    "E167": Code(
        "a task and its group disagree on the workspace",
        "Say it once: on the group for all its tasks, or on tasks.",
        "epoch: {workspace: private, tasks: [{task: t, workspace: global, steps: [x = 1]}]}",
    ),
    "E168": Code(
        "set-up of a net without a task",
        "Set-up that a net brings for each task or instance needs a task that uses the net; set-up"
        " and reports of a group run outside of tasks.",
        "epoch: {report: [{steps: [{net: n}]}], tasks: […]}   # n has setup: {task: …}",
    ),
    "E169": Code(
        "something that never runs",
        "Set-up and reports of a group run on the nodes where the group has tasks.",
        "nodes: {a: {}, b: {}}\n"
        "epoch: {report: [{node: b, steps: [{log: hi}]}], tasks: [{task: t, node: a}]}",
    ),
}
