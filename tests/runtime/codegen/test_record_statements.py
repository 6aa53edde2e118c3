"""A loop over records leaves nothing of one to the next, and shares nothing with a receiver."""

from __future__ import annotations

import gc
import tracemalloc
import weakref

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.effects import NOWHERE
from jobrun.graph.steps import Guard, If, Loop, Stop
from jobrun.runtime.codegen.compiler import compile_block
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.runtime.codegen.record_statements import RecordAccess, SentRecord
from jobrun.runtime.records.record_loop import RecordPlan, Streams, run_records
from jobrun.runtime.steps.dispatch import Actions
from jobrun.testing.graphs import expr, steps
from tests.support.step_bench import Bench, GivenRecords

PLACE = StepLocation("e/t", NOWHERE)
MANY = expr("x > 1")


@pytest.fixture
def bench():
    with Bench() as step_bench:
        yield step_bench


class _Sink:
    """Notes what is put into it, and which numbers are skipped."""

    def __init__(self, most=1000):
        self.put, self.skipped, self.most = [], [], most

    def connect(self, frame):
        def put(number, values):
            self.put.append((number, *values))
            return len(self.put) < self.most

        return put

    def skip(self, number):
        self.skipped.append(number)

    def close(self):
        pass


def _run(bench, body, *records, send=(), moved="", persistent="", sinks=None):
    """Run steps for records of a field x; send names in one queue for each text of ``send``.

    Returns:
        For each queue what was put into it, and the numbers that were skipped.
    """
    created = steps(*body)
    sent = [
        SentRecord(tuple(names_text.split()), frozenset(moved.split()), PLACE)
        for names_text in send
    ]
    access = RecordAccess(("x",), tuple(sent), PLACE)
    names = BlockNames(
        elsewhere=access.names | frozenset(persistent.split()),
        changed=frozenset(collect_usage(created).changed) | frozenset(moved.split()),
        passing=access.names - frozenset(persistent.split()),
    )
    block = compile_block(created, "e/t/record", names, Actions(names), records=access)
    sinks = sinks or tuple(_Sink() for _ in send)
    source = GivenRecords(*records)
    plan = RecordPlan(lambda _: Streams(), by_record=False, body="e/t")
    run_records(plan, block, bench.frame, Streams(source, sinks))
    return [sink.put for sink in sinks], [sink.skipped for sink in sinks]


def _only_if_many(*then):
    return If(((MANY, steps(*then)),), (), "e/t/if")


def test_a_name_that_one_record_binds_is_unbound_in_the_next(bench):
    body = [_only_if_many("y = x"), "z = y"]

    with pytest.raises(TaskFailedError, match="'y' does not exist") as actual:
        _run(bench, body, (2,), (1,))

    assert actual.value.faults[0].code == "E201"


def test_persistent_blobs_are_passed_from_record_to_record(bench):
    bench.blobs["total"] = 0

    _run(bench, ["total = total + x"], (1,), (2,), persistent="total")

    assert bench.blobs["total"] == 3


def test_names_that_only_records_use_are_in_no_workspace(bench):
    sent, _ = _run(bench, ["y = x * 2"], (1,), (2,), send=["y"])

    assert sent == [[(0, 2), (1, 4)]]
    assert dict(bench.blobs) == {}


def test_blobs_read_after_the_task_are_those_of_the_last_record(bench):
    _run(bench, ["y = x * 2"], (1,), (2,), send=["y"], persistent="x y")

    assert dict(bench.blobs) == {"x": 2, "y": 4}


class _LettingGo(_Sink):
    """Lets go of each record, but knows whether its first value is gone."""

    def connect(self, frame):
        def put(number, values):
            self.put.append(weakref.ref(values[0]))
            return True

        return put


@pytest.mark.parametrize("persistent", ["", "y"])
def test_a_moved_array_is_the_receivers_alone(bench, persistent):
    sink = _LettingGo()
    body = ["z = 1 / x", "y = x * 2.0"]

    with pytest.raises(TaskFailedError, match="division"):
        _run(
            bench,
            body,
            (np.ones(3),),
            (0,),
            send=["y"],
            moved="y",
            persistent=persistent,
            sinks=(sink,),
        )

    gc.collect()
    assert sink.put[0]() is None
    assert "y" not in bench.blobs


def test_an_array_that_is_not_moved_is_copied(bench):
    array = np.ones(3)

    ((sent,), _) = _run(bench, [], (array,), send=["x"])

    assert not np.shares_memory(sent[0][1], array)


def test_a_view_is_sent_as_a_copy(bench):
    array = np.arange(6.0)

    (sent,), _ = _run(bench, ["y = x[1:3]"], (array,), send=["y"], moved="y")

    assert np.array_equal(sent[0][1], [1, 2])
    assert sent[0][1].base is None
    assert not np.shares_memory(sent[0][1], array)


def test_two_names_of_one_array_are_sent_as_two(bench):
    body = ["y = x * 1.0", "z = y"]

    (sent,), _ = _run(bench, body, (np.ones(3),), send=["y z"], moved="y z")

    assert not np.shares_memory(sent[0][1], sent[0][2])


def test_each_queue_gets_its_record_though_one_has_no_reader_left(bench):
    sinks = (_Sink(most=1), _Sink(most=2))

    sent, _ = _run(bench, ["y = x"], (1,), (2,), (3,), send=["y", "x"], sinks=sinks)

    assert sent == [[(0, 1), (1, 2)]] * 2


def _in_loop(stop):
    return Loop(expr("3"), (stop,), "e/t/loop")


@pytest.mark.parametrize(
    "wrap", [lambda stop: stop, _in_loop, lambda stop: Guard("g", (stop,), "e/t/g")]
)
def test_a_stopped_record_is_skipped_in_each_queue(bench, wrap):
    stop = wrap(Stop(MANY, "e/t/record"))

    sent, skipped = _run(bench, ["y = x", stop], (1,), (2,), (0,), send=["y", "x"])

    assert sent == [[(0, 1), (2, 0)]] * 2
    assert skipped == [[1], [1]]


def test_the_number_of_a_record_that_ends_the_task_is_skipped(bench):
    sent, skipped = _run(bench, ["y = x", Stop(MANY, "e/t")], (1,), (2,), (0,), send=["y"])

    assert (sent, skipped) == ([[(0, 1)]], [[1]])


def test_a_waiting_task_holds_no_temporaries_and_no_sent_values(bench):
    held, sent = [], []

    def records():
        yield 0, (np.ones(3),)
        held.append(tracemalloc.get_traced_memory()[0])

    def put(number, values):
        sent.append(number)
        return True

    in_branch = If(((expr("len(x) > 0"), steps("y = y + 1")),), (), "e/t/if")
    body = steps("y = zeros(100000)", in_branch, "z = 2 * y")
    names = BlockNames(elsewhere=frozenset("xz"), passing=frozenset("xz"))
    access = RecordAccess(("x",), (SentRecord(("z",), frozenset("z"), PLACE),), PLACE)
    block = compile_block(body, "e/t/record", names, Actions(names), records=access)

    tracemalloc.start()
    try:
        block.run(bench.frame, records(), (put,), None)
    finally:
        tracemalloc.stop()
    assert sent == [0]
    assert held[0] < 100_000
