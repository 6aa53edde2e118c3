"""Execute the ``pull`` step: copy blobs of other nodes and join them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.graph.steps import Pull, PulledBlob
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.frame import LEVELS, Frame, MissingBlobError
from jobrun.values.blob_kinds import Value, describe, kind_of

Reduction = Literal["mean", "sum", "stack", "concat", "first"]


def pull_action(step: Pull, names: BlockNames, _getter: object) -> Callable[[Frame], None]:
    """Build the function of a ``pull`` step: fetches all blobs, joins them, then binds them."""
    blobs = [(pulled, LEVELS[names.scope(pulled.blob)]) for pulled in step.blobs]

    def run(frame: Frame) -> None:
        values = [(level, pulled.blob, _pulled(pulled, frame)) for pulled, level in blobs]
        for level, blob, value in values:
            getattr(frame, level)[blob] = value

    return run


def _pulled(blob: PulledBlob, frame: Frame) -> Value:
    # The other nodes' values are not used.
    nodes = blob.nodes[:1] if blob.reduce == "first" else blob.nodes

    return join_values(blob.reduce, blob.name, _fetch_values(nodes, blob.name, frame))


def _fetch_values(nodes: tuple[str, ...], name: str, frame: Frame) -> Iterator[tuple[str, Value]]:
    """Fetch the values of a ``pull`` one by one, so that a sum need not hold all of them."""
    values = frame.run.fetch(nodes, name, frame.cancel)
    for node in nodes:
        frame.cancel.check()
        began = time.perf_counter()
        try:
            value = next(values)
        except MissingBlobError as error:
            raise TaskFailedError.of(
                "E270",
                f"node '{node}' has no global blob '{name}'",
                "make it in init, or in a task of a global group that this one needs",
            ) from error
        frame.run.note_wait(frame.task, frame.node.name, "nodes", time.perf_counter() - began)
        yield node, value


def join_values(reduce: Reduction, name: str, values: Iterable[tuple[str, Value]]) -> Value:
    """Join a pulled blob's values from several nodes, in their order; may overwrite the values.

    ========  ==================================================================================
    sum       ``v0 + v1 + …``; bools count as 0 and 1
    mean      the sum, divided by the number of values
    stack     an array with a further first axis
    concat    an array along the first axis that they have
    first     the first one
    ========  ==================================================================================

    Args:
        reduce: How.
        name: Of the blob, for messages.
        values: At least one, each with the name of its node.

    Raises:
        TaskFailedError: E271, they differ in kind, dtype or shape, or cannot be joined so.
    """
    parts = iter(values)
    node, first = next(parts)
    if reduce == "first":
        return first
    _check(reduce, name, node, first)
    agreeing = _require_agreement(reduce, name, (node, first), parts)
    if reduce == "stack":
        return np.stack([np.asarray(first), *map(np.asarray, agreeing)])
    if reduce == "concat":
        return np.concatenate([first, *agreeing])
    total, count = _as_integers(first), 1
    for value in agreeing:
        total = _added(total, _as_integers(value))
        count += 1
    return total / count if reduce == "mean" else total


def _added(total: Value, value: Value) -> Value:
    if type(total) is np.ndarray:
        # The total has no other owner: adding in place gives the same bits without a new array.
        total += value
        return total
    return total + value


def _as_integers(value: Value) -> Value:
    """Return bools of a ``pull`` as integers, since numpy's sum of two bools is a bool."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype == np.bool_:
        return value.astype(np.int64)
    return int(value) if isinstance(value, bool) else value


def _check(reduce: Reduction, name: str, node: str, value: Value) -> None:
    is_array = type(value) is np.ndarray
    dtype = value.dtype if isinstance(value, np.ndarray | np.generic) else None
    is_single = kind_of(value) not in (None, "counter")
    is_countable = is_single and not isinstance(value, str)
    is_countable &= dtype is None or dtype.kind in "biufcm" or dtype.isbuiltin == 2
    if reduce == "concat":
        fits, mend = is_array and value.ndim > 0, "use stack for values without an axis"
    elif reduce == "stack":
        fits, mend = is_single, ""
    else:
        fits, mend = is_countable, "use stack, or pull each by itself, with first"
    if not fits and not is_single:
        mend = (
            "pull each by itself, with first; or join arrays and numbers: array(x) of a list, or "
            "an item of a dict in a blob of its own"
        )
    if not fits:
        raise TaskFailedError.of(
            "E271", f"{reduce} cannot join '{name}', which is {describe(value)} on '{node}'", mend
        )


def _require_agreement(
    reduce: Reduction, name: str, first: tuple[str, Value], others: Iterable[tuple[str, Value]]
) -> Iterable[Value]:
    """Require, as a ``pull`` fetches blobs, that each has the first one's kind, dtype and shape."""
    wanted = _join_properties(reduce, first[1])
    for node, value in others:
        if _join_properties(reduce, value) != wanted:
            raise TaskFailedError.of(
                "E271",
                f"{reduce} cannot join '{name}': it is {describe(first[1])} on '{first[0]}', and "
                f"{describe(value)} on '{node}'",
                "let all nodes make it with one kind, dtype and shape"
                + (" behind the first axis" if reduce == "concat" else ""),
            )
        yield value


def _join_properties(reduce: Reduction, value: Value) -> Any:
    """Return the properties in which the values of a ``pull`` must agree to be joined."""
    shape = getattr(value, "shape", ())
    dtype = getattr(value, "dtype", None)
    if isinstance(value, str):
        dtype = None
    return type(value), dtype, shape[1:] if reduce == "concat" else shape
