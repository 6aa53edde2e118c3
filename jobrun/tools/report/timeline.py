"""Draw the timeline of a run as SVG: epochs, saves, and the end of each process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.units import span
from jobrun.tools.report.charts import thin_points
from jobrun.tools.report.html import Html, joined, tag, text
from jobrun.tools.report.run_history import KILLED, History, Invocation

# In pixels. A gap between two processes has one width, however long it was.
_HEIGHT, _TOP, _LEFT, _RIGHT, _BOTTOM, _GAP = 190, 26, 44, 14, 34, 22
_LEAST = 10
_MOST_INVOCATIONS = 60
# A shape for each kind of end, for readers who cannot distinguish the colours.
_ENDS = {
    "finished": ("M-5 0L-1.5 4 5-5", "good"),
    "stopped": ("M-4-4h8v8h-8z", "warn"),
    "interrupted": ("M-4-4h8v8h-8z", "warn"),
    "failed": ("M-5-5L5 5M5-5L-5 5", "bad"),
    KILLED: ("M1-6L-3 1h5L-1 7", "bad"),
    "running": ("M-4-5L5 0L-4 5z", "good"),
}


@dataclass(frozen=True, slots=True)
class _Part:
    """The horizontal extent of one invocation on the timeline."""

    invocation: Invocation
    left: float
    width: float

    def x(self, at: float) -> float:
        """Return the x coordinate of a moment in this part of the timeline."""
        length = self.invocation.ended - self.invocation.started
        share = (at - self.invocation.started) / length if length > 0 else 0.0
        return self.left + self.width * min(1.0, max(0.0, share))


def timeline(history: History, width: int, words: str) -> Html:
    """Draw the timeline of a run as an SVG picture of a given width in pixels.

    Args:
        history: What happened.
        width: Of the picture.
        words: What it shows, for those who do not see it.
    """
    parts = _parts(history.invocations[-_MOST_INVOCATIONS:], width)
    top = max(1, max((one.epoch for one in history.epochs), default=0))
    inside = [*_axes(width, top)]
    for part in parts:
        inside += _part(part, history, top)
    for before, after in pairwise(parts):
        inside += _gap(before, after)
    return tag(
        "svg",
        *inside,
        viewBox=f"0 0 {width} {_HEIGHT}",
        width=width,
        height=_HEIGHT,
        role="img",
        aria_label=words,
        class_="timeline",
    )


def legend() -> Html:
    """Render the legend of the marks on a timeline."""
    marks = [
        ("save", "M0-5V5", "a save"),
        ("again", "M0-5L5 4h-10z", "went on from an epoch"),
        ("pause", "M-2-6v12M2-6v12", "nothing ran"),
    ]
    ends = [(look, path, word) for word, (path, look) in _ENDS.items() if word != "interrupted"]
    items = (
        tag(
            "li", tag("svg", _mark(path, look, 8, 8), width=16, height=16, aria_hidden="true"), said
        )
        for look, path, said in (*marks, *ends)
    )
    words = tag("li", "g1, g2 …: a later generation, begun by going back to an epoch")
    return tag("ul", *items, words, class_="marks")


def _parts(invocations: Sequence[Invocation], width: int) -> list[_Part]:
    room = width - _LEFT - _RIGHT - _GAP * max(0, len(invocations) - 1)
    lengths = [max(0.0, one.ended - one.started) for one in invocations]
    # Each has its least width; what remains is shared out by time.
    least = max(0.5, min(_LEAST, room / max(1, len(lengths))))
    spare, total = max(0.0, room - least * len(lengths)), sum(lengths) or 1.0
    parts = []
    left = float(_LEFT)
    for one, length in zip(invocations, lengths, strict=True):
        wide = least + spare * length / total
        parts.append(_Part(one, left, wide))
        left += wide + _GAP
    return parts


def _axes(width: int, top: int) -> Iterator[Html]:
    for epoch in sorted({0, top // 2, top}):
        y = _y(epoch, top)
        yield tag("path", d=f"M{_LEFT} {y:.1f}H{width - _RIGHT}", class_="grid")
        yield _label(str(epoch), _LEFT - 6, y + 4, "end")
    yield _label("epoch", _LEFT - 6, _TOP - 12, "end")


def _part(part: _Part, history: History, top: int) -> Iterator[Html]:
    one = part.invocation
    base, right = _HEIGHT - _BOTTOM, part.left + part.width
    inside = [each for each in history.epochs if one.started <= each.at <= one.ended]
    points = [(part.left, _y(max(0, one.before), top))]
    points += [(part.x(each.at), _y(each.epoch, top)) for each in inside]
    steps = thin_points(points, max(8, int(part.width)))
    line = "L".join(f"{x:.1f} {y:.1f}" for x, y in [*steps, (right, steps[-1][1])])
    yield tag(
        "rect",
        x=f"{part.left:.1f}",
        y=_TOP - 6,
        width=f"{part.width:.1f}",
        height=base - _TOP + 6,
        class_="span",
    )
    yield tag("path", d=f"M{line}", class_="line")
    saves = {
        round(part.x(save.at)) for save in history.saves if one.started <= save.at <= one.ended
    }
    ticks = "".join(f"M{x} {base + 3}v7" for x in sorted(saves))
    if ticks:
        yield tag("path", d=ticks, class_="save")
    if one.before >= 0:
        words = f"went on from epoch {one.before}, generation {one.generation}"
        yield _mark("M0-5L5 4h-10z", "again", part.left, points[0][1], words)
    path, look = _ENDS.get(one.outcome, _ENDS[KILLED])
    yield _mark(path, look, right, steps[-1][1], f"{one.outcome} {one.reason}".strip())
    if part.width > 60:
        yield _label(span(one.ended - one.started), part.left + part.width / 2, base + 26, "middle")


def _gap(before: _Part, after: _Part) -> Iterator[Html]:
    """Draw on the report's timeline a gap between two processes, or a return to an older epoch."""
    middle = (before.left + before.width + after.left) / 2
    away = max(0.0, after.invocation.started - before.invocation.ended)
    words = f"nothing ran for {span(away)}"
    path = tag(
        "path",
        tag("title", words),
        class_="gap",
        d=f"M{middle - 2:.1f} {_TOP - 6}v{_HEIGHT - _BOTTOM - _TOP + 6}"
        f"M{middle + 2:.1f} {_TOP - 6}v{_HEIGHT - _BOTTOM - _TOP + 6}",
    )
    yield path
    if after.invocation.generation != before.invocation.generation:
        yield _label(f"g{after.invocation.generation}", after.left, _TOP - 12, "start")


def _mark(path: str, look: str, x: float, y: float, words: str = "") -> Html:
    title = joined([tag("title", words)]) if words else Html("")
    place = f"translate({x:.1f} {y:.1f})"
    return tag("g", title, tag("path", d=path), class_=f"mark {look}", transform=place)


def _label(words: str, x: float, y: float, anchor: str) -> Html:
    return tag("text", text(words), x=f"{x:.1f}", y=f"{y:.1f}", text_anchor=anchor)


def _y(epoch: int, top: int) -> float:
    return _HEIGHT - _BOTTOM - (_HEIGHT - _BOTTOM - _TOP) * epoch / top
