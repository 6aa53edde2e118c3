"""What may call Python at the same time."""

from __future__ import annotations

from msgspec.structs import replace

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
    "tasks, expected",
    [
        ([_calling("a"), _calling("b")], ("a", "b")),
        ([_calling("a"), _calling("b", "a"), _calling("c", "a")], ("b", "c")),
        ([_calling("a"), _calling("b", "a"), _calling("c", "b")], None),
        # The order is that of needs, by way of a task that calls nothing.
        ([_calling("b", "x"), _calling("a"), Task("x", "a", (), needs=("a",))], None),
        ([_calling("a"), Task("x", "a", ())], None),
    ],
)
def test_tasks_whose_callables_may_run_at_the_same_time(tasks, expected):
    assert find_concurrent_callables(TaskGroup("epoch", tuple(tasks))) == expected


@each_case(
    "tasks, expected",
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
def test_concurrent_python_calls_are_described(tasks, expected):
    described = find_calls_beside(TaskGroup("epoch", tuple(tasks)), "a")

    assert (
        described is None
        if expected is None
        else described.startswith((expected, f"what calls Python on {expected}"))
    )
    assert bool(find_early_imports(TaskGroup("epoch", tuple(tasks)))) >= (expected is not None)


def test_a_task_runs_concurrently_with_the_class_it_reads_from():
    reader = Reader("r", CallSource("m:C"), (Field("x", ""),))
    both = Reader("z", ZipSource((reader,)), (Field("x", ""),))
    for source_reader in (reader, both):
        reading = replace(_calling("a"), read=ReadRecords(source_reader))

        assert find_calls_beside(TaskGroup("epoch", (reading,)), "a").startswith("another part")
        assert find_early_imports(TaskGroup("epoch", (reading,))) == (("m:f", ""), ("m:C", ""))


def test_reports_run_concurrently_with_tasks_and_setup_with_nothing():
    setup = NodeSetup("a", SetupNets(CALL, CALL))
    report = NodeReport("a", Report(1.0, CALL))
    alone = TaskGroup("epoch", (_calling("a"),), setup=(setup,))

    assert find_calls_beside(alone, "a") is None
    assert find_calls_beside(alone, "") is None
    assert find_early_imports(alone) == ()
    for name in ("a", ""):
        assert find_calls_beside(replace(alone, reports=(report,)), name) == "a report of the group"


def test_setup_of_one_node_runs_concurrently_with_tasks_of_another():
    setup = NodeSetup("b", SetupNets(CALL))
    both = TaskGroup("epoch", (_calling("a"),), setup=(setup,))

    for name in ("a", ""):
        assert "another node" in find_calls_beside(both, name)


def test_modules_are_imported_early_in_the_order_of_the_spec_each_once():
    tasks = tuple(
        Task(name, "a", (CallPython(target, folder="f"),))
        for name, target in (("x", "m:g"), ("y", "k:h"), ("z", "m:g"))
    )

    assert find_early_imports(TaskGroup("epoch", tasks)) == (("m:g", "f"), ("k:h", "f"))
