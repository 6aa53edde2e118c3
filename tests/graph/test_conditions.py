from __future__ import annotations

import pytest

from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import Exactness, Probe, StopWhen
from jobrun.graph.expressions import NodeBlob


def test_a_job_without_reasons_is_exact():
    assert Exactness().exact
    assert not Exactness((("epoch/t", "hogwild"),)).exact


def test_epochs_are_saved_as_time_allows_and_kept_unless_something_else_is_said():
    policy = CheckpointPolicy()

    assert policy.is_automatic
    assert not CheckpointPolicy(every_epochs=1).is_automatic
    assert not CheckpointPolicy(every_records=5).is_automatic
    assert (policy.keep_last, policy.keep_every, policy.keep_best[0]) == (0, 0, "")
    assert policy.enabled


def test_conditions_are_values():
    probe = Probe("x", (NodeBlob("n", "x"),))

    assert StopWhen(probe, "stop[0]") == StopWhen(probe, "stop[0]")
    with pytest.raises(AttributeError):
        probe.text = "y"
