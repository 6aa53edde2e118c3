"""Infer dtypes and shapes of the fields of a reader's records, from file headers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from jobrun.compile.types.expressions import infer_expression
from jobrun.graph.readers import (
    BlobSource,
    CallSource,
    CounterSource,
    Field,
    FileSource,
    Reader,
    ZipSource,
)
from jobrun.ops.abstract_values import UNKNOWN, Known, without_value
from jobrun.ops.dtype_promotion import dtype_name

# Path and member of a data file → dtype and shape from its header, or None.
Headers = Callable[[str, str], tuple[str, tuple[int, ...]] | None]


def infer_record(
    reader: Reader,
    names: Mapping[str, Known],
    headers: Headers,
    outputs: Mapping[str, Known] = MappingProxyType({}),
) -> dict[str, Known]:
    """Infer dtype and shape of each field of a record that a reader gives.

    Args:
        reader: The reader.
        names: What is known of blobs when the task starts.
        headers: Returns dtype and shape of a data file's member.
        outputs: What is known of outputs, under ``output_key``.
    """
    if isinstance(reader.source, ZipSource):
        inner = {
            name: known
            for one in reader.source.readers
            for name, known in infer_record(one, names, headers, outputs).items()
        }
        return {one.name: inner[one.member] for one in reader.fields}
    source = reader.source
    values = dict(source.values) if isinstance(source, BlobSource) else {}
    columns = {
        member: without_value(infer_expression(value, names, outside=outputs))
        for member, value in values.items()
    }
    return {
        one.name: _infer_field(reader, one, _infer_column(reader, one, columns, headers))
        for one in reader.fields
    }


def _infer_column(
    reader: Reader, field: Field, columns: Mapping[str, Known], headers: Headers
) -> Known:
    match reader.source:
        case FileSource(path=path):
            text = "".join(part for part in path.parts if isinstance(part, str))
            found = headers(text, field.member) if len(path.parts) == 1 else None
            return Known(dtype_name(found[0]), found[1]) if found else UNKNOWN
        case BlobSource():
            return columns[field.member]
        case CounterSource():
            return Known("int64", (None,), weak=not reader.batch)
        case CallSource() | ZipSource():
            return UNKNOWN


def _infer_field(reader: Reader, field: Field, column: Known) -> Known:
    """Infer dtype and shape of a record's field from its column in the reader's source."""
    if not column.shape:
        return Known(column.dtype)
    if field.lengths is not None:
        return Known(column.dtype, (None, *column.shape[1:]))
    rows = () if not reader.batch else (reader.batch if reader.drop_last else None,)
    return Known(column.dtype, (*rows, *column.shape[1:]), weak=column.weak)
