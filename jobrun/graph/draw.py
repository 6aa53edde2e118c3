"""A job as a picture: for a terminal, for Mermaid and for Graphviz. Text in, text out."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from jobrun.graph.outline import (
    More,
    groups_of,
    levels,
    needs_edges,
    pipe_edges,
    remote_label,
    task_label,
)
from jobrun.graph.pipes import pipe_text, pipes
from jobrun.graph.query import remote_by_path, tasks_by_name
from jobrun.graph.types import Job, TaskGroup

_NOTHING: More = {}


def ascii(job: Job, more: More = _NOTHING) -> str:  # noqa: A001 - the name of the format
    """Groups below each other, tasks by level of ``needs``, one line each; queues; remote nets."""
    lines = [job.name]
    for group in job.groups:
        if not (group.tasks or group.remote):
            continue
        again = "  (repeated until a stop condition holds)" if group.name == "epoch" else ""
        lines.append(f"+- {group.name}{again}")
        lines += [f"|  {line}" for line in _levels(group, more)]
        lines += [f"|  == {pipe_text(pipe)}" for pipe in pipes(group)]
        for net, nodes in remote_by_path(group):
            name, notes = remote_label(net, nodes)
            lines.append(f"|  .. [{name}] {notes}")
    return "\n".join(lines) + "\n"


def mermaid(job: Job, more: More = _NOTHING) -> str:
    """A Mermaid flowchart: groups as subgraphs, ``needs`` as arrows, queues as thick ones."""
    lines = ["flowchart TD"]
    for group, tasks in groups_of(job):
        lines.append(f"  subgraph {group.name}_group[{_mermaid(group.name)}]")
        for index, (task, nodes) in enumerate(tasks):
            label = "<br/>".join(_mermaid_text(line) for line in task_label(task, nodes, more))
            lines.append(f'    {group.name}_{index}["{label}"]')
        for index, (net, nodes) in enumerate(remote_by_path(group)):
            label = "<br/>".join(_mermaid_text(line) for line in remote_label(net, nodes))
            lines.append(f'    {group.name}_remote_{index}(["{label}"])')
        for first, second in needs_edges(tasks):
            lines.append(f"    {group.name}_{first} --> {group.name}_{second}")
        for first, second, words in pipe_edges(group, tasks):
            label = _mermaid(words)
            lines.append(f"    {group.name}_{first} == {label} ==> {group.name}_{second}")
        lines.append("  end")
    names = [group.name for group, _ in groups_of(job)]
    lines += [f"  {before}_group --> {after}_group" for before, after in pairwise(names)]
    if "epoch" in names:
        lines.append("  epoch_group -- until stop --> epoch_group")
    return "\n".join(lines) + "\n"


def dot(job: Job, more: More = _NOTHING) -> str:
    """A Graphviz digraph: groups as clusters, ``needs`` as arrows, queues as thick ones."""
    lines = [f"digraph {_quoted(job.name)} {{", "  compound=true; node [shape=box];"]
    groups = list(groups_of(job))
    for group, tasks in groups:
        lines.append(f"  subgraph cluster_{group.name} {{")
        lines.append(f"    label={_quoted(group.name)};")
        for index, (task, nodes) in enumerate(tasks):
            label = _quoted("\n".join(task_label(task, nodes, more)))
            lines.append(f"    {group.name}_{index} [label={label}];")
        for index, (net, nodes) in enumerate(remote_by_path(group)):
            label = _quoted("\n".join(remote_label(net, nodes)))
            lines.append(f"    {group.name}_remote_{index} [label={label}, style=dashed];")
        for first, second in needs_edges(tasks):
            lines.append(f"    {group.name}_{first} -> {group.name}_{second};")
        for first, second, words in pipe_edges(group, tasks):
            look = f"[label={_quoted(words)}, style=bold]"
            lines.append(f"    {group.name}_{first} -> {group.name}_{second} {look};")
        lines.append("  }")
    for (before, tasks), (after, _) in pairwise(one for one in groups if one[1]):
        ends = f"[ltail=cluster_{before.name}, lhead=cluster_{after.name}]"
        lines.append(f"  {before.name}_{len(tasks) - 1} -> {after.name}_0 {ends};")
    return "\n".join([*lines, "}"]) + "\n"


def _levels(group: TaskGroup, more: More) -> Iterator[str]:
    tasks = tasks_by_name(group)
    level = levels(tasks)
    for task, nodes in sorted(tasks, key=lambda one: level[one[0].name]):
        name, notes, *others = task_label(task, nodes, more)
        after = f" <- {', '.join(task.needs)}" if task.needs else ""
        # A long chain would leave the screen.
        indent = "   " * min(level[task.name], 12)
        yield f"{indent}+- [{name}] {notes}{after}"
        yield from (f"{indent}      {line}" for line in others)


def _quoted(text: str) -> str:
    """A quoted string of DOT; a line break centres the lines."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _mermaid(text: str) -> str:
    return f'"{_mermaid_text(text)}"'


def _mermaid_text(text: str) -> str:
    """Mermaid reads entities as HTML does, with # in the place of &."""
    # The sign that starts an entity first, or it would be replaced in the others.
    for sign, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(sign, entity)
    return text
