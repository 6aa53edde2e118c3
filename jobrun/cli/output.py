"""How commands write values: JSON documents, sizes, spans of time, paths. Shows nothing."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from typing import Any

from jobrun.core.quantities import number, size, span

__all__ = [
    "STATUS_COLOURS", "TASK_MARKS", "document", "json_text", "number", "short_path", "size",
    "span", "sparkline",
]  # fmt: skip
# How a run stands, as it is recorded, or seen by whoever looks.
STATUS_COLOURS = {
    "running": "cyan", "finished": "green", "stopped": "yellow", "interrupted": "yellow",
    "failed": "red", "killed": "red",
}  # fmt: skip

TASK_MARKS = {"waiting": "·", "running": "▸", "ended": "✓", "failed": "✗"}
_BARS = "▁▂▃▄▅▆▇█"


def document(what: str, content: Mapping[str, Any]) -> str:
    """A JSON document that says which schema it follows."""
    return json_text({"schema": f"jobrun.{what}/1", **content})


def json_text(content: Mapping[str, Any]) -> str:
    """Content as JSON; what JSON has no number for (NaN, infinity) is text."""
    return json.dumps(_plain(dict(content)), indent=2, ensure_ascii=False, allow_nan=False)


def short_path(path: str) -> str:
    """Relative to the working directory where that is shorter; a URL as it is."""
    if "://" in path:
        return path
    try:
        relative = os.path.relpath(path)
    except OSError:
        # The working directory is gone.
        return path
    return min(relative, path, key=len)


def sparkline(values: list[float], width: int = 16) -> str:
    """The last ``width`` values as bars between their least and their greatest."""
    shown = values[-width:]
    finite = [value for value in shown if math.isfinite(value)]
    if len(finite) < 2:
        return ""
    low, high = min(finite), max(finite)
    scale = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(
        _BARS[round((value - low) * scale)] if math.isfinite(value) else " " for value in shown
    )


def _plain(value: Any) -> Any:
    match value:
        case dict():
            return {str(key): _plain(item) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item) for item in value]
        case float() if not math.isfinite(value):
            return str(value)
        case _:
            return value
