from __future__ import annotations

from jobrun.graph.steps import PulledBlob


def test_without_more_the_first_node_is_asked():
    assert PulledBlob("m", ("a", "b"), "w").reduce == "first"
