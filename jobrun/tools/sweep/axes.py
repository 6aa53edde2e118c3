"""Parse the axes of a sweep (``lr=0.1,0.2``), and enumerate the points that they span.

Which random points there are depends on the seed and on the axes alone, and the first ones stay
the first ones: asking for more adds to those there were.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import Fault, Origin, UsageError
from jobrun.core.text.patterns import lazy_pattern

MOST_POINTS = 10_000
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_RANGE = lazy_pattern(rf"(?P<log>log:)?(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})")
_WHOLE = lazy_pattern(r"[-+]?\d+")
_PART = lazy_pattern(r'(?:"[^"]*"|\'[^\']*\'|[^,"\'])*')
_HOW = "write NAME=V1,V2 or NAME=LOW..HIGH, such as lr=0.1,0.01 or lr=log:0.001..0.1"


class ValueRange(Struct, frozen=True):
    """A range that an axis draws values from, both ends included.

    Attributes:
        whole: Its values are whole numbers.
        log: Each factor is as likely as any other, not each difference.
    """

    low: float
    high: float
    whole: bool = False
    log: bool = False

    def at(self, part: float) -> str:
        """Return as text the value at a fraction of the range of a sweep's axis.

        Args:
            part: From 0 up to, but not including, 1.
        """
        if self.whole and not self.log:
            return str(int(self.low) + int(part * (int(self.high) - int(self.low) + 1)))
        if self.log:
            value = math.exp(math.log(self.low) + part * (math.log(self.high) - math.log(self.low)))
        else:
            value = self.low + part * (self.high - self.low)
        # Six digits are enough to read, and to distinguish the points.
        return str(round(value)) if self.whole else repr(float(f"{value:.6g}"))

    @property
    def bounds(self) -> tuple[str, str]:
        """Return the first and the last value of a sweep's axis, as text."""
        return tuple(  # type: ignore[return-value]  # there are two
            str(int(end)) if self.whole else repr(end) for end in (self.low, self.high)
        )


class Axis(Struct, frozen=True):
    """One param of a sweep, and the values it takes.

    Attributes:
        path: Of the value in the spec: ``params.lr``, or ``seed``.
        values: As written; empty for a range.
        position: What the axis is called in errors: ``--grid #1``.
    """

    path: str
    values: tuple[str, ...] = ()
    range: ValueRange | None = None
    position: str = ""

    @property
    def name(self) -> str:
        """Return the short name of the sweep's axis for people: ``lr``."""
        return short_name(self.path)

    @property
    def samples(self) -> tuple[str, ...]:
        """Return values of a sweep's axis with which to check the spec: all, or a range's ends."""
        return self.range.bounds if self.range else self.values


# The path of each value, and the value as text.
Point = tuple[tuple[str, str], ...]


def short_name(path: str) -> str:
    """Shorten an axis's param ``params.lr`` to ``lr``."""
    return path.removeprefix("params.")


def parse_axes(texts: Sequence[str], option: str = "--grid") -> tuple[Axis, ...]:
    """Parse the axes of a sweep from their texts.

    Args:
        texts: Such as ``lr=0.1,0.01``.
        option: That of the command line that they come from.

    Raises:
        UsageError: E435, with all that cannot be read.
    """
    axes: list[Axis] = []
    faults: list[Fault] = []
    for number, text in enumerate(texts, 1):
        position = f"{option} #{number}"
        axis = _axis(text, position)
        if isinstance(axis, str):
            faults.append(Fault("E435", axis, _HOW, Origin(position)))
        elif axis.name in {known.name for known in axes}:
            message = f"'{axis.name}' has values already"
            faults.append(Fault("E435", message, "give all its values at once", Origin(position)))
        else:
            axes.append(axis)
    if faults:
        raise UsageError(*faults)
    return tuple(axes)


def list_range(axis: Axis) -> Axis:
    """Return an axis with all whole numbers of its range as values, both ends included.

    Raises:
        UsageError: E436, there are infinitely many; E437, there are too many.
    """
    if axis.range is None:
        return axis
    if not axis.range.whole or axis.range.log:
        raise UsageError.of(
            "E436",
            f"the range of '{axis.name}' has infinitely many values",
            "list the values, or give a range of whole numbers, such as seed=1..8",
            where=Origin(axis.position),
        )
    low, high = int(axis.range.low), int(axis.range.high)
    if high - low >= MOST_POINTS:
        raise _too_many(high - low + 1, "list fewer values", Origin(axis.position))
    return replace(axis, values=tuple(map(str, range(low, high + 1))), range=None)


def _too_many(points: int, mend: str, where: Origin | None = None) -> UsageError:
    message = f"{points} points exceed the limit of {MOST_POINTS}"
    return UsageError.of("E437", message, mend, where=where)


def _axis(text: str, position: str) -> Axis | str:
    """Parse one axis of a sweep; return the axis, or what is wrong with the text."""
    name, equals, values_text = text.partition("=")
    name = name.strip()
    if not equals or not name:
        return f"'{text}' is not NAME=VALUES"
    # The spec's own seed; a param of that name is reached in full.
    path = name if name == "seed" or name.startswith("params.") else f"params.{name}"
    match = _RANGE.fullmatch(values_text.strip())
    if match is not None:
        return _ranged(path, match, position)
    if values_text.startswith("log:"):
        return f"'{values_text}' is not a range"
    values = _parts(values_text)
    if values is None:
        return f"a quote in '{values_text}' has no end"
    if "" in values:
        return f"'{name}' has an empty value"
    # The same value twice would be the same run.
    return Axis(path, tuple(dict.fromkeys(values)), position=position)


def _ranged(path: str, match: re.Match[str], position: str) -> Axis | str:
    low, high = float(match["low"]), float(match["high"])
    if not low < high:
        return f"the range of '{short_name(path)}' has nothing in it"
    if match["log"] and low <= 0:
        return f"the range of '{short_name(path)}' has to begin above 0"
    whole = bool(_WHOLE.fullmatch(match["low"]) and _WHOLE.fullmatch(match["high"]))
    return Axis(path, (), ValueRange(low, high, whole, bool(match["log"])), position)


def _parts(text: str) -> list[str] | None:
    """Split an axis's text at commas outside of quotes; None if a quote is not closed."""
    parts, at = [], 0
    while True:
        match = _PART.match(text, at)
        assert match is not None  # it matches nothing at all, too  # noqa: S101
        parts.append(match[0].strip())
        if match.end() == len(text):
            return parts
        if text[match.end()] != ",":
            return None
        at = match.end() + 1


def enumerate_points(axes: Sequence[Axis], count: int | None, seed: int) -> tuple[Point, ...]:
    """Combine the values of several axes into points: all combinations, or random ones.

    Args:
        axes: The axes.
        count: How many at random; None for all.
        seed: For the random points.

    Raises:
        UsageError: E436, a range without ``count``; E437, too many points.
    """
    ranged = [axis for axis in axes if axis.range]
    if count is None and ranged:
        raise UsageError.of(
            "E436",
            f"the range of '{ranged[0].name}' has infinitely many values",
            "give the number of points to draw, such as --random 20, or list the values",
            where=Origin(ranged[0].position),
        )
    total = math.prod(len(axis.values) for axis in axes if not axis.range)
    wanted = total if count is None else count if ranged else min(count, total)
    if wanted > MOST_POINTS:
        raise _too_many(wanted, "list fewer values, or draw some points with --random N")
    if ranged:
        return tuple(dict.fromkeys(_drawn(axes, seed, number) for number in range(wanted)))
    if count is None:
        return tuple(_numbered(axes, number) for number in range(total))
    return tuple(_numbered(axes, number) for number in _shuffled(total, wanted, seed))


def _drawn(axes: Sequence[Axis], seed: int, number: int) -> Point:
    point = []
    for axis in axes:
        # Seeded by the axis's name: neither the order nor another axis changes the draw.
        part = random.Random(f"{seed}/{number}/{axis.path}").random()  # noqa: S311 - no secret
        value = axis.range.at(part) if axis.range else axis.values[int(part * len(axis.values))]
        point.append((axis.path, value))
    return tuple(point)


def _numbered(axes: Sequence[Axis], number: int) -> Point:
    """Return the combination of axes' values with a given number; the last axis changes fastest."""
    point = []
    for axis in reversed(axes):
        number, index = divmod(number, len(axis.values))
        point.append((axis.path, axis.values[index]))
    return tuple(reversed(point))


def _shuffled(total: int, count: int, seed: int) -> list[int]:
    """Draw ``count`` distinct points of a sweep's axes at random, as numbers below ``total``.

    Not ``random.sample``: its first numbers are others when more are asked for.
    """
    draw = random.Random(f"{seed}")  # noqa: S311 - no secret
    moved: dict[int, int] = {}
    drawn = []
    for index in range(count):
        other = index + int(draw.random() * (total - index))
        drawn.append(moved.get(other, other))
        moved[other] = moved.get(index, index)
    return drawn


def restore_option_name(fault: Fault, places: dict[str, str]) -> Fault:
    """Replace ``--set #2`` in an error message by the sweep's axis from which the value came.

    Args:
        fault: Of the spec with all values of a point.
        places: By the place that ``--set`` gives them, such as ``--set #2``.
    """
    if fault.where is None or fault.where.file not in places:
        return fault
    return replace(fault, where=Origin(places[fault.where.file]))


def shown_value(value: object) -> str:
    """Render a value on a sweep's axis as short text: ``3`` for 3.0, ``0.1`` for 0.1."""
    return f"{value:g}" if isinstance(value, float) else str(value)
