"""Load all or some blobs of an open checkpoint file, verifying each byte on its way.

Arrays are read to where they stay, several portions at a time; what is stored in another form
passes through a portion's memory. Beside the blobs themselves a few megabytes are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import starmap
from operator import attrgetter
from threading import Thread
from typing import Any

import numpy as np

from jobrun.checkpoint.blob_parts import group_links, unflatten
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES
from jobrun.checkpoint.hdf5.dtypes import dtype_text
from jobrun.checkpoint.hdf5.file_layout import PAGED_BYTES
from jobrun.checkpoint.hdf5.index_parser import BlobType, StructureError
from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK
from jobrun.checkpoint.hdf5.value_codec import Array, decode, with_axis_order
from jobrun.checkpoint.read.compressed_chunks import read_chunks, split_chunks
from jobrun.checkpoint.read.partial_read import PortionReader, RowSpans, flat_memory
from jobrun.checkpoint.read.verified_file import Bytes, StateFile, split_blocks
from jobrun.core.errors import CheckpointError, Fault
from jobrun.core.system_calls import advise_sequential, usable_cpus
from jobrun.core.text.names import did_you_mean
from jobrun.values.blob_kinds import Value

# Kind, dtype and shape; None where they do not matter.
Expected = tuple[str | None, str | None, tuple[int, ...] | None]
# More do not make a disk faster that two cannot keep busy.
MOST_THREADS = 4
# Portions that are read while a thread is started.
_WORTH_A_THREAD = 4
# In what one thread reads at a time.
_MANY = 128
# To copy less than this costs no more than a system call with another address.
_LEAST_PLACED_BYTES = 1 << 10
_FORM = attrgetter("dtype", "shape", "flags.c_contiguous")
_BUFFERS = frozenset(np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?")


def load(
    file: StateFile,
    names: Iterable[str] | None = None,
    *,
    partial: bool = False,
    into: Mapping[str, Array] | None = None,
) -> dict[str, Value]:
    """Load the named or all blobs of an open checkpoint file; containers stay flattened.

    Where all are wanted, or ``names`` leaves none out, every byte of the file is verified, else
    the blocks that hold the wanted ones.

    Args:
        file: An open one.
        names: The blobs.
        partial: Leave out names that it does not hold.
        into: Arrays that receive the values of some blobs, and are the result; of equal dtype
            and shape, in C order, which they keep. If reading fails, what is in them has no
            meaning.

    Raises:
        CheckpointError: E307 if a blob is missing, E325 if an array of ``into`` does not fit;
            then nothing was read. E303, E306 if the file is damaged or not jobrun's.
    """
    index = file.index
    wanted = index.names if names is None else list(names)
    if names is not None and not index.rows.keys() >= set(wanted):
        missing = next(name for name in wanted if name not in index.rows)
        if not partial:
            raise CheckpointError.of(
                "E307",
                f"{file.path} has no blob '{missing}'",
                did_you_mean(missing, index.names),
            )
        wanted = [name for name in wanted if name in index.rows]
    rows = range(len(wanted)) if names is None else [index.rows[name] for name in wanted]
    arrays = into or {}
    found = zip(map(index.rows.get, arrays), arrays.values(), strict=True)
    targets = {row: array for row, array in found if row is not None}
    _require_fitting(file, targets)
    values = _Loading(file, rows, targets).run()
    return dict(zip(wanted, map(values.__getitem__, rows), strict=True))


def require_types(file: StateFile, expected: Mapping[str, Expected]) -> None:
    """Check before a load that the blobs of an open checkpoint file have the expected types (E325).

    Args:
        file: An open one.
        expected: Kind, dtype (as ``dtypes.dtype_text`` writes it) and shape by name; None for
            what is not known. Names that the file does not have are passed over.

    Raises:
        CheckpointError: E325, one fault for each blob that differs.
    """
    index = file.index
    there = {name: index.type_of(index.rows[name]) for name in expected if name in index.rows}
    faults = [
        Fault(
            "E325",
            f"blob '{name}' in {file.path} is {_describe_type(*_facts(there[name]))}; "
            f"expected was {_describe_type(*wanted)}",
            "use the spec that it was saved with, or fork the run without this blob",
        )
        for name, wanted in expected.items()
        if name in there and not _fits(_facts(there[name]), wanted)
    ]
    if faults:
        raise CheckpointError(*faults)


def _facts(kind: BlobType) -> tuple[str, str, tuple[int, ...]]:
    return kind.kind, kind.dtype, () if kind.kind == "text" else kind.shape


def _fits(facts: Expected, wanted: Expected) -> bool:
    return all(want in {None, fact} for want, fact in zip(wanted, facts, strict=True))


def _describe_type(kind: str | None, dtype: str | None, shape: tuple[int, ...] | None) -> str:
    words = [
        kind or "something",
        "" if dtype is None else f"of dtype {dtype}",
        "" if shape is None else f"of shape {shape}",
    ]
    return " ".join(filter(None, words))


def _require_fitting(file: StateFile, targets: Mapping[int, Array]) -> None:
    index = file.index
    numbers = index.table["type"][list(targets)].tolist()
    # Ten thousand that fit have few forms; words are made for the others.
    forms = set(zip(numbers, map(_FORM, targets.values()), strict=True))
    unfit = {form for form in forms if not _is_form_of(index.types[form[0]], *form[1])}
    if not unfit:
        return
    doubtful = {
        index.names[row]: array
        for number, (row, array) in zip(numbers, targets.items(), strict=True)
        if (number, _FORM(array)) in unfit
    }
    types: dict[str, Expected] = {
        name: ("array", dtype_text(one.dtype), one.shape) for name, one in doubtful.items()
    }
    require_types(file, types)
    for name, array in doubtful.items():
        if not array.flags.c_contiguous:
            raise CheckpointError.of(
                "E325",
                f"blob '{name}' in {file.path} cannot be read into an array that is not in C order",
                "give one that is",
            )


def _is_form_of(
    kind: BlobType, dtype: np.dtype[Any], shape: tuple[int, ...], is_c_order: bool
) -> bool:
    return kind.is_plain and is_c_order and dtype == kind.stored and shape == kind.shape


class _Loading:
    """One call of ``load``.

    Args:
        file: The file.
        wanted: The rows of the wanted blobs.
        targets: Arrays to be read into, by row.
    """

    def __init__(
        self, file: StateFile, wanted: Sequence[int], targets: Mapping[int, Array]
    ) -> None:
        self._file = file
        self._targets = targets
        self._values: dict[int, Value] = {}
        index = file.index
        # Those that take the bytes of the file as they are.
        self._direct = targets
        if not all(one.is_plain for one in index.types):
            self._direct = {r: one for r, one in targets.items() if index.type_of(r).is_plain}
        counts = np.bincount(np.fromiter(wanted, np.int64, len(wanted)), minlength=len(index.names))
        rows = np.flatnonzero(counts)
        self._is_whole = len(rows) == len(index.names)
        is_packed = np.isin(rows, np.array(list(index.packings), np.int64))
        self._packed: list[int] = rows[is_packed].tolist()
        rows = rows[~is_packed]
        sizes = index.table["size"][rows]
        self._empty: list[int] = rows[sizes == 0].tolist()
        # These are what the file has, byte by byte.
        values = np.array([one.is_plain and not one.order for one in index.types], bool)
        types = index.table["type"]
        is_placed = values[types[rows]] & (sizes >= _LEAST_PLACED_BYTES)
        is_placed |= sizes >= PAGED_BYTES
        self._placed = RowSpans(index, rows[is_placed])
        self._other = RowSpans(index, rows[~is_placed & (sizes > 0)])
        buffers = np.array([_has_buffer(one.stored) for one in index.types], bool)
        placed = self._placed.rows
        self._is_decoded = ~values[types[placed]]
        # Large ones, too: they are cut where blocks end.
        self._is_read_as_bytes = ~buffers[types[placed]] | (
            index.table["size"][placed] >= PAGED_BYTES
        )

    def run(self) -> dict[int, Value]:
        """Load all wanted values of the checkpoint file, and return them by row of its index."""
        rows = self._placed.rows.tolist()
        arrays = self._places(rows)
        # By whole lists: of ten thousand blobs each step counts.
        buffers = list(arrays)
        for at in np.flatnonzero(self._is_read_as_bytes):
            buffers[at] = flat_memory(arrays[at])
        reading = PortionReader(self._file, self._placed, buffers, self._other, self._take)
        parts = [part for blocks in self._blocks() for part in split_blocks(blocks)]
        if len(parts) > 1:
            # Reading ahead while a portion is taken apart; threads alone would confuse it.
            advise_sequential(self._file.descriptor)
        # To take apart thousands of small blobs is Python's work: two threads would only be in
        # each other's way.
        if len(self._other.rows) > _MANY:
            crowded = {part.start for part in parts if reading.count_other(part) > _MANY}
            for part in parts:
                if part.start in crowded:
                    reading.read(part)
            parts = [part for part in parts if part.start not in crowded]
        _each(reading.read, parts, _WORTH_A_THREAD)
        reading.take_halves()
        self._values.update(zip(rows, arrays, strict=True))
        for at in np.flatnonzero(self._is_decoded):
            self._give(rows[at], arrays[at])
        for row, array in zip(self._empty, self._places(self._empty), strict=True):
            self._give(row, array)
        self._unpack()
        return self._values

    def _blocks(self) -> list[range]:
        """Choose the ranges of the file's blocks that a load reads: all, to load all blobs."""
        if self._is_whole:
            return [range(self._file.parts.blocks)]
        # How many more blobs begin than end in each block.
        changes = np.zeros(self._file.parts.blocks + 2, np.int64)
        for spans in (self._other, self._placed):
            np.add.at(changes, (spans.begin - USER_BLOCK) // BLOCK_BYTES + 1, 1)
            np.add.at(changes, (spans.end - USER_BLOCK - 1) // BLOCK_BYTES + 2, -1)
        edges = np.flatnonzero(np.diff(np.cumsum(changes) > 0)).tolist()
        return [range(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True)]

    def _places(self, rows: list[int]) -> list[Array]:
        """Return the array into which each blob is loaded: its target, or a new array."""
        if len(self._direct) >= len(rows):
            # Usually there is one for each.
            with suppress(KeyError):
                return list(map(self._direct.__getitem__, rows))
        index, direct = self._file.index, self._direct
        forms = [(one.shape, one.stored) for one in index.types]
        found = map(forms.__getitem__, index.table["type"][rows].tolist())
        if not direct:
            return list(starmap(np.empty, found))
        return [
            direct[row] if row in direct else np.empty(*form)
            for row, form in zip(rows, found, strict=True)
        ]

    def _take(self, rows: list[int], data: Bytes) -> None:
        """Load several small blobs of one type from their adjacent bytes in the checkpoint file."""
        kind = self._file.index.type_of(rows[0])
        matrix = data.view(kind.stored).reshape(len(rows), *kind.shape)
        if not (kind.is_plain and kind.shape):
            for number, row in enumerate(rows):
                self._give(row, matrix[number, ...].copy())
        elif kind.order:
            for row, array in zip(rows, matrix, strict=True):
                self._give(row, array)
        elif not self._targets:
            self._values.update(zip(rows, [array.copy() for array in matrix], strict=True))
        else:
            self._take_to_targets(rows, matrix)

    def _take_to_targets(self, rows: list[int], matrix: Array) -> None:
        targets, values = self._targets, self._values
        for row, array in zip(rows, matrix, strict=True):
            target = targets.get(row)
            if target is None:
                values[row] = array.copy()
            else:
                target[...] = array
                values[row] = target

    def _unpack(self) -> None:
        arrays = dict(zip(self._packed, self._places(self._packed), strict=True))
        parts = [(row, part) for row in arrays for part in split_chunks(self._file, row)]
        _each(lambda part: read_chunks(self._file, part[0], arrays[part[0]], part[1]), parts)
        for row, array in arrays.items():
            self._give(row, array)

    def _give(self, row: int, stored: Array) -> None:
        """Decode a blob's stored array to its loaded value, in the blob's target if it has one."""
        index = self._file.index
        kind, target = index.type_of(row), self._targets.get(row)
        if target is stored:
            value = stored
        elif kind.is_plain:
            value = with_axis_order(stored, kind.order)
        else:
            value = self._decoded(index.names[row], kind, stored)
        if target is not None and target is not value:
            target[...] = value
            value = target
        self._values[row] = value

    def _decoded(self, name: str, kind: BlobType, stored: Array) -> Value:
        with self._file.structure():
            try:
                return decode(kind.kind, kind.dtype, stored, kind.order)
            except ValueError as error:
                raise StructureError(f"blob '{name}': {error}") from error


def _has_buffer(dtype: np.dtype[Any]) -> bool:
    """Return whether blobs of a dtype can be loaded directly, as their arrays have a buffer."""
    return dtype.isnative and dtype.char in _BUFFERS


def _each(act: Callable[[Any], None], portions: Sequence[Any], least: int = 1) -> None:
    """Load portions of a checkpoint file by this thread and others, each portion by one of them.

    Each takes the next portion that is left. This thread begins at once: to wait for threads of a
    pool until they have started would cost as much as they save, where the file is in memory.

    Args:
        act: Loads one.
        portions: All of them.
        least: How many there must be for each thread.
    """
    left = iter(portions)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for portion in left:
                act(portion)
                if errors:
                    return
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    count = min(MOST_THREADS, usable_cpus(), len(portions) // least)
    threads = [Thread(target=work, name=f"checkpoint-reader-{n}") for n in range(1, count)]
    for thread in threads:
        thread.start()
    work()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def load_blobs(file: StateFile, names: Iterable[str], *, partial: bool = False) -> dict[str, Value]:
    """Load the named blobs of an open checkpoint file; rebuild containers and object states.

    Args:
        file: An open one.
        names: The blobs.
        partial: Leave out names that it does not hold.

    Raises:
        CheckpointError: As by ``load.load``.
    """
    wanted = list(names)
    index = file.index
    parts = group_links(index.names)
    if not parts:
        return load(file, wanted, partial=partial)
    own = {name: parts.get(name) or [index.quoted.get(name, name)] for name in wanted}
    values = load(file, [link for links in own.values() for link in links], partial=partial)
    found: dict[str, Value] = {}
    for name, links in own.items():
        if name in parts:
            found[name] = _unflatten(file, name, {link: values[link] for link in links})
        elif links[0] in values:
            found[name] = values[links[0]]
    return found


def _unflatten(file: StateFile, name: str, values: dict[str, Value]) -> Value:
    with file.structure():
        try:
            return unflatten(name, values)
        except ValueError as error:
            raise StructureError(f"blob '{name}': {error}") from error
