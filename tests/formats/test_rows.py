"""Records of data files one after another, and fields inside records, in every format."""

from __future__ import annotations

import csv
import os
import resource

import h5py
import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.formats import rows as rows_module
from jobrun.formats.headers import describe
from jobrun.formats.load_save import read_member
from jobrun.formats.rows import (
    ArrayRows,
    Extent,
    common_length,
    open_rows,
    restore_order,
    sort_rows,
)

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
    for actual, column, wanted in zip(piece, columns, expected, strict=True):
        assert actual.dtype == column.dtype == wanted.dtype
        assert actual.shape[1:] == column.shape
        assert np.array_equal(actual, wanted)
        assert actual.flags.writeable
        assert actual.flags.c_contiguous


def test_rows_in_order_are_those_of_the_member(source):
    rows, expected = source

    assert len(rows) == COUNT
    for start, stop in [(0, 64), (64, 128), (490, 500), (7, 7), (3, 4), (0, 500)]:
        _same(rows.take(start, stop), rows.columns, [column[start:stop] for column in expected])


def test_rows_in_any_order_are_those_of_the_member(source):
    rows, expected = source
    wanted = np.random.default_rng(1).integers(0, COUNT, 90)

    _same(rows.pick(wanted), rows.columns, [column[wanted] for column in expected])
    _same(rows.take(5, 9), rows.columns, [column[5:9] for column in expected])


def test_returned_rows_belong_to_the_caller(source):
    rows, expected = source

    for piece in (rows.take(0, 9), rows.pick(np.arange(9))):
        for column in piece:
            column[...] = column[:1]
    _same(rows.take(0, 9), rows.columns, [column[:9] for column in expected])


def test_reading_goes_through_a_file_once():
    wanted = np.array([5, 1, 9, 1])
    ordered, positions = sort_rows(wanted)

    assert ordered.tolist() == [1, 1, 5, 9]
    assert restore_order((ordered,), positions)[0].tolist() == wanted.tolist()


def test_members_of_different_lengths_are_reported():
    assert common_length("a", [("x", 3), ("y", 3)]) == 3
    with pytest.raises(JobrunError, match="'x' has 3 rows, 'z' 4") as caught:
        common_length("a", [("x", 3), ("y", 3), ("z", 4)])
    assert caught.value.faults[0].code == "E288"


@pytest.mark.parametrize("make", ALL)
def test_a_member_that_is_not_there_is_reported(tmp_path, make):
    kind, name, _ = make(tmp_path)

    with pytest.raises(JobrunError) as caught:
        open_rows(kind, str(tmp_path / name), ("nope",))
    assert caught.value.faults[0].code == "E281"


@pytest.mark.parametrize("kind", ["npy", "npz", "hdf5", "csv", "parquet"])
def test_a_file_that_is_missing_empty_or_something_else_is_reported(tmp_path, kind):
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


PEOPLE = np.zeros(7, [("id", "<i8"), ("pos", [("x", "<f8"), ("y", "<f4", (2,))])])
PEOPLE["id"] = np.arange(7)
PEOPLE["pos"]["x"] = np.arange(7) * 0.5
PEOPLE["pos"]["y"] = np.arange(14).reshape(7, 2)
FORMATS = ["npy", "npz", "hdf5", "chunked"]


def _written(folder, layout):
    """The path, the format and what stands before the fields' names."""
    if layout == "npy":
        np.save(folder / "a.npy", PEOPLE)
        return str(folder / "a.npy"), "npy", ""
    if layout == "npz":
        np.savez(folder / "a.npz", **{"all/people": PEOPLE, "age": np.arange(7)})
        return str(folder / "a.npz"), "npz", "all/people/"
    with h5py.File(folder / "a.h5", "w") as file:
        chunks = (2,) if layout == "chunked" else None
        file.create_dataset("all/people", data=PEOPLE, chunks=chunks)
        file["age"] = np.arange(7)
    return str(folder / "a.h5"), "hdf5", "all/people/"


@pytest.mark.parametrize("layout", FORMATS)
def test_rows_of_fields_are_those_of_the_records(tmp_path, layout):
    path, kind, before = _written(tmp_path, layout)
    rows = open_rows(kind, path, [f"{before}pos/y", f"{before}id"])
    order = np.array([5, 0, 5, 2])
    ordered, picked = rows.take(2, 5), rows.pick(order)
    rows.close()

    assert [(column.dtype.str, column.shape) for column in rows.columns] == [
        ("<f4", (2,)),
        ("<i8", ()),
    ]
    for actual, at in ((ordered, slice(2, 5)), (picked, order)):
        for column, wanted in zip(actual, (PEOPLE["pos"]["y"], PEOPLE["id"]), strict=True):
            assert column.dtype == wanted.dtype
            assert column.flags.c_contiguous
            assert column.flags.owndata
            assert column.tobytes() == wanted[at].tobytes()


@pytest.mark.parametrize("layout", FORMATS)
def test_headers_tell_dtype_and_shape_of_a_field(tmp_path, layout):
    path, _, before = _written(tmp_path, layout)
    actual = describe(path, f"{before}pos/y")

    assert (actual.dtype, actual.shape) == ("<f4", (7, 2))


@pytest.mark.parametrize("layout", FORMATS)
def test_a_field_can_be_loaded(tmp_path, layout):
    path, _, before = _written(tmp_path, layout)
    member = read_member(path, f"{before}pos/x")

    assert member.dtype == np.float64
    assert member.tolist() == PEOPLE["pos"]["x"].tolist()


@pytest.mark.parametrize("layout", FORMATS)
@pytest.mark.parametrize("act", ["rows", "describe", "load"])
def test_a_field_that_is_not_there_is_reported_with_the_nearest(tmp_path, layout, act):
    path, kind, before = _written(tmp_path, layout)
    acts = {
        "rows": lambda member: open_rows(kind, path, [member]),
        "describe": lambda member: describe(path, member),
        "load": lambda member: read_member(path, member),
    }
    with pytest.raises(EnvironmentFaultError) as caught:
        acts[act](f"{before}pos/z")
    (fault,) = caught.value.faults

    assert fault.code == "E281"
    assert f"{before}pos/" in fault.mend


def test_fields_and_whole_members_are_read_together(tmp_path):
    path, kind, _ = _written(tmp_path, "npz")
    rows = open_rows(kind, path, ["age", "all/people/id"])

    assert [column.tolist() for column in rows.take(0, 3)] == [[0, 1, 2], [0, 1, 2]]
    rows.close()


def test_arrays_in_memory_are_rows_too():
    rows = ArrayRows("r", (np.arange(6).reshape(3, 2),), ("x",))

    assert rows.take(1, 3)[0].tolist() == [[2, 3], [4, 5]]
    assert rows.pick(np.array([2, 0]))[0].tolist() == [[4, 5], [0, 1]]


@pytest.mark.parametrize("read", ["take", "pick"])
def test_a_file_that_is_cut_short_while_it_is_open_is_reported(tmp_path, read):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10_000))
    rows = open_rows("npy", str(path), ("",))
    os.truncate(path, 5000)

    action = (
        (lambda: rows.take(0, 10_000)) if read == "take" else (lambda: rows.pick(np.array([9_999])))
    )
    with pytest.raises(JobrunError) as caught:
        action()
    assert caught.value.faults[0].code == "E282"
    rows.close()


@pytest.mark.long
def test_rows_of_a_large_file_take_no_memory_of_its_size(tmp_path):
    path = tmp_path / "a.npy"
    count, width = 1 << 19, 128
    # Sparse: half a GiB that the disk need not have.
    np.lib.format.open_memmap(path, "w+", np.float64, (count, width)).flush()
    rows = ArrayRows(str(path), (Extent("", np.dtype(np.float64), (count, width), 128),))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    for start in range(0, count, 4096):
        rows.take(start, start + 4096)
        rows.pick(np.arange(start, start + 4096, 17))

    rows.close()
    grown_bytes = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown_bytes < count * width * 8 // 4


@pytest.mark.parametrize("dtype", ["<f8", ">i2", "<U3", "?"])
def test_rows_that_are_read_one_by_one_are_those_of_the_member(tmp_path, monkeypatch, dtype):
    monkeypatch.setattr(rows_module, "_MAPPED_BYTES", 0)
    x = np.arange(300).reshape(100, 3).astype(dtype)
    np.savez(tmp_path / "a.npz", x=x, flat=x[:, 0])
    rows = open_rows("npz", str(tmp_path / "a.npz"), ("x", "flat"))
    wanted = np.random.default_rng(0).integers(0, 100, 40)

    actual, flat = rows.pick(wanted)

    assert actual.dtype == x.dtype
    assert np.array_equal(actual, x[wanted])
    assert np.array_equal(flat, x[wanted, 0])
    rows.close()
