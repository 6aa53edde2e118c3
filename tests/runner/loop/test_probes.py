"""Values over the state of nodes."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import Origin, TaskFailedError
from jobrun.graph.conditions import Probe
from jobrun.graph.expressions import Binary, Const, NodeBlob, OutputRead
from jobrun.graph.types import OutputRef
from jobrun.runner.loop.conditions import ProbeEvaluator

NODES = {"a": {"x": 1.0, "b": np.bool_(True)}, "b": {"x": 3.0, "b": np.bool_(False)}}
PARTS = tuple(NodeBlob(node, "x") for node in NODES)
BOOLS = tuple(NodeBlob(node, "b") for node in NODES)


class Reads:
    """The one thing of a session that is used here."""

    def __init__(self, blobs=NODES):
        self.blobs = blobs

    def read(self, node, names):
        return {name: self.blobs[node][name] for name in names}


def look(value):
    return ProbeEvaluator(Reads({"a": {"x": value}}), {}), Probe("x", (NodeBlob("a", "x"),))


@pytest.mark.parametrize(
    ("reduce", "value"), [("max", 3.0), ("min", 1.0), ("mean", 2.0), ("sum", 4.0), ("", 1.0)]
)
def test_several_nodes_become_one_value(reduce, value):
    assert ProbeEvaluator(Reads(), {}).value(Probe("x", PARTS, reduce)) == value


@pytest.mark.parametrize(
    ("reduce", "values", "value"),
    [
        ("sum", (2**62, 2**62), 2**63), ("max", (2**63, -1), 2**63), ("min", (2**70, 5), 5),
        ("mean", (2**63, 2**63 + 4), 2.0**63), ("sum", (10**400, -1), 10**400 - 1),
    ],
)  # fmt: skip
def test_integers_of_several_nodes_are_those_of_python(reduce, values, value):
    blobs = {node: {"x": part} for node, part in zip("ab", values, strict=True)}

    reduced = ProbeEvaluator(Reads(blobs), {}).value(Probe("x", PARTS, reduce))

    assert reduced == value
    assert type(reduced) is type(value)


def test_bools_are_folded_too():
    assert ProbeEvaluator(Reads(), {}).holds(Probe("b", BOOLS, "any")) is True
    assert ProbeEvaluator(Reads(), {}).holds(Probe("b", BOOLS, "all")) is False


def test_outputs_are_read():
    evaluator = ProbeEvaluator(Reads(), {OutputRef("t", "a", "o"): 4})

    value = evaluator.value(Probe("t.o", (Binary(OutputRead("t", "o", "a"), "+", Const(1)),)))

    assert value == 5


@pytest.mark.parametrize("value", [True, np.bool_(True), np.array(True)])
def test_a_bool_may_be_of_any_kind(value):
    evaluator, probe = look(value)

    assert evaluator.holds(probe) is True


@pytest.mark.parametrize("value", [1, 0.5, np.int64(1), "yes", None, np.array([True, False])])
def test_condition_that_is_truthy_but_no_bool_is_refused(value):
    evaluator, probe = look(value)

    with pytest.raises(TaskFailedError, match="must be true or false"):
        evaluator.holds(probe)


@pytest.mark.parametrize(
    "value", [1, 2.5, True, "text", np.float32(0.5), np.array([[7]]), np.array(2.0)]
)
def test_a_metric_is_a_python_scalar(value):
    evaluator, probe = look(value)

    metric = evaluator.scalar("m", probe)

    assert type(metric) in {int, float, bool, str}
    assert metric == value


@pytest.mark.parametrize("value", [np.ones(2), None, 1j, [1]])
def test_other_values_are_no_metric(value):
    evaluator, probe = look(value)

    with pytest.raises(TaskFailedError, match="metric 'm' must be one number") as raised:
        evaluator.scalar("m", probe)
    assert raised.value.faults[0].code == "E367"


def test_expression_error_has_its_position():
    where = Origin("j.yaml", 4, 5)
    expr = Binary(NodeBlob("a", "x"), "@", NodeBlob("b", "x"))

    with pytest.raises(TaskFailedError, match="'x @ x' cannot be evaluated") as raised:
        ProbeEvaluator(Reads(), {}).value(Probe("x @ x", (expr,), path="stop[0]", origin=where))

    assert raised.value.faults[0].where == where
