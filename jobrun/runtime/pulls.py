"""The ``pull`` step: copies of blobs of nodes, joined. How copies travel is the session's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

import numpy as np

from jobrun.blobs.counter import Counter
from jobrun.blobs.values import Value, describe
from jobrun.core.errors import TaskFailedError
from jobrun.graph.pulled import PulledBlob
from jobrun.graph.steps import Pull
from jobrun.runtime.frame import Frame
from jobrun.runtime.usage import BlockNames
from jobrun.runtime.workspace import LEVELS, MissingBlobError

Reduction = Literal["mean", "sum", "stack", "concat", "first"]


def pull_action(step: Pull, names: BlockNames) -> Callable[[Frame], None]:
    """The function of a ``pull`` step: fetches all, joins them, then binds all blobs."""
    blobs = [(one, LEVELS[names.scope(one.blob)]) for one in step.blobs]

    def run(frame: Frame) -> None:
        values = [(level, one.blob, _pulled(one, frame)) for one, level in blobs]
        for level, blob, value in values:
            getattr(frame, level)[blob] = value

    return run


def _pulled(one: PulledBlob, frame: Frame) -> Value:
    # Nobody looks at what the other nodes have.
    nodes = one.nodes[:1] if one.reduce == "first" else one.nodes

    return joined(one.reduce, one.name, _fetched(nodes, one.name, frame))


def _fetched(nodes: tuple[str, ...], name: str, frame: Frame) -> Iterator[tuple[str, Value]]:
    """The values one after the other, so that a sum need not have all of them in memory."""
    values = frame.run.fetch(nodes, name, frame.cancel)
    for node in nodes:
        frame.cancel.check()
        try:
            value = next(values)
        except MissingBlobError as error:
            raise TaskFailedError.of(
                "E270",
                f"node '{node}' has no global blob '{name}'",
                "make it in init, or in a task of a global group that this one needs",
            ) from error
        yield node, value


def joined(reduce: Reduction, name: str, values: Iterable[tuple[str, Value]]) -> Value:
    """Several values as one, in their order; each may be changed.

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
    agreeing = _agreeing(reduce, name, (node, first), parts)
    if reduce == "stack":
        return np.stack([np.asarray(first), *map(np.asarray, agreeing)])
    if reduce == "concat":
        return np.concatenate([first, *agreeing])
    total, count = _countable(first), 1
    for value in agreeing:
        total = _added(total, _countable(value))
        count += 1
    return total / count if reduce == "mean" else total


def _added(total: Value, value: Value) -> Value:
    if type(total) is np.ndarray:
        # Nobody else has it: the bits are those of a sum, without another array.
        total += value
        return total
    return total + value


def _countable(value: Value) -> Value:
    """Bools as numbers: numpy's own sum of two is one of them."""
    if isinstance(value, np.ndarray | np.generic) and value.dtype == np.bool_:
        return value.astype(np.int64)
    return int(value) if isinstance(value, bool) else value


def _check(reduce: Reduction, name: str, node: str, value: Value) -> None:
    is_array = type(value) is np.ndarray
    dtype = value.dtype if isinstance(value, np.ndarray | np.generic) else None
    is_countable = (dtype is None or dtype.kind in "biufcm" or dtype.isbuiltin == 2) and not (
        isinstance(value, str | Counter)
    )
    if reduce == "concat":
        fits, mend = is_array and value.ndim > 0, "use stack for values without an axis"
    elif reduce == "stack":
        fits, mend = not isinstance(value, Counter), "pull each by itself, with first"
    else:
        fits, mend = is_countable, "use stack, or pull each by itself, with first"
    if not fits:
        raise TaskFailedError.of(
            "E271", f"{reduce} cannot join '{name}', which is {describe(value)} on '{node}'", mend
        )


def _agreeing(
    reduce: Reduction, name: str, first: tuple[str, Value], others: Iterable[tuple[str, Value]]
) -> Iterable[Value]:
    """The other values, each looked at before the next one is fetched."""
    wanted = _form(reduce, first[1])
    for node, value in others:
        if _form(reduce, value) != wanted:
            raise TaskFailedError.of(
                "E271",
                f"{reduce} cannot join '{name}': it is {describe(first[1])} on '{first[0]}', and "
                f"{describe(value)} on '{node}'",
                "let all nodes make it with one kind, dtype and shape"
                + (" behind the first axis" if reduce == "concat" else ""),
            )
        yield value


def _form(reduce: Reduction, value: Value) -> Any:
    """What must be alike."""
    shape = getattr(value, "shape", ())
    dtype = getattr(value, "dtype", None)
    if isinstance(value, str):
        dtype = None
    return type(value), dtype, shape[1:] if reduce == "concat" else shape
