"""The table of nets."""

from __future__ import annotations

import pytest

from tests.support.compiling import codes_of, compile_text, fault_of


def test_a_net_that_uses_itself_is_named_with_its_way(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        nets: {a: [{net: b}], b: [{loop: 2, steps: [{net: c}]}], c: [{net: a}]}
        epoch: [{task: t, steps: [{net: b}]}]
        """,
    )

    assert fault.code == "E143"
    assert "a -> b -> c -> a" in fault.message


def test_a_net_that_uses_itself_directly_is_found(tmp_path):
    assert codes_of(tmp_path, "nets: {a: [{net: a}]}") == ["E143"]


def test_a_net_that_uses_a_circle_adds_no_further_fault(tmp_path):
    text = """\
        nets: {a: [{net: a}], b: [{net: a}]}
        epoch: [{task: t, steps: [{net: b}]}]
        """
    assert codes_of(tmp_path, text) == ["E143"]


def test_nets_that_grow_exponentially_are_refused_at_once(tmp_path):
    nets = ", ".join(f"n{i}: [{{net: n{i + 1}}}, {{net: n{i + 1}}}]" for i in range(40))
    text = f"nets: {{{nets}, n40: [x = 1]}}\nepoch: [{{task: t, steps: [{{net: n0}}]}}]\n"

    assert codes_of(tmp_path, text) == ["E146"]


@pytest.mark.parametrize("uses", [1, 3])
def test_a_net_may_be_used_any_number_of_times(tmp_path, uses):
    steps = ", ".join(["{net: f}"] * uses)

    compiled = compile_text(
        tmp_path, f"nets: {{f: [w = w + 1]}}\nepoch: [{{task: t, steps: [{steps}]}}]"
    )

    assert len(compiled.job.epoch.tasks[0].steps) == uses


def test_a_long_chain_of_nets_is_refused_for_its_depth_only(tmp_path):
    nets = ", ".join(f"n{i}: [{{net: n{i + 1}}}]" for i in range(2000))
    text = f"nets: {{{nets}, n2000: [x = 1]}}\nepoch: [{{task: t, steps: [{{net: n0}}]}}]\n"

    assert codes_of(tmp_path, text) == ["E144"]
