from __future__ import annotations

from jobrun.graph.readers import Queue, ReadQueue
from jobrun.graph.steps import Loop
from jobrun.graph.types import NodeReport, NodeSetup, Retry, Task
from jobrun.runtime.group_plan import body_path, plan_group
from jobrun.testing.graphs import call, expr, group, ref, report, setup, steps, task
from tests.support.tables import each_case


def test_blocks_have_the_paths_that_stop_can_name():
    task_ = task(
        "t",
        "x = 1",
        setup=(setup(["a = 1"], ["b = 1"], "e/t/setup.task"),),
        reports=(report("y = x"),),
    )

    plan = plan_group(group(task_)).tasks[0]

    assert plan.body.path == "e/t"
    assert (plan.setup[0].init.path, plan.setup[0].exit.path) == (
        "e/t/setup.task.init",
        "e/t/setup.task.exit",
    )
    assert plan.reports[0].block.path == "e/t/report[0]"


def test_a_stop_leaves_the_record_of_a_task_that_reads_records():
    reads = Task("t", "n", (), read=ReadQueue(Queue("q"), ("a", "b")), path="e/t")

    assert body_path(reads) == "e/t/record"
    assert body_path(Task("u", "n", (), path="e/u")) == "e/u"


def test_outputs_know_whose_they_are():
    plan = plan_group(group(task("t", "x = 1", node="a", outputs={"x": "x", "y": "x + 1"})))

    assert [(output.ref, output.is_fresh) for output in plan.tasks[0].outputs] == [
        (ref("t", "x", "a"), False),
        (ref("t", "y", "a"), True),
    ]


def test_a_callable_anywhere_may_block():
    inside = Loop(expr("2"), steps(call("m:f")), "l")

    assert plan_group(group(task("t", inside))).tasks[0].may_block
    assert plan_group(group(task("t", "x = 1", reports=(report(inside),)))).tasks[0].may_block
    assert not plan_group(group(task("t", "x = 1"))).tasks[0].may_block


def test_the_nodes_of_a_group_are_those_of_its_tasks_setup_and_reports():
    ran = group(
        task("t", "x = 1", node="c"),
        setup=(NodeSetup("a", setup(["x = 1"])),),
        reports=(NodeReport("b", report("x = 1")),),
    )

    plan = plan_group(ran)

    assert [(node.node, len(node.setup), len(node.reports)) for node in plan.nodes] == [
        ("a", 1, 0),
        ("b", 0, 1),
        ("c", 0, 0),
    ]


def test_a_group_of_one_plain_task_is_alone():
    assert plan_group(group(task("t", "x = 1", outputs={"x": "x"}))).is_alone


@each_case(
    "more",
    [
        {"setup": (setup(["a = 1"]),)},
        {"instance_setup": (setup(["a = 1"]),)},
        {"reports": (report("y = 1"),)},
        {"instances": 2},
        {"timeout_s": 1.0},
        {"on_error": "warn"},
        {"retry": Retry(1)},
        {"needs": ("other",)},
    ],
)
def test_a_task_with_setup_reports_or_needs_is_not_alone(more):
    assert not plan_group(group(task("t", "x = 1", **more))).is_alone


def test_a_task_with_a_callable_a_peer_or_node_setup_is_not_alone():
    task_ = task("t", "x = 1")

    assert not plan_group(group(task("t", call("m:f")))).is_alone
    assert not plan_group(group(task_, task("u", "x = 1"))).is_alone
    assert not plan_group(group(task_, setup=(NodeSetup("a", setup(["x = 1"])),))).is_alone
    assert not plan_group(group(task_, reports=(NodeReport("a", report("x = 1")),))).is_alone
