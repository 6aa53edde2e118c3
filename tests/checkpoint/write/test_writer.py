from __future__ import annotations

import mmap
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import h5py
import hypothesis.extra.numpy as hnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.dataset_names import quote_name
from jobrun.checkpoint.hdf5.value_codec import encode
from jobrun.checkpoint.write.array_types import ArrayTypes
from jobrun.checkpoint.write.encoder import FileEncoder
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import TaskFailedError
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from tests.support.checkpoints import VALUES

NAMES = st.text(st.characters(), min_size=1, max_size=12)
SCALARS = hnp.scalar_dtypes() | hnp.byte_string_dtypes() | hnp.unicode_string_dtypes()
RECORDS = st.recursive(SCALARS, lambda inner: hnp.array_dtypes(inner, max_size=3), max_leaves=4)
ARRAYS = hnp.arrays(
    SCALARS | RECORDS, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
)
KINDS = st.one_of(
    ARRAYS,
    st.integers(),
    st.floats(),
    st.complex_numbers(),
    st.booleans(),
    st.text(st.characters(), max_size=30),
    st.integers().map(Counter),
    ARRAYS.filter(lambda array: array.size).map(lambda array: array.reshape(-1)[0]),
)


def write(writer, path, values, epoch=1):
    return writer.write(str(path), epoch=epoch, run_id=RUN_ID, values=values)


def read(path, stored, names, epoch=1):
    identity = {"node": "n", "epoch": epoch, "run_id": RUN_ID, "digest": stored.digest}
    return read_state(str(path), names=tuple(names), **identity)


def expect(path, stored, values, epoch=1):
    back = read(path, stored, values, epoch)
    for name, value in values.items():
        assert same_bits(back[name], value), name


@pytest.mark.long
@given(st.lists(st.dictionaries(NAMES, KINDS, max_size=6), min_size=1, max_size=3))
@settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
def test_any_workspaces_round_trip_through_one_writer(tmp_path_factory, states):
    folder = tmp_path_factory.mktemp("any")
    writer = NodeWriter("n")
    for epoch, values in enumerate(states):
        path = folder / f"{epoch}.h5"

        stored = write(writer, path, values, epoch)

        expect(path, stored, values, epoch)
        with h5py.File(path) as file:
            assert len(file["blobs"]) == len(values)
            for name, value in values.items():
                array = encode(value, name).array
                assert file["blobs"][quote_name(name)].shape == array.shape


def test_each_epoch_has_its_own_values(tmp_path):
    writer = NodeWriter("n")
    writer.prepare({"w": np.zeros(4)})

    for epoch in (0, 1):
        values = {"w": np.arange(4.0) + epoch}
        stored = write(writer, tmp_path / f"{epoch}.h5", values, epoch)
        expect(tmp_path / f"{epoch}.h5", stored, values, epoch)
    writer.close()


def test_file_bytes_do_not_depend_on_earlier_writes(tmp_path):
    used = NodeWriter("n")
    write(used, tmp_path / "before.h5", {"x": np.full(3 << 20, 255, np.uint8), "y": "abc"})

    write(used, tmp_path / "used.h5", VALUES)
    write(NodeWriter("n"), tmp_path / "new.h5", VALUES)

    assert (tmp_path / "used.h5").read_bytes() == (tmp_path / "new.h5").read_bytes()


@pytest.mark.parametrize("count", [1, 255, 600, 3_000])
def test_many_small_blobs_have_their_own_names(tmp_path, count):
    values = {f"b{n:05d}": np.full((4, 33), n, np.float32) for n in range(count)}
    stored = write(NodeWriter("n"), tmp_path / "n.h5", values)

    expect(tmp_path / "n.h5", stored, values)
    with h5py.File(tmp_path / "n.h5") as file:
        assert list(file["blobs"]) == sorted(values)
        for n in range(0, count, max(1, count // 50)):
            assert (file["blobs"][f"b{n:05d}"][()] == n).all()


@pytest.mark.parametrize("name", ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"])
def test_dtypes_that_numpy_lacks_keep_their_bits(tmp_path, name):
    dtype = np.dtype(getattr(ml_dtypes, name))
    raw = np.arange(16, dtype=np.uint8 if dtype.itemsize == 1 else np.uint16)
    values = {
        "w": raw.view(dtype),
        "large": np.resize(raw, 100_000).view(dtype),
        "zero_d": raw.view(dtype)[3],
        "record": np.zeros(3, [("a", dtype), ("b", "<i4")]),
    }
    stored = write(NodeWriter("n"), tmp_path / "n.h5", values)

    expect(tmp_path / "n.h5", stored, values)
    with h5py.File(tmp_path / "n.h5") as file:
        assert file["blobs/w"].attrs["dtype"].decode() == f"ml_dtypes.{name}"
        assert (file["blobs/w"][()] == raw).all()


def test_dtype_of_a_missing_package_is_an_error(tmp_path, monkeypatch):
    stored = write(NodeWriter("n"), tmp_path / "n.h5", {"w": np.zeros(3, ml_dtypes.bfloat16)})
    from jobrun.checkpoint.hdf5 import dtypes  # noqa: PLC0415

    monkeypatch.setattr(dtypes.util, "find_spec", lambda _: None)

    with pytest.raises(Exception, match="ml_dtypes, which is not installed"):
        read(tmp_path / "n.h5", stored, ["w"])


def test_arrays_in_any_order_of_memory_are_written_in_c_order(tmp_path):
    whole = np.arange(120_000.0).reshape(300, 400)
    values = {
        "f": np.asfortranarray(whole),
        "strided": whole[::2, ::3],
        "turned": whole.T,
        "neg": whole[::-1],
    }

    stored = write(NodeWriter("n"), tmp_path / "n.h5", values)

    back = read(tmp_path / "n.h5", stored, values)
    assert all(np.array_equal(back[name], value) for name, value in values.items())


def test_a_snapshot_that_begins_at_pages_gives_the_same_file(tmp_path):
    plain = {"w": np.arange(300_000.0), "v": np.arange(100_000, dtype=np.int32)}
    arena = np.frombuffer(mmap.mmap(-1, 4 << 20), np.uint8)
    paged = {}
    for at, (name, value) in zip((0, 3 << 20), plain.items(), strict=True):
        paged[name] = arena[at : at + value.nbytes].view(value.dtype)
        paged[name][...] = value

    write(NodeWriter("n"), tmp_path / "plain.h5", plain)
    write(NodeWriter("n"), tmp_path / "paged.h5", paged)

    assert (tmp_path / "plain.h5").read_bytes() == (tmp_path / "paged.h5").read_bytes()


def test_no_value_is_kept_after_a_save(tmp_path):
    value = np.arange(300_000.0)
    writer = NodeWriter("n")
    before = sys.getrefcount(value)

    write(writer, tmp_path / "n.h5", {"w": value, "k": 1})

    assert sys.getrefcount(value) == before


def test_several_threads_may_save_through_one_writer(tmp_path):
    writer = NodeWriter("n")
    states = [{"w": np.full(200_000, n), f"k{n % 2}": n} for n in range(6)]

    with ThreadPoolExecutor(4) as pool:
        saves = list(
            pool.map(lambda n: write(writer, tmp_path / f"{n}.h5", states[n], n), range(6))
        )

    for n, stored in enumerate(saves):
        expect(tmp_path / f"{n}.h5", stored, states[n], n)


@pytest.mark.long
def test_data_far_larger_than_the_slabs_round_trip(tmp_path):
    values = {
        "w": np.arange(11 << 20),
        "v": np.arange(3.0),
        "u": np.arange(1 << 20, dtype=np.int16),
    }

    stored = write(NodeWriter("n"), tmp_path / "n.h5", values)

    expect(tmp_path / "n.h5", stored, values)


def test_all_of_a_large_state_is_digested_without_more_threads(tmp_path, monkeypatch):
    started = []
    start = threading.Thread.start
    monkeypatch.setattr(
        threading.Thread, "start", lambda self: (started.append(self.name), start(self))[1]
    )
    writer, path = NodeWriter("n"), tmp_path / "n.h5"
    for epoch in (1, 2):
        writer.write(
            str(path), epoch=epoch, run_id=RUN_ID,
            values={"w": np.full(5 << 20, float(epoch))}, over_removed=True,
        )  # fmt: skip

    # One, for each save, that waits for the disk.
    assert started == ["checkpoint-writer"] * 2


def test_writer_reports_its_wait_for_the_disk(tmp_path, monkeypatch):
    whole = os.fsync

    def slow(descriptor):
        time.sleep(0.05)
        whole(descriptor)

    monkeypatch.setattr(os, "fsync", slow)

    stored = NodeWriter("n").write(
        str(tmp_path / "n.h5"), epoch=1, run_id=RUN_ID, values={"w": np.arange(9.0)}
    )

    assert 0.05 <= stored.sync_seconds <= stored.seconds


def test_unclosed_writer_keeps_no_file_open(tmp_path):
    before = set(Path("/proc/self/fd").iterdir())
    for epoch in range(3):
        NodeWriter("n").write(
            str(tmp_path / f"{epoch}.h5"), epoch=epoch, run_id=RUN_ID, values={"w": np.arange(9.0)}
        )

    assert set(Path("/proc/self/fd").iterdir()) == before


def test_an_array_that_was_resized_since_the_save_began_is_refused(tmp_path):
    writer, values = NodeWriter("n"), {"b": np.zeros(5, np.int8), "c": np.arange(4)}
    types = ArrayTypes(values)
    for epoch in range(2):
        path = str(tmp_path / f"{epoch}.h5")
        writer.write(path, epoch=epoch, run_id=RUN_ID, values=values, types=types)
    values["b"].resize(9, refcheck=False)

    with pytest.raises(TaskFailedError, match=r"'b'.*9 bytes, and had 5"):
        writer.write(str(tmp_path / "2.h5"), epoch=2, run_id=RUN_ID, values=values, types=types)


def test_forms_that_are_known_are_not_looked_at_again(tmp_path, monkeypatch):
    writer, values = NodeWriter("n"), {"b": np.zeros(5), "c": np.arange(4), "k": 3}
    types = ArrayTypes(values)
    looks = []
    whole = FileEncoder._fits
    monkeypatch.setattr(
        FileEncoder, "_fits", lambda self, plain: looks.append(plain) or whole(self, plain)
    )

    for epoch in range(4):
        path = tmp_path / f"{epoch}.h5"
        changed = {"b": values["b"] + epoch, "c": values["c"] - epoch, "k": 3 * epoch}
        stored = writer.write(str(path), epoch=epoch, run_id=RUN_ID, values=changed, types=types)
        expect(path, stored, changed, epoch)

    # For its layout, and once for the types.
    assert len(looks) == 2
