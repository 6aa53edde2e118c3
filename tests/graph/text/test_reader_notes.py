from __future__ import annotations

import pytest

from jobrun.graph.expressions import Builtin, Name, Text
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ReadRecords,
    ZipSource,
)
from jobrun.graph.text.notes import reader_notes, used_readers
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup

_X = (Field("x", "data"),)


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (FileSource("npz", Text((Builtin("run.dir"), "/a.npz"))), "${run.dir}/a.npz"),
        (BlobSource((("data", Name("X")),)), "blobs X"),
        (CounterSource(), "numbers from 0 without end"),
        (CounterSource(1, 9, 2), "numbers from 1 to 9 by 2"),
        (CallSource("lib:Rows"), "lib:Rows"),
        (ZipSource((Reader("a", CounterSource()), Reader("b", CounterSource()))), "a beside b"),
    ],
)
def test_the_first_note_says_what_records_are(source, text):
    assert reader_notes(Reader("r", source, _X)) == (f"x = data from {text}",)


def test_the_first_note_says_what_cuts_a_ragged_field():
    fields = (Field("x", "v", "n"), Field("n", "n"))

    assert reader_notes(Reader("r", BlobSource((("v", Name("V")),)), fields))[0] == (
        "x = v cut by n, n from blobs V"
    )


def test_the_others_say_how_they_come():
    reader = Reader("r", CounterSource(), _X, 64, True, True, "never", 20, 5.0, 0.5, "node")

    assert reader_notes(reader)[1:] == (
        "batches of 64, full ones only",
        "shuffled by seed and pass",
        "continues where the last epoch ended",
        "at most 20 records an epoch",
        "at most 5 s an epoch",
        "0.5 s before each record",
        "each node reads a part of the rows; other nodes divide what is left of the pass",
    )


def test_a_reader_that_restarts_is_divided_anew_with_each_pass():
    reader = Reader("r", CounterSource(), _X, shard="instance")

    assert reader_notes(reader)[-1] == (
        "each instance reads a part of the rows; other instances divide them again in the next pass"
    )


def test_a_reader_is_used_once_however_many_read_it():
    one = Reader("one", CounterSource(), _X)
    both = Reader("both", ZipSource((one,)), _X)
    tasks = tuple(Task(name, "n", (), read=ReadRecords(both)) for name in "ab")
    job = Job("j", Cluster((Node("n"),)), TaskGroup("init"), TaskGroup("epoch", tasks))

    assert used_readers(job) == (both, one)
