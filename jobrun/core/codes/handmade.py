"""Error codes of the compile layer: graphs that are built by hand, in Python."""

from __future__ import annotations

from jobrun.core.codes.code import Code

CODES: dict[str, Code] = {
    "E194": Code(
        "tasks cannot be one task",
        "to_task makes one task of a group. That is refused where the result would mean something"
        " else: several instances, waiting on a retry of one of them, a reading of another one's"
        " output, or names that two of them have for themselves.",
        'to_task(TaskGroup("epoch", (Task("a", "n", steps, instances=4),)))',
    ),
    "E195": Code(
        "a group cannot be put on other nodes like that",
        "Each node that is renamed must be one that the group uses, and no node may get two tasks"
        " of one name.",
        'remapped(group, {"trainr": "local"})',
    ),
    "E196": Code(
        "a name that cannot be that of a file",
        "Jobs, nodes and tasks give their names to directories, checkpoint files and logs. Letters,"
        " digits, '_', '.' and '-' may stand in them, at most 64; '.' and '-' not first.",
        'Task("../a", "local", steps)',
    ),
    "E197": Code(
        "things of one name that differ",
        "A task on several nodes is one Task per node, alike in everything but the node. Two nodes"
        " of one name cannot be told apart.",
        'TaskGroup("epoch", (Task("a", "n0", steps), Task("a", "n1", other_steps)))',
    ),
    "E198": Code(
        "a number that cannot be meant",
        "A task runs in one instance or more, a report waits longer than 0 s, and what ends a run"
        " counts whole epochs, from 1.",
        'Task("a", "local", steps, instances=0)',
    ),
    "E199": Code(
        "a word in a graph that means nothing",
        "The names of functions, of methods of rng, of dtypes and of words such as node.name are"
        " those of the spec language; jobrun ops lists them.",
        'Call("sqrtt", (Name("x"),))',
    ),
}
