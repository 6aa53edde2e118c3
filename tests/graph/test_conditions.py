from __future__ import annotations

import pytest

from jobrun.graph.conditions import Probe, StopWhen
from jobrun.graph.expressions import NodeBlob


def test_conditions_are_values():
    probe = Probe("x", (NodeBlob("n", "x"),))

    assert StopWhen(probe, "stop[0]") == StopWhen(probe, "stop[0]")
    with pytest.raises(AttributeError):
        probe.text = "y"
