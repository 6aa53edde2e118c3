"""Compare two checkpoints blob by blob, in memory or stored, and render the differences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.fault_text import visible
from jobrun.core.text.units import number
from jobrun.tools.checkpoint_blobs import StoredEpoch, StoredNode, open_node
from jobrun.tools.diff.value_diff import ValueDifference, compare_values
from jobrun.tools.inspect import Inspection
from jobrun.values.blob_kinds import Value, describe

_File = tuple[str, str]
# A longer number is not readable as a count.
_MANY = 10**6


@dataclass(frozen=True, slots=True)
class BlobDifference:
    """The difference of one blob between two checkpoints.

    Attributes:
        node: Whose it is.
        name: The blob's.
        apart: How its values differ; for one that only one side has, in words.
        only_in: ``first`` or ``second`` where only one side has it, else empty.
    """

    node: str
    name: str
    apart: ValueDifference
    only_in: str = ""


def compare_states(first: Inspection, second: Inspection) -> tuple[BlobDifference, ...]:
    """Compare all blobs of two checkpoints in memory, in the order of the first."""
    ours, theirs = _values(first), _values(second)
    found = []
    for node, name in (*ours, *(key for key in theirs if key not in ours)):
        if (node, name) not in theirs:
            found.append(only_in_first(node, name, ours[node, name]))
        elif (node, name) not in ours:
            found.append(only_in_second(node, name, theirs[node, name]))
        else:
            how = compare_values(ours[node, name], theirs[node, name])
            found.append(BlobDifference(node, name, how))
    return tuple(found)


def only_in_first(node: str, name: str, value: Value) -> BlobDifference:
    """Describe a blob that only the first of two compared checkpoints has."""
    how = ValueDifference(equal=False, words=f"{describe(value)} | not there")
    return BlobDifference(node, name, how, "first")


def only_in_second(node: str, name: str, value: Value) -> BlobDifference:
    """Describe a blob that only the second of two compared checkpoints has."""
    how = ValueDifference(equal=False, words=f"not there | {describe(value)}")
    return BlobDifference(node, name, how, "second")


def compare_stored(first: StoredEpoch, second: StoredEpoch) -> Iterator[BlobDifference]:
    """Compare all blobs of two stored checkpoints, node by node, in the order of the first.

    Nodes are matched by their names; where each side is one file, these two are compared,
    whatever their nodes are called.

    Raises:
        CheckpointError: A file is missing or damaged; what came before it was sound.
    """
    for ours, theirs in _pairs(first.files, second.files):
        with ExitStack() as stack:
            a = stack.enter_context(open_node(*ours)) if ours else None
            b = stack.enter_context(open_node(*theirs)) if theirs else None
            yield from _nodes_apart(a, b)


def render_differences(blobs: Sequence[BlobDifference], *, equal_too: bool = False) -> list[str]:
    """Render a line for each blob that differs between two checkpoints, and count equal ones.

    Args:
        blobs: All that were compared.
        equal_too: Give those a line, too, that do not differ.
    """
    several = len({blob.node for blob in blobs}) > 1
    equal = sum(blob.apart.equal for blob in blobs)
    rows = [
        (
            visible(f"{blob.node}.{blob.name}" if several else blob.name),
            render_difference(blob.apart),
        )
        for blob in blobs
        if equal_too or not blob.apart.equal
    ]
    alike = [f"  {equal} of {len(blobs)} blobs have the same bits"] if equal else []
    return [*align_columns(rows), *alike]


def render_difference(how: ValueDifference) -> str:
    """Render how a blob differs between checkpoints: ``3 of 10 differ, max 0.5, 12 ULP``."""
    if how.equal:
        return "the same bits"
    if how.words:
        return visible(how.words)
    parts = [f"{how.count} of {how.size} differ"]
    if how.largest is not None:
        parts.append(f"max {number(how.largest)}")
    # Of values that are far apart it says nothing that the largest difference does not.
    if how.ulps is not None and how.ulps < _MANY:
        parts.append(f"{how.ulps} ULP")
    if how.relative is not None:
        parts.append(f"relative norm {how.relative:.2e}")
    return ", ".join(parts)


def align_columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Align the lines of a checkpoint's differences: blobs in one column, words in the next."""
    known = list(rows)
    width = max((len(name) for name, _ in known), default=0)
    return [f"  {name:<{width}}  {text}" for name, text in known]


def _values(found: Inspection) -> dict[tuple[str, str], Value]:
    return {
        (file.header.node, blob.name): blob.value for file in found.files for blob in file.blobs
    }


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


def _nodes_apart(a: StoredNode | None, b: StoredNode | None) -> Iterator[BlobDifference]:
    ours = [blob.name for blob in a.blobs] if a else []
    theirs = {blob.name for blob in b.blobs} if b else set()
    for name in ours:
        if a and b and name in theirs:
            yield BlobDifference(a.node, name, compare_values(a.read(name), b.read(name)))
        elif a:
            yield only_in_first(a.node, name, a.read(name))
    for blob in b.blobs if b else ():
        if b and blob.name not in ours:
            yield only_in_second(b.node, blob.name, b.read(blob.name))
