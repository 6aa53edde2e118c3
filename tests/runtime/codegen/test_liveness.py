from __future__ import annotations

from jobrun.graph.readers import Queue, WriteQueue
from jobrun.graph.steps import Loop, Parallel
from jobrun.graph.types import NodeReport, NodeSetup, Scope, TaskGroup
from jobrun.runtime.codegen.liveness import (
    BlockNames,
    GroupUsage,
    collect_expression_usage,
    collect_usage,
    find_moved_names,
)
from jobrun.testing.graphs import call, expr, group, report, setup, steps, task


def test_names_of_all_steps_inside_count():
    inner = Parallel((steps("b[0] = c"), steps("d += 1")), "p")
    usage = collect_usage(steps("a = 1", Loop(expr("n"), (inner,), "l")))

    assert usage.used == {"a", "b", "c", "d", "n"}
    assert usage.changed == {"b", "d"}


def test_what_changes_an_array_in_place():
    text = "add_at(a, 0, 1); add_at(b[0], 0, 1); count_up(c); d, e = e, d; f = g; h[0] += 1"
    usage = collect_usage(steps(text, call("m:f", x="i", y="j", inout="x")))

    assert usage.changed == {"a", "b", "c", "d", "e", "h", "i"}


def test_expressions_have_names_too():
    assert collect_expression_usage([expr("a + b[c]")]).used == {"a", "b", "c"}


def names_of(task_, *others, **more):
    ran = group(task_, *others, **more)
    return GroupUsage(ran).task_block(task_, task_.steps)


def test_a_name_that_only_one_task_uses_is_not_shared():
    task_ = task("a", "w += x", node_blobs="w")
    other = task("b", "w = 1")

    names = names_of(task_, other)

    assert names.shared == frozenset()
    assert names.outlives("w")
    assert not names.outlives("x")


def test_a_name_of_the_node_that_two_tasks_use_is_shared():
    task_ = task("a", "x = w", node_blobs="w")
    same_node = task("b", "w += 1", node_blobs="w")
    other_node = task("c", "w += 1", node_blobs="w", node="else")

    assert names_of(task_, same_node).shared == {"w"}
    assert names_of(task_, same_node).changed == {"w"}
    assert names_of(task_, other_node).shared == frozenset()
    assert names_of(task_, other_node).changed == frozenset()


def test_names_of_reports_are_shared():
    task_ = task("a", "x = 1; y = 2; w = 3", reports=(report("z = x"),), node_blobs="w")
    ran = group(task_, reports=(NodeReport("local", report("v = w")),))

    names = GroupUsage(ran).task_block(task_, task_.steps, concurrent=(task_.reports[0].steps,))

    assert names.shared == {"x", "z", "w"}


def test_only_hogwild_tasks_and_reports_race():
    task_ = task("a", "x = w; y += 1", node_blobs="w", reports=(report("y = w"),))
    other = task("b", "w += 1", node_blobs="w")
    wild = task("c", "v += 1", hogwild=True)
    in_report = task_.reports[0].steps

    assert names_of(task_, other).racing == frozenset()
    assert names_of(task_, other, wild).racing == {"w", "y"}
    assert GroupUsage(group(task_, other)).task_block(task_, in_report).racing == {"w", "y"}

    changing = NodeReport("local", report("w += 1"))
    assert names_of(task_, other, reports=(changing,)).racing == {"w"}


def test_blobs_common_to_instances_are_shared():
    task_ = task("a", "x = n", instances=2, instance_blobs="x")

    assert names_of(task_).shared == {"n"}


def test_names_of_other_blocks_live_on():
    task_ = task(
        "a", "x = 1; y = x; t = y", setup=(setup(["k = 0"], ["z = x"]),), outputs={"o": "y"}
    )

    names = names_of(task_)

    assert names.elsewhere >= {"x", "y", "z", "k"}
    assert not names.outlives("t")


def test_two_equal_blocks_are_two_blocks():
    same = steps("n = n + 1")
    task_ = task("a", "x = 1", setup=(setup(same, same),))
    node_setup = task_.setup[0]

    names = GroupUsage(group(task_)).task_block(task_, node_setup.init)

    assert names.outlives("n")


def test_set_up_of_the_node_changes_but_does_not_overlap():
    task_ = task("a", "x = g", group_blobs="g")
    node_setup = NodeSetup("local", setup(["g = zeros(2); g += 1"]), (("g", Scope.GROUP),))

    names = names_of(task_, setup=(node_setup,))

    assert names.shared == frozenset()
    assert names.changed == {"g"}


def test_a_block_of_the_node_shares_all_its_names():
    ran = group(task("a", "g += 1", group_blobs="g"))
    node_setup = NodeSetup(
        "local", setup(["h = g"]), (("g", Scope.GROUP),), (("e/setup.init[0]", "g", "h"),)
    )
    names = GroupUsage(ran).node_block(node_setup, node_setup.nets.init)

    assert names.shared == {"g", "h"}
    assert names.changed == {"g"}
    assert names.apart == {"e/setup.init[0]": (("g", "h"),)}


def test_names_without_a_scope_are_the_tasks_own():
    assert BlockNames().scope("anything") is Scope.TASK


def test_only_arrays_that_no_other_code_reads_are_moved():
    send = (WriteQueue(Queue("q"), ("x", "y", "z", "w")), WriteQueue(Queue("r"), ("z",)))
    task_ = task(
        "t", "x = 2.0 * w", "y = y + 1", "z = x", node_blobs="w", write=send, outputs={"y": "y"}
    )
    names = GroupUsage(TaskGroup("epoch", (task_,))).task_block(task_, task_.steps)

    assert find_moved_names(task_, names) == {"x"}
