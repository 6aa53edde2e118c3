"""State of a node out of the files of several nodes: rows put together, or a whole value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jobrun.blobs.values import Value
from jobrun.checkpoint.hdf5 import read_state
from jobrun.graph.divided import FilePart, Rows


def read_parts(parts: Iterable[FilePart], epoch: int, run_id: str) -> dict[str, Value]:
    """The blobs that the parts make up, exactly as the same rows were written.

    One file's share of the wanted blobs is in memory at a time, beside the result.

    Args:
        parts: In the order of the rows.
        epoch: Of which epoch the files are.
        run_id: Of which run.

    Raises:
        CheckpointError: A file is missing, damaged, of something else, or lacks a blob.
    """
    found: dict[str, Value] = {}
    pieces: dict[str, list[np.ndarray[Any, Any]]] = {}
    for part in parts:
        values = read_state(
            part.file, node=part.node, epoch=epoch, run_id=run_id, digest=part.digest,
            names=[one.name for one in part.blobs],
        )  # fmt: skip
        for rows in part.blobs:
            if rows.first is None:
                found[rows.name] = values[rows.name]
            else:
                pieces.setdefault(rows.name, []).append(_piece(values[rows.name], rows))
    return found | {name: _joined(one) for name, one in pieces.items()}


def _piece(value: np.ndarray[Any, Any], rows: Rows) -> np.ndarray[Any, Any]:
    # A copy, so that the rest of the file's array need not stay.
    is_whole = (rows.first, rows.stop) == (0, len(value))
    return value if is_whole else value[rows.first : rows.stop].copy()


def _joined(pieces: list[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    if len(pieces) == 1:
        return pieces[0]
    # Not numpy's concatenate, which gives the machine's byte order.
    whole = np.empty((sum(map(len, pieces)), *pieces[0].shape[1:]), pieces[0].dtype)
    at = 0
    for piece in pieces:
        whole[at : at + len(piece)] = piece
        at += len(piece)
    return whole
