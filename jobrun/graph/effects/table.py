"""List the declared kinds of steps by the key that says of which kind a step of a spec is.

In the order in which a step's keys are searched for them. Each is the first key of its kind.
"""

from __future__ import annotations

from jobrun.graph.effects.assertion import Assert
from jobrun.graph.effects.effect import DeclaredEffect
from jobrun.graph.effects.log import Log
from jobrun.graph.effects.metric import Metric
from jobrun.graph.effects.sleep import Sleep

DECLARED: dict[str, type[DeclaredEffect]] = {
    "log": Log,
    "metric": Metric,
    "assert": Assert,
    "sleep": Sleep,
}
