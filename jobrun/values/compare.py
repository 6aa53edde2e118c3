"""Compare two values bit for bit, and describe the first place inside them that differs.

By how much numbers differ is a question for ``jobrun.tools.diff``.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from jobrun.core.files.json_files import exact_json
from jobrun.values import container_flattening as trees
from jobrun.values.adapters.registry import Path, UnsavableError
from jobrun.values.axis_order import axis_order, gap_strides
from jobrun.values.blob_kinds import Value, describe, kind_of
from jobrun.values.container_flattening import Parts
from jobrun.values.directory_archive import is_archive, without_times
from jobrun.values.kinds.array import same_dtype, value_bytes
from jobrun.values.kinds.counter import Counter
from jobrun.values.object_state import ObjectState

# So many bytes of two arrays are compared at a time, of dtypes whose items are the bytes in them.
_PORTION_BYTES = 1 << 20
_WORD = np.dtype(np.uint64)
_BYTES_KINDS = "biufcmMSUV"


class Difference(NamedTuple):
    """The first place at which two values differ, and what differs there.

    Attributes:
        path: The steps from the value to it: keys, and numbers of items; empty for the value.
        what: What differs there: ``kind`` (with dtype and shape), ``order``, ``bits``, ``sharing``,
            ``structure``, or ``damage``.
        words: What it is, and what it is not: ``is float32 array of shape (3,), not float64 …``.
        expected: What is there in the first value; None where nothing is.
        found: What is there in the second.
    """

    path: Path
    what: Literal["kind", "order", "bits", "sharing", "structure", "presence"]
    words: str
    expected: Value = None
    found: Value = None

    def __str__(self) -> str:
        return f"'{'/'.join(self.path)}' {self.words}" if self.path else self.words


def find_difference(expected: Value, actual: Value) -> Difference | None:
    """Compare two values: return the path to their first difference, and what differs, or None.

    Compared are kind, dtype, shape, axis order and bits; of containers also the parts, how they
    belong together, and which of them are one thing at two places. Of two states of objects the
    order of keys and the class do not count: who takes a state in may give it out in another order.
    """
    if isinstance(expected, ObjectState) and isinstance(actual, ObjectState):
        ours, theirs = trees.flatten(expected.tree), trees.flatten(actual.tree)
        return _parts_difference(ours, theirs)
    if trees.is_tree(expected) and trees.is_tree(actual):
        ours, theirs = trees.flatten(expected), trees.flatten(actual)
        differs = _parts_difference(ours, theirs)
        return differs or _structure_difference((), ours.structure, theirs.structure)
    if is_archive(expected) and is_archive(actual):
        # When files were written is another thing in each run.
        expected, actual = without_times(expected), without_times(actual)
    return _leaf_difference((), expected, actual)


def _parts_difference(expected: Parts, actual: Parts) -> Difference | None:
    if expected.layouts != actual.layouts:
        _, members = (expected.layouts or actual.layouts)[0]
        return Difference(tuple(members[0][0]), "sharing", "does not share memory as it should")
    for path in dict.fromkeys((*expected.leaves, *expected.same, *actual.leaves, *actual.same)):
        ours, theirs = expected.same.get(path), actual.same.get(path)
        if ours != theirs:
            words = f"is {_shared_words(theirs)}, and should be {_shared_words(ours)}"
            return Difference(
                path, "sharing", words, expected.leaves.get(path), actual.leaves.get(path)
            )
        if ours is not None:
            continue
        if path not in actual.leaves:
            return Difference(path, "presence", "is not there", expected.leaves[path])
        if path not in expected.leaves:
            words = f"should not be there; it is {describe(actual.leaves[path])}"
            return Difference(path, "presence", words, None, actual.leaves[path])
        differs = _leaf_difference(path, expected.leaves[path], actual.leaves[path])
        if differs is not None:
            return differs
    return None


def _shared_words(path: Path | None) -> str:
    return "a thing of its own" if path is None else f"the same thing as '{'/'.join(path)}'"


def _leaf_difference(path: Path, expected: Value, actual: Value) -> Difference | None:
    ours, theirs = describe(expected), describe(actual)
    if ours != theirs:
        return Difference(path, "kind", f"is {theirs}, not {ours}", expected, actual)
    if isinstance(expected, np.ndarray | np.generic) and not same_dtype(
        expected.dtype, actual.dtype
    ):
        words = f"has the dtype {_dtype_words(actual.dtype)}, not {_dtype_words(expected.dtype)}"
        return Difference(path, "kind", words, expected, actual)
    if isinstance(expected, np.ndarray) and axis_order(expected) != axis_order(actual):
        words = f"has its axes in {_order_words(actual)} in memory, not in {_order_words(expected)}"
        return Difference(path, "order", words, expected, actual)
    if isinstance(expected, np.ndarray) and gap_strides(expected) != gap_strides(actual):
        words = f"lies at the strides {actual.strides} in memory, not at {expected.strides}"
        return Difference(path, "order", words, expected, actual)
    if same_bits(expected, actual):
        return None
    return Difference(path, "bits", f"is {theirs} of other bits", expected, actual)


def _dtype_words(dtype: np.dtype[Any]) -> str:
    metadata = f" with metadata {dict(dtype.metadata)}" if dtype.metadata else ""
    return f"{dtype!r}{metadata}"


def _order_words(array: np.ndarray[Any, Any]) -> str:
    order = axis_order(array)
    if not order:
        return "C order"
    is_fortran = list(order) == sorted(order, reverse=True)
    return "Fortran order" if is_fortran else f"the order {', '.join(map(str, order))}"


def _structure_difference(path: Path, expected: Any, actual: Any) -> Difference | None:
    """Compare how two values nest (keys, lengths, classes); return the first difference."""
    if type(expected) is type(actual) and isinstance(expected, dict | list):
        ours, theirs = (
            dict(enumerate(structure)) if isinstance(structure, list) else structure
            for structure in (expected, actual)
        )
        if list(ours) == list(theirs):
            inside = (
                _structure_difference((*path, str(key)), ours[key], theirs[key]) for key in ours
            )
            return next(filter(None, inside), None)
    if expected == actual and type(expected) is type(actual):
        return None
    at = "/".join(path)
    words = f"is put together in another way, at {at}: {_short(actual)}, not {_short(expected)}"
    return Difference((), "structure", words)


def _short(structure: Any) -> str:
    text = str(structure)
    return text if len(text) <= 80 else f"{text[:79]}…"


def same_bits(first: Value, second: Value) -> bool:
    """Compare two values: return whether they are equal in kind, dtype, shape and every bit.

    A NaN equals a NaN of the same payload only, and 0.0 differs from -0.0. Bytes between
    the fields of a record dtype do not count: a copy need not keep them.
    """
    if trees.is_tree(first) and trees.is_tree(second):
        return _same_trees(first, second)
    kind = kind_of(first)
    if kind is None or kind != kind_of(second):
        return False
    if kind in {"array", "numpy"}:
        return _same_arrays(np.asarray(first), np.asarray(second))
    return bool(_bits(first) == _bits(second))


def _same_trees(first: Value, second: Value) -> bool:
    try:
        ours, theirs = trees.flatten(first), trees.flatten(second)
    except UnsavableError:
        return False
    return same_parts(ours, theirs)


def same_parts(first: Parts, second: Parts) -> bool:
    """Return whether two flattened containers are equal in structure and in the bits of leaves."""
    return first.structure == second.structure and all(
        same_bits(leaf, second.leaves[path]) for path, leaf in first.leaves.items()
    )


def _same_arrays(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    if not same_dtype(first.dtype, second.dtype) or first.shape != second.shape:
        return False
    begins = [array.__array_interface__["data"][0] for array in (first, second)]
    if first.strides == second.strides and begins[0] == begins[1]:
        return True
    if first.dtype.names:
        return all(_same_arrays(first[name], second[name]) for name in first.dtype.names)
    if first.dtype.type in (np.longdouble, np.clongdouble):
        return all(map(np.array_equal, value_bytes(first), value_bytes(second)))
    return _same_bytes(first, second)


def _same_bytes(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> bool:
    """Compare the bytes of two arrays of one dtype and shape; large ones without a copy."""
    if first.nbytes <= _PORTION_BYTES or first.dtype.kind not in _BYTES_KINDS:
        return first.tobytes() == second.tobytes()
    if first.flags.c_contiguous and second.flags.c_contiguous:
        ours, theirs = (array.reshape(-1).view(np.uint8) for array in (first, second))
        # A portion at a time, so that what the comparison makes stays in the processor's cache;
        # eight bytes at a time, so that it makes less.
        whole = ours.size // _WORD.itemsize * _WORD.itemsize
        portions = (slice(at, at + _PORTION_BYTES) for at in range(0, whole, _PORTION_BYTES))
        return ours[whole:].tobytes() == theirs[whole:].tobytes() and all(
            np.array_equal(ours[:whole][portion].view(_WORD), theirs[:whole][portion].view(_WORD))
            for portion in portions
        )
    if len(first) == 1:
        return _same_bytes(first[0], second[0])
    half = len(first) // 2
    return _same_bytes(first[:half], second[:half]) and _same_bytes(first[half:], second[half:])


def _bits(value: Any) -> Any:
    if type(value) is float:
        return struct.pack("<d", value)
    if type(value) is complex:
        return struct.pack("<dd", value.real, value.imag)
    return value.value if type(value) is Counter else value


def require_adapted(
    structure: Any,
    leaves: Mapping[Path, Value],
    rebuilt: Value,
    *,
    reserved: tuple[str, ...] = (),
    gaps: bool = False,
    most_leaves: int = sys.maxsize,
) -> None:
    """Compare a rebuilt value bit for bit with the original; raise ``ValueError`` if they differ.

    Args:
        structure: Of the original, as ``flatten`` made it.
        leaves: Likewise.
        rebuilt: The value.
        reserved: As ``flatten`` was called.
        gaps: Likewise.
        most_leaves: Likewise.

    Raises:
        ValueError: It differs, with the place.
    """
    if trees.unbound_classes(rebuilt):
        return
    try:
        again = trees.flatten(rebuilt, reserved, gaps=gaps, most_leaves=most_leaves)
    except UnsavableError as error:
        raise ValueError(f"what its adapter makes of it: {error}") from error
    _require_same_leaves(leaves, again.leaves)
    # Where scalars are in the structures: of 1, 1.0 and True their texts differ.
    express = exact_json if again.inline else lambda same: same
    if express(again.structure) == express(structure):
        return
    _require_same_leaves(
        trees.take_out_inline(structure)[1], trees.take_out_inline(again.structure)[1]
    )
    raise ValueError("what its adapter makes of it: it is put together in another way")


def _require_same_leaves(ours: Mapping[Path, Value], theirs: Mapping[Path, Value]) -> None:
    for path, leaf in ours.items():
        if path not in theirs or not same_bits(theirs[path], leaf):
            raise ValueError(f"what its adapter makes of it: '{'/'.join(path)}' is another")
