"""Check the types of values that ``save`` steps write: whether the format can hold them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from jobrun.core.file_formats import format_of, suffix_of
from jobrun.graph.expression_text import render_text
from jobrun.graph.steps import DataFile, Save
from jobrun.ops.abstract_values import NONE, UNKNOWN, Known, MisfitError, clash, shape_text
from jobrun.ops.dtype_promotion import kind_of

_CODE: Final = "E286"


def find_unsavable(step: Save, names: Mapping[str, Known]) -> Iterator[MisfitError]:
    """Yield an error for each value of a step that its file cannot hold, as far as is known."""
    lengths: dict[str, tuple[str, int | None]] = {}
    for file in step.files:
        known = names.get(file.blob, UNKNOWN)
        path = render_text(file.path)
        is_table = format_of(suffix_of(path)) == "csv"
        reason = _describe_misfit(file, known, is_table=is_table)
        if reason:
            mend = "save it to an .npy or .h5 file" if is_table else "make an array of it: array(x)"
            yield MisfitError(
                _CODE, f"cannot save '{file.blob}' to {file.location_text()}: {reason}", mend
            )
        elif is_table and known.shape is not None:
            length = known.shape[0] if known.shape else 1
            other, before = lengths.setdefault(path, (file.blob, length))
            if clash(length, before):
                message = f"'{other}' and '{file.blob}' cannot be columns of {path}: their lengths "
                mend = "save them to files of their own"
                yield MisfitError(_CODE, f"{message}are {before} and {length}", mend)


def _describe_misfit(file: DataFile, known: Known, *, is_table: bool) -> str:
    if known.sequence or known.dtype == NONE:
        return f"it is a {known.sequence or 'None'}, and a data file holds arrays"
    if not is_table:
        return ""
    if kind_of(known.dtype) == "c":
        return f"a table cannot hold {known.dtype}"
    most = 1 if file.member else 2
    if known.shape is not None and len(known.shape) > most:
        noun = "a column" if file.member else "a table"
        return f"{noun} cannot hold an array of shape {shape_text(known.shape)}"
    return ""
