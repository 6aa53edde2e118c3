"""List the declared kinds of steps, in the order in which a spec's keys are searched for them."""

from __future__ import annotations

from jobrun.graph.effects.assertion import Assert
from jobrun.graph.effects.effect import DeclaredEffect
from jobrun.graph.effects.log import Log
from jobrun.graph.effects.metric import Metric
from jobrun.graph.effects.sleep import Sleep

DECLARED: tuple[type[DeclaredEffect], ...] = (
    Log,
    Metric,
    Assert,
    Sleep,
)
