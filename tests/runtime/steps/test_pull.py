from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.steps.pull import join_values
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from tests.support.tables import each_case

F4 = np.float32


def on_nodes(*values):
    return [(f"n{number}", value) for number, value in enumerate(values)]


@each_case(
    ("reduce", "values", "expected"),
    [
        ("sum", (1, 2, 3), 6),
        ("sum", (True, True), 2),
        ("sum", (np.array([True, False]), np.array([True, True])), np.array([2, 1])),
        ("sum", (np.bool_(True), np.bool_(True)), np.int64(2)),
        ("mean", (1, 2), 1.5),
        ("mean", (1.0, 2.0, 4.0), 7.0 / 3),
        ("mean", (F4(1), F4(2)), F4(1.5)),
        ("mean", (np.array([1, 2], F4), np.array([3, 5], F4)), np.array([2, 3.5], F4)),
        ("mean", (np.array([1, 2]), np.array([2, 2])), np.array([1.5, 2.0])),
        ("mean", (np.array(1.0), np.array(2.0)), np.float64(1.5)),
        ("stack", (1.5, 2.5), np.array([1.5, 2.5])),
        ("stack", (np.zeros(2), np.ones(2)), np.array([[0.0, 0.0], [1.0, 1.0]])),
        ("stack", ("a", "bc"), np.array(["a", "bc"])),
        ("concat", (np.zeros((1, 2)), np.ones((1, 2))), np.array([[0.0] * 2, [1.0] * 2])),
        ("first", ("a", "b"), "a"),
    ],
)  # fmt: skip
def test_values_are_joined(reduce, values, expected):
    assert same_bits(join_values(reduce, "w", on_nodes(*values)), expected)


def test_a_sum_adds_in_the_order_of_the_nodes():
    values = [0.1, 0.2, 0.3, 1e16, -1e16]

    assert join_values("sum", "w", on_nodes(*values)) == ((((0.1 + 0.2) + 0.3) + 1e16) + -1e16)


def test_a_value_is_looked_at_before_the_next_is_fetched():
    fetched = []

    def values():
        for number, value in enumerate((1, 2.5, 3)):
            fetched.append(number)
            yield f"n{number}", value

    with pytest.raises(TaskFailedError):
        join_values("sum", "w", values())

    assert fetched == [0, 1]


@each_case(
    ("reduce", "values"),
    [
        ("sum", (np.zeros(3), np.zeros(1))),
        ("sum", (np.zeros(3), np.zeros(3, F4))),
        ("mean", (1, 1.0)),
        ("mean", ("a", "b")),
        ("sum", (Counter(1), Counter(2))),
        ("sum", (np.array(["a"]), np.array(["b"]))),
        ("stack", (np.zeros(3), np.zeros(4))),
        ("stack", (Counter(1), Counter(1))),
        ("stack", ([1], [1])),
        ("concat", (1.0, 2.0)),
        ("concat", (np.zeros((1, 2)), np.zeros((1, 3)))),
        ("concat", (np.array(1.0), np.array(2.0))),
    ],
)
def test_values_that_cannot_be_joined_are_a_fault_that_names_nodes(reduce, values):
    with pytest.raises(TaskFailedError) as caught:
        join_values(reduce, "w", on_nodes(*values))

    fault = caught.value.faults[0]
    assert fault.code == "E271"
    assert "'n0'" in fault.message
    assert fault.mend


@pytest.mark.parametrize("reduce", ["concat", "mean", "stack"])
def test_of_containers_the_mend_is_no_reduction_that_refuses_them_too(reduce):
    with pytest.raises(TaskFailedError) as caught:
        join_values(reduce, "w", on_nodes({"a": 1}, {"a": 1}))

    assert "use stack" not in caught.value.faults[0].mend
    assert "first" in caught.value.faults[0].mend
