"""Define the messages between the master and its nodes about files of epochs."""

from __future__ import annotations

from typing import Any

import numpy as np

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.core.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class NodeFiles:
    """Where nodes write their files of epochs, as a run wants it.

    Attributes:
        nodes: Those that write such files, and read them.
        epochs_dir: Absolute path of the directory of all epochs, which each of these nodes has to
            see. Empty where they need not: nothing is saved, or it is collected.
        node_dir: Absolute path of a directory of each node's machine, in which there is nothing
            else, and from which files are collected; empty for none.
        objects: URL of the place in an object store to which nodes bring the files that they have
            written there; empty where the master gets them.
    """

    nodes: tuple[str, ...] = ()
    epochs_dir: str = ""
    node_dir: str = ""
    objects: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """A file with known content, by which a node checks that it sees a directory."""

    path: str
    content: str


@dataclass(frozen=True, slots=True)
class WorkerFileSetup:
    """Where a node's files go; sent when its process starts.

    Attributes:
        incarnation: How many nodes had begun in this session before it, and itself.
        node_dir: See ``NodeFiles``.
        probe: What it has to see; None for nothing.
        objects: See ``NodeFiles``.
    """

    incarnation: int = 0
    node_dir: str = ""
    probe: Probe | None = None
    objects: str = ""


NO_FILE_SETUP = WorkerFileSetup()


@dataclass(frozen=True, slots=True)
class UploadedSave:
    """What a node has written and uploaded to the object store for one save.

    Attributes:
        token: Of which save; see ``FileChunk``.
        incarnation: The process that has written it.
        saves: What was written.
    """

    token: str
    incarnation: int
    saves: tuple[NodeSave, ...]


@dataclass(frozen=True, slots=True)
class FileChunk:
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
