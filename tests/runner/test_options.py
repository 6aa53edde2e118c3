"""Options and results as values."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.core.errors import UsageError
from jobrun.graph.types import Cluster, Node
from jobrun.runner.options import RunOptions, RunResult, parse_node_map

NODES = Cluster(tuple(Node(f"t_{k}", "t", k, 4) for k in range(4)))


def test_without_options_nothing_is_limited():
    options = RunOptions()

    assert options.run_dir == Path("runs")
    assert (options.epochs, options.max_epochs, options.time_s) == (0, 0, 0.0)
    assert options.epoch is None
    assert options.accept == ()


def test_options_and_results_cannot_be_changed():
    with pytest.raises(AttributeError):
        RunOptions().epochs = 1
    with pytest.raises(AttributeError):
        RunResult(0, "/runs/j/x", 3, "").exit_code = 1


def test_node_map_is_parsed():
    node_options = ("t_1=t_0", "t_3=t_0", "t_1=t_0")

    assert parse_node_map(NODES, node_options) == {"t_1": "t_0", "t_3": "t_0"}


@pytest.mark.parametrize(
    ("node_options", "why", "mend"),
    [
        (["t_1"], "it is not NODE=NODE", "--map t_3=t_0"),
        (["t_1=u_0"], "there is no node 'u_0'", "did you mean 't_0'"),
        (["t1=t_0"], "there is no node 't1'", "did you mean"),
        (["t_1=t_1"], "in its own place already", "leave it out"),
        (["t_1=t_0", "t_1=t_2"], "'t_1' is in the place of 't_0'", "choose one"),
        (["t_2=t_1", "t_1=t_0"], "'t_1' is itself in the place of 't_0'", "--map t_2=t_0"),
        (["t_1=t_0", "t_0=t_1"], "is itself in the place of", "leave one of them out"),
    ],
)
def test_contradictory_node_map_is_refused(node_options, why, mend):
    with pytest.raises(UsageError) as caught:
        parse_node_map(NODES, node_options)
    fault = caught.value.faults[0]

    assert fault.code == "E403"
    assert why in fault.message
    assert mend in fault.mend
