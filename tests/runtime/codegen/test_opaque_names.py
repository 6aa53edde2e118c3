"""Which blobs are copied before anything runs, since no gate can be put in front of them."""

from __future__ import annotations

from jobrun.graph.steps import If, Loop
from jobrun.graph.types import NodeReport, NodeSetup
from jobrun.runtime.codegen.liveness import find_opaque_names
from jobrun.testing.graphs import call, expr, group, report, setup, steps, task


def test_blobs_that_a_callable_may_change_are_opaque_at_any_depth():
    deep = If(((expr("x"), steps(call("m:f", a="deep", b="read", inout="a"))),), (), "e/t/if")
    task_ = task(
        "t",
        Loop(expr("3"), (deep,), "e/t/loop"),
        "w += 1",
        setup=(setup([call("m:f", a="first", inout="a")], [call("m:f", a="last", inout="a")]),),
        reports=(report(call("m:f", a="beside", inout="a")),),
    )
    node_setup = NodeSetup("local", setup([call("m:f", a="node", inout="a")]))
    node_report = NodeReport("local", report(call("m:f", a="node_report", inout="a")))

    opaque_names = find_opaque_names(group(task_, setup=(node_setup,), reports=(node_report,)))

    assert opaque_names == {"local": {"deep", "first", "last", "beside", "node", "node_report"}}


def test_blobs_that_a_hogwild_task_changes_are_opaque():
    tasks = (task("t", "w += 1; n = 2", hogwild=True, instances=2), task("u", "v += 1"))

    assert find_opaque_names(group(*tasks)) == {"local": {"w"}}


def test_changes_on_other_nodes_do_not_count():
    task_ = task("t", call("m:f", a="w", inout="a"), node="a")

    assert find_opaque_names(group(task_, task("u", node="b"))) == {"a": {"w"}, "b": set()}
