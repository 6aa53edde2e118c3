from __future__ import annotations

import json

from jobrun.runtime.codegen.meter_protocol import BlockTime, Owner, Span
from jobrun.tools.profile.table import StepRow
from jobrun.tools.profile.trace import Bar, build_trace

SPANS = (Span(10.5, 10.75, 1, 99), Span(11.0, 11.5, 2, 77))
BLOCK = BlockTime(Owner("epoch", "n", "t", 3), "epoch/t", 2, 0.75, (), SPANS)
STEPS = (
    StepRow("s[0]", "loop", 4, 1, 0.5, 2.5),
    StepRow("s[0].steps[0]", "+", 5, 9, 2.0, 2.0),
    StepRow("s[1]", "save", 6, 1, 1.0, 1.0),
)


def _events(**wanted):
    document = build_trace([BLOCK], [Bar("epoch 1", 10.25, 10.8)], STEPS, 10.0)
    return [
        event
        for event in document["traceEvents"]
        if all(event.get(key) == value for key, value in wanted.items())
    ]


def test_it_is_json_with_what_every_event_needs():
    document = build_trace([BLOCK], [], STEPS, 10.0)

    assert json.loads(json.dumps(document)) == document
    for event in document["traceEvents"]:
        assert {"ph", "name", "pid", "tid"} <= event.keys()
        assert event["ph"] == "M" or (event["ts"] >= 0 and event["dur"] >= 0)


def test_each_run_of_a_block_is_a_bar_of_its_thread_in_microseconds():
    first, second = _events(cat="block")

    assert (first["name"], first["ts"], first["dur"]) == ("epoch/t", 500_000, 250_000)
    assert first["args"] == {"node": "n", "instance": 3, "epoch": 1}
    assert first["tid"] != second["tid"]


def test_each_node_is_a_process_of_the_trace_with_threads_of_its_own():
    span = Span(11.0, 11.5, 2, 77)
    times = [
        BlockTime(Owner("epoch", node, "t", 0), "epoch/t", 1, 0.5, (), (span,))
        for node in ("n_10", "n_2")
    ]

    events = build_trace(times, [], STEPS, 10.0)["traceEvents"]

    names = {one["pid"]: one["args"]["name"] for one in events if one["name"] == "process_name"}
    order = {
        one["pid"]: one["args"]["sort_index"]
        for one in events
        if one["name"] == "process_sort_index"
    }
    assert [names[pid] for pid in sorted(order, key=order.get)] == [
        "run",
        "node n_2",
        "node n_10",
        "all runs of each step added up",
    ]
    bars = [one for one in events if one.get("cat") == "block"]
    assert [(names[one["pid"]], one["tid"]) for one in bars] == [("node n_10", 1), ("node n_2", 1)]


def test_groups_and_saves_are_bars_of_the_run():
    (bar,) = _events(cat="run")
    assert (bar["name"], bar["ts"], bar["tid"]) == ("epoch 1", 250_000, 0)


def test_flames_are_as_wide_as_the_time_and_stand_inside_each_other():
    loop, inner, save = _events(cat="step")

    assert (loop["name"], loop["ts"], loop["dur"]) == ("s[0]  loop", 0, 2_500_000)
    assert (inner["ts"], inner["dur"]) == (0, 2_000_000)
    assert (save["ts"], save["dur"]) == (2_500_000, 1_000_000)
    assert inner["args"] == {"calls": 9, "line": 5}
