"""A job as an SVG picture, laid out without any other program. Text in, text out.

Groups stand below each other; in a group tasks stand from left to right behind what they wait
for or read from. Colours are the reader's: everything is drawn in ``currentColor``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from jobrun.graph.outline import (
    More,
    Tasks,
    groups_of,
    levels_of,
    needs_edges,
    pipe_edges,
    remote_label,
    task_label,
)
from jobrun.graph.query import remote_by_path
from jobrun.graph.types import Job, TaskGroup

_NOTHING: More = {}
# In pixels of a 12 px font.
_BOX, _LINE, _ACROSS, _DOWN, _MARGIN, _TITLE = 200, 16, 96, 14, 14, 26
_LETTERS = 31
_MOST_TASKS = 60


@dataclass(frozen=True, slots=True)
class _Box:
    lines: tuple[str, ...]
    x: int
    y: int
    dashed: bool = False

    @property
    def height(self) -> int:
        """In user units, which are those of all lengths here."""
        return _LINE * len(self.lines) + 12


@dataclass(frozen=True, slots=True)
class _Frame:
    """A group, drawn at its own origin."""

    title: str
    boxes: tuple[_Box, ...]
    edges: tuple[tuple[int, int, str], ...]
    left_out: int

    @property
    def size(self) -> tuple[int, int]:
        """Width and height, in user units."""
        right = max(box.x + _BOX for box in self.boxes)
        below = max(box.y + box.height for box in self.boxes)
        return right + _MARGIN, below + _MARGIN + (_LINE if self.left_out else 0)


def svg(job: Job, more: More = _NOTHING) -> str:
    """An SVG document; of a very large group the first tasks only, and it says so.

    Args:
        job: What to draw.
        more: Further lines of tasks' boxes.
    """
    frames = [_frame(group, tasks, more) for group, tasks in groups_of(job)]
    width = max((frame.size[0] for frame in frames), default=0) + 2
    height = sum(frame.size[1] + _DOWN for frame in frames) + 2
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="system-ui, sans-serif" font-size="12" '
        f'fill="currentColor" role="img" aria-label="{_text(f"tasks of {job.name}")}">'
    ]
    y = 1
    for frame in frames:
        lines.append(f'<g transform="translate(1 {y})">')
        lines += _drawn(frame, width - 2)
        lines.append("</g>")
        y += frame.size[1] + _DOWN
    return "\n".join([*lines, "</svg>"]) + "\n"


def _frame(group: TaskGroup, tasks: Tasks, more: More) -> _Frame:
    labels = [task_label(task, nodes, more) for task, nodes in tasks[:_MOST_TASKS]]
    edges = [(first, second, "") for first, second in needs_edges(tasks)]
    edges += pipe_edges(group, tasks)
    shown = tuple(edge for edge in edges if max(edge[:2]) < len(labels))
    remote = [remote_label(net, nodes) for net, nodes in remote_by_path(group)][:_MOST_TASKS]
    level = levels_of(len(labels), [edge[:2] for edge in shown]) + [0] * len(remote)
    boxes = _placed([*labels, *remote], level, len(labels))
    again = " — again and again, until a stop condition holds" if group.name == "epoch" else ""
    return _Frame(group.name + again, boxes, shown, len(tasks) - len(labels))


def _placed(labels: Sequence[Sequence[str]], level: Sequence[int], tasks: int) -> tuple[_Box, ...]:
    below: dict[int, int] = {}
    boxes = []
    for at, (lines, column) in enumerate(zip(labels, level, strict=True)):
        x = _MARGIN + column * (_BOX + _ACROSS)
        box = _Box(tuple(lines), x, below.get(column, _TITLE), dashed=at >= tasks)
        below[column] = box.y + box.height + _DOWN
        boxes.append(box)
    return tuple(boxes)


def _drawn(frame: _Frame, width: int) -> Iterator[str]:
    height = frame.size[1]
    yield (
        f'<rect x="0" y="0" width="{width}" height="{height}" rx="6" fill="none" '
        'stroke="currentColor" stroke-opacity="0.35"/>'
    )
    yield f'<text x="{_MARGIN}" y="17" opacity="0.75">{_text(frame.title)}</text>'
    for first, second, words in frame.edges:
        yield from _edge(frame.boxes[first], frame.boxes[second], words)
    for box in frame.boxes:
        yield from _box(box)
    if frame.left_out:
        words = f"and {frame.left_out} more tasks"
        yield f'<text x="{_MARGIN}" y="{height - 8}" opacity="0.75">{words}</text>'


def _box(box: _Box) -> Iterator[str]:
    dash = ' stroke-dasharray="4 3"' if box.dashed else ""
    yield f"<g><title>{_text(' — '.join(box.lines))}</title>"
    yield (
        f'<rect x="{box.x}" y="{box.y}" width="{_BOX}" height="{box.height}" rx="4" '
        f'fill="currentColor" fill-opacity="0.06" stroke="currentColor"{dash}/>'
    )
    for number, line in enumerate(box.lines):
        look = 'font-weight="600"' if number == 0 else 'opacity="0.8"'
        y = box.y + _LINE * (number + 1) + 2
        yield f'<text x="{box.x + 10}" y="{y}" {look}>{_text(_cut(line))}</text>'
    yield "</g>"


def _edge(start: _Box, end: _Box, words: str) -> Iterator[str]:
    """A line with an arrow; one for a queue is thick, and tells of the queue."""
    x, y = start.x + _BOX, start.y + start.height // 2
    right, below = end.x, end.y + end.height // 2
    bend = max(24, (right - x) // 2)
    width = 3 if words else 1.25
    yield f"<g><title>{_text(words)}</title>" if words else "<g>"
    yield (
        f'<path d="M{x} {y}C{x + bend} {y} {right - bend - 6} {below} {right - 6} {below}" '
        f'fill="none" stroke="currentColor" stroke-width="{width}" stroke-opacity="0.6"/>'
        f'<path d="M{right} {below}l-9 -4.5v9z" fill-opacity="0.8"/>'
    )
    if words:
        name = words.partition(":")[0]
        yield (
            f'<text x="{(x + right) // 2}" y="{(y + below) // 2 - 7}" text-anchor="middle" '
            f'font-size="11">{_text(_cut(name, 12))}</text>'
        )
    yield "</g>"


def _cut(line: str, most: int = _LETTERS) -> str:
    return line if len(line) <= most else line[: most - 1] + "…"


def _text(text: str) -> str:
    """Text of a document: what XML cannot hold is replaced."""
    safe = "".join(
        one if one >= " " or one in "\t\n" else "\N{REPLACEMENT CHARACTER}" for one in text
    )
    return escape(safe.encode("utf-8", "replace").decode("utf-8"))
