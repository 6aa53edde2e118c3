"""Dtypes and shapes of what the records of a reader bind, as far as headers and the spec tell."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jobrun.compile.shape_eval import evaluate
from jobrun.graph.data import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.ops.known import UNKNOWN, Known, dtype_name, without_value

# What a file's header says of a member: its dtype and shape, or None.
Headers = Callable[[str, str], tuple[str, tuple[int, ...]] | None]


def record_shapes(reader: Reader, names: Mapping[str, Known], headers: Headers) -> dict[str, Known]:
    """What is known of each field.

    Args:
        reader: The reader.
        names: What is known of blobs when its run begins.
        headers: Looks a data file's member up.
    """
    if isinstance(reader.source, ZipSource):
        inner = {
            name: known for one in reader.source.readers
            for name, known in record_shapes(one, names, headers).items()
        }  # fmt: skip
        return {one.name: inner[one.member] for one in reader.fields}
    return {
        one.name: _record(reader, _column(reader, one, names, headers)) for one in reader.fields
    }


def _column(reader: Reader, field: Field, names: Mapping[str, Known], headers: Headers) -> Known:
    match reader.source:
        case FileSource(path=path):
            text = "".join(part for part in path.parts if isinstance(part, str))
            found = headers(text, field.member) if len(path.parts) == 1 else None
            return Known(dtype_name(found[0]), found[1]) if found else UNKNOWN
        case BlobSource(values=values):
            return without_value(evaluate(dict(values)[field.member], dict(names)))
        case CounterSource():
            return Known("int64", (None,), weak=not reader.batch)
        case CallSource() | ZipSource():
            return UNKNOWN


def _record(reader: Reader, column: Known) -> Known:
    """One record of a column of rows."""
    if not column.shape:
        return Known(column.dtype)
    rows = () if not reader.batch else (reader.batch if reader.drop_last else None,)
    return Known(column.dtype, (*rows, *column.shape[1:]), weak=column.weak)
