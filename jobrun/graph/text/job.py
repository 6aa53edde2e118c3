"""Render a whole job as stable text: equal jobs give equal lines, for golden files.

Origins are left out, as they are when graphs are compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import assert_never

from jobrun.core.lazy_dataclass import replace
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
from jobrun.graph.expression_text import render_expr
from jobrun.graph.text.notes import (
    find_queue_links,
    limit_notes,
    node_notes,
    render_queue_link,
    work_notes,
)
from jobrun.graph.text.steps import render_steps
from jobrun.graph.types import Job, Node, Report, Scope, Scopes, SetupNets, Task, TaskGroup


def render_job(job: Job) -> str:
    """Render a whole job as lines of text: params, nodes, groups, state, conditions, policy."""
    lines = [f"job {job.name}", f"seed {job.seed}", f"blas_threads {job.blas_threads}"]
    lines += [f"param {name} = {value!r}" for name, value in job.params]
    lines += [_node(node) for node in job.cluster]
    for group in job.groups:
        lines += _group(group)
    for label, owned in (("state", job.state), ("constants", job.constants)):
        lines += [f"{label} {node}: {', '.join(names)}" for node, names in owned]
    lines += [f"layout {one.name}: {one.layout}" for one in job.layouts]
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
    held = {scope: [name for name, one in scopes if one is scope] for scope in Scope}
    shown = [f"{scope.value}: {' '.join(names)}" for scope, names in held.items() if names]
    return f" [{'; '.join(shown)}]" if shown else ""


def _node(node: Node) -> str:
    """Render a node as a line of the job's text, with the index and family that steps read."""
    if node.count == 1 and node.family in ("", node.name):
        return f"node {node.name}"
    return f"node {node.name}; {node.index} of {node.count} {node.family}"


def _requests(job: Job) -> Iterator[tuple[Node, list[str]]]:
    """Yield, for the text of a job, the nodes that request resources or a host."""
    yield from ((node, node_notes(node)) for node in job.cluster if node_notes(node))


def _limits(job: Job) -> Iterator[tuple[Task, list[str]]]:
    """Yield the rows of a job's text about limits, retries and ``on_error``: task and options."""
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
        f"{one.name}={getattr(policy, one.name)!r}"
        for one in fields(policy)
        if one.compare and getattr(policy, one.name) != getattr(default, one.name)
    ]
    return " ".join(changed) or "default"
