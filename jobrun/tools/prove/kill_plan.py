"""Plan where and when a proof's trials kill the run, from a seed; kill nothing."""

from __future__ import annotations

import random
from collections.abc import Mapping

from jobrun.core.lazy_dataclass import dataclass

# An epoch is saved, and the run has reported it.
_SAVED = "runner.acknowledged"


@dataclass(frozen=True, slots=True)
class AtPoint:
    """A kill at the ``occurrence``-th time (from 1) that a failpoint is reached."""

    point: str
    occurrence: int

    @property
    def place(self) -> str:
        """The failpoint of a planned kill, as text for a table."""
        return self.point

    def __str__(self) -> str:
        return f"{self.point}:{self.occurrence}"


@dataclass(frozen=True, slots=True)
class AtTime:
    """A kill so many seconds after the start."""

    after_s: float

    @property
    def place(self) -> str:
        """The time of a planned kill, as text for a table."""
        return "at a random instant"

    def __str__(self) -> str:
        return f"after {self.after_s * 1000:.0f} ms"


Kill = AtPoint | AtTime


@dataclass(frozen=True, slots=True)
class Trial:
    """The plan of one copy of the run: where it is killed, and where its resumes are."""

    number: int
    kills: tuple[Kill, ...]

    def __str__(self) -> str:
        return ", then ".join(map(str, self.kills))


@dataclass(frozen=True, slots=True)
class Course:
    """The course of an unbroken run, from which kills are planned.

    Attributes:
        reached: How often it reached each place.
        first_s: When it reached the first, from its start; before that it only imports.
        seconds: How long it took.
    """

    reached: Mapping[str, int]
    first_s: float
    seconds: float


def plan_trials(course: Course, count: int, seed: int = 0) -> tuple[Trial, ...]:
    """Plan a proof's trials: choose at random, from a seed, where each trial kills the run.

    Half of them die at named places, each place as often as any other (give or take one),
    the other half at random instants, of which one in ten may come before the run has done
    anything. In every third one the resume is killed, too, and in every ninth the resume of
    that. The first of all dies after the last save, so that a resume loads what was saved.

    Args:
        course: Of an unbroken run.
        count: How many trials.
        seed: Of the choice.
    """
    chance = random.Random(seed)  # noqa: S311 - a choice, not a secret
    places = _Places(course.reached, chance)
    return tuple(
        Trial(number, tuple(_kills(number, places, course, chance))) for number in range(count)
    )


def another_instant(course: Course, seed: int) -> AtTime:
    """Plan another time to kill a copy of a run at, within the time that an unkilled run took."""
    return _instant(course, random.Random(seed))  # noqa: S311


def _instant(course: Course, chance: random.Random) -> AtTime:
    begin_s = 0.0 if chance.random() < 0.1 else course.first_s
    return AtTime(chance.uniform(begin_s, course.seconds))


class _Places:
    """Deals out failpoints: all of them once, in a new order, before any comes again."""

    def __init__(self, reached: Mapping[str, int], chance: random.Random) -> None:
        self._reached = {name: times for name, times in reached.items() if times > 0}
        self._chance = chance
        self._deck: list[str] = []
        self._has_drawn = False

    def draw(self) -> AtPoint | None:
        """Draw the next failpoint to kill at, and at which pass; None if the run reached none."""
        if not self._deck:
            self._deck = sorted(self._reached)
            self._chance.shuffle(self._deck)
        if not self._deck:
            return None
        if not self._has_drawn and _SAVED in self._deck:
            self._has_drawn = True
            self._deck.remove(_SAVED)
            return AtPoint(_SAVED, self._reached[_SAVED])
        name = self._deck.pop()
        return AtPoint(name, self._chance.randint(1, self._reached[name]))


def _kills(number: int, places: _Places, course: Course, chance: random.Random) -> list[Kill]:
    how_many = 1 + (number % 3 == 2) + (number % 9 == 8)
    kills: list[Kill] = []
    for later in range(how_many):
        at_point = places.draw() if (number + later) % 2 == 0 else None
        if at_point is not None and later:
            # A resume reaches a place less often than a whole run.
            at_point = AtPoint(at_point.point, 1)
        kills.append(at_point or _instant(course, chance))
    return kills
