"""Render the facts about one stored blob as text: value, dtype, structure, reader position."""

from __future__ import annotations

import numpy as np

from jobrun.checkpoint.checkpoint_file import BlobFacts
from jobrun.checkpoint.flatten import MOST_LEVELS
from jobrun.checkpoint.hdf5.dataset_names import STRUCTURE
from jobrun.checkpoint.hdf5.dtypes import parse_dtype
from jobrun.core.files.json_files import parse_json
from jobrun.core.text.big_integers import integer_text
from jobrun.graph.readers import POSITION, POSITION_PREFIX
from jobrun.runtime.records.reader_position import Position, decode_positions
from jobrun.values.blob_kinds import Value

_MOST_ITEMS = 40


def render_position(blob: BlobFacts) -> str:
    """Render the blob of a reader's position as text, how far it is; empty for other blobs."""
    is_one = blob.name.startswith(POSITION_PREFIX) and blob.shape[1:] == (len(POSITION),)
    return "; ".join(map(_share_words, decode_positions(np.asarray(blob.value)))) if is_one else ""


def render_structure(blob: BlobFacts) -> str:
    """Render the structure of a stored blob that is a container or object, as text."""
    if not blob.name.endswith(f"/{STRUCTURE}"):
        return ""
    try:
        form = parse_json(str(blob.value), MOST_LEVELS)
        kind = form.get("object")
        return f"object of class {kind}" if kind else str(next(iter(form["tree"])))
    except (ValueError, TypeError, KeyError, AttributeError, StopIteration):
        return "container"


def _share_words(one: Position) -> str:
    if not one.passes:
        return "nothing read yet"
    share = f"share {one.part + 1} of {one.parts}: " if one.parts > 1 else ""
    of_all = f" of {one.length}" if one.length >= 0 and one.parts == 1 else ""
    end = ", all read" if one.finished else ""
    return f"{share}pass {one.passes}, {one.records} records, {one.rows}{of_all} rows{end}"


def dtype_name(text: str) -> str:
    """Render the dtype of a stored blob as text: ``float64`` for ``<f8``."""
    try:
        return str(parse_dtype(text))
    except ValueError:
        return text


def value_text(value: Value) -> str:
    """Render the value of a stored blob as text, elided in the middle if it is long."""
    if isinstance(value, str):
        return repr(value)
    plain = getattr(value, "value", value)
    if type(plain) is int:
        return integer_text(plain)
    array = np.asarray(plain)
    if array.ndim == 0:
        return str(array.item()) if array.dtype.kind in "biufc" else str(array[()])
    return np.array2string(array, threshold=_MOST_ITEMS, max_line_width=96)
