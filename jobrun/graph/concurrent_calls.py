"""Find what may call Python code of the user at the same time, in the tasks of one group.

Tasks that no ``needs`` orders, tasks of several nodes, instances, branches of ``parallel``, reports
and readers run in threads of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from graphlib import TopologicalSorter

from jobrun.graph.query import walk
from jobrun.graph.readers import CallSource, ReadRecords, Source, ZipSource
from jobrun.graph.steps import CallPython, Parallel, Step
from jobrun.graph.types import SetupNets, Task, TaskGroup


def find_concurrent_callables(group: TaskGroup) -> tuple[str, str] | None:
    """Find two tasks of a group that may call Python at the same time; return their names."""
    needs = {task.name: task.needs for task in group.tasks}
    calling = {task.name for task in _calling(group.tasks)}
    # They are all in one order only if each needs the one before it: of each task, which it needs,
    # itself or by others, that comes last among those that call.
    known: list[str] = []
    last: dict[str, int] = {}
    for name in TopologicalSorter(needs).static_order():
        last[name] = max((last[one] for one in needs.get(name, ())), default=-1)
        if name in calling:
            if last[name] != len(known) - 1:
                return known[-1], name
            last[name] = len(known)
            known.append(name)
    return None


def find_calls_beside(group: TaskGroup, name: str) -> str | None:
    """Describe what may call Python while a callable of a task runs; return None for nothing.

    Args:
        group: With all that runs in the process.
        name: That of the task; empty for what surrounds all tasks of a node.
    """
    if any(_has_call(one.report.steps) for one in group.reports):
        return "a report of the group"
    calling = _calling(group.tasks)
    setups = [one.node for one in group.setup if _has_call((*one.nets.init, *one.nets.exit))]
    if not name:
        nodes = {*setups, *(task.node for task in calling)}
        return "what calls Python on another node of the process" if len(nodes) > 1 else None
    own = [task for task in calling if task.name == name]
    if len(own) > 1 or any(node != task.node for node in setups for task in own):
        return "what calls Python on another node of the process"
    if any(_calls_beside_itself(task) for task in own):
        return "another part of the task (an instance, a branch, a report or a reader)"
    needs = {task.name: task.needs for task in group.tasks}
    later: dict[str, list[str]] = {}
    for task, earlier in needs.items():
        for one in earlier:
            later.setdefault(one, []).append(task)
    ordered = _reach(name, needs) | _reach(name, later)
    return next((f"task '{one.name}'" for one in calling if one.name not in ordered), None)


def find_early_imports(group: TaskGroup) -> tuple[tuple[str, str], ...]:
    """Return the callables of a group of which some may run at the same time, in their order.

    What their modules set when they are imported is to be the same for all of them. Each is a
    target and a folder, as in ``CallPython``.
    """
    calling = _calling(group.tasks)
    around = [part for one in group.setup for part in (one.nets.init, one.nets.exit)]
    around += [one.report.steps for one in group.reports]
    names = [task.name for task in calling]
    is_ordered = (
        len(set(names)) == len(names)
        and not any(_has_call(one.report.steps) for one in group.reports)
        and not any(_calls_beside_itself(task) for task in calling)
        and find_concurrent_callables(group) is None
    )
    if is_ordered:
        return ()
    found: dict[tuple[str, str], None] = {}
    for steps in around:
        found.update(_targets(steps))
    for task in calling:
        for steps in _parts(task):
            found.update(_targets(steps))
        found.update(dict.fromkeys((one.target, one.folder) for one in _sources(task)))
    return tuple(found)


def _calling(tasks: Iterable[Task]) -> list[Task]:
    return [
        task for task in tasks if any(_has_call(steps) for steps in _parts(task)) or _sources(task)
    ]


def _calls_beside_itself(task: Task) -> bool:
    """Return whether callables of one task on one node may run at the same time."""
    parallel = [one for steps in _parts(task) for one in walk(steps) if isinstance(one, Parallel)]
    if any(sum(map(_has_call, one.branches)) > 1 for one in parallel):
        return True
    reports = [report for report in task.reports if _has_call(report.steps)]
    ways = len(reports) + len(_sources(task)) + _has_call(_body(task))
    return ways > 1 or (ways == 1 and task.instances > 1)


def _body(task: Task) -> tuple[Step, ...]:
    around: tuple[SetupNets, ...] = task.setup + task.instance_setup
    return (*(step for one in around for step in (*one.init, *one.exit)), *task.steps)


def _parts(task: Task) -> tuple[tuple[Step, ...], ...]:
    return (_body(task), *(report.steps for report in task.reports))


def _has_call(steps: tuple[Step, ...]) -> bool:
    return any(isinstance(step, CallPython) for step in walk(steps))


def _targets(steps: tuple[Step, ...]) -> dict[tuple[str, str], None]:
    return {
        (step.target, step.folder): None for step in walk(steps) if isinstance(step, CallPython)
    }


def _sources(task: Task) -> list[CallSource]:
    """List the user's classes from which a task reads records."""
    return _classes(task.read.reader.source) if isinstance(task.read, ReadRecords) else []


def _classes(source: Source) -> list[CallSource]:
    match source:
        case CallSource():
            return [source]
        case ZipSource(readers=readers):
            return [found for one in readers for found in _classes(one.source)]
        case _:
            return []


def _reach(name: str, following: Mapping[str, Sequence[str]]) -> set[str]:
    """Return a task's name, and those of all tasks that can be reached from it."""
    reached, rest = {name}, [name]
    for one in rest:
        found = set(following.get(one, ())) - reached
        reached |= found
        rest += found
    return reached
