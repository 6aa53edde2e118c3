from __future__ import annotations

import pytest

from jobrun.graph.readers import Queue, ReadQueue
from jobrun.graph.steps import Guard, Stop
from jobrun.graph.types import Scope, Task
from jobrun.runtime.codegen.compiler import compile_block
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.records.record_loop import (
    Record,
    RecordPlan,
    Streams,
    field_levels,
    field_names,
    record_block,
    run_records,
)
from jobrun.runtime.steps.dispatch import Actions
from jobrun.testing.graphs import steps
from tests.support.step_bench import Bench

_IS_2 = steps("b = x == 2")[0].ops[0].value


class _Source:
    def __init__(self, *values):
        self.left = [Record(number, (value,)) for number, value in enumerate(values)]
        self.begun = self.closed = 0

    def begin(self, frame):
        self.begun += 1

    def connect(self, frame):
        while self.left:
            yield self.left.pop(0)

    def close(self):
        self.closed += 1


class _Sink:
    def __init__(self, most=1000):
        self.sent, self.skipped, self.closed, self.most = [], [], 0, most

    def connect(self, frame):
        def write(number):
            self.sent.append((number, frame.t["x"]))
            return len(self.sent) < self.most

        return write

    def skip(self, number):
        self.skipped.append(number)

    def close(self):
        self.closed += 1


def _run(bench, *parts, source=None, sinks=(), by_record=False):
    made = steps(*parts)
    used = frozenset({*collect_usage(made).used, "x"})
    names = BlockNames({}, frozenset(), used, frozenset(collect_usage(made).changed))
    block = compile_block(made, "e/t/record" if source else "e/t", names, Actions(names))
    fields = (("t", "x"),) if source else ()
    plan = RecordPlan(lambda frame: Streams(), fields, by_record, "e/t")
    run_records(plan, block, bench.frame, Streams(source, tuple(sinks)))


def test_the_steps_run_once_for_each_record():
    with Bench(total=0) as bench:
        _run(bench, "total = total + x", source=_Source(1, 2, 3))

        assert bench.blobs["total"] == 6
        assert bench.blobs["x"] == 3


def test_without_a_record_the_steps_do_not_run():
    with Bench(total=0) as bench:
        _run(bench, "total = 1", source=_Source())

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
        _run(bench, stop, "seen = seen + 1", source=_Source(1, 2, 3), sinks=[sink])

        assert bench.blobs["seen"] == 2
    assert sink.sent == [(0, 1), (2, 3)]
    assert sink.skipped == [1]


def test_a_stop_of_the_task_ends_it():
    stop = Stop(_IS_2, "e/t")
    source, sink = _Source(1, 2, 3), _Sink()
    with Bench(seen=0) as bench:
        _run(bench, "seen = seen + 1", stop, source=source, sinks=[sink])

        assert bench.blobs["seen"] == 2
    assert sink.sent == [(0, 1)]
    assert len(source.left) == 1


def test_the_task_ends_when_nobody_wants_its_records_any_more():
    source = _Source(1, 2, 3)
    with Bench() as bench:
        _run(bench, source=source, sinks=[_Sink(most=2)])

    assert len(source.left) == 1


def test_a_cancel_is_seen_between_records():
    with Bench() as bench:
        bench.run.body.cancel()
        with pytest.raises(CancelledError):
            _run(bench, source=_Source(1))


def test_random_numbers_are_those_of_the_record_where_instances_share_a_source():
    def drawn(instance, *, by_record, values=(1, 2)):
        with Bench(found=[]) as bench:
            bench.frame.instance = instance
            found = []
            source = _Source(*values)
            records = source.connect(bench.frame)

            def noted(frame):
                for record in records:
                    yield record
                    found.append(bench.blobs["y"])

            source.connect = noted
            _run(bench, "y = rng.integers(0, 1000000)", source=source, by_record=by_record)
            return found

    assert drawn(0, by_record=True) == drawn(1, by_record=True)
    assert drawn(0, by_record=False) != drawn(1, by_record=False)
    first, second = drawn(0, by_record=True)
    assert first != second
    # Another record of the same number, drawn by itself.
    assert drawn(1, by_record=True, values=(9,)) == [first]


def test_everything_is_closed_whatever_one_of_them_says():
    class Broken(_Sink):
        def close(self):
            super().close()
            raise KeyError(1)

    source, broken, sink = _Source(), Broken(), _Sink()
    with pytest.raises(KeyError):
        Streams(source, (broken, sink)).close()

    assert (source.closed, broken.closed, sink.closed) == (1, 1, 1)
    Streams().close()


def test_what_a_record_binds_is_where_the_compiler_says():
    task = Task("t", "n", (), read=ReadQueue(Queue("q"), ("a", "b")), path="e/t")

    assert field_names(task) == ("a", "b")
    assert field_levels(task, BlockNames({"a": Scope.NODE})) == (("n", "a"), ("t", "b"))
    assert record_block(task) == "e/t/record"
    assert record_block(Task("u", "n", (), path="e/u")) == "e/u"
