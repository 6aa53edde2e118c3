"""Nodes: declared, counted, found by pattern."""

from __future__ import annotations

from jobrun.graph.query import used_nodes
from tests.support.compiling import fault_of, job_of

COUNTED = """\
    nodes: {main: {}, worker: {count: 3, props: {zone: b}}}
    init: [{task: start, node: main, steps: [w = 1.0]}]
"""


def test_without_nodes_there_is_one(tmp_path):
    job = job_of(tmp_path, "")

    assert [node.name for node in job.cluster] == ["local"]


def test_a_counted_name_is_a_family_of_nodes(tmp_path):
    job = job_of(tmp_path, COUNTED + "    epoch: [{task: t, node: worker, steps: [x = 1]}]")

    nodes = list(job.cluster)
    assert [node.name for node in nodes] == ["main", "worker_0", "worker_1", "worker_2"]
    assert [(node.family, node.index, node.count) for node in nodes[1:]] == [
        ("worker", 0, 3),
        ("worker", 1, 3),
        ("worker", 2, 3),
    ]
    assert nodes[1].props == (("zone", "b"),)
    assert used_nodes(job.epoch) == ("worker_0", "worker_1", "worker_2")


def test_a_pattern_means_all_nodes_it_matches(tmp_path):
    job = job_of(tmp_path, COUNTED + "    epoch: [{task: t, node: 'worker_[12]', steps: [x = 1]}]")

    assert used_nodes(job.epoch) == ("worker_1", "worker_2")


def test_a_single_node_of_a_family_can_be_named(tmp_path):
    job = job_of(tmp_path, COUNTED + "    epoch: [{task: t, node: worker_2, steps: [x = 1]}]")

    assert used_nodes(job.epoch) == ("worker_2",)


def test_with_several_nodes_a_task_must_name_one(tmp_path):
    fault = fault_of(tmp_path, COUNTED + "    epoch: [{task: t, steps: [x = 1]}]")

    assert fault.code == "E141"
    assert "main, worker" in fault.mend


def test_an_unknown_node_gets_the_nearest_name(tmp_path):
    fault = fault_of(tmp_path, COUNTED + "    epoch: [{task: t, node: wrker, steps: [x = 1]}]")

    assert fault.code == "E142"
    assert fault.mend == "did you mean 'worker'?"
    assert fault.where is not None
    assert (fault.where.line, fault.where.column) == (6, 25)


def test_a_pattern_that_matches_nothing_is_a_fault(tmp_path):
    fault = fault_of(tmp_path, COUNTED + "    epoch: [{task: t, node: 'x_*', steps: [x = 1]}]")

    assert fault.code == "E142"
    assert "pattern" in fault.message
