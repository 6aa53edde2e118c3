"""Render the plan of a job as text: the main facts, group by group."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from jobrun.compile.plan_document import Sizes, TaskBlobs
from jobrun.core.interpreter import collector_paused
from jobrun.core.text.units import size
from jobrun.graph.checkpoint_policy import WAIT_SHARE, CheckpointPolicy
from jobrun.graph.conditions import Probe, StopCondition, StopWhen
from jobrun.graph.expression_text import render_expr
from jobrun.graph.job_text import (
    find_queue_links,
    node_notes,
    reader_notes,
    render_probe,
    render_queue_link,
    render_steps,
    render_stop,
    task_notes,
    used_readers,
)
from jobrun.graph.query import (
    find_objects,
    remote_by_path,
    reports_by_path,
    setup_by_name,
    tasks_by_name,
)
from jobrun.graph.readers import POSITION_PREFIX
from jobrun.graph.types import Job, Report, SetupNets, Task, TaskGroup
from jobrun.ops.abstract_values import Known

_WHEN = {
    "init": "once; on resume only its rebuild tasks",
    "epoch": "repeated until a stop condition holds",
    "download": "once, after the last epoch",
    "exit": "once, at the end",
}
_MAX_NODES = 6
# Width of a row's label, including the blank behind it.
LABEL_COLUMNS = 12


@collector_paused()
def plan_text(
    job: Job,
    sizes: Sizes | None = None,
    task_blobs: TaskBlobs | None = None,
    loss_bound: str = "",
    measured: Sequence[str] = (),
) -> str:
    """Render the plan of a job as text: what holds for the job, then a paragraph per group.

    Args:
        job: The checked job.
        sizes: What is known of state and constants.
        task_blobs: What is known of the blobs that tasks make.
        loss_bound: How much work a kill loses at most, as far as that was measured, in words.
        measured: What else was measured, in words.
    """
    lines = [job.name + (f": {job.description}" if job.description else "")]
    lines += list(_job_rows(job))
    for reader in used_readers(job):
        summary, *notes = reader_notes(reader)
        lines.append(_format_row("reader", f"{reader.name}: {summary}"))
        lines += [_format_row("", note) for note in notes]
    lines += list(_state_rows(job, sizes or {}))
    lines += list(_resize_rows(job))
    lines += list(_checkpoint_rows(job.checkpoint))
    lines += [_format_row("", text) for text in (loss_bound, *measured) if text]
    for target in job.notify:
        lines.append(_format_row("notify", f"{target.describe()} of {', '.join(target.on)}"))
    lines += [_format_row("adapted", name) for name in job.adapt]
    lines += [_format_row("listener", name) for name in job.listeners]
    lines += [_format_row("metric", f"{name} = {_probe(probe)}") for name, probe in job.metrics]
    lines += [_format_row("stop", _stop(condition)) for condition in job.stop]
    if job.deadline is not None:
        early = f"saved {job.deadline.margin_s:g} s before"
        lines.append(_format_row("deadline", f"{job.deadline.at}, {early}"))
    lines += [_format_row("fail if", _probe(probe)) for probe in job.fail_if]
    lines += [_format_row("expect", _probe(probe)) for probe in job.expect]
    lines += list(_exactness(job))
    # Rendered last, because a large job has many.
    blobs = blob_lines(task_blobs or {})
    for group in job.groups:
        lines += list(_group(group, blobs))
    return "\n".join(lines) + "\n"


def _probe(probe: Probe) -> str:
    """Render a condition or metric in the text of a plan, with the nodes of its blobs.

    As it was written, if it is over many nodes.
    """
    return probe.text if probe.reduce else render_probe(probe)


def _stop(condition: StopCondition) -> str:
    if isinstance(condition, StopWhen):
        return f"when {_probe(condition.probe)}"
    return render_stop(condition)


def _format_row(label: str, text: str) -> str:
    return f"{label:<{LABEL_COLUMNS - 1}} {text}"


def _job_rows(job: Job) -> Iterator[str]:
    yield _format_row("nodes", _shorten([node.name for node in job.cluster]))
    asking: dict[str, list[str]] = {}
    for node in job.cluster:
        if notes := node_notes(node):
            asking.setdefault(", ".join(notes), []).append(node.name)
    for wishes, names in asking.items():
        yield _format_row("", f"{_shorten(names)}: {wishes}")
    if job.params:
        yield _format_row("params", ", ".join(f"{name} = {value!r}" for name, value in job.params))
    yield _format_row("seed", str(job.seed))


def _shorten(names: list[str] | tuple[str, ...]) -> str:
    if len(names) <= _MAX_NODES:
        return ", ".join(names)
    return f"{names[0]} … {names[-1]} ({len(names)} nodes)"


def _group(group: TaskGroup, blobs: Mapping[str, list[str]]) -> Iterator[str]:
    if not (group.tasks or group.remote):
        return
    yield ""
    yield f"{group.name} ({_WHEN[group.name]})"
    for setup, nodes in setup_by_name(group):
        if setup.name == "readers":
            yield f"  the positions of readers begin at 0 (on {_shorten(nodes)})"
            continue
        yield from _setup(setup, f"  around all tasks on {_shorten(nodes)}")
    for report, nodes in reports_by_path(group):
        yield from _report(report, f"  beside all tasks on {_shorten(nodes)}", "    ")
    for task, nodes in tasks_by_name(group):
        yield from _task(task, nodes, blobs.get(task.path, ()))
    for link in find_queue_links(group):
        yield f"  queue {render_queue_link(link)}"
    for net, nodes in remote_by_path(group):
        yield f"  remote net {net.name} (on {_shorten(nodes)}; kept for the session)"
        for setup in net.setup:
            yield from _setup(setup, "    set-up of the net")
        yield from render_steps(net.steps, "    ")


def _task(task: Task, nodes: tuple[str, ...], blobs: Iterable[str]) -> Iterator[str]:
    words = [f"on {_shorten(nodes)}"]
    if task.needs:
        words.append(f"after {', '.join(task.needs)}")
    words += task_notes(task)
    yield f"  {task.name} ({'; '.join(words)})"
    for setup in task.setup:
        yield from _setup(setup, "    set-up of the task")
    for setup in task.instance_setup:
        yield from _setup(setup, "    set-up of each instance")
    yield from render_steps(task.steps, "    ")
    for line in blobs:
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


def _state_rows(job: Job, sizes: Sizes) -> Iterator[str]:
    yield from _owned_rows("state", job.state, sizes)
    objects = dict(find_objects(job))
    yield from _owned_rows("objects", tuple(objects.items()), {})
    if objects:
        yield _format_row("", "made again at every start, and their saved state is loaded")
    others = (
        (node, tuple(name for name in names if name not in objects.get(node, ())))
        for node, names in job.constants
    )
    yield from _owned_rows("constants", tuple(row for row in others if row[1]), sizes)


def _owned_rows(
    label: str, owned: tuple[tuple[str, tuple[str, ...]], ...], sizes: Sizes
) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    for node, names in owned:
        blobs = ", ".join(_blob(name, sizes.get((node, name))) for name in names)
        alike.setdefault(blobs, []).append(node)
    for blobs, nodes in alike.items():
        yield _format_row(label, f"{_shorten(nodes)}: {blobs}")
    known = [sizes.get((node, name)) for node, names in owned for name in names]
    lengths = [blob_type.size_bytes if blob_type is not None else None for blob_type in known]
    known_lengths = [length for length in lengths if length is not None]
    if lengths and len(known_lengths) == len(lengths):
        yield _format_row("", f"{size(sum(known_lengths), 'B')} in total")


def blob_lines(task_blobs: TaskBlobs) -> dict[str, list[str]]:
    """Render, in the text of a plan, a line per blob of a task with known dtype and shape."""
    lines: dict[str, list[str]] = {}
    for (path, name), known in task_blobs.items():
        if known.dtype is not None or known.sequence:
            lines.setdefault(path, []).append(_blob(name, known))
    return lines


def _blob(name: str, known: Known | None) -> str:
    if known is not None and known.sequence:
        count = "" if known.items is None else f" of {len(known.items)}"
        return f"{name} {known.sequence}{count}"
    if known is None or known.dtype is None:
        return name
    if known.shape is None:
        return f"{name} {known.dtype}"
    lengths = "x".join("?" if length is None else str(length) for length in known.shape)
    bytes_text = f" ({size(known.size_bytes, 'B')})" if known.size_bytes is not None else ""
    return f"{name} {known.dtype}" + (f" {lengths}{bytes_text}" if lengths else "")


def _resize_rows(job: Job) -> Iterator[str]:
    """Render lines of the plan's text: whether a resume may use another number of nodes."""
    if not job.layouts:
        return
    words = [
        f"{layout.name} by rows" if layout.layout == "rows" else f"{layout.name} the same on all"
        for layout in job.layouts
    ]
    yield _format_row("other nodes", f"a resume may use another 'count': {', '.join(words)}")
    declared = {layout.name for layout in job.layouts}
    undeclared = {
        name
        for _, names in job.state
        for name in names
        if name not in declared and not name.startswith(POSITION_PREFIX)
    }
    if undeclared:
        yield _format_row(
            "", f"but not of nodes with {', '.join(sorted(undeclared))}, not declared in 'state'"
        )
    yield _format_row(
        "", "random streams depend on the name of the node; the remaining rows of a reader are"
    )
    yield _format_row("", "divided among its nodes again")


def _checkpoint_rows(policy: CheckpointPolicy) -> Iterator[str]:
    if not policy.enabled:
        yield _format_row("checkpoint", "none: a run that is killed starts over")
        return
    yield _format_row("checkpoint", f"{_save_interval(policy)}, of {_shorten(policy.nodes)}")
    yield _format_row("", f"a kill loses at most {_loss_bound(policy)}")
    retained = []
    if policy.keep_last:
        retained.append(f"the last {policy.keep_last}")
    if policy.keep_every:
        retained.append(f"every {policy.keep_every}th")
    metric, mode, count = policy.keep_best
    if metric:
        retained.append(f"the {count} with the {mode} {metric}")
    if retained:
        yield _format_row("", f"kept: {', '.join(retained)}, and the one after init")
    if policy.on_error == "warn":
        yield _format_row("", "a failed save is reported, and the run continues")
    if policy.node_dir:
        who = policy.collect_to or "the master"
        yield _format_row(
            "", f"each node writes to its own {policy.node_dir}; an epoch is committed when"
        )
        yield _format_row("", f"{who} has all files, each verified by its checksum")
    if policy.upload is not None and not policy.collect_to:
        which = "the last one" if policy.upload.when == "end" else "each one"
        must = "" if policy.upload.required else "; a failure is reported"
        yield _format_row("", f"{which} is copied to {policy.upload.to}{must}")


def _save_interval(policy: CheckpointPolicy) -> str:
    if policy.every_s:
        return f"after init, and every {policy.every_s:g} s at the end of an epoch"
    if policy.every_records:
        return f"after init, every epoch, and every {policy.every_records} records within one"
    if policy.is_automatic:
        share = f"{WAIT_SHARE * 100:g} %"
        return f"after init and every epoch (at most {share} of the time)"
    if policy.every_epochs == 1:
        return "after init and every epoch"
    return f"after init and every {policy.every_epochs} epochs"


def _loss_bound(policy: CheckpointPolicy) -> str:
    if policy.every_s:
        return f"{policy.every_s:g} s of work, an epoch, and what is being saved"
    if policy.every_records:
        return f"{policy.every_records} records, and what is being saved"
    if policy.is_automatic:
        times = round(1 / WAIT_SHARE)
        return f"an epoch and {times} times as long as a save takes, 10 minutes at most"
    if policy.every_epochs == 1:
        return "an epoch, and the one that is being saved"
    return f"{policy.every_epochs} epochs, and the one that is being saved"


def _exactness(job: Job) -> Iterator[str]:
    if job.exactness.exact:
        yield _format_row(
            "exact", "a killed and resumed run equals an uninterrupted one bit for bit"
        )
        return
    yield _format_row("not exact", "a resumed run may differ from an uninterrupted one:")
    for path, reason in job.exactness.reasons:
        yield _format_row("", f"{path}: {reason}")
