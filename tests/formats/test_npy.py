from __future__ import annotations

import io
import os
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.formats import npy as row_arrays
from jobrun.formats.npy import read_npy, read_npz, write_npy, write_npz
from jobrun.formats.rows import open_rows

ARRAYS = arrays.arrays(
    arrays.scalar_dtypes() | arrays.nested_dtypes(arrays.integer_dtypes(), max_leaves=3),
    arrays.array_shapes(min_dims=0, min_side=0),
)


def code_of(action, *args) -> str:
    with pytest.raises(EnvironmentFaultError) as caught:
        action(*args)
    return caught.value.faults[0].code


@given(ARRAYS)
def test_arrays_round_trip(tmp_path_factory, array):
    folder = tmp_path_factory.mktemp("arrays")
    with (folder / "x.npy").open("wb") as file:
        write_npy(file, array)
    with (folder / "x.npz").open("wb") as file:
        write_npz(file, {"a/b": array, "c": np.zeros(3)})

    for back in (read_npy(str(folder / "x.npy")), read_npz(str(folder / "x.npz"), "a/b")):
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        assert back.tobytes() == array.tobytes()
        assert back.flags.writeable


def test_numpy_reads_what_is_written(tmp_path):
    with (tmp_path / "x.npz").open("wb") as file:
        write_npz(file, {"file": np.arange(3), "b": np.float32(1)})

    with np.load(tmp_path / "x.npz") as back:
        assert back["file"].tolist() == [0, 1, 2]
        assert back["b"].dtype == np.float32


def test_equal_arrays_give_equal_bytes():
    first, second = io.BytesIO(), io.BytesIO()

    for stream in (first, second):
        write_npz(stream, {"a": np.arange(5)})

    assert first.getvalue() == second.getvalue()


def test_compressed_files_are_read(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", a=np.zeros(10_000))

    assert read_npz(str(tmp_path / "x.npz"), "").shape == (10_000,)


def test_every_truncation_is_reported(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(20))
    data = path.read_bytes()

    for length in range(len(data)):
        path.write_bytes(data[:length])
        assert code_of(read_npy, str(path)) == "E282"


def test_a_damaged_zip_file_is_reported(tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, a=np.arange(1000))
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)

    assert code_of(read_npz, str(path), "a") == "E282"

    path.write_bytes(data[:3000])
    assert code_of(read_npz, str(path), "a") == "E282"


def test_a_header_that_promises_terabytes_asks_for_no_memory(tmp_path):
    path = tmp_path / "x.npy"
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776,)}"
    data = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header
    path.write_bytes(data)
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", data)

    assert code_of(read_npy, str(path)) == "E282"
    assert code_of(read_npz, str(tmp_path / "x.npz"), "a") == "E282"


def test_python_objects_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([None]), allow_pickle=True)
    np.savez(tmp_path / "x.npz", a=np.array([None]))

    assert code_of(read_npy, str(tmp_path / "x.npy")) == "E284"
    assert code_of(read_npz, str(tmp_path / "x.npz"), "a") == "E284"


def _code(action):
    with pytest.raises(JobrunError) as caught:
        action()
    return caught.value.faults[0].code


def test_a_single_value_has_no_rows(tmp_path):
    np.save(tmp_path / "a.npy", np.float64(3))

    assert _code(lambda: open_rows("npy", str(tmp_path / "a.npy"), ("",))) == "E288"


def test_members_of_different_lengths_are_refused(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(3), y=np.arange(4))

    assert _code(lambda: open_rows("npz", str(tmp_path / "a.npz"), ("x", "y"))) == "E288"


def test_a_compressed_member_is_refused_where_it_would_take_too_much(tmp_path, monkeypatch):
    monkeypatch.setattr(row_arrays, "MOST_COMPRESSED_BYTES", 100)
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros(1000))

    assert _code(lambda: open_rows("npz", str(tmp_path / "a.npz"), ("x",))) == "E289"


def test_python_objects_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], object))

    assert _code(lambda: open_rows("npy", str(tmp_path / "a.npy"), ("",))) == "E284"


def test_a_file_that_was_cut_short_is_reported_when_it_is_opened(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.arange(10_000))
    os.truncate(path, 5000)

    assert _code(lambda: open_rows("npy", str(path), ("",))) == "E282"
