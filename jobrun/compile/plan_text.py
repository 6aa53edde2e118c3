"""What a job will do, as text for people. The same facts as ``plan``, fewer of them."""

from __future__ import annotations

from collections.abc import Iterator

from jobrun.compile.plan import Made, Sizes
from jobrun.graph.conditions import CheckpointPolicy, Probe, StopCondition, StopWhen
from jobrun.graph.data import POSITION_PREFIX
from jobrun.graph.lines import render_steps
from jobrun.graph.notes import node_notes, task_notes
from jobrun.graph.pipes import pipe_text, pipes
from jobrun.graph.query import (
    objects_of,
    remote_by_path,
    reports_by_path,
    setup_by_name,
    tasks_by_name,
)
from jobrun.graph.reader_notes import reader_notes, used_readers
from jobrun.graph.render import render_probe, render_stop
from jobrun.graph.types import Job, Report, SetupNets, Task, TaskGroup
from jobrun.graph.unparse import render_expr
from jobrun.ops.known import Known

_WHEN = {
    "init": "once; at a resume only its rebuild tasks",
    "epoch": "again and again, until a stop condition holds",
    "download": "once, after the last epoch",
    "exit": "once, at the end",
}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MOST_NODES = 6


def plan_text(job: Job, sizes: Sizes | None = None, made: Made | None = None) -> str:
    """The plan, one paragraph per group.

    Args:
        job: The checked job.
        sizes: What is known of state and constants.
        made: What is known of the blobs that tasks make.
    """
    lines = [job.name + (f": {job.description}" if job.description else "")]
    lines += list(_facts(job))
    for reader in used_readers(job):
        what, *how = reader_notes(reader)
        lines.append(_row("reader", f"{reader.name}: {what}"))
        lines += [_row("", note) for note in how]
    for group in job.groups:
        lines += list(_group(group, made or {}))
    lines.append("")
    lines += list(_lasting(job, sizes or {}))
    lines += list(_other_counts(job))
    lines += list(_policy(job.checkpoint))
    lines += [_row("metric", f"{name} = {_probe(probe)}") for name, probe in job.metrics]
    lines += [_row("stop", _stop(condition)) for condition in job.stop]
    if job.deadline is not None:
        early = f"saved {job.deadline.margin_s:g} s before"
        lines.append(_row("deadline", f"{job.deadline.at}, {early}"))
    lines += [_row("fail if", _probe(probe)) for probe in job.fail_if]
    lines += [_row("expect", _probe(probe)) for probe in job.expect]
    lines += list(_exactness(job))
    return "\n".join(lines) + "\n"


def size_text(size_bytes: int) -> str:
    """A number of bytes as people read it."""
    size = float(size_bytes)
    unit = 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size /= 1024
        unit += 1
    return f"{size_bytes} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def _probe(probe: Probe) -> str:
    """What is looked at; over nodes as it was written, or thousands of them would be named."""
    return probe.text if probe.reduce else render_probe(probe)


def _stop(condition: StopCondition) -> str:
    if isinstance(condition, StopWhen):
        return f"when {_probe(condition.probe)}"
    return render_stop(condition)


def _row(label: str, text: str) -> str:
    return f"{label:<11} {text}"


def _facts(job: Job) -> Iterator[str]:
    yield _row("nodes", _some([node.name for node in job.cluster]))
    asking: dict[str, list[str]] = {}
    for node in job.cluster:
        if notes := node_notes(node):
            asking.setdefault(", ".join(notes), []).append(node.name)
    for wishes, names in asking.items():
        yield _row("", f"{_some(names)}: {wishes}")
    if job.params:
        yield _row("params", ", ".join(f"{name} = {value!r}" for name, value in job.params))
    yield _row("seed", str(job.seed))


def _some(names: list[str] | tuple[str, ...]) -> str:
    if len(names) <= _MOST_NODES:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} nodes)"


def _group(group: TaskGroup, made: Made) -> Iterator[str]:
    if not (group.tasks or group.remote):
        return
    yield ""
    yield f"{group.name} ({_WHEN[group.name]})"
    for setup, nodes in setup_by_name(group):
        if setup.name == "readers":
            yield f"  the positions of readers begin at 0 (on {_some(nodes)})"
            continue
        yield from _setup(setup, f"  around all tasks on {_some(nodes)}")
    for report, nodes in reports_by_path(group):
        yield from _report(report, f"  beside all tasks on {_some(nodes)}", "    ")
    for task, nodes in tasks_by_name(group):
        yield from _task(task, nodes, made)
    for pipe in pipes(group):
        yield f"  queue {pipe_text(pipe)}"
    for net, nodes in remote_by_path(group):
        yield f"  remote net {net.name} (on {_some(nodes)}; kept for the session)"
        for setup in net.setup:
            yield from _setup(setup, "    set-up of the net")
        yield from render_steps(net.steps, "    ")


def _task(task: Task, nodes: tuple[str, ...], made: Made) -> Iterator[str]:
    words = [f"on {_some(nodes)}"]
    if task.needs:
        words.append(f"after {', '.join(task.needs)}")
    words += task_notes(task)
    yield f"  {task.name} ({'; '.join(words)})"
    for setup in task.setup:
        yield from _setup(setup, "    set-up of the task")
    for setup in task.instance_setup:
        yield from _setup(setup, "    set-up of each instance")
    yield from render_steps(task.steps, "    ")
    for line in blob_lines(task.path, made):
        yield f"    makes {line}"
    for report in task.reports:
        yield from _report(report, "    report", "      ")
    for output in task.outputs:
        yield f"    output {output.name} = {render_expr(output.value)}"


def _setup(setup: SetupNets, label: str) -> Iterator[str]:
    indent = " " * (len(label) - len(label.lstrip()) + 2)
    for part, steps in (("init", setup.init), ("exit", setup.exit)):
        if steps:
            yield f"{label}, {part}"
            yield from render_steps(steps, indent)


def _report(report: Report, label: str, indent: str) -> Iterator[str]:
    yield f"{label}, every {report.interval_s:g} s and once at the end"
    yield from render_steps(report.steps, indent)


def _lasting(job: Job, sizes: Sizes) -> Iterator[str]:
    yield from _owned("state", job.state, sizes)
    objects = dict(objects_of(job))
    yield from _owned("objects", tuple(objects.items()), {})
    if objects:
        yield _row("", "made anew at every start, and what was saved of them is loaded")
    others = (
        (node, tuple(name for name in names if name not in objects.get(node, ())))
        for node, names in job.constants
    )
    yield from _owned("constants", tuple(one for one in others if one[1]), sizes)


def _owned(
    label: str, owned: tuple[tuple[str, tuple[str, ...]], ...], sizes: Sizes
) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for node, names in owned:
        blobs = ", ".join(_blob(name, sizes.get((node, name))) for name in names)
        alike.setdefault(blobs, []).append(node)
    for blobs, nodes in alike.items():
        yield _row(label, f"{_some(nodes)}: {blobs}")
    known = [sizes.get((node, name)) for node, names in owned for name in names]
    total = [one.size_bytes if one is not None else None for one in known]
    if total and all(size is not None for size in total):
        yield _row("", f"{size_text(sum(size for size in total if size is not None))} in all")


def blob_lines(path: str, made: Made) -> list[str]:
    """One line for each blob that a task makes and of which something is known."""
    return [
        _blob(name, known) for (one, name), known in made.items()
        if one == path and known.dtype is not None
    ]  # fmt: skip


def _blob(name: str, known: Known | None) -> str:
    if known is None or known.dtype is None:
        return name
    if known.shape is None:
        return f"{name} {known.dtype}"
    lengths = "x".join("?" if length is None else str(length) for length in known.shape)
    size = known.size_bytes
    bytes_text = f" ({size_text(size)})" if lengths and size is not None else ""
    return f"{name} {known.dtype}" + (f" {lengths}{bytes_text}" if lengths else "")


def _other_counts(job: Job) -> Iterator[str]:
    """What a resume on another number of nodes does, and does not."""
    if not job.layouts:
        return
    words = [
        f"{one.name} by rows" if one.layout == "rows" else f"{one.name} the same on all"
        for one in job.layouts
    ]
    yield _row("other nodes", f"a resume may have another 'count': {', '.join(words)}")
    declared = {one.name for one in job.layouts}
    left = {
        name for _, names in job.state for name in names
        if name not in declared and not name.startswith(POSITION_PREFIX)
    }  # fmt: skip
    if left:
        yield _row("", f"but not of nodes with {', '.join(sorted(left))}, not declared in 'state'")
    yield _row("", "random streams are those of a node's name; a reader's rows that are left are")
    yield _row("", "divided among its nodes anew")


def _policy(policy: CheckpointPolicy) -> Iterator[str]:
    if not policy.enabled:
        yield _row("checkpoint", "none: a run that is killed starts over")
        return
    yield _row("checkpoint", f"{_how_often(policy)}, of {_some(policy.nodes)}")
    kept = []
    if policy.keep_last:
        kept.append(f"the last {policy.keep_last}")
    if policy.keep_every:
        kept.append(f"every {policy.keep_every}th")
    metric, mode, count = policy.keep_best
    if metric:
        kept.append(f"the {count} with the {mode} {metric}")
    if kept:
        yield _row("", f"kept: {', '.join(kept)}, and that after init")
    if policy.on_error == "warn":
        yield _row("", "a save that fails is told, and the run goes on")
    if policy.node_dir:
        who = policy.collect_to or "the master"
        yield _row("", f"each node writes to its own {policy.node_dir}; an epoch counts when")
        yield _row("", f"{who} has all files, each compared with its checksum")
    if policy.upload is not None and not policy.collect_to:
        which = "the last one" if policy.upload.when == "end" else "each one"
        must = "" if policy.upload.required else "; if that fails, it is told"
        yield _row("", f"{which} is copied to {policy.upload.to}{must}")


def _how_often(policy: CheckpointPolicy) -> str:
    if policy.every_s:
        return f"after init, and every {policy.every_s:g} s at the end of an epoch"
    if policy.every_records:
        return f"after init, every epoch, and every {policy.every_records} records within one"
    if policy.every_epochs == 1:
        return "after init and every epoch"
    return f"after init and every {policy.every_epochs} epochs"


def _exactness(job: Job) -> Iterator[str]:
    if job.exactness.exact:
        yield _row("exact", "a killed and resumed run equals an unbroken one bit for bit")
        return
    yield _row("not exact", "a resumed run may differ from an unbroken one:")
    for path, reason in job.exactness.reasons:
        yield _row("", f"{path}: {reason}")
