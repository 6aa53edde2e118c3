from __future__ import annotations

import h5py
import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.formats.rows.arrays import ArrayRows
from jobrun.formats.rows.open_rows import open_rows


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


def test_datasets_of_different_lengths_and_single_values_are_told(tmp_path):
    path = _file(tmp_path, x=(np.arange(4), {"chunks": (2,)}), y=(np.arange(5), {}), s=(1.0, {}))

    for members in (("x", "y"), ("x", "s"), ("s",)):
        with pytest.raises(JobrunError) as caught:
            open_rows("hdf5", path, members)
        assert caught.value.faults[0].code == "E288"


def test_items_without_a_fixed_length_are_told(tmp_path):
    path = _file(tmp_path, t=(["a", "bc"], {"dtype": h5py.string_dtype()}))

    with pytest.raises(JobrunError, match="no fixed length"):
        open_rows("hdf5", path, ("t",))


def test_what_leads_elsewhere_is_not_followed(tmp_path):
    path = _file(tmp_path, x=(np.arange(4), {}))
    with h5py.File(path, "a") as file:
        file["link"] = h5py.SoftLink("/x")

    with pytest.raises(JobrunError) as caught:
        open_rows("hdf5", path, ("link",))
    assert caught.value.faults[0].code == "E287"
