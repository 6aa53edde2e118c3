from __future__ import annotations

import csv

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from jobrun.core.errors import JobrunError
from jobrun.formats.rows.open_rows import open_rows
from jobrun.formats.rows.rows_protocol import common_length, restore_order, sort_rows

COUNT = 500
X = np.random.default_rng(0).normal(size=(COUNT, 3))
Y = np.arange(COUNT)
TEXT = np.array([f"w\n{row}" for row in Y])


def _npy(folder):
    np.save(folder / "a.npy", X)
    return "npy", "a.npy", {"": X}


def _fortran(folder):
    np.save(folder / "a.npy", np.asfortranarray(X))
    return "npy", "a.npy", {"": X}


def _npz(folder):
    np.savez(folder / "a.npz", x=X, y=Y.astype(">i2"))
    return "npz", "a.npz", {"x": X, "y": Y.astype(">i2")}


def _compressed(folder):
    np.savez_compressed(folder / "a.npz", x=X, y=Y)
    return "npz", "a.npz", {"x": X, "y": Y}


def _hdf5(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file["g/x"], file["y"] = X, Y
    return "hdf5", "a.h5", {"g/x": X, "y": Y}


def _chunked(folder):
    with h5py.File(folder / "a.h5", "w") as file:
        file.create_dataset("x", data=X, chunks=(64, 3), compression="gzip")
        file["y"] = Y
        file["t"] = np.char.encode(TEXT, "utf-8").astype(h5py.string_dtype("utf-8", 8))
    return "hdf5", "a.h5", {"x": X, "y": Y, "t": TEXT.astype("<U8")}


def _csv(folder):
    with (folder / "a.csv").open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["y", "f", "t"])
        rows.writerows((y, float(x), t) for y, x, t in zip(Y, X[:, 0], TEXT, strict=True))
    both = np.stack([Y, X[:, 0]], axis=1)
    return "csv", "a.csv", {"y": Y, "f": X[:, 0], "t": TEXT, "y,f": both}


def _parquet(folder):
    lists = pyarrow.FixedSizeListArray.from_arrays(X.reshape(-1), 3)
    columns = {"y": Y, "x": lists, "t": TEXT.tolist(), "f": X[:, 0].astype("f4")}
    parquet.write_table(pyarrow.table(columns), folder / "a.parquet", row_group_size=77)
    return "parquet", "a.parquet", {"y": Y, "x": X, "t": TEXT, "f": X[:, 0].astype("f4")}


ALL = [_npy, _fortran, _npz, _compressed, _hdf5, _chunked, _csv, _parquet]


@pytest.fixture(params=ALL, ids=lambda make: make.__name__.strip("_"))
def source(request, tmp_path):
    kind, name, expected = request.param(tmp_path)
    rows = open_rows(kind, str(tmp_path / name), tuple(expected))
    yield rows, tuple(expected.values())
    rows.close()


def _same(piece, columns, expected):
    for found, column, wanted in zip(piece, columns, expected, strict=True):
        assert found.dtype == column.dtype == wanted.dtype
        assert found.shape[1:] == column.shape
        assert np.array_equal(found, wanted)
        assert found.flags.writeable
        assert found.flags.c_contiguous


def test_rows_in_order_are_those_of_the_member(source):
    rows, expected = source

    assert len(rows) == COUNT
    for start, stop in [(0, 64), (64, 128), (490, 500), (7, 7), (3, 4), (0, 500)]:
        _same(rows.take(start, stop), rows.columns, [one[start:stop] for one in expected])


def test_rows_in_any_order_are_those_of_the_member(source):
    rows, expected = source
    wanted = np.random.default_rng(1).integers(0, COUNT, 90)

    _same(rows.pick(wanted), rows.columns, [one[wanted] for one in expected])
    _same(rows.take(5, 9), rows.columns, [one[5:9] for one in expected])


def test_what_is_read_is_the_callers_own(source):
    rows, expected = source

    for piece in (rows.take(0, 9), rows.pick(np.arange(9))):
        for column in piece:
            column[...] = column[:1]
    _same(rows.take(0, 9), rows.columns, [one[:9] for one in expected])


def test_reading_goes_through_a_file_once():
    wanted = np.array([5, 1, 9, 1])
    ordered, place = sort_rows(wanted)

    assert ordered.tolist() == [1, 1, 5, 9]
    assert restore_order((ordered,), place)[0].tolist() == wanted.tolist()


def test_members_of_different_lengths_are_told():
    assert common_length("a", [("x", 3), ("y", 3)]) == 3
    with pytest.raises(JobrunError, match="'x' has 3 rows, 'z' 4") as caught:
        common_length("a", [("x", 3), ("y", 3), ("z", 4)])
    assert caught.value.faults[0].code == "E288"


@pytest.mark.parametrize("make", ALL)
def test_a_member_that_is_not_there_is_told(tmp_path, make):
    kind, name, _ = make(tmp_path)

    with pytest.raises(JobrunError) as caught:
        open_rows(kind, str(tmp_path / name), ("nope",))
    assert caught.value.faults[0].code == "E281"


@pytest.mark.parametrize("kind", ["npy", "npz", "hdf5", "csv", "parquet"])
def test_a_file_that_is_missing_empty_or_something_else_is_told(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    codes = []
    for make in (lambda: None, lambda: path.write_bytes(b""), lambda: path.write_bytes(b"\0" * 99)):
        make()
        with pytest.raises(JobrunError) as caught:
            open_rows(kind, str(path), ("x",))
        codes.append(caught.value.faults[0].code)

    assert codes[0] == "E280"
    assert codes[1] in {"E281", "E282"}
    assert codes[2] in {"E281", "E282"}
