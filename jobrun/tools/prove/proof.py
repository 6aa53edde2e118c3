"""Prove a job: run it unbroken, kill and resume copies, and collect the outcomes."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from msgspec import Struct, field

from jobrun.core.errors import ProofError, UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.graph.types import Job
from jobrun.runner.rundir.run_directories import Run
from jobrun.tools.isolation.folder_copy import SCRATCH_PREFIX
from jobrun.tools.isolation.isolation import Isolation, Isolator, plain_environment
from jobrun.tools.prove.file_difference import describe_file_difference
from jobrun.tools.prove.fork_server import (
    ForkClient,
    ProcessEnd,
    unsupervised_environment,
)
from jobrun.tools.prove.judge import (
    Difference,
    EndedCopy,
    Exclusions,
    accept_without_comparison,
    different_files,
    find_difference,
)
from jobrun.tools.prove.original_program import Original, find_job_artifacts, run_original
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


class ProofRequest(Struct, frozen=True):
    """The job to prove, and how thoroughly.

    Attributes:
        command: The command line that starts the run or continues it, without --run-dir.
        job: The job it runs.
        kills: How many copies are killed.
        seed: Of the choice of places and instants.
        jobs: How many copies run at the same time.
        scratch_parent: Where the runs of the proof live while it lasts.
        folders: Those in which the job reads and writes files, absolute, the spec's first: each
            copy of the run has copies of them.
        directory: The working directory, absolute.
        keep: Keep them.
        program: The module that the command line starts.
        preload: Modules that every command line imports.
        exclusions: What is not compared.
        epochs: After how many each copy stops; None for where the job stops by itself.
        original: The program that the job was ported from, to compare what both write.
    """

    command: tuple[str, ...]
    job: Job
    scratch_parent: Path
    folders: tuple[Path, ...]
    directory: Path
    kills: int = 20
    seed: int = 0
    jobs: int = 1
    keep: bool = False
    program: str = "jobrun"
    preload: tuple[str, ...] = ()
    exclusions: Exclusions = Exclusions()
    epochs: int | None = None
    original: Original | None = None


class Proof(Struct, frozen=True):
    """The result of a proof.

    Attributes:
        exact: The job is one whose bits must not depend on kills.
        reference: The unbroken run.
        unsteady: In what two unbroken runs differ, where they should not.
        outcomes: One per trial, in their order.
        ignored: Files that differ between unbroken runs, and were not compared.
        compared: Names of the files that were compared: artifacts, and those written elsewhere.
        excluded: For each pattern of what is not to be compared, the names of what it excluded.
        outside: Files elsewhere that a copy wrote, or was not allowed to write.
        changed: Files of the user that are not as they were before.
        enforced: The kernel kept the copies from writing elsewhere.
        folder: Where the runs are, if they were kept.
        unlike: By artifact, how it differs from the original program's; empty where it does not.
    """

    exact: bool
    reference: Reference
    unsteady: Difference | None
    outcomes: tuple[Outcome, ...]
    ignored: tuple[str, ...]
    compared: tuple[str, ...] = ()
    excluded: Mapping[str, Sequence[str]] = field(default_factory=dict)
    outside: tuple[Path, ...] = ()
    changed: tuple[Path, ...] = ()
    enforced: bool = True
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
        wrong = self.bad or self.unsteady is not None or any(self.unlike.values()) or self.changed
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
        UsageError: E404, an exclusion excludes nothing.
    """
    is_new = not request.scratch_parent.exists()
    request.scratch_parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX, dir=request.scratch_parent)).resolve()
    keep = request.keep
    try:
        proof = _prove(request, folder, listen)
        keep = keep or not proof.holds
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)
            if is_new:
                with suppress(OSError):
                    request.scratch_parent.rmdir()
    return proof


class _Copies:
    """Starts the copies of a proof, each in a copy of the user's folders.

    A copy that is started again, as for a resume, runs where it ran before.
    """

    def __init__(self, forges: SimpleQueue[ForkClient], isolator: Isolator) -> None:
        self._forges = forges
        self._isolator = isolator
        self._isolations: dict[Path, Isolation] = {}
        self._outside: set[Path] = set()

    def run(self, arguments: Sequence[str], output: Path, **limits: Any) -> ProcessEnd:
        """Run a command line of the proof in its copy of the folders, as a ``ForkClient`` does."""
        folder = output.parent
        if folder not in self._isolations:
            self._isolations[folder] = self._isolator.open(folder)
        isolation = self._isolations[folder]
        forge = self._forges.get()
        try:
            return forge.run(arguments, output, isolation=isolation, **limits)
        finally:
            self._forges.put(forge)
            self._outside.update(isolation.outside_writes())

    def ended(self, run: Run) -> EndedCopy:
        """Return a copy of the proof by its run."""
        return EndedCopy(run, self._isolations[run.path.parents[1]])

    def outside_writes(self) -> tuple[Path, ...]:
        """List the files elsewhere that copies of the proof wrote, or were not allowed to."""
        return tuple(sorted(self._outside))


def _prove(request: ProofRequest, folder: Path, listen: Callable[[Outcome], None]) -> Proof:
    exact = request.job.exactness.exact
    with ExitStack() as stack:
        isolator = stack.enter_context(
            closing(Isolator(request.folders, request.directory, folder))
        )
        forges: SimpleQueue[ForkClient] = SimpleQueue()
        for _ in range(request.jobs):
            client = ForkClient(
                request.program, (*_PRELOAD, *request.preload), unsupervised_environment()
            )
            forges.put(stack.enter_context(client))
        copies = _Copies(forges, isolator)
        reference = _run_unbroken(copies, request, folder / "reference")
        ended = copies.ended(reference.run)
        excluded = request.exclusions.excluded(ended.names())
        _require_exclusions(excluded, ended)
        unlike: dict[str, str] = {}
        if request.original:
            unlike = _unlike(request.original, ended, isolator, folder)
        again = copies.ended(_run_unbroken(copies, request, folder / "again").run)
        ignored = different_files(ended, again)
        judge: Callable[[EndedCopy, EndedCopy], Difference | None] = (
            partial(find_difference, ignored=ignored, exclusions=request.exclusions)
            if exact
            else accept_without_comparison
        )
        unsteady = judge(ended, again)

        def compare(expected: Run, actual: Run) -> Difference | None:
            return judge(copies.ended(expected), copies.ended(actual))

        planned = plan_trials(reference.course, request.kills, request.seed)
        work = partial(_trial, copies, reference, request, folder, compare, listen)
        outcomes = _all(work, () if unsteady else planned, request.jobs)
        return Proof(
            exact,
            reference,
            unsteady,
            outcomes,
            tuple(sorted(ignored)),
            _compared_files(ended, ignored, request.exclusions) if exact else (),
            excluded,
            copies.outside_writes(),
            tuple(isolator.changed_originals()),
            isolator.is_enforced,
            folder,
            unlike,
        )


def _run_unbroken(copies: _Copies, request: ProofRequest, folder: Path) -> Reference:
    """Run the job of a proof once without a kill.

    Raises:
        ProofError: E418, it fails; E475, because it may not write a file.
    """
    try:
        return run_unbroken(copies, request.command, folder)
    except ProofError as error:
        outside = ", ".join(map(str, copies.outside_writes()))
        # A program of a step is not seen writing; sqlite says in other words what is refused.
        if not outside and "Permission denied" not in str(error):
            raise
        raise ProofError.of(
            "E475",
            f"the job writes {outside or 'a file outside of its copy'}, which no copy of the run "
            f"may change; {error.faults[0].message}",
            "write with a relative path below the folder of the spec or the working directory, or "
            "in ${run.dir}; or start the proof in a directory that contains the file. If it is "
            "there already, it is too large for a copy: move large files that are only read away",
        ) from error


def _compared_files(
    ended: EndedCopy, ignored: frozenset[str], exclusions: Exclusions
) -> tuple[str, ...]:
    names = sorted({*ended.files(), *ended.removed()} - ignored)
    return tuple(name for name in names if not exclusions.exclude(name))


def _require_exclusions(excluded: Mapping[str, Sequence[str]], ended: EndedCopy) -> None:
    for pattern, names in excluded.items():
        if not names:
            known = sorted({alias for aliases in ended.names() for alias in aliases})
            raise UsageError.of(
                "E404",
                f"--without {pattern}: no blob, path inside one, artifact or written file is "
                "called so",
                did_you_mean(pattern, known),
            )


def _unlike(
    original: Original, ended: EndedCopy, isolator: Isolator, folder: Path
) -> dict[str, str]:
    written = find_job_artifacts(original, ended)
    scratch = folder / "original"
    scratch.mkdir()
    expected = run_original(
        original, isolator.open(scratch), folder / "original-output.txt", plain_environment()
    )
    return {
        name: describe_file_difference(expected[name], written[name]) for name in original.artifacts
    }


def _trial(
    copies: _Copies,
    reference: Reference,
    request: ProofRequest,
    folder: Path,
    compare: Callable[[Run, Run], Difference | None],
    listen: Callable[[Outcome], None],
    trial: Trial,
) -> Outcome:
    trial_folder = folder / f"trial-{trial.number}"
    outcome = run_trial(copies, trial, reference, request.command, trial_folder, compare)
    if outcome.good and not request.keep:
        shutil.rmtree(trial_folder)
    listen(outcome)
    return outcome


def _all(
    work: Callable[[Trial], Outcome], planned: Sequence[Trial], jobs: int
) -> tuple[Outcome, ...]:
    with ThreadPoolExecutor(jobs) as pool:
        return tuple(pool.map(work, planned))
