from __future__ import annotations

from jobrun.graph.readers import CounterSource, Field, Queue, Reader, ReadQueue, ReadRecords
from jobrun.graph.types import Scope, Task
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.group_plan import plan_records, shares_records
from jobrun.runtime.records.task_reader import ReaderSource
from tests.support.step_bench import Bench


def _task(instances=1, shard="none"):
    reader = Reader("r", CounterSource(0, 3), (Field("x", ""),), shard=shard)
    return Task("t", "local", (), instances=instances, read=ReadRecords(reader), path="e/t")


def test_a_task_without_records_has_no_plan():
    assert plan_records(Task("t", "local", ()), BlockNames()) is None


def test_a_task_that_reads_a_reader_has_its_source():
    plan = plan_records(_task(), BlockNames({"x": Scope.TASK}))

    assert plan.body == "e/t"
    with Bench() as bench:
        streams = plan.streams(bench.frame)
        assert isinstance(streams.source, ReaderSource)
        assert streams.sinks == ()
        streams.close()


def test_the_instance_of_a_record_depends_on_timing_only_if_instances_share():
    queue = Task("t", "local", (), instances=2, read=ReadQueue(Queue("q"), ("x",)))

    assert not shares_records(_task())
    assert shares_records(_task(instances=2))
    assert not shares_records(_task(instances=2, shard="instance"))
    assert shares_records(queue)
