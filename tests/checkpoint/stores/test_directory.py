from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from jobrun.checkpoint.store_protocol import Manifest, StoredFile
from jobrun.checkpoint.stores import directory
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.write import writer
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.failpoints import POINTS, VARIABLE
from jobrun.core.system_calls import rename_noreplace
from jobrun.testing.stores import RUN_ID, StoreContract, write_epoch
from tests.support.checkpoints import write
from tests.support.thinning import thinned

ROOT = Path(__file__).parent.parent.parent.parent
DIGEST = "sha256:" + "0" * 64
IN_STORE = [point for point in POINTS if point.startswith("checkpoint.")]


class TestDirectoryStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path):
        return DirectoryStore(str(tmp_path / "run" / "checkpoints"))


@pytest.fixture
def store(tmp_path):
    return DirectoryStore(str(tmp_path / "run" / "checkpoints"))


def root(tmp_path: Path) -> Path:
    return tmp_path / "run" / "checkpoints"


def run_child(run: Path, point: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.support.checkpoint_child", str(run)],
        cwd=ROOT,
        env=os.environ | {VARIABLE: point},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
@pytest.mark.parametrize("occurrence", thinned([2, 1], 2))
@pytest.mark.parametrize("point", thinned(IN_STORE, 4))
def test_kill_at_any_point_leaves_each_epoch_whole_or_absent(tmp_path, point, occurrence):
    once = {"checkpoint.removal-synced", "checkpoint.removed", "checkpoint.set-aside"}
    occurrence = 1 if point in once else occurrence

    done = run_child(tmp_path, f"{point}:{occurrence}")

    assert done.returncode == -signal.SIGKILL, done.stderr
    reports = [line.split() for line in done.stdout.splitlines()]
    saved = {int(number) for action, number in reports if action == "saved"}
    gone = {int(number) for action, number in reports if action in {"removed", "aside"}}
    began_to_go = {1, 2} if len(saved) == 5 else set()
    began_to_go |= {3, 4} if {1, 2} <= gone else set()
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    there = set(store.epochs())
    assert there >= saved - began_to_go
    assert not there & gone
    assert len(there - saved) <= 1
    assert all(store.verify(epoch) is None for epoch in there)
    store.sweep()
    names = {path.name for path in (tmp_path / "checkpoints").iterdir()}
    assert names == {f"epoch-{epoch:06d}" for epoch in there}
    aside = DirectoryStore(str(tmp_path / "superseded" / "g0"))
    assert all(aside.verify(epoch) is None for epoch in aside.epochs())
    assert there | set(aside.epochs()) >= saved & {0, 3, 4}


@pytest.mark.long
def test_saving_works_after_a_kill(tmp_path):
    run_child(tmp_path, "checkpoint.stage-synced:3")
    store = DirectoryStore(str(tmp_path / "checkpoints"))

    write_epoch(store, 2)

    assert store.epochs() == (0, 1, 2)
    assert len(store.sweep()) == 1


@pytest.mark.parametrize(
    "name",
    [
        "epoch-7", "epoch-00007", "epoch-0000007", "epoch-000007.bak", "epoch-000007~",
        "xepoch-000007", "epoch-000007 ", "epoch--00007", "epoch-+00007",
        "epoch-\u0660\u0660\u0660\u0660\u0660\u0667",
        "epoch-000007\n", "lost+found", ".epoch-000007.swp", "epoch-1e0006",
    ],
)  # fmt: skip
def test_row_46_what_has_another_name_is_no_epoch(tmp_path, store, name):
    write_epoch(store, 1)
    (root(tmp_path) / name).mkdir()

    assert store.epochs() == (1,)
    assert store.sweep() == ()
    assert (root(tmp_path) / name).is_dir()


def test_row_46_a_file_or_a_link_is_no_epoch(tmp_path, store):
    write_epoch(store, 1)
    (root(tmp_path) / "epoch-000002").write_text("")
    (root(tmp_path) / "epoch-000003").symlink_to("epoch-000001")

    assert store.epochs() == (1,)
    with pytest.raises(CheckpointError):
        store.manifest(3)


def test_row_47_a_copied_store_works(tmp_path, store):
    write_epoch(store, 1)
    root(tmp_path).rename(tmp_path / "elsewhere")

    assert DirectoryStore(str(tmp_path / "elsewhere")).verify(1) is None


def test_row_54_an_epoch_under_another_number_is_refused(tmp_path, store):
    write_epoch(store, 1)
    (root(tmp_path) / "epoch-000001").rename(root(tmp_path) / "epoch-000002")

    damage = store.verify(2)

    assert damage is not None
    assert "belongs to epoch 1" in damage.reason


@pytest.mark.parametrize("kind", ["symlink", "pipe", "directory", "long", "empty"])
def test_a_manifest_that_is_no_plain_file_is_damage(tmp_path, store, kind):
    write_epoch(store, 1)
    path = root(tmp_path) / "epoch-000001" / "manifest.json"
    other = path.rename(tmp_path / "other")
    match kind:
        case "symlink":
            path.symlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "directory":
            path.mkdir()
        case "long":
            os.truncate(other, 1 << 40)
            other.rename(path)
        case "empty":
            path.write_text("")

    assert store.verify(1) is not None


def test_hard_linked_manifest_is_valid(tmp_path, store):
    # What `cp -al` makes of a run.
    write_epoch(store, 1)
    (tmp_path / "other").hardlink_to(root(tmp_path) / "epoch-000001" / "manifest.json")

    assert store.verify(1) is None


def test_an_epoch_without_a_manifest_is_damage(tmp_path, store):
    (root(tmp_path) / "epoch-000001").mkdir(parents=True)

    assert store.epochs() == (1,)
    assert store.verify(1) is not None


@pytest.mark.parametrize("call", ["open", "write", "fsync", "fdatasync", "close"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS])
def test_row_43_and_44_a_disk_that_refuses_leaves_what_was_there(
    tmp_path, store, monkeypatch, call, code
):
    first = write_epoch(store, 1)
    real = getattr(os, call)
    for number in range(1, 10):
        calls = []

        def refuse(*args, calls=calls, number=number, **kwargs):
            calls.append(args)
            if len(calls) == number:
                if call == "close":
                    real(*args)
                raise OSError(code, os.strerror(code))
            return real(*args, **kwargs)

        staged = store.stage(2)
        manifest = Manifest(2, RUN_ID, 0, (write(Path(staged), epoch=2),), DIGEST)
        with monkeypatch.context() as patch:
            patch.setattr(os, call, refuse)
            try:
                store.commit(staged, manifest)
            except EnvironmentFaultError as error:
                (fault,) = error.faults
                assert os.strerror(code) in fault.message
                assert fault.mend
        unknown = len(calls) >= number and 2 in store.epochs()
        if len(calls) < number or unknown:
            assert store.verify(2) is None
            store.remove((2,))
        assert store.epochs() == (1,)
        assert store.manifest(1) == first
        assert store.sweep() == ()
    assert 0 < len(calls) < number


def test_failed_last_fsync_reports_an_unknown_outcome(store, monkeypatch):
    staged = store.stage(0)
    manifest = Manifest(0, RUN_ID, 0, (write(Path(staged), epoch=0),), DIGEST)
    fsync, parent = os.fsync, Path(staged).parent

    def refuse_parent(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink() == parent:
            raise OSError(errno.EIO, "Input/output error")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", refuse_parent)

    with pytest.raises(EnvironmentFaultError, match="not known"):
        store.commit(staged, manifest)

    # It was renamed before, so it is there unless the machine goes down now.
    assert not Path(staged).exists()
    assert store.verify(0) is None


def test_commit_steps_have_a_fixed_order(tmp_path, store, monkeypatch):
    acts = []
    staged = store.stage(0)
    manifest = Manifest(0, RUN_ID, 0, (write(Path(staged), epoch=0),), DIGEST)
    rename = directory.rename_noreplace

    def tell_sync(sync, descriptor):
        acts.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def tell_rename(source, target):
        acts.append("rename")
        rename(source, target)

    for name in ("fsync", "fdatasync"):
        monkeypatch.setattr(os, name, partial(tell_sync, getattr(os, name)))
    monkeypatch.setattr(directory, "rename_noreplace", tell_rename)

    store.commit(staged, manifest)

    assert acts == [Path(staged).name, "manifest.json", "rename", "checkpoints"]


def test_a_removed_epoch_is_renamed_durably_before_its_files_go(tmp_path, store, monkeypatch):
    write_epoch(store, 1)
    seen = []

    def look(path):
        seen.extend(item.name for item in Path(path).rglob("*.h5"))

    monkeypatch.setattr(directory, "sync_directory", look)

    store.remove((1,))

    assert seen == ["n.h5"]


def test_small_epochs_are_used_again_behind_the_sync_of_the_next_commit(
    tmp_path, store, monkeypatch
):
    for epoch in (1, 2):
        write_epoch(store, epoch)
    synced = []
    monkeypatch.setattr(directory, "sync_directory", lambda path: synced.append(Path(path).name))

    store.remove((1,), keep_for_reuse=True)

    assert store.epochs() == (2,)
    assert not synced
    assert removed_files(tmp_path) == 1
    store.remove((7,), keep_for_reuse=True)
    assert removed_files(tmp_path) == 1
    write_epoch(store, 3)
    assert removed_files(tmp_path) == 1
    store.remove((2,), keep_for_reuse=True)
    assert synced.count("checkpoints") == 1
    write_epoch(store, 4)
    assert [path.parent.name[:17] for path in root(tmp_path).glob(".del-*/*.h5")] == [
        ".del-epoch-000002"
    ]
    store.close()
    assert synced.count("checkpoints") == 2
    assert removed_files(tmp_path) == 0
    assert store.epochs() == (3, 4)


def removed_for_the_next(store: DirectoryStore) -> Path:
    """Epochs 1 and 2 of two nodes, and how the first looks when its place is the next one's."""
    for epoch in (1, 2):
        write_epoch(store, epoch, ("m", "n"))
    store.remove((1,), keep_for_reuse=True)
    write_epoch(store, 3, ("m", "n"))
    store.remove((), keep_for_reuse=True)
    (removed,) = Path(store.path(1)).parent.glob(".del-epoch-000001-*")
    return removed


def inodes(folder: str | Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (Path(folder), *Path(folder).iterdir())}


def test_directory_and_files_of_a_removed_epoch_become_those_of_another(store):
    before = inodes(removed_for_the_next(store))

    write_epoch(store, 4, ("m", "n"))

    after = inodes(store.path(4))
    assert sorted(before.values()) == sorted(after.values())
    assert after.keys() == {"epoch-000004", "m.h5", "n.h5", "manifest.json"}
    assert store.verify(4) is None


def test_a_longer_manifest_that_is_written_over_leaves_nothing_behind(store):
    removed = removed_for_the_next(store)
    with (removed / "manifest.json").open("ab") as file:
        file.write(b"x" * 5000)

    manifest = write_epoch(store, 4)

    assert store.manifest(4) == manifest


def test_a_node_that_writes_nothing_does_not_get_the_file_of_a_removed_epoch(store):
    removed_for_the_next(store)

    write_epoch(store, 4, ("m",))

    assert inodes(store.path(4)).keys() == {"epoch-000004", "m.h5", "manifest.json"}


@pytest.mark.parametrize("name", ["m.h5", "manifest.json"])
def test_a_file_of_a_removed_epoch_with_a_second_name_is_not_written_over(store, tmp_path, name):
    removed = removed_for_the_next(store)
    (tmp_path / "kept").hardlink_to(removed / name)
    before = (tmp_path / "kept").read_bytes()

    write_epoch(store, 4, ("m", "n"))

    assert (tmp_path / "kept").read_bytes() == before
    assert store.verify(4) is None


@pytest.mark.parametrize(
    ("module", "point"),
    [(writer, "checkpoint.file-written"), (directory, "checkpoint.manifest-written")],
)
def test_a_process_forked_during_a_save_keeps_no_lock_of_its_files(
    store, monkeypatch, module, point
):
    # Such as a worker of a ProcessPoolExecutor, which outlives a run that is killed.
    children = []

    def fork(here):
        if here == point and not children:
            children.append(os.fork())
            if not children[0]:
                signal.pause()
                os._exit(0)

    removed_for_the_next(store)
    monkeypatch.setattr(module, "reach", fork)
    try:
        write_epoch(store, 4, ("m", "n"))
        store.remove((2,), keep_for_reuse=True)
        write_epoch(store, 5, ("m", "n"))
        write_epoch(store, 6, ("m", "n"))

        for epoch in (4, 5, 6):
            assert store.verify(epoch) is None
            assert store.hold(epoch) is not None
        assert len(children) == 1
    finally:
        for child in children:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_removed_epoch_with_other_files_is_deleted(store, tmp_path):
    removed = removed_for_the_next(store)
    (removed / "notes.txt").write_text("mine")

    write_epoch(store, 4, ("m", "n"))

    assert {path.name for path in root(tmp_path).iterdir()} == {
        "epoch-000002", "epoch-000003", "epoch-000004",
    }  # fmt: skip
    assert inodes(store.path(4)).keys() == {"epoch-000004", "m.h5", "n.h5", "manifest.json"}


def test_leftovers_of_a_failed_sync_are_swept(tmp_path, store, monkeypatch):
    for epoch in (1, 2):
        write_epoch(store, epoch)
    store.remove((1,), keep_for_reuse=True)
    fsync, checkpoints = os.fsync, root(tmp_path)

    def refuse_checkpoints(descriptor):
        if Path(f"/proc/self/fd/{descriptor}").readlink() == checkpoints:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        fsync(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse_checkpoints)
        with pytest.raises(EnvironmentFaultError):
            write_epoch(store, 3)

    store.close()

    # Not before a sync: after a power cut the removed epoch may be back under its name.
    assert removed_files(tmp_path) == 1
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", refuse_checkpoints)
        with pytest.raises((OSError, EnvironmentFaultError)):
            store.sweep()
    assert removed_files(tmp_path) == 1
    store.sweep()
    assert removed_files(tmp_path) == 0


def removed_files(folder):
    return len(list(root(folder).glob(".del-*/*.h5")))


def refuse(*_):
    raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.mark.parametrize(
    "change",
    [
        lambda staged: (staged / "n.h5").write_bytes(b"short"),
        lambda staged: (staged / "n.h5").unlink(),
        lambda staged: (staged / "more").write_bytes(b""),
    ],
)
def test_stage_that_differs_from_the_reports_of_nodes_is_not_committed(store, change):
    staged = Path(store.stage(0))
    manifest = Manifest(0, RUN_ID, 0, (write(staged, epoch=0),), DIGEST)
    change(staged)

    with pytest.raises(EnvironmentFaultError, match="what was saved"):
        store.commit(str(staged), manifest)

    assert store.epochs() == ()
    assert store.sweep() == ()


def test_only_stages_of_the_store_are_discarded(tmp_path, store):
    write_epoch(store, 1)
    (tmp_path / ".tmp-epoch-000001-1-00000000").mkdir()
    (root(tmp_path) / ".tmp-mine").mkdir()

    store.discard(str(tmp_path / ".tmp-epoch-000001-1-00000000"))
    store.discard(str(root(tmp_path) / ".tmp-mine"))

    assert (tmp_path / ".tmp-epoch-000001-1-00000000").is_dir()
    assert (root(tmp_path) / ".tmp-mine").is_dir()


def test_a_leftover_that_is_a_link_is_removed_and_its_target_is_not(tmp_path, store):
    write_epoch(store, 1)
    (root(tmp_path) / ".del-epoch-000001-1-00000000").symlink_to("epoch-000001")

    assert store.sweep() == (".del-epoch-000001-1-00000000",)

    assert store.verify(1) is None


def test_the_newest_are_set_aside_first(tmp_path, store, monkeypatch):
    for epoch in range(3):
        write_epoch(store, epoch)
    moved = []

    def tell(source, target):
        moved.append(Path(source).name)
        rename_noreplace(source, target)

    monkeypatch.setattr(directory, "rename_noreplace", tell)

    store.set_aside((1, 2), str(tmp_path / "aside"))

    # Cut short, it leaves a run of epochs without a gap.
    assert moved == ["epoch-000002", "epoch-000001"]


def test_setting_aside_replaces_nothing(tmp_path, store):
    aside = str(tmp_path / "aside")
    write_epoch(store, 1)
    store.set_aside((1,), aside)
    write_epoch(store, 1)

    with pytest.raises(EnvironmentFaultError):
        store.set_aside((1,), aside)

    assert store.epochs() == (1,)


def test_epochs_are_set_aside_on_their_own_file_system(tmp_path, store):
    write_epoch(store, 1)
    elsewhere = Path("/dev/shm") / f"jobrun-test-{os.getpid()}" / "g0"
    assert Path("/dev/shm").stat().st_dev != tmp_path.stat().st_dev
    try:
        store.set_aside((1,), str(elsewhere))
    finally:
        elsewhere.rmdir()
        elsewhere.parent.rmdir()

    assert store.epochs() == ()
    assert DirectoryStore(str(root(tmp_path) / "g0")).verify(1) is None


def test_directories_are_for_their_owner_to_write(tmp_path, store):
    old = os.umask(0)
    try:
        write_epoch(store, 1)
    finally:
        os.umask(old)

    for path in (root(tmp_path), root(tmp_path) / "epoch-000001"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o755


def test_root_that_cannot_be_created_is_an_error(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(EnvironmentFaultError, match="file"):
        DirectoryStore(str(tmp_path / "file" / "checkpoints")).stage(0)


def test_name_in_a_manifest_cannot_leave_the_directory(tmp_path, store):
    (tmp_path / "secret").write_text("secret")
    staged = store.stage(0)
    file = StoredFile("n", "../../secret", 6, DIGEST)

    with pytest.raises(EnvironmentFaultError):
        store.commit(staged, Manifest(0, RUN_ID, 0, (file,), DIGEST))
