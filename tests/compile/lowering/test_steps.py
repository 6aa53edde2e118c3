"""Blocks, branches, loops and stops, lowered."""

from __future__ import annotations

import pytest

from jobrun.graph.query import walk
from jobrun.graph.steps import Guard, If, Loop, Net, Parallel, Stop, While
from tests.support.compiling import codes_of, compile_text, fault_of, task_of


def _steps(folder, steps, **more):
    keys = "\n".join(f"{key}: {value}" for key, value in more.items())
    compiled = compile_text(folder, f"{keys}\nepoch: [{{task: t, steps: [{steps}]}}]")
    return task_of(compiled.job, "t").steps


def _stops(steps):
    return [step.target for step in walk(steps) if isinstance(step, Stop)]


def test_operators_that_follow_each_other_are_one_net(tmp_path):
    steps = _steps(tmp_path, "x = 1, {op: add, in: [x, 1], out: y}, {log: hi}, z = 2")

    assert [type(step).__name__ for step in steps] == ["Net", "Log", "Net"]
    assert isinstance(steps[0], Net)
    assert [op.path for op in steps[0].ops] == ["epoch/t/steps[0]", "epoch/t/steps[1]"]


def test_the_path_of_a_step_is_its_position_in_the_spec(tmp_path):
    steps = _steps(
        tmp_path,
        "{if: w > 1, then: [x = 1], elif: [{if: w > 2, then: [x = 2]}], else: [x = 3]}, "
        "{parallel: [[a = 1], [{loop: 2, steps: [b = 1]}]]}",
    )

    paths = [step.path for step in walk(steps)]
    assert paths == [
        "epoch/t/steps[0]",
        "epoch/t/steps[0].then[0]",
        "epoch/t/steps[0].elif[0].then[0]",
        "epoch/t/steps[0].else[0]",
        "epoch/t/steps[1]",
        "epoch/t/steps[1][0].steps[0]",
        "epoch/t/steps[1][1].steps[0]",
        "epoch/t/steps[1][1].steps[0].steps[0]",
    ]


def test_a_step_knows_its_line_and_column(tmp_path):
    steps = _steps(tmp_path, "x = 1, {log: hi}")

    assert (steps[1].origin.line, steps[1].origin.column) == (6, 34)


@pytest.mark.parametrize(
    ("steps", "targets"),
    [
        ("stop", ["epoch/t"]),
        ("{stop: task}", ["epoch/t"]),
        ("{if: w > 1, then: [stop]}", ["epoch/t"]),
        ("{loop: 2, steps: [stop]}", ["epoch/t/steps[0]"]),
        ("{while: w > 1, steps: [{stop_if: w > 2}]}", ["epoch/t/steps[0]"]),
        ("{loop: 2, steps: [{stop: task}]}", ["epoch/t"]),
        ("{guard: g, steps: [stop]}", ["epoch/t/steps[0]"]),
        ("{guard: g, steps: [{loop: 2, steps: [{stop: g}]}]}", ["epoch/t/steps[0]"]),
        ("{parallel: [[{stop_if: w > 1}]]}", ["epoch/t/steps[0][0]"]),
        (
            "{loop: 2, name: outer, steps: [{loop: 2, steps: [{stop_if: w > 1, stop: outer}]}]}",
            ["epoch/t/steps[0]"],
        ),
    ],
)
def test_a_stop_leaves_the_block_it_means(tmp_path, steps, targets):
    assert _stops(_steps(tmp_path, steps)) == targets


def test_a_stop_in_a_net_leaves_the_callers_block(tmp_path):
    steps = _steps(tmp_path, "{loop: 2, steps: [{net: f}]}", nets="{f: [{stop_if: w > 1}]}")

    assert _stops(steps) == ["epoch/t/steps[0]"]


def test_a_stop_needs_a_block_of_its_name(tmp_path):
    text = "epoch: [{task: t, steps: [{loop: 2, name: outer, steps: [{stop: outr}]}]}]"
    fault = fault_of(tmp_path, text)

    assert fault.code == "E156"
    assert fault.mend == "did you mean 'outer'?"


@pytest.mark.parametrize(
    "steps",
    [
        "{loop: 2, name: a, steps: [{loop: 2, name: a, steps: [x = 1]}]}",
        "{loop: 2, name: task, steps: [x = 1]}",
        "{loop: 2, as: i, steps: [{loop: 2, as: i, steps: [x = 1]}]}",
    ],
)
def test_names_of_blocks_around_each_other_differ(tmp_path, steps):
    assert codes_of(tmp_path, f"epoch: [{{task: t, steps: [{steps}]}}]") == ["E157"]


@pytest.mark.parametrize("count", ["2.5", "true", "\"'a'\""])
def test_a_loop_count_is_a_whole_number(tmp_path, count):
    text = f"epoch: [{{task: t, steps: [{{loop: {count}, steps: [x = 1]}}]}}]"

    assert fault_of(tmp_path, text).code == "E155"


def test_each_kind_of_block_is_lowered(tmp_path):
    steps = _steps(
        tmp_path,
        "{loop: forever, steps: [stop]}, {while: w > 1, steps: [w = 1]}, "
        "{guard: g, steps: [x = 1]}, {parallel: [[a = 1], [b = 1]]}, {if: w > 1, then: [y = 1]}",
    )

    assert [type(step) for step in steps] == [Loop, While, Guard, Parallel, If]
    assert isinstance(steps[0], Loop)
    assert steps[0].count is None


def test_deep_nesting_has_a_bound(tmp_path):
    nets = ", ".join(f"n{i}: [{{net: n{i + 1}}}]" for i in range(70))
    text = f"nets: {{{nets}, n70: [x = 1]}}\nepoch: [{{task: t, steps: [{{net: n0}}]}}]"

    assert codes_of(tmp_path, text) == ["E144"]
