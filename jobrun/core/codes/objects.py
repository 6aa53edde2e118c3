"""Error codes of objects in blobs."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E240": Code(
        "an object is used as a value",
        "An object (a model, an optimizer, a generator) stays where its rebuild task has made it:"
        " it is handed to callables with 'with', and to be changed with 'inout'. It is not copied,"
        " so no other blob, queue, output or node can have it, and no expression can use it.",
        "steps: ['best = model']   # call a function that returns what is wanted of it",
    ),
    "E241": Code(
        "an object or a container cannot be saved",
        "What is saved of an object is what its state_dict() gives: dicts, lists and tuples of"
        " arrays, tensors, numbers, text, bytes and None. Something else was in it, and would be"
        " lost. This is found by the first save, right after init.",
        "steps: [{call: 'lib:make', out: model}]   # its state_dict() holds a lambda",
    ),
    "E242": Code(
        "an object is state, and nothing makes it anew",
        "Objects are never stored, only their state. So a task with 'rebuild: true' makes the"
        " object at every start, and the stored state is loaded into it. A task without it runs"
        " once in a job's life, and a resume would have no object.",
        "init: [{task: net, steps: [{call: 'lib:make', out: model}]}]   # add rebuild: true",
    ),
    "E243": Code(
        "an object is on a node that is not saved",
        "The node makes an object, whose state would be lost with the process: the 'nodes' of"
        " 'checkpoint' do not name that node.",
        "checkpoint: {nodes: [trainer]}   # the object is on 'helper'",
    ),
    "E244": Code(
        "a constant was handed out to be changed",
        "A callable gets what a rebuild task has made with 'inout' only where that is an object,"
        " whose state is saved. An array or a number that a rebuild task makes is a constant: it is"
        " made again at a resume, without what was changed.",
        "steps: [{call: 'lib:train', inout: [X]}]   # X is loaded by a rebuild task",
    ),
    "E245": Code(
        "a checkpoint within an epoch meets an object",
        "With 'every: 10m', or records, an epoch is saved between two of its records, too. What"
        " objects hold is saved at the end of epochs only.",
        "checkpoint: {every: 1ep}",
    ),
}
