"""Draw a job as text for a terminal, as a Mermaid or Graphviz diagram, or as an SVG picture.

All four show the same groups, labels and edges. The SVG is laid out without another program:
groups are below each other; in a group, tasks are to the right of those they wait for or read
from. It is drawn in ``currentColor``, so the page decides on colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise

from msgspec import Struct

from jobrun.core.interpreter import collector_paused
from jobrun.graph.job_text import find_queue_links, queue_notes, render_queue_link, task_notes
from jobrun.graph.query import remote_by_path, tasks_by_name
from jobrun.graph.types import Job, RemoteNet, Task, TaskGroup

# Further lines of a task's label, by its path.
ExtraLines = Mapping[str, Sequence[str]]
# Each declared task once, with its nodes.
Tasks = tuple[tuple[Task, tuple[str, ...]], ...]
_NOTHING: ExtraLines = {}

# Lengths in an SVG picture in pixels, for a 12 px font.
_BOX, _LINE, _ACROSS, _DOWN, _MARGIN, _TITLE = 200, 16, 96, 14, 14, 26
_MAX_LETTERS = 26
# An upper bound of a letter's mean width in most sans-serif fonts at this size.
_LETTER = 7
_MAX_TASKS = 60


@collector_paused()
def ascii(job: Job, more: ExtraLines = _NOTHING) -> str:  # noqa: A001 - the name of the format
    """Draw a job as an ASCII diagram: its groups one below another, with tasks and queues."""
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
    for (before, tasks), (after, _) in pairwise(entry for entry in groups if entry[1]):
        attributes = f"[ltail=cluster_{before.name}, lhead=cluster_{after.name}]"
        lines.append(f"  {before.name}_{len(tasks) - 1} -> {after.name}_0 {attributes};")
    for count in (len(tasks) for group, tasks in groups if group.name == "epoch" and tasks):
        attributes = "ltail=cluster_epoch, lhead=cluster_epoch, constraint=false"
        lines.append(
            f"  epoch_{count - 1} -> epoch_0 [{attributes}, label={_quote('until stop')}];"
        )
    return "\n".join([*lines, "}"]) + "\n"


def _draw_tasks(group: TaskGroup, more: ExtraLines) -> Iterator[str]:
    tasks = tasks_by_name(group)
    level = levels(tasks)
    for task, nodes in sorted(tasks, key=lambda entry: level[entry[0].name]):
        name, notes, *others = task_label(task, nodes, more)
        after = f" <- {', '.join(task.needs)}" if task.needs else ""
        # A long chain would run off the screen.
        indent = "   " * min(level[task.name], 12)
        yield f"{indent}+- [{name}] {notes}{after}"
        yield from (f"{indent}      {line}" for line in others)


def _quote(text: str) -> str:
    """Quote a text for a Graphviz diagram, where its line breaks centre the lines."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _quote_mermaid(text: str) -> str:
    return f'"{_escape_mermaid(text)}"'


def _escape_mermaid(text: str) -> str:
    """Escape a text for a Mermaid diagram, where HTML entities begin with # instead of &."""
    # Replace # first, or it would be replaced inside the other entities.
    for sign, entity in (("#", "#35;"), ('"', "#quot;"), ("<", "#lt;"), (">", "#gt;")):
        text = text.replace(sign, entity)
    return text


class _Box(Struct, frozen=True):
    lines: tuple[str, ...]
    x: int
    y: int
    dashed: bool = False

    @property
    def height(self) -> int:
        """Return the height of a task's box in the SVG picture, in user units."""
        return _LINE * len(self.lines) + 12


class _Frame(Struct, frozen=True):
    """A group's frame in the SVG picture, drawn at its own origin."""

    title: str
    boxes: tuple[_Box, ...]
    edges: tuple[tuple[int, int, str], ...]
    left_out: int

    @property
    def size(self) -> tuple[int, int]:
        """Return the width and height of a group's frame in the SVG picture, in user units."""
        right = max(box.x + _BOX for box in self.boxes)
        # Make room for the title in any font, or it would be clipped.
        right = max(right, _MARGIN + _LETTER * len(self.title))
        below = max(box.y + box.height for box in self.boxes)
        return right + _MARGIN, below + _MARGIN + (_LINE if self.left_out else 0)


def svg(job: Job, more: ExtraLines = _NOTHING) -> str:
    """Draw a job as an SVG document, with only the first tasks of a very large group.

    Args:
        job: What to draw.
        more: Further lines of tasks' boxes, by path.
    """
    frames = [_lay_out(group, tasks, more) for group, tasks in groups_of(job)]
    width = max((frame.size[0] for frame in frames), default=0) + 2
    height = sum(frame.size[1] + _DOWN for frame in frames) + 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="currentColor" role="img" aria-label="{_escape(f"tasks of {job.name}")}">'
    ]
    y = 1
    for frame in frames:
        lines.append(f'<g transform="translate(1 {y})">')
        lines += _draw_frame(frame, width - 2)
        lines.append("</g>")
        y += frame.size[1] + _DOWN
    return "\n".join([*lines, "</svg>"]) + "\n"


def _lay_out(group: TaskGroup, tasks: Tasks, more: ExtraLines) -> _Frame:
    labels = [task_label(task, nodes, more) for task, nodes in tasks[:_MAX_TASKS]]
    edges = [(first, second, "") for first, second in needs_edges(tasks)]
    edges += queue_edges(group, tasks)
    shown = tuple(edge for edge in edges if max(edge[:2]) < len(labels))
    remote = [remote_label(net, nodes) for net, nodes in remote_by_path(group)][:_MAX_TASKS]
    level = compute_levels(len(labels), [edge[:2] for edge in shown]) + [0] * len(remote)
    boxes = _place_boxes([*labels, *remote], level, len(labels))
    again = " — repeated until a stop condition holds" if group.name == "epoch" else ""
    return _Frame(group.name + again, boxes, shown, len(tasks) - len(labels))


def _place_boxes(
    labels: Sequence[Sequence[str]], level: Sequence[int], tasks: int
) -> tuple[_Box, ...]:
    below: dict[int, int] = {}
    boxes = []
    for at, (lines, column) in enumerate(zip(labels, level, strict=True)):
        x = _MARGIN + column * (_BOX + _ACROSS)
        box = _Box(tuple(lines), x, below.get(column, _TITLE), dashed=at >= tasks)
        below[column] = box.y + box.height + _DOWN
        boxes.append(box)
    return tuple(boxes)


def _draw_frame(frame: _Frame, width: int) -> Iterator[str]:
    height = frame.size[1]
    yield (
        f'<rect x="0" y="0" width="{width}" height="{height}" rx="6" fill="none" '
        'stroke="currentColor" stroke-opacity="0.35"/>'
    )
    yield f'<text x="{_MARGIN}" y="17" opacity="0.75">{_escape(frame.title)}</text>'
    for first, second, words in frame.edges:
        yield from _draw_edge(frame.boxes[first], frame.boxes[second], words)
    for box in frame.boxes:
        yield from _draw_box(box)
    if frame.left_out:
        words = f"and {frame.left_out} more tasks"
        yield f'<text x="{_MARGIN}" y="{height - 8}" opacity="0.75">{words}</text>'


def _draw_box(box: _Box) -> Iterator[str]:
    dash = ' stroke-dasharray="4 3"' if box.dashed else ""
    yield f"<g><title>{_escape(' — '.join(box.lines))}</title>"
    yield (
        f'<rect x="{box.x}" y="{box.y}" width="{_BOX}" height="{box.height}" rx="4" '
        f'fill="currentColor" fill-opacity="0.06" stroke="currentColor"{dash}/>'
    )
    for number, line in enumerate(box.lines):
        look = 'font-weight="600"' if number == 0 else 'opacity="0.8"'
        y = box.y + _LINE * (number + 1) + 2
        yield f'<text x="{box.x + 10}" y="{y}" {look}>{_escape(_shorten(line))}</text>'
    yield "</g>"


def _draw_edge(start: _Box, end: _Box, words: str) -> Iterator[str]:
    """Draw an SVG arrow between two tasks; one for a queue is thick and labelled."""
    x, y = start.x + _BOX, start.y + start.height // 2
    right, below = end.x, end.y + end.height // 2
    bend = max(24, (right - x) // 2)
    width = 3 if words else 1.25
    yield f"<g><title>{_escape(words)}</title>" if words else "<g>"
    yield (
        f'<path d="M{x} {y}C{x + bend} {y} {right - bend - 6} {below} {right - 6} {below}" '
        f'fill="none" stroke="currentColor" stroke-width="{width}" stroke-opacity="0.6"/>'
        f'<path d="M{right} {below}l-9 -4.5v9z" fill-opacity="0.8"/>'
    )
    if words:
        name = words.partition(":")[0]
        yield (
            f'<text x="{(x + right) // 2}" y="{(y + below) // 2 - 7}" text-anchor="middle" '
            f'font-size="11">{_escape(_shorten(name, 12))}</text>'
        )
    yield "</g>"


def _shorten(line: str, limit: int = _MAX_LETTERS) -> str:
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _escape(text: str) -> str:
    """Escape text for SVG; characters that XML cannot hold are replaced."""
    safe = "".join(
        character if character >= " " or character in "\t\n" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )
    return escape(safe.encode("utf-8", "replace").decode("utf-8"))


def groups_of(job: Job) -> Iterator[tuple[TaskGroup, Tasks]]:
    """Yield the groups that a drawing shows (all but empty ones), with their tasks."""
    for group in job.groups:
        if group.tasks or group.remote:
            yield group, tasks_by_name(group)


def needs_edges(tasks: Tasks) -> Iterator[tuple[int, int]]:
    """Yield a drawing's arrows for ``needs``, as pairs of positions in the task list."""
    position = {task.name: index for index, (task, _) in enumerate(tasks)}
    for task, _ in tasks:
        for need in task.needs:
            if need in position:
                yield position[need], position[task.name]


def queue_edges(group: TaskGroup, tasks: Tasks) -> Iterator[tuple[int, int, str]]:
    """Yield the arrows of a drawing for queues: from each queue's writers to its readers."""
    position = {task.name: index for index, (task, _) in enumerate(tasks)}
    for link in find_queue_links(group):
        words = f"{link.queue.name}: {', '.join(queue_notes(link.queue))}"
        for writer in link.writers:
            for reader in link.readers:
                yield position[writer], position[reader], words


def task_label(task: Task, nodes: tuple[str, ...], more: ExtraLines) -> list[str]:
    """Return the label of a task in a drawing: its name, its nodes and its options."""
    notes = [f"on {_node_text(nodes)}"]
    return [task.name, ", ".join([*notes, *task_notes(task)]), *more.get(task.path, ())]


def remote_label(net: RemoteNet, nodes: tuple[str, ...]) -> list[str]:
    """Return the label of a remote net (steps run on request): its name and nodes."""
    return [f"remote net {net.name}", f"on {_node_text(nodes)}"]


def levels(tasks: Tasks) -> dict[str, int]:
    """Compute each task's level in a drawing: the length of its longest chain of needs."""
    computed = compute_levels(len(tasks), needs_edges(tasks))
    return {task.name: level for (task, _), level in zip(tasks, computed, strict=True)}


def compute_levels(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """Compute the level of each box in a drawing: the most arrows on a path to the box."""
    level = [0] * count
    followers: list[list[int]] = [[] for _ in range(count)]
    waiting = [0] * count
    for first, second in edges:
        followers[first].append(second)
        waiting[second] += 1
    ready = [at for at in range(count) if waiting[at] == 0]
    for at in ready:  # grows while it is read
        for follower in followers[at]:
            level[follower] = max(level[follower], level[at] + 1)
            waiting[follower] -= 1
            if waiting[follower] == 0:
                ready.append(follower)
    return level


def _node_text(nodes: tuple[str, ...]) -> str:
    return nodes[0] if len(nodes) == 1 else f"{nodes[0]} … {nodes[-1]} ({len(nodes)} nodes)"
