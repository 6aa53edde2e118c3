"""What a node holds while its state is saved: who waits for whom, and how much memory it takes."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES
from jobrun.checkpoint.store_protocol import StoredFile
from jobrun.checkpoint.write import snapshot_arena
from jobrun.checkpoint.write.direct_io import FileWriter
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.graph.steps import SaveState
from jobrun.runtime.snapshots import snapshot as module
from jobrun.runtime.snapshots.snapshot import Snapshots
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter

NONE = {}


def names(*some):
    return {"n": frozenset(some)}


class Node:
    """One node's blobs, and what is held of them."""

    def __init__(self, **blobs):
        self.blobs = blobs
        self.snapshots = Snapshots()

    def begin(self):
        step = SaveState("n.h5", tuple(sorted(self.blobs)), "run", "checkpoint/save")
        return self.snapshots.begin(step, "n", 4, self.blobs)


@pytest.fixture
def written(monkeypatch):
    """What is written, instead of a file."""
    collected = []

    def write(self, path, *, epoch, run_id, values, **more):
        collected.append({name: np.copy(value) for name, value in values.items()})
        return StoredFile("n", Path(path).name, 0, "")

    monkeypatch.setattr(NodeWriter, "write", write)
    return collected


def test_a_file_holds_the_values_at_the_start_of_its_save(tmp_path):
    node = Node(w=np.arange(4.0), c=Counter(3), k=1)
    ticket = node.begin()
    node.snapshots.protect([ticket], (names("w", "c"),), NONE)
    gate = node.snapshots.gates(names("w", "c"))["n"]
    gate.pass_gate({"w", "c"})
    node.blobs["w"] += 10
    node.blobs["c"].up()
    node.blobs["k"] = 2

    saved = node.snapshots.persist(ticket, str(tmp_path))

    assert (ticket.node, ticket.epoch) == ("n", 4)
    read = read_state(
        str(tmp_path / "n.h5"),
        node="n",
        epoch=4,
        run_id="run",
        digest=saved.file.digest,
        names=("w", "c", "k"),
    )
    assert same_bits(read["w"], np.arange(4.0))
    assert (read["c"].value, read["k"]) == (3, 1)
    assert saved.copy_s > 0
    assert saved.gate_s > 0


def test_only_blobs_changed_in_place_are_copied(written):
    node = Node(w=np.zeros(3), still=np.ones(3))
    ticket = node.begin()
    node.snapshots.protect([ticket], (names("w"),), NONE)
    held = node.snapshots._held[ticket]

    node.snapshots.persist(ticket, "x")

    assert held._values["still"] is node.blobs["still"]
    assert held._values["w"] is not node.blobs["w"]


def test_no_thread_waits_if_no_saved_blob_is_changed():
    node = Node(w=np.zeros(3))
    node.snapshots.protect([node.begin()], (names("other"),), NONE)

    assert node.snapshots.gates(names("other")) == {}


def test_blobs_that_opaque_code_may_change_are_copied_before_it_runs():
    node = Node(w=np.zeros(3), v=np.zeros(LARGE))
    ticket = node.begin()
    node.snapshots.protect([ticket], (names("w", "v"),), names("w"))
    held = node.snapshots._held[ticket]

    assert held._values["w"] is not node.blobs["w"]
    assert held._values["v"] is node.blobs["v"]


def test_blobs_that_an_unannounced_group_changes_are_copied(written):
    node = Node(w=np.zeros(3))
    ticket = node.begin()
    node.snapshots.protect([ticket], (), NONE)

    assert node.snapshots.gates(names("w")) == {}

    node.blobs["w"] += 1
    node.snapshots.persist(ticket, "x")
    assert written[0]["w"].tolist() == [0, 0, 0]


def test_a_group_that_was_not_foreseen_waits_while_the_file_is_written(monkeypatch):
    writing, go_on, order = threading.Event(), threading.Event(), []

    def write(self, path, **more):
        writing.set()
        go_on.wait(100)
        order.append("written")
        return StoredFile("n", "n.h5", 0, "")

    monkeypatch.setattr(NodeWriter, "write", write)
    node = Node(w=np.zeros(3))
    ticket = node.begin()
    writer = threading.Thread(target=node.snapshots.persist, args=(ticket, "x"))
    writer.start()
    writing.wait(100)
    threading.Timer(0.05, go_on.set).start()

    node.snapshots.gates(names("w"))
    order.append("changed")
    writer.join()

    assert order == ["written", "changed"]


def test_a_block_waits_for_a_copy_that_another_thread_makes(monkeypatch):
    begun, go_on = threading.Event(), threading.Event()
    node = Node(w=np.zeros(3))
    ticket = node.begin()
    node.snapshots.protect([ticket], (names("w"),), NONE)
    held = node.snapshots._held[ticket]
    copy = held._copy

    def slowly(names):
        begun.set()
        go_on.wait(100)
        copy(names)

    monkeypatch.setattr(module.Snapshot, "_copy", lambda self, names: slowly(names))
    copier = threading.Thread(target=held._copy_all, args=(None,))
    copier.start()
    begun.wait(100)
    passed = threading.Event()
    block = threading.Thread(target=lambda: (held.pass_gate({"w"}), passed.set()))
    block.start()

    assert not passed.wait(0.05)
    go_on.set()
    block.join(100)
    copier.join(100)
    assert passed.is_set()
    assert held.is_safe


def test_many_threads_at_the_gate_copy_each_blob_once(written, monkeypatch):
    monkeypatch.setattr(snapshot_arena, "_TURN_BLOBS", 1)
    blobs = {f"b{i}": np.full(7, float(i)) for i in range(200)}
    node = Node(**blobs)
    ticket = node.begin()
    node.snapshots.protect([ticket], (names(*blobs),), NONE)
    held = node.snapshots._held[ticket]
    copied = []
    plain = held._copy
    monkeypatch.setattr(
        module.Snapshot, "_copy", lambda self, names: (copied.extend(names), plain(names))
    )
    threads = [threading.Thread(target=held.pass_gate) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(copied) == sorted(blobs)
    node.snapshots.persist(ticket, "x")
    assert all(same_bits(written[0][name], blobs[name]) for name in blobs)


def test_a_failed_copy_is_an_error_in_all_threads_and_blocks_none(monkeypatch):
    def fail(self, names):
        raise MemoryError

    monkeypatch.setattr(module.Snapshot, "_copy", fail)
    node = Node(w=np.zeros(3))
    ticket = node.begin()
    node.snapshots.protect([ticket], (names("w"),), NONE)

    for _ in range(2):
        with pytest.raises(MemoryError):
            node.snapshots._held[ticket].pass_gate({"w"})
        with pytest.raises(MemoryError):
            node.snapshots.persist(ticket, "x")


def test_a_value_that_cannot_be_stored_is_reported_with_its_path(tmp_path):
    node = Node(w=np.zeros((1,) * 33))

    with pytest.raises(TaskFailedError) as caught:
        node.snapshots.persist(node.begin(), str(tmp_path))

    assert (caught.value.faults[0].code, caught.value.faults[0].path) == ("E202", "checkpoint/save")


def test_a_second_try_writes_the_same_values(written):
    node = Node(w=np.arange(3.0))
    ticket = node.begin()
    node.snapshots.protect([ticket], (names("w"),), NONE)
    node.snapshots.persist(ticket, "x")
    node.blobs["w"] += 1

    node.snapshots.persist(ticket, "y")

    assert written[1]["w"].tolist() == [0, 1, 2]


def test_released_tickets_hold_nothing():
    node = Node(w=np.zeros(3))
    ticket = node.begin()
    node.snapshots.protect([ticket], (names("w"),), NONE)
    node.snapshots.release([ticket])
    node.snapshots.release([ticket])

    assert node.snapshots.gates(names("w")) == {}


def test_copies_reuse_memory_of_the_size_of_the_changed_blobs(written, monkeypatch):
    size = 64 << 20
    node = Node(w=np.ones(size // 8), still=np.ones(size // 8))
    taken = []

    def write(self, path, **more):
        taken.append(rss_bytes())
        return StoredFile("n", "n.h5", 0, "")

    monkeypatch.setattr(NodeWriter, "write", write)
    before = rss_bytes()
    for _ in range(3):
        ticket = node.begin()
        node.snapshots.protect([ticket], (names("w"),), NONE)
        node.snapshots.persist(ticket, "x")
        node.snapshots.release([ticket])
        node.blobs["w"] += 1

    assert max(taken) - before < size + (8 << 20)
    assert node.snapshots._places["n"].arena.size_bytes == size


SMALL = {f"b{number:03d}": np.full(64, number, np.int16) for number in range(40)}
TURNED = {f"t{number}": np.arange(6 * 8.0).reshape(6, 8).T + number for number in range(9)}


def save(node, folder, *changed):
    """Save the node's blobs while a group changes some; return the file's bytes."""
    folder.mkdir()
    ticket = node.begin()
    node.snapshots.protect([ticket], (names(*changed),), NONE)
    node.snapshots.persist(ticket, str(folder))
    node.snapshots.release([ticket])
    return (folder / "n.h5").read_bytes()


def test_a_file_of_copies_is_that_of_the_arrays_themselves(tmp_path):
    node = Node(**SMALL, **TURNED, large=np.arange(1 << 15), text="t", other=np.ones(3))

    copied = save(node, tmp_path / "copied", *node.blobs)
    some = save(node, tmp_path / "some", *list(SMALL)[3:])
    none = save(node, tmp_path / "none")

    assert copied == none
    assert some == none


def test_copies_of_an_earlier_save_are_never_written_again(tmp_path):
    node = Node(**{name: value.copy() for name, value in SMALL.items()})
    save(node, tmp_path / "first", *SMALL)
    node.blobs = {name: value + 1 for name, value in node.blobs.items()}

    later = save(node, tmp_path / "later")

    fresh = save(Node(**node.blobs), tmp_path / "fresh")
    assert later == fresh


def test_copies_of_small_arrays_go_to_the_disk_from_where_they_are(monkeypatch, tmp_path):
    node = Node(**{f"b{number:03d}": np.full(512, number / 3) for number in range(600)})
    pieces = []
    whole = FileWriter.write

    def see(self, piece, offset):
        pieces.append(piece)
        whole(self, piece, offset)

    save(node, tmp_path / "first", *node.blobs)
    monkeypatch.setattr(FileWriter, "write", see)
    copied = save(node, tmp_path / "second", *node.blobs)

    arena = node.snapshots._places["n"].arena.adjacent(sorted(node.blobs), 4096)
    direct = sum(piece.size for piece in pieces if np.shares_memory(piece, arena))
    # All but what shares a block with what comes before and behind.
    assert direct > arena.size - 2 * BLOCK_BYTES
    assert copied == save(node, tmp_path / "none")


def rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


@pytest.fixture
def unchanged_names(monkeypatch):
    """What the writer is told to be unchanged, file by file."""
    collected = []
    original = NodeWriter.write

    def write(self, path, **more):
        collected.append(set(more["unchanged"]))
        return original(self, path, **more)

    monkeypatch.setattr(NodeWriter, "write", write)
    return collected


LARGE = 1 << 18


def test_unchanged_arrays_are_not_written_again(unchanged_names, tmp_path):
    node = Node(w=np.zeros(LARGE), still=np.ones(LARGE), bound=np.ones(LARGE), small=np.ones(2))
    for number in range(3):
        ticket = node.begin()
        (tmp_path / str(number)).mkdir()
        node.snapshots.persist(ticket, str(tmp_path / str(number)))
        node.snapshots.release([ticket])
        node.snapshots.gates(names("w"))
        node.blobs["w"] += 1
        node.blobs["bound"] = np.copy(node.blobs["bound"])

    assert unchanged_names == [set(), {"still"}, {"still"}]


def test_a_blob_changed_during_its_write_is_dirty_afterwards(unchanged_names, tmp_path):
    node = Node(w=np.zeros(LARGE), still=np.ones(LARGE))
    for number in range(2):
        ticket = node.begin()
        node.snapshots.protect([ticket], (names("w"),), NONE)
        gate = node.snapshots.gates(names("w"))["n"]
        gate.pass_gate({"w"})
        node.blobs["w"] += 1
        (tmp_path / str(number)).mkdir()
        node.snapshots.persist(ticket, str(tmp_path / str(number)))
        node.snapshots.release([ticket])

    assert unchanged_names == [set(), {"still"}]


def test_after_a_failed_save_newer_changes_stay_dirty(unchanged_names, tmp_path):
    node = Node(w=np.zeros(LARGE))
    for number, fails in enumerate([False, True, False, False]):
        node.snapshots.gates(names("w") if number == 1 else names())
        ticket = node.begin()
        if fails:
            with pytest.raises(EnvironmentFaultError):
                node.snapshots.persist(ticket, str(tmp_path / "not-there"))
        else:
            (tmp_path / str(number)).mkdir()
            node.snapshots.persist(ticket, str(tmp_path / str(number)))
        node.snapshots.release([ticket])

    # The second changed it, and never became a file.
    assert unchanged_names == [set(), set(), set(), {"w"}]


def test_a_new_array_at_a_freed_address_is_not_taken_for_the_old(unchanged_names, tmp_path):
    node = Node(w=np.zeros(LARGE))
    for number in range(3):
        ticket = node.begin()
        (tmp_path / str(number)).mkdir()
        node.snapshots.persist(ticket, str(tmp_path / str(number)))
        node.snapshots.release([ticket])
        del node.blobs["w"]
        node.blobs["w"] = np.full(LARGE, float(number))

    assert unchanged_names == [set(), set(), set()]
