"""Format values for command output: JSON documents, sizes, durations, paths."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from jobrun.core.text.big_integers import integer_hex, is_long
from jobrun.core.text.terminal_text import align_cells, printable_json
from jobrun.core.text.units import number, size, span

if TYPE_CHECKING:
    from jobrun.core.resource_usage import ProcessUse
    from jobrun.core.time_use import TimeUse

__all__ = [
    "STATUS_COLOURS",
    "TASK_MARKS",
    "list_resources",
    "list_times",
    "number",
    "render_columns",
    "render_json",
    "render_json_document",
    "render_rows",
    "shorten_path",
    "size",
    "span",
    "wrap_line",
    "wrap_rows",
]
# By the status of a run, as recorded or as determined from outside.
STATUS_COLOURS = {
    "running": "cyan", "finished": "green", "stopped": "yellow", "interrupted": "yellow",
    "failed": "red", "killed": "red",
}  # fmt: skip

TASK_MARKS = {"waiting": "·", "running": "▸", "ended": "✓", "failed": "✗"}


# Columns of a label and of what is behind it that are kept on a narrow terminal.
_LEAST_LABEL, _LEAST_TEXT = 12, 20


def render_rows(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Format labels and texts as lines of two columns that fit a terminal.

    A long text continues below its beginning, and is broken between words only; a long label is
    cut.
    """
    longest = max((len(name) for name, _ in rows), default=0)
    label = min(longest, max(_LEAST_LABEL, width // 3))
    room = max(_LEAST_TEXT, width - label - 4)
    lines = []
    for name, text in rows:
        parts = wrap_line(text, room)
        head = name if len(name) <= label else f"{name[: label - 1]}…"
        for number_, part in enumerate(parts):
            lines.append(f"  {'' if number_ else head:<{label}}  {part}".rstrip())
    return lines


def wrap_line(line: str, width: int, indent: int = 0) -> list[str]:
    """Format a line of command output: wrap it between words at the terminal's width.

    Args:
        line: Perhaps indented, which the first of its parts stays.
        width: Of the terminal, in columns.
        indent: Of the parts behind the first, in columns.
    """
    if len(line) <= width:
        return [line]
    import textwrap  # noqa: PLC0415 - seldom

    return textwrap.wrap(
        line,
        max(width, indent + _LEAST_TEXT),
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def render_json_document(kind: str, content: Mapping[str, Any]) -> str:
    """Format a command's output as JSON text; its field ``schema`` names the format."""
    return render_json({"schema": f"jobrun.{kind}/1", **content})


def render_json(content: Mapping[str, Any]) -> str:
    """Format command output as JSON; NaN, infinity and very long integers become text."""
    import json  # noqa: PLC0415 - for programs only

    text = json.dumps(_plain(dict(content)), indent=2, ensure_ascii=False, allow_nan=False)
    return printable_json(text)


def shorten_path(path: str) -> str:
    """Format a path for command output, relative to the working directory; keep a URL."""
    if "://" in path:
        return path
    try:
        relative = os.path.relpath(path)
    except OSError:
        # The working directory is gone.
        return path
    return min(relative, path, key=len)


def render_columns(rows: Sequence[Sequence[str]], width: int) -> list[str]:
    """Format rows of cells, with heads in the first row, in columns aligned at the right.

    Columns behind the width of the terminal are left out.
    """
    table = align_cells(rows, range(len(rows[0])))
    count = len(rows[0])
    while count > 1 and len("  ".join(table[0][:count])) > width:
        count -= 1
    return ["  ".join(row[:count]).rstrip() for row in table]


def wrap_rows(rows: Sequence[tuple[str, str]], width: int) -> list[str]:
    """Format labels and texts as two columns; a long text continues below its beginning."""
    indent = max((len(label) for label, _ in rows), default=0) + 2
    lines = ("  ".join(row) for row in align_cells(rows))
    return [part for line in lines for part in wrap_line(line, width, indent)]


# Rows of time below this part are not shown.
_LEAST_PART = 0.005
_MOST_PROCESSES = 6


def list_times(times: TimeUse) -> list[str]:
    """Format a run's times as output of commands, a line per activity: ``91 % 5.3 s computing``."""
    whole = times.total_s or 1.0
    rows = [row for row in times.rows() if row[1] >= _LEAST_PART * whole]
    cells = [(f"{seconds / whole:>4.0%}", span(seconds), label) for label, seconds in rows]
    return ["  ".join(row) for row in align_cells(cells, (1,))]


def list_resources(processes: Sequence[ProcessUse]) -> list[tuple[str, str]]:
    """Format memory and processor time of a run's processes as lines for command output."""
    rows = []
    for process in processes[:_MOST_PROCESSES]:
        parts = []
        if process.peak_bytes:
            now = (
                f"{size(process.resident_bytes)} of memory, "
                if process.resident_bytes
                else "memory "
            )
            parts.append(f"{now}at most {size(process.peak_bytes)}")
        parts.append(f"processor {span(process.cpu_s)}")
        if process.read_bytes or process.written_bytes:
            parts.append(
                f"disk {size(process.read_bytes)} read, {size(process.written_bytes)} written"
            )
        if process.gpu_bytes or process.gpu_peak_bytes:
            busy = "" if process.gpu_percent is None else f", {process.gpu_percent:.0f} % busy"
            parts.append(
                f"GPU {size(process.gpu_bytes)}, at most {size(process.gpu_peak_bytes)}{busy}"
            )
        rows += [(process.node or "uses", parts[0]), *(("", part) for part in parts[1:])]
    if len(processes) > _MOST_PROCESSES:
        rows.append(("", f"and {len(processes) - _MOST_PROCESSES} more processes"))
    return rows


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case int() if is_long(value):
            return integer_hex(value)
        case _:
            return value
