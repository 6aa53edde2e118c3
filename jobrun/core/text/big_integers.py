"""Write integers of any size as text; Python itself refuses more than 4300 decimal digits.

Converting to decimal takes time with the square of the length. So people are shown the ends of a
longer integer, and programs get all of it in hexadecimal, which is read and written at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jobrun.core.text.patterns import lazy_pattern

if TYPE_CHECKING:
    from decimal import Decimal

# Fewer than 4300 digits, whatever the digits are.
LONG_BITS = 14_000
_SHOWN_DIGITS = 10
_HEX = lazy_pattern(r"-?0x[0-9a-f]{3500,}")
# Enough for the digits that a format of ``e`` or ``g`` asks for.
_PRECISION = 60
_SURE_DIGITS = 50
_EXPONENT_TYPES, _POINT_TYPES = frozenset("eEgG"), frozenset("fF%")


def is_long(value: object) -> bool:
    """Return whether an integer is too big for Python to write it in decimal by default."""
    return type(value) is int and value.bit_length() > LONG_BITS


def integer_text(value: int) -> str:
    """Write an integer for people: all digits, or the first, the last and how many if long."""
    if value.bit_length() <= LONG_BITS:
        return str(value)
    first, count = _first_digits(abs(value))
    last = abs(value) % 10**_SHOWN_DIGITS
    minus = "-" if value < 0 else ""
    return f"{minus}{first}…{last:0{_SHOWN_DIGITS}} ({count} digits)"


def key_text(key: object) -> str:
    """Return a dict's key as text, even an integer with too many digits for Python's ``str``."""
    try:
        return str(key)
    except ValueError:
        return integer_text(key) if isinstance(key, int) else f"a {type(key).__name__}"


def integers_in_hex(value: object) -> object:
    """Replace big integers in nested lists and tuples by their hexadecimal text."""
    if isinstance(value, list | tuple):
        return [type(value).__name__, *map(integers_in_hex, value)]
    return integer_hex(value) if isinstance(value, int) and is_long(value) else value


def _first_digits(value: int) -> tuple[str, int]:
    """Return the leading decimal digits of a long integer, and its number of digits."""
    decimal = _decimal(value)
    text = "".join(map(str, decimal.as_tuple().digits))
    first, count = text[:_SHOWN_DIGITS], decimal.adjusted() + 1
    if text[:_SURE_DIGITS].strip("9") and text[1:_SURE_DIGITS].strip("0"):
        return first, count
    # It is so near to a power of ten that only all digits decide on which side it lies.
    nearest = count if first[0] == "9" else count - 1
    is_more = value >= 10**nearest
    return (
        ("1" + "0" * (_SHOWN_DIGITS - 1), nearest + 1)
        if is_more
        else ("9" * _SHOWN_DIGITS, nearest)
    )


def formatted_integer(value: int, spec: str) -> str:
    """Format an integer of any size by a format of Python's, such as ``,`` or ``.3g``.

    Of a long one, the formats that would need all its digits give ``integer_text``.

    Raises:
        ValueError: The format is not one for integers.
    """
    try:
        return format(value, spec)
    except (ValueError, OverflowError):
        # Raises for what is no format.
        format(0, spec)
        if spec[-1:] in _EXPONENT_TYPES:
            return format(_decimal(value).normalize(), spec)
        if not is_long(value) and spec[-1:] in _POINT_TYPES:
            return format(_decimal(value, LONG_BITS), spec)
        if not is_long(value):
            raise
        return integer_text(value)


def integer_hex(value: int) -> str:
    """Write an integer of any size in hexadecimal: ``0x…``, with the sign in front."""
    return hex(value)


def parse_hex(text: str) -> int | None:
    """Parse the hexadecimal text of a long integer; return None for any other text."""
    return int(text, 16) if _HEX.fullmatch(text) else None


def _decimal(value: int, digits: int = _PRECISION) -> Decimal:
    """Convert a long integer to a Decimal of its leading digits, with its sign and magnitude."""
    # Imported late: hardly any run has such integers.
    from decimal import MAX_EMAX, MIN_EMIN, Decimal, localcontext  # noqa: PLC0415

    with localcontext() as context:
        context.prec = digits
        context.Emax = MAX_EMAX
        context.Emin = MIN_EMIN
        shift = max(0, abs(value).bit_length() - 4 * digits)
        head = abs(value) >> shift
        shifted = Decimal(head) * Decimal(2) ** shift
        return shifted.copy_negate() if value < 0 else shifted
