"""Blocks, branches, stops and nets, lowered."""

from __future__ import annotations

import pytest

from jobrun.graph.query import walk
from jobrun.graph.steps import Assign, Guard, If, Loop, Net, Parallel, Stop, UseNet, While
from tests.support.compiling import codes_of, compile_text, fault_of, job_of, task_of


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


def test_paths_tell_where_a_step_stands(tmp_path):
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


def test_a_plain_net_works_on_the_callers_names(tmp_path):
    (use,) = _steps(tmp_path, "{net: f}", nets="{f: [y = w, {log: hi}, z = y]}")

    assert isinstance(use, UseNet)
    assert [step.path for step in use.steps] == [
        "epoch/t/steps[0].f[0]",
        "epoch/t/steps[0].f[1]",
        "epoch/t/steps[0].f[2]",
    ]
    assert isinstance(use.steps[0], Net)
    assert use.steps[0].ops[0].origin.line == 5


def test_a_net_with_parameters_has_names_of_its_own(tmp_path):
    (use,) = _steps(
        tmp_path,
        "{net: f, in: {a: w + 1}, out: {b: w}}",
        nets="{f: {in: [a], out: [b], steps: [t = a * 2, b = t]}}",
    )

    assert isinstance(use, UseNet)
    (net,) = use.steps
    assert isinstance(net, Net)
    names = [op.targets[0].name for op in net.ops if isinstance(op, Assign)]
    assert names == [
        "epoch/t/steps[0]:a",
        "epoch/t/steps[0]:t",
        "epoch/t/steps[0]:b",
        "w",
    ]


def test_a_net_without_in_and_out_works_on_the_callers_names_in_its_long_form_too(tmp_path):
    (use,) = _steps(tmp_path, "{net: f}", nets="{f: {steps: [y = w]}}")

    assert isinstance(use, UseNet)
    assert isinstance(use.steps[0], Net)
    assert use.steps[0].ops[0].targets[0].name == "y"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("{net: g, in: {a: w}}", "unknown net"),
        ("{net: f, in: {x: w, a: w}}", "no parameter 'x'"),
        ("{net: f}", "missing a value for parameter 'a'"),
        ("{net: f, in: {a: w}, out: {c: y}}", "no result 'c'"),
        ("{net: plain, in: {a: w}}", "takes no 'in' or 'out'"),
    ],
)
def test_a_net_is_called_as_it_was_declared(tmp_path, use, part):
    fault = fault_of(
        tmp_path,
        f"""\
        nets: {{f: {{in: [a], out: [b], steps: [b = a]}}, plain: [y = w]}}
        epoch: [{{task: t, steps: [{{net: plain}}, {{net: f, in: {{a: 1}}}}, {use}]}}]
        """,
    )

    assert fault.code in ("E145", "E147")
    assert part in fault.message


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


def test_set_up_of_a_net_runs_once_for_each_task_that_uses_it(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nets:
          f:
            setup: {task: {init: [total = 0]}, instance: {init: [own = 1]}, node: {init: [g = 2]}}
            steps: [total = total + own + g]
        epoch:
          - {task: a, steps: [{net: f}, {net: f}]}
          - {task: b, steps: [{loop: 2, steps: [{net: f}]}]}
        """,
    )

    for name in ("a", "b"):
        task = task_of(job, name)
        assert [setup.name for setup in task.setup] == ["nets/f/setup.task"]
        assert [setup.name for setup in task.instance_setup] == ["nets/f/setup.instance"]
    assert [around.nets.name for around in job.epoch.setup] == ["nets/f/setup.node"]


def test_what_set_up_of_a_net_makes_is_shared_by_all_uses_in_a_task(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nets:
          f:
            in: [x]
            setup: {task: {init: [total = 0]}}
            steps: [total = total + x]
        epoch: [{task: t, steps: [{net: f, in: {x: 1}}, {net: f, in: {x: 2}}]}]
        """,
    )

    names = [name for name, _ in task_of(job, "t").scopes]
    assert names == ["epoch/t/steps[0]:x", "epoch/t/steps[1]:x", "nets/f:total"]


def test_a_net_that_nothing_uses_is_read_all_the_same(tmp_path):
    assert codes_of(tmp_path, "nets: {f: [x = nosuch(1), {stop: block}, y = iter]}") == ["E104"]


def test_a_net_that_nothing_uses_gets_a_warning(tmp_path):
    compiled = compile_text(tmp_path, "nets: {f: [{net: g}], g: [x = 1]}")

    assert [(one.code, one.path) for one in compiled.warnings] == [("W134", "nets.f")]
