"""Parts of a job that the runner needs by themselves. Pure: from graph values to graph values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from jobrun.graph.data import CallSource, FileSource, Reader
from jobrun.graph.expr import OutputRead
from jobrun.graph.rewrite import parts_of
from jobrun.graph.steps import CallPython, DataFile, Load, Step
from jobrun.graph.types import Job, OutputRef, TaskGroup


def kept_names(job: Job) -> dict[str, tuple[str, ...]]:
    """Per node, what an epoch boundary keeps: the state and the constants, sorted."""
    kept: dict[str, set[str]] = {node.name: set() for node in job.cluster}
    for node, names in (*job.state, *job.constants):
        kept[node].update(names)
    return {node: tuple(sorted(names)) for node, names in kept.items()}


def rebuild_group(init: TaskGroup) -> TaskGroup:
    """The part of init that runs at every start: its ``rebuild`` tasks and what they need.

    Set-up and reports stay where a task stays.
    """
    wanted = {task.name for task in init.tasks if task.rebuild}
    needs = {task.name: task.needs for task in init.tasks}
    reached: set[str] = set()
    while wanted:
        name = wanted.pop()
        reached.add(name)
        wanted.update(need for need in needs.get(name, ()) if need not in reached)
    tasks = tuple(task for task in init.tasks if task.name in reached)
    nodes = {task.node for task in tasks}
    return replace(
        init,
        tasks=tasks,
        setup=tuple(setup for setup in init.setup if setup.node in nodes),
        reports=tuple(report for report in init.reports if report.node in nodes),
    )


def outputs_read_later(job: Job) -> frozenset[OutputRef]:
    """Outputs of init and of the epoch group that are read after their group ended.

    They outlive their group, so they are part of what a checkpoint stores.
    """
    looks = (job.stop, job.fail_if, job.metrics, job.expect)
    after_init = frozenset(_reads((job.epoch, job.download, job.exit, looks)))
    after_epoch = frozenset(_reads((job.download, job.exit, looks)))
    by_init = {task.name for task in job.init.tasks}
    by_epoch = {task.name for task in job.epoch.tasks}
    return frozenset(
        {ref for ref in after_init if ref.task in by_init}
        | {ref for ref in after_epoch if ref.task in by_epoch}
    )


def outputs_of(group: TaskGroup) -> frozenset[OutputRef]:
    """Everything that the tasks of a group give out."""
    return frozenset(
        OutputRef(task.name, task.node, output.name)
        for task in group.tasks
        for output in task.outputs
    )


def steps_of(job: Job) -> Iterator[Step]:
    """Every step of the job, set-up and reports included, outer steps before inner ones.

    Those of remote nets run elsewhere, if at all. What a reader reads or calls stands here as
    the step that would read or call the same.
    """
    groups = tuple(replace(group, remote=()) for group in job.groups)
    kinds: Any = Step
    yield from parts_of(groups, kinds)
    for reader in dict.fromkeys(parts_of(groups, Reader)):
        match reader.source:
            case FileSource(path=path, folder=folder):
                files = (DataFile(one.name, path, one.member, folder) for one in reader.fields)
                yield Load(tuple(files), reader.path, reader.origin)
            case CallSource(target=target, arguments=arguments):
                names = tuple(one.name for one in reader.fields)
                yield CallPython(
                    target, arguments, (), names, path=reader.path, origin=reader.origin
                )
            case _:
                pass


def _reads(thing: Any) -> Iterator[OutputRef]:
    for read in parts_of(thing, OutputRead):
        yield OutputRef(read.task, read.node, read.output)
