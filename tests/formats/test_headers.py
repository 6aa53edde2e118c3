from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra import numpy as arrays

from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats.headers import MemberInfo, describe, members
from jobrun.formats.npy_header import read_npy_header


def fault_of(action, *args):
    with pytest.raises(EnvironmentFaultError) as caught:
        action(*args)
    (fault,) = caught.value.faults
    assert fault.mend
    return fault


def test_numpy_is_not_needed(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros((2, 3), np.float32))
    np.save(tmp_path / "x.npy", np.zeros(4, "<U3"))
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    program = (
        "import sys; sys.modules['numpy'] = None\n"
        "from jobrun.formats.headers import describe\n"
        "for member in (('x.npz', 'a'), ('x.npy', ''), ('x.csv', 'b')):\n"
        "    print(describe(sys.argv[1] + '/' + member[0], member[1]))\n"
    )

    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent.parent.parent,
    )

    assert done.stdout.splitlines() == [
        "MemberInfo(dtype='<f4', shape=(2, 3))",
        "MemberInfo(dtype='<U3', shape=(4,))",
        "MemberInfo(dtype='', shape=())",
    ]


@given(arrays.arrays(arrays.scalar_dtypes(), arrays.array_shapes(min_dims=0, min_side=0)))
def test_a_header_says_what_numpy_wrote(array):
    for version in ((1, 0), (2, 0), (3, 0)):
        stream = io.BytesIO()
        np.lib.format.write_array(stream, array, version=version)
        stream.seek(0)

        header = read_npy_header(stream, "x")

        assert (header.dtype, header.shape) == (array.dtype.str, array.shape)
        assert header.size + array.nbytes == len(stream.getvalue())
        assert not header.objects


def test_a_record_is_described_by_its_fields(tmp_path):
    array = np.zeros(2, [("a", "<f8"), ("b", "<i4", (3,))])
    np.save(tmp_path / "x.npy", array)

    assert describe(str(tmp_path / "x.npy")).dtype == repr(array.dtype.descr)


def test_members_are_listed(tmp_path):
    np.savez(tmp_path / "x.npz", b=1, a=2)
    np.save(tmp_path / "x.npy", 1)
    (tmp_path / "named.csv").write_text("x, y\n1,2\n")
    (tmp_path / "bare.tsv").write_text("1\t2\n")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["g/a"] = [1, 2]

    assert members(str(tmp_path / "x.npz")) == ("b", "a")
    assert members(str(tmp_path / "x.npy")) == ()
    assert members(str(tmp_path / "named.csv")) == ("x", "y")
    assert members(str(tmp_path / "bare.tsv")) == ()
    assert members(str(tmp_path / "x.h5")) == ("/g/a",)


def test_an_hdf5_dataset_is_described(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["g/a"] = np.zeros((2, 3), ">f4")

    assert describe(str(tmp_path / "x.h5"), "/g/a") == MemberInfo(">f4", (2, 3))


def test_the_only_member_need_not_be_named(tmp_path):
    np.savez(tmp_path / "x.npz", a=np.zeros(3))

    assert describe(str(tmp_path / "x.npz")) == MemberInfo("<f8", (3,))


def test_a_missing_file_is_reported_with_the_nearest(tmp_path):
    np.save(tmp_path / "digits.npy", 1)

    fault = fault_of(describe, str(tmp_path / "digit.npy"))

    assert fault.code == "E280"
    assert "digits.npy" in fault.mend


@pytest.mark.parametrize("name", ["x.npz", "x.csv", "x.h5"])
def test_a_missing_member_is_reported_with_the_nearest(tmp_path, name):
    np.savez(tmp_path / "x.npz", target=1, data=2)
    (tmp_path / "x.csv").write_text("target,data\n1,2\n")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["target"] = file["data"] = 1

    fault = fault_of(describe, str(tmp_path / name), "targe")

    assert fault.code == "E281"
    assert "target" in fault.mend


@pytest.mark.parametrize("name", ["x.npz", "x.h5"])
def test_one_of_several_members_must_be_named(tmp_path, name):
    np.savez(tmp_path / "x.npz", a=1, b=2)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["a"] = file["b"] = 1

    fault = fault_of(describe, str(tmp_path / name))

    assert fault.code == "E281"
    assert "::" in fault.mend


def test_an_npy_file_has_no_members(tmp_path):
    np.save(tmp_path / "x.npy", 1)

    assert fault_of(describe, str(tmp_path / "x.npy"), "a").code == "E281"


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.h5"])
@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"\x93NUMPY\x01\0\xff\xff{", b"PK\x03\x04"])
def test_a_file_with_content_of_another_format_is_reported(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content if name != "x.csv" else b"\xff\xfe" + content)

    assert fault_of(describe, str(path)).code == "E282"


@pytest.mark.parametrize(
    "header",
    [
        b"{}", b"[]", b"{'descr': '<f8'}", b"__import__('os')", b"(" * 5000,
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': ('a',)}",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': 3}",
        b"{'descr': 3, 'fortran_order': False, 'shape': ()}",
    ],
)  # fmt: skip
def test_a_damaged_npy_header_is_reported(tmp_path, header):
    data = b"\x93NUMPY\x01\0" + len(header).to_bytes(2, "little") + header
    (tmp_path / "x.npy").write_bytes(data)

    assert fault_of(describe, str(tmp_path / "x.npy")).code == "E282"


@pytest.mark.parametrize("array", [np.array([None]), np.zeros(2, [("a", "f8"), ("b", object)])])
def test_python_objects_are_refused(tmp_path, array):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "x.npz", a=array)

    assert fault_of(describe, str(tmp_path / "x.npy")).code == "E284"
    assert fault_of(describe, str(tmp_path / "x.npz"), "a").code == "E284"


def test_a_damaged_member_of_a_zip_file_is_reported(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", b"not npy")
        archive.writestr("readme.txt", b"text")

    assert members(str(tmp_path / "x.npz")) == ("a",)
    assert fault_of(describe, str(tmp_path / "x.npz"), "a").code == "E282"


@pytest.mark.parametrize("name", ["x.pkl", "x"])
def test_an_unknown_ending_is_reported(tmp_path, name):
    (tmp_path / name).write_text("")

    assert fault_of(describe, str(tmp_path / name)).code == "E283"
    assert fault_of(members, str(tmp_path / name)).code == "E283"


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.h5"])
def test_a_pipe_is_refused_without_waiting(tmp_path, name):
    os.mkfifo(tmp_path / name)

    assert fault_of(describe, str(tmp_path / name)).code == "E282"


def test_columns_are_chosen_by_name_or_by_place(tmp_path):
    (tmp_path / "named.csv").write_text('"a,b",c\n1,2\n')
    (tmp_path / "bare.csv").write_text("1,2\n3,4\n")

    for name, member in (("named", "a,b"), ("named", "c"), ("bare", "1"), ("bare", "0,1")):
        describe(str(tmp_path / f"{name}.csv"), member)

    assert fault_of(describe, str(tmp_path / "named.csv"), "a").code == "E281"
    assert fault_of(describe, str(tmp_path / "bare.csv"), "2").code == "E281"
