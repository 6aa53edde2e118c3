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
    found = collect_usage(steps("a = 1", Loop(expr("n"), (inner,), "l")))

    assert found.used == {"a", "b", "c", "d", "n"}
    assert found.changed == {"b", "d"}


def test_what_changes_an_array_in_place():
    text = "add_at(a, 0, 1); add_at(b[0], 0, 1); count_up(c); d, e = e, d; f = g; h[0] += 1"
    found = collect_usage(steps(text, call("m:f", x="i", y="j", inout="x")))

    assert found.changed == {"a", "b", "c", "d", "e", "h", "i"}


def test_expressions_have_names_too():
    assert collect_expression_usage([expr("a + b[c]")]).used == {"a", "b", "c"}


def names_of(one, *others, **more):
    ran = group(one, *others, **more)
    return GroupUsage(ran).task_block(one, one.steps)


def test_a_name_that_only_one_task_uses_is_not_shared():
    one = task("a", "w += x", node_blobs="w")
    other = task("b", "w = 1")

    names = names_of(one, other)

    assert names.shared == frozenset()
    assert names.outlives("w")
    assert not names.outlives("x")


def test_a_name_of_the_node_that_two_tasks_use_is_shared():
    one = task("a", "x = w", node_blobs="w")
    same_node = task("b", "w += 1", node_blobs="w")
    other_node = task("c", "w += 1", node_blobs="w", node="else")

    assert names_of(one, same_node).shared == {"w"}
    assert names_of(one, same_node).changed == {"w"}
    assert names_of(one, other_node).shared == frozenset()
    assert names_of(one, other_node).changed == frozenset()


def test_names_of_reports_are_shared():
    one = task("a", "x = 1; y = 2; w = 3", reports=(report("z = x"),), node_blobs="w")
    ran = group(one, reports=(NodeReport("local", report("v = w")),))

    names = GroupUsage(ran).task_block(one, one.steps, concurrent=(one.reports[0].steps,))

    assert names.shared == {"x", "z", "w"}


def test_only_hogwild_tasks_and_reports_race():
    one = task("a", "x = w; y += 1", node_blobs="w", reports=(report("y = w"),))
    other = task("b", "w += 1", node_blobs="w")
    wild = task("c", "v += 1", hogwild=True)
    in_report = one.reports[0].steps

    assert names_of(one, other).racing == frozenset()
    assert names_of(one, other, wild).racing == {"w", "y"}
    assert GroupUsage(group(one, other)).task_block(one, in_report).racing == {"w", "y"}

    changing = NodeReport("local", report("w += 1"))
    assert names_of(one, other, reports=(changing,)).racing == {"w"}


def test_what_instances_have_in_common_is_shared():
    one = task("a", "x = n", instances=2, instance_blobs="x")

    assert names_of(one).shared == {"n"}


def test_names_of_other_blocks_live_on():
    one = task("a", "x = 1; y = x; t = y", setup=(setup(["k = 0"], ["z = x"]),), outputs={"o": "y"})

    names = names_of(one)

    assert names.elsewhere >= {"x", "y", "z", "k"}
    assert not names.outlives("t")


def test_two_equal_blocks_are_two_blocks():
    same = steps("n = n + 1")
    one = task("a", "x = 1", setup=(setup(same, same),))
    around = one.setup[0]

    names = GroupUsage(group(one)).task_block(one, around.init)

    assert names.outlives("n")


def test_set_up_of_the_node_changes_but_does_not_overlap():
    one = task("a", "x = g", group_blobs="g")
    around = NodeSetup("local", setup(["g = zeros(2); g += 1"]), (("g", Scope.GROUP),))

    names = names_of(one, setup=(around,))

    assert names.shared == frozenset()
    assert names.changed == {"g"}


def test_a_block_of_the_node_shares_all_its_names():
    ran = group(task("a", "g += 1", group_blobs="g"))
    around = NodeSetup(
        "local", setup(["h = g"]), (("g", Scope.GROUP),), (("e/setup.init[0]", "g", "h"),)
    )
    names = GroupUsage(ran).node_block(around, around.nets.init)

    assert names.shared == {"g", "h"}
    assert names.changed == {"g"}
    assert names.apart == {"e/setup.init[0]": (("g", "h"),)}


def test_names_without_a_scope_are_the_tasks_own():
    assert BlockNames().scope("anything") is Scope.TASK


def test_only_what_nobody_else_knows_is_handed_over():
    send = (WriteQueue(Queue("q"), ("x", "y", "z", "w")), WriteQueue(Queue("r"), ("z",)))
    one = task(
        "t", "x = 2.0 * w", "y = y + 1", "z = x", node_blobs="w", write=send, outputs={"y": "y"}
    )
    names = GroupUsage(TaskGroup("epoch", (one,))).task_block(one, one.steps)

    assert find_moved_names(one, names) == {"x"}
