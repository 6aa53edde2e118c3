"""Resolve plain YAML scalars to values by the core schema of YAML 1.2, not that of YAML 1.1.

The older version reads ``no`` as false, ``010`` as 8 and ``1:30`` as 90. Here they are
text; ``old_reading`` says what they used to be, for the error where text does not fit.
"""

from __future__ import annotations

import math

from jobrun.core.text.patterns import lazy_pattern

Value = bool | int | float | str | None

_WORDS: dict[str, Value] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
    ".nan": math.nan, ".NaN": math.nan, ".NAN": math.nan,
}  # fmt: skip
# The first characters that a number can have; most texts of a spec begin with a letter.
_FIRST = frozenset(".+-0123456789")
_INT = lazy_pattern(r"[-+]?(?:0|[1-9][0-9]*)")
_OCTAL = lazy_pattern(r"0o[0-7]+")
_HEX = lazy_pattern(r"0x[0-9a-fA-F]+")
_INTEGERS = ((_INT, 10), (_OCTAL, 8), (_HEX, 16))
_FLOAT = lazy_pattern(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_INFINITY = lazy_pattern(r"([-+]?)\.(?:inf|Inf|INF)")
_LEADING_ZERO = lazy_pattern(r"[-+]?0[0-9]+")

_OLD_BOOL = lazy_pattern(r"(yes|Yes|YES|on|On|ON|y|Y)|(no|No|NO|off|Off|OFF|n|N)")
_OLD_OCTAL = lazy_pattern(r"[-+]?0[0-7]+")
_OLD_DIGITS = lazy_pattern(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?")
_OLD_SEXAGESIMAL = lazy_pattern(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+")

_LONGEST_INT = 66  # 0o and 22 digits need 24; a sign, 0x and 16 digits less
_SMALLEST, _LARGEST = -(2**63), 2**64 - 1


class NumberRangeError(ValueError):
    """A number that no 64-bit type holds. The message says which kind and why."""


def is_text(text: str) -> bool:
    """Return whether a plain YAML scalar is certainly text by the core schema of YAML 1.2."""
    return text not in _WORDS and text[0] not in _FIRST


def resolve(text: str) -> Value:
    """Resolve a plain YAML scalar to its value by the core schema of YAML 1.2.

    Raises:
        NumberRangeError: The text is a number that does not fit 64 bits.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST or _LEADING_ZERO.fullmatch(text):
        return text
    number = _integer(text)
    return number if number is not None else _float(text)


def _integer(text: str) -> int | None:
    base = next((base for pattern, base in _INTEGERS if pattern.fullmatch(text)), None)
    if base is None:
        return None
    # Check the length first: Python refuses thousands of digits, and converts many slowly.
    number = int(text if base == 10 else text[2:], base) if len(text) <= _LONGEST_INT else None
    if number is None or not _SMALLEST <= number <= _LARGEST:
        raise NumberRangeError("this integer has more than 64 bits")
    return number


def _float(text: str) -> float | str:
    infinity = _INFINITY.fullmatch(text)
    if infinity:
        return -math.inf if infinity[1] == "-" else math.inf
    if not _FLOAT.fullmatch(text):
        return text
    number = float(text)
    if math.isinf(number):
        raise NumberRangeError("this number is out of the range of a 64-bit float")
    return number


def old_reading(text: str) -> bool | int | float | None:
    """Return the value that YAML 1.1 gave a plain scalar, or None if it is that of YAML 1.2."""
    match = _OLD_BOOL.fullmatch(text)
    if match:
        return match[1] is not None
    if _OLD_OCTAL.fullmatch(text):
        return int(text, 8)
    if _OLD_SEXAGESIMAL.fullmatch(text) and len(text) <= _LONGEST_INT:
        return _sexagesimal(text.replace("_", ""))
    if _OLD_DIGITS.fullmatch(text) and len(text) <= _LONGEST_INT:
        digits = text.replace("_", "")
        return float(digits) if "." in digits else int(digits)
    return None


def _sexagesimal(text: str) -> int:
    total = 0
    for part in text.lstrip("+-").split(":"):
        total = total * 60 + int(part)
    return -total if text.startswith("-") else total


def both_readings(text: str, expected: str, kind: str) -> tuple[str, str] | None:
    """Explain how YAML 1.1 and YAML 1.2 read a plain scalar whose type is wrong.

    Args:
        text: The text, as written without quotes.
        expected: What is wanted, in words.
        kind: ``bool``, ``number`` or ``duration``.

    Returns:
        The message and the mend; None where the text never meant such a thing.
    """
    old = old_reading(text)
    if old is None or isinstance(old, bool) != (kind == "bool"):
        return None
    reading = str(old).lower() if isinstance(old, bool) else str(old)
    new = str(int(text)) if text.lstrip("+-").isdecimal() else "text"
    message = f"expected {expected}; '{text}' is {reading} in YAML 1.1 and {new} in YAML 1.2"
    if new == reading:
        message = f"expected {expected}; '{text}' has the leading zero of an octal number"
    if kind == "duration":
        return message, f"write {reading}s for seconds, or {reading}m for minutes"
    return message, f"write {reading}" if new in {"text", reading} else f"write {reading} or {new}"
