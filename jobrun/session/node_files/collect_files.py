"""Collect nodes' checkpoint files in the master, and serve stored files to nodes that load.

An epoch's files lie with their nodes until all of them are here, compared with their digests, or
in an object store, to which each node uploads its own; then the epoch is committed, as if the nodes
had written them here. Data are fenced twice: they arrive over the connection of the node that was
asked, which is closed when the node counts as lost, and they name the save and the incarnation of
the node that wrote them. The name of an object contains the digest of its bytes, so a late node can
only upload what is there already, or what no manifest refers to.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.stores.directory import leftover_name
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.checkpoint.stores.object_references import Reference, read_reference, write_reference
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.failpoints import reach
from jobrun.core.files.disk import disk_faults, make_directory
from jobrun.core.lazy_dataclass import replace
from jobrun.core.object_url import parse_object_url
from jobrun.graph.query import walk
from jobrun.graph.steps import LoadState
from jobrun.session.node_files.file_chunks import collection_error, read_chunk, write_chunks
from jobrun.session.wire.file_messages import FileChunk, Probe, UploadedSave
from jobrun.session.wire.partition_group import Partition
from jobrun.session.wire.rpc import Reply, wait_all
from jobrun.session.wire.worker_handle import WorkerHandle

# So many files come at a time: with what is under way of each, that bounds the memory.
CONCURRENT_FILES = 4
_LOOK_S = 0.1
_LOOKS = 20


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
    written = {one: links[one].rpc.call("persist", (one,), token) for one in tickets}
    answers = {one: Reply() for one in tickets}
    left = iter(tickets)
    turn, going = threading.Lock(), [min(CONCURRENT_FILES, len(tickets))]

    def work() -> None:
        while (ticket := _next(left, turn)) is not None:
            _collect_file(links[ticket], written[ticket], directory, answers[ticket])
        with turn:
            going[0] -= 1
            is_last = not going[0]
        for one in dict.fromkeys(links.values()) if is_last else ():
            one.send("forget_save", token)

    for _ in range(going[0]):
        threading.Thread(target=work, name="jobrun-collect", daemon=True).start()
    return answers


def upload_from_nodes(
    tickets: Sequence[Ticket], directory: str, objects: str, link: Callable[[str], WorkerHandle]
) -> tuple[NodeSave, ...]:
    """Ask nodes to upload their files of a save themselves, instead of collecting the files.

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

    token, place = PurePath(directory).name, parse_object_url(objects)
    links = {ticket: link(ticket.node) for ticket in tickets}
    asked = {one: links[one].rpc.call("persist", (one,), token) for one in tickets}
    try:
        found = wait_all(asked)
    finally:
        for one in dict.fromkeys(links.values()):
            one.send("forget_save", token)
    saves = tuple(s for one in tickets for s in _require_from(found[one], token, links[one]))
    if saves:
        require_uploaded(place, tickets[0].epoch, [save.file for save in saves])
    for save in saves:
        path = Path(directory, save.file.name)
        with disk_faults("E313", f"write {path}"):
            write_reference(path, Reference(place, object_name(tickets[0].epoch, save.file)))
        reach("collect.file-synced")
    return saves


def _require_from(brought: UploadedSave, token: str, link: WorkerHandle) -> tuple[NodeSave, ...]:
    if (brought.token, brought.incarnation) != (token, link.incarnation):
        how = f"it is of save {brought.token}, by incarnation {brought.incarnation}"
        wanted = f"and was to be of save {token}, by incarnation {link.incarnation}"
        raise collection_error(f"the file of node '{link.node}'", f"{how}, {wanted}")
    return brought.saves


def _next(left: Iterator[Ticket], turn: threading.Lock) -> Ticket | None:
    with turn:
        return next(left, None)


def _collect_file(link: WorkerHandle, written: Reply, directory: str, answer: Reply) -> None:
    try:
        saves = tuple(_collect_save(link, one, Path(directory)) for one in written.wait())
    except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
        answer.put((False, error))
    else:
        answer.put((True, saves))


def _collect_save(link: WorkerHandle, save: NodeSave, directory: Path) -> NodeSave:
    """Collect a node's file of a save, chunk by chunk, in the master's directory; verify it there.

    Raises:
        EnvironmentFaultError: It is not what its node wrote, or cannot be written here.
        NodeLostError: Its node is lost.
    """
    started = time.perf_counter()
    file, token = save.file, directory.name
    ask = partial(link.rpc.call, "chunk", token, file.name)
    write_chunks(directory / file.name, ask, token, link.incarnation, file.size_bytes)
    damage = find_damage(str(directory), file, whole=True)
    if damage:
        raise collection_error(file.name, damage)
    seconds = file.seconds + time.perf_counter() - started
    return replace(save, file=replace(file, seconds=seconds))


def serve_chunk(part: Partition, path: str, offset: int) -> FileChunk:
    """Serve a chunk of a file in the master to a node that loads the file.

    Raises:
        CheckpointError: It is not there, or cannot be read.
    """
    _require_loaded(part, path)
    return read_chunk(path, offset)


def serve_reference(part: Partition, path: str) -> Reference | None:
    """Serve a loading node the reference to a stored file's object; None if the file is here.

    Raises:
        CheckpointError: What is said of it is damaged.
    """
    _require_loaded(part, path)
    return None if Path(path).exists() else read_reference(path)


def _require_loaded(part: Partition, path: str) -> None:
    steps = (one for task in part.group.tasks for one in walk(task.steps))
    loads = (one for one in steps if isinstance(one, LoadState))
    if not any(path in (one.file, *(part.file for part in one.parts)) for one in loads):
        raise RuntimeError(f"node '{part.node}' does not load {path}")


# What nodes ask for when they load, and who answers.
FILE_REQUESTS: dict[str, Callable[..., Any]] = {"file": serve_chunk, "where": serve_reference}


@contextlib.contextmanager
def write_probe(directory: str) -> Iterator[Probe | None]:
    """Write the master's probe file, by which nodes find whether they share its directory.

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
    """Return whether this node sees the master's probe file, so that nothing need be collected."""
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
    """Refuse nodes that cannot write in the master's directory while no files are collected (E397).

    Raises:
        EnvironmentFaultError: E397.
    """
    blind = [node for node, one in seen.items() if not one]
    if blind:
        raise EnvironmentFaultError.of(
            "E397",
            f"node '{blind[0]}' does not see {directory}, or may not write there, but its part of "
            "each epoch is written there",
            "put the run (--run-dir) or 'checkpoint.dir' on a disk that all machines share; or let "
            "nodes write on their own: checkpoint: {node_dir: /var/tmp, collect: master}",
        )
