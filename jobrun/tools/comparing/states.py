"""How two checkpoints differ, blob by blob."""

from __future__ import annotations

from dataclasses import dataclass

from jobrun.blobs.values import Value, describe
from jobrun.tools.comparing.values import Apart, apart
from jobrun.tools.inspection import Inspection


@dataclass(frozen=True, slots=True)
class BlobApart:
    """One blob of two checkpoints.

    Attributes:
        node: Whose it is.
        name: The blob's.
        apart: How its values differ; for one that only one side has, in words.
        only_in: ``first`` or ``second`` where only one side has it, else empty.
    """

    node: str
    name: str
    apart: Apart
    only_in: str = ""


def states_apart(first: Inspection, second: Inspection) -> tuple[BlobApart, ...]:
    """All blobs of either, in the order of the first, then what only the second has."""
    ours, theirs = _values(first), _values(second)
    found = []
    for node, name in (*ours, *(key for key in theirs if key not in ours)):
        if (node, name) not in theirs:
            found.append(only_in_first(node, name, ours[node, name]))
        elif (node, name) not in ours:
            found.append(only_in_second(node, name, theirs[node, name]))
        else:
            how = apart(ours[node, name], theirs[node, name])
            found.append(BlobApart(node, name, how))
    return tuple(found)


def only_in_first(node: str, name: str, value: Value) -> BlobApart:
    """A blob that the second checkpoint does not have."""
    how = Apart(equal=False, words=f"{describe(value)} | not there")
    return BlobApart(node, name, how, "first")


def only_in_second(node: str, name: str, value: Value) -> BlobApart:
    """A blob that the first checkpoint does not have."""
    how = Apart(equal=False, words=f"not there | {describe(value)}")
    return BlobApart(node, name, how, "second")


def _values(found: Inspection) -> dict[tuple[str, str], Value]:
    return {
        (file.header.node, blob.name): blob.value for file in found.files for blob in file.blobs
    }
