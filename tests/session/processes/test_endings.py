from __future__ import annotations

from jobrun.session.processes.group_run import TaskCompletions
from jobrun.session.wire.partition_group import partition_group
from jobrun.testing.graphs import group, ref, task

NODES = ("a", "b", "c")


def test_followers_are_notified_once_when_the_last_node_ends_its_task():
    first = [task("first", "x = 1", node=node, outputs={"x": "x"}) for node in NODES]
    then = [
        task("then", f"y = out('first', 'x', '{node}')", node=node, needs=("first",))
        for node in NODES
    ]
    endings = TaskCompletions(partition_group(group(*first, *then)))

    notified = [
        endings.mark_ended("first", node, {ref("first", "x", node): node}) for node in NODES
    ]

    assert notified[:2] == [{}, {}]
    assert notified[2] == {node: {ref("first", "x", node): node} for node in NODES}


def test_only_nodes_whose_end_others_wait_for_are_waited_for():
    first = [task("first", "x = 1", node=node) for node in "ab"]
    endings = TaskCompletions(
        partition_group(group(*first, task("then", "x = 1", node="a", needs=("first",))))
    )

    assert endings.mark_ended("first", "b", {}) == {"a": {}}


def test_a_node_gets_what_it_reads_of_a_task_that_it_needs_by_way_of_another():
    first = task("one", "x = 1", node="a", outputs={"x": "x", "unread": "x"})
    two = task("two", "x = 1", node="b", needs=("one",))
    three = task("three", "y = out('one', 'x', 'a')", node="c", needs=("two",))
    endings = TaskCompletions(partition_group(group(first, two, three)))

    outputs = {ref("one", "x", "a"): 5, ref("one", "unread", "a"): 6}

    assert endings.mark_ended("one", "a", outputs) == {"b": {}, "c": {ref("one", "x", "a"): 5}}
    assert endings.mark_ended("two", "b", {}) == {"c": {}}
