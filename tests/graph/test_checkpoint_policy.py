"""When checkpoints are saved."""

from __future__ import annotations

from jobrun.graph.checkpoint_policy import CheckpointPolicy


def test_epochs_are_saved_as_time_allows_and_kept_unless_something_else_is_said():
    policy = CheckpointPolicy()

    assert policy.is_automatic
    assert not CheckpointPolicy(every_epochs=1).is_automatic
    assert not CheckpointPolicy(every_records=5).is_automatic
    assert (policy.keep_last, policy.keep_every, policy.keep_best[0]) == (0, 0, "")
    assert policy.enabled
