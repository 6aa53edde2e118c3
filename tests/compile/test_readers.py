from __future__ import annotations

import pytest

from jobrun.compile.readers import source_reads
from jobrun.graph.data import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    ZipSource,
)
from jobrun.graph.expr import Const, Name, Text
from tests.support.compiling import fault_of, faults_of, job_of, task_of

_READ = "epoch: [{task: t, read: r, steps: [w = w + 1]}]\n"


def _reader_of(folder, text):
    job = job_of(folder, f"readers: {{r: {{{text}}}}}\n{_READ}")
    return task_of(job, "t").read.reader


def test_a_file_is_named_with_its_format_and_its_fields_with_theirs(tmp_path):
    reader = _reader_of(tmp_path, "npz: a.npz, fields: {x: data, y: target}, batch: 64")

    assert reader.source == FileSource("npz", Text(("a.npz",)))
    assert reader.fields == (Field("x", "data"), Field("y", "target"))
    assert reader.batch == 64
    assert reader.path == "readers.r"
    assert reader.origin.line > 0


def test_a_list_of_fields_keeps_the_names_of_the_source(tmp_path):
    reader = _reader_of(tmp_path, "csv: a.csv, fields: [x, y]")

    assert reader.fields == (Field("x", "x"), Field("y", "y"))


@pytest.mark.parametrize("source", ["npy: a.npy", "counter: {stop: 3}"])
def test_a_single_column_has_no_name_of_its_own(tmp_path, source):
    assert _reader_of(tmp_path, f"{source}, fields: [x]").fields == (Field("x", ""),)


def test_blobs_are_fields_by_their_names(tmp_path):
    reader = _reader_of(tmp_path, "blobs: {x: w, y: 2}")

    assert isinstance(reader.source, BlobSource)
    assert reader.fields == (Field("x", "x"), Field("y", "y"))
    assert source_reads(reader) == (Name("w"), Const(2))


def test_what_is_left_out_has_no_effect(tmp_path):
    reader = _reader_of(tmp_path, "counter: {}, fields: [i]")

    assert reader.source == CounterSource(0, None, 1)
    assert (reader.batch, reader.limit, reader.time_limit_s, reader.delay_s) == (0, None, 0.0, 0.0)
    assert (reader.restart, reader.shard, reader.shuffle) == ("epoch", "none", False)


def test_a_class_gets_what_with_says(tmp_path):
    reader = _reader_of(tmp_path, "call: 'lib:Rows', with: {n: 3}, fields: [x]")

    assert reader.source == CallSource("lib:Rows", (("n", Const(3)),))


def test_zipped_readers_give_the_fields_of_all(tmp_path):
    job = job_of(
        tmp_path,
        """\
        readers:
          a: {counter: {}, fields: [i], restart: never}
          b: {npy: b.npy, fields: [x], restart: never, shard: node}
          c: {npy: c.npy, fields: [y], restart: never, shard: node}
          r: {zip: [b, c], limit: 3}
          s: {zip: [a], fields: {j: i}}
        epoch: [{task: t, read: r, steps: [w = w + 1]}, {task: u, read: s, steps: [v = j]}]
        """,
    )
    reader = task_of(job, "t").read.reader

    assert isinstance(reader.source, ZipSource)
    assert reader.fields == (Field("x", "x"), Field("y", "y"))
    assert (reader.restart, reader.shard, reader.limit) == ("never", "node", 3)
    assert task_of(job, "u").read.reader.fields == (Field("j", "i"),)


@pytest.mark.parametrize(
    ("text", "message", "mend"),
    [
        ("npz: a.npz", "does not say what its records bind", "fields: {x: data"),
        ("npy: a.npy", "does not say", "fields: [x]"),
        ("npy: a.npy, fields: [x, y]", "one column", "name one"),
        ("npz: 'a.npz::data', fields: [x]", "named by 'fields'", "path alone"),
        ("npz: a.npy, fields: [x]", "does not look like npz", "name the format"),
        ("hdf5: a.hdf, fields: [x]", "end in .h5 or .hdf5", "name the format"),
        ("npz: a.npz, fields: {x: a, w2: b}, drop_last: true", "without 'batch'", "batch size"),
        ("npz: a.npz, fields: [x], with: {n: 1}", "'with' is for readers with 'call'", "leave"),
        ("call: 'lib:R', fields: [x], shuffle: true", "rows that can be counted", "class do it"),
        ("call: 'lib:R', fields: [x], shard: node", "rows that can be counted", "class do it"),
        ("call: 'lib:R', with: {n: w}, fields: [x], restart: never", "may differ", "params"),
        ("call: 'lib:R', with: {n: epoch}, fields: [x], restart: never", "may differ", "params"),
        ("counter: {}, fields: [i], shuffle: true", "needs an end", "a stop"),
        ("counter: {step: 0}, fields: [i]", "step cannot be 0", "step"),
        ("counter: {stop: 9223372036854775807}, fields: [i]", "62 bits", "smaller"),
        ("blobs: {x: w}, fields: {a: z}", "there is no 'z'", "x"),
        ("blobs: {x: w}, fields: {a: x, b: nope}", "there is no 'nope'", "x"),
        ("blobs: {x: 'rng.normal()'}", "no random stream", "draw in a task"),
        ("zip: []", "zips nothing", "two readers"),
        ("zip: [r]", "zipped itself", "instead"),
        ("zip: [nope]", "there is no reader 'nope'", "r"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant_is_told_with_its_place(tmp_path, text, message, mend):
    fault = fault_of(tmp_path, f"readers: {{r: {{{text}}}}}\n{_READ}")

    assert fault.code == "E119"
    assert message in fault.message
    assert mend in fault.mend
    assert fault.path == "readers.r"


def test_a_field_cannot_have_a_name_that_means_something_else(tmp_path):
    fault = fault_of(
        tmp_path,
        "params: {k: 1}\nreaders: {r: {csv: a.csv, fields: [k]}}\n" + _READ,
    )

    assert fault.code == "E180" or "param" in fault.message


@pytest.mark.parametrize(
    ("readers", "message"),
    [
        ("a: {csv: a.csv, fields: [x]}, r: {zip: [a, a]}", "zipped with itself"),
        ("a: {csv: a.csv, fields: [x]}, b: {csv: b.csv, fields: [x]}, r: {zip: [a, b]}",
         "bound twice"),
        ("a: {csv: a.csv, fields: [x]}, b: {csv: b.csv, fields: [y], restart: never}, "
         "r: {zip: [a, b]}", "one 'restart'"),
        ("a: {csv: a.csv, fields: [x]}, r: {zip: [a], batch: 3}", "'batch' belongs to each"),
        ("a: {csv: a.csv, fields: [x]}, q: {zip: [a]}, r: {zip: [q]}", "zipped itself"),
    ],
)  # fmt: skip
def test_readers_that_do_not_go_together_are_told(tmp_path, readers, message):
    faults = faults_of(tmp_path, f"readers: {{{readers}}}\n{_READ}")

    assert {fault.code for fault in faults} == {"E119"}
    assert any(message in fault.message for fault in faults)


def test_a_reader_with_a_fault_is_the_only_fault_of_the_task_that_reads_it(tmp_path):
    fault = fault_of(
        tmp_path, "readers: {r: {npz: a.npz}}\nepoch: [{task: t, read: r, steps: [w = w + x]}]"
    )

    assert fault.code == "E119"
