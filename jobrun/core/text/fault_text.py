"""Render faults as text with the source lines they point at, for GitHub Actions, and as JSON."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from jobrun.core.errors import Fault, Origin
from jobrun.core.text.terminal_text import visible

_WIDEST = 100
_BEFORE_CARET = 40
_GUTTER = 5


class Excerpt(Struct, frozen=True):
    """The line a fault is about, made safe to print and cut to a width.

    Attributes:
        number: The line's number; empty for an option of the command line.
        text: What to show of the line.
        indent: Columns of the screen from the start of ``text`` to the first caret.
        carets: How many carets.
    """

    number: str
    text: str
    indent: int
    carets: int


def headline(fault: Fault) -> str:
    """Render a fault's headline: error or warning, file:line:column, spec path, what is wrong."""
    where = f"{fault.where}  " if fault.where else ""
    path = f"{fault.path}: " if fault.path else ""
    return visible(f"{fault.severity}[{fault.code}] {where}{path}{fault.message}")


def excerpt(fault: Fault, files: Mapping[str, str]) -> Excerpt | None:
    """Return the source line of a fault, shortened to print below the fault's text, or None.

    Args:
        fault: With or without a place.
        files: Texts of files, and of options (``--set #1``), by the name in places.
    """
    if fault.where is None or fault.where.file not in files:
        return None
    text = files[fault.where.file]
    if fault.where.line == 0:
        return _of_option(text)
    line = _line(text, fault.where.line)
    return None if line is None else _window(str(fault.where.line), line, fault.where)


def _of_option(text: str) -> Excerpt | None:
    if "\n" in text or not text.strip():
        return None
    start = text.find("=") + 1
    position = Origin("", 1, start + 1, max(1, len(text) - start))
    return _window("", text, position)


def _line(text: str, number: int) -> str | None:
    # Not splitlines: a position counts only the line ends that an editor counts.
    lines = text.split("\n", number)
    return lines[number - 1].rstrip("\r") if number <= len(lines) else None


def _window(number: str, line: str, position: Origin) -> Excerpt:
    at = min(max(position.column - 1, 0), len(line))
    start = 0
    if len(line) > _WIDEST:
        start = max(0, min(at - _BEFORE_CARET, len(line) - _WIDEST))
    end = min(len(line), start + _WIDEST)
    shown = visible(line[start:end])
    shown = ("…" + shown[1:]) if start > 0 else shown
    shown = (shown[:-1] + "…") if end < len(line) else shown
    marked = shown[at - start : at - start + max(1, position.length)]
    return Excerpt(number, shown, _width(shown[: at - start]), max(1, _width(marked)))


def _width(text: str) -> int:
    """Count the terminal columns of a line in a fault's text, where some letters take two."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(char) in "WF" for char in text)
    return len(text) + wide - sum(bool(unicodedata.combining(char)) for char in text)


def render(fault: Fault, files: Mapping[str, str]) -> str:
    """Render a fault for a terminal: headline, source line, carets and fix."""
    lines = [headline(fault)]
    shown = excerpt(fault, files)
    mend = visible(fault.mend)
    if shown is not None:
        carets = " " * shown.indent + "^" * shown.carets
        lines.append(f"{shown.number:>{_GUTTER}} | {shown.text}".rstrip())
        lines.append(f"{'':>{_GUTTER}} | {carets} {mend}".rstrip())
    elif mend:
        lines.append(f"{'':>{_GUTTER}} = {mend}")
    return "\n".join(lines)


def render_github(fault: Fault) -> str:
    """Render a fault as text for GitHub Actions: an annotation such as ``::error file=…``."""
    properties = []
    where = fault.where
    if where is not None and where.line:
        properties += [
            f"file={_property(where.file)}",
            f"line={where.line}",
            f"col={where.column}",
            f"endColumn={where.column + where.length}",
        ]
    properties.append(f"title={_property(f'jobrun {fault.code}')}")
    option = f"{where}  " if where is not None and not where.line else ""
    path = f"{fault.path}: " if fault.path else ""
    mend = f"\n{fault.mend}" if fault.mend else ""
    message = _data(f"{option}{path}{fault.message}{mend}")
    return f"::{fault.severity} {','.join(properties)}::{message}"


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return visible(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def as_json(faults: Iterable[Fault]) -> dict[str, Any]:
    """Render faults as one JSON value (``jobrun.faults/1``): items, and counts by severity."""
    listed = list(faults)
    return {
        "schema": "jobrun.faults/1",
        "errors": sum(fault.severity == "error" for fault in listed),
        "warnings": sum(fault.severity == "warning" for fault in listed),
        "faults": [as_item(fault) for fault in listed],
    }


def as_item(fault: Fault) -> dict[str, Any]:
    """Render a fault's text as a JSON object: code, message, advice and position."""
    where = fault.where
    at_line = where if where is not None and where.line else None
    return {
        "code": fault.code,
        "severity": fault.severity,
        "message": fault.message,
        "mend": fault.mend,
        "path": fault.path,
        "file": where.file if where is not None else None,
        "line": at_line.line if at_line is not None else None,
        "column": at_line.column if at_line is not None else None,
        "length": at_line.length if at_line is not None else None,
    }


def summary(faults: Iterable[Fault]) -> str:
    """Count faults in words, such as ``3 errors, 1 warning``; empty for none."""
    listed = list(faults)
    counts = []
    for severity in ("error", "warning"):
        count = sum(fault.severity == severity for fault in listed)
        if count:
            counts.append(f"{count} {severity}{'' if count == 1 else 's'}")
    return ", ".join(counts)
