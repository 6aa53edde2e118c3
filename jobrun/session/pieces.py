"""Files, piece by piece: read for another process, and written as they come from there.

Whoever wants a file asks for each piece, and for no more than two before it has written one: so
much memory is taken on both sides, however long the file is. How pieces travel is not known here.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jobrun.checkpoint.plainfile import open_plain
from jobrun.core.crashpoints import reach
from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats.files import disk_faults, write_all
from jobrun.session.calls import Answer
from jobrun.session.nodefiles import Piece

PIECE_BYTES = 1 << 22


def read_piece(path: str, offset: int, token: str = "", incarnation: int = 0) -> Piece:
    """A piece of a file, from an offset in bytes; an empty one of an empty file.

    Raises:
        CheckpointError: There is no such file, or it cannot be read.
    """
    with open_plain(path) as (descriptor, size):
        data = np.empty(max(0, min(PIECE_BYTES, size - offset)), np.uint8)
        view, done = data.data, 0
        while done < len(view):
            count = os.preadv(descriptor, [view[done:]], offset + done)
            if not count:
                raise OSError(f"it has become shorter than {size} bytes")
            done += count
    return Piece(token, incarnation, Path(path).name, offset, size, data)


def write_pieces(
    target: Path,
    ask: Callable[[int], Answer],
    token: str = "",
    incarnation: int = 0,
    size_bytes: int | None = None,
) -> int:
    """Write a new file as its pieces come, durably; its length in bytes.

    Args:
        target: Where to; its name is that of the file.
        ask: Asks for the piece at an offset.
        token: What each piece has to be of; see ``Piece``.
        incarnation: The same.
        size_bytes: How long the file has to be; None for what the first piece says.

    Raises:
        EnvironmentFaultError: E327, a piece is of something else; or the disk says no.
    """
    with disk_faults("E313", f"write {target}"):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(target, flags, 0o644)
        try:
            size = _write(descriptor, target, ask, (token, incarnation, target.name), size_bytes)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    reach("collect.file-synced")
    return size


def _write(
    descriptor: int,
    target: Path,
    ask: Callable[[int], Answer],
    of: tuple[str, int, str],
    size: int | None,
) -> int:
    coming = deque([(0, ask(0))])
    asked = PIECE_BYTES
    while coming:
        offset, answer = coming.popleft()
        piece = answer.wait()
        size = piece.size_bytes if size is None else size
        _expect(piece, of, offset, size, target)
        if not offset and size:
            # A full disk is told at once, and writing takes a fraction of the time.
            os.posix_fallocate(descriptor, 0, size)
        if asked < size:
            coming.append((asked, ask(asked)))
            asked += PIECE_BYTES
        write_all(descriptor, piece.data.data)
        reach("collect.piece-written")
        # Not kept while the next one is waited for.
        del piece, answer
    return size or 0


def _expect(piece: Piece, of: tuple[str, int, str], offset: int, size: int, target: Path) -> None:
    found = (piece.token, piece.incarnation, piece.name)
    if found != of:
        how = f"it is of {_of_what(*found)}, and was to be of {_of_what(*of)}"
        raise not_collected(target.name, how)
    length = max(0, min(PIECE_BYTES, size - offset))
    if (piece.offset, piece.size_bytes, len(piece.data)) != (offset, size, length):
        how = f"{len(piece.data)} bytes at {piece.offset} of {piece.size_bytes} came"
        raise not_collected(target.name, f"{how}, wanted were {length} at {offset} of {size}")


def _of_what(token: str, incarnation: int, name: str) -> str:
    save = f"save {token}" if token else "a saved epoch"
    return f"{name} of {save}, written by incarnation {incarnation}"


def not_collected(name: str, how: str) -> EnvironmentFaultError:
    """The error of a file that did not come as it was written."""
    return EnvironmentFaultError.of(
        "E327",
        f"{name} was not collected as its node has written it: {how}",
        "see to the disks of both machines and the network between them, then resume",
    )
