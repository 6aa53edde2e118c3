"""Query a graph: list its nodes, names and outputs, and find parts by name or node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, assert_never

from jobrun.core.errors import Origin
from jobrun.graph.effects import Effect
from jobrun.graph.expressions import Expr, OutputRead
from jobrun.graph.readers import CallSource, FileSource, ReadRecords, readers_in
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    DataFile,
    Delete,
    Guard,
    If,
    ItemTarget,
    Load,
    Loop,
    Net,
    Op,
    Parallel,
    Perform,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.traversal import find_parts
from jobrun.graph.types import (
    Job,
    OutputRef,
    RemoteNet,
    Report,
    SetupNets,
    Task,
    TaskGroup,
)


def used_nodes(group: TaskGroup) -> tuple[str, ...]:
    """Query a group for the nodes of its tasks, in the order of first use."""
    return tuple(dict.fromkeys(task.node for task in group.tasks))


def tasks_by_name(group: TaskGroup) -> tuple[tuple[Task, tuple[str, ...]], ...]:
    """Query a group for its declared tasks, each name once, with all its nodes."""
    by_name: dict[str, tuple[Task, list[str]]] = {}
    for task in group.tasks:
        by_name.setdefault(task.name, (task, []))[1].append(task.node)
    return tuple((task, tuple(nodes)) for task, nodes in by_name.values())


def setup_by_name(group: TaskGroup) -> tuple[tuple[SetupNets, tuple[str, ...]], ...]:
    """Query a group for its set-ups (``SetupNets``): each name once, with all its nodes."""
    by_name: dict[str, tuple[SetupNets, list[str]]] = {}
    for setup in group.setup:
        by_name.setdefault(setup.nets.name, (setup.nets, []))[1].append(setup.node)
    return tuple((nets, tuple(nodes)) for nets, nodes in by_name.values())


def reports_by_path(group: TaskGroup) -> tuple[tuple[Report, tuple[str, ...]], ...]:
    """Query a group for its reports (periodic steps), each path once, with all its nodes."""
    by_path: dict[str, tuple[Report, list[str]]] = {}
    for node_report in group.reports:
        by_path.setdefault(node_report.report.path, (node_report.report, []))[1].append(
            node_report.node
        )
    return tuple((report, tuple(nodes)) for report, nodes in by_path.values())


def remote_by_path(group: TaskGroup) -> tuple[tuple[RemoteNet, tuple[str, ...]], ...]:
    """Query a group for its remote nets: each path once, with all nodes that have it."""
    by_path: dict[str, tuple[RemoteNet, list[str]]] = {}
    for net in group.remote:
        by_path.setdefault(net.path, (net, []))[1].append(net.node)
    return tuple((net, tuple(nodes)) for net, nodes in by_path.values())


def find_objects(job: Job) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Query a job for each node's constants that callables change as objects.

    They are made again at every start, and their saved state is loaded. An object that callables
    only read is like any other constant.
    """
    lent: dict[str, set[str]] = {}
    for group in job.groups:
        for task in group.tasks:
            lent.setdefault(task.node, set()).update(task.objects)
    return tuple((node, tuple(sorted(names))) for node, names in lent.items() if names)


def kept_names(job: Job) -> dict[str, tuple[str, ...]]:
    """Query a job for the names that each node keeps between epochs: state and constants."""
    by_node: dict[str, set[str]] = {node.name: set() for node in job.cluster}
    for node, names in (*job.state, *job.constants):
        by_node[node].update(names)
    return {node: tuple(sorted(names)) for node, names in by_node.items()}


def checkpointed_blobs(job: Job) -> dict[str, tuple[str, ...]]:
    """Query a job for the blobs that each node saves in every checkpoint, sorted by name.

    That is fixed when the job is compiled: nothing that runs can add to it. Which of the blobs
    that ``rebuild`` tasks make are objects, whose state is in it too, is known when they are made.
    """
    state = dict(job.state)
    return {node: tuple(sorted(state.get(node, ()))) for node in job.checkpoint.nodes}


def outputs_read_later(job: Job) -> frozenset[OutputRef]:
    """Query a graph for the task outputs that are read after their group has ended.

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


def group_outputs(group: TaskGroup) -> frozenset[OutputRef]:
    """Query a group for the outputs of all its tasks, as a set of ``OutputRef``."""
    return frozenset(
        OutputRef(task.name, task.node, output.name)
        for task in group.tasks
        for output in task.outputs
    )


def _reads(part: Any) -> Iterator[OutputRef]:
    for read in find_parts(part, OutputRead):
        yield OutputRef(read.task, read.node, read.output)


def makers(tasks: Iterable[Task]) -> dict[str, tuple[str, Origin]]:
    """Query a graph for the step that first binds each blob made by its tasks.

    Of steps whose own text names the blob: assignments and calls.
    """
    bound: dict[str, tuple[str, Origin]] = {}
    for task in tasks:
        for step in walk(task.steps):
            for name, position in _bindings(step):
                bound.setdefault(name, position)
    return bound


def _bindings(step: Step) -> Iterator[tuple[str, tuple[str, Origin]]]:
    """Yield the blobs that a step binds by their names, each with where that is written."""
    match step:
        case Net():
            for op in step.ops:
                if isinstance(op, Assign):
                    yield from ((target.name, (op.path, op.origin)) for target in op.targets)
        case CallPython():
            yield from ((name, (step.path, step.origin)) for name in step.outputs)
        case _:
            pass


def has_callables(job: Job) -> bool:
    """Query a job for whether any of its steps calls Python code of the user."""
    return any(isinstance(step, CallPython) for step in iter_steps(job))


def blocks(step: Step) -> tuple[tuple[Step, ...], ...]:
    """Query a step for the lists of steps directly inside it: a loop's body, or branches."""
    match step:
        case UseNet() | Loop() | While() | Guard():
            return (step.steps,)
        case If():
            return (*(then for _, then in step.branches), step.otherwise)
        case Parallel():
            return step.branches
        case _:
            return ()


def walk(steps: tuple[Step, ...]) -> Iterator[Step]:
    """Query steps at any depth: yield each step, and then the steps inside it."""
    for step in steps:
        yield step
        for block in blocks(step):
            yield from walk(block)


def ops(steps: tuple[Step, ...]) -> Iterator[Op]:
    """List all operators in steps, at any depth, in the order in which the spec has them."""
    for step in walk(steps):
        if isinstance(step, Net):
            yield from step.ops


def op_expressions(op: Op) -> tuple[Expr, ...]:
    """Return the expressions of a statement (``Op``): indices of targets, then the value."""
    match op:
        case Assign(targets=targets, value=value):
            items = tuple(target.index for target in targets if isinstance(target, ItemTarget))
            return (*items, value)
        case Augment(target=ItemTarget(index=index), value=value):
            return (index, value)
        case Augment(value=value) | Perform(value=value):
            return (value,)
        case Delete():
            return ()
        case _:
            assert_never(op)


def expressions(step: Step) -> tuple[Expr, ...]:
    """Query one step for its expressions, without those of steps inside it."""
    match step:
        case Effect():
            return step.expressions()
        case Net():
            return tuple(expr for op in step.ops for expr in op_expressions(op))
        case Loop():
            return () if step.count is None else (step.count,)
        case While():
            return (step.condition,)
        case If():
            return tuple(condition for condition, _ in step.branches)
        case Stop():
            return () if step.condition is None else (step.condition,)
        case UseNet() | Guard() | Parallel():
            return ()
        case _:
            assert_never(step)


def iter_steps(job: Job) -> Iterator[Step]:
    """Query a job for all its steps, including set-up and reports, outer before inner ones.

    Those of remote nets run elsewhere, if at all. What a reader reads or calls is yielded as
    the step that would read or call the same.
    """
    for group in job.groups:
        for steps in group.step_lists():
            yield from walk(steps)
    for reader in dict.fromkeys(
        reader
        for group in job.groups
        for task in group.tasks
        if isinstance(task.read, ReadRecords)
        for reader in readers_in(task.read.reader)
    ):
        match reader.source:
            case FileSource(path=path, folder=folder):
                files = (
                    DataFile(field.name, path, member, folder)
                    for field in reader.fields
                    for member in field.members
                )
                yield Load(tuple(files), reader.path, reader.origin)
            case CallSource(target=target, arguments=arguments):
                names = tuple(field.name for field in reader.fields)
                yield CallPython(
                    target, arguments, (), names, path=reader.path, origin=reader.origin
                )
            case _:
                pass
