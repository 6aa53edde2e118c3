"""Load all or some blobs of an open checkpoint file; verify each byte, decompress chunks.

Arrays are read to where they stay, several portions at a time; what is stored in another form
passes through a portion's memory. Beside the blobs themselves a few megabytes are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, starmap
from operator import attrgetter, eq
from threading import Thread
from typing import Any, NamedTuple, cast

import numpy as np

from jobrun.checkpoint.blob_parts import OtherValueError, unflatten
from jobrun.checkpoint.hdf5.dataset_names import group_links
from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES
from jobrun.checkpoint.hdf5.dtypes import dtype_text, storage_dtype
from jobrun.checkpoint.hdf5.file_layout import PAGED_BYTES
from jobrun.checkpoint.hdf5.filters import chunk_origins, chunk_slices, encoder_for
from jobrun.checkpoint.hdf5.index_parser import BlobType, Index, StructureError
from jobrun.checkpoint.hdf5.user_block import SIZE as USER_BLOCK
from jobrun.checkpoint.hdf5.value_codec import Array, decode, with_axis_order
from jobrun.checkpoint.hdf5.value_digest import digest_value
from jobrun.checkpoint.read.partial_read import Places, PortionReader, RowSpans, flat_memory
from jobrun.checkpoint.read.verified_file import (
    Bytes,
    StateFile,
    split_blocks,
    wrong_value_error,
)
from jobrun.core.errors import CheckpointError, Fault
from jobrun.core.system_calls import advise_sequential, usable_cpus
from jobrun.core.text.names import did_you_mean
from jobrun.values.blob_kinds import Value
from jobrun.values.file_memory import find_file_memory, release_pages

# Kind, dtype and shape; None where they do not matter.
Expected = tuple[str | None, str | None, tuple[int, ...] | None]
# Most bytes of the blobs that are loaded together for verification.
_VERIFIED_BYTES = 1 << 26
# More threads than this did not make a disk faster.
MOST_THREADS = 4
# Portions that can be read in the time that starting a thread takes.
_WORTH_A_THREAD = 4
# Chunks of a compressed blob to read by one call.
_MANY_CHUNKS = 8
# From this many small blobs in a portion on, only one thread reads it.
_MANY = 128
# Smaller blobs are copied: that is as fast as one more buffer in a system call.
_LEAST_PLACED_BYTES = 1 << 10
_FORM = attrgetter("dtype", "shape", "flags.c_contiguous")
_BUFFERS = frozenset(np.typecodes["AllInteger"] + np.typecodes["AllFloat"] + "?")


class _Targets(NamedTuple):
    """Arrays that receive blobs of an open checkpoint file.

    Attributes:
        rows: Of the blobs.
        arrays: One for each.
    """

    rows: Places
    arrays: list[Array]


def load(
    file: StateFile,
    names: Iterable[str] | None = None,
    *,
    partial: bool = False,
    into: Mapping[str, Array] | None = None,
) -> dict[str, Value]:
    """Load blobs of a checkpoint file into a dict, in which each part of a container has a key.

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
    into = into or {}
    targets = _find_targets(index, into)
    _require_fitting(file, targets)
    if names is None:
        values = _Loading(file, np.arange(len(wanted)), targets).run()
        # All arrays are the caller's: their dict has the names already.
        return dict(into if values is targets.arrays else zip(wanted, values, strict=True))
    rows = [index.rows[name] for name in wanted]
    values = _Loading(file, np.array(rows, np.int64), targets).run()
    return dict(zip(wanted, map(values.__getitem__, rows), strict=True))


def require_types(file: StateFile, expected: Mapping[str, Expected]) -> None:
    """Require, before a load, that blobs of a checkpoint file have the expected types (E325).

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


def _find_targets(index: Index, into: Mapping[str, Array]) -> _Targets:
    """Match each array that a load is to fill with its blob's row in the file's index."""
    if list(into) == index.names:
        # Fast path: usually each blob has a target, and there may be ten thousand.
        return _Targets(np.arange(len(into)), list(into.values()))
    arrays = {index.rows[name]: array for name, array in into.items() if name in index.rows}
    return _Targets(np.array(list(arrays), np.int64), list(arrays.values()))


def _require_fitting(file: StateFile, targets: _Targets) -> None:
    index = file.index
    numbers = index.table["type"][targets.rows].tolist()
    forms = [
        (blob_type.stored, blob_type.shape, True)
        if blob_type.is_plain and not _has_twins(blob_type.stored)
        else None
        for blob_type in index.types
    ]
    # Fast path: usually all fit, and there may be ten thousand.
    if all(map(eq, map(_FORM, targets.arrays), map(forms.__getitem__, numbers))):
        return
    doubtful = {
        index.names[row]: array
        for number, row, array in zip(numbers, targets.rows.tolist(), targets.arrays, strict=True)
        if _FORM(array) != forms[number]
    }
    types: dict[str, Expected] = {
        name: ("array", dtype_text(array.dtype), array.shape) for name, array in doubtful.items()
    }
    require_types(file, types)
    for name, array in doubtful.items():
        if not array.flags.c_contiguous:
            raise CheckpointError.of(
                "E325",
                f"blob '{name}' in {file.path} cannot be read into an array that is not in C order",
                "give one that is",
            )


def _has_twins(dtype: np.dtype[Any]) -> bool:
    """Return whether numpy takes other dtypes than a blob's for equal: by metadata, or by class."""
    return bool(dtype.metadata) or dtype.char in "qQ"


class _Loading:
    """One call of ``load``.

    Args:
        file: The file.
        wanted: The rows of the wanted blobs.
        targets: Arrays to be read into.
    """

    def __init__(self, file: StateFile, wanted: Places, targets: _Targets) -> None:
        self._file = file
        index = file.index
        count = len(index.names)
        self._values: list[Value] = [None] * count
        # One entry for each row, or empty.
        self._targets: Sequence[Array | None] = []
        is_plain = np.array([blob_type.is_plain for blob_type in index.types], bool)
        self._is_each_given = _are_all(targets.rows, count) and bool(is_plain.all())
        if _are_all(targets.rows, count):
            self._targets = targets.arrays
        elif targets.arrays:
            by_row = dict(zip(targets.rows.tolist(), targets.arrays, strict=True))
            self._targets = [by_row.get(row) for row in range(count)]
        is_wanted = np.zeros(count, bool)
        is_wanted[wanted] = True
        rows = np.flatnonzero(is_wanted)
        self._is_whole = len(rows) == count
        self._wanted = rows
        is_packed = np.zeros(count, bool)
        is_packed[list(index.packings)] = True
        self._packed = rows[is_packed[rows]]
        rows = rows[~is_packed[rows]]
        sizes = index.table["size"][rows]
        self._empty = rows[sizes == 0]
        # Types whose values are the file's bytes, unchanged.
        values = is_plain & np.array([not blob_type.order for blob_type in index.types], bool)
        types = index.table["type"]
        is_placed = values[types[rows]] & (sizes >= _LEAST_PLACED_BYTES)
        is_placed |= sizes >= PAGED_BYTES
        self._placed = RowSpans(index, rows[is_placed])
        self._other = RowSpans(index, rows[~is_placed & (sizes > 0)])
        buffers = np.array([_has_buffer(blob_type.stored) for blob_type in index.types], bool)
        placed = self._placed.rows
        self._is_decoded = ~values[types[placed]]
        # Large ones, too: they are split at block ends.
        self._is_read_as_bytes = ~buffers[types[placed]] | (
            index.table["size"][placed] >= PAGED_BYTES
        )

    def run(self) -> list[Value]:
        """Load the wanted blobs of a file; return a list by index row, None where unwanted.

        Of rows that are not wanted it is None.
        """
        rows = self._placed.rows
        arrays = self._places(rows)
        # Whole lists at a time: with ten thousand blobs a Python loop is slow.
        buffers = arrays
        if self._is_read_as_bytes.any():
            buffers = list(arrays)
            for at in np.flatnonzero(self._is_read_as_bytes).tolist():
                buffers[at] = flat_memory(arrays[at])
        reading = PortionReader(
            self._file,
            self._placed,
            buffers,
            self._other,
            self._take,
            in_files=any(
                find_file_memory(target) for target in self._targets if target is not None
            ),
        )
        parts = [part for blocks in self._blocks() for part in split_blocks(blocks)]
        if len(parts) > 1:
            # The kernel reads ahead while a portion is decoded; several threads alone would confuse
            # its read-ahead.
            advise_sequential(self._file.descriptor)
        # Decoding thousands of small blobs holds the GIL: several threads would only contend.
        if len(self._other.rows) > _MANY:
            crowded = {part.start for part in parts if reading.count_other(part) > _MANY}
            for part in parts:
                if part.start in crowded:
                    reading.read(part)
            parts = [part for part in parts if part.start not in crowded]
        in_threads(reading.read, parts, _WORTH_A_THREAD)
        reading.take_halves()
        self._keep(rows, arrays)
        for at in np.flatnonzero(self._is_decoded).tolist():
            self._give(int(rows[at]), arrays[at])
        for row, array in zip(self._empty.tolist(), self._places(self._empty), strict=True):
            self._give(row, array)
        self._unpack()
        self._require_same_as_saved()
        return self._values

    def _require_same_as_saved(self) -> None:
        """Require that the loaded values are those that were saved: compare their digests (E455).

        Those of arrays whose bytes are in the file as they were in memory were compared with the
        blocks.
        """
        digests, index = self._file.value_digests, self._file.index
        rows = digests if self._is_whole else digests.keys() & set(self._wanted.tolist())
        wrong = [row for row in rows if digest_value(self._values[row]) != digests[row]]
        if wrong:
            names = index.shown_names
            raise wrong_value_error(self._file.path, [names[row] for row in sorted(wrong)])

    def _blocks(self) -> list[range]:
        """Choose the 256 KiB blocks of the file to load: those that hold wanted blobs."""
        if self._is_whole:
            return [range(self._file.parts.blocks)]
        # For each block, the blobs that begin in it minus those that ended before it.
        changes = np.zeros(self._file.parts.blocks + 2, np.int64)
        for spans in (self._other, self._placed):
            np.add.at(changes, (spans.begin - USER_BLOCK) // BLOCK_BYTES + 1, 1)
            np.add.at(changes, (spans.end - USER_BLOCK - 1) // BLOCK_BYTES + 2, -1)
        edges = np.flatnonzero(np.diff(np.cumsum(changes) > 0)).tolist()
        return [range(first, last) for first, last in zip(edges[::2], edges[1::2], strict=True)]

    def _places(self, rows: Places) -> list[Array]:
        """Return the arrays to load blobs into: the caller's targets, or new arrays."""
        index = self._file.index
        if self._is_each_given and _are_all(rows, len(index.names)):
            return cast("list[Array]", self._targets)
        numbers: list[int] = index.table["type"][rows].tolist()
        forms = [(blob_type.shape, blob_type.stored) for blob_type in index.types]
        if not self._targets:
            return list(starmap(np.empty, map(forms.__getitem__, numbers)))
        targets = [self._targets[row] for row in rows.tolist()]
        return [
            array
            if array is not None and index.types[number].is_plain
            else np.empty(*forms[number])
            for array, number in zip(targets, numbers, strict=True)
        ]

    def _take(self, rows: list[int], data: Bytes) -> None:
        """Load several small blobs of one type from bytes that are adjacent in the file."""
        kind = self._file.index.type_of(rows[0])
        matrix = data.view(kind.stored).reshape(len(rows), *kind.shape)
        if not (kind.is_plain and kind.shape):
            for number, row in enumerate(rows):
                self._give(row, matrix[number, ...].copy())
        elif kind.order:
            for row, array in zip(rows, matrix, strict=True):
                self._give(row, array)
        elif not self._targets:
            for row, array in zip(rows, matrix, strict=True):
                self._values[row] = array.copy()
        else:
            self._take_to_targets(rows, matrix)

    def _take_to_targets(self, rows: list[int], matrix: Array) -> None:
        targets, values = self._targets, self._values
        for row, array in zip(rows, matrix, strict=True):
            target = targets[row]
            if target is None:
                values[row] = array.copy()
            else:
                target[...] = array
                values[row] = target

    def _keep(self, rows: Places, arrays: list[Array]) -> None:
        """Put loaded arrays into the list of all loaded values, at the rows of their blobs."""
        if _are_all(rows, len(self._values)):
            self._values = cast("list[Value]", arrays)
            return
        for row, array in zip(rows.tolist(), arrays, strict=True):
            self._values[row] = array

    def _unpack(self) -> None:
        arrays = dict(zip(self._packed.tolist(), self._places(self._packed), strict=True))
        parts = [(row, part) for row in arrays for part in _split_chunks(self._file, row)]
        in_threads(lambda part: _read_chunks(self._file, part[0], arrays[part[0]], part[1]), parts)
        for row, array in arrays.items():
            self._give(row, array)

    def _give(self, row: int, stored: Array) -> None:
        """Decode a loaded blob's array to its value; copy that to the caller's array, if any."""
        index = self._file.index
        kind, target = index.type_of(row), self._targets[row] if self._targets else None
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


def _are_all(rows: Places, count: int) -> bool:
    """Return whether the rows to load are all rows of the file's index, in order."""
    return len(rows) == count and bool((np.diff(rows) == 1).all())


def _has_buffer(dtype: np.dtype[Any]) -> bool:
    """Return whether a load can read the file's bytes directly into arrays of a dtype."""
    return dtype.isnative and dtype.char in _BUFFERS


def in_threads(act: Callable[[Any], None], portions: Sequence[Any], least: int = 1) -> None:
    """Load portions of a checkpoint file in several threads: call a function for each portion.

    Each thread takes the next portion that is left; this one only waits for them. If it worked
    beside a new thread, Linux often left both on one processor for the milliseconds that a load
    takes, and they read the file so unevenly that its reading ahead lost the order: measured, 64
    MiB took 26 instead of 21.5 ms from the disk, and 6 instead of 5 ms from memory.

    Args:
        act: Loads or verifies one.
        portions: All of them.
        least: How many there must be for each thread.
    """
    count = min(MOST_THREADS, usable_cpus(), len(portions) // least)
    if count < 2:
        for portion in portions:
            act(portion)
        return
    unread = iter(portions)
    errors: list[BaseException] = []

    def work() -> None:
        try:
            for portion in unread:
                act(portion)
                if errors:
                    return
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    threads = [Thread(target=work, name=f"checkpoint-reader-{n}") for n in range(count)]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException as error:
        # Ctrl-C: let no thread write to the caller's arrays after this.
        errors.append(error)
        for thread in threads:
            thread.join()
        raise
    if errors:
        raise errors[0]


def _split_chunks(file: StateFile, row: int) -> list[range]:
    """Split a compressed blob's chunks into short ranges, to load one range at a time."""
    count = file.index.packings[row][0].count
    return [range(at, min(at + _MANY_CHUNKS, count)) for at in range(0, count, _MANY_CHUNKS)]


def _read_chunks(file: StateFile, row: int, target: Array, chunks: range) -> None:
    """Load some chunks of a compressed blob: read, verify and decompress them into its array.

    Raises:
        CheckpointError: They are damaged, or not as jobrun makes them.
    """
    packing, first = file.index.packings[row]
    places = file.tail.chunks[first + chunks.start : first + chunks.stop]
    begin = int(places["offset"].min())
    data = file.verified(begin, int((places["offset"] + places["size"]).max()))
    starts = islice(chunk_origins(target.shape, packing.chunk), chunks.start, chunks.stop)
    stored_target = target.view(storage_dtype(target.dtype))
    with file.structure():
        try:
            encoder = encoder_for(packing.codec, stored_target.dtype, packing.chunk)
            for start, (offset, size) in zip(starts, places.tolist(), strict=True):
                stored = data[offset - begin : offset - begin + size].tobytes()
                _put_chunk(stored_target, packing.chunk, start, encoder.decode(stored))
                if stored_target.ndim == 1:
                    release_pages(stored_target[start[0] :][: packing.chunk[0]])
        except ValueError as error:
            raise StructureError(f"blob '{file.index.names[row]}': {error}") from error


def _put_chunk(target: Array, chunk: tuple[int, ...], start: tuple[int, ...], data: Bytes) -> None:
    part = target[chunk_slices(target.shape, chunk, start)]
    whole = data.view(target.dtype).reshape(chunk)
    part[...] = whole[tuple(map(slice, part.shape))]


def load_blobs(
    file: StateFile,
    names: Iterable[str],
    *,
    partial: bool = False,
    into: Mapping[str, Array] | None = None,
) -> dict[str, Value]:
    """Load the named blobs of an open checkpoint file; rebuild containers and object states.

    Args:
        file: An open one.
        names: The blobs.
        partial: Leave out names that it does not hold.
        into: Arrays that receive parts of blobs, by their names in the index, as of ``load``.

    Raises:
        CheckpointError: As by ``load.load``.
    """
    wanted = list(names)
    index = file.index
    parts = group_links(index.names)
    if not parts:
        return load(file, wanted, partial=partial, into=into)
    links_by_name = {name: parts.get(name) or [index.quoted.get(name, name)] for name in wanted}
    links = [link for links in links_by_name.values() for link in links]
    values = load(file, links, partial=partial, into=into)
    blobs: dict[str, Value] = {}
    for name, links in links_by_name.items():
        if name in parts:
            blobs[name] = _unflatten(file, name, {link: values[link] for link in links})
        elif links[0] in values:
            blobs[name] = values[links[0]]
    return blobs


def require_saved_values(file: StateFile) -> None:
    """Require that the blobs which are stored in another form decode to what was saved.

    Those of which the file holds the bytes need no more than the digests of its blocks.

    Raises:
        CheckpointError: E455 if a value is another; E303, E306 as by ``load``.
    """
    index, digested = file.index, file.value_digests
    sizes: list[int] = index.table["size"].tolist()
    parts = group_links(index.names)
    wholes = {name: sum(sizes[index.rows[link]] for link in parts[name]) for name in parts}
    # Of a large container only the leaves; loading verifies its structure.
    wholes = {name: size for name, size in wholes.items() if size <= _VERIFIED_BYTES}
    links = {link for name in wholes for link in parts[name]}
    leaves = {index.names[row]: sizes[row] for row in digested if index.names[row] not in links}
    for names in _batches(leaves):
        load(file, names)
    for names in _batches(wholes if digested else {}):
        load_blobs(file, names)


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """Divide names of blobs to load into groups that take little memory."""
    names: list[str] = []
    size_bytes = 0
    for name, size in sizes.items():
        if names and size_bytes + size > _VERIFIED_BYTES:
            yield names
            names, size_bytes = [], 0
        names.append(name)
        size_bytes += size
    if names:
        yield names


def _unflatten(file: StateFile, name: str, values: dict[str, Value]) -> Value:
    with file.structure():
        try:
            return unflatten(name, values)
        except OtherValueError as error:
            raise wrong_value_error(file.path, [name]) from error
        except ValueError as error:
            raise StructureError(f"blob '{name}': {error}") from error
