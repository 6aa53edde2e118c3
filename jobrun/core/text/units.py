"""Render sizes in bytes, durations and numbers for people."""

from __future__ import annotations

from jobrun.core.text.big_integers import integer_text

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_FACTORS: dict[str, int] = {
    "B": 1,
    **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGTP", 1)},
    **{f"{letter}B": 1000**power for power, letter in enumerate(("k", *"MGTP"), 1)},
}
_SIZES = ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB")


def size(count: int, byte_unit: str = "bytes") -> str:
    """Render a number of bytes with its unit: ``1.5 MiB``, below 1 KiB with ``byte_unit``."""
    value = float(count)
    for unit in _SIZES:
        if value < 1024 or unit == _SIZES[-1]:
            break
        value /= 1024
    return f"{count} {byte_unit}" if unit == _SIZES[0] else f"{value:.1f} {unit}"


def parse_size(text: str) -> int | None:
    """Parse a number of bytes such as ``2GiB``, ``1.5MB`` or ``4096``; None for any other text."""
    digits = text.rstrip("BKMGTPik ")
    unit = text[len(digits) :].strip() or "B"
    if unit not in _FACTORS or not digits.replace(".", "", 1).isdecimal() or not text.isascii():
        return None
    return round(float(digits) * _FACTORS[unit])


def span(seconds: float) -> str:
    """Render a duration with its units: ``30 ms``, ``4.2 s``, ``3 m 05 s``, ``2 h 07 m``."""
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


def parse_span(text: str) -> float | None:
    """Parse a duration such as ``90s``, ``1.5h`` or ``30d`` to seconds; None for any other text.

    Returns:
        Seconds.
    """
    digits = text.rstrip("smhd")
    unit = text[len(digits) :]
    if unit not in _UNITS_S or not digits.replace(".", "", 1).isdecimal() or not text.isascii():
        return None
    return float(digits) * _UNITS_S[unit]


def number(value: float | int | bool | str) -> str:
    """Render a number that has no units as text: floats with five digits."""
    if isinstance(value, float):
        return f"{value:.5g}"
    return integer_text(value) if type(value) is int else str(value)
