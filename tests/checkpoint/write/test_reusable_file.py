from __future__ import annotations

import fcntl
import os
from pathlib import Path

import h5py
import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES, digest
from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.write import block_writer
from jobrun.checkpoint.write.reusable_file import open_over_removed
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, LockedError
from jobrun.testing.stores import RUN_ID


def values_of(epoch: int):
    frozen = np.arange(400_000.0)
    return {"frozen": frozen, "w": np.full(50_000, epoch), "k": epoch, "text": "same"}


def write(folder: Path, epoch: int, values=None, writer=None):
    path = folder / "n.h5"
    stored = (writer or NodeWriter("n")).write(
        str(path), epoch=epoch, run_id=RUN_ID, values=values or values_of(epoch), over_removed=True
    )
    return path, stored


def expect(path: Path, stored, values, epoch):
    back = read_state(
        str(path), node="n", epoch=epoch, run_id=RUN_ID, digest=stored.digest, names=values
    )
    assert all(np.array_equal(back[name], values[name]) for name in values)


@pytest.fixture
def folders(tmp_path):
    folders = [tmp_path / name for name in ("old", "new", "fresh")]
    for folder in folders:
        folder.mkdir()
    return folders


def offer(old: Path, new: Path) -> Path:
    return (old / "n.h5").rename(new / "n.h5")


def written_bytes(monkeypatch) -> list[int]:
    counts: list[int] = []
    whole = os.pwrite

    def see(descriptor, data, at):
        counts.append(whole(descriptor, data, at))
        return counts[-1]

    monkeypatch.setattr(os, "pwrite", see)
    return counts


def test_a_used_file_gets_the_bytes_of_a_new_one(folders, monkeypatch):
    old, new, fresh = folders
    write(old, 1)
    inode = offer(old, new).stat().st_ino
    counts = written_bytes(monkeypatch)

    path, stored = write(new, 2)

    expected, _ = write(fresh, 2)
    assert path.read_bytes() == expected.read_bytes()
    assert path.stat().st_ino == inode
    expect(path, stored, values_of(2), 2)
    assert sum(counts) > 0


def test_unchanged_blocks_are_not_written(folders, monkeypatch):
    old, new, _ = folders
    write(old, 1)
    offer(old, new)
    counts = written_bytes(monkeypatch)

    path, stored = write(new, 2)

    assert sum(counts) < 0.5 * path.stat().st_size
    assert stored.written_bytes == sum(counts)


@pytest.mark.parametrize(
    "other",
    [
        {"w": np.arange(7)}, {"w": np.zeros(900_000)},
        values_of(2) | {"text": "other words"}, {"frozen": np.zeros(400_000, np.int64)},
    ],
)  # fmt: skip
def test_another_layout_rewrites_the_whole_file(folders, other):
    old, new, fresh = folders
    write(old, 1)
    offer(old, new)

    path, _ = write(new, 2, other)

    assert path.read_bytes() == write(fresh, 2, other)[0].read_bytes()


@pytest.mark.parametrize("damage", [0, 4000, 5000, -3, "short", "long", "empty"])
def test_a_used_file_that_is_damaged_is_no_worse_than_a_new_one(folders, damage):
    old, new, fresh = folders
    write(old, 1)
    spare = offer(old, new)
    data = bytearray(spare.read_bytes())
    if damage in {"short", "long", "empty"}:
        size = {"short": len(data) - 9, "long": len(data) + 9, "empty": 0}[damage]
        os.truncate(spare, size)
    else:
        data[damage] ^= 1
        spare.write_bytes(data)

    path, _ = write(new, 64 if damage == 5000 else 2)

    expected = write(fresh, 64 if damage == 5000 else 2)[0].read_bytes()
    assert path.read_bytes() == expected


def test_blocks_that_the_disk_forgot_are_found_in_turn(folders):
    old, new, _ = folders
    values = {"w": np.arange(9_000_000.0)}
    write(old, 0, values)
    spare = offer(old, new)
    with spare.open("r+b") as file:
        file.seek(4096 + 5 * (1 << 18) + 17)
        file.write(b"\xff\xff\xff")

    path, stored = write(new, 64 + 5, values)

    expect(path, stored, values, 64 + 5)


def test_file_that_is_being_read_is_not_reused(folders):
    old, new, _ = folders
    before, _ = write(old, 1)
    with h5py.File(before, "r") as reader:
        inode = offer(old, new).stat().st_ino
        path, stored = write(new, 2)

        assert reader["blobs/w"][0] == 1
        assert path.stat().st_ino != inode
    expect(path, stored, values_of(2), 2)


def test_a_file_that_is_about_to_be_overwritten_counts_as_gone(folders, monkeypatch):
    old, new, _ = folders
    path, stored = write(old, 1)
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    # A reader opens the name, and then the epoch is removed.
    whole = os.fstat
    monkeypatch.setattr(
        os, "fstat", lambda opened: (path.exists() and path.rename(new / "n.h5"), whole(opened))[1]
    )
    try:
        with pytest.raises(CheckpointError) as caught:
            expect(path, stored, values_of(1), 1)
    finally:
        os.close(descriptor)

    assert caught.value.faults[0].code == "E300"


def test_a_file_that_another_program_has_locked_is_not_taken_for_damaged(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    commit(store, NodeWriter("n"), 1)
    path = Path(store.path(1)) / "n.h5"
    with h5py.File(path, "r+"):
        with pytest.raises(LockedError) as caught:
            store.verify(1)
        assert (caught.value.faults[0].code, str(path) in str(caught.value)) == ("E353", True)

    assert store.epochs() == (1,)


def test_a_file_with_a_second_name_is_left_alone(folders):
    old, new, _ = folders
    write(old, 1)
    os.link(old / "n.h5", old / "mine.h5")
    before = (old / "mine.h5").read_bytes()
    offer(old, new)

    write(new, 2)

    assert (old / "mine.h5").read_bytes() == before


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_irregular_file_is_replaced_and_not_written_into(tmp_path, kind):
    path, secret = tmp_path / "n.h5", tmp_path / "secret"
    secret.write_bytes(b"x")
    if kind == "link":
        path.symlink_to(secret)
    else:
        os.mkfifo(path)

    descriptor, is_removed = open_over_removed(str(path))

    os.close(descriptor)
    assert not is_removed
    assert path.is_file()
    assert not path.is_symlink()
    assert secret.read_bytes() == b"x"


def test_a_file_that_is_there_is_not_overwritten_unless_it_may_be(tmp_path):
    (tmp_path / "n.h5").write_bytes(b"x")

    with pytest.raises(EnvironmentFaultError, match="File exists"):
        NodeWriter("n").write(str(tmp_path / "n.h5"), epoch=1, run_id=RUN_ID, values=values_of(1))

    assert (tmp_path / "n.h5").read_bytes() == b"x"


def commit(store, writer, epoch: int) -> None:
    staged = store.stage(epoch)
    stored = writer.write(
        str(Path(staged) / "n.h5"),
        epoch=epoch, run_id=RUN_ID, values=values_of(epoch), over_removed=True,
    )  # fmt: skip
    store.commit(staged, Manifest(epoch, RUN_ID, 0, (stored,), "sha256:" + "0" * 64))


def test_a_store_hands_files_of_removed_epochs_to_the_next(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    writer = NodeWriter("n")
    commit(store, writer, 1)
    inode = (Path(store.path(1)) / "n.h5").stat().st_ino
    commit(store, writer, 2)

    store.remove((1,), keep_for_reuse=True)
    assert store.epochs() == (2,)
    commit(store, writer, 3)

    assert (Path(store.path(3)) / "n.h5").stat().st_ino == inode
    assert {path.name for path in Path(store.path(3)).iterdir()} == {"n.h5", "manifest.json"}
    assert store.verify(2) is None
    assert store.verify(3) is None


def test_a_store_keeps_one_set_of_files_and_deletes_it_in_the_end(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    writer = NodeWriter("n")
    for epoch in range(4):
        commit(store, writer, epoch)

    store.remove((0, 1), keep_for_reuse=True)
    store.remove((2,), keep_for_reuse=True)
    prefixes = {path.name.split("-")[0] for path in (tmp_path / "checkpoints").iterdir()}
    assert prefixes == {"epoch", ".del"}
    assert len(list((tmp_path / "checkpoints").iterdir())) == 2
    store.close()

    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["epoch-000003"]


def test_a_spare_that_no_node_wanted_is_not_committed(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    commit(store, NodeWriter("n"), 1)
    commit(store, NodeWriter("n"), 2)
    store.remove((1,), keep_for_reuse=True)
    staged = store.stage(3)
    assert (Path(staged) / "n.h5").exists()

    store.commit(staged, Manifest(3, RUN_ID, 0, (), "sha256:" + "0" * 64))

    assert {path.name for path in Path(store.path(3)).iterdir()} == {"manifest.json"}


def test_removed_file_reported_as_overwritten_is_not_committed(tmp_path):
    # As where a node writes on a disk of its own: what is here has the length and the name.
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    commit(store, NodeWriter("n"), 1)
    commit(store, NodeWriter("n"), 2)
    store.remove((1,), keep_for_reuse=True)
    staged = store.stage(3)
    (tmp_path / "elsewhere").mkdir()
    _, stored = write(tmp_path / "elsewhere", 3)
    assert (Path(staged) / "n.h5").stat().st_size == stored.size_bytes

    with pytest.raises(EnvironmentFaultError) as caught:
        store.commit(staged, Manifest(3, RUN_ID, 0, (stored,), "sha256:" + "0" * 64))

    assert caught.value.faults[0].code == "E317"
    assert "n.h5 is not the file that node n has written" in caught.value.faults[0].message
    assert store.epochs() == (2,)


def test_unchanged_values_are_not_read(folders, monkeypatch):
    old, new, fresh = folders
    writer = NodeWriter("n")
    first, second = values_of(1), values_of(2)
    second["frozen"] = first["frozen"]
    write(old, 1, first, writer)
    offer(old, new)
    digested = []
    monkeypatch.setattr(
        block_writer, "digest", lambda data: (digested.append(len(data)), digest(data))[1]
    )

    path = str(new / "n.h5")
    writer.write(
        path, epoch=2, run_id=RUN_ID, values=second, unchanged={"frozen"}, over_removed=True
    )

    assert sum(digested) < 0.5 * first["frozen"].nbytes
    assert (new / "n.h5").read_bytes() == write(fresh, 2, second)[0].read_bytes()


def test_files_do_not_depend_on_the_unchanged_names(tmp_path):
    rng = np.random.default_rng(5)
    sizes = rng.integers(0, 3 * BLOCK_BYTES // 8, 9).tolist() + rng.integers(0, 900, 9).tolist()
    values = {f"x{number}": rng.random(size) for number, size in enumerate(sizes)}
    informed, alone = NodeWriter("n"), NodeWriter("n")
    for epoch in range(12):
        changed = set(rng.permutation(list(values))[: rng.integers(0, 6)].tolist())
        values = {name: value + 1 if name in changed else value for name, value in values.items()}
        folder = tmp_path / str(epoch)
        folder.mkdir()
        if epoch > 2:
            # As of a store that keeps two: what is overwritten is older than the last file.
            offer(tmp_path / str(epoch - 3), folder)
        path, same = str(folder / "n.h5"), set() if epoch == 0 else values.keys() - changed
        informed.write(
            path, epoch=epoch, run_id=RUN_ID, values=values, unchanged=same, over_removed=True
        )
        write(tmp_path, epoch, values, alone)

        assert (folder / "n.h5").read_bytes() == (tmp_path / "n.h5").read_bytes()
        (tmp_path / "n.h5").unlink()


def test_changed_layout_ignores_unchanged_names(folders):
    old, new, fresh = folders
    writer = NodeWriter("n")
    values = values_of(1)
    write(old, 1, values, writer)
    other = {"frozen": values["frozen"] + 1, "x": np.zeros(4)}

    path = str(new / "n.h5")
    writer.write(path, epoch=2, run_id=RUN_ID, values=other, unchanged={"frozen"})

    assert (new / "n.h5").read_bytes() == write(fresh, 2, other)[0].read_bytes()


@pytest.fixture
def sharing(monkeypatch):
    """As on a file system whose files share blocks: what a clone does, but not how fast."""
    clones = []

    def ioctl(target, request, source):
        assert request == 0x40049409
        assert os.fstat(target).st_size == 0
        os.pwrite(target, os.pread(source, 1 << 30, 0), 0)
        clones.append((source, target))

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    return clones


def test_a_file_that_begins_as_a_copy_of_the_last_gets_the_bytes_of_a_new_one(tmp_path, sharing):
    writer = NodeWriter("n")
    for epoch in range(10):
        folder, fresh = tmp_path / f"{epoch}", tmp_path / f"fresh-{epoch}"
        folder.mkdir()
        fresh.mkdir()

        path, stored = write(folder, epoch, writer=writer)

        assert path.read_bytes() == write(fresh, epoch)[0].read_bytes()
        expect(path, stored, values_of(epoch), epoch)
    assert len(sharing) == 9


def test_reflinked_file_rewrites_changes_and_all_blocks_within_eight_epochs(
    tmp_path, sharing, monkeypatch
):
    writer = NodeWriter("n")
    write_into = {}
    whole = os.pwrite

    def see(descriptor, data, at):
        if write_into:
            span = range(at // 4096, -(-(at + len(data)) // 4096))
            write_into["pages"].update(span)
            write_into["bytes"] += len(data)
        return whole(descriptor, data, at)

    path, _ = write(tmp_path, 0, writer=writer)
    size = path.stat().st_size
    monkeypatch.setattr(os, "pwrite", see)
    pages = set()
    for epoch in range(1, 9):
        (tmp_path / str(epoch)).mkdir()
        source = sharing.copy()
        write_into = {"pages": set(), "bytes": -size}
        write(tmp_path / str(epoch), epoch, writer=writer)
        assert len(sharing) == len(source) + 1
        # The emulated copy itself is not counted.
        assert write_into["bytes"] < 0.5 * size
        pages |= write_into["pages"]
    assert len(pages) >= size // 4096


def test_another_layout_shares_nothing(tmp_path, sharing):
    writer = NodeWriter("n")
    write(tmp_path, 0, writer=writer)
    (tmp_path / "1").mkdir()

    path, stored = write(tmp_path / "1", 1, {"w": np.arange(900_000)}, writer=writer)

    assert sharing == []
    expect(path, stored, {"w": np.arange(900_000)}, 1)


def test_reflink_is_tried_once_if_unsupported(tmp_path, monkeypatch):
    asked = []

    def ioctl(target, request, source):
        asked.append(request)
        raise OSError(95, "not supported")

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    writer = NodeWriter("n")
    for epoch in range(4):
        (tmp_path / str(epoch)).mkdir()
        path, stored = write(tmp_path / str(epoch), epoch, writer=writer)
        expect(path, stored, values_of(epoch), epoch)

    assert len(asked) == 1
    writer.close()
    assert writer._last == -1
