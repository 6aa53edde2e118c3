"""Plan where a proof's trials kill the run, and carry them out: kill, resume, and judge copies.

The plan is drawn at random from a seed. Each trial starts a copy of the run, kills it, resumes it,
and compares its end with that of an unbroken run.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import ProofError
from jobrun.core.events import RunStarted
from jobrun.core.failpoints import TRACE_VARIABLE, VARIABLE
from jobrun.core.files.json_files import read_lines
from jobrun.core.text.patterns import lazy_pattern
from jobrun.runner.rundir.logs import read_events
from jobrun.runner.rundir.run_directories import EVENTS_NAME, Run, runs
from jobrun.tools.prove.fork_server import ProcessEnd
from jobrun.tools.prove.judge import (
    Difference,
    EndedCopy,
    find_any_lost_epochs,
    find_difference,
)

# Exit codes of a run that worked: 9 is an expectation that does not hold, which an unbroken
# run reports, too.
_ENDED = (0, 9)
_SIGKILL = -9
_TRIES = 4
_OUTPUT = "output.txt"
_LAST_LINES = 12
_MEND = lazy_pattern(r"\s*(?:\||=)\s*\^*\s*(\S.*)")

# An epoch is saved, and the run has reported it.
_SAVED = "runner.acknowledged"


class AtPoint(Struct, frozen=True):
    """A kill at the ``occurrence``-th time (from 1) that a failpoint is reached."""

    point: str
    occurrence: int

    @property
    def label(self) -> str:
        """Return the failpoint, as the text for a table of where trials kill the run."""
        return self.point

    def __str__(self) -> str:
        return f"{self.point}:{self.occurrence}"


class AtTime(Struct, frozen=True):
    """A kill so many seconds after the start."""

    after_s: float

    @property
    def label(self) -> str:
        """Return ``at a random instant``, as the text for a table of where trials kill."""
        return "at a random instant"

    def __str__(self) -> str:
        return f"after {self.after_s * 1000:.0f} ms"


Kill = AtPoint | AtTime


class Trial(Struct, frozen=True):
    """The plan of one copy of the run: where it is killed, and where its resumes are."""

    number: int
    kills: tuple[Kill, ...]

    def __str__(self) -> str:
        return ", then ".join(map(str, self.kills))


class Course(Struct, frozen=True):
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
    """Choose another random time for a trial's kill, within the duration of the unbroken run."""
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
        """Choose at random a failpoint for a trial's kill, and at which of its hits to kill."""
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


class Reference(Struct, frozen=True):
    """The unbroken run that a proof compares with.

    Attributes:
        run: What it left.
        exit_code: 0, or 9.
        course: How it went.
    """

    run: Run
    exit_code: int
    course: Course


class Outcome(Struct, frozen=True):
    """The outcome of a trial.

    Attributes:
        trial: With the kills as they were tried in the end.
        landed: For each kill whether it ended the process, before the run had finished.
        loaded: The newest epoch from which a start after a kill has continued; 0 for none.
        lost: What was lost at a kill of what had been promised; empty for nothing.
        failure: What went wrong otherwise, in words; empty for nothing.
        difference: In what the end is not that of the reference.
        folder: What the trial left.
    """

    trial: Trial
    landed: tuple[bool, ...] = ()
    loaded: int = 0
    lost: str = ""
    failure: str = ""
    difference: Difference | None = None
    folder: Path = Path()

    @property
    def good(self) -> bool:
        """Return whether a trial of kill and resume found no loss, failure or difference."""
        return not (self.lost or self.failure or self.difference)


Compare = Callable[[Run, Run], Difference | None]


class Starter(Protocol):
    """Starts a process of a trial, and waits for its end, as a ``ForkClient`` does."""

    def run(
        self,
        arguments: Sequence[str],
        output: Path,
        *,
        variables: Mapping[str, str] | None = None,
        kill_after_s: float | None = None,
    ) -> ProcessEnd:
        """Run a command line, whose output goes to a file in the folder of the trial's run."""
        ...


def compare_runs(reference: Run, ended: Run) -> Difference | None:
    """Find the first difference between a trial's run and the unbroken one, or None."""
    return find_difference(EndedCopy(reference), EndedCopy(ended))


# Maps the folder of a killed run to a description of what was lost; empty for nothing.
Loss = Callable[[Path], str]


def run_unbroken(forge: Starter, command: Sequence[str], folder: Path) -> Reference:
    """Run the job once without a kill, so that each trial can be compared with that run.

    Args:
        forge: Starts it.
        command: The command line that starts the run, or continues it.
        folder: An empty or missing directory for the run.

    Raises:
        ProofError: E418, the run fails by itself.
    """
    folder.mkdir(parents=True)
    trace = folder / "reached.txt"
    trace.touch()
    ended = _start(forge, command, folder, {TRACE_VARIABLE: str(trace)})
    if ended.exit_code not in _ENDED:
        raise ProofError.of(
            "E418",
            f"the unbroken run fails with exit code {ended.exit_code}: {_last_words(folder)}",
            "fix the job first; 'jobrun run' shows what is wrong",
        )
    return Reference(_only_run(folder), ended.exit_code, _course(trace, ended))


def _course(trace: Path, ended: ProcessEnd) -> Course:
    lines = [line.split() for line in trace.read_text().splitlines()]
    first_s = float(lines[0][1]) - ended.started if lines else 0.0
    return Course(dict(Counter(name for name, _ in lines)), first_s, ended.seconds)


def run_trial(
    forge: Starter,
    trial: Trial,
    reference: Reference,
    command: Sequence[str],
    folder: Path,
    compare: Compare = compare_runs,
    loss: Loss = find_any_lost_epochs,
) -> Outcome:
    """Run one trial of a proof: kill, resume and judge a copy of the run.

    An instant that comes too late is tried again, earlier, a few times: a run is not the
    same length twice.

    Args:
        forge: Starts the processes.
        trial: Whom to kill when.
        reference: What it should end like.
        command: As of ``run_unbroken``; the same for the start and each resume.
        folder: A missing directory for the trial.
        compare: Returns the first difference of two ended runs.
        loss: Is asked after each kill.
    """
    attempt = 0
    while True:
        attempt_folder = folder / f"try-{attempt}"
        attempt_folder.mkdir(parents=True)
        outcome = _once(forge, trial, reference, command, attempt_folder, compare, loss)
        attempt += 1
        too_late = isinstance(trial.kills[0], AtTime) and not outcome.landed[0]
        if not (outcome.good and too_late) or attempt == _TRIES:
            return outcome
        shutil.rmtree(attempt_folder)
        # Each attempt draws from half of the remaining time.
        course = reference.course
        left_s = (course.seconds - course.first_s) / 2**attempt
        shorter = replace(course, seconds=course.first_s + left_s)
        sooner = another_instant(shorter, trial.number + attempt)
        trial = replace(trial, kills=(sooner, *trial.kills[1:]))


def _once(
    forge: Starter,
    trial: Trial,
    reference: Reference,
    command: Sequence[str],
    folder: Path,
    compare: Compare,
    loss: Loss,
) -> Outcome:
    outcome = Outcome(trial, folder=folder)
    landed: list[bool] = []
    for kill in trial.kills:
        ended = _killed(forge, kill, command, folder)
        if ended.exit_code not in (_SIGKILL, reference.exit_code):
            return replace(outcome, failure=_ended_badly(ended, folder))
        if ended.exit_code == _SIGKILL and (gone := loss(folder)):
            return replace(outcome, landed=_padded([*landed, True], trial), lost=gone)
        # After its record says finished, a kill can no longer spoil anything.
        landed.append(ended.exit_code == _SIGKILL and not _has_finished(folder))
        outcome = replace(outcome, landed=_padded(landed, trial))
        if not landed[-1]:
            break
    if not any(landed):
        # It finished by itself like an unbroken run, and proves nothing about kills.
        return outcome
    ended = _start(forge, command, folder, {})
    if ended.exit_code != reference.exit_code:
        return replace(outcome, failure=_ended_badly(ended, folder))
    newest = _newest(folder)
    return replace(outcome, loaded=_loaded(newest), difference=compare(reference.run, newest))


def _killed(forge: Starter, kill: Kill, command: Sequence[str], folder: Path) -> ProcessEnd:
    match kill:
        case AtPoint():
            return _start(forge, command, folder, {VARIABLE: str(kill)})
        case AtTime(after_s=after_s):
            return _start(forge, command, folder, {}, after_s)


def _start(
    forge: Starter,
    command: Sequence[str],
    folder: Path,
    variables: dict[str, str],
    kill_after_s: float | None = None,
) -> ProcessEnd:
    words = [*command, "--run-dir", str(folder)]
    return forge.run(words, folder / _OUTPUT, variables=variables, kill_after_s=kill_after_s)


def _padded(landed: list[bool], trial: Trial) -> tuple[bool, ...]:
    return (*landed, *([False] * (len(trial.kills) - len(landed))))


def _only_run(folder: Path) -> Run:
    (run,) = runs(folder)
    return run


def _newest(folder: Path) -> Run:
    # A kill before the first save leaves a run that is never gone on with.
    return runs(folder)[-1]


def _has_finished(folder: Path) -> bool:
    ended_runs = runs(folder)
    return bool(ended_runs) and ended_runs[-1].record.status == "finished"


def _loaded(run: Run) -> int:
    """Return the newest epoch from which a resume of the trial continued; 0 for none."""
    # A kill may have cut a line; that of a start is written before anything runs.
    starts = read_events(read_lines(run.path / EVENTS_NAME), (RunStarted,))
    return max([0, *(start.event.epoch for start in starts)])


def _ended_badly(ended: ProcessEnd, folder: Path) -> str:
    return f"ended with exit code {ended.exit_code}: {_last_words(folder)}"


def _last_words(folder: Path) -> str:
    """Return a process's last output, its error or last lines, for a trial's outcome."""
    try:
        text = (folder / _OUTPUT).read_text(errors="replace")
    except FileNotFoundError:
        return "it said nothing"
    lines = text.strip().splitlines()
    errors = [at for at, line in enumerate(lines) if line.startswith("error[")]
    if not errors:
        return "; ".join(lines[-_LAST_LINES:]) or "no output"
    headline, *following = lines[errors[-1] :]
    # Below the source line are the carets, and after them the mend.
    mends = (match[1] for line in following if (match := _MEND.fullmatch(line)))
    return "; ".join((headline, *islice(mends, 1)))
