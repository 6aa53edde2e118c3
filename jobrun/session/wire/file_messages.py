"""Define messages about checkpoint files that the master and the nodes' processes exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct

from jobrun.checkpoint.checkpoint_times import NodeSave


class Probe(Struct, frozen=True):
    """A file with known content, by which a node checks that it sees a directory."""

    path: str
    content: str


class WorkerFileSetup(Struct, frozen=True):
    """Where a node's files go; sent when its process starts.

    Attributes:
        incarnation: How many nodes had begun in this session before it, and itself.
        node_dir: See ``session.base.NodeFiles``.
        probe: What it has to see; None for nothing.
        objects: See ``session.base.NodeFiles``.
    """

    incarnation: int = 0
    node_dir: str = ""
    probe: Probe | None = None
    objects: str = ""


NO_FILE_SETUP = WorkerFileSetup()


class UploadedSave(Struct, frozen=True):
    """What a node has written and uploaded to the object store for one save.

    Attributes:
        token: Of which save; see ``FileChunk``.
        incarnation: The process that has written it.
        saves: What was written.
    """

    token: str
    incarnation: int
    saves: tuple[NodeSave, ...]


class FileChunk(Struct, frozen=True):
    """Some bytes of a file, and where they belong.

    Attributes:
        token: Of which save: the name of its staging directory, which no other has. Empty for a
            file of an epoch that is there.
        incarnation: The process that has written it; 0 for the master's.
        name: The file's.
        offset: Where in the file it begins, in bytes.
        size_bytes: Of the whole file.
        data: The bytes (uint8).
    """

    token: str
    incarnation: int
    name: str
    offset: int
    size_bytes: int
    data: np.ndarray[Any, np.dtype[np.uint8]]
