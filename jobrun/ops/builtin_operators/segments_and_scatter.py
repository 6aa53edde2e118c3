"""Declare the operators on segments of rows, in-place operators, and counters."""

from __future__ import annotations

from jobrun.ops.definition import OpDef, ruled
from jobrun.ops.type_rules.segments_and_scatter import ACCUMULATION_RULES


def _segment(name: str, doc: str, results: int = 1) -> OpDef:
    return OpDef(
        name,
        "(values, segments, num_segments)",
        f"jobrun.ops.implementations.segments:{name}",
        doc,
        f"{name}([1.0, 2.0, 4.0], [0, 1, 0], 2)",
        results=results,
    )


def _in_place(name: str, doc: str, value: str = "2.0") -> OpDef:
    return OpDef(
        name,
        "(a, indices, values, /)",
        f"jobrun.ops.implementations.scatter:{name}",
        doc,
        f"u = ones(3); {name}(u, [0, 0, 2], {value})",
        mutates=(0,),
        results=0,
    )


def _counter(name: str, signature: str, doc: str, arguments: str) -> OpDef:
    return OpDef(
        name,
        signature,
        f"jobrun.ops.implementations.counters:{name}",
        doc,
        f"c = counter(3); {name}({arguments})",
        mutates=(0,),
        atomic=True,
    )


_STATE = (
    _segment("segment_sum", "sum and number of the rows of each segment", 2),
    _segment("segment_mean", "mean of the rows of each segment; nan where there is none"),
    _segment("segment_max", "largest of the rows of each segment; -inf where there is none"),
    _segment("segment_min", "smallest of the rows of each segment; inf where there is none"),
    OpDef("index_add", "(a, indices, values, /)", "jobrun.ops.implementations.scatter:index_add",
          "a with values added at indices, as a new array; repeated indices sum",
          "index_add(zeros(3), [0, 0, 2], 1.0)"),
    OpDef("index_set", "(a, indices, values, /)", "jobrun.ops.implementations.scatter:index_set",
          "a with values at indices, as a new array; of repeated indices the last wins",
          "index_set(zeros(3), [0, 2], [5.0, 7.0])"),
    _in_place("add_at", "add values at indices in place; repeated indices sum"),
    _in_place("subtract_at", "subtract values at indices in place; repeated indices sum"),
    _in_place("multiply_at", "multiply items at indices in place; repeated indices each count"),
    _in_place("maximum_at", "raise items at indices to values in place"),
    _in_place("minimum_at", "lower items at indices to values in place", "0.5"),
    OpDef("counter", "(value=0, /)", "jobrun.ops.implementations.counters:counter",
          "a counter that tasks may change at the same time; nets are passed the counter itself, "
          "d = c makes another one", "counter(0)"),
    _counter("count_up", "(counter, /)", "add 1; gives the old value", "c"),
    _counter("count_down", "(counter, /)", "take 1 away; gives whether it was 0 or less", "c"),
    _counter("atomic_add", "(counter, amount, /)", "add an int; gives the old value", "c, 5"),
    _counter("atomic_max", "(counter, value, /)", "raise to a value; gives the old one", "c, 7"),
    _counter("count_reset", "(counter, /)", "back to 0; gives the old value", "c"),
    OpDef("count_value", "(counter, /)", "jobrun.ops.implementations.counters:count_value",
          "the present value of a counter", "c = counter(3); count_value(c)"),
)  # fmt: skip

SEGMENTS_AND_SCATTER = ruled(_STATE, ACCUMULATION_RULES)
