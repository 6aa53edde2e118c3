"""How sizes, spans of time and numbers are written for people. Pure; knows no output."""

from __future__ import annotations

_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


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
