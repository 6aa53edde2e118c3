from __future__ import annotations

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from jobrun.core.errors import EnvironmentFaultError, JobrunError, TaskFailedError
from jobrun.formats.hdf5 import members, read, render_hdf5
from jobrun.formats.rows import ArrayRows, open_rows

PLAIN = arrays.arrays(
    arrays.boolean_dtypes()
    | arrays.integer_dtypes()
    | arrays.floating_dtypes(sizes=(32, 64))
    | arrays.complex_number_dtypes(sizes=(64, 128)),
    arrays.array_shapes(min_dims=0, min_side=0),
)
NAMES = st.from_regex(r"[a-z]{1,4}", fullmatch=True)


def create_file(folder, make):
    with h5py.File(folder / "x.h5", "w") as file:
        make(file)
    return str(folder / "x.h5")


def code_of(path, member) -> str:
    with pytest.raises(EnvironmentFaultError) as caught:
        read(path, member)
    (fault,) = caught.value.faults
    assert fault.mend
    return fault.code


@given(st.dictionaries(NAMES.map(lambda name: f"/g/{name}"), PLAIN, min_size=1, max_size=3))
def test_arrays_round_trip(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("hdf5") / "x.h5"
    path.write_bytes(render_hdf5(values, str(path)))

    for name, value in values.items():
        back = read(str(path), name)
        assert back.dtype == value.dtype
        assert back.shape == value.shape
        assert back.tobytes() == value.tobytes()
        assert back.flags.owndata


def test_text_round_trips(tmp_path):
    path = tmp_path / "x.h5"
    path.write_bytes(render_hdf5({"a": np.array(["ü", "abc"]), "b": np.array("€")}, "x.h5"))

    assert read(str(path), "a").tolist() == ["ü", "abc"]
    assert read(str(path), "b")[()] == "€"


def test_text_that_others_wrote_is_read(tmp_path):
    path = create_file(
        tmp_path, lambda file: file.update({"s": "word"}) or file.update({"v": ["a", "bc"]})
    )

    assert read(path, "s")[()] == "word"
    assert read(path, "v").tolist() == ["a", "bc"]


def test_groups_chunks_and_filters_are_read(tmp_path):
    data = np.arange(1000.0).reshape(10, 100)
    path = create_file(
        tmp_path,
        lambda file: file.create_dataset(
            "a/b/c", data=data, chunks=(5, 50), compression="gzip", shuffle=True
        ),
    )

    assert np.array_equal(read(path, "/a/b/c"), data)
    assert np.array_equal(read(path, "a/b/c"), data)
    assert np.array_equal(read(path, ""), data)


def test_members_are_listed_and_circles_of_groups_end(tmp_path):
    def make(file):
        file["a/x"] = 1
        file["a/circle"] = file["/"]
        file["y"] = 2
        file["soft"] = h5py.SoftLink("/y")

    assert members(create_file(tmp_path, make)) == ("/y", "/a/x")


@pytest.mark.parametrize("member", ["b", "a/b", "x/y", "a", "/"])
def test_a_missing_member_is_reported(tmp_path, member):
    path = create_file(tmp_path, lambda file: file.update({"a/x": 1}) or file.update({"x": 1}))

    assert code_of(path, member) == "E281"


def soft(file):
    file["real"] = 1
    file["m"] = h5py.SoftLink("/real")


def soft_group(file):
    file["real/n"] = 1
    file["m"] = h5py.SoftLink("/real")


def external(file):
    file["m"] = h5py.ExternalLink("/etc/passwd", "/x")


def external_storage(file):
    file.create_dataset("m", (6,), "<u1", external=[("/etc/passwd", 0, 6)])


def virtual(file):
    layout = h5py.VirtualLayout((6,), "<f8")
    layout[:] = h5py.VirtualSource("/etc/passwd", "x", (6,))
    file.create_virtual_dataset("m", layout)


def endless(file):
    file.create_dataset("m", (1 << 40,), "<f8", chunks=(1 << 20,))


def references(file):
    file.create_dataset("m", (2,), dtype=h5py.ref_dtype)


def sequences(file):
    file.create_dataset("m", (2,), dtype=h5py.vlen_dtype(np.float64))


@pytest.mark.parametrize(
    "make", [soft, external, external_storage, virtual, endless, references, sequences]
)
def test_links_and_external_data_are_refused(tmp_path, make):
    assert code_of(create_file(tmp_path, make), "m") == "E287"


def test_a_link_on_the_way_is_refused(tmp_path):
    assert code_of(create_file(tmp_path, soft_group), "m/n") == "E287"


@pytest.mark.parametrize("length", [0, 8, 500, 1500])
def test_a_damaged_file_is_reported(tmp_path, length):
    path = tmp_path / "x.h5"
    path.write_bytes(bytes(render_hdf5({"a": np.arange(1000)}, "x.h5"))[:length])

    assert code_of(str(path), "a") == "E282"


@pytest.mark.parametrize(
    "values",
    [
        {"a": np.zeros(2, "M8[s]")},
        {"a": np.zeros(2), "a/b": np.zeros(2)},
        {"a": np.array([None])},
    ],
)
def test_a_value_that_hdf5_cannot_hold_is_not_written(values):
    with pytest.raises(TaskFailedError, match=r"x\.h5"):
        render_hdf5(values, "x.h5")


def _file(folder, **datasets):
    with h5py.File(folder / "a.h5", "w") as file:
        for name, (data, more) in datasets.items():
            file.create_dataset(name, data=data, **more)
    return str(folder / "a.h5")


def test_a_dataset_in_one_piece_is_read_without_libhdf5(tmp_path):
    path = _file(tmp_path, x=(np.arange(9), {}), c=(np.arange(9), {"chunks": (3,)}))

    assert isinstance(open_rows("hdf5", path, ("x",)), ArrayRows)
    chunked = open_rows("hdf5", path, ("x", "c"))
    assert not isinstance(chunked, ArrayRows)
    assert chunked.pick(np.array([8, 0, 8]))[1].tolist() == [8, 0, 8]
    chunked.close()


def test_a_dataset_of_another_byte_order_keeps_it(tmp_path):
    data = np.arange(4, dtype=">f8")
    rows = open_rows("hdf5", _file(tmp_path, x=(data, {})), ("x",))

    assert rows.take(1, 3)[0].dtype == data.dtype
    assert rows.take(1, 3)[0].tolist() == [1.0, 2.0]


def test_datasets_of_different_lengths_and_single_values_are_reported(tmp_path):
    path = _file(tmp_path, x=(np.arange(4), {"chunks": (2,)}), y=(np.arange(5), {}), s=(1.0, {}))

    for wanted in (("x", "y"), ("x", "s"), ("s",)):
        with pytest.raises(JobrunError) as caught:
            open_rows("hdf5", path, wanted)
        assert caught.value.faults[0].code == "E288"


def test_items_without_a_fixed_length_are_reported(tmp_path):
    path = _file(tmp_path, t=(["a", "bc"], {"dtype": h5py.string_dtype()}))

    with pytest.raises(JobrunError, match="no fixed length"):
        open_rows("hdf5", path, ("t",))


def test_links_are_not_followed(tmp_path):
    path = _file(tmp_path, x=(np.arange(4), {}))
    with h5py.File(path, "a") as file:
        file["link"] = h5py.SoftLink("/x")

    with pytest.raises(JobrunError) as caught:
        open_rows("hdf5", path, ("link",))
    assert caught.value.faults[0].code == "E287"
