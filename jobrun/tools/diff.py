"""Compare two runs, two checkpoints, or two values, and render how they differ.

Checkpoints are compared blob by blob, in memory or as they are stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.hdf5.dtypes import is_custom
from jobrun.core.errors import CheckpointError
from jobrun.core.text.big_integers import integer_text
from jobrun.runner.identity.drift import (
    Change,
    compare_data,
    compare_mappings,
    compare_numerics,
    compare_packages,
    compare_specs,
)
from jobrun.runner.identity.recorded_job import is_from_python, load_recorded
from jobrun.runner.resume.finished import list_result_changes
from jobrun.runner.rundir.run_directories import Run
from jobrun.runtime.context.imported_code import read_imported
from jobrun.spec.load import LoadedSpec
from jobrun.tools.inspection import Inspection, inspect
from jobrun.tools.lazy_blobs import StoredEpoch, StoredNode, open_node
from jobrun.tools.runs.metrics import read_metrics
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.compare import find_difference
from jobrun.values.kinds.counter import Counter

_File = tuple[str, str]

Array = np.ndarray[Any, np.dtype[Any]]
_MOST_LETTERS = 84


class RunDifference(Struct, frozen=True):
    """The differences between two runs, or a run and a spec.

    Attributes:
        spec: Fields of the spec and values of params.
        code: Callables and scripts whose source differs.
        data: Data files.
        environment: Versions, numerics and environment variables.
        metrics: Name, and its last value in each; None where there is none.
        state: Every blob of the newest epochs, or of the epochs named; empty for a spec.
        epochs: Which epochs those are; -1 where there is none.
    """

    spec: tuple[Change, ...]
    code: tuple[Change, ...] = ()
    data: tuple[Change, ...] = ()
    environment: tuple[Change, ...] = ()
    metrics: tuple[tuple[str, Any, Any], ...] = ()
    state: tuple[BlobDifference, ...] = ()
    epochs: tuple[int, int] = (-1, -1)

    @property
    def state_is_equal(self) -> bool:
        """Return whether the diff of two runs found their final states equal bit for bit."""
        return all(blob.apart.equal for blob in self.state)


def compare_runs(first: Run, second: Run, epochs: tuple[str, str] = ("", "")) -> RunDifference:
    """Compare two runs by their specs, machines, metrics and final states.

    Args:
        first: One.
        second: The other.
        epochs: Numbers of epochs to compare, as text; empty for the newest.

    Raises:
        CheckpointError: An epoch that is named is not there, or a checkpoint is damaged.
    """
    state, compared = _states(first, second, epochs)
    metrics = _metrics(first, second)
    return replace(compare_records(first, second), metrics=metrics, state=state, epochs=compared)


def compare_records(first: Run, second: Run) -> RunDifference:
    """Compare what two runs recorded of their specs, code, data and environment."""
    ours, theirs = first.record, second.record
    imported, others = read_imported(first.path), read_imported(second.path)
    return RunDifference(
        spec=_spec_changes(first, second),
        code=(
            *compare_mappings("callables", ours.callables, theirs.callables),
            *compare_mappings("imported", _shared(imported, others), _shared(others, imported)),
        ),
        data=compare_data(_shared(ours.data, theirs.data), theirs.data, whole=True),
        environment=(
            *compare_mappings("env", ours.variables, theirs.variables),
            *compare_numerics(ours.environment, theirs.environment),
            *compare_packages(ours.packages, theirs.packages),
        ),
    )


def compare_run_with_spec(run: Run, present: LoadedSpec) -> RunDifference:
    """Compare a run with the present spec, and with the code, data and versions that it finds.

    Raises:
        SpecError: The spec does not compile.
        CheckpointError: What the run recorded cannot be read.
    """
    changes = list_result_changes(run, present)
    code = _select(changes, "callables.", "imported.")
    data = _select(changes, "data.")
    environment = _select(changes, "numerics.", "packages.", "env.")
    known = {*code, *data, *environment}
    spec = tuple(change for change in changes if change not in known)
    return RunDifference(spec=spec, code=code, data=data, environment=environment)


def _shared(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the files that both runs recorded: which ones a run uses, its spec and code say."""
    return {name: facts for name, facts in ours.items() if name in theirs}


def _select(changes: tuple[Change, ...], *prefixes: str) -> tuple[Change, ...]:
    return tuple(change for change in changes if change.field.startswith(prefixes))


def _spec_changes(first: Run, second: Run) -> tuple[Change, ...]:
    if is_from_python(first) or is_from_python(second):
        return ()
    return compare_specs(load_recorded(first), load_recorded(second))


def _metrics(first: Run, second: Run) -> tuple[tuple[str, Any, Any], ...]:
    ours, theirs = _latest(first), _latest(second)
    return tuple(
        (name, ours.get(name), theirs.get(name)) for name in dict.fromkeys((*ours, *theirs))
    )


def _latest(run: Run) -> dict[str, Any]:
    metrics = read_metrics(run.path)
    latest: dict[str, Any] = {}
    for _, values in metrics.rows:
        pairs = zip(metrics.names, values, strict=True)
        latest |= {name: value for name, value in pairs if value is not None}
    return latest


def _states(
    first: Run, second: Run, epochs: tuple[str, str]
) -> tuple[tuple[BlobDifference, ...], tuple[int, int]]:
    inspections = []
    for run, epoch in zip((first, second), epochs, strict=True):
        try:
            inspections.append(inspect(f"{run.path}@{epoch}" if epoch else str(run.path), Path()))
        except CheckpointError:
            if epoch or run.has_saved:
                raise
            return (), (-1, -1)
    return compare_states(inspections[0], inspections[1]), (
        inspections[0].epoch,
        inspections[1].epoch,
    )


class BlobDifference(Struct, frozen=True):
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
    """Compare each blob of two checkpoints that are loaded in memory, in the order of the first."""
    ours, theirs = _values(first), _values(second)
    differences = []
    for node, name in (*ours, *(key for key in theirs if key not in ours)):
        if (node, name) not in theirs:
            differences.append(only_in_first(node, name, ours[node, name]))
        elif (node, name) not in ours:
            differences.append(only_in_second(node, name, theirs[node, name]))
        else:
            difference = compare_values(ours[node, name], theirs[node, name])
            differences.append(BlobDifference(node, name, difference))
    return tuple(differences)


def only_in_first(node: str, name: str, value: Value) -> BlobDifference:
    """Build the ``BlobDifference`` of a blob that only the first of two checkpoints has."""
    difference = ValueDifference(equal=False, words=f"{describe(value)} | not there")
    return BlobDifference(node, name, difference, "first")


def only_in_second(node: str, name: str, value: Value) -> BlobDifference:
    """Build the ``BlobDifference`` of a blob that only the second of two checkpoints has."""
    difference = ValueDifference(equal=False, words=f"not there | {describe(value)}")
    return BlobDifference(node, name, difference, "second")


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


def _values(inspection: Inspection) -> dict[tuple[str, str], Value]:
    return {
        (file.header.node, blob.name): blob.value
        for file in inspection.files
        for blob in file.blobs
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


class ValueDifference(Struct, frozen=True):
    """The difference between two values of a blob.

    Attributes:
        equal: In kind, dtype, shape, axis order and every bit.
        words: What differs when they cannot be compared number by number, else empty.
        count: How many elements differ; of these numbers the rest:
        size: How many elements there are.
        largest: The largest absolute difference, as a Python int or float; None without one.
        ulps: The largest distance in units in the last place, of floats of one dtype; for
            complex numbers of their parts.
        relative: The Euclidean norm of the difference over that of the first value.
    """

    equal: bool
    words: str = ""
    count: int = 0
    size: int = 0
    largest: int | float | None = None
    ulps: int | None = None
    relative: float | None = None


def compare_values(first: Value, second: Value) -> ValueDifference:
    """Measure for a checkpoint diff how far a blob's two values differ, element by element.

    NaN is equal to a NaN of the same bits; where only one side is finite, elements count as
    different and are left out of the distances.
    """
    differs = find_difference(first, second)
    if differs is None:
        return ValueDifference(equal=True)
    if differs.what == "kind" and not differs.path:
        return ValueDifference(equal=False, words=f"{_words(first)} | {_words(second)}")
    if differs.what != "bits" or differs.path:
        return ValueDifference(equal=False, words=str(differs))
    a, b = _array(first), _array(second)
    is_narrow = is_custom(a.dtype) and "float" in a.dtype.name
    if is_narrow:
        # bfloat16 and the like: each of their numbers is one of float32 too.
        a, b = a.astype(np.float32), b.astype(np.float32)
    if a.dtype.kind not in "biufc":
        return ValueDifference(equal=False, words=_other_words(first, second), size=a.size)
    different = _bits(a) != _bits(b)
    differing = different.any(axis=-1) if different.ndim > 1 else different
    x, y = a.reshape(-1)[differing], b.reshape(-1)[differing]
    usable = np.isfinite(x) & np.isfinite(y)
    x, y = x[usable], y[usable]
    return ValueDifference(
        equal=False,
        count=int(differing.sum()),
        size=int(a.size),
        largest=_largest(x, y),
        ulps=None if is_narrow else _ulps(x, y),
        relative=_relative(a, b),
    )


def _array(value: Value) -> Array:
    plain = value.value if isinstance(value, Counter) else value
    array = np.asarray(plain)
    # Byte order has been compared; distances need numbers of the machine.
    return np.ascontiguousarray(array.astype(array.dtype.newbyteorder("="), copy=False))


def _words(value: Value) -> str:
    """Describe one value for a checkpoint diff: its kind, or a number or short text itself."""
    if type(value) is int:
        return f"{describe(value)} {integer_text(value)}"
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, bool | float | complex | str) and len(repr(plain)) <= _MOST_LETTERS:
        return f"{describe(value)} {plain!r}"
    return describe(value)


def _other_words(first: Value, second: Value) -> str:
    if np.ndim(first):
        return "other values"
    texts = [
        integer_text(value) if type(value) is int else repr(value) for value in (first, second)
    ]
    return " | ".join(texts) if sum(map(len, texts)) <= _MOST_LETTERS else "other values"


def _bits(array: Array) -> Array:
    """View an array as bytes for the diff of two checkpoints, along a new last axis."""
    return array.reshape(-1).view(np.uint8).reshape(array.size, array.dtype.itemsize)


def _largest(x: Array, y: Array) -> int | float | None:
    if x.size == 0:
        return None
    if x.dtype.kind == "b":
        return 1
    if x.dtype.kind in "iu":
        # In the unsigned type the difference of any two fits.
        unsigned = np.dtype(f"u{x.dtype.itemsize}")
        over, under = np.maximum(x, y).view(unsigned), np.minimum(x, y).view(unsigned)
        return int((over - under).max())
    with np.errstate(over="ignore"):
        return float(np.abs(x - y).max())


def _ulps(x: Array, y: Array) -> int | None:
    if x.dtype.kind == "c":
        x, y = x.view(x.real.dtype), y.view(y.real.dtype)
    if x.dtype.kind != "f" or x.dtype.itemsize not in (2, 4, 8) or x.size == 0:
        return None
    ranks_x, ranks_y = _rank(x), _rank(y)
    return int((np.maximum(ranks_x, ranks_y) - np.minimum(ranks_x, ranks_y)).max())


def _rank(x: Array) -> Array:
    """Rank the floats of a blob, so that a checkpoint diff can state distances in ULPs.

    Floats of one sign are ordered as their bits are; both zeros get neighbouring places.
    """
    bits = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    sign = bits.dtype.type(1 << (8 * x.dtype.itemsize - 1))
    return np.where(bits & sign, ~bits, bits | sign)


def _relative(a: Array, b: Array) -> float | None:
    x, y = a.reshape(-1), b.reshape(-1)
    if a.dtype.kind == "b" or not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = x.astype(wide), y.astype(wide)
    with np.errstate(over="ignore"):
        norm, distance = float(np.linalg.norm(x)), float(np.linalg.norm(x - y))
    return distance / norm if 0 < norm < math.inf else None
