"""Values of the graph."""

from __future__ import annotations

import pickle

import pytest
from msgspec.structs import replace

from jobrun.core.errors import Origin
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.types import (
    GROUPS,
    Cluster,
    Exactness,
    Job,
    Node,
    OutputRef,
    StateLayout,
    Task,
    TaskGroup,
)

JOB = Job(
    "j",
    Cluster((Node("a"), Node("b_0", "b", 0, 2, (("zone", "x"),)))),
    TaskGroup("init"),
    TaskGroup("epoch", (Task("t", "a", ()),)),
    TaskGroup("download"),
    TaskGroup("exit"),
)


def test_a_job_has_its_groups_in_their_order():
    assert tuple(group.name for group in JOB.groups) == GROUPS


def test_values_are_frozen_and_a_change_makes_a_new_one():
    with pytest.raises(AttributeError):
        JOB.name = "other"  # type: ignore[misc]

    assert replace(JOB, seed=7).seed == 7
    assert JOB.seed == 0


def test_a_graph_can_be_pickled():
    assert pickle.loads(pickle.dumps(JOB)) == JOB


def test_a_cluster_knows_its_nodes():
    assert [node.name for node in JOB.cluster] == ["a", "b_0"]
    assert JOB.cluster.node("b_0").props == (("zone", "x"),)
    with pytest.raises(KeyError):
        JOB.cluster.node("c")


def test_names_are_put_together():
    assert JOB.epoch.tasks[0].full_name == "a/t"
    assert str(OutputRef("t", "a", "x")) == "t.x"


def test_a_job_is_exact_until_there_is_a_reason():
    assert Exactness().exact
    assert not Exactness((("epoch/t", "hogwild"),)).exact


def test_by_default_epochs_are_saved_and_kept():
    policy = CheckpointPolicy()

    assert (policy.enabled, policy.is_automatic, policy.keep_last) == (True, True, 0)


def test_a_declaration_is_the_same_wherever_it_is_written():
    here = StateLayout("U", "rows", "state.U", Origin("a.yaml", 3, 9, 1))
    there = StateLayout("U", "rows", "state.U", Origin("b.yaml", 7, 2, 1))

    assert here == there
    assert here != StateLayout("U", "replicated", "state.U")
