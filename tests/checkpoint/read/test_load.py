from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from jobrun.checkpoint.hdf5.digest_blocks import blocks_holding
from jobrun.checkpoint.read import load as loading
from jobrun.checkpoint.read.load import load, require_types
from jobrun.checkpoint.read.verified_file import StateFile, open_state
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import CheckpointError
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import same_bits
from tests.support.checkpoints import VALUES, write
from tests.support.limits import no_larger_than

LARGE = {
    "big": np.arange(700_000.0).reshape(7, -1),
    "dates": np.arange(20_000).astype("M8[s]"),
    "names": np.array(["añ", "b"] * 9_000),
    "layer0/w": np.arange(9, dtype=np.float32),
    "layer0/b": np.zeros((0, 4)),
    "layer1/w": np.arange(9, dtype=np.float32) + 1,
    "k": 7,
}


@pytest.fixture
def path(tmp_path) -> str:
    write(tmp_path, LARGE)
    return str(tmp_path / "n.h5")


def test_value_of_any_size_round_trips(path):
    with open_state(path) as file:
        back = load(file)

    assert set(back) == set(LARGE)
    assert all(same_bits(back[name], LARGE[name]) for name in LARGE)


def test_the_result_is_in_the_order_of_the_names(path):
    with open_state(path) as file:
        assert list(load(file, ["k", "big", "layer1/w"])) == ["k", "big", "layer1/w"]
        assert list(load(file, ["no", "k"], partial=True)) == ["k"]


def test_arrays_that_are_given_receive_the_values(path):
    into = {
        "big": np.empty((7, 100_000)),
        "layer0/w": np.empty(9, np.float32),
        "dates": np.empty(20_000, "M8[s]"),
    }

    with open_state(path) as file:
        back = load(file, into=into)

    for name, array in into.items():
        assert back[name] is array
        assert same_bits(array, LARGE[name])
    assert same_bits(back["layer1/w"], LARGE["layer1/w"])


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("big", np.empty((7, 100_000), np.float32)), ("big", np.empty((100_000, 7))),
        ("big", np.empty((7, 100_000), order="F")), ("k", np.empty((), np.int64)),
        ("dates", np.empty(20_000, np.int64)),
    ],
)  # fmt: skip
def test_an_array_that_does_not_fit_is_refused_before_anything_is_read(path, name, array):
    array[...] = 3
    before = array.copy()

    with open_state(path) as file, pytest.raises(CheckpointError, match=name) as caught:
        load(file, into={name: array})

    assert caught.value.faults[0].code == "E325"
    assert same_bits(array, before)


def test_missing_blob_error_has_the_nearest_name(path):
    with open_state(path) as file, pytest.raises(CheckpointError, match="did you mean 'dates'"):
        load(file, ["date"])


def test_damage_in_a_blob_that_is_not_wanted_does_not_matter(tmp_path, path):
    with open_state(path) as file:
        begin, end = file.index.span(file.index.rows["big"])
    with (tmp_path / "n.h5").open("r+b") as file:
        file.seek((begin + end) // 2)
        file.write(b"\xff\xee")

    with open_state(path) as file:
        assert load(file, ["k"]) == {"k": 7}
        with pytest.raises(CheckpointError, match="damaged"):
            load(file, ["big"])
        with pytest.raises(CheckpointError, match="damaged"):
            load(file)


def test_loading_needs_little_more_memory_than_the_state(tmp_path):
    values = {"w": np.zeros(3 << 20), "v": np.zeros(1 << 20, np.float32)}
    write(tmp_path, values)
    size = sum(array.nbytes for array in values.values())

    with open_state(str(tmp_path / "n.h5")) as file, no_larger_than(size + (10 << 20)):
        load(file)


def test_small_blobs_across_portions_round_trip(tmp_path):
    # Portions are no multiple of these.
    values = {f"b{n:04d}": np.full(37_001, n % 256, np.uint8) for n in range(400)}
    write(tmp_path, values)

    with open_state(str(tmp_path / "n.h5")) as file:
        back = load(file)

    assert all(same_bits(back[name], value) for name, value in values.items())


def test_portions_of_a_few_small_blobs_are_read_by_several_threads(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "usable_cpus", lambda: 4)
    values = {f"b{n:03d}": np.full(60_001, n % 256, np.uint8) for n in range(200)}
    write(tmp_path, values)
    threads = set()
    whole = StateFile.read_blocks

    def note(self, blocks, pieces):
        threads.add(threading.current_thread())
        whole(self, blocks, pieces)

    monkeypatch.setattr(StateFile, "read_blocks", note)
    with open_state(str(tmp_path / "n.h5")) as file:
        back = load(file)

    assert threads - {threading.main_thread()}
    assert all(same_bits(back[name], value) for name, value in values.items())


def test_new_threads_read_a_large_file_while_the_calling_thread_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "usable_cpus", lambda: 2)
    write(tmp_path, {"w": np.arange(3 << 20)})
    whole, readers = StateFile.read_blocks, set()
    both = threading.Barrier(2, timeout=60)

    def note(self, blocks, pieces):
        if threading.current_thread() not in readers:
            readers.add(threading.current_thread())
            both.wait()
        whole(self, blocks, pieces)

    with open_state(str(tmp_path / "n.h5")) as file:
        assert file.index
        monkeypatch.setattr(StateFile, "read_blocks", note)
        back = load(file)

    assert same_bits(back["w"], np.arange(3 << 20))
    assert len(readers) == 2
    assert threading.current_thread() not in readers


def test_ctrl_c_ends_a_load_only_when_no_thread_writes_to_the_arrays_any_more(monkeypatch):
    monkeypatch.setattr(loading, "usable_cpus", lambda: 2)
    begun, written = threading.Event(), []

    def read(portion):
        begun.set()
        time.sleep(0.01)
        written.append(portion)

    def interrupt(self, timeout=None, join=threading.Thread.join):
        assert begun.wait(60)
        monkeypatch.setattr(threading.Thread, "join", join)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", interrupt)
    with pytest.raises(KeyboardInterrupt):
        loading.in_threads(read, range(100))

    assert len(written) < 100
    assert not [
        thread for thread in threading.enumerate() if thread.name.startswith("checkpoint-reader")
    ]


def test_no_thread_is_started_for_a_few_megabytes(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "usable_cpus", lambda: 4)
    monkeypatch.setattr(loading, "Thread", None)
    write(tmp_path, {"w": np.arange(3 << 17), "v": np.arange(5.0)})

    with open_state(str(tmp_path / "n.h5")) as file:
        assert same_bits(load(file)["w"], np.arange(3 << 17))


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_damage_is_found_by_whichever_thread_reads_it(tmp_path, monkeypatch, threads):
    monkeypatch.setattr(loading, "usable_cpus", lambda: threads)
    write(tmp_path, {"w": np.arange(2 << 20)})
    with open_state(str(tmp_path / "n.h5")) as file:
        begin, end = file.index.span(file.index.rows["w"])
    for offset in np.linspace(begin, end - 1, 5, dtype=int).tolist():
        with (tmp_path / "n.h5").open("r+b") as file:
            file.seek(offset)
            old = file.read(1)
            file.seek(offset)
            file.write(bytes([old[0] ^ 1]))

        with (
            open_state(str(tmp_path / "n.h5")) as file,
            pytest.raises(CheckpointError, match="damaged"),
        ):
            load(file)

        with (tmp_path / "n.h5").open("r+b") as file:
            file.seek(offset)
            file.write(old)
    assert not [thread for thread in threading.enumerate() if "checkpoint-reader" in thread.name]


def test_only_the_blocks_of_wanted_blobs_are_read(tmp_path, monkeypatch):
    write(tmp_path, {f"b{n:02d}": np.full(1 << 17, n) for n in range(12)})
    read = []
    whole = StateFile.read_blocks

    def note(self, blocks, pieces):
        read.extend(blocks)
        whole(self, blocks, pieces)

    with open_state(str(tmp_path / "n.h5")) as file:
        spans = [file.index.span(file.index.rows[name]) for name in ("b02", "b03", "b09")]
        monkeypatch.setattr(StateFile, "read_blocks", note)
        back = load(file, ["b09", "b02", "b03"])

    assert sorted(read) == sorted({number for span in spans for number in blocks_holding(*span)})
    assert all(same_bits(back[name], np.full(1 << 17, int(name[1:]))) for name in back)


_KINDS = ["f4", "?", ">i2", "c8", "M8[s]", "f2", "U7"]


def test_many_arrays_of_all_kinds_are_read_into_those_that_are_there(tmp_path):
    random = np.random.default_rng(3)
    values = {
        f"{kind} {n}": random.integers(0, 2, (3, 1_100)).astype(kind)
        for kind in _KINDS
        for n in range(40)
    }
    write(tmp_path, values)
    into = {name: np.empty_like(value) for name, value in values.items() if value.dtype.kind != "U"}

    with open_state(str(tmp_path / "n.h5")) as file:
        back = load(file, into=into)

    assert all(back[name] is array for name, array in into.items())
    assert all(same_bits(back[name], value) for name, value in values.items())


def test_small_arrays_that_are_there_are_read_into_without_a_copy(tmp_path, monkeypatch):
    values = {f"b{n:03d}": np.full(512, n, np.uint64) for n in range(300)}
    write(tmp_path, values)
    into = {name: np.zeros_like(value) for name, value in values.items()}
    buffers = []
    whole = StateFile.read_blocks

    def note(self, blocks, pieces):
        buffers.extend(buffer for parts in pieces for buffer in parts)
        whole(self, blocks, pieces)

    monkeypatch.setattr(StateFile, "read_blocks", note)
    with open_state(str(tmp_path / "n.h5")) as file:
        load(file, into=into)

    assert all(
        any(np.shares_memory(array, buffer) for buffer in buffers) for array in into.values()
    )
    assert all(same_bits(into[name], value) for name, value in values.items())


def test_arrays_own_their_memory_and_share_none(tmp_path):
    write(tmp_path, VALUES)

    with open_state(str(tmp_path / "n.h5")) as file:
        back = [value for value in load(file).values() if isinstance(value, np.ndarray)]

    assert all(
        array.flags.owndata and array.flags.writeable and array.flags.aligned for array in back
    )


def test_a_format_with_chunks_is_read_in_part(tmp_path):
    values = {"w": np.arange(900_000), "v": np.arange(5.0)}
    NodeWriter("n", (("*", "deflate"),)).write(
        str(tmp_path / "n.h5"), epoch=1, run_id=RUN_ID, values=values
    )

    with open_state(str(tmp_path / "n.h5")) as file:
        assert same_bits(load(file, ["w"])["w"], values["w"])
        assert same_bits(load(file, ["v"])["v"], values["v"])


def test_type_differences_are_reported_together_before_reading(path):
    expected = {
        "big": ("array", "<f4", (7, 100_000)),
        "k": ("float", None, None),
        "dates": (None, "<M8[s]", None),
        "layer0/w": ("array", "<f4", (8,)),
        "gone": ("int", "<i8", ()),
    }

    with open_state(path) as file, pytest.raises(CheckpointError) as caught:
        require_types(file, expected)

    faults = caught.value.faults
    assert [fault.code for fault in faults] == ["E325"] * 3
    assert "'big'" in faults[0].message
    assert "of dtype <f8 of shape (7, 100000); expected was array of dtype <f4" in faults[0].message
    assert "is int" in faults[1].message
    assert "expected was float" in faults[1].message


LOAD = """
import sys
from jobrun.checkpoint.checkpoint_file import read_state

def most_kib():
    lines = open("/proc/self/status").read().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

open("/proc/self/clear_refs", "w").write("5")
before = most_kib()
values = read_state(
    sys.argv[1], node="n", epoch=1, run_id=sys.argv[2], digest=sys.argv[3], names=["a", "b"]
)
print(most_kib() - before, sum(one.nbytes for one in values.values()) // 1024)
"""


@pytest.mark.long
def test_a_load_needs_no_more_memory_than_the_state(tmp_path):
    values = {name: np.random.default_rng(1).random(4 << 20) for name in "ab"}
    path = str(tmp_path / "n.h5")
    stored = NodeWriter("n").write(path, epoch=1, run_id=RUN_ID, values=values)

    done = subprocess.run(
        [sys.executable, "-c", LOAD, path, RUN_ID, stored.digest],
        capture_output=True, text=True, check=True,
    )  # fmt: skip

    grown_kib, state_kib = map(int, done.stdout.split())
    assert state_kib == 64 << 10
    assert grown_kib < 1.15 * state_kib
