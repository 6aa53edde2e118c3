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
    # The calling tasks are in one order only if each needs, directly or indirectly, the one before
    # it. ``last``: for each task, the index of the last calling task among its needs.
    known: list[str] = []
    last: dict[str, int] = {}
    for name in TopologicalSorter(needs).static_order():
        last[name] = max((last[need] for need in needs.get(name, ())), default=-1)
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
    if any(_has_call(report.report.steps) for report in group.reports):
        return "a report of the group"
    calling = _calling(group.tasks)
    setups = [
        setup.node for setup in group.setup if _has_call((*setup.nets.init, *setup.nets.exit))
    ]
    if not name:
        nodes = {*setups, *(task.node for task in calling)}
        return "what calls Python on another node of the process" if len(nodes) > 1 else None
    same_name = [task for task in calling if task.name == name]
    if len(same_name) > 1 or any(node != task.node for node in setups for task in same_name):
        return "what calls Python on another node of the process"
    if any(_calls_beside_itself(task) for task in same_name):
        return "another part of the task (an instance, a branch, a report or a reader)"
    needs = {task.name: task.needs for task in group.tasks}
    later: dict[str, list[str]] = {}
    for task, earlier in needs.items():
        for need in earlier:
            later.setdefault(need, []).append(task)
    ordered = _reach(name, needs) | _reach(name, later)
    return next((f"task '{task.name}'" for task in calling if task.name not in ordered), None)


def find_early_imports(group: TaskGroup) -> tuple[tuple[str, str], ...]:
    """Return the callables of a group of which some may run at the same time, in their order.

    What their modules set when they are imported is to be the same for all of them. Each is a
    target and a folder, as in ``CallPython``.
    """
    calling = _calling(group.tasks)
    blocks = [part for setup in group.setup for part in (setup.nets.init, setup.nets.exit)]
    blocks += [report.report.steps for report in group.reports]
    names = [task.name for task in calling]
    is_ordered = (
        len(set(names)) == len(names)
        and not any(_has_call(report.report.steps) for report in group.reports)
        and not any(_calls_beside_itself(task) for task in calling)
        and find_concurrent_callables(group) is None
    )
    if is_ordered:
        return ()
    callables: dict[tuple[str, str], None] = {}
    for steps in blocks:
        callables.update(_targets(steps))
    for task in calling:
        for steps in _parts(task):
            callables.update(_targets(steps))
        callables.update(dict.fromkeys((source.target, source.folder) for source in _sources(task)))
    return tuple(callables)


def _calling(tasks: Iterable[Task]) -> list[Task]:
    return [
        task for task in tasks if any(_has_call(steps) for steps in _parts(task)) or _sources(task)
    ]


def _calls_beside_itself(task: Task) -> bool:
    """Return whether callables of one task on one node may run at the same time."""
    parallel = [
        step for steps in _parts(task) for step in walk(steps) if isinstance(step, Parallel)
    ]
    if any(sum(map(_has_call, step.branches)) > 1 for step in parallel):
        return True
    reports = [report for report in task.reports if _has_call(report.steps)]
    ways = len(reports) + len(_sources(task)) + _has_call(_body(task))
    return ways > 1 or (ways == 1 and task.instances > 1)


def _body(task: Task) -> tuple[Step, ...]:
    setups: tuple[SetupNets, ...] = task.setup + task.instance_setup
    return (*(step for setup in setups for step in (*setup.init, *setup.exit)), *task.steps)


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
            return [source_class for reader in readers for source_class in _classes(reader.source)]
        case _:
            return []


def _reach(name: str, following: Mapping[str, Sequence[str]]) -> set[str]:
    """Return a task's name, and those of all tasks that can be reached from it."""
    reached, unvisited = {name}, [name]
    for current in unvisited:
        following_names = set(following.get(current, ())) - reached
        reached |= following_names
        unvisited += following_names
    return reached
