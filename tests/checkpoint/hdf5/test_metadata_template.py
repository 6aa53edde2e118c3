from __future__ import annotations

import io

import h5py
import numpy as np
import pytest

from jobrun.checkpoint.hdf5.file_layout import Layout, build_entries
from jobrun.checkpoint.hdf5.metadata_template import Offsets, Template
from jobrun.checkpoint.hdf5.value_codec import encode
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import TaskFailedError
from tests.support.checkpoints import VALUES, write


def test_metadata_of_one_layout_differ_in_addresses_only():
    layout = Layout.of(build_entries({"w": encode(np.zeros(3), "w"), "k": encode(1, "k")}))
    template = Template(layout, 1)
    places = [
        Offsets(np.array([at, at + 16], np.uint64), at + 48, 1, 1, at + 88) for at in (9008, 9024)
    ]

    first, second = (template.render(offsets) for offsets in places)

    assert first.size == second.size == template.size_bytes - 4096
    assert 0 < np.count_nonzero(first != second) < 80


def test_each_blob_is_one_contiguous_dataset_with_attributes(tmp_path):
    write(tmp_path, {"w": np.arange(3.0, dtype=">f4"), "readers/t": 4})

    with h5py.File(tmp_path / "n.h5") as file:
        dataset = file["blobs/w"]
        assert dataset.id.get_create_plist().get_layout() == h5py.h5d.CONTIGUOUS
        assert dict(dataset.attrs) == {"kind": b"array", "dtype": b">f4", "role": b"state"}
        assert dataset.dtype == np.dtype(">f4")
        assert file["blobs/readers%2Ft"].attrs["role"] == b"reader"


def test_origin_of_a_blob_is_an_attribute(tmp_path):
    writer = NodeWriter("n", origins={"w": "init/make/steps[0]", "gone": "x"})
    writer.write(str(tmp_path / "n.h5"), epoch=1, run_id="r", values={"w": np.zeros(3), "k": 1})

    with h5py.File(tmp_path / "n.h5") as file:
        assert file["blobs/w"].attrs["origin"] == b"init/make/steps[0]"
        assert "origin" not in file["blobs/k"].attrs


def test_no_attribute_depends_on_the_epoch(tmp_path):
    for epoch in (1, 2):
        (tmp_path / str(epoch)).mkdir()
        write(tmp_path / str(epoch), {"w": np.arange(3.0) + epoch}, epoch=epoch)

    with h5py.File(tmp_path / "1/n.h5") as first, h5py.File(tmp_path / "2/n.h5") as second:
        assert (int(first["_ck/epoch"][()]), int(second["_ck/epoch"][()])) == (1, 2)
        for item in ("/", "blobs", "blobs/w", "_ck", "_ck/epoch"):
            assert dict(first[item].attrs) == dict(second[item].attrs)


def test_h5py_reads_every_stored_value(tmp_path):
    write(tmp_path, VALUES)

    with h5py.File(tmp_path / "n.h5") as file:
        from jobrun.checkpoint.hdf5.dataset_names import quote_name  # noqa: PLC0415

        assert len(file["blobs"]) == len(VALUES)
        for name, value in VALUES.items():
            stored = encode(value, name).array
            back = np.zeros(stored.shape, stored.dtype)
            dataset = file["blobs"][quote_name(name)]
            if back.size:
                dataset.id.read(h5py.h5s.ALL, h5py.h5s.ALL, back, h5py.h5t.py_create(stored.dtype))
            assert (dataset.shape, back.tobytes()) == (stored.shape, stored.tobytes())


def test_h5py_can_edit_a_file(tmp_path):
    write(tmp_path, {"w": np.arange(3.0)})
    data = io.BytesIO((tmp_path / "n.h5").read_bytes())

    with h5py.File(data, "r+") as file:
        file["blobs/w"][1] = 9
        file["more"] = np.arange(4)
    with h5py.File(data, "r") as file:
        assert file["blobs/w"][()].tolist() == [0, 9, 2]


def test_a_dtype_that_hdf5_cannot_hold_is_refused_by_name(tmp_path):
    wide = np.zeros(1, [(f"field_{number:05d}", "i1") for number in range(5000)])

    with pytest.raises(TaskFailedError, match="'x'"):
        write(tmp_path, {"x": wide})

    assert list(tmp_path.iterdir()) == []


def test_text_and_bytes_of_one_width_keep_their_encodings(tmp_path):
    values = {"bytes": np.array([b"abc"], "S20"), "text": np.array(["abc"], "U5")}
    for names in (["bytes", "text"], ["text", "bytes"]):
        for name in names:
            (tmp_path / "-".join([*names, name])).mkdir()
            write(tmp_path / "-".join([*names, name]), {name: values[name]})

    for name in values:
        first, second = (
            (tmp_path / f"{order}-{name}" / "n.h5").read_bytes()
            for order in ("bytes-text", "text-bytes")
        )
        assert first == second
        with h5py.File(tmp_path / f"text-bytes-{name}" / "n.h5") as file:
            charset = file["blobs"][name].id.get_type().get_cset()
        assert charset == (h5py.h5t.CSET_UTF8 if name == "text" else h5py.h5t.CSET_ASCII)
