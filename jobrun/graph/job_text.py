"""Render a checked job as lines of text: the whole job, its steps, and notes on its options.

Equal jobs give equal lines, for golden files: origins are left out, as they are when graphs are
compared. A step is one line, close to how it is written in a spec. Notes describe the options of a
task, a node, a reader or a queue in a few words.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from msgspec import Struct
from msgspec.structs import replace

from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import (
    Endless,
    Probe,
    StopAfterEpochs,
    StopAfterTime,
    StopCondition,
    StopWhen,
    StopWithoutImprovement,
)
from jobrun.graph.effects import Effect
from jobrun.graph.expression_text import render_expr, render_text
from jobrun.graph.expressions import Index, Name
from jobrun.graph.query import tasks_by_name
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Queue,
    Reader,
    ReadQueue,
    ReadRecords,
    Source,
    ZipSource,
    readers_in,
)
from jobrun.graph.steps import (
    Assign,
    Augment,
    Delete,
    Guard,
    If,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Perform,
    Step,
    Stop,
    Target,
    UseNet,
    While,
)
from jobrun.graph.types import Job, Node, Report, Scope, Scopes, SetupNets, Task, TaskGroup

_SHARES = {
    "none": "",
    "node": "each node reads a part of the rows; other nodes divide",
    "instance": "each instance reads a part of the rows; other instances divide",
}
_DIVIDED_AGAIN = {"epoch": "them again in the next pass", "never": "what is left of the pass"}


def render_job(job: Job) -> str:
    """Render a whole job as lines of text: params, nodes, groups, state, conditions, policy."""
    lines = [f"job {job.name}", f"seed {job.seed}", f"blas_threads {job.blas_threads}"]
    lines += [f"adapt {name}" for name in job.adapt]
    lines += [f"param {name} = {value!r}" for name, value in job.params]
    lines += [_node(node) for node in job.cluster]
    for group in job.groups:
        lines += _group(group)
    for label, owned in (("state", job.state), ("constants", job.constants)):
        lines += [f"{label} {node}: {', '.join(names)}" for node, names in owned]
    lines += [f"layout {layout.name}: {layout.layout}" for layout in job.layouts]
    lines += [f"metric {name}: {render_probe(probe)}" for name, probe in job.metrics]
    lines += [f"stop {render_stop(condition)}" for condition in job.stop]
    lines += [f"fail_if {render_probe(probe)}" for probe in job.fail_if]
    lines += [f"expect {render_probe(probe)}" for probe in job.expect]
    if job.deadline is not None:
        lines.append(f"deadline {job.deadline.at}, {job.deadline.margin_s:g} s before")
    lines += [f"place of {node.name}: {'; '.join(notes)}" for node, notes in _requests(job)]
    lines += [f"limits of {task.full_name}: {'; '.join(notes)}" for task, notes in _limits(job)]
    lines += _checkpoint_lines(job.checkpoint)
    lines.append(f"checkpoint {_policy_text(job.checkpoint)}")
    lines += [f"not exact {path}: {reason}" for path, reason in job.exactness.reasons]
    return "\n".join(lines) + "\n"


def render_probe(probe: Probe) -> str:
    """Render a condition or metric in the text of a whole job, with the node of every blob."""
    if not probe.reduce:
        return render_expr(probe.parts[0])
    return f"{probe.reduce} of {', '.join(render_expr(part) for part in probe.parts)}"


def render_stop(condition: StopCondition) -> str:
    """Render a stop condition of a job in a few words of text."""
    match condition:
        case StopAfterEpochs(epochs=epochs):
            return f"after {epochs} epochs"
        case StopWhen(probe=probe):
            return f"when {render_probe(probe)}"
        case StopAfterTime(seconds=seconds):
            return f"after {seconds:g} s"
        case StopWithoutImprovement():
            return (
                f"when {condition.metric} has no better {condition.mode} for "
                f"{condition.epochs} epochs, by {condition.min_delta:g}"
            )
        case Endless():
            return "never"
        case _:
            assert_never(condition)


def _group(group: TaskGroup) -> Iterator[str]:
    if not (group.tasks or group.setup or group.reports or group.remote):
        return
    yield f"group {group.name} {group.workspace}"
    for setup in group.setup:
        yield f"  around {setup.node}{_scopes(setup.scopes)}"
        yield from _setup(setup.nets, "    ")
    for report in group.reports:
        yield f"  beside {report.node}{_scopes(report.scopes)}"
        yield from _report(report.report, "    ")
    for task in group.tasks:
        yield from _task(task)
    for link in find_queue_links(group):
        yield f"  queue {render_queue_link(link)}"
    for net in group.remote:
        yield f"  remote {net.node}/{net.name} {net.path}"
        for nets in net.setup:
            yield from _setup(nets, "    ")
        yield from render_steps(net.steps, "    ")


def _task(task: Task) -> Iterator[str]:
    words = [f"  task {task.full_name}"]
    if task.instances > 1:
        words.append(f"instances {task.instances}")
    words += work_notes(replace(task, instances=1))
    if task.needs:
        words.append(f"needs {', '.join(task.needs)}")
    yield f"{'; '.join(words)}{_scopes(task.scopes)}"
    for setup in task.setup:
        yield from _setup(setup, "    ")
    for setup in task.instance_setup:
        yield from _setup(setup, "    ")
    yield from render_steps(task.steps, "    ")
    for report in task.reports:
        yield from _report(report, "    ")
    for output in task.outputs:
        yield f"    output {output.name}: {render_expr(output.value)}"


def _setup(setup: SetupNets, indent: str) -> Iterator[str]:
    for part, steps in (("init", setup.init), ("exit", setup.exit)):
        if steps:
            yield f"{indent}{setup.name}.{part}"
            yield from render_steps(steps, f"{indent}  ")


def _report(report: Report, indent: str) -> Iterator[str]:
    yield f"{indent}{report.path} every {report.interval_s:g} s"
    yield from render_steps(report.steps, f"{indent}  ")


def _scopes(scopes: Scopes) -> str:
    held = {scope: [name for name, name_scope in scopes if name_scope is scope] for scope in Scope}
    shown = [f"{scope.value}: {' '.join(names)}" for scope, names in held.items() if names]
    return f" [{'; '.join(shown)}]" if shown else ""


def _node(node: Node) -> str:
    """Render a node as a line of the job's text: its name, index and family."""
    if node.count == 1 and node.family in ("", node.name):
        return f"node {node.name}"
    return f"node {node.name}; {node.index} of {node.count} {node.family}"


def _requests(job: Job) -> Iterator[tuple[Node, list[str]]]:
    """Yield, for the text of a job, the nodes that request resources or a host."""
    yield from ((node, node_notes(node)) for node in job.cluster if node_notes(node))


def _limits(job: Job) -> Iterator[tuple[Task, list[str]]]:
    """Yield the rows of a job's text about time limits, retries and ``on_error``."""
    tasks = (task for group in job.groups for task in group.tasks)
    yield from ((task, limit_notes(task)) for task in tasks if limit_notes(task))


def _checkpoint_lines(policy: CheckpointPolicy) -> list[str]:
    """Render the lines of a job's text about checkpoints: directory and saved nodes."""
    if not policy.enabled:
        return []
    lines = [f"saves {', '.join(policy.nodes)}"] if policy.nodes else []
    return lines + ([f"saves into {policy.directory}"] if policy.directory else [])


def _policy_text(policy: CheckpointPolicy) -> str:
    """Render the settings of a job's checkpoint policy that differ from the defaults."""
    if not policy.enabled:
        return "none"
    default = replace(CheckpointPolicy(), nodes=policy.nodes, directory=policy.directory)
    changed = [
        f"{name}={getattr(policy, name)!r}"
        for name in policy.__struct_fields__
        if name not in policy.uncompared and getattr(policy, name) != getattr(default, name)
    ]
    return " ".join(changed) or "default"


def render_op(op: Op) -> str:
    """Render an operator, such as ``x = a + b``, as the line of text that a spec would have."""
    match op:
        case Assign():
            targets = ", ".join(_target(target) for target in op.targets)
            return f"{targets} = {render_expr(op.value)}"
        case Augment():
            return f"{_target(op.target)} {op.operator}= {render_expr(op.value)}"
        case Perform():
            return render_expr(op.value)
        case Delete():
            return f"del {', '.join(op.names)}"
        case _:
            assert_never(op)


def render_step(step: Step) -> str:
    """Render a step of the graph as one line of text; for a net, only its first operator."""
    match step:
        case Effect():
            return step.line()
        case Net():
            return render_op(step.ops[0]) if step.ops else "nothing"
        case UseNet():
            return f"net {step.net}"
        case Loop():
            return "loop forever" if step.count is None else f"loop {render_expr(step.count)}"
        case While():
            return f"while {render_expr(step.condition)}"
        case If():
            return f"if {render_expr(step.branches[0][0])}"
        case Stop():
            when = "" if step.condition is None else f" if {render_expr(step.condition)}"
            return f"stop {step.target}{when}"
        case Guard():
            return f"guard {step.flag}"
        case Parallel():
            return f"parallel ({len(step.branches)} branches)"
        case _:
            assert_never(step)


def render_steps(steps: tuple[Step, ...], indent: str = "") -> Iterator[str]:
    """Render steps of a job as lines of text, one for each step, with inner steps indented."""
    for step in steps:
        if isinstance(step, Net):
            for op in step.ops:
                yield f"{indent}{render_op(op)}"
            continue
        yield f"{indent}{render_step(step)}"
        yield from _inside(step, f"{indent}  ")


def _inside(step: Step, indent: str) -> Iterator[str]:
    match step:
        case If():
            yield from render_steps(step.branches[0][1], indent)
            for condition, then in step.branches[1:]:
                yield f"{indent[2:]}elif {render_expr(condition)}"
                yield from render_steps(then, indent)
            if step.otherwise:
                yield f"{indent[2:]}else"
                yield from render_steps(step.otherwise, indent)
        case Parallel():
            for index, branch in enumerate(step.branches):
                yield f"{indent}branch {index}"
                yield from render_steps(branch, f"{indent}  ")
        case UseNet() | Loop() | While() | Guard():
            yield from render_steps(step.steps, indent)
        case _:
            pass


def _target(target: Target) -> str:
    if isinstance(target, NameTarget):
        return target.name
    # An index is written as that of a value is, so the expression's form is used.
    return render_expr(Index(Name(target.name), target.index))


def task_notes(task: Task) -> list[str]:
    """Describe in short notes the options of a task, without its needs and nodes."""
    return [*work_notes(task), *limit_notes(task)]


def work_notes(task: Task) -> list[str]:
    """Describe in short notes the options of a task that affect its results."""
    notes = [f"{task.instances} instances"] if task.instances > 1 else []
    notes += [word for word in ("rebuild", "hogwild") if getattr(task, word)]
    notes += [f"reads {name}" for name in [read_name(task)] if name]
    written = [f"{', '.join(write.names)} to {write.queue.name}" for write in task.write]
    return notes + ([f"writes {' and '.join(written)}"] if written else [])


def read_name(task: Task) -> str | None:
    """Return for a note the name of the reader or queue that a task reads, or None."""
    match task.read:
        case ReadRecords(reader=reader):
            return reader.name
        case ReadQueue(queue=queue):
            return queue.name
        case None:
            return None


def limit_notes(task: Task) -> list[str]:
    """Describe in the text of a job, as short notes, a task's time limit and retries."""
    return list(_limit_notes(task))


def node_notes(node: Node) -> list[str]:
    """Describe in short notes the host and the resources that a node requests."""
    notes = [f"host {node.host}"] if node.host else []
    return notes + [f"{name} {amount:g}" for name, amount in node.resources]


def _limit_notes(task: Task) -> Iterator[str]:
    if task.timeout_s:
        yield f"at most {task.timeout_s:g} s"
    if task.retry is not None:
        times = "retry" if task.retry.most == 1 else "retries"
        wait = f" after {task.retry.backoff_s:g} s" if task.retry.backoff_s else ""
        yield f"{task.retry.most} {times}{wait}"
    if task.on_error == "warn":
        yield "a failure is only reported"


def used_readers(job: Job) -> tuple[Reader, ...]:
    """List the readers that a job's tasks read, and those inside ``zip``, for its text."""
    readers: dict[str, Reader] = {}
    for group in job.groups:
        for task in group.tasks:
            if isinstance(task.read, ReadRecords):
                for reader in readers_in(task.read.reader):
                    readers.setdefault(reader.name, reader)
    return tuple(readers.values())


def reader_notes(reader: Reader) -> tuple[str, ...]:
    """Describe in short notes a reader: its records, then batches, order and limits."""
    fields = ", ".join(_field(field) for field in reader.fields)
    return (f"{fields} from {_source(reader.source)}", *_notes(reader))


def _field(field: Field) -> str:
    if field.lengths is not None:
        return f"{field.name} = {field.member} cut by {field.lengths}"
    return field.name if field.member in ("", field.name) else f"{field.name} = {field.member}"


def _source(source: Source) -> str:
    match source:
        case FileSource(path=path):
            return render_text(path)
        case BlobSource(values=values):
            return "blobs " + ", ".join(render_expr(value) for _, value in values)
        case CounterSource(start=start, stop=stop, step=step):
            end = "without end" if stop is None else f"to {stop}"
            return f"numbers from {start} {end}" + (f" by {step}" if step != 1 else "")
        case CallSource(target=target):
            return target
        case ZipSource(readers=readers):
            return " beside ".join(reader.name for reader in readers)
        case _:
            assert_never(source)


def _notes(reader: Reader) -> Iterator[str]:
    if reader.batch:
        yield f"batches of {reader.batch}" + (", full ones only" if reader.drop_last else "")
    if reader.shuffle:
        yield "shuffled by seed and pass"
    if reader.restart == "never":
        yield "continues where the last epoch ended"
    if reader.limit is not None:
        yield f"at most {reader.limit} records an epoch"
    if reader.time_limit_s:
        yield f"at most {reader.time_limit_s:g} s an epoch"
    if reader.delay_s:
        yield f"{reader.delay_s:g} s before each record"
    if reader.shard != "none":
        yield f"{_SHARES[reader.shard]} {_DIVIDED_AGAIN[reader.restart]}"


class QueueLink(Struct, frozen=True):
    """A queue in one group, with its writers and readers.

    Attributes:
        names: The names in its records.
        writers: Names of the tasks that write to it, in the order of the spec.
        readers: Names of the tasks that read from it.
    """

    queue: Queue
    names: tuple[str, ...]
    writers: tuple[str, ...]
    readers: tuple[str, ...]


def find_queue_links(group: TaskGroup) -> tuple[QueueLink, ...]:
    """Find which tasks of a group are linked by queues, to write notes about the queues."""
    queues: dict[str, tuple[Queue, tuple[str, ...]]] = {}
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    for task, _ in tasks_by_name(group):
        for write in task.write:
            queues.setdefault(write.queue.name, (write.queue, write.names))
            writers.setdefault(write.queue.name, []).append(task.name)
        if isinstance(task.read, ReadQueue):
            queues.setdefault(task.read.queue.name, (task.read.queue, task.read.names))
            readers.setdefault(task.read.queue.name, []).append(task.name)
    return tuple(
        QueueLink(queue, names, tuple(writers.get(name, ())), tuple(readers.get(name, ())))
        for name, (queue, names) in queues.items()
    )


def queue_notes(queue: Queue) -> list[str]:
    """Describe in short notes the options of a queue between tasks."""
    notes = [f"room for {queue.capacity}"]
    notes += [word for word in ("ordered", "shared") if getattr(queue, word)]
    return notes + ([f"{queue.batch} at a time"] if queue.batch else [])


def render_queue_link(link: QueueLink) -> str:
    """Render the note about a queue: ``prep => batches (room for 100) => sgd``."""
    notes = ", ".join(queue_notes(link.queue))
    endpoints = ", ".join(link.writers), ", ".join(link.readers)
    return f"{endpoints[0]} => {link.queue.name} ({notes}) => {endpoints[1]}"
