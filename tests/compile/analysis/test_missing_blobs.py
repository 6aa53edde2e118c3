"""Why a blob is not there."""

from __future__ import annotations

import pytest

from tests.support.compiling import codes_of, fault_of


def test_a_misspelt_name_gets_the_nearest_one(tmp_path):
    text = """\
        init: [{task: i, steps: [shift = 1.0]}]
        epoch: [{task: t, steps: [y = shft]}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E180"
    assert fault.mend == "did you mean 'shift'?"
    assert fault.where is not None
    assert (fault.where.line, fault.where.column) == (5, 31)


def test_a_blob_of_another_task_alone_is_handed_over_as_an_output(tmp_path):
    text = "epoch: [{task: a, steps: [x = w]}, {task: b, needs: [a], steps: [y = x]}]"
    fault = fault_of(tmp_path, text)

    assert fault.code == "E183"
    assert "outputs: [x]" in fault.mend
    assert "a.x" in fault.mend


def test_a_blob_of_another_node_is_named_with_it(tmp_path):
    text = """\
        nodes: {a: {}, b: {}}
        init: [{task: i, node: a, steps: [w = 1.0]}, {task: j, node: b, steps: [v = 1.0]}]
        epoch: [{task: t, node: b, steps: [y = w]}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E183"
    assert "node 'a', not of 'b'" in fault.message


def test_what_an_epoch_makes_is_not_there_in_exit(tmp_path):
    text = """\
        epoch: [{task: t, workspace: global, steps: [x = w]}]
        exit: [{task: e, steps: [y = x]}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E183"
    assert "deleted at the end of 'epoch'" in fault.message


def test_state_of_a_node_without_checkpoints_ends_with_init(tmp_path):
    text = """\
        nodes: {a: {}, b: {}}
        init: [{task: i, node: '*', steps: [w = 1.0]}]
        epoch: [{task: t, node: b, steps: [w = w + 1]}]
        checkpoint: {nodes: [a]}
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E184"
    assert fault.mend == "add 'b' to 'checkpoint.nodes'"


def test_a_net_reads_only_what_it_is_given(tmp_path):
    text = """\
        nets: {f: {in: [a], out: [b], steps: [b = a + w]}}
        epoch: [{task: t, steps: [{net: f, in: {a: 1}, out: {b: x}}]}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E186"
    assert "'w'" in fault.message
    assert fault.where is not None
    assert fault.where.line == 5


def test_an_earlier_use_of_a_net_leaves_nothing_for_a_later_one(tmp_path):
    text = """\
        nets: {f: {in: [a], out: [b], steps: [{if: a > 1, then: [t = a]}, b = a]}}
        epoch: [{task: t, steps: [{net: f, in: {a: w}, out: {b: x}}]}]
        """

    assert codes_of(tmp_path, text) == []
    assert codes_of(tmp_path, text.replace("b = a]}", "b = t]}")) == ["E186"]


def test_a_param_is_no_blob(tmp_path):
    text = """\
        params: {k: 3}
        epoch: [{task: t, steps: [{save: {k: a.npy}}]}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E180"
    assert "param" in fault.message


def test_a_blob_that_a_record_would_bring_is_not_missed(tmp_path):
    text = """\
        readers: {train: {npz: a.npz}}
        epoch: [{task: t, read: train, steps: [w = w + x]}]
        """

    assert codes_of(tmp_path, text) == ["E119"]


@pytest.mark.parametrize("private", ["instances: 2", "workspace: private"])
def test_what_ends_within_init_is_not_to_be_made_in_init(tmp_path, private):
    text = f"""\
        init: [{{task: i, {private}, steps: [x = 1.0]}}]
        epoch: [{{task: t, steps: [y = x]}}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E183"
    assert fault.mend.startswith("make it in a global task without instances")


@pytest.mark.parametrize(("node", "code"), [("", "E141"), ("node: c,", "E142")])
def test_a_task_on_no_node_is_the_only_fault_of_those_that_read_its_blobs(tmp_path, node, code):
    text = f"""\
        nodes: {{a: {{}}, b: {{}}}}
        init: [{{task: i, {node} steps: [w = 1.0]}}, {{task: j, node: b, steps: [v = 1.0]}}]
        epoch: [{{task: t, node: b, steps: [v = v + w]}}, {{task: u, node: a, steps: [w = w + 1]}}]
        """

    assert codes_of(tmp_path, text) == [code]
