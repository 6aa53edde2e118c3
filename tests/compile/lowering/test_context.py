"""What lowering knows about the place of a step."""

from __future__ import annotations

import pytest

from jobrun.compile.lowering.context import Env
from tests.support.compiling import fault_of


def test_a_stop_without_a_name_leaves_the_innermost_block():
    env = Env((("task", "epoch/t"),)).block("outer", "epoch/t/steps[0]")

    assert env.target(None) == "epoch/t/steps[0]"
    assert env.target("task") == "epoch/t"
    assert env.target("outer") == "epoch/t/steps[0]"
    assert env.target("other") is None


def test_a_branch_is_no_block():
    env = Env((("task", "epoch/t"),)).branch()

    assert env.target(None) == "epoch/t"
    assert env.depth == 1


def test_a_net_with_own_names_does_not_know_the_callers_pass_numbers():
    env = Env((("task", "epoch/t"),)).loop(None, "epoch/t/steps[0]", "i")

    assert env.net("plain", None).indices == {"i": "epoch/t/steps[0]"}
    assert env.net("own", str.upper).indices == {}
    assert env.net("own", str.upper).loops == ("epoch/t/steps[0]",)


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("{load: {k: a.npy}}", "E150"),
        ("{load: {sum: a.npy}}", "E151"),
        ("{call: 'm:f', out: rng}", "E151"),
        ("{call: 'm:f', out: [a, float32]}", "E151"),
        ("{run: ls, out: {epoch: a.npy}}", "E151"),
        ("{guard: k, steps: [stop]}", "E150"),
        ("{loop: 2, as: k, steps: [x = 1]}", "E150"),
        ("{op: add, in: [1, 2], out: max}", "E151"),
        ("{net: f, in: {a: 1}, out: {b: k}}", "E150"),
    ],
)
def test_a_step_cannot_bind_a_param_or_a_reserved_word(tmp_path, step, code):
    fault = fault_of(
        tmp_path,
        f"""\
        params: {{k: 3}}
        nets: {{f: {{in: [a], out: [b], steps: [b = a]}}}}
        epoch: [{{task: t, steps: [{{net: f, in: {{a: 1}}}}, {step}]}}]
        """,
    )

    assert fault.code == code


def test_a_parameter_of_a_net_cannot_have_the_name_of_a_param(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        params: {k: 3}
        nets: {f: {in: [k], out: [b], steps: [b = k]}}
        epoch: [{task: t, steps: [{net: f, in: {k: 1}, out: {b: x}}]}]
        """,
    )

    assert fault.code == "E150"
    assert fault.path == "nets.f"
