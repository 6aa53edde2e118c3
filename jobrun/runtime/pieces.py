"""Computes chains of elementwise operators on large arrays, piece by piece.

Every ufunc gives an item's bits from that item's operands alone. So a chain may be taken
through all its operators over one piece of the rows, then the next: results in between take
a few hundred kilobytes that stay in the cache, and numpy's whole-array temporaries, with
the memory that the system must find and clear for each, never come to be. Pieces are whole
multiples of the widest vector, which leaves every item in the lane in which it was.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from jobrun.runtime.chains import Chain, Instruction, squared
from jobrun.runtime.frame import Frame, GroupRun, Start
from jobrun.runtime.ownership import is_sole, references
from jobrun.runtime.sharing import share

_Array = np.ndarray[Any, Any]

# Measured: smaller pieces pay more for calls, larger ones fall out of the cache.
_LEAST_ITEMS, _MOST_ITEMS = 3 << 14, 1 << 17
# Of an array of middle size there are so many, for two threads alike and with small buffers.
_COUNT = 8
# Below this, memory for a temporary costs next to nothing.
SMALLEST = 1 << 17
# Results, of all operators together, from which on a second thread is worth its start.
_SHARED = 1 << 20
# How often a chain that did not fit is taken as written before anybody looks again.
_PASSED_OVER = 15
# Rows of a piece are a multiple of this, if there are so many.
_LANES = 64


class _Move(NamedTuple):
    """A ufunc, the indices of its operands, -1 if it has one, and that of the result's array."""

    ufunc: np.ufunc
    first: int
    second: int
    target: int


# Index of a leaf, and the dtype that an operator wants of it.
_Number = tuple[int, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How values of some kinds are computed.

    Attributes:
        moves: The program of one piece, over the leaves, the numbers, the result and the buffers.
        numbers: Which leaves are converted to which dtype before all, where they are numbers:
            numpy would do it again for every piece.
        buffers: Index and dtype of each array that holds results in between.
        result: Index of the result.
        dtype: Of the result.
    """

    moves: tuple[_Move, ...]
    numbers: tuple[_Number, ...]
    buffers: tuple[tuple[int, np.dtype[Any]], ...]
    result: int
    dtype: np.dtype[Any]


class Pieces:
    """A function of a chain's leaves, behind a list that tells whether it is worth calling.

    The list is emptied when the leaves are not large arrays that fit each other. Calling it
    then is no error: it gives what the expression gives, whatever the leaves.

    Args:
        chain: The chain.
        replaced: Index of the leaf whose name gets the result; -1 for none. Where nobody else has
            that array, or will look at it should this fail, its memory takes the result.
        has_spare: Behind the leaves stands what the name held before that gets the result, and
            which is no leaf; its memory is taken likewise.
    """

    def __init__(self, chain: Chain, replaced: int = -1, *, has_spare: bool = False) -> None:
        self._instructions = tuple(chain.instructions)
        self._ends = _ends(chain)
        self._leaves = len(chain.leaves)
        self._replaced = self._leaves if has_spare else replaced
        # How often the code begins without looking again; a slip between threads costs time only.
        self._passed_over = 0
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}

    def begin(self, frame: Frame) -> list[GroupRun]:
        """What the code that computes the chain begins with: whether to call this, and for that."""
        if self._passed_over:
            self._passed_over -= 1
            return []
        return [frame.run]

    def __call__(self, worth: list[GroupRun], *values: Any) -> Any:
        """The value of the chain."""
        # Counted here, where a test call was.
        old = self._replaced
        count = references(values, old) if old >= 0 else -1
        leaves = values[: self._leaves]
        shape = _shape(leaves)
        roles = tuple(_role(leaf, shape) for leaf in leaves) if shape else (_MISFIT,)
        plan = None if _MISFIT in roles else self._plan(leaves, roles)
        if plan is None:
            worth.clear()
            self._passed_over = _PASSED_OVER
            return self._plain(leaves)
        run = worth[0] if worth else None
        if run is None:
            return _run(plan, leaves, roles, np.empty(shape, plan.dtype), None)
        if old >= 0 and run.is_alone and _takes(values[old], shape, plan.dtype, count):
            if old < self._leaves:
                plan = self._plan(leaves, roles, old) or plan
            return _run(plan, leaves, roles, values[old], run.beside)
        return _run(plan, leaves, roles, np.empty(shape, plan.dtype), run.beside)

    def _plain(self, leaves: Sequence[Any]) -> Any:
        values = list(leaves)
        for one, ended in zip(self._instructions, self._ends, strict=True):
            values.append(one.plain(*(values[index] for index in one.operands)))
            for index in ended:
                # Its memory may serve the next.
                values[index] = None
        return values[-1]

    def _plan(self, leaves: Sequence[Any], roles: tuple[str, ...], into: int = -1) -> _Plan | None:
        key = tuple(map(_kind, leaves))
        try:
            return self._plans[key, roles, into]
        except KeyError:
            # Two threads may both make it; the plans are equal.
            plan = self._plans[key, roles, into] = _planned(self._instructions, key, roles, into)
            return plan


def _ends(chain: Chain) -> list[tuple[int, ...]]:
    """For each instruction the values that it uses last."""
    last = {index: at for at, one in enumerate(chain.instructions) for index in one.operands}
    return [
        tuple(index for index, used in last.items() if used == at)
        for at in range(len(chain.instructions))
    ]


# What a leaf is to a piece: all of the shape, a column beside it, the same for all, or misfit.
_FULL, _ROWS, _WHOLE, _MISFIT = "full", "rows", "whole", "misfit"


def _shape(leaves: Sequence[Any]) -> tuple[int, ...]:
    """The shape of the largest array; empty if it is not large enough."""
    shape, most = (), SMALLEST - 1
    for leaf in leaves:
        if type(leaf) is np.ndarray and leaf.size > most:
            shape, most = leaf.shape, leaf.size
    return shape


def _role(leaf: Any, shape: tuple[int, ...]) -> str:
    if type(leaf) is not np.ndarray:
        return _WHOLE if isinstance(leaf, int | float | complex | np.number | np.bool_) else _MISFIT
    if not leaf.dtype.isnative or leaf.dtype.kind not in "biufc":
        return _MISFIT
    if leaf.shape == shape:
        return _FULL if leaf.flags.c_contiguous and leaf.flags.aligned else _MISFIT
    if leaf.ndim > len(shape) or any(
        own not in (1, other) for own, other in zip(leaf.shape[::-1], shape[::-1], strict=False)
    ):
        return _MISFIT
    return _ROWS if leaf.ndim == len(shape) and leaf.shape[0] != 1 else _WHOLE


def _takes(old: Any, shape: tuple[int, ...], dtype: np.dtype[Any], count: int) -> bool:
    """Whether an array that has so many references may take a result."""
    return (
        type(old) is np.ndarray and old.shape == shape and old.dtype == dtype
        and _role(old, shape) is _FULL and is_sole(old, count)
    )  # fmt: skip


def _kind(leaf: Any) -> Any:
    """What decides the dtype of a result: Python's numbers adapt themselves, others do not."""
    kind = type(leaf)
    return kind if kind in {int, float, complex} else np.asarray(leaf).dtype


def _planned(
    instructions: Sequence[Instruction], kinds: tuple[Any, ...], roles: tuple[str, ...], into: int
) -> _Plan | None:
    """The plan for leaves of these kinds; None where the expression has to be taken as written.

    ``into`` is the leaf that takes the result, or -1.
    """
    types, full = list(kinds), [role == _FULL for role in roles]
    wanted: list[tuple[np.dtype[Any], ...]] = []
    for one in instructions:
        dtypes = _resolved(one, [types[index] for index in one.operands])
        # Smaller results have shapes and axis orders of their own.
        if dtypes is None or not any(full[index] for index in one.operands):
            return None
        wanted.append(dtypes)
        types.append(dtypes[-1])
        full.append(True)
    instructions, numbers = _with_numbers(instructions, wanted, roles)
    results = [dtypes[-1] for dtypes in wanted]
    return _allotted(instructions, results, len(kinds) + len(numbers), numbers, into)


def _resolved(one: Instruction, types: list[Any]) -> tuple[np.dtype[Any], ...] | None:
    """The dtypes to which the operands are converted, and last that of the result."""
    if one.plain is squared and types[0].kind != "f":
        return None
    try:
        dtypes: tuple[np.dtype[Any], ...] = one.ufunc.resolve_dtypes((*types, None))
    except TypeError:
        # It has none for these; numpy itself says so best.
        return None
    return dtypes if dtypes[-1].kind in "biufc" else None


def _with_numbers(
    instructions: Sequence[Instruction],
    wanted: Sequence[tuple[np.dtype[Any], ...]],
    roles: tuple[str, ...],
) -> tuple[list[Instruction], tuple[_Number, ...]]:
    """The same program over the leaves and, behind them, what some of them are converted to."""
    leaves = len(roles)
    pairs = [
        list(zip(one.operands, dtypes, strict=False))
        for one, dtypes in zip(instructions, wanted, strict=True)
    ]
    numbers = tuple(dict.fromkeys(
        pair for some in pairs for pair in some if pair[0] < leaves and roles[pair[0]] is _WHOLE
    ))  # fmt: skip
    places = {number: leaves + at for at, number in enumerate(numbers)}

    def place(pair: _Number) -> int:
        return pair[0] + len(numbers) if pair[0] >= leaves else places.get(pair, pair[0])

    moved = [
        replace(one, operands=tuple(map(place, some)))
        for one, some in zip(instructions, pairs, strict=True)
    ]
    return moved, numbers


def _allotted(
    instructions: Sequence[Instruction],
    types: Sequence[np.dtype[Any]],
    leaves: int,
    numbers: tuple[_Number, ...],
    into: int,
) -> _Plan:
    """Give each result an array: that of an operand that ends with it, or one that is free."""
    last = {index: at for at, one in enumerate(instructions) for index in one.operands}
    result = leaves
    # The result's own piece serves as a buffer until its turn; if a leaf has its memory, from
    # the operator on that uses the leaf last.
    buffers: list[tuple[int, np.dtype[Any]]] = [(result, types[-1])]
    free, moves = [] if into >= 0 else [result], []
    held: dict[int, int] = {into: result} if into >= 0 else {}
    for at, one in enumerate(instructions):
        operands = tuple(held.get(index, index) for index in one.operands)
        ended = {index for index in one.operands if index in held and last[index] == at}
        free += [held[index] for index in ended]
        final = at == len(instructions) - 1
        dtype = types[at]
        target = result if final else _take(free, dict(buffers), dtype)
        if target is None:
            target = leaves + len(buffers)
            buffers.append((target, dtype))
        held[leaves + at] = target
        first, second = operands if len(operands) == 2 else (*operands, -1)
        moves.append(_Move(one.ufunc, first, second, target))
    return _Plan(tuple(moves), numbers, tuple(buffers[1:]), result, types[-1])


def _take(free: list[int], dtypes: dict[int, np.dtype[Any]], dtype: np.dtype[Any]) -> int | None:
    for index in reversed(free):
        if dtypes[index] == dtype:
            free.remove(index)
            return index
    return None


def _run(
    plan: _Plan, leaves: Sequence[Any], roles: tuple[str, ...], result: _Array,
    beside: Start | None,
) -> _Array:  # fmt: skip
    numbers = [_number(leaves[index], dtype) for index, dtype in plan.numbers]
    values: list[Any] = [*leaves, *numbers, result]
    roles = (*roles, *(_WHOLE,) * len(numbers), _FULL)
    if all(role is _FULL or np.ndim(one) == 0 for one, role in zip(values, roles, strict=True)):
        # Nothing to broadcast: the items may as well stand in one row.
        values = [one.reshape(-1) if np.ndim(one) else one for one in values]
    whole = values[plan.result]
    cut = {at: values[at] for at, role in enumerate(roles) if role is not _WHOLE}
    starts = iter(range(0, len(whole), _rows(whole.shape)))

    def work() -> None:
        _pieces(plan, values, cut, starts)

    if beside is not None and result.size * len(plan.moves) >= _SHARED:
        share(work, beside)
    else:
        work()
    return result


def _pieces(
    plan: _Plan, whole: Sequence[Any], cut: Mapping[int, _Array], starts: Iterator[int]
) -> None:
    """Compute pieces, in buffers of their own, until none is left.

    Args:
        plan: The plan.
        whole: Leaves, numbers, and the result.
        cut: Those of them that are cut.
        starts: First rows of pieces; another thread may take some of them.
    """
    shape = cut[plan.result].shape
    rows = _rows(shape)
    buffers = [np.empty((rows, *shape[1:]), dtype) for _, dtype in plan.buffers]
    values = [*whole, *buffers]
    for start in starts:
        stop = start + rows
        for index, array in cut.items():
            values[index] = array[start:stop]
        if stop > shape[0]:
            for index, _ in plan.buffers:
                values[index] = values[index][: shape[0] - start]
        for ufunc, first, second, target in plan.moves:
            if second < 0:
                ufunc(values[first], out=values[target])
            else:
                ufunc(values[first], values[second], out=values[target])


def _rows(shape: tuple[int, ...]) -> int:
    """How many rows make a piece."""
    width = max(1, math.prod(shape[1:]))
    items = min(max(_LEAST_ITEMS, shape[0] * width // _COUNT), _MOST_ITEMS)
    rows = max(1, items // width)
    return min(shape[0], rows if rows < _LANES else rows + -rows % _LANES)


def _number(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """A number as an operator would convert it; itself where that is not plain to see."""
    if isinstance(leaf, np.ndarray) or dtype.kind not in "fc":
        return leaf
    with np.errstate(all="ignore"):
        number = np.asarray(leaf, dtype)
    # What overflows is told by numpy where it is used.
    return number if np.isfinite(number) else leaf
