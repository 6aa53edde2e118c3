"""What a person may ask of one invocation, beyond what the spec says. A plain value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

from jobrun.core.errors import Fault

if TYPE_CHECKING:
    from jobrun.checkpoint.metadata import MetadataHandler
    from jobrun.checkpoint.upload import UploadBuilder
    from jobrun.graph.types import Job
    from jobrun.runtime.lapping import Metering

Resume = Literal["auto", "must", "never", ""]


class Profiling(Protocol):
    """Someone who wants to know where the time of a run goes."""

    def meter_for(self, job: Job) -> Metering:
        """What measures the steps of the job; asked for when the session is opened."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Options of ``run`` and ``resume``.

    Attributes:
        run_dir: Where runs live.
        session: The kind of session.
        epochs: A stop item added to this run (a total); 0 for none, or as recorded.
        max_epochs: How many epochs this invocation may run; 0 for no limit.
        time_s: How long this invocation may take; 0 for no limit.
        grace_s: How long an epoch may still take after a request to end.
        epoch: (resume) Continue from exactly this epoch; None for the newest good one.
        strict: (resume) Refuse other numerics instead of warning.
        accept: (resume) Fields whose drift is accepted; a field stands for what is below it.
        given: (resume) The words of the command line that say what is run, for messages, such as
            ``--spec kmeans.yaml``.
        allow_lost: (resume) Go on from an older epoch when the newest that was saved is gone.
        trust: Work in a run although others may write into it.
        imports: Import callables before the start, not only look for their files.
        upload: Brings epochs elsewhere, in place of what ``checkpoint.upload`` means; when, and
            what a failure means, stays as it says (without it: at the end, required).
        metadata: Is asked about the run's checkpoints and told of them, beside the run's own
            journal.
        max_failures: How many losses of nodes in a row, with nothing saved in between, are borne.
        places: ``NODE=OTHER`` each: the node runs in the place of the other one, where each would
            have its own.
        profiler: Gives what measures the steps; None for code without any of that.
    """

    run_dir: Path = field(default_factory=lambda: Path("runs"))
    session: str = "threads"
    epochs: int = 0
    max_epochs: int = 0
    time_s: float = 0.0
    grace_s: float = 25.0
    epoch: int | None = None
    strict: bool = False
    accept: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    allow_lost: bool = False
    trust: bool = False
    imports: bool = False
    upload: UploadBuilder | None = None
    metadata: MetadataHandler | None = None
    profiler: Profiling | None = None
    max_failures: int = 3
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunResult:
    """How an invocation ended, when it ended in good order.

    Attributes:
        exit_code: 0 finished · 9 finished, but an ``expect`` does not hold · 75 stopped on
            request · 130 interrupted. Everything else is raised.
        run_path: The run's directory, absolute.
        epoch: The last epoch that is saved (that ran, with ``checkpoint: none``).
        reason: Why it ended, in words.
        faults: With 9, each ``expect`` that does not hold; with 75 and 130, what to do next.
    """

    exit_code: int
    run_path: str
    epoch: int
    reason: str
    faults: tuple[Fault, ...] = ()
