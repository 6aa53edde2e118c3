"""Build HTML elements safely: text is escaped unless it is markup of this module."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from jobrun.core.text.patterns import lazy_pattern

# Control characters, single surrogates, and marks that turn the direction of a line around.
_UNSEEN = lazy_pattern(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_VOID = frozenset({"br", "hr", "img", "input", "meta", "link"})

Attribute = str | int | float | bool | None


class Html(str):
    """Text that is HTML markup already."""

    __slots__ = ()


def text(words: str) -> Html:
    """Escape a text for HTML; replace invisible characters by their Unicode numbers."""
    return Html(escape(plain(words)))


def plain(words: str) -> str:
    """Replace the invisible characters of a text for HTML by their Unicode numbers."""
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", words)


def tag(name: str, /, *inside: str, **attributes: Attribute) -> Html:
    """Render an HTML element; its content is escaped unless it is ``Html``.

    Args:
        name: Of the element.
        inside: Its content, in order.
        attributes: ``class_`` for ``class``, ``aria_label`` for ``aria-label``; False and None
            leave one out, True writes its name only.
    """
    opened = f"<{name}{''.join(_attribute(*item) for item in attributes.items())}>"
    if name in _VOID:
        return Html(opened)
    return Html(f"{opened}{joined(inside)}</{name}>")


def joined(parts: Iterable[str]) -> Html:
    """Concatenate texts to HTML, and escape each text that is not an ``Html`` already."""
    return Html("".join(part if isinstance(part, Html) else text(part) for part in parts))


def table(head: Iterable[str], rows: Iterable[Iterable[str]], **attributes: Attribute) -> Html:
    """Render an HTML table from headings and rows, in a box that scrolls on narrow screens."""
    first = tag("thead", tag("tr", *(tag("th", cell, scope="col") for cell in head)))
    lines = (tag("tr", *(tag("td", cell) for cell in row)) for row in rows)
    inside = tag("table", first, tag("tbody", *lines), **attributes)
    return tag("div", inside, class_="scroll", tabindex="0", role="group", aria_label="table")


def facts(pairs: Iterable[tuple[str, str]]) -> Html:
    """Render pairs of names and descriptions as an HTML description list (``<dl>``)."""
    items = (tag("div", tag("dt", name), tag("dd", description)) for name, description in pairs)
    return tag("dl", *items)


def data(identity: str, content: Mapping[str, Any]) -> Html:
    """Embed JSON for the page's script, escaped so that no text can end the HTML element."""
    # Escapes of JSON in place of the characters that mean something to HTML.
    content_json = json.dumps(content, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        content_json = content_json.replace(sign, f"\\u{ord(sign):04x}")
    return tag("script", Html(content_json), type="application/json", id=identity)


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    written = name.rstrip("_").replace("_", "-")
    return f" {written}" if value is True else f' {written}="{text(str(value))}"'
