"""Prove a job: run it unbroken, kill and resume copies, and collect the outcomes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import field
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from jobrun.core.lazy_dataclass import dataclass
from jobrun.graph.types import Job
from jobrun.runner.rundir.run_directories import Run
from jobrun.tools.prove.fork_server import ForkClient, plain_environment, unsupervised_environment
from jobrun.tools.prove.judge import (
    Difference,
    accept_without_comparison,
    different_artifacts,
    find_difference,
)
from jobrun.tools.prove.original_program import (
    JobArtifacts,
    Original,
    file_difference,
    run_original,
)
from jobrun.tools.prove.trials import (
    Outcome,
    Reference,
    Trial,
    plan_trials,
    run_trial,
    run_unbroken,
)

# Imported once, before any run is forked; what else a job needs it imports itself.
_PRELOAD = ("numpy", "h5py", "jobrun.runner.invocation", "jobrun.tools.inspection")


@dataclass(frozen=True, slots=True)
class ProofRequest:
    """The job to prove, and how thoroughly.

    Attributes:
        command: The command line that starts the run or continues it, without --run-dir.
        job: The job it runs.
        kills: How many copies are killed.
        seed: Of the choice of places and instants.
        jobs: How many copies run at the same time.
        place: Where the runs of the proof live while it lasts.
        keep: Keep them.
        program: The module that the command line starts.
        preload: Modules that every command line imports.
        without: Blobs that are not compared, as ``BLOB`` or ``NODE.BLOB``.
        original: The program that the job was ported from, to compare what both write.
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
    without: frozenset[str] = frozenset()
    original: Original | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """The result of a proof.

    Attributes:
        exact: The job is one whose bits must not depend on kills.
        reference: The unbroken run.
        unsteady: In what two unbroken runs differ, where they should not.
        outcomes: One per trial, in their order.
        ignored: Artifacts that differ between unbroken runs, and were not compared.
        folder: Where the runs are, if they were kept.
        unlike: By artifact, how it differs from the original program's; empty where it does not.
    """

    exact: bool
    reference: Reference
    unsteady: Difference | None
    outcomes: tuple[Outcome, ...]
    ignored: tuple[str, ...]
    folder: Path | None = None
    unlike: Mapping[str, str] = field(default_factory=dict)

    @property
    def landed(self) -> int:
        """Count the proof's trials whose first kill came before the run had finished."""
        return sum(outcome.landed[0] for outcome in self.outcomes)

    @property
    def bad(self) -> tuple[Outcome, ...]:
        """Return the outcomes of the proof's trials that lost an epoch, failed or differed."""
        return tuple(outcome for outcome in self.outcomes if not outcome.good)

    @property
    def holds(self) -> bool:
        """Return whether the proof succeeded: enough kills, and no failure or difference."""
        wrong = self.bad or self.unsteady is not None or any(self.unlike.values())
        return not wrong and self.is_shown

    @property
    def is_shown(self) -> bool:
        """Return whether the proof killed enough: half of its trials, and one after a save."""
        return 2 * self.landed >= len(self.outcomes) and self.loaded > 0

    @property
    def loaded(self) -> int:
        """Count the proof's trials that resumed from a saved epoch, not from the start."""
        return sum(outcome.loaded > 0 for outcome in self.outcomes)


def prove(request: ProofRequest, listen: Callable[[Outcome], None]) -> Proof:
    """Prove a job: run it unbroken, run killed and resumed copies, and compare them.

    Args:
        request: What to prove; see ``ProofRequest``.
        listen: Called with each trial's outcome, in the threads that run them.

    Raises:
        ProofError: E418, the job fails without any kill; E481, the original program fails; E482,
            one of them has not written an artifact.
    """
    request.place.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=".prove-", dir=request.place)).absolute()
    keep = request.keep
    try:
        proof = _prove(request, folder, listen)
        keep = keep or not proof.holds
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
    return proof


def _prove(request: ProofRequest, folder: Path, listen: Callable[[Outcome], None]) -> Proof:
    exact = request.job.exactness.exact
    with ExitStack() as stack:
        forges: SimpleQueue[ForkClient] = SimpleQueue()
        for _ in range(request.jobs):
            preload = (*_PRELOAD, *request.preload)
            forges.put(
                stack.enter_context(
                    ForkClient(request.program, preload, unsupervised_environment())
                )
            )
        forge = forges.get()
        written = JobArtifacts(request.original) if request.original else None
        reference = run_unbroken(forge, request.command, folder / "reference")
        unlike: dict[str, str] = {}
        if request.original and written:
            written.take(reference.run, folder / "written")
            unlike = _unlike(request.original, folder)
        again = run_unbroken(forge, request.command, folder / "again")
        forges.put(forge)
        ignored = different_artifacts(reference.run, again.run)
        compare = (
            partial(find_difference, but=ignored, without=request.without)
            if exact
            else accept_without_comparison
        )
        unsteady = compare(reference.run, again.run)
        planned = plan_trials(reference.course, request.kills, request.seed)
        work = partial(_trial, forges, reference, request, folder, compare, listen)
        outcomes = _all(work, () if unsteady else planned, request.jobs)
    return Proof(exact, reference, unsteady, outcomes, tuple(sorted(ignored)), folder, unlike)


def _unlike(original: Original, folder: Path) -> dict[str, str]:
    run_original(original, folder / "original", plain_environment())
    return {
        name: file_difference(folder / "original" / name, folder / "written" / name)
        for name in original.artifacts
    }


def _trial(
    forges: SimpleQueue[ForkClient],
    reference: Reference,
    request: ProofRequest,
    folder: Path,
    compare: Callable[[Run, Run], Difference | None],
    listen: Callable[[Outcome], None],
    trial: Trial,
) -> Outcome:
    forge = forges.get()
    place = folder / f"trial-{trial.number}"
    try:
        outcome = run_trial(forge, trial, reference, request.command, place, compare)
    finally:
        forges.put(forge)
    if outcome.good and not request.keep:
        shutil.rmtree(place)
    listen(outcome)
    return outcome


def _all(
    work: Callable[[Trial], Outcome], planned: Sequence[Trial], jobs: int
) -> tuple[Outcome, ...]:
    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(work, planned))
