"""Read the catalogue of error codes: the Markdown files of this folder, one per area.

A file has one section per code::

    ## E009: a spec is a mapping

    What the fault means and why it is one, in a few sentences.

    Fix: What to do about it.

    ```yaml
    an example that provokes it, if there is one
    ```

To add a code: its section here, ``make manual``, which adds it to the type of codes for mypy
(``core/codes.pyi``), and a test that provokes it.

Nothing is read when the module is imported: only ``jobrun explain`` and tests need the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from jobrun.core.text.patterns import lazy_pattern

_FOLDER = Path(__file__).parent
_SECTION = lazy_pattern(r"^## ([A-Z]\d{3}): (.+)\n", re.MULTILINE)
_EXAMPLE = lazy_pattern(r"^```\w*\n(.*?)\n```$", re.MULTILINE | re.DOTALL)
_FIX = "Fix: "


class Entry(Struct, frozen=True):
    """The section of one error code in the catalogue.

    Attributes:
        title: The fault in a few words.
        explanation: What it means and why it is a fault; paragraphs are separated by an empty line.
        fix: What to do about it.
        example: The smallest spec, command or program that provokes it; may be empty.
        area: The name of its file without the ending, such as ``spec``.
    """

    title: str
    explanation: str
    fix: str
    example: str
    area: str


def read_catalogue() -> dict[str, Entry]:
    """Read the entries of all error codes from the catalogue, sorted by code.

    Raises:
        ValueError: Two sections have the same code.
    """
    entries: dict[str, Entry] = {}
    for path in sorted(_FOLDER.glob("*.md")):
        for code, entry in parse_area(path.read_text(encoding="utf-8"), path.stem):
            if code in entries:
                raise ValueError(f"{code} is in {entries[code].area}.md and in {path.name}")
            entries[code] = entry
    return dict(sorted(entries.items()))


def parse_area(text: str, area: str) -> Iterator[tuple[str, Entry]]:
    """Yield each error code and its entry in the text of a catalogue file, in the file's order."""
    _, *pieces = _SECTION.split(text)
    for code, title, body in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        match = _EXAMPLE.search(body)
        prose = body[: match.start()] if match else body
        paragraphs = [" ".join(paragraph.split()) for paragraph in prose.strip().split("\n\n")]
        fixes = [
            paragraph.removeprefix(_FIX) for paragraph in paragraphs if paragraph.startswith(_FIX)
        ]
        yield (
            code,
            Entry(
                title=title,
                explanation="\n\n".join(
                    paragraph for paragraph in paragraphs if not paragraph.startswith(_FIX)
                ),
                fix="\n\n".join(fixes),
                example=match[1] if match else "",
                area=area,
            ),
        )
