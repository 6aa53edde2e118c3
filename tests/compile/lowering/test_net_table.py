"""The table of nets."""

from __future__ import annotations

from tests.support.compiling import codes_of, fault_of


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
