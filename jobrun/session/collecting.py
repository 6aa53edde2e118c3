"""The master's part in collecting nodes' files, and in giving them back. Not what nodes do.

An epoch's files lie with their nodes until all of them are here, compared with their digests, or
in an object store, to which each node brings its own; then the epoch is committed, as if the nodes
had written them here. What comes is fenced twice: it comes over the connection of the node that was
asked, which ends when the node counts as lost, and it says for which save, and by which incarnation
of the node, it was written. An object has the digest of its bytes in its name, so that whoever is
late can only bring what is there, or what nobody asks for.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path, PurePath
from typing import Any

from jobrun.checkpoint.directory import leftover_name
from jobrun.checkpoint.elsewhere import Reference, reference_of, write_reference
from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.presence import damage_of
from jobrun.checkpoint.times import NodeSave
from jobrun.core.crashpoints import reach
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.objecturl import parse_object_url
from jobrun.formats.files import disk_faults, make_directory
from jobrun.graph.query import walk
from jobrun.graph.steps import LoadState
from jobrun.session.calls import Answer, wait_all
from jobrun.session.link import Link
from jobrun.session.nodefiles import Brought, Piece, Probe
from jobrun.session.pieces import not_collected, read_piece, write_pieces
from jobrun.session.share import Share

# So many files come at a time: with what is under way of each, that bounds the memory.
AT_ONCE = 4
_LOOK_S = 0.1
_LOOKS = 20


def collected(
    tickets: Sequence[Ticket], directory: str, link: Callable[[str], Link]
) -> Mapping[Ticket, Answer]:
    """Let nodes write what the tickets stand for, all at a time, and collect the files.

    Args:
        tickets: Of one save.
        directory: Where the files are to be; its name is the save's token.
        link: By node, the link of its place.

    Returns:
        For each ticket what a node answers that writes its file there by itself.
    """
    token = PurePath(directory).name
    links = {ticket: link(ticket.node) for ticket in tickets}
    written = {one: links[one].calls.ask("persist", (one,), token) for one in tickets}
    answers = {one: Answer() for one in tickets}
    left = iter(tickets)
    turn, going = threading.Lock(), [min(AT_ONCE, len(tickets))]

    def work() -> None:
        while (ticket := _next(left, turn)) is not None:
            _collect(links[ticket], written[ticket], directory, answers[ticket])
        with turn:
            going[0] -= 1
            is_last = not going[0]
        for one in dict.fromkeys(links.values()) if is_last else ():
            one.send("forget_save", token)

    for _ in range(going[0]):
        threading.Thread(target=work, name="jobrun-collect", daemon=True).start()
    return answers


def gathered(
    tickets: Sequence[Ticket], directory: str, objects: str, link: Callable[[str], Link]
) -> tuple[NodeSave, ...]:
    """Let nodes write what the tickets stand for, and bring it to an object store.

    Args:
        tickets: Of one save.
        directory: Where it is said where the files are; its name is the save's token.
        objects: URL of the place of the epochs.
        link: By node, the link of its place.

    Raises:
        EnvironmentFaultError: They are not all there; or the store, or the disk, says no.
        NodeLostError: A node is lost.
    """
    # Only who keeps checkpoints in an object store needs it.
    from jobrun.checkpoint.objectstore import expect_brought, object_name  # noqa: PLC0415

    token, place = PurePath(directory).name, parse_object_url(objects)
    links = {ticket: link(ticket.node) for ticket in tickets}
    asked = {one: links[one].calls.ask("persist", (one,), token) for one in tickets}
    try:
        found = wait_all(asked)
    finally:
        for one in dict.fromkeys(links.values()):
            one.send("forget_save", token)
    saves = tuple(s for one in tickets for s in _expected(found[one], token, links[one]))
    if saves:
        expect_brought(place, tickets[0].epoch, [save.file for save in saves])
    for save in saves:
        path = Path(directory, save.file.name)
        with disk_faults("E313", f"write {path}"):
            write_reference(path, Reference(place, object_name(tickets[0].epoch, save.file)))
        reach("collect.file-synced")
    return saves


def _expected(brought: Brought, token: str, link: Link) -> tuple[NodeSave, ...]:
    if (brought.token, brought.incarnation) != (token, link.incarnation):
        how = f"it is of save {brought.token}, by incarnation {brought.incarnation}"
        wanted = f"and was to be of save {token}, by incarnation {link.incarnation}"
        raise not_collected(f"the file of node '{link.node}'", f"{how}, {wanted}")
    return brought.saves


def _next(left: Iterator[Ticket], turn: threading.Lock) -> Ticket | None:
    with turn:
        return next(left, None)


def _collect(link: Link, written: Answer, directory: str, answer: Answer) -> None:
    try:
        saves = tuple(_collected_save(link, one, Path(directory)) for one in written.wait())
    except BaseException as error:  # noqa: BLE001 - raised where the answer is waited for
        answer.put((False, error))
    else:
        answer.put((True, saves))


def _collected_save(link: Link, save: NodeSave, directory: Path) -> NodeSave:
    """The file of a save is here, whole.

    Raises:
        EnvironmentFaultError: It is not what its node has written; or the disk says no.
        NodeLostError: Its node is lost.
    """
    started = time.perf_counter()
    file, token = save.file, directory.name
    ask = partial(link.calls.ask, "piece", token, file.name)
    write_pieces(directory / file.name, ask, token, link.incarnation, file.size_bytes)
    damage = damage_of(str(directory), file, whole=True)
    if damage:
        raise not_collected(file.name, damage)
    seconds = file.seconds + time.perf_counter() - started
    return replace(save, file=replace(file, seconds=seconds))


def given_piece(share: Share, path: str, offset: int) -> Piece:
    """A piece of a file that a node loads in its part of the running group, and of no other.

    Raises:
        CheckpointError: It is not there, or cannot be read.
    """
    _expect_loaded(share, path)
    return read_piece(path, offset)


def given_reference(share: Share, path: str) -> Reference | None:
    """Where a file is that a node loads, if it is in an object store; see ``given_piece``.

    Raises:
        CheckpointError: What is said of it is damaged.
    """
    _expect_loaded(share, path)
    return None if Path(path).exists() else reference_of(path)


def _expect_loaded(share: Share, path: str) -> None:
    steps = (one for task in share.group.tasks for one in walk(task.steps))
    loads = (one for one in steps if isinstance(one, LoadState))
    if not any(path in (one.file, *(part.file for part in one.parts)) for one in loads):
        raise RuntimeError(f"node '{share.node}' does not load {path}")


# What nodes ask for when they load, and who answers.
GIVEN: dict[str, Callable[..., Any]] = {"file": given_piece, "where": given_reference}


@contextlib.contextmanager
def probing(directory: str) -> Iterator[Probe | None]:
    """While inside, a file that nodes can look for is where epochs go; None for no directory.

    Raises:
        EnvironmentFaultError: E313, it cannot be made.
    """
    if not directory:
        yield None
        return
    probe = Probe(str(Path(directory, leftover_name("tmp", 0))), secrets.token_hex(16))
    with disk_faults("E313", f"write {probe.path}"):
        make_directory(directory, 0o755)
        Path(probe.path).write_text(probe.said, encoding="ascii")
    try:
        yield probe
    finally:
        with contextlib.suppress(OSError):
            Path(probe.path).unlink()


def sees(probe: Probe | None) -> bool:
    """Whether the file is seen here, and others could be written beside it."""
    if probe is None:
        return True
    path = Path(probe.path)
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError):
            if path.read_text(encoding="ascii") == probe.said:
                return os.access(path.parent, os.W_OK | os.X_OK)
        # A file system over a network may need a moment.
        time.sleep(_LOOK_S)
    return False


def expect_seen(seen: Mapping[str, bool], directory: str) -> None:
    """Refuse nodes that do not see where the epochs are.

    Raises:
        EnvironmentFaultError: E397.
    """
    blind = [node for node, one in seen.items() if not one]
    if blind:
        raise EnvironmentFaultError.of(
            "E397",
            f"node '{blind[0]}' does not see {directory}, or may not write there, and its part of "
            "each epoch goes there",
            "put the run (--run-dir) or 'checkpoint.dir' on a disk that all machines share; or let "
            "nodes write on their own: checkpoint: {node_dir: /var/tmp, collect: master}",
        )
