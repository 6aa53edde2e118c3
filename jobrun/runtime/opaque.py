"""Which blobs may be changed by code that no gate can be put in front of. Static.

A callable is handed the array itself, and may have it changed by threads of its own; in a
hogwild task nobody says who changes what when.
"""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.graph.query import walk
from jobrun.graph.steps import CallPython, Step
from jobrun.graph.types import SetupNets, Task, TaskGroup
from jobrun.runtime.usage import finder, usage

Steps = tuple[Step, ...]


def opaque_names(group: TaskGroup, node: str) -> frozenset[str]:
    """The names of such blobs of a node, as the group's tasks, setup and reports have them."""
    tasks = [task for task in group.tasks if task.node == node]
    around = [steps for one in group.setup if one.node == node for steps in _nets(one.nets)]
    beside = [one.report.steps for one in group.reports if one.node == node]
    found: set[str] = set()
    for steps in (*around, *beside, *(steps for task in tasks for steps in _blocks(task))):
        found.update(_handed_out(steps))
    for task in tasks:
        if task.hogwild:
            found.update(name for steps in _blocks(task) for name in usage(steps).changed)
    return frozenset(found)


def _handed_out(steps: Steps) -> Iterator[str]:
    look = finder()
    for step in walk(steps):
        if isinstance(step, CallPython):
            yield from look.of_step(step).changes


def _nets(nets: SetupNets) -> tuple[Steps, Steps]:
    return nets.init, nets.exit


def _blocks(task: Task) -> Iterator[Steps]:
    for one in (*task.setup, *task.instance_setup):
        yield from _nets(one)
    yield task.steps
    for report in task.reports:
        yield report.steps
