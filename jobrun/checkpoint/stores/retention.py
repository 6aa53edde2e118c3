"""Choose which epochs a retention policy deletes."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from jobrun.graph.checkpoint_policy import CheckpointPolicy

# Two: the newest may turn out to be damaged.
FEWEST_KEPT = 2


def epochs_to_delete(
    policy: CheckpointPolicy,
    epochs: Collection[int],
    best: Mapping[int, float] | None = None,
    pinned: Collection[int] = (),
    damaged: Collection[int] = (),
) -> tuple[int, ...]:
    """Return the epochs that no rule of the retention policy keeps, ascending.

    Always kept: epoch 0, the two newest, and what is pinned. A policy without rules keeps
    all; with rules but no ``keep_last``, only these two are kept for being new.

    Args:
        policy: Its ``keep_…`` rules; an epoch stays when any of them keeps it.
        epochs: All that exist.
        best: Per epoch the value of the metric of ``keep_best``; of equal values the
            earlier epoch is the better, NaN is never one, and epochs without are none.
        pinned: Kept whatever the rules say.
        damaged: Known to be of no use. They count as none of those to be kept, and stay: only
            what is surely not needed is deleted.
    """
    if not (policy.keep_last or policy.keep_every or policy.keep_best[0]):
        return ()
    ascending = sorted(set(epochs) - set(damaged))
    retained = {0, *pinned, *ascending[-newest_kept(policy) :]}
    if policy.keep_every:
        retained.update(epoch for epoch in ascending if epoch % policy.keep_every == 0)
    if policy.keep_best[0]:
        present = {epoch: (best or {}).get(epoch, math.nan) for epoch in ascending}
        retained.update(_best(present, policy))
    return tuple(epoch for epoch in ascending if epoch not in retained)


def newest_kept(policy: CheckpointPolicy) -> int:
    """Return how many of the newest epochs a retention policy always keeps."""
    return max(policy.keep_last, FEWEST_KEPT)


def _best(values: Mapping[int, float], policy: CheckpointPolicy) -> list[int]:
    _, mode, count = policy.keep_best
    ranked = sorted(
        (value if mode == "min" else -value, epoch)
        for epoch, value in values.items()
        # An integer may be too large for a float.
        if not (isinstance(value, float) and math.isnan(value))
    )
    return [epoch for _, epoch in ranked[:count]]
