"""Manage the directory on a node's own machine that holds its checkpoint files temporarily.

What a node writes there counts for nothing before the master has it. ::

    NODE_DIR/jobrun-RUN/trainer_1/3-0f6a21bc/    of this process: incarnation 3 of the node
        .tmp-epoch-000004-…/trainer_1.h5         of one save, until the master, or the store, has it
        in-1/trainer_1.h5                        from there, while it is read
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.stores.object_references import Reference, fetch_object
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.files.disk import disk_faults
from jobrun.core.files.file_lock import is_locked, try_lock, wait_for_lock
from jobrun.core.lazy_dataclass import replace
from jobrun.core.object_url import ObjectUrl, parse_object_url
from jobrun.session.node_files.file_chunks import collection_error, read_chunk, write_chunks
from jobrun.session.wire.file_messages import (
    NO_FILE_SETUP,
    FileChunk,
    UploadedSave,
    WorkerFileSetup,
)
from jobrun.session.wire.rpc import Reply


class NodeDirectory:
    """The local directory of one node's process; without one, files go where the master says.

    Args:
        node: The name of the node's place.
        setup: Where the files go, as the master says.

    Raises:
        EnvironmentFaultError: E313, it cannot be made.
    """

    def __init__(self, node: str = "", setup: WorkerFileSetup = NO_FILE_SETUP) -> None:
        self._incarnation = setup.incarnation
        self._objects = parse_object_url(setup.objects) if setup.objects else None
        self._numbers = count(1)
        self._root: Path | None = None
        self._lock_descriptor = -1
        if setup.node_dir:
            name = f"{setup.incarnation}-{secrets.token_hex(4)}"
            self._root = Path(setup.node_dir, node, name)
            with disk_faults("E313", f"make {self._root} on the machine of node '{node}'"):
                self._lock_descriptor = _make_locked(self._root)

    def stage(self, directory: str) -> str:
        """Return the directory in which a node writes files of a save, creating a node's own one.

        Args:
            directory: Its staging directory; its name alone, if files are collected.
        """
        if self._root is None:
            return directory
        path = self._staged(directory)
        with disk_faults("E313", f"make {path}"):
            path.mkdir(mode=0o700, exist_ok=True)
        return str(path)

    def read_chunk(self, token: str, name: str, offset: int) -> FileChunk:
        """Read a chunk of a saved file from this node directory, as the master has requested.

        Raises:
            EnvironmentFaultError: E327, it is not there any more, or cannot be read.
        """
        path = str(self._staged(token) / Path(name).name)
        try:
            return read_chunk(path, offset, token, self._incarnation)
        except CheckpointError as error:
            raise collection_error(name, error.faults[0].message) from error

    def upload(
        self, token: str, epoch: int, saves: tuple[NodeSave, ...]
    ) -> tuple[NodeSave, ...] | UploadedSave:
        """Upload a save's files from the node directory to the object store, if one is set.

        Args:
            token: The save's.
            epoch: Its epoch.
            saves: What writing came to.

        Raises:
            EnvironmentFaultError: The object store refuses them.
        """
        if self._objects is None:
            return saves
        uploaded = tuple(
            self._bring(self._objects, self._staged(token), epoch, one) for one in saves
        )
        return UploadedSave(Path(token).name, self._incarnation, uploaded)

    def _bring(self, place: ObjectUrl, staged: Path, epoch: int, save: NodeSave) -> NodeSave:
        # Lazy: only runs with an object store need it.
        from jobrun.checkpoint.stores.object_store import upload_file  # noqa: PLC0415

        started = time.perf_counter()
        file, path = save.file, staged / save.file.name
        try:
            upload_file(place, epoch, file, str(path))
        except CheckpointError as error:
            # The file has changed since it was written.
            raise collection_error(file.name, error.faults[0].message) from error
        path.unlink(missing_ok=True)
        seconds = file.seconds + time.perf_counter() - started
        return replace(save, file=replace(file, seconds=seconds))

    def forget(self, token: str) -> None:
        """Delete from the node directory the files of a save. Thread-safe and repeatable."""
        if self._root is not None:
            shutil.rmtree(self._staged(token), ignore_errors=True)

    @contextlib.contextmanager
    def local_copy(
        self, path: str, ask: Callable[[int], Reply], where: Callable[[], Reply]
    ) -> Iterator[str]:
        """Fetch a master's file into the node directory for a ``with`` block; yield its path.

        Args:
            path: There.
            ask: Requests from the master the chunk at an offset.
            where: Asks it for where the file is, if it has none.
        """
        if self._root is None:
            yield path
            return
        place = self._root / f"in-{next(self._numbers)}"
        with disk_faults("E313", f"make {place}"):
            place.mkdir(mode=0o700)
        try:
            target = place / Path(path).name
            reference: Reference | None = where().wait()
            if reference is None:
                write_chunks(target, ask)
            else:
                fetch_object(reference, target)
            yield str(target)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Delete the node's directory, and its parents if they are empty then."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self.unlock()
            with contextlib.suppress(OSError):
                _remove_node(self._root.parent)

    def unlock(self) -> None:
        """Release the lock on a node's directory, which the process's end would release too."""
        held, self._lock_descriptor = self._lock_descriptor, -1
        if held >= 0:
            os.close(held)

    def _staged(self, token: str) -> Path:
        if self._root is None:
            raise RuntimeError("this node has no local directory")
        return self._root / Path(token).name


def _make_locked(root: Path) -> int:
    """Create and lock a node's directory; return the descriptor that holds the lock.

    What earlier processes of the node have left there is removed. One that still lives is another
    run of that name, a copy of this one, or was cut off and will remove its own.
    """
    node, run = root.parent, root.parent.parent
    run.parent.mkdir(parents=True, exist_ok=True)
    for path in (run, node):
        path.mkdir(mode=0o700, exist_ok=True)
        _require_owned(path)
    # Locked while it is created: another process must not remove it as abandoned.
    making = _open_directory(node)
    try:
        wait_for_lock(making)
        _remove_abandoned(node)
        root.mkdir(mode=0o700)
        held = _open_directory(root)
        wait_for_lock(held)
        return held
    finally:
        os.close(making)


def _remove_abandoned(node: Path) -> None:
    """Remove directories that ended processes of a node left beside its own node directory."""
    for left in node.iterdir():
        if not is_locked(left):
            shutil.rmtree(left, ignore_errors=True)


def _remove_node(node: Path) -> None:
    """Remove a node's directory, with what killed processes have left in it.

    A process that is starting there keeps the lock, and removes the rest itself.

    Raises:
        OSError: Another process holds the lock, or lives there.
    """
    ending = _open_directory(node)
    try:
        if not try_lock(ending):
            raise BlockingIOError
        _remove_abandoned(node)
        node.rmdir()
        node.parent.rmdir()
    finally:
        os.close(ending)


def _open_directory(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _require_owned(path: Path) -> None:
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise EnvironmentFaultError.of(
            "E313",
            f"{path} is not a directory of this user",
            "check who created it, or choose another 'checkpoint.node_dir'",
        )
