"""The page about the checkpoint format is enough to write a reader from."""

from __future__ import annotations

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import xxhash

from tests.support.command import jobrun
from tests.support.stored_runs import epochs, only_run

SPEC = """\
jobrun: 1
name: page
seed: 3
init:
  - task: start
    steps:
      - w = rng.normal(size=(3, 50000))
      - n = 3
      - small = float32(0.1)
      - x = arange(7)
      - turned = reshape(arange(24), (2, 3, 4)).T
epoch: [{task: step, steps: ["w *= 0.5", n = n + 1]}]
stop: [{epochs: 2}]
"""
# Of the page: the user block and the blocks that have a digest, in bytes.
USER_BLOCK, BLOCK = 4096, 262144


def padded(size: int) -> int:
    return -(-size // 8) * 8


def read_file(path: Path) -> dict[str, Any]:
    """Read all blobs of one node, after comparing every byte with its digest, by the page alone.

    It knows arrays and numbers that are not compressed; it uses nothing of jobrun, and no HDF5.
    """
    data = path.read_bytes()
    block = data[:USER_BLOCK]
    assert hashlib.sha256(block[:-32]).digest() == block[-32:]
    title, _, remaining = block[:-32].partition(b"\n")
    assert title == b"jobrun checkpoint"
    head = json.loads(remaining.partition(b"\n")[0].rstrip(b"\0"))
    assert len(data) == USER_BLOCK + head["length"]
    parts = head["parts"]
    tail = data[parts["tail"] :]
    assert "sha256:" + hashlib.sha256(tail).hexdigest() == head["digest"]
    digests = tail[-16 * parts["blocks"] :]
    between = data[USER_BLOCK : parts["tail"]]
    for n in range(parts["blocks"]):
        actual = xxhash.xxh3_128_digest(between[n * BLOCK : (n + 1) * BLOCK])
        assert actual == digests[16 * n : 16 * n + 16]
    at = parts["index"]
    types = json.loads(data[at : at + parts["layout_bytes"]].rstrip(b"\0"))["types"]
    at += padded(parts["layout_bytes"])
    names = data[at : at + parts["names_bytes"]].rstrip(b"\0").decode().split("\n")
    at += padded(parts["names_bytes"])
    values = {}
    for name, row in zip(
        names, struct.iter_unpack("<3Q", data[at:][: 24 * len(names)]), strict=True
    ):
        kind, dtype, shape, *order = types[row[0]]
        value = np.frombuffer(data[row[1] : row[1] + row[2]], dtype).reshape(shape)
        for axes in order:
            # From the slowest axis to the fastest one.
            dense = np.ascontiguousarray(value.transpose(axes))
            value = dense.transpose([axes.index(axis) for axis in range(len(axes))])
        values[name] = value if kind in {"array", "numpy"} else value.item()
    return values


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.yaml").write_text(SPEC)
    done = jobrun("run", "page.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = epochs(only_run(folder / "runs"))[2].glob("*.h5")
    return path


def test_a_reader_written_from_the_page_finds_what_hdf5_finds(file):
    actual = read_file(file)
    assert (actual["n"], sorted(actual)) == (5, ["n", "small", "turned", "w", "x"])
    with h5py.File(file) as stored:
        for name in ("small", "turned", "w", "x"):
            wanted = stored["blobs"][name][()]
            assert actual[name].dtype == wanted.dtype
            assert actual[name].shape == wanted.shape
            assert actual[name].tobytes() == np.asarray(wanted).tobytes()
    assert actual["turned"].flags.f_contiguous


@pytest.mark.parametrize("position", [100, 5000, 300_000, -1])
def test_it_refuses_a_file_of_which_one_bit_differs(file, tmp_path, position):
    data = bytearray(file.read_bytes())
    data[position] ^= 1
    (tmp_path / "bad.h5").write_bytes(data)
    with pytest.raises(AssertionError):
        read_file(tmp_path / "bad.h5")
