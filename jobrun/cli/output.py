"""How commands write values: JSON documents, sizes, spans of time. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")
_BARS = "▁▂▃▄▅▆▇█"


def document(what: str, content: Mapping[str, Any]) -> str:
    """A JSON document that says which schema it follows."""
    return json_text({"schema": f"jobrun.{what}/1", **content})


def json_text(content: Mapping[str, Any]) -> str:
    """Content as JSON; what JSON has no number for (NaN, infinity) is text."""
    return json.dumps(_plain(dict(content)), indent=2, ensure_ascii=False, allow_nan=False)


def size(count: int) -> str:
    """``1.5 MiB``."""
    value = float(count)
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    return f"{count} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def span(seconds: float) -> str:
    """``30 ms``, ``4.2 s``, ``42 s``, ``3 m 05 s``, ``2 h 07 m``, ``3 d 04 h``."""
    if seconds < 0.9995:
        return f"{max(0, round(seconds * 1000))} ms"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for limit, large, small in ((3600, (60, "m"), (1, "s")), (86400, (3600, "h"), (60, "m"))):
        if whole < 60:
            return f"{whole} s"
        if whole < limit:
            return f"{whole // large[0]} {large[1]} {whole % large[0] // small[0]:02} {small[1]}"
    return f"{whole // 86400} d {whole % 86400 // 3600:02} h"


def number(value: float | int | bool | str) -> str:
    """A metric's value in a few characters."""
    return f"{value:.5g}" if isinstance(value, float) else str(value)


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
