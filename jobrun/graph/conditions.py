"""What the runner looks at and keeps to: probes, stop conditions, the checkpoint policy."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jobrun.core.compression import Rules
from jobrun.core.origin import Origin
from jobrun.graph.expr import Expr
from jobrun.graph.steps import NOWHERE


@dataclass(frozen=True, slots=True)
class Probe:
    """A value over the state of one or several nodes, looked at by the runner.

    Attributes:
        text: As written, for messages.
        parts: One expression over ``NodeBlob`` and ``OutputRead`` leaves; with
            ``reduce`` one per node, in node order.
        reduce: How several parts become one value.
    """

    text: str
    parts: tuple[Expr, ...]
    reduce: Literal["", "max", "min", "mean", "sum", "any", "all"] = ""
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class StopAfterEpochs:
    """Stop when epoch ``epochs`` has run: a total, not additional."""

    epochs: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class StopWhen:
    """Stop when the probe's value, which must be a bool, holds."""

    probe: Probe
    path: str = ""


@dataclass(frozen=True, slots=True)
class StopAfterTime:
    """Stop when the run, over all its invocations, has computed for ``seconds``."""

    seconds: float
    path: str = ""


@dataclass(frozen=True, slots=True)
class StopWithoutImprovement:
    """Stop when ``metric`` has not improved by ``min_delta`` for ``epochs`` epochs."""

    metric: str
    epochs: int
    mode: Literal["min", "max"] = "min"
    min_delta: float = 0.0
    path: str = ""


@dataclass(frozen=True, slots=True)
class Endless:
    """No end but the user's."""

    path: str = ""


StopCondition = StopAfterEpochs | StopWhen | StopAfterTime | StopWithoutImprovement | Endless


@dataclass(frozen=True, slots=True)
class Deadline:
    """When this invocation must be over, so that what runs is saved before someone ends it.

    Attributes:
        at: ``auto``: what the batch system says; else an ISO 8601 time, local where it names no
            zone.
        margin_s: How long before it everything must be saved.
    """

    at: str
    margin_s: float = 60.0


@dataclass(frozen=True, slots=True)
class UploadPolicy:
    """Where checkpoints are copied to, and which.

    Attributes:
        to: A directory, relative to the spec's folder, or absolute; or the URL of a place in an
            object store.
        when: ``end``: the last one, when the run has ended; ``committed``: each one.
        required: A failure fails the run; else it is told, counted, and told at the end.
    """

    to: str
    when: Literal["end", "committed"] = "end"
    required: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """When to checkpoint and what to keep.

    Attributes:
        enabled: False for ``checkpoint: none``.
        directory: Empty: inside the run.
        every_epochs: Save after each such number of epochs; 0 when ``every_s`` counts.
        every_records: Save within epochs too, after each such number of records; 0 for never.
        every_s: Save when so many seconds have passed since the last save.
        keep_last: Keep this many of the newest. Epoch 0 is always kept. With no rule at all
            (0, 0, no metric) everything is kept; with another rule, the two newest.
        keep_every: Keep each epoch divisible by it; 0 for none.
        keep_best: Metric, mode, how many; empty metric for none.
        nodes: Whose state is saved.
        on_error: ``fail``, or ``warn`` (count, go on, and tell at the end).
        upload: None for no copies.
        compression: Patterns of blob names and codecs; see ``core.compression``.
        asynchronous: Whether the run goes on while an epoch is saved; None: as memory allows.
        compression_at: Where that is written.
        upload_at: Where the place of ``upload`` is written.
        node_dir: Where each node writes its own file first, on its own machine; empty: straight
            to where the epochs are. An epoch counts when all its files have been collected.
        collect_to: URL of the place in an object store to which nodes bring these files; empty: to
            the master. It is that of ``upload`` too, which brings the manifests there.
    """

    enabled: bool = True
    directory: str = ""
    every_epochs: int = 1
    every_s: float = 0.0
    every_records: int = 0
    keep_last: int = 0
    keep_every: int = 0
    keep_best: tuple[str, Literal["min", "max"], int] = ("", "min", 0)
    nodes: tuple[str, ...] = ()
    on_error: Literal["fail", "warn"] = "fail"
    upload: UploadPolicy | None = None
    compression: Rules = ()
    asynchronous: bool | None = None
    node_dir: str = ""
    collect_to: str = ""
    compression_at: Origin = field(default=NOWHERE, compare=False)
    upload_at: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Exactness:
    """Whether a resumed run equals an unbroken one bit for bit; if not, which places decide it."""

    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def exact(self) -> bool:
        """No place makes it inexact."""
        return not self.reasons
