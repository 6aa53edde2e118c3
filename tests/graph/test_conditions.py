from __future__ import annotations

import pytest

from jobrun.graph.conditions import Exactness, Probe, StopWhen
from jobrun.graph.expressions import NodeBlob


def test_a_job_without_reasons_is_exact():
    assert Exactness().exact
    assert not Exactness((("epoch/t", "hogwild"),)).exact


def test_conditions_are_values():
    probe = Probe("x", (NodeBlob("n", "x"),))

    assert StopWhen(probe, "stop[0]") == StopWhen(probe, "stop[0]")
    with pytest.raises(AttributeError):
        probe.text = "y"
