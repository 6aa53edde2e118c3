"""Cases about names of tasks, nodes and blobs, and what is made of a spec."""

from __future__ import annotations

from jobrun.graph.group_transforms import remap_nodes
from jobrun.graph.query import used_nodes
from jobrun.graph.types import TaskGroup
from tests.support.compiling import codes_of, fault_of, job_of


def test_case_011_task_without_output_gets_one(stage):
    """By rule 6: only what is declared is an output, and no blob comes by itself."""
    job = stage("""
        init: [{task: t, steps: []}]
        epoch: [{task: u, steps: []}]
        stop: [{epochs: 1}]
    """)

    assert job.run("init", "epoch") == {}
    assert job.names() == ()


def test_case_012_task_names(tmp_path):
    """Same: the full name is the node's and the task's, so nodes do not clash."""
    job = job_of(
        tmp_path,
        """
        nodes: {n1: {}, n2: {}}
        init: [{task: start, node: n1, steps: [w = 1]}]
        epoch: [{task: t, node: "n*", steps: [x = 1]}, {task: stp, node: n1, steps: [y = 1]}]
    """,
    )

    assert [task.full_name for task in job.epoch.tasks] == ["n1/t", "n2/t", "n1/stp"]
    assert [node.name for node in job.cluster] == ["n1", "n2"]


def test_case_012_task_names_are_given_and_given_once(tmp_path):
    """By rule 3: a task has the name that the spec gives it, and a second one is refused."""
    twice = "epoch: [{task: t, steps: [x = 1]}, {task: t, steps: [y = 1]}]\n"
    unnamed = "epoch: [{steps: [x = 1]}]\n"

    assert codes_of(tmp_path, twice) == ["E174"]
    assert codes_of(tmp_path, unnamed) == ["E020"]


_THREE = """
nodes: {n1: {}, n2: {}, m: {}}
init: [{task: start, node: "*", steps: [w = 1]}]
epoch:
  - {task: a, node: n1, steps: [x = 1]}
  - {task: b, node: n2, steps: [x = 1]}
  - {task: c, node: n1, steps: [x = 1]}
"""


def _names_by_node(group):
    return {
        node: [task.full_name for task in group.tasks if task.node == node]
        for node in used_nodes(group)
    }


def test_case_023_tasks_by_node_rules(tmp_path):
    """By rule 5: a group is a value, which can be mapped to other nodes any number of times.

    Tasks that land on one node stay tasks of their own; nothing is used up by mapping them.
    """
    group = job_of(tmp_path, _THREE).epoch
    first = _names_by_node(group)

    merged = remap_nodes(group, lambda node: "m")

    assert first == {"n1": ["n1/a", "n1/c"], "n2": ["n2/b"]}
    assert _names_by_node(merged) == {"m": ["m/a", "m/b", "m/c"]}
    assert remap_nodes(group, lambda node: "m") == merged
    assert _names_by_node(group) == first
    assert _names_by_node(remap_nodes(TaskGroup("epoch"), lambda node: "m")) == {}


def test_case_024_node_kwargs_merge(tmp_path):
    """By rule 2: a node is declared once; there is no merge of which the first part wins."""
    twice = "nodes:\n  n1: {props: {a: 1, b: 2}}\n  n1: {props: {b: 3, c: 4}}\n  n2: {}\n"

    assert fault_of(tmp_path, twice).code == "E010"


def test_case_024_node_kwargs_merge_and_the_node_of_a_job_that_names_none(tmp_path):
    """Same: nodes are in the order of the spec, and a job without nodes has one, ``local``."""
    job = job_of(
        tmp_path,
        """
        nodes: {n1: {props: {a: 1, b: 2}}, n2: {}}
        init: [{task: start, node: "*", steps: [w = 1]}]
        epoch: [{task: work, node: "*", steps: [w += 1]}]
    """,
    )
    plain = job_of(tmp_path, "")

    assert [node.name for node in job.cluster] == ["n1", "n2"]
    assert job.cluster.node("n1").props == (("a", 1), ("b", 2))
    assert used_nodes(job.epoch) == ("n1", "n2")
    assert [node.name for node in plain.cluster] == ["local"]


def test_case_119_names_depend_on_process_history(tmp_path):
    """By rule 3: the same spec gives the same names, whatever was built before it."""
    text = "epoch: [{task: work, steps: [x = 1, w = w + x]}]\n"

    first = job_of(tmp_path, text)
    other = job_of(tmp_path, "epoch: [{task: work, steps: [x = 2, y = x, w = w + y]}]\n")
    second = job_of(tmp_path, text)

    assert second == first != other
