"""A spec as marked text: keys, texts, numbers, comments, by their looks line by line. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from jobrun.tools.report.html import Html, joined, tag, text

_MOST_LETTERS = 200_000
_KEY = re.compile(r"^(\s*(?:- +)*)([\w.$/{}-]+)(:)(?=\s|$)")
_PIECE = re.compile(
    r"""(?P<s>"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')"""
    r"|(?P<c>(?:(?<=\s)|^)\#.*$)"
    r"|(?P<n>(?<![\w.])-?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?(?:ep|ms|s|m|h|d|[KMGT]iB)?(?![\w.]))"
)


def marked(spec: str) -> Html:
    """The text as markup; of a very long one the beginning, and it says so."""
    cut = spec[:_MOST_LETTERS]
    lines = [joined(_line(line)) for line in cut.split("\n")]
    if len(spec) > len(cut):
        lines.append(tag("span", f"… and {len(spec) - len(cut)} letters more", class_="yc"))
    return Html("\n".join(lines))


def _line(line: str) -> Iterator[Html]:
    at = 0
    key = _KEY.match(line)
    if key:
        yield text(key[1])
        yield tag("span", key[2], class_="yk")
        at = key.start(3)
    for found in _PIECE.finditer(line, at):
        yield text(line[at : found.start()])
        yield tag("span", found[0], class_=f"y{found.lastgroup}")
        at = found.end()
    yield text(line[at:])
