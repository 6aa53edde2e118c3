from __future__ import annotations

import pytest

from jobrun.graph.effects import NOWHERE
from jobrun.graph.steps import Guard, Stop
from jobrun.runtime.codegen.compiler import compile_block
from jobrun.runtime.codegen.line_table import StepLocation
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.runtime.codegen.record_statements import RecordAccess, SentRecord
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.records.record_loop import (
    RecordPlan,
    Streams,
    run_records,
)
from jobrun.runtime.steps.dispatch import Actions
from jobrun.testing.graphs import steps
from tests.support.step_bench import Bench, GivenRecords

_IS_2 = steps("b = x == 2")[0].ops[0].value


def _given(*values):
    return GivenRecords(*((value,) for value in values))


class _Sink:
    def __init__(self, most=1000):
        self.sent, self.skipped, self.closed, self.most = [], [], 0, most

    def connect(self, frame):
        def put(number, values):
            self.sent.append((number, *values))
            return len(self.sent) < self.most

        return put

    def skip(self, number):
        self.skipped.append(number)

    def close(self):
        self.closed += 1


def _run(bench, *parts, source=None, sinks=(), by_record=False):
    body = steps(*parts)
    used = frozenset({*collect_usage(body).used, "x"})
    names = BlockNames({}, frozenset(), used, frozenset(collect_usage(body).changed))
    location = StepLocation("e/t", NOWHERE)
    sent = tuple(SentRecord(("x",), frozenset(), location) for _ in sinks)
    access = RecordAccess(("x",) if source else (), sent, location)
    path = "e/t/record" if source else "e/t"
    block = compile_block(body, path, names, Actions(names), records=access)
    plan = RecordPlan(lambda frame: Streams(), by_record, "e/t")
    run_records(plan, block, bench.frame, Streams(source, tuple(sinks)))


def test_the_steps_run_once_for_each_record():
    with Bench(total=0) as bench:
        _run(bench, "total = total + x", source=_given(1, 2, 3))

        assert bench.blobs["total"] == 6
        assert bench.blobs["x"] == 3


def test_without_a_record_the_steps_do_not_run():
    with Bench(total=0) as bench:
        _run(bench, "total = 1", source=_given())

        assert bench.blobs["total"] == 0


def test_without_a_source_the_steps_run_once_and_one_record_is_sent():
    sink = _Sink()
    with Bench(x=0) as bench:
        _run(bench, "x = x + 5", sinks=[sink])

    assert sink.sent == [(0, 5)]


@pytest.mark.parametrize("guarded", [False, True])
def test_a_stop_leaves_the_record_which_is_not_sent_on(guarded):
    stop = Stop(_IS_2, "e/t/record")
    # Out of a guard it is an exception that ends the steps.
    stop = Guard("flag", (stop,), "e/t/g") if guarded else stop
    sink = _Sink()
    with Bench(seen=0) as bench:
        _run(bench, stop, "seen = seen + 1", source=_given(1, 2, 3), sinks=[sink])

        assert bench.blobs["seen"] == 2
    assert sink.sent == [(0, 1), (2, 3)]
    assert sink.skipped == [1]


def test_a_stop_of_the_task_ends_it():
    stop = Stop(_IS_2, "e/t")
    source, sink = _given(1, 2, 3), _Sink()
    with Bench(seen=0) as bench:
        _run(bench, "seen = seen + 1", stop, source=source, sinks=[sink])

        assert bench.blobs["seen"] == 2
    assert sink.sent == [(0, 1)]
    assert len(source.remaining) == 1


def test_the_task_ends_when_its_queues_have_no_readers():
    source = _given(1, 2, 3)
    with Bench() as bench:
        _run(bench, source=source, sinks=[_Sink(most=2)])

    assert len(source.remaining) == 1


def test_a_cancel_is_seen_between_records():
    with Bench() as bench:
        bench.run.body.cancel()
        with pytest.raises(CancelledError):
            _run(bench, source=_given(1))


def test_random_numbers_are_those_of_the_record_where_instances_share_a_source():
    def drawn(instance, *, by_record, values=(1, 2)):
        with Bench(found=[]) as bench:
            bench.frame.instance = instance
            collected = []
            source = _given(*values)
            records = source.connect(bench.frame)

            def noted(frame):
                for record in records:
                    yield record
                    collected.append(bench.blobs["y"])

            source.connect = noted
            _run(bench, "y = rng.integers(0, 1000000)", source=source, by_record=by_record)
            return collected

    assert drawn(0, by_record=True) == drawn(1, by_record=True)
    assert drawn(0, by_record=False) != drawn(1, by_record=False)
    first, second = drawn(0, by_record=True)
    assert first != second
    # Another record of the same number, drawn by itself.
    assert drawn(1, by_record=True, values=(9,)) == [first]


def test_random_numbers_belong_to_the_instance_if_it_only_writes():
    def drawn(instance):
        with Bench() as bench:
            bench.frame.instance = instance
            bench.frame.instances = 2
            _run(bench, "x = rng.integers(0, 1000000)", sinks=[_Sink()], by_record=True)
            return bench.blobs["x"], bench.frame.rng.integers(0, 1000000)

    with Bench() as plain:
        plain.frame.instance = 1
        wanted = [plain.frame.rng.integers(0, 1000000) for _ in range(2)]

    assert [*drawn(1)] == wanted
    assert drawn(0) != drawn(1)


def test_everything_is_closed_whatever_one_of_them_says():
    class Broken(_Sink):
        def close(self):
            super().close()
            raise KeyError(1)

    source, broken, sink = _given(), Broken(), _Sink()
    with pytest.raises(KeyError):
        Streams(source, (broken, sink)).close()

    assert (source.closed, broken.closed, sink.closed) == (1, 1, 1)
    Streams().close()
