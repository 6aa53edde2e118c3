"""Define probes, stop conditions and deadlines as frozen values."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from jobrun.core.errors import Origin
from jobrun.core.partly_compared import PartlyCompared
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import Expr


class Probe(PartlyCompared, frozen=True):
    """A value over the state of one or several nodes, evaluated by the runner.

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
    origin: Origin = NOWHERE


class StopAfterEpochs(Struct, frozen=True):
    """Stop when epoch ``epochs`` has run: a total, not additional."""

    epochs: int
    path: str = ""


class StopWhen(Struct, frozen=True):
    """Stop when the probe's value, which must be a bool, holds."""

    probe: Probe
    path: str = ""


class StopAfterTime(Struct, frozen=True):
    """Stop when the run, over all its invocations, has computed for ``seconds``."""

    seconds: float
    path: str = ""


class StopWithoutImprovement(Struct, frozen=True):
    """Stop when ``metric`` has not improved by ``min_delta`` for ``epochs`` epochs."""

    metric: str
    epochs: int
    mode: Literal["min", "max"] = "min"
    min_delta: float = 0.0
    path: str = ""


class Endless(Struct, frozen=True):
    """Never stop; only the user ends the run."""

    path: str = ""


StopCondition = StopAfterEpochs | StopWhen | StopAfterTime | StopWithoutImprovement | Endless


class Deadline(Struct, frozen=True):
    """The time at which this invocation must be over; the run is saved before it.

    Attributes:
        at: ``auto``: the end of the batch job; else an ISO 8601 time, local if it has no zone.
        margin_s: How long before that time everything must be saved.
    """

    at: str
    margin_s: float = 60.0
