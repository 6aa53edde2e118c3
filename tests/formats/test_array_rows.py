from __future__ import annotations

import os
import resource

import numpy as np
import pytest

from jobrun.core.errors import JobrunError
from jobrun.formats import array_rows
from jobrun.formats.array_rows import ArrayRows, Extent
from jobrun.formats.rows import open_rows


def test_arrays_in_memory_are_rows_too():
    rows = ArrayRows("r", (np.arange(6).reshape(3, 2),), ("x",))

    assert rows.take(1, 3)[0].tolist() == [[2, 3], [4, 5]]
    assert rows.pick(np.array([2, 0]))[0].tolist() == [[4, 5], [0, 1]]


@pytest.mark.parametrize("read", ["take", "pick"])
def test_a_file_that_is_cut_short_while_it_is_open_is_told(tmp_path, read):
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
    monkeypatch.setattr(array_rows, "_MAPPED_BYTES", 0)
    x = np.arange(300).reshape(100, 3).astype(dtype)
    np.savez(tmp_path / "a.npz", x=x, flat=x[:, 0])
    rows = open_rows("npz", str(tmp_path / "a.npz"), ("x", "flat"))
    wanted = np.random.default_rng(0).integers(0, 100, 40)

    found, flat = rows.pick(wanted)

    assert found.dtype == x.dtype
    assert np.array_equal(found, x[wanted])
    assert np.array_equal(flat, x[wanted, 0])
    rows.close()
