"""Read a checkpoint file in chunks for another process, and write one from arriving chunks.

The reader requests one chunk after another, at most two ahead of what it has written, which bounds
the memory on both sides however long the file is.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from pathlib import Path

import numpy as np

from jobrun.checkpoint.read.safe_file import open_regular_file
from jobrun.checkpoint.stores.object_references import local_path
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.failpoints import reach
from jobrun.core.files.disk import create_file, disk_faults, sync_file, write_all
from jobrun.core.system_calls import allocate_file, read_into
from jobrun.session.wire.file_messages import FileChunk
from jobrun.session.wire.rpc import Reply

CHUNK_BYTES = 1 << 22


def read_chunk(path: str, offset: int, token: str = "", incarnation: int = 0) -> FileChunk:
    """Read the chunk of a checkpoint file at an offset; an empty one of an empty file.

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
    """Write a new file durably from the chunks that arrive; return its length in bytes.

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
            size = _write(descriptor, target, ask, (token, incarnation, target.name), size_bytes)
            sync_file(descriptor)
        finally:
            os.close(descriptor)
    reach("collect.file-synced")
    return size


def _write(
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
    chunk: FileChunk, of: tuple[str, int, str], offset: int, size: int, target: Path
) -> None:
    found = (chunk.token, chunk.incarnation, chunk.name)
    if found != of:
        how = f"it belongs to {_describe_source(*found)}, not to {_describe_source(*of)}"
        raise collection_error(target.name, how)
    length = max(0, min(CHUNK_BYTES, size - offset))
    if (chunk.offset, chunk.size_bytes, len(chunk.data)) != (offset, size, length):
        how = f"{len(chunk.data)} bytes at offset {chunk.offset} of {chunk.size_bytes} arrived"
        raise collection_error(
            target.name, f"{how}, expected {length} at offset {offset} of {size}"
        )


def _describe_source(token: str, incarnation: int, name: str) -> str:
    save = f"save {token}" if token else "a saved epoch"
    return f"{name} of {save}, written by incarnation {incarnation}"


def collection_error(name: str, how: str) -> EnvironmentFaultError:
    """Build the error of a file whose arrived chunks differ from what the node wrote (E327)."""
    return EnvironmentFaultError.of(
        "E327",
        f"{name} was damaged on its way from the node that wrote it: {how}",
        "check the disks of both machines and the network between them, then resume",
    )
