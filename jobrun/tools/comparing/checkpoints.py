"""How two checkpoints on disk differ, one blob in memory at a time. Shows nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from jobrun.tools.comparing.states import BlobApart, only_in_first, only_in_second
from jobrun.tools.comparing.values import apart
from jobrun.tools.stored import StoredEpoch, StoredNode, open_node

_File = tuple[str, str]


def stored_apart(first: StoredEpoch, second: StoredEpoch) -> Iterator[BlobApart]:
    """All blobs of either, node by node, in the order of the first; each as it was compared.

    Nodes are told apart by their names; where each side is one file, these two are compared,
    whatever their nodes are called.

    Raises:
        CheckpointError: A file is missing or damaged; what came before it was sound.
    """
    for ours, theirs in _pairs(first.files, second.files):
        with ExitStack() as stack:
            a = stack.enter_context(open_node(*ours)) if ours else None
            b = stack.enter_context(open_node(*theirs)) if theirs else None
            yield from _nodes_apart(a, b)


def _pairs(
    first: tuple[_File, ...], second: tuple[_File, ...]
) -> Iterator[tuple[_File | None, _File | None]]:
    if len(first) == len(second) == 1:
        yield first[0], second[0]
        return
    ours = {Path(file[0]).stem: file for file in first}
    theirs = {Path(file[0]).stem: file for file in second}
    for node in dict.fromkeys((*ours, *theirs)):
        yield ours.get(node), theirs.get(node)


def _nodes_apart(a: StoredNode | None, b: StoredNode | None) -> Iterator[BlobApart]:
    ours = [blob.name for blob in a.blobs] if a else []
    theirs = {blob.name for blob in b.blobs} if b else set()
    for name in ours:
        if a and b and name in theirs:
            yield BlobApart(a.node, name, apart(a.read(name), b.read(name)))
        elif a:
            yield only_in_first(a.node, name, a.read(name))
    for blob in b.blobs if b else ():
        if b and blob.name not in ours:
            yield only_in_second(b.node, blob.name, b.read(blob.name))
