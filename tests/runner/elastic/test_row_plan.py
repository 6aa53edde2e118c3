"""What of a family's state cannot be divided, and how that is said."""

from __future__ import annotations

import pytest

from jobrun.runner.elastic.row_plan import ResizedFamily
from tests.support.elastic_job import SPEC, Elastic

WITH_OUTPUT = (
    SPEC.replace("epoch:\n", "epoch:\n  - {task: o, node: t, outputs: [{x: V}], steps: []}\n")
    + "exit: [{task: last, node: t, steps: [y = o.x]}]\n"
)


def _fault(folder, text, count=3, **options):
    job = Elastic(folder, text)
    job.run(2, max_epochs=1)
    error = job.refused(count, **options)
    return error, error.faults[0]


def test_state_that_is_not_declared_is_refused_with_the_place_that_makes_it(tmp_path):
    error, fault = _fault(tmp_path, SPEC.replace(", V: replicated", ""))

    assert error.exit_code == 5
    assert (fault.code, fault.path) == ("E387", "init/all/steps[2]")
    assert fault.where is not None
    assert (fault.where.line, fault.where.column) == (12, 9)
    assert "'V' of t_0, t_1 is declared neither" in fault.message
    assert "state: {V: replicated}" in fault.mend


def test_each_blob_that_is_not_declared_is_named(tmp_path):
    error, _ = _fault(tmp_path, SPEC.replace("state: {U: {partition: rows}, V: replicated}", ""))

    assert [fault.path for fault in error.faults] == ["init/all/steps[1]", "init/all/steps[2]"]


def test_replicas_that_differ_are_refused_with_the_first_difference(tmp_path):
    error, fault = _fault(tmp_path, SPEC.replace("V = V * 0.9", "V = V + node.index"))

    assert (error.exit_code, fault.code, fault.path) == (5, "E388", "state.V")
    assert "0.5 on t_0, 1.5 on t_1" in fault.message


def test_rows_of_two_shapes_do_not_fit_together(tmp_path):
    text = SPEC.replace("(rows, 3)) / 7", "(rows, 3))[:, :node.index + 1] / 7")
    _, fault = _fault(tmp_path, text)

    assert (fault.code, fault.path) == ("E387", "state.U")
    assert "do not fit together" in fault.message


def test_what_is_found_to_be_a_single_value_is_not_divided(tmp_path):
    (tmp_path / "mine.py").write_text("def one():\n    return 2.0\n")
    text = SPEC.replace("V: replicated", "V: {partition: rows}")
    text = text.replace("- V = 0.5", "- {call: 'mine:one', out: V}").replace("V = V * 0.9", "k = V")
    _, fault = _fault(tmp_path, text)

    assert "is no array with rows" in fault.message


def test_an_output_that_a_new_node_has_not_given_is_refused(tmp_path):
    text = SPEC.replace(
        "epoch:\n", "epoch:\n  - {task: o, node: t, outputs: [{x: V}], steps: []}\n"
    )
    text += "exit: [{task: last, node: t, steps: [y = o.x]}]\n"
    error, fault = _fault(tmp_path, WITH_OUTPUT)

    assert error.exit_code == 5
    assert "the output 'o.x' is read later, and t_2 has not given one yet" in fault.message


def test_fewer_nodes_need_no_output_of_those_that_are_gone(tmp_path):
    text = SPEC.replace(
        "epoch:\n", "epoch:\n  - {task: o, node: t, outputs: [{x: V}], steps: []}\n"
    )
    text += "exit: [{task: last, node: t, steps: [y = o.x]}]\n"
    job = Elastic(tmp_path, text)
    job.run(2, max_epochs=1)
    job.run(1)

    assert job.newest.record.status == "finished"


def test_a_blob_that_the_epoch_lacks_is_refused(tmp_path):
    job = Elastic(tmp_path)
    job.run(2, max_epochs=1)
    job.text = SPEC.replace("- V = 0.5", "- V = 0.5\n      - Z = 1")
    error = job.refused(3, accept=("init",))

    assert "E307" in [fault.code for fault in error.faults]


@pytest.mark.parametrize(("layout", "words"), [("rows", "redistributed"), ("replicated", "same")])
def test_a_family_says_what_becomes_of_it(layout, words):
    text = str(ResizedFamily("t", ("t_0", "t_1"), ("t_0",), (("U", layout),)))

    assert text.startswith("nodes of 't': 2 before, 1 now; U")
    assert words in text
