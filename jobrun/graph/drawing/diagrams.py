"""Draw a job as text for a terminal, as a Mermaid flowchart and as a Graphviz digraph."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from jobrun.core.garbage_collection import collector_paused
from jobrun.graph.drawing.outline import (
    ExtraLines,
    groups_of,
    levels,
    needs_edges,
    queue_edges,
    remote_label,
    task_label,
)
from jobrun.graph.query import remote_by_path, tasks_by_name
from jobrun.graph.text.notes import find_queue_links, render_queue_link
from jobrun.graph.types import Job, TaskGroup

_NOTHING: ExtraLines = {}


@collector_paused()
def ascii(job: Job, more: ExtraLines = _NOTHING) -> str:  # noqa: A001 - the name of the format
    """Draw a job as an ASCII diagram: groups below each other, tasks by level, queues."""
    lines = [job.name]
    for group in job.groups:
        if not (group.tasks or group.remote):
            continue
        again = "  (repeated until a stop condition holds)" if group.name == "epoch" else ""
        lines.append(f"+- {group.name}{again}")
        lines += [f"|  {line}" for line in _draw_tasks(group, more)]
        lines += [f"|  == {render_queue_link(link)}" for link in find_queue_links(group)]
        for net, nodes in remote_by_path(group):
            name, notes = remote_label(net, nodes)
            lines.append(f"|  .. [{name}] {notes}")
    return "\n".join(lines) + "\n"


@collector_paused()
def mermaid(job: Job, more: ExtraLines = _NOTHING) -> str:
    """Draw a job as a Mermaid diagram: groups as subgraphs, ``needs`` and queues as arrows."""
    lines = ["flowchart TD"]
    for group, tasks in groups_of(job):
        lines.append(f"  subgraph {group.name}_group[{_quote_mermaid(group.name)}]")
        for index, (task, nodes) in enumerate(tasks):
            label = "<br/>".join(_escape_mermaid(line) for line in task_label(task, nodes, more))
            lines.append(f'    {group.name}_{index}["{label}"]')
        for index, (net, nodes) in enumerate(remote_by_path(group)):
            label = "<br/>".join(_escape_mermaid(line) for line in remote_label(net, nodes))
            lines.append(f'    {group.name}_remote_{index}(["{label}"])')
        for first, second in needs_edges(tasks):
            lines.append(f"    {group.name}_{first} --> {group.name}_{second}")
        for first, second, words in queue_edges(group, tasks):
            label = _quote_mermaid(words)
            lines.append(f"    {group.name}_{first} == {label} ==> {group.name}_{second}")
        lines.append("  end")
    names = [group.name for group, _ in groups_of(job)]
    lines += [f"  {before}_group --> {after}_group" for before, after in pairwise(names)]
    if "epoch" in names:
        lines.append("  epoch_group -- until stop --> epoch_group")
    return "\n".join(lines) + "\n"


@collector_paused()
def dot(job: Job, more: ExtraLines = _NOTHING) -> str:
    """Draw a job as a Graphviz diagram: groups as clusters, ``needs`` and queues as arrows."""
    lines = [f"digraph {_quote(job.name)} {{", "  compound=true; node [shape=box];"]
    groups = list(groups_of(job))
    for group, tasks in groups:
        lines.append(f"  subgraph cluster_{group.name} {{")
        lines.append(f"    label={_quote(group.name)};")
        for index, (task, nodes) in enumerate(tasks):
            label = _quote("\n".join(task_label(task, nodes, more)))
            lines.append(f"    {group.name}_{index} [label={label}];")
        for index, (net, nodes) in enumerate(remote_by_path(group)):
            label = _quote("\n".join(remote_label(net, nodes)))
            lines.append(f"    {group.name}_remote_{index} [label={label}, style=dashed];")
        for first, second in needs_edges(tasks):
            lines.append(f"    {group.name}_{first} -> {group.name}_{second};")
        for first, second, words in queue_edges(group, tasks):
            look = f"[label={_quote(words)}, style=bold]"
            lines.append(f"    {group.name}_{first} -> {group.name}_{second} {look};")
        lines.append("  }")
    for (before, tasks), (after, _) in pairwise(one for one in groups if one[1]):
        ends = f"[ltail=cluster_{before.name}, lhead=cluster_{after.name}]"
        lines.append(f"  {before.name}_{len(tasks) - 1} -> {after.name}_0 {ends};")
    for count in (len(tasks) for group, tasks in groups if group.name == "epoch" and tasks):
        ends = "ltail=cluster_epoch, lhead=cluster_epoch, constraint=false"
        lines.append(f"  epoch_{count - 1} -> epoch_0 [{ends}, label={_quote('until stop')}];")
    return "\n".join([*lines, "}"]) + "\n"


def _draw_tasks(group: TaskGroup, more: ExtraLines) -> Iterator[str]:
    tasks = tasks_by_name(group)
    level = levels(tasks)
    for task, nodes in sorted(tasks, key=lambda one: level[one[0].name]):
        name, notes, *others = task_label(task, nodes, more)
        after = f" <- {', '.join(task.needs)}" if task.needs else ""
        # A long chain would run off the screen.
        indent = "   " * min(level[task.name], 12)
        yield f"{indent}+- [{name}] {notes}{after}"
        yield from (f"{indent}      {line}" for line in others)


def _quote(text: str) -> str:
    """Quote a text for a Graphviz diagram; a line break in it centres the lines."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _quote_mermaid(text: str) -> str:
    return f'"{_escape_mermaid(text)}"'


def _escape_mermaid(text: str) -> str:
    """Escape a text for a Mermaid diagram, which reads HTML entities with # in place of &."""
    # The # first, or it would be replaced inside the other entities.
    for sign, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(sign, entity)
    return text
