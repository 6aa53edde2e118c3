"""Which epochs to delete. Pure; who deletes them, and when, is the runner's matter."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from jobrun.graph.conditions import CheckpointPolicy

# One may turn out to be damaged.
FEWEST_KEPT = 2


def victims(
    policy: CheckpointPolicy,
    epochs: Collection[int],
    best: Mapping[int, float] | None = None,
    pinned: Collection[int] = (),
    damaged: Collection[int] = (),
) -> tuple[int, ...]:
    """The epochs that no rule of the policy keeps, ascending.

    Always kept: epoch 0, the two newest, and what is pinned. A policy without rules keeps
    all; with rules but no ``keep_last``, only these two are kept for being new.

    Args:
        policy: Its ``keep_…`` rules; an epoch stays when any of them keeps it.
        epochs: All that exist.
        best: Per epoch the value of the metric of ``keep_best``; of equal values the
            earlier epoch is the better, NaN is never one, and epochs without are none.
        pinned: Kept whatever the rules say.
        damaged: Known to be of no use. They stand for none of those to be kept, and stay: only
            what is surely not needed is deleted.
    """
    if not (policy.keep_last or policy.keep_every or policy.keep_best[0]):
        return ()
    ascending = sorted(set(epochs) - set(damaged))
    kept = {0, *pinned, *ascending[-fewest_new(policy) :]}
    if policy.keep_every:
        kept.update(epoch for epoch in ascending if epoch % policy.keep_every == 0)
    if policy.keep_best[0]:
        present = {epoch: (best or {}).get(epoch, math.nan) for epoch in ascending}
        kept.update(_best(present, policy))
    return tuple(epoch for epoch in ascending if epoch not in kept)


def fewest_new(policy: CheckpointPolicy) -> int:
    """How many of the newest epochs a policy with rules keeps for being new."""
    return max(policy.keep_last, FEWEST_KEPT)


def _best(values: Mapping[int, float], policy: CheckpointPolicy) -> list[int]:
    _, mode, count = policy.keep_best
    sign = 1.0 if mode == "min" else -1.0
    ranked = sorted(
        (sign * value, epoch) for epoch, value in values.items() if not math.isnan(value)
    )
    return [epoch for _, epoch in ranked[:count]]
