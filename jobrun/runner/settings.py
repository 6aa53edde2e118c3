"""What a person may ask of one invocation, beyond what the spec says. A plain value."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from jobrun.core.errors import Fault

if TYPE_CHECKING:
    from jobrun.checkpoint.metadata import MetadataHandler
    from jobrun.checkpoint.upload import UploadBuilder

Resume = Literal["auto", "must", "never", ""]


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
        imports: Import callables before the start, not only look for their files.
        upload: Brings epochs elsewhere, in place of what ``checkpoint.upload`` means; when, and
            what a failure means, stays as it says (without it: at the end, required).
        metadata: Is asked about the run's checkpoints and told of them, beside the run's own
            journal.
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
    imports: bool = False
    upload: UploadBuilder | None = None
    metadata: MetadataHandler | None = None


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
