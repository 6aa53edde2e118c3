"""Bad data and queues as a user meets them: each is refused with its place and a mend."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from jobrun.cli.run_command import invoke

HEAD = "jobrun: 1\nname: bad\n"
REST = """\
init: [{task: i, steps: [k = 0.0]}]
epoch: [{task: t, read: r, instances: 3, hogwild: true, steps: ["k = k + sum(x)"]}]
stop: [epochs: 1]
"""
TWO = """\
init: [{task: i, steps: [k = 0.0]}]
epoch:
  - {task: t, read: c, steps: [], write: {q: [n]}}
  - {task: u, read: q, steps: [k = k + n]}
stop: [epochs: 1]
"""
COUNT = "readers: {c: {counter: {stop: 3}, fields: [n]}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("ok.npy", np.arange(2.0))
    np.save("empty.npy", np.zeros((0, 3)))
    np.save("objects.npy", np.array([{}, 1], object), allow_pickle=True)
    np.savez("uneven.npz", x=np.arange(10.0), y=np.arange(9.0))
    n = np.array([1, 2, 0])
    np.savez("ragged.npz", v=np.arange(3), n=n, f=n * 1.0, minus=np.array([4, -1, 0]), more=n + 1)
    np.savez("flat.npz", words=np.arange(3), y=np.arange(3), lengths=n)
    Path("cut.npy").write_bytes(Path("ok.npy").read_bytes()[:-8])
    Path("nothing.npy").touch()
    Path("ragged.csv").write_text("a,b\n1,2\n3\n")
    Path("nothing.csv").touch()
    Path("names.csv").write_text("a,b\n")
    with h5py.File("a.h5", "w") as file:
        file["a"] = np.arange(400.0)
    Path("cut.h5").write_bytes(Path("a.h5").read_bytes()[:1000])
    parquet.write_table(pyarrow.table({"a": [1, 2, 3]}), "a.parquet")
    Path("cut.parquet").write_bytes(Path("a.parquet").read_bytes()[:-10])
    return tmp_path


BEFORE = {
    "a missing file": ("npy: gone.npy, fields: [x]", "E372", "no data file gone.npy"),
    "a missing member": ("npz: uneven.npz, fields: {x: z}", "E281", "no member 'z'"),
    "a missing dataset": ("hdf5: a.h5, fields: {x: b}", "E281", "no member 'b'"),
    "a missing column": ("parquet: a.parquet, fields: {x: b}", "E281", "no member 'b'"),
    "members of other lengths": ("npz: uneven.npz, fields: [x, y]", "E288", "differ in length"),
    "Python objects": ("npy: objects.npy, fields: [x]", "E284", "Python objects"),
    "no bytes": ("npy: nothing.npy, fields: [x]", "E282", "cannot read"),
    "no bytes of a table": ("csv: nothing.csv, fields: {x: a}", "E282", "it is empty"),
    "no rows": ("npy: empty.npy, fields: [x]", "E232", "no rows to read"),
    "a file that was cut short": ("npy: cut.npy, fields: [x]", "E282", "cut short"),
    "HDF5 that was cut short": ("hdf5: cut.h5, fields: {x: a}", "E282", "cannot read"),
    "parquet that was cut short": ("parquet: cut.parquet, fields: {x: a}", "E282", "cannot read"),
    "a share with no rows": (
        "npy: ok.npy, fields: [x], shard: instance", "E232", "2 rows for 3 shares",
    ),
    "lengths that are no integers": (
        "npz: ragged.npz, fields: {x: {values: v, lengths: f}}", "E514", "is <f8 of shape (3,)",
    ),
    "lengths that are not there": (
        "npz: ragged.npz, fields: {x: {values: v, lengths: m}}", "E281", "no member 'm'",
    ),
    "lengths in a table": (
        "csv: ragged.csv, fields: {x: {values: a, lengths: b}}", "E513", "one length",
    ),
    "flat values read row by row": (
        "npz: ragged.npz, fields: {x: values, n: lengths}", "E515", "row by row",
    ),
    "another format": ("hdf5: ok.npy, fields: {x: a}", "E119", "does not look like hdf5"),
}  # fmt: skip
WITHIN = {
    "ragged columns": ("csv: ragged.csv, fields: {x: a}", "E282", "line 3 has 1 fields"),
    "a negative length": (
        "npz: ragged.npz, fields: {x: {values: v, lengths: minus}}",
        "E514",
        "is -1 for record 1",
    ),
    "lengths of more values than there are": (
        "npz: ragged.npz, fields: {x: {values: v, lengths: more}}",
        "E514",
        "adds up to 6",
    ),
    "flat values with lengths that nothing names": (
        "npz: flat.npz, fields: {x: words, y: y}",
        "E515",
        "row by row",
    ),
    "names and no rows": ("csv: names.csv, fields: {x: a}", "E232", "no rows to read"),
}


def _refused(folder, text, code, message, capsys):
    (folder / "bad.yaml").write_text(text)
    assert invoke(["run", "bad.yaml"]) in {1, 3, 7}
    output = capsys.readouterr().err
    assert f"error[{code}] bad.yaml:" in output
    assert message in output
    assert "^ " in output
    return output


@pytest.mark.parametrize("case", BEFORE)
def test_bad_data_are_refused_before_anything_runs(folder, capsys, case):
    reader, code, message = BEFORE[case]
    output = _refused(folder, f"{HEAD}readers: {{r: {{{reader}}}}}\n{REST}", code, message, capsys)

    assert "bad.yaml:3:" in output
    assert not (folder / "runs").exists()


@pytest.mark.parametrize("case", WITHIN)
def test_what_only_the_rows_tell_is_refused_with_the_same_place(folder, capsys, case):
    reader, code, message = WITHIN[case]
    output = _refused(folder, f"{HEAD}readers: {{r: {{{reader}}}}}\n{REST}", code, message, capsys)

    assert "bad.yaml:3:" in output


def test_a_wrong_dtype_is_refused_before_anything_runs(folder, capsys):
    text = f"{HEAD}readers: {{r: {{npy: ok.npy, fields: [x], batch: 2}}}}\n{REST}"
    output = _refused(folder, text.replace("k + sum(x)", "k + sum(x & 1)"), "E291", "", capsys)

    assert "bad.yaml:5:" in output
    assert not (folder / "runs").exists()


QUEUES = {
    "capacity 0": ("queues: {q: {capacity: 0}}\n", TWO, "E024", "capacity"),
    "a name of two queues": ("queues: {q: {}, q: {}}\n", TWO, "E010", "q"),
    "a name of a reader and a queue": ("queues: {q: {}, c: {}}\n", TWO, "E192", "is also a reader"),
    "a queue nobody writes": (
        "queues: {q: {}}\n", TWO.replace(", write: {q: [n]}", ""), "E192", "no task writes to it",
    ),
    "a queue nobody reads": (
        "queues: {q: {}}\n", TWO.replace("read: q, ", ""), "E192", "no task reads from it",
    ),
    "a queue nobody uses": ("queues: {q: {}, p: {}}\n", TWO, "E192", "no task writes to queue 'p'"),
}  # fmt: skip


@pytest.mark.parametrize("case", QUEUES)
def test_queues_that_cannot_be_meant_are_refused_before_anything_runs(folder, capsys, case):
    queues, steps, code, message = QUEUES[case]
    _refused(folder, HEAD + COUNT + queues + steps, code, message, capsys)

    assert not (folder / "runs").exists()


def test_two_readers_of_one_name_are_refused(folder, capsys):
    readers = COUNT.replace("}\n", ", c: {counter: {stop: 4}, fields: [n]}}\n")
    _refused(folder, HEAD + readers + "queues: {q: {}}\n" + TWO, "E010", "c", capsys)


def test_two_tasks_that_read_one_reader_at_once_are_refused(folder, capsys):
    twice = TWO.replace("read: q", "read: c").replace(", write: {q: [n]}", "")
    _refused(folder, HEAD + COUNT + twice, "E120", "concurrently", capsys)
