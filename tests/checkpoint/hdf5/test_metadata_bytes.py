from __future__ import annotations

import io

import h5py
import numpy as np
import pytest
from h5py import h5t

from jobrun.checkpoint.hdf5 import metadata_bytes as h5parts
from tests.support.tables import each_case


def file_of(links, node_k=h5parts.SMALL_K) -> io.BytesIO:
    """A file whose root group has links to one dataset, under many names."""
    datatype = h5t.py_create(np.dtype("<i4")).encode()[2:]
    attributes = h5parts.render_text_attribute("kind", "größe")
    header, at = h5parts.render_dataset_header(
        (3,), datatype, h5parts.render_contiguous_layout(12), attributes
    )
    dataset_at = h5parts.SUPERBLOCK_SIZE
    data_at = dataset_at + h5parts.header_size(header)
    root_at = data_at + 16
    rows = h5parts.render_headers(header, at, np.array([data_at], np.uint64))
    root = h5parts.render_group([(name, dataset_at) for name in links], root_at, node_k)
    end = 4096 + root_at + len(root)
    parts = [
        bytes(4096), h5parts.render_superblock(end, root_at, node_k), rows.tobytes(),
        np.array([1, 2, 3], "<i4").tobytes() + bytes(4), root,
    ]  # fmt: skip
    return io.BytesIO(b"".join(parts))


@each_case("node_k", [h5parts.SMALL_K, h5parts.LARGE_K])
@each_case("count", [0, 1, 8, 9, 255, 257, 2_500])
def test_libhdf5_finds_every_link_of_a_group(count, node_k):
    # 257 and 2,500 need two and three levels of small nodes.
    names = [f"n{number:05d}".encode() for number in range(count)]

    with h5py.File(file_of(names, node_k), "r") as file:
        assert list(file) == [name.decode() for name in names]
        for name in names[:: max(1, count // 20)]:
            assert file[name][()].tolist() == [1, 2, 3]
        assert b"missing" not in file


def test_an_attribute_in_utf8_is_read():
    with h5py.File(file_of([b"w"]), "r") as file:
        assert file["w"].attrs["kind"].decode() == "größe"


def test_a_name_may_be_very_long():
    name = b"x" * 70_000

    with h5py.File(file_of([name]), "r") as file:
        assert list(file) == [name.decode()]


def test_a_header_that_was_damaged_is_noticed_by_libhdf5():
    data = bytearray(file_of([b"w"]).getvalue())
    offset = data.index(b"kind\0")
    data[offset] ^= 1

    with h5py.File(io.BytesIO(data), "r") as file, pytest.raises(KeyError, match="checksum"):
        file["w"]


def test_value_too_long_for_a_header_message_is_refused():
    with pytest.raises(ValueError, match="too long"):
        h5parts.render_message(3, bytes(70_000))


@pytest.mark.parametrize("chunks", [1, 63, 64, 65, 5_000])
def test_libhdf5_finds_every_chunk(chunks):
    datatype = h5t.py_create(np.dtype("<u2")).encode()[2:]
    storage = h5parts.render_chunked_layout(
        (1, 4), 2, h5parts.render_filter_pipeline([(1, "", (1,))])
    )
    header, at = h5parts.render_dataset_header((chunks, 3), datatype, storage, b"")
    import zlib  # noqa: PLC0415

    stored = [zlib.compress(np.array([n, 1, 2, 0], "<u2").tobytes()) for n in range(chunks)]
    dataset_at = h5parts.SUPERBLOCK_SIZE
    position = dataset_at + h5parts.header_size(header)
    places = []
    for chunk in stored:
        places.append((position, len(chunk)))
        position += len(chunk)
    tree_at = -(-position // 8) * 8
    tree, root_of_tree = h5parts.render_chunk_tree((chunks, 3), (1, 4), places, tree_at)
    root_at = tree_at + len(tree)
    root = h5parts.render_group([(b"w", dataset_at)], root_at, h5parts.SMALL_K)
    rows = h5parts.render_headers(header, at, np.array([root_of_tree], np.uint64))
    end = 4096 + root_at + len(root)
    parts = [
        bytes(4096), h5parts.render_superblock(end, root_at, h5parts.SMALL_K), rows.tobytes(),
        b"".join(stored), bytes(tree_at - position), tree, root,
    ]  # fmt: skip

    with h5py.File(io.BytesIO(b"".join(parts)), "r") as file:
        assert file["w"][()].tolist() == [[n, 1, 2] for n in range(chunks)]
