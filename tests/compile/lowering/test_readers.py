from __future__ import annotations

import pytest

from jobrun.graph.expressions import Const, Name, Text
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    ZipSource,
    source_expressions,
)
from tests.support.compiling import codes_of, fault_of, faults_of, job_of, task_of

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
    assert source_expressions(reader) == (Name("w"), Const(2))


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
        ("npz: a.npz", "has no fields", "fields: {x: data"),
        ("npy: a.npy", "has no fields", "fields: [x]"),
        ("npy: a.npy, fields: [x, y]", "one column", "name one"),
        ("npz: 'a.npz::data', fields: [x]", "named in 'fields'", "only the path"),
        ("npz: a.npy, fields: [x]", "does not look like npz", "the key of its format"),
        ("hdf5: a.hdf, fields: [x]", "end in .h5 or .hdf5", "the key of its format"),
        ("npz: a.npz, fields: {x: a, w2: b}, drop_last: true", "without 'batch'", "set 'batch'"),
        ("npz: a.npz, fields: [x], with: {n: 1}", "only for readers with 'call'", "remove"),
        ("call: 'lib:R', fields: [x], shuffle: true", "a known number of rows", "in the class"),
        ("call: 'lib:R', fields: [x], shard: node", "a known number of rows", "in the class"),
        ("call: 'lib:R', with: {n: w}, fields: [x], restart: never", "may differ", "params"),
        ("call: 'lib:R', with: {n: epoch}, fields: [x], restart: never", "may differ", "params"),
        ("counter: {}, fields: [i], shuffle: true", "needs an end", "a stop"),
        ("counter: {step: 0}, fields: [i]", "cannot be 0", "step"),
        ("counter: {stop: 9223372036854775807}, fields: [i]", "62 bits", "smaller"),
        ("blobs: {x: w}, fields: {a: z}", "no member 'z'", "x"),
        ("blobs: {x: w}, fields: {a: x, b: nope}", "no member 'nope'", "x"),
        ("blobs: {x: 'rng.normal()'}", "no random stream", "draw in a task"),
        ("zip: []", "needs at least two readers", "two or more readers"),
        ("zip: [r]", "itself a zip", "that it zips"),
        ("zip: [nope]", "unknown reader 'nope'", "r"),
    ],
)  # fmt: skip
def test_impossible_settings_are_reported_with_their_positions(tmp_path, text, message, mend):
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
         "name of two fields"),
        ("a: {csv: a.csv, fields: [x]}, b: {csv: b.csv, fields: [y], restart: never}, "
         "r: {zip: [a, b]}", "same 'restart'"),
        ("a: {csv: a.csv, fields: [x]}, r: {zip: [a], batch: 3}", "'batch' belongs on"),
        ("a: {csv: a.csv, fields: [x]}, q: {zip: [a]}, r: {zip: [q]}", "itself a zip"),
    ],
)  # fmt: skip
def test_readers_that_do_not_go_together_are_reported(tmp_path, readers, message):
    faults = faults_of(tmp_path, f"readers: {{{readers}}}\n{_READ}")

    assert {fault.code for fault in faults} == {"E119"}
    assert any(message in fault.message for fault in faults)


def test_a_reader_with_a_fault_is_the_only_fault_of_the_task_that_reads_it(tmp_path):
    fault = fault_of(
        tmp_path, "readers: {r: {npz: a.npz}}\nepoch: [{task: t, read: r, steps: [w = w + x]}]"
    )

    assert fault.code == "E119"


@pytest.mark.parametrize(
    ("reader", "mend"),
    [
        ("{blobs: {w: w}}", "blobs: {w_row: …}"),
        ("{blobs: {row: w}, fields: {w: row}}", "blobs: {w_row: …}"),
        ("{npz: a.npz, fields: [w]}", "fields: {w_row: …}"),
        ("{counter: {stop: 3}, fields: [w]}", "fields: {w_row: …}"),
        ("{call: 'm:C', fields: [w]}", "fields: {w_row: …}"),
        ("{zip: [s]}", "fields: {w_row: …}"),
    ],
)
def test_reader_field_named_as_a_state_blob_is_refused(tmp_path, reader, mend):
    text = f"""\
        init: [{{task: start, steps: ['w = zeros(4)']}}]
        readers: {{r: {reader}, s: {{npz: b.npz, fields: [w]}}}}
        epoch: [{{task: t, read: r, steps: ['y = w']}}]
        """
    fault = fault_of(tmp_path, text)

    assert "'w', which is state" in fault.message
    assert mend in fault.mend
    assert fault.where is not None
    assert fault.where.line == 5


def test_queue_field_named_as_a_state_blob_is_refused(tmp_path):
    text = """\
        nodes: {a: {}, b: {}}
        init: [{task: start, node: '*', steps: ['w = zeros(4)']}]
        queues: {q: {shared: true}}
        epoch:
          - {task: p, node: a, steps: ['y = 1'], write: {q: [w]}}
          - {task: c, node: b, read: q, steps: ['y = w']}
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E510"
    assert fault.mend == "assign 'w' to a blob of another name, and send that"


def test_reader_field_named_as_a_blob_of_set_up_around_the_group_is_refused(tmp_path):
    text = """\
        readers: {r: {npz: a.npz, fields: [x]}}
        epoch:
          tasks: [{task: t, read: r, steps: ['y = x']}]
          setup: {init: ['x = 1.0']}
        """

    assert codes_of(tmp_path, text) == ["E510"]


def test_reader_fields_of_tasks_that_share_no_workspace_may_have_one_name(tmp_path):
    text = """\
        readers: {r: {npz: a.npz, fields: [x]}, s: {npz: b.npz, fields: [x]}}
        epoch: {workspace: global, tasks: [
          {task: t, read: r, steps: ['w = w + x']},
          {task: u, needs: [t], read: s, steps: ['w = w - x']}]}
        """

    assert codes_of(tmp_path, text) == []


def test_a_ragged_field_names_its_values_and_their_lengths(tmp_path):
    reader = _reader_of(tmp_path, "npz: a.npz, fields: {x: {values: v, lengths: n}, n: n, y: y}")

    assert reader.fields == (Field("x", "v", "n"), Field("n", "n"), Field("y", "y"))


def test_two_ragged_fields_may_have_the_same_lengths(tmp_path):
    fields = "fields: {x: {values: v, lengths: n}, y: {values: u, lengths: n}}"
    reader = _reader_of(tmp_path, f"blobs: {{v: w, u: 2 * w, n: w + 1}}, {fields}")

    assert reader.fields == (Field("x", "v", "n"), Field("y", "u", "n"))


_PAIR = "{x: {values: v, lengths: n}}"


@pytest.mark.parametrize(
    ("text", "code", "message", "mend"),
    [
        (f"csv: a.csv, fields: {_PAIR}", "E513", "one length", "npz or HDF5"),
        (f"parquet: a.parquet, fields: {_PAIR}", "E513", "one length", "npz or HDF5"),
        (f"npy: a.npy, fields: {_PAIR}", "E513", "one column", "npz or HDF5"),
        (f"counter: {{stop: 3}}, fields: {_PAIR}", "E513", "one column", "fields: [i]"),
        (f"call: 'lib:R', fields: {_PAIR}", "E513", "by themselves", "one array a record"),
        ("npz: a.npz, fields: {x: {values: v, lengths: v}}", "E513", "both values", "one field"),
        (f"npz: a.npz, fields: {_PAIR[:-1]}, y: v}}", "E513", "is used again", "second reader"),
        (f"npz: a.npz, fields: {_PAIR[:-1]}, y: {{values: v, lengths: m}}}}", "E513",
         "is used again", "second reader"),
        (f"npz: a.npz, fields: {_PAIR[:-1]}, y: {{values: u, lengths: v}}}}", "E513",
         "is used again", "second reader"),
        ("npz: a.npz, fields: {v: words/values, n: words/lengths}", "E515", "read row by row",
         "fields: {v: {values: words/values, lengths: words/lengths}}"),
        ("hdf5: a.h5, fields: [word_lengths, word_values]", "E515", "row by row",
         "{word_values: {values: word_values, lengths: word_lengths}}"),
        ("blobs: {lengths: w, values: w}", "E515", "row by row", "zip two readers"),
        (f"blobs: {{v: w}}, fields: {_PAIR}", "E119", "no member 'n'", "v"),
        (f"blobs: {{n: w}}, fields: {_PAIR}", "E119", "no member 'v'", "n"),
    ],
)  # fmt: skip
def test_a_ragged_field_that_cannot_be_meant_is_refused(tmp_path, text, code, message, mend):
    fault = fault_of(tmp_path, f"readers: {{r: {{{text}}}}}\n{_READ}")

    assert fault.code == code
    assert message in fault.message
    assert mend in fault.mend
    assert fault.where is not None
    assert fault.where.line > 0


def test_a_ragged_field_belongs_to_one_of_the_readers_that_are_zipped(tmp_path):
    text = "readers: {a: {npz: a.npz, fields: [v, n]}, r: {zip: [a], fields: FIELDS}}\n" + _READ
    fault = fault_of(tmp_path, text.replace("FIELDS", _PAIR))

    assert (fault.code, "zipped" in fault.message) == ("E513", True)


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_of_a_table_may_be_called_values_and_lengths(tmp_path, kind):
    reader = _reader_of(tmp_path, f"{kind}: a.{kind}, fields: [lengths, values]")

    assert [field.name for field in reader.fields] == ["lengths", "values"]
