"""``jobrun prove``: unbroken runs, killed and resumed copies, and what came out of it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from jobrun.graph.access import Access
from jobrun.graph.query import walk
from jobrun.graph.steps import Net, Step
from jobrun.graph.types import Job
from jobrun.runner.rundir import Run
from jobrun.runtime.usage import finder
from jobrun.tools.proving.forge import Forge
from jobrun.tools.proving.judge import Difference, difference, different_artifacts
from jobrun.tools.proving.schedule import Trial, trials
from jobrun.tools.proving.trials import Outcome, Reference, carry_out, run_unbroken

# Imported once, before any run is forked; what else a job needs it imports itself.
_PRELOAD = ("numpy", "h5py", "jobrun.runner.invocation", "jobrun.tools.inspection")


@dataclass(frozen=True, slots=True)
class Demand:
    """What is to be proven, and how thoroughly.

    Attributes:
        command: The command line that starts the run or goes on with it, without --run-dir.
        job: The job it runs.
        kills: How many copies are killed.
        seed: Of the choice of places and instants.
        jobs: How many copies run at the same time.
        place: Where the runs of the proof live while it lasts.
        keep: Keep them.
        program: The module that the command line starts.
        preload: Modules that every command line imports.
    """

    command: tuple[str, ...]
    job: Job
    place: Path
    kills: int = 20
    seed: int = 0
    jobs: int = 1
    keep: bool = False
    program: str = "jobrun"
    preload: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Proof:
    """What came out.

    Attributes:
        exact: The job is one whose bits must not depend on kills.
        reference: The unbroken run.
        unsteady: In what two unbroken runs differ, where they should not.
        outcomes: One per trial, in their order.
        ignored: Artifacts that differ between unbroken runs, and were not compared.
        folder: Where the runs are, if they were kept.
    """

    exact: bool
    reference: Reference
    unsteady: Difference | None
    outcomes: tuple[Outcome, ...]
    ignored: tuple[str, ...]
    folder: Path | None = None

    @property
    def landed(self) -> int:
        """In how many trials the first kill ended the process."""
        return sum(outcome.landed[0] for outcome in self.outcomes)

    @property
    def bad(self) -> tuple[Outcome, ...]:
        """The trials in which something went wrong."""
        return tuple(outcome for outcome in self.outcomes if not outcome.good)

    @property
    def holds(self) -> bool:
        """Kills landed, and nothing went wrong."""
        return not self.bad and self.unsteady is None and self.landed > 0


def prove(demand: Demand, tell: Callable[[Outcome], None]) -> Proof:
    """Run, kill, resume, compare.

    Args:
        demand: See there.
        tell: Is told each trial's outcome, from the threads in which they run.

    Raises:
        ProofError: E418, the job fails without any kill.
    """
    demand.place.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".prove-", dir=demand.place)).absolute()
    keep = demand.keep
    try:
        proof = _prove(demand, folder, tell)
        keep = keep or not proof.holds
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return proof


def last_writer(job: Job, node: str, blob: str) -> str:
    """The path of the last step of an epoch that writes a blob; empty for none."""
    found = ""
    for task in job.epoch.tasks:
        for path, access in _accesses(task.steps) if task.node == node else ():
            if blob in (*access.binds, *access.changes, *access.atomic):
                found = path
    return found


def _accesses(steps: tuple[Step, ...]) -> Iterator[tuple[str, Access]]:
    for step in walk(steps):
        if isinstance(step, Net):
            yield from ((op.path, finder().of_op(op)) for op in step.ops)
        else:
            yield step.path, finder().of_step(step)


def _prove(demand: Demand, folder: Path, tell: Callable[[Outcome], None]) -> Proof:
    exact = demand.job.exactness.exact
    with ExitStack() as stack:
        forges: SimpleQueue[Forge] = SimpleQueue()
        for _ in range(demand.jobs):
            preload = (*_PRELOAD, *demand.preload)
            forges.put(stack.enter_context(Forge(demand.program, preload, _environment())))
        forge = forges.get()
        reference = run_unbroken(forge, demand.command, folder / "reference")
        again = run_unbroken(forge, demand.command, folder / "again")
        forges.put(forge)
        ignored = different_artifacts(reference.run, again.run)
        compare = partial(difference, but=ignored) if exact else _nothing_compared
        unsteady = compare(reference.run, again.run)
        planned = trials(reference.course, demand.kills, demand.seed)
        work = partial(_trial, forges, reference, demand, folder, compare, tell)
        outcomes = _all(work, () if unsteady else planned, demand.jobs)
    return Proof(exact, reference, unsteady, outcomes, tuple(sorted(ignored)), folder)


def _trial(
    forges: SimpleQueue[Forge],
    reference: Reference,
    demand: Demand,
    folder: Path,
    compare: Callable[[Run, Run], Difference | None],
    tell: Callable[[Outcome], None],
    trial: Trial,
) -> Outcome:
    forge = forges.get()
    place = folder / f"trial-{trial.number}"
    try:
        outcome = carry_out(forge, trial, reference, demand.command, place, compare)
    finally:
        forges.put(forge)
    if outcome.good and not demand.keep:
        shutil.rmtree(place)
    tell(outcome)
    return outcome


def _all(
    work: Callable[[Trial], Outcome], planned: Sequence[Trial], jobs: int
) -> tuple[Outcome, ...]:
    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(work, planned))


def _nothing_compared(reference: Run, found: Run) -> None:
    """Of a job that is not exact only the end and the promises are looked at."""
    del reference, found


def _environment() -> dict[str, str]:
    """This process's variables without those that steer jobrun, which the command line holds.

    A run in one process only: one that watched it would tell of the kill what it tells users.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JOBRUN_")}
    return kept | {"JOBRUN_UNGUARDED": "1"}
