from __future__ import annotations

import pytest

from jobrun.api import expression, steps
from jobrun.compile.faults import Faults
from jobrun.compile.step_paths import PathAssignment
from jobrun.core.errors import SpecError
from jobrun.graph.expressions import LoopIndex
from jobrun.graph.query import expressions, ops, walk
from jobrun.graph.steps import Guard, If, Loop, Parallel, Stop, While
from jobrun.graph.types import NodeReport, Report, SetupNets, Task


def _placed(*parts, **more):
    faults = Faults()
    task = PathAssignment(faults).task(Task("t", "n", steps(*parts), **more), "epoch")
    faults.raise_if_any()
    return task


def test_each_operator_counts_as_a_step():
    task = _placed("a = 1", "b = 2", Loop(None, steps("c = 3")), "d = 4")

    assert task.path == "epoch/t"
    assert [op.path.removeprefix("epoch/t/") for op in ops(task.steps)] == [
        "steps[0]",
        "steps[1]",
        "steps[2].steps[0]",
        "steps[3]",
    ]


def test_blocks_name_their_steps_as_a_spec_does():
    task = _placed(
        If(((expression("a"), steps("x = 1")), (expression("b"), steps("x = 2"))), steps("x = 3")),
        Parallel((steps("y = 1"), steps("z = 1"))),
        Guard("g", steps("x = 4")),
    )
    assert [op.path.removeprefix("epoch/t/steps") for op in ops(task.steps)] == [
        "[0].then[0]",
        "[0].elif[0].then[0]",
        "[0].else[0]",
        "[1][0].steps[0]",
        "[1][1].steps[0]",
        "[2].steps[0]",
    ]


def test_a_stop_without_a_target_leaves_the_innermost_block():
    task = _placed(Stop(None, ""), Loop(None, (Stop(None, ""), Stop(None, "epoch/t"))))
    stops = [step.target for step in walk(task.steps) if isinstance(step, Stop)]
    assert stops == ["epoch/t", "epoch/t/steps[1]", "epoch/t"]


def test_a_stop_that_names_no_block_around_it_is_a_fault():
    with pytest.raises(SpecError, match="'epoch/u'"):
        _placed(Stop(None, "epoch/u"))


def test_a_pass_number_is_that_of_the_innermost_loop():
    inner = While(expression("iter < 3"), steps("x = iter"))
    task = _placed(Loop(None, (inner,)))

    loops = [
        part.loop
        for step in walk(task.steps)
        for expr in expressions(step)
        for part in ((expr.left if hasattr(expr, "left") else expr),)
        if isinstance(part, LoopIndex)
    ]

    # The condition of a loop is looked at outside of it.
    assert loops == ["epoch/t/steps[0]", "epoch/t/steps[0].steps[0]"]


def test_a_pass_number_outside_of_loops_is_a_fault():
    with pytest.raises(SpecError, match="'iter'"):
        _placed("x = iter")


def test_setup_and_reports_get_their_names():
    task = _placed(
        setup=(SetupNets(steps("a = 1")), SetupNets(exit=steps("b = 1"))),
        instance_setup=(SetupNets(steps("c = 1")),),
        reports=(Report(1.0, steps("d = 1")),),
    )
    assert [setup.name for setup in task.setup] == ["epoch/t/setup.task", "epoch/t/setup.task[1]"]
    assert task.instance_setup[0].init[0].path == "epoch/t/setup.instance.init[0]"
    assert task.reports[0].steps[0].path == "epoch/t/report[0].steps[0]"


def test_reports_of_a_group_are_numbered_on_each_node():
    report = Report(1.0, ())
    reports = tuple(NodeReport(node, report) for node in ("a", "b", "a"))
    numbered = PathAssignment(Faults()).node_reports(reports, "epoch")
    assert [node_report.report.path for node_report in numbered] == [
        "epoch/report[0]",
        "epoch/report[0]",
        "epoch/report[1]",
    ]


def test_a_path_that_is_there_stays():
    task = _placed("a = 1")
    assert PathAssignment(Faults()).task(task, "exit") == task
