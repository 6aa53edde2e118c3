"""What a master and its nodes tell each other about nodes' files of epochs. Only values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jobrun.checkpoint.times import NodeSave


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
    """A file that says something, by which a node tells whether it sees a directory."""

    path: str
    said: str


@dataclass(frozen=True, slots=True)
class Footing:
    """What a node is told about its files when it begins.

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


NO_FOOTING = Footing()


@dataclass(frozen=True, slots=True)
class Brought:
    """What a node has written, and brought to the object store.

    Attributes:
        token: Of which save; see ``Piece``.
        incarnation: Who has written it.
        saves: What that came to.
    """

    token: str
    incarnation: int
    saves: tuple[NodeSave, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """Some bytes of a file, and of which.

    Attributes:
        token: Of which save: the name of its staging directory, which no other has. Empty for a
            file of an epoch that is there.
        incarnation: Who has written it; 0 for the master's.
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
