"""Draw a job as an SVG picture, laid out without another program.

Groups are below each other; in a group, tasks are to the right of those they wait for or read
from. Everything is drawn in ``currentColor``, so the page decides on colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.drawing.outline import (
    ExtraLines,
    Tasks,
    compute_levels,
    groups_of,
    needs_edges,
    queue_edges,
    remote_label,
    task_label,
)
from jobrun.graph.query import remote_by_path
from jobrun.graph.types import Job, TaskGroup

_NOTHING: ExtraLines = {}
# Lengths in pixels, for a 12 px font.
_BOX, _LINE, _ACROSS, _DOWN, _MARGIN, _TITLE = 200, 16, 96, 14, 14, 26
_MAX_LETTERS = 26
# A letter of most sans-serif fonts is not wider, in the mean, at this size.
_LETTER = 7
_MAX_TASKS = 60


@dataclass(frozen=True, slots=True)
class _Box:
    lines: tuple[str, ...]
    x: int
    y: int
    dashed: bool = False

    @property
    def height(self) -> int:
        """The height of a task's box in the SVG picture, in user units."""
        return _LINE * len(self.lines) + 12


@dataclass(frozen=True, slots=True)
class _Frame:
    """A group's frame in the SVG picture, drawn at its own origin."""

    title: str
    boxes: tuple[_Box, ...]
    edges: tuple[tuple[int, int, str], ...]
    left_out: int

    @property
    def size(self) -> tuple[int, int]:
        """The width and height of a group's frame in the SVG picture, in user units."""
        right = max(box.x + _BOX for box in self.boxes)
        # Whatever the font: it may not be clipped.
        right = max(right, _MARGIN + _LETTER * len(self.title))
        below = max(box.y + box.height for box in self.boxes)
        return right + _MARGIN, below + _MARGIN + (_LINE if self.left_out else 0)


def svg(job: Job, more: ExtraLines = _NOTHING) -> str:
    """Draw a job as an SVG document; of a very large group, draw only the first tasks, and say so.

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
        one if one >= " " or one in "\t\n" else "\N{REPLACEMENT CHARACTER}" for one in text
    )
    return escape(safe.encode("utf-8", "replace").decode("utf-8"))
