"""Carry checkpoint files that nodes wrote on their own machines to the master, and back.

An epoch's files lie with their nodes until all of them are here, compared with their digests, or
in an object store, to which each node uploads its own; then the epoch is committed, as if the nodes
had written them here. Data are fenced twice: they arrive over the connection of the node that was
asked, which is closed when the node counts as lost, and they name the save and the incarnation of
the node that wrote them. The name of an object contains the digest of its bytes, so a late node can
only upload what is there already, or what no manifest refers to.

Files travel in chunks, of which the reader requests one after another, at most two ahead of what it
has written: that bounds the memory on both sides however long the file is. What a node writes in
its own directory (``NodeDirectory``) counts for nothing before the master has it::

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
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.read.safe_file import open_regular_file
from jobrun.checkpoint.stores.directory import leftover_name
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.checkpoint.stores.object_references import (
    Reference,
    fetch_object,
    local_path,
    read_reference,
    write_reference,
)
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.failpoints import reach
from jobrun.core.files.disk import create_file, disk_faults, make_directory, sync_file, write_all
from jobrun.core.files.file_lock import is_locked, try_lock, wait_for_lock
from jobrun.core.system_calls import allocate_file, read_into
from jobrun.core.text.object_url import ObjectUrl, parse_object_url
from jobrun.graph.query import walk
from jobrun.graph.steps import LoadState
from jobrun.session.wire.file_messages import (
    NO_FILE_SETUP,
    FileChunk,
    Probe,
    UploadedSave,
    WorkerFileSetup,
)
from jobrun.session.wire.partition_group import Partition
from jobrun.session.wire.rpc import Reply, wait_all
from jobrun.session.wire.worker_handle import WorkerHandle

# Files collected in parallel. With the chunks under way of each, this bounds the memory.
CONCURRENT_FILES = 4
_LOOK_S = 0.1
_LOOKS = 20
CHUNK_BYTES = 1 << 22


def collect_from_nodes(
    tickets: Sequence[Ticket], directory: str, link: Callable[[str], WorkerHandle]
) -> Mapping[Ticket, Reply]:
    """Collect in the master the files of a save that nodes write on their own machines.

    Args:
        tickets: Of one save.
        directory: Where the files are to be; its name is the save's token.
        link: By node, the link of its place.

    Returns:
        For each ticket what a node answers that writes its file there by itself.
    """
    token = PurePath(directory).name
    links = {ticket: link(ticket.node) for ticket in tickets}
    written = {ticket: links[ticket].rpc.call("persist", (ticket,), token) for ticket in tickets}
    answers = {ticket: Reply() for ticket in tickets}
    unclaimed = iter(tickets)
    turn, going = threading.Lock(), [min(CONCURRENT_FILES, len(tickets))]

    def work() -> None:
        while (ticket := _take_ticket(unclaimed, turn)) is not None:
            _collect_file(links[ticket], written[ticket], directory, answers[ticket])
        with turn:
            going[0] -= 1
            is_last = not going[0]
        for worker in dict.fromkeys(links.values()) if is_last else ():
            worker.send("forget_save", token)

    for _ in range(going[0]):
        threading.Thread(target=work, name="jobrun-collect", daemon=True).start()
    return answers


def upload_from_nodes(
    tickets: Sequence[Ticket], directory: str, objects: str, link: Callable[[str], WorkerHandle]
) -> tuple[NodeSave, ...]:
    """Ask each node to upload the checkpoint files on its own disk to the object store.

    Args:
        tickets: Of one save.
        directory: Where it is said where the files are; its name is the save's token.
        objects: URL of the place of the epochs.
        link: By node, the link of its place.

    Raises:
        EnvironmentFaultError: Some are missing, or the store or the disk refuses them.
        NodeLostError: A node is lost.
    """
    # Lazy: only runs with an object store need it.
    from jobrun.checkpoint.stores.object_store import object_name, require_uploaded  # noqa: PLC0415

    token, url = PurePath(directory).name, parse_object_url(objects)
    links = {ticket: link(ticket.node) for ticket in tickets}
    asked = {ticket: links[ticket].rpc.call("persist", (ticket,), token) for ticket in tickets}
    try:
        uploads = wait_all(asked)
    finally:
        for worker in dict.fromkeys(links.values()):
            worker.send("forget_save", token)
    saves = tuple(
        s for ticket in tickets for s in _require_from(uploads[ticket], token, links[ticket])
    )
    if saves:
        require_uploaded(url, tickets[0].epoch, [save.file for save in saves])
    for save in saves:
        path = Path(directory, save.file.name)
        with disk_faults("E313", f"write {path}"):
            write_reference(path, Reference(url, object_name(tickets[0].epoch, save.file)))
        reach("collect.file-synced")
    return saves


def _require_from(brought: UploadedSave, token: str, link: WorkerHandle) -> tuple[NodeSave, ...]:
    if (brought.token, brought.incarnation) != (token, link.incarnation):
        actual = f"it is of save {brought.token}, by incarnation {brought.incarnation}"
        wanted = f"and was to be of save {token}, by incarnation {link.incarnation}"
        raise collection_error(f"the file of node '{link.node}'", f"{actual}, {wanted}")
    return brought.saves


def _take_ticket(unclaimed: Iterator[Ticket], turn: threading.Lock) -> Ticket | None:
    with turn:
        return next(unclaimed, None)


def _collect_file(link: WorkerHandle, written: Reply, directory: str, answer: Reply) -> None:
    try:
        saves = tuple(_collect_save(link, save, Path(directory)) for save in written.wait())
    except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
        answer.put((False, error))
    else:
        answer.put((True, saves))


def _collect_save(link: WorkerHandle, save: NodeSave, directory: Path) -> NodeSave:
    """Copy a node's file of a save to the master's directory in chunks, and verify the copy.

    Raises:
        EnvironmentFaultError: It is not what its node wrote, or cannot be written here.
        NodeLostError: Its node is lost.
    """
    started = time.perf_counter()
    file, token = save.file, directory.name
    ask = partial(link.rpc.call, "chunk", token, file.name)
    with disk_faults("E313", f"replace {directory / file.name}"):
        # The file of a removed epoch, spared so that a local node could overwrite it.
        (directory / file.name).unlink(missing_ok=True)
    write_chunks(directory / file.name, ask, token, link.incarnation, file.size_bytes)
    damage = find_damage(str(directory), file, whole=True)
    if damage:
        raise collection_error(file.name, damage)
    seconds = file.seconds + time.perf_counter() - started
    return replace(save, file=replace(file, seconds=seconds))


def serve_chunk(part: Partition, path: str, offset: int) -> FileChunk:
    """Return a chunk of a checkpoint file on the master's disk, for a node that loads it.

    Raises:
        CheckpointError: It is not there, or cannot be read.
    """
    _require_loaded(part, path)
    return read_chunk(path, offset)


def serve_reference(part: Partition, path: str) -> Reference | None:
    """Return where in the object store a node finds a file to load; None if the master has it.

    Raises:
        CheckpointError: What is said of it is damaged.
    """
    _require_loaded(part, path)
    return None if Path(path).exists() else read_reference(path)


def _require_loaded(part: Partition, path: str) -> None:
    steps = (step for task in part.group.tasks for step in walk(task.steps))
    loads = (step for step in steps if isinstance(step, LoadState))
    if not any(path in (load.file, *(part.file for part in load.parts)) for load in loads):
        raise RuntimeError(f"node '{part.node}' does not load {path}")


# The functions that answer the requests of nodes that load.
FILE_REQUESTS: dict[str, Callable[..., Any]] = {"file": serve_chunk, "where": serve_reference}


@contextlib.contextmanager
def write_probe(directory: str) -> Iterator[Probe | None]:
    """Write a test file in the master's directory, to check that nodes on other machines see it.

    Raises:
        EnvironmentFaultError: E313, it cannot be made.
    """
    if not directory:
        yield None
        return
    probe = Probe(str(Path(directory, leftover_name("tmp", 0))), secrets.token_hex(16))
    with disk_faults("E313", f"write {probe.path}"):
        make_directory(directory, 0o755)
        Path(probe.path).write_text(probe.content, encoding="ascii")
    try:
        yield probe
    finally:
        with contextlib.suppress(OSError):
            Path(probe.path).unlink()


def is_visible(probe: Probe | None) -> bool:
    """Return whether this node sees the master's test file and can write files beside it."""
    if probe is None:
        return True
    path = Path(probe.path)
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError):
            if path.read_text(encoding="ascii") == probe.content:
                return os.access(path.parent, os.W_OK | os.X_OK)
        # A file system over a network may need a moment.
        time.sleep(_LOOK_S)
    return False


def require_visible(seen: Mapping[str, bool], directory: str) -> None:
    """Refuse nodes that must write files in the master's directory but cannot (E397).

    Raises:
        EnvironmentFaultError: E397.
    """
    blind = [node for node, visible in seen.items() if not visible]
    if blind:
        raise EnvironmentFaultError.of(
            "E397",
            f"node '{blind[0]}' does not see {directory}, or may not write there, but its part of "
            "each epoch is written there",
            "put the run (--run-dir) or 'checkpoint.dir' on a disk that all machines share; or let "
            "nodes write on their own: checkpoint: {node_dir: /var/tmp, collect: master}",
        )


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
        """Return the directory where this node writes a save's files: its own or the master's.

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
        """Read a chunk of a saved file in this node's local directory, to send it to the master.

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
        """Upload a save's files from this node's local directory to the object store, if any.

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
            self._bring(self._objects, self._staged(token), epoch, save) for save in saves
        )
        return UploadedSave(Path(token).name, self._incarnation, uploaded)

    def _bring(self, url: ObjectUrl, staged: Path, epoch: int, save: NodeSave) -> NodeSave:
        # Lazy: only runs with an object store need it.
        from jobrun.checkpoint.stores.object_store import upload_file  # noqa: PLC0415

        started = time.perf_counter()
        file, path = save.file, staged / save.file.name
        try:
            upload_file(url, epoch, file, str(path))
        except CheckpointError as error:
            # The file has changed since it was written.
            raise collection_error(file.name, error.faults[0].message) from error
        path.unlink(missing_ok=True)
        seconds = file.seconds + time.perf_counter() - started
        return replace(save, file=replace(file, seconds=seconds))

    def forget(self, token: str) -> None:
        """Delete the files of one save from this node's local directory.

        Can be called from any thread, and repeatedly.
        """
        if self._root is not None:
            shutil.rmtree(self._staged(token), ignore_errors=True)

    @contextlib.contextmanager
    def local_copy(
        self, path: str, ask: Callable[[int], Reply], where: Callable[[], Reply]
    ) -> Iterator[str]:
        """Copy a master's file to this node's local directory for a ``with`` block; yield the path.

        Args:
            path: There.
            ask: Requests from the master the chunk at an offset.
            where: Asks it for where the file is, if it has none.
        """
        if self._root is None:
            yield path
            return
        directory = self._root / f"in-{next(self._numbers)}"
        with disk_faults("E313", f"make {directory}"):
            directory.mkdir(mode=0o700)
        try:
            target = directory / Path(path).name
            reference: Reference | None = where().wait()
            if reference is None:
                write_chunks(target, ask)
            else:
                fetch_object(reference, target)
            yield str(target)
        finally:
            shutil.rmtree(directory, ignore_errors=True)

    def close(self) -> None:
        """Delete this node's local directory, and the directories above that are then empty."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self.unlock()
            with contextlib.suppress(OSError):
                _remove_node(self._root.parent)

    def unlock(self) -> None:
        """Release the lock on this node's local directory, as the end of the process would."""
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
    """Remove local directories that earlier processes of a node, which have ended, have left."""
    for directory in node.iterdir():
        if not is_locked(directory):
            shutil.rmtree(directory, ignore_errors=True)


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


def read_chunk(path: str, offset: int, token: str = "", incarnation: int = 0) -> FileChunk:
    """Read up to 4 MiB of a checkpoint file at an offset, to be sent between node and master.

    Raises:
        CheckpointError: There is no such file, or it cannot be read.
    """
    with open_regular_file(path, at=local_path(path)) as (descriptor, size):
        data = np.empty(max(0, min(CHUNK_BYTES, size - offset)), np.uint8)
        view, done = data.data, 0
        while done < len(view):
            count = read_into(descriptor, [view[done:]], offset + done)
            if not count:
                raise OSError(f"it has become shorter than {size} bytes")
            done += count
    return FileChunk(token, incarnation, Path(path).name, offset, size, data)


def write_chunks(
    target: Path,
    ask: Callable[[int], Reply],
    token: str = "",
    incarnation: int = 0,
    size_bytes: int | None = None,
) -> int:
    """Write a file from the chunks that a node or the master sends; return its size in bytes.

    Args:
        target: Where to; its name is that of the file.
        ask: Requests the chunk at an offset.
        token: The save that each chunk must belong to; see ``FileChunk``.
        incarnation: The same.
        size_bytes: How long the file has to be; None to take it from the first chunk.

    Raises:
        EnvironmentFaultError: E327, a chunk belongs to something else; E313, writing failed.
    """
    with disk_faults("E313", f"write {target}"):
        descriptor = create_file(target)
        try:
            size = _write_arriving(
                descriptor, target, ask, (token, incarnation, target.name), size_bytes
            )
            sync_file(descriptor)
        finally:
            os.close(descriptor)
    reach("collect.file-synced")
    return size


def _write_arriving(
    descriptor: int,
    target: Path,
    ask: Callable[[int], Reply],
    of: tuple[str, int, str],
    size: int | None,
) -> int:
    coming = deque([(0, ask(0))])
    asked = CHUNK_BYTES
    while coming:
        offset, answer = coming.popleft()
        chunk = answer.wait()
        size = chunk.size_bytes if size is None else size
        _require_chunk(chunk, of, offset, size, target)
        if not offset and size:
            # ENOSPC is raised at once, and writing allocated blocks takes a fraction of the time.
            allocate_file(descriptor, size)
        if asked < size:
            coming.append((asked, ask(asked)))
            asked += CHUNK_BYTES
        write_all(descriptor, chunk.data.data)
        reach("collect.piece-written")
        # Freed before waiting for the next one: a chunk holds 4 MiB.
        del chunk, answer
    return size or 0


def _require_chunk(
    chunk: FileChunk, expected: tuple[str, int, str], offset: int, size: int, target: Path
) -> None:
    source = (chunk.token, chunk.incarnation, chunk.name)
    if source != expected:
        difference = (
            f"it belongs to {_describe_source(*source)}, not to {_describe_source(*expected)}"
        )
        raise collection_error(target.name, difference)
    length = max(0, min(CHUNK_BYTES, size - offset))
    if (chunk.offset, chunk.size_bytes, len(chunk.data)) != (offset, size, length):
        difference = (
            f"{len(chunk.data)} bytes at offset {chunk.offset} of {chunk.size_bytes} arrived"
        )
        raise collection_error(
            target.name, f"{difference}, expected {length} at offset {offset} of {size}"
        )


def _describe_source(token: str, incarnation: int, name: str) -> str:
    save = f"save {token}" if token else "a saved epoch"
    return f"{name} of {save}, written by incarnation {incarnation}"


def collection_error(name: str, reason: str) -> EnvironmentFaultError:
    """Build error E327: a file that arrived in chunks differs from what the node wrote."""
    return EnvironmentFaultError.of(
        "E327",
        f"{name} was damaged on its way from the node that wrote it: {reason}",
        "check the disks of both machines and the network between them, then resume",
    )
