"""Render the checkpoints of a run as a section of its report, with the newest one's blobs."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator

from jobrun.core.text.units import number, size, span
from jobrun.tools.blob_text import dtype_name, value_text
from jobrun.tools.report.histogram import Histogram
from jobrun.tools.report.html import Html, joined, table, tag
from jobrun.tools.report.pictures import DrawnBlob, Picture, png
from jobrun.tools.report.report_data import Stored
from jobrun.tools.report.run_history import History

_MOST_EPOCHS = 25
_MOST_CARDS = 600
_MOST_LETTERS = 400
# A picture is shown so large at least, so that single items can be seen.
_SIDE = 280


def stored_section(stored: Stored, history: History) -> Html:
    """Render the report's section about the checkpoints of a run."""
    parts = []
    if not stored.epochs:
        parts.append(tag("p", stored.fault or "There is no checkpoint.", class_="note"))
        return joined(parts)
    parts.append(_epochs(stored, history))
    if stored.fault:
        parts.append(tag("p", stored.fault, class_="bad why"))
    if stored.newest is not None:
        age = f"saved {span(stored.newest.age_s)} before this page was made, every byte verified"
        parts.append(tag("h3", f"The state after epoch {stored.newest.epoch}"))
        parts.append(tag("p", age, class_="note"))
        parts.append(blob_cards(stored.blobs))
    return joined(parts)


def blob_cards(blobs: tuple[DrawnBlob, ...]) -> Html:
    """Render a card for each blob in the checkpoints section, with its picture or histogram."""
    several = len({one.node for one in blobs}) > 1
    cards = (_card(one, several=several) for one in blobs[:_MOST_CARDS])
    drawn = tag("div", *cards, class_="blobs")
    more = len(blobs) - _MOST_CARDS
    return joined((drawn, tag("p", f"and {more} more blobs"))) if more > 0 else drawn


def _epochs(stored: Stored, history: History) -> Html:
    saves = {one.epoch: one for one in history.saves}
    shown = stored.epochs[-_MOST_EPOCHS:]
    rows = []
    for epoch in reversed(shown):
        save = saves.get(epoch)
        save_cells = (size(save.size_bytes), span(save.seconds)) if save else ("-", "-")
        rows.append((str(epoch), *save_cells, "yes" if epoch in stored.pinned else ""))
    more = len(stored.epochs) - len(shown)
    words = f"{len(stored.epochs)} epochs are stored, {stored.epochs[0]} to {stored.epochs[-1]}."
    words += f" The newest {len(shown)} are listed." if more else ""
    box = table(("epoch", "size", "saved in", "pinned"), rows)
    return joined((tag("p", words), tag("details", tag("summary", "List of epochs"), box)))


def _card(one: DrawnBlob, *, several: bool) -> Html:
    facts = one.facts
    name = f"{one.node}.{facts.name}" if several else facts.name
    kind = dtype_name(facts.dtype)
    if facts.kind != "array":
        kind = f"numpy {kind}" if facts.kind == "numpy" else facts.kind
    shape = " x ".join(map(str, facts.shape))
    words = ", ".join(filter(None, (kind, shape, size(facts.size_bytes))))
    parts = [tag("h4", name), tag("p", words, class_="note")]
    if not facts.shape:
        parts.append(tag("p", tag("code", _cut(value_text(facts.value)))))
    elif facts.minimum is not None and facts.mean is not None and facts.maximum is not None:
        ends = (
            f"min {number(facts.minimum)}, mean {number(facts.mean)}, max {number(facts.maximum)}"
        )
        parts.append(tag("p", ends))
    if facts.nans:
        parts.append(tag("p", f"{facts.nans} NaN", class_="bad"))
    if one.histogram is not None:
        parts.append(_histogram(one.histogram, name))
    if one.pictures:
        parts.append(
            tag("div", *(_picture(each, name) for each in one.pictures), class_="pictures")
        )
    return tag("section", *parts, class_="blob", aria_label=f"blob {name}")


def _histogram(found: Histogram, name: str) -> Html:
    most = max(found.counts)
    bars = _bars(found.counts, most)
    words = f"histogram of {name}: {len(found.counts)} bins, at most {most} in one"
    drawing = tag(
        "svg",
        *bars,
        viewBox=f"0 0 {len(found.counts) * 10} 100",
        preserveAspectRatio="none",
        class_="hist",
        role="img",
        aria_label=words,
    )
    of = f"{found.of}, " if found.of else ""
    sample = f"one of {found.step} values" if found.step > 1 else ""
    middle = f"{of}{sample}".strip(", ")
    ends = (number(found.low), middle, number(found.high))
    return joined((drawing, tag("div", *(tag("span", end) for end in ends), class_="ends")))


def _bars(counts: tuple[int, ...], most: int) -> Iterator[Html]:
    for at, count in enumerate(counts):
        if count:
            # What is there is seen, however little of it.
            height = max(1.5, 100 * count / most)
            y = f"{100 - height:.1f}"
            yield tag("rect", x=at * 10, y=y, width=9, height=f"{height:.1f}")


def _picture(drawn: Picture, name: str) -> Html:
    height, width = drawn.shades.shape
    zoom = max(1, _SIDE // max(height, width))
    words = f"rows as {drawn.tile} x {drawn.tile}" if drawn.tile else "as a picture"
    if drawn.steps != (1, 1):
        words += f", one of {drawn.steps[0]} rows and of {drawn.steps[1]} columns"
    address = f"data:image/png;base64,{b64encode(png(drawn)).decode()}"
    image = tag("img", src=address, width=width * zoom, height=height * zoom, alt=f"{name} {words}")
    return tag("figure", image, tag("figcaption", words))


def _cut(words: str) -> str:
    return words if len(words) <= _MOST_LETTERS else words[:_MOST_LETTERS] + "…"
