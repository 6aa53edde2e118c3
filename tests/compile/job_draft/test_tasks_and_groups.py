from __future__ import annotations

from jobrun.compile.job_draft.tasks_and_groups import NO_RECORDS, Records
from jobrun.compile.python_jobs import build_records
from jobrun.graph.readers import Queue, ReadQueue, WriteQueue
from jobrun.graph.types import Task


def test_a_plain_task_has_no_records():
    plain = build_records(Task("t", "n", (), path="e/t"))

    assert (plain.read, plain.write, plain.is_loop) == (None, (), False)
    assert NO_RECORDS.names() == set()


def test_the_names_of_a_record_are_those_that_are_read_and_sent():
    read, write = ReadQueue(Queue("a"), ("x",)), WriteQueue(Queue("b"), ("y", "z"))

    records = build_records(Task("t", "n", (), path="e/t", read=read, write=(write,)))

    assert records.fields == ("x",)
    assert records.names() == {"x", "y", "z"}
    assert records.is_loop
    assert [spec_position.path for spec_position in (records.read_at, *records.write_at)] == [
        "e/t/read",
        "e/t/write.b",
    ]


def test_what_a_record_brings_is_unknown_when_its_source_is():
    assert Records(is_loop=True).are_unknown
    assert Records(ReadQueue(Queue("a"), ()), is_loop=True).are_unknown
    assert not Records(ReadQueue(Queue("a"), ("x",)), is_loop=True).are_unknown
