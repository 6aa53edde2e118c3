"""Tests of ``formats.row_fields``, and of fields inside records in every format that has them."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats.headers import describe
from jobrun.formats.load_save import read_member
from jobrun.formats.rows.open_rows import open_rows

PEOPLE = np.zeros(7, [("id", "<i8"), ("pos", [("x", "<f8"), ("y", "<f4", (2,))])])
PEOPLE["id"] = np.arange(7)
PEOPLE["pos"]["x"] = np.arange(7) * 0.5
PEOPLE["pos"]["y"] = np.arange(14).reshape(7, 2)
FORMATS = ["npy", "npz", "hdf5", "chunked"]


def _written(folder, form):
    """The path, the format and what stands before the fields' names."""
    if form == "npy":
        np.save(folder / "a.npy", PEOPLE)
        return str(folder / "a.npy"), "npy", ""
    if form == "npz":
        np.savez(folder / "a.npz", **{"all/people": PEOPLE, "age": np.arange(7)})
        return str(folder / "a.npz"), "npz", "all/people/"
    with h5py.File(folder / "a.h5", "w") as file:
        chunks = (2,) if form == "chunked" else None
        file.create_dataset("all/people", data=PEOPLE, chunks=chunks)
        file["age"] = np.arange(7)
    return str(folder / "a.h5"), "hdf5", "all/people/"


@pytest.mark.parametrize("form", FORMATS)
def test_rows_of_fields_are_those_of_the_records(tmp_path, form):
    path, kind, before = _written(tmp_path, form)
    rows = open_rows(kind, path, [f"{before}pos/y", f"{before}id"])
    order = np.array([5, 0, 5, 2])
    ordered, picked = rows.take(2, 5), rows.pick(order)
    rows.close()

    assert [(one.dtype.str, one.shape) for one in rows.columns] == [("<f4", (2,)), ("<i8", ())]
    for found, at in ((ordered, slice(2, 5)), (picked, order)):
        for column, wanted in zip(found, (PEOPLE["pos"]["y"], PEOPLE["id"]), strict=True):
            assert column.dtype == wanted.dtype
            assert column.flags.c_contiguous
            assert column.flags.owndata
            assert column.tobytes() == wanted[at].tobytes()


@pytest.mark.parametrize("form", FORMATS)
def test_headers_tell_dtype_and_shape_of_a_field(tmp_path, form):
    path, _, before = _written(tmp_path, form)
    found = describe(path, f"{before}pos/y")

    assert (found.dtype, found.shape) == ("<f4", (7, 2))


@pytest.mark.parametrize("form", FORMATS)
def test_a_field_can_be_loaded(tmp_path, form):
    path, _, before = _written(tmp_path, form)
    found = read_member(path, f"{before}pos/x")

    assert found.dtype == np.float64
    assert found.tolist() == PEOPLE["pos"]["x"].tolist()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("act", ["rows", "describe", "load"])
def test_a_field_that_is_not_there_is_told_with_the_nearest(tmp_path, form, act):
    path, kind, before = _written(tmp_path, form)
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


def test_fields_stand_beside_whole_members(tmp_path):
    path, kind, _ = _written(tmp_path, "npz")
    rows = open_rows(kind, path, ["age", "all/people/id"])

    assert [one.tolist() for one in rows.take(0, 3)] == [[0, 1, 2], [0, 1, 2]]
    rows.close()
