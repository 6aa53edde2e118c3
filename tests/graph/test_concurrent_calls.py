"""What may call Python at the same time."""

from __future__ import annotations

from dataclasses import replace

from jobrun.graph.concurrent_calls import (
    find_calls_beside,
    find_concurrent_callables,
    find_early_imports,
)
from jobrun.graph.readers import CallSource, Field, Reader, ReadRecords, ZipSource
from jobrun.graph.steps import CallPython, Loop, Parallel
from jobrun.graph.types import NodeReport, NodeSetup, Report, SetupNets, Task, TaskGroup
from tests.support.tables import each_case

CALL = (CallPython("m:f"),)


def _calling(name, *needs):
    return Task(name, "a", (CallPython("m:f"),), needs=needs)


@each_case(
    "tasks, found",
    [
        ([_calling("a"), _calling("b")], ("a", "b")),
        ([_calling("a"), _calling("b", "a"), _calling("c", "a")], ("b", "c")),
        ([_calling("a"), _calling("b", "a"), _calling("c", "b")], None),
        # The order is that of needs, by way of a task that calls nothing.
        ([_calling("b", "x"), _calling("a"), Task("x", "a", (), needs=("a",))], None),
        ([_calling("a"), Task("x", "a", ())], None),
    ],
)
def test_tasks_whose_callables_may_run_at_the_same_time(tasks, found):
    assert find_concurrent_callables(TaskGroup("epoch", tuple(tasks))) == found


@each_case(
    "tasks, found",
    [
        ([_calling("a")], None),
        ([_calling("a"), Task("b", "a", ())], None),
        ([_calling("a"), _calling("b")], "task 'b'"),
        ([_calling("a"), _calling("b", "a"), _calling("c", "b")], None),
        # Those that run at the same time both need it.
        ([_calling("a"), _calling("b", "a"), _calling("c", "a")], None),
        ([_calling("x"), _calling("a", "x"), _calling("b", "x")], "task 'b'"),
        ([_calling("b", "x"), _calling("a"), Task("x", "a", (), needs=("a",))], None),
        ([_calling("a"), replace(_calling("a"), node="b")], "another node"),
        ([replace(_calling("a"), instances=2)], "another part"),
        ([replace(_calling("a"), reports=(Report(1.0, CALL),))], "another part"),
        ([Task("a", "a", (), reports=(Report(1.0, CALL),))], None),
        ([Task("a", "a", (Parallel((CALL, CALL)),))], "another part"),
        ([Task("a", "a", (*CALL, Parallel((CALL, ()))))], None),
        ([Task("a", "a", (*CALL, Loop(None, (Parallel((CALL, CALL)),))))], "another part"),
        ([_calling("a"), Task("b", "a", (), setup=(SetupNets(CALL),))], "task 'b'"),
    ],
)
def test_what_may_call_python_beside_a_task_is_described(tasks, found):
    beside = find_calls_beside(TaskGroup("epoch", tuple(tasks)), "a")

    assert (
        beside is None
        if found is None
        else beside.startswith((found, f"what calls Python on {found}"))
    )
    assert bool(find_early_imports(TaskGroup("epoch", tuple(tasks)))) >= (found is not None)


def test_a_task_that_reads_from_a_class_runs_beside_that_class():
    reader = Reader("r", CallSource("m:C"), (Field("x", ""),))
    both = Reader("z", ZipSource((reader,)), (Field("x", ""),))
    for one in (reader, both):
        reading = replace(_calling("a"), read=ReadRecords(one))

        assert find_calls_beside(TaskGroup("epoch", (reading,)), "a").startswith("another part")
        assert find_early_imports(TaskGroup("epoch", (reading,))) == (("m:f", ""), ("m:C", ""))


def test_reports_of_a_group_run_beside_its_tasks_and_its_set_up_beside_nothing():
    around = NodeSetup("a", SetupNets(CALL, CALL))
    report = NodeReport("a", Report(1.0, CALL))
    alone = TaskGroup("epoch", (_calling("a"),), setup=(around,))

    assert find_calls_beside(alone, "a") is None
    assert find_calls_beside(alone, "") is None
    assert find_early_imports(alone) == ()
    for name in ("a", ""):
        assert find_calls_beside(replace(alone, reports=(report,)), name) == "a report of the group"


def test_the_set_up_of_one_node_runs_beside_tasks_of_another():
    around = NodeSetup("b", SetupNets(CALL))
    both = TaskGroup("epoch", (_calling("a"),), setup=(around,))

    for name in ("a", ""):
        assert "another node" in find_calls_beside(both, name)


def test_modules_are_imported_early_in_the_order_of_the_spec_each_once():
    tasks = tuple(
        Task(name, "a", (CallPython(target, folder="f"),))
        for name, target in (("x", "m:g"), ("y", "k:h"), ("z", "m:g"))
    )

    assert find_early_imports(TaskGroup("epoch", tasks)) == (("m:g", "f"), ("k:h", "f"))
