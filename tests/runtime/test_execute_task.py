from __future__ import annotations

import pytest

from jobrun.core.events import Logged, TaskEnded
from jobrun.graph.effects import Assert
from jobrun.graph.expressions import Const, Name
from jobrun.graph.types import Node, NodeReport, NodeSetup, Output, Scope, Task
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import Blobs, Frame
from jobrun.runtime.execute_task import NodeRun, run_task, run_with_setup
from jobrun.runtime.group_plan import plan_group
from jobrun.runtime.step_errors import attempt
from jobrun.testing.graphs import group, log, ref, report, setup, task, text
from tests.support.step_bench import Bench


@pytest.fixture
def bench():
    with Bench() as step_bench:
        yield step_bench


def run(bench, value):
    plan = plan_group(group(value)).tasks[0]
    run_task(plan, bench.run, Node("local"), Blobs(), bench.node)
    return [event.text for event in bench.events if isinstance(event, Logged)]


def failing(output):
    return Assert(Const(False), text(output), "", path=f"e/{output}")


def test_errors_are_noted_and_not_raised(bench):
    run(bench, task("t", failing("broken")))

    assert len(bench.run.errors) == 1
    assert isinstance(bench.events[-1], TaskEnded)
    assert bench.events[-1].failed


def test_a_task_has_all_its_outputs_or_none(bench):
    run(bench, task("t", "x = 1", outputs={"x": "x", "y": "missing"}))

    assert bench.run.outputs == {}
    fault = bench.run.errors[0].faults[0]
    assert (fault.code, fault.path) == ("E201", "e/t.outputs.y")


def test_results_of_steps_stand_in_for_outputs_of_their_name(bench):
    task_ = Task("t", "local", (), outputs=(Output("file", Name("file")),), path="e/t")
    plan = plan_group(group(task_)).tasks[0]
    bench.run.outputs.clear()

    frame_results = {}
    original = Frame.__init__

    def with_results(self, *args):
        original(self, *args)
        self.results["file"] = "stored"
        frame_results["seen"] = True

    Frame.__init__ = with_results
    try:
        run_task(plan, bench.run, Node("local"), Blobs(), bench.node)
    finally:
        Frame.__init__ = original

    assert bench.run.outputs == {ref("t", "file"): "stored"}


def test_a_cancelled_body_is_no_error_and_runs_the_exits(bench):
    bench.run.body.cancel()

    output = run(bench, task("t", "x = 1", setup=(setup([], [log("out")]),)))

    assert output == ["out"]
    assert bench.run.errors == []
    assert bench.run.interrupted


def test_attempt_records_errors(bench):
    def cancelled() -> bool:
        raise CancelledError

    def broken() -> bool:
        raise ValueError

    assert attempt(bench.run, lambda: True)
    assert not attempt(bench.run, cancelled)
    assert bench.run.errors == []
    assert not attempt(bench.run, broken)
    assert len(bench.run.errors) == 1


def test_exits_run_reversed_around_a_body(bench):
    task_ = task("t", setup=(setup([], [log("1")], "a"), setup([], [log("2")], "b")))
    plan = plan_group(group(task_)).tasks[0]

    went_well = run_with_setup(plan.setup, bench.frame, lambda: True)

    assert went_well
    assert [event.text for event in bench.events] == ["2", "1"]


def test_a_node_has_a_beginning_and_an_end(bench):
    scopes = (("g", Scope.GROUP),)
    ran = group(
        setup=(NodeSetup("local", setup(["g = 1", log("in")], [log("g ", ("g", ""))]), scopes),),
        reports=(NodeReport("local", report(log("report ", ("g", ""))), scopes),),
    )
    g = Blobs()
    node = NodeRun(
        plan_group(ran).nodes[0], Frame(bench.run, Node("local"), "", (g, g, g, bench.node))
    )

    node.begin()
    node.end()

    assert [event.text for event in bench.events] == ["in", "report 1", "g 1"]
    assert g["g"] == 1
