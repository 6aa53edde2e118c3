from __future__ import annotations

import json

from msgspec.structs import replace

from jobrun.runner.start_or_resume import run_with_policy
from jobrun.runtime.codegen.meter_protocol import BlockTime, Owner, Span, StepTime
from jobrun.tools.profile import (
    SCHEMA,
    Bar,
    InstanceRow,
    NodeRow,
    OperatorRow,
    Profiler,
    StepRow,
    build_table,
    build_trace,
    labels,
    parents,
)
from tests.support.compiling import compile_text
from tests.support.resumable_job import WalkJob


def _profiled(job, **options):
    profiler = Profiler()
    job.events.clear()
    chosen = replace(job.options(**options), profiler=profiler)

    def listen(event):
        profiler.listen(event)

    result = run_with_policy(*job.load(), chosen, listen, "auto")
    return profiler, result


def test_a_run_leaves_a_table_and_a_trace_in_its_directory(tmp_path):
    job = WalkJob(tmp_path / "walk")

    profiler, _ = _profiled(job)
    table, trace = profiler.write()

    assert table == job.run.path / "profile" / "table-1.json"
    content = json.loads(table.read_text())
    assert content["schema"] == SCHEMA
    steps = {row["path"]: row for row in content["steps"]}
    assert steps["epoch/step/steps[0]"]["calls"] == 4
    assert steps["epoch/step/steps[0]"]["label"] == "+="
    assert {row["node"] for row in content["nodes"]} == {"a", "b"}
    names = [event["name"] for event in json.loads(trace.read_text())["traceEvents"]]
    assert {"epoch 1", "epoch 4", "save 4", "epoch/step"} <= set(names)


def test_a_profile_of_a_resume_does_not_replace_the_first(tmp_path):
    job = WalkJob(tmp_path / "walk")

    first = _profiled(job, max_epochs=1)[0].write()
    second = _profiled(job)[0].write()

    assert [path.name for path in (*first, *second)] == [
        "table-1.json",
        "trace-1.json",
        "table-2.json",
        "trace-2.json",
    ]


def test_the_bits_are_those_of_a_run_without_it(tmp_path):
    plain, measured = WalkJob(tmp_path / "plain"), WalkJob(tmp_path / "measured")

    plain.start()
    _profiled(measured)

    assert measured.outcome() == plain.outcome()


def test_nothing_is_written_where_nothing_ran(tmp_path):
    profiler = Profiler()
    assert profiler.write() is None
    assert profiler.table() is None


SPEC = """\
nets: {f: [b = a @ a]}
init: [{task: start, steps: ["a = ones((2, 2))", x = 1, {log: hi}]}]
epoch:
  - task: t
    setup: {node: {init: [s = 1]}, task: {init: [r = rng.normal()]}}
    steps:
      - a = a + x
      - x += 1
      - "a[0] *= 2"
      - "a[1] = sum(a)"
      - c = a
      - {net: f}
      - {loop: 2, steps: [d = -c]}
      - {call: "m:f", with: {a: a}, out: e}
      - {op: maximum, in: [c, 1], out: g}
      - del g
    report: [{every: 1s, steps: [{log: "{x}"}]}]
stop: [{epochs: 1}]
"""


def test_each_step_has_a_word_for_what_it_does(tmp_path):
    labels_by_path = labels(compile_text(tmp_path, SPEC).job)

    body = {path.removeprefix("epoch/t/"): word for path, word in labels_by_path.items()}
    assert [body[f"steps[{number}]"] for number in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)] == [
        "+",
        "+=",
        "[] *=",
        "[] = sum",
        "copy",
        "net f",
        "loop",
        "call m:f",
        "maximum",
        "del",
    ]
    assert body["steps[6].steps[0]"] == "-"
    assert body["setup.task.init[0]"] == "rng.normal"
    assert body["setup.node.init[0]"] == "constant"
    assert body["report[0].steps[0]"] == "log"
    assert labels_by_path["init/start/steps[2]"] == "log"


def _step(path, calls=1, seconds=1.0, *, estimated=False):
    return StepTime(path, 7, calls, seconds, estimated)


def _block(path, *steps, task="t", node="n", instance=0, runs=1, seconds=10.0):
    return BlockTime(Owner("epoch", node, task, instance), path, runs, seconds, steps, ())


def test_a_step_is_nested_in_the_longest_path_around_it():
    paths = ["e/t/steps[1]", "e/t/steps[10]", "e/t/steps[1].steps[0]", "e/t/steps[1][0].steps[2]"]
    assert parents(paths) == {
        "e/t/steps[1]": "",
        "e/t/steps[10]": "",
        "e/t/steps[1].steps[0]": "e/t/steps[1]",
        "e/t/steps[1][0].steps[2]": "e/t/steps[1]",
    }


def test_steps_of_all_instances_are_added_up_and_the_longest_comes_first():
    first = _block("epoch/t", _step("s[0]", 2, 1.0), _step("s[1]", 2, 3.0, estimated=True))
    second = _block("epoch/t", _step("s[0]", 1, 0.5), _step("s[1]", 1, 1.0), instance=1)

    slow, fast = build_table([first, second], {"s[1]": "matmul"}).steps

    assert (slow.path, slow.label, slow.calls, slow.seconds) == ("s[1]", "matmul", 3, 4.0)
    assert slow.estimated
    assert (fast.path, fast.label, fast.calls, fast.seconds) == ("s[0]", "", 3, 1.5)
    assert not fast.estimated


def test_a_loops_total_has_its_steps_in_it():
    block = _block("epoch/t", _step("s[0]", 1, 0.5), _step("s[0].steps[0]", 9, 2.0))

    loop = next(row for row in build_table([block], {}).steps if row.path == "s[0]")

    assert (loop.seconds, loop.total_s) == (0.5, 2.5)


def test_what_branches_take_is_not_the_parallels_own():
    body = _block("epoch/t", _step("s[0]", 1, 3.0))
    branches = [_block(f"s[0][{i}]", _step(f"s[0][{i}].steps[0]", 1, 2.5)) for i in range(2)]

    whole = next(row for row in build_table([body, *branches], {}).steps if row.path == "s[0]")

    assert (whole.seconds, whole.total_s) == (0.0, 3.0)


def test_operators_are_added_up_by_what_they_do():
    block = _block("epoch/t", _step("a", 2, 1.0), _step("b", 3, 1.0), _step("c", 1, 5.0))

    rows = build_table([block], {"a": "+", "b": "+", "c": "@"}).operators

    assert rows == (OperatorRow("@", 1, 5.0), OperatorRow("+", 5, 2.0))


def test_instances_have_body_setup_and_reports_and_nodes_all_of_them():
    blocks = [
        _block("epoch/t", runs=3, seconds=4.0),
        _block("epoch/t/setup.task.init", seconds=1.0),
        _block("epoch/t/report[0]", seconds=0.5),
        _block("epoch/t/steps[0][1]", seconds=2.0),
        _block("epoch/t", instance=1, runs=3, seconds=1.0),
        _block("epoch/setup.init", task="", node="m", seconds=0.25),
    ]

    table = build_table(blocks, {})

    assert table.instances == (
        InstanceRow("epoch", "n", "t", 0, 3, 4.0, 1.0, 0.5),
        InstanceRow("epoch", "n", "t", 1, 3, 1.0, 0.0, 0.0),
        InstanceRow("epoch", "m", "", 0, 0, 0.0, 0.25, 0.0),
    )
    assert table.nodes == (NodeRow("n", 6.5), NodeRow("m", 0.25))


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

    names = {
        event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"
    }
    order = {
        event["pid"]: event["args"]["sort_index"]
        for event in events
        if event["name"] == "process_sort_index"
    }
    assert [names[pid] for pid in sorted(order, key=order.get)] == [
        "run",
        "node n_2",
        "node n_10",
        "all runs of each step added up",
    ]
    bars = [event for event in events if event.get("cat") == "block"]
    assert [(names[event["pid"]], event["tid"]) for event in bars] == [
        ("node n_10", 1),
        ("node n_2", 1),
    ]


def test_groups_and_saves_are_bars_of_the_run():
    (bar,) = _events(cat="run")
    assert (bar["name"], bar["ts"], bar["tid"]) == ("epoch 1", 250_000, 0)


def test_flames_are_as_wide_as_the_time_and_nested():
    loop, inner, save = _events(cat="step")

    assert (loop["name"], loop["ts"], loop["dur"]) == ("s[0]  loop", 0, 2_500_000)
    assert (inner["ts"], inner["dur"]) == (0, 2_000_000)
    assert (save["ts"], save["dur"]) == (2_500_000, 1_000_000)
    assert inner["args"] == {"calls": 9, "line": 5}
