from __future__ import annotations

from msgspec.structs import replace

from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import NodeReport, NodeSetup
from jobrun.session.wire.partition_group import partition_group
from jobrun.testing.graphs import group, log, ref, report, setup, task


def test_each_node_has_its_own_tasks_setup_and_reports():
    whole = group(
        task("t", "x = 1", node="a"),
        task("t", "x = 1", node="b"),
        setup=(NodeSetup("c", setup([log("in")], [])),),
        reports=(NodeReport("b", report(log("r"))),),
    )

    shares = partition_group(whole).by_node

    assert {node: len(share.group.tasks) for node, share in shares.items()} == {
        "c": 0,
        "b": 1,
        "a": 1,
    }
    assert [len(shares[node].group.reports) for node in "abc"] == [0, 1, 0]
    assert [len(shares[node].group.setup) for node in "abc"] == [0, 0, 1]


def test_node_waits_for_needed_tasks_on_other_nodes():
    first = [task("first", "x = 1", node=node) for node in "ab"]
    whole = group(*first, task("then", "x = 1", node="a", needs=("first",)))

    shares = partition_group(whole)

    assert shares.by_node["a"].awaited == ("first",)
    assert shares.by_node["b"].awaited == ()
    assert (shares.followers["first"], shares.awaited_nodes["first"]) == (("a",), {"b"})
    assert (shares.by_node["a"].needed_elsewhere, shares.by_node["b"].needed_elsewhere) == (
        (),
        ("first",),
    )


def test_end_of_a_task_is_announced_to_all_followers():
    whole = group(
        task("one", "x = 1", node="a", outputs={"x": "x"}),
        task("two", "x = 1", node="b", needs=("one",)),
        task("three", "y = out('one', 'x', 'a')", node="c", needs=("two",)),
    )

    shares = partition_group(whole)

    assert sorted(shares.followers["one"]) == ["b", "c"]
    assert shares.by_node["c"].awaited == ("two",)
    assert shares.by_node["c"].reads == {ref("one", "x", "a")}


def test_outputs_are_those_of_all_tasks_in_their_order():
    whole = group(
        task("b", "x = 1", node="n", outputs={"x": "x", "y": "x"}),
        task("a", "x = 1", node="m", outputs={"z": "x"}),
    )

    assert partition_group(whole).outputs == (
        ref("b", "x", "n"),
        ref("b", "y", "n"),
        ref("a", "z", "m"),
    )


def test_a_queue_of_several_nodes_is_known_to_those_who_use_it():
    queue = Queue("q", shared=True)
    private = Queue("own")
    writers = [
        replace(
            task("w", "x = 1", node=node),
            write=(WriteQueue(queue, ("x",)), WriteQueue(private, ("x",))),
        )
        for node in "ab"
    ]
    reader = replace(task("r", "y = x", node="b"), read=ReadQueue(queue, ("x",)))

    shares = partition_group(group(*writers, reader, task("t", "x = 1", node="c")))

    assert [plan.key for plan in shares.queues] == [("q", "")]
    assert (shares.queues[0].writers, shares.queues[0].readers) == (2, 1)
    assert shares.by_node["a"].queues == ((("q", ""), False),)
    assert shares.by_node["b"].queues == ((("q", ""), True),)
    assert shares.by_node["c"].queues == ()


def test_nodes_in_one_process_are_one_node_to_the_others():
    first = [task("first", "x = 1", node=node, outputs={"x": "x"}) for node in "abc"]
    whole = group(*first, task("then", "x = 1", node="b", needs=("first",)))

    shares = partition_group(whole, {"b": "a"})

    assert list(shares.by_node) == ["a", "c"]
    assert [task_.full_name for task_ in shares.by_node["a"].group.tasks] == [
        "a/first",
        "b/first",
        "b/then",
    ]
    assert (shares.followers["first"], shares.awaited_nodes["first"]) == (("a",), {"c"})
    assert shares.by_node["a"].placement == {"b": "a"}


def test_queue_within_one_process_is_not_shared():
    queue = Queue("q", shared=True)
    whole = group(
        replace(task("w", "x = 1", node="a"), write=(WriteQueue(queue, ("x",)),)),
        replace(task("r", "y = x", node="b"), read=ReadQueue(queue, ("x",))),
    )

    assert len(partition_group(whole).queues) == 1
    assert partition_group(whole, {"b": "a"}).queues == ()
