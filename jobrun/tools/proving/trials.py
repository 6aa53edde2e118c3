"""Carries out the trials of a proof: start, kill, resume, and judge. Where to kill is planned."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from jobrun.core.crashpoints import TRACE_VARIABLE, VARIABLE
from jobrun.core.errors import ProofError
from jobrun.runner.rundir import Run, runs
from jobrun.tools.proving.forge import Ended, Forge
from jobrun.tools.proving.judge import Difference, difference, lost
from jobrun.tools.proving.schedule import AtPoint, AtTime, Course, Kill, Trial, another_instant

# What a run may end with and still have gone as it should: 9 is an expectation that does not
# hold, which an unbroken run tells, too.
_ENDED = (0, 9)
_SIGKILL = -9
_TRIES = 4
_OUTPUT = "output.txt"
_LAST_LINES = 12


@dataclass(frozen=True, slots=True)
class Reference:
    """An unbroken run.

    Attributes:
        run: What it left.
        exit_code: 0, or 9.
        course: How it went.
    """

    run: Run
    exit_code: int
    course: Course


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a trial went.

    Attributes:
        trial: With the kills as they were tried in the end.
        landed: For each kill whether it ended the process.
        lost: What was lost at a kill of what had been promised; empty for nothing.
        failure: What went wrong otherwise, in words; empty for nothing.
        difference: In what the end is not that of the reference.
        folder: What the trial left.
    """

    trial: Trial
    landed: tuple[bool, ...] = ()
    lost: str = ""
    failure: str = ""
    difference: Difference | None = None
    folder: Path = Path()

    @property
    def good(self) -> bool:
        """Nothing went wrong, whether the kills landed or not."""
        return not (self.lost or self.failure or self.difference)


Compare = Callable[[Run, Run], Difference | None]
# Of the folder in which a killed run is: what it has lost, in words; empty for nothing.
Loss = Callable[[Path], str]


def lost_in(folder: Path) -> str:
    """What any run of a folder has lost of what it had promised; empty for nothing."""
    return next((words for run in runs(folder) if (words := lost(run))), "")


def run_unbroken(forge: Forge, command: Sequence[str], folder: Path) -> Reference:
    """Run the job to its end once.

    Args:
        forge: Starts it.
        command: The command line that starts the run, or goes on with it.
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
            "mend the job first; 'jobrun run' shows what is wrong",
        )
    return Reference(_only_run(folder), ended.exit_code, _course(trace, ended))


def _course(trace: Path, ended: Ended) -> Course:
    lines = [line.split() for line in trace.read_text().splitlines()]
    first_s = float(lines[0][1]) - ended.started if lines else 0.0
    return Course(dict(Counter(name for name, _ in lines)), first_s, ended.seconds)


def carry_out(
    forge: Forge,
    trial: Trial,
    reference: Reference,
    command: Sequence[str],
    folder: Path,
    compare: Compare = difference,
    loss: Loss = lost_in,
) -> Outcome:
    """Run one trial to its end.

    An instant that comes too late is tried again, earlier, a few times: a run is not the
    same length twice.

    Args:
        forge: Starts the processes.
        trial: Whom to kill when.
        reference: What it should end like.
        command: As of ``run_unbroken``; the same for the start and each resume.
        folder: A missing directory for the trial.
        compare: Tells the first difference of two ended runs.
        loss: Is asked after each kill.
    """
    attempt = 0
    while True:
        place = folder / f"try-{attempt}"
        place.mkdir(parents=True)
        outcome = _once(forge, trial, reference, command, place, compare, loss)
        attempt += 1
        too_late = isinstance(trial.kills[0], AtTime) and not outcome.landed[0]
        if not (outcome.good and too_late) or attempt == _TRIES:
            return outcome
        shutil.rmtree(place)
        # Out of the half of what is left each time.
        course = reference.course
        left_s = (course.seconds - course.first_s) / 2**attempt
        shorter = replace(course, seconds=course.first_s + left_s)
        sooner = another_instant(shorter, trial.number + attempt)
        trial = replace(trial, kills=(sooner, *trial.kills[1:]))


def _once(
    forge: Forge,
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
        landed.append(ended.exit_code == _SIGKILL)
        outcome = replace(outcome, landed=_padded(landed, trial))
        if not landed[-1]:
            if ended.exit_code != reference.exit_code:
                return replace(outcome, failure=_ended_badly(ended, folder))
            break
        gone = loss(folder)
        if gone:
            return replace(outcome, lost=gone)
    ended = _start(forge, command, folder, {})
    if ended.exit_code != reference.exit_code:
        return replace(outcome, failure=_ended_badly(ended, folder))
    return replace(outcome, difference=compare(reference.run, _newest(folder)))


def _killed(forge: Forge, kill: Kill, command: Sequence[str], folder: Path) -> Ended:
    match kill:
        case AtPoint():
            return _start(forge, command, folder, {VARIABLE: str(kill)})
        case AtTime(after_s=after_s):
            return _start(forge, command, folder, {}, after_s)


def _start(
    forge: Forge,
    command: Sequence[str],
    folder: Path,
    variables: dict[str, str],
    kill_after_s: float | None = None,
) -> Ended:
    words = [*command, "--run-dir", str(folder)]
    return forge.run(words, folder / _OUTPUT, variables=variables, kill_after_s=kill_after_s)


def _padded(landed: list[bool], trial: Trial) -> tuple[bool, ...]:
    return (*landed, *([False] * (len(trial.kills) - len(landed))))


def _only_run(folder: Path) -> Run:
    (found,) = runs(folder)
    return found


def _newest(folder: Path) -> Run:
    # A kill before the first save leaves a run that is never gone on with.
    return runs(folder)[-1]


def _ended_badly(ended: Ended, folder: Path) -> str:
    return f"ended with exit code {ended.exit_code}: {_last_words(folder)}"


def _last_words(folder: Path) -> str:
    try:
        text = (folder / _OUTPUT).read_text(errors="replace")
    except FileNotFoundError:
        return "it said nothing"
    return "\n".join(text.strip().splitlines()[-_LAST_LINES:]) or "it said nothing"
