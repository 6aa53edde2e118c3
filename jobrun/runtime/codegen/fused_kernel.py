"""Run fused chains of elementwise operators on large arrays piece by piece, in the CPU cache.

Every ufunc gives an item's bits from that item's operands alone. So a chain may be taken
through all its operators over one piece of the rows, then the next: results in between take
a few hundred kilobytes that stay in the cache, and numpy's whole-array temporaries, with
the memory that the system must find and clear for each, never come to be. Pieces are whole
multiples of the widest vector, which leaves every item in the lane in which it was.
"""

from __future__ import annotations

import math
import operator
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from queue import SimpleQueue
from typing import Any, NamedTuple, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.errors import EnvironmentFaultError
from jobrun.runtime.codegen.elementwise_chains import (
    FLOAT64,
    MORE_OPERANDS,
    Chain,
    Instruction,
    keeps_float64,
    square,
)
from jobrun.runtime.context.frame import Frame
from jobrun.runtime.context.group_run_state import GroupRun, Start
from jobrun.values.axis_order import axis_order
from jobrun.values.kinds.array import same_dtype

_Array = np.ndarray[Any, Any]

# Measured: smaller pieces cost more calls, larger ones do not fit into the cache of a core, which
# must hold a piece of every array.
_LEAST_ITEMS, _MOST_ITEMS = 1 << 14, 1 << 17
_CACHE_BYTES = 3 << 18
# The number and least size of pieces for two threads, which wait for each other between calls.
_COUNT, _LEAST_OF_TWO = 8, 3 << 14
# Temporary arrays with fewer bytes than this cost almost nothing.
SMALLEST = 1 << 17
# With this many results of all operators, a second thread is worth its start.
_SHARED = 1 << 20
# How often a chain that could not be fused runs unfused before its leaves are checked again: the
# first number, and the maximum if it never fits.
_PASSED_OVER, _MOST_PASSED_OVER = 15, 255
# Operators for which numpy elides temporaries, and the least size at which it does.
_COMMUTATIVE = frozenset({operator.add, operator.mul, operator.and_, operator.or_, operator.xor})
_ELIDED = _COMMUTATIVE | {operator.sub, operator.truediv, operator.floordiv}
_ELIDED_BYTES = 1 << 18
# Rows of a piece are a multiple of this, if there are so many.
_LANES = 64


Work = Callable[[], None]
# Modes of ``np.errstate`` whose events another thread can report.
_CAN_WAIT = frozenset({"ignore", "call"})
# Results that depend on the floating-point mode of a thread: a subnormal number, a product that
# becomes subnormal, and products that are rounded up or down.
_PROBES = np.array([2.0**-1074, 2.0**-1022, 1 + 2.0**-52, -1 - 2.0**-52])
_FACTORS = np.array([1.0, 0.5, 1 + 2.0**-52, 1 + 2.0**-52])


class _UfuncCall(NamedTuple):
    """A ufunc, the indices of its operands, -1 if it has one, and that of the result's array."""

    ufunc: np.ufunc
    first: int
    second: int
    target: int


# The index of a leaf, and the dtype to which an operator converts it.
_Number = tuple[int, np.dtype[Any]]


class _Plan(Struct, frozen=True):
    """How a fused kernel computes leaves of some kinds.

    Attributes:
        calls: The program of one piece, over the leaves, the numbers, the result and the buffers.
        numbers: Which leaves are converted to which dtype before all, where they are numbers:
            numpy would do it again for every piece.
        buffers: Index and dtype of each array that holds results in between.
        result: Index of the result.
        dtype: Of the result.
    """

    calls: tuple[_UfuncCall, ...]
    numbers: tuple[_Number, ...]
    buffers: tuple[tuple[int, np.dtype[Any]], ...]
    result: int
    dtype: np.dtype[Any]


class FusedKernel:
    """The kernel of a fused chain, behind a list that says whether calling it is worthwhile.

    The list is emptied when the leaves are not large arrays that fit each other. Calling it
    then is no error: it gives what the expression gives, whatever the leaves.

    Args:
        chain: The chain.
        replaced: Index of the leaf whose name gets the result; -1 for none. Where that array has no
            other owner, or will look at it should this fail, its memory takes the result.
        has_spare: Behind the leaves is what the name held before that gets the result, and
            which is no leaf; its memory is taken likewise.
    """

    def __init__(self, chain: Chain, replaced: int = -1, *, has_spare: bool = False) -> None:
        self._instructions = tuple(chain.instructions)
        self._last_uses = _last_uses(chain)
        self._leaves = len(chain.leaves)
        self._replaced = self._leaves if has_spare else replaced
        # How often the code still starts without a check. A race between threads only costs time.
        self._passed_over = 0
        self._misfits = _PASSED_OVER
        self._plans: dict[tuple[Any, ...], _Plan | None] = {}

    def begin(self, frame: Frame) -> list[GroupRun]:
        """Decide whether a fused kernel runs this time; return an empty list to run unfused."""
        if self._passed_over:
            self._passed_over -= 1
            return []
        return [frame.run]

    def __call__(self, worth: list[GroupRun], *values: Any) -> Any:
        """Compute a chain of fused operators from its inputs; unfused where fusion does not pay."""
        # The reference count must be taken in this frame, as in the calibrating call.
        old = self._replaced
        count = count_references(values, old) if old >= 0 else -1
        leaves = values[: self._leaves]
        shape = _shape(leaves)
        roles = tuple(_role(leaf, shape) for leaf in leaves) if shape else (_MISFIT,)
        plan = None if _MISFIT in roles else self._plan(leaves, roles)
        if plan is None:
            worth.clear()
            self._passed_over = self._misfits
            self._misfits = min(2 * self._misfits + 1, _MOST_PASSED_OVER)
            return self._plain(leaves)
        self._misfits = _PASSED_OVER
        run = worth[0] if worth else None
        if run is None:
            return _run(plan, leaves, roles, np.empty(shape, plan.dtype), None)
        if old >= 0 and run.is_alone and _may_overwrite(values[old], shape, plan.dtype, count):
            if old < self._leaves:
                plan = self._plan(leaves, roles, old) or plan
            return _run(plan, leaves, roles, values[old], run.start_thread)
        return _run(plan, leaves, roles, np.empty(shape, plan.dtype), run.start_thread)

    def _plain(self, leaves: Sequence[Any]) -> Any:
        values = list(leaves)
        for instruction, ended in zip(self._instructions, self._last_uses, strict=True):
            operands = [values[index] for index in instruction.operands]
            into = self._reusable(instruction, operands, ended)
            # numpy reuses the memory of temporaries in the same way.
            result = (
                instruction.plain(*operands)
                if into is None
                else instruction.ufunc(*operands, out=into)
            )
            values.append(result)
            for index in ended:
                # Free the memory for the next result.
                values[index] = None
        return values[-1]

    def _reusable(
        self, instruction: Instruction, operands: Sequence[Any], ended: tuple[int, ...]
    ) -> _Array | None:
        """Return an operand in which a fused kernel can leave an instruction's result, or None."""
        indices = instruction.operands
        if len(operands) == 2 and instruction.plain in _ELIDED and elides_temporaries():
            for at in (0, 1) if instruction.plain in _COMMUTATIVE else (0,):
                operand: _Array = operands[at]
                if indices[at] >= self._leaves and _is_elided(
                    instruction, operand, operands[1 - at]
                ):
                    # A common subexpression is computed once, but each use has its own axis order.
                    return operand if indices[at] in ended else operand.copy(order="K")
        for operand, index in zip(operands, indices, strict=True):
            # With operands in different axis orders the result may have either order.
            is_fresh = index >= self._leaves and index in ended and _is_float64(operand)
            if (
                is_fresh
                and keeps_float64(instruction.ufunc)
                and all(
                    (_is_float64(other) and other.shape == operand.shape and not axis_order(other))
                    or type(other) in {int, float}
                    for other in operands
                )
            ):
                return operand
        return None

    def _plan(self, leaves: Sequence[Any], roles: tuple[str, ...], into: int = -1) -> _Plan | None:
        key = tuple(map(_kind, leaves))
        try:
            return self._plans[key, roles, into]
        except KeyError:
            # Two threads may both make a plan; the plans are equal.
            plan = self._plans[key, roles, into] = _planned(self._instructions, key, roles, into)
            return plan


def _last_uses(chain: Chain) -> list[tuple[int, ...]]:
    """Return, for each instruction of a fused kernel, the values that it is the last to use."""
    last = {
        index: at
        for at, instruction in enumerate(chain.instructions)
        for index in instruction.operands
    }
    return [
        tuple(index for index, used in last.items() if used == at)
        for at in range(len(chain.instructions))
    ]


# How a leaf is cut into pieces: it has the full shape, it has rows to broadcast, it is whole in
# every piece, or it does not fit.
_FULL, _ROWS, _WHOLE, _MISFIT = "full", "rows", "whole", "misfit"


def _shape(leaves: Sequence[Any]) -> tuple[int, ...]:
    """Return the shape of the largest array of a fused kernel; empty if it is too small."""
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
        return _FULL if leaf.flags.aligned and _is_by_rows(leaf) else _MISFIT
    if leaf.ndim > len(shape) or any(
        length not in (1, target_length)
        for length, target_length in zip(leaf.shape[::-1], shape[::-1], strict=False)
    ):
        return _MISFIT
    return _ROWS if leaf.ndim == len(shape) and leaf.shape[0] != 1 else _WHOLE


def _is_by_rows(leaf: _Array) -> bool:
    """Return whether an input of a fused kernel has C order, perhaps with gaps between its rows.

    Then all results have C order without gaps, as numpy's own.
    """
    if leaf.flags.c_contiguous:
        return True
    shape, strides = leaf.shape, leaf.strides
    return strides[-1] == leaf.itemsize and all(
        outer >= inner * length
        for outer, inner, length in zip(strides, strides[1:], shape[1:], strict=False)
    )


def _may_overwrite(old: Any, shape: tuple[int, ...], dtype: np.dtype[Any], count: int) -> bool:
    """Return whether a fused kernel may overwrite an array with this number of references."""
    return (
        type(old) is np.ndarray
        and old.shape == shape
        and same_dtype(old.dtype, dtype)
        and old.flags.c_contiguous
        and old.flags.aligned
        and has_one_reference(old, count)
    )


def _kind(leaf: Any) -> Any:
    """Return an input's dtype or Python number class, by which a fused kernel is planned."""
    kind = type(leaf)
    return kind if kind in {int, float, complex} else np.asarray(leaf).dtype


def _planned(
    instructions: Sequence[Instruction], kinds: tuple[Any, ...], roles: tuple[str, ...], into: int
) -> _Plan | None:
    """Plan a fused kernel for input arrays of the given dtypes; None if they cannot be fused.

    ``into`` is the leaf that takes the result, or -1.
    """
    types, full = list(kinds), [role == _FULL for role in roles]
    wanted: list[tuple[np.dtype[Any], ...]] = []
    for instruction in instructions:
        # Without a full operand the result has another shape or is a number.
        if not any(full[index] for index in instruction.operands):
            return None
        dtypes = _resolved(instruction, [types[index] for index in instruction.operands])
        if dtypes is None:
            return None
        wanted.append(dtypes)
        types.append(dtypes[-1])
        full.append(True)
    instructions, numbers = _with_numbers(instructions, wanted, roles)
    results = [dtypes[-1] for dtypes in wanted]
    return _assign_arrays(instructions, results, len(kinds) + len(numbers), numbers, into)


def _resolved(instruction: Instruction, types: list[Any]) -> tuple[np.dtype[Any], ...] | None:
    """Return the dtypes of a ufunc's operands and result; None if no fused kernel computes it."""
    if instruction.plain is square and types[0].kind != "f":
        return None
    try:
        dtypes: tuple[np.dtype[Any], ...] = instruction.ufunc.resolve_dtypes((*types, None))
    except TypeError:
        # The ufunc has no loop for these dtypes. The unfused call raises numpy's own error.
        return None
    return dtypes if dtypes[-1].kind in "biufc" else None


def _with_numbers(
    instructions: Sequence[Instruction],
    wanted: Sequence[tuple[np.dtype[Any], ...]],
    roles: tuple[str, ...],
) -> tuple[list[Instruction], tuple[_Number, ...]]:
    """Replace scalar operands in a fused kernel's instructions by copies of other dtypes.

    Return the new instructions, and the copies that they need.
    """
    leaves = len(roles)
    pairs = [
        list(zip(instruction.operands, dtypes, strict=False))
        for instruction, dtypes in zip(instructions, wanted, strict=True)
    ]
    numbers = tuple(
        dict.fromkeys(
            pair
            for operand_pairs in pairs
            for pair in operand_pairs
            if pair[0] < leaves and roles[pair[0]] is _WHOLE
        )
    )
    indices = {number: leaves + at for at, number in enumerate(numbers)}

    def renumber(pair: _Number) -> int:
        return pair[0] + len(numbers) if pair[0] >= leaves else indices.get(pair, pair[0])

    renumbered = [
        replace(instruction, operands=tuple(map(renumber, operand_pairs)))
        for instruction, operand_pairs in zip(instructions, pairs, strict=True)
    ]
    return renumbered, numbers


def _assign_arrays(
    instructions: Sequence[Instruction],
    types: Sequence[np.dtype[Any]],
    leaves: int,
    numbers: tuple[_Number, ...],
    into: int,
) -> _Plan:
    """Plan where a fused kernel writes each instruction's result: into an operand, or a buffer."""
    last = {
        index: at for at, instruction in enumerate(instructions) for index in instruction.operands
    }
    result = leaves
    # The result's piece serves as a buffer until the last operator. If the result overwrites a
    # leaf, it is free only after the operator that uses the leaf last.
    buffers: list[tuple[int, np.dtype[Any]]] = [(result, types[-1])]
    free, calls = [] if into >= 0 else [result], []
    held: dict[int, int] = {into: result} if into >= 0 else {}
    for at, instruction in enumerate(instructions):
        operands = tuple(held.get(index, index) for index in instruction.operands)
        ended = {index for index in instruction.operands if index in held and last[index] == at}
        free += [held[index] for index in ended]
        final = at == len(instructions) - 1
        dtype = types[at]
        target = result if final else _take(free, dict(buffers), dtype)
        if target is None:
            target = leaves + len(buffers)
            buffers.append((target, dtype))
        held[leaves + at] = target
        first, second = operands if len(operands) == 2 else (*operands, -1)
        calls.append(_UfuncCall(instruction.ufunc, first, second, target))
    return _Plan(tuple(calls), numbers, tuple(buffers[1:]), result, types[-1])


def _take(free: list[int], dtypes: dict[int, np.dtype[Any]], dtype: np.dtype[Any]) -> int | None:
    for index in reversed(free):
        if same_dtype(dtypes[index], dtype):
            free.remove(index)
            return index
    return None


def _run(
    plan: _Plan,
    leaves: Sequence[Any],
    roles: tuple[str, ...],
    result: _Array,
    start_thread: Start | None,
) -> _Array:
    numbers = [_number(leaves[index], dtype) for index, dtype in plan.numbers]
    values: list[Any] = [*leaves, *numbers, result]
    roles = (*roles, *(_WHOLE,) * len(numbers), _FULL)
    if all(
        np.ndim(array) == 0 or (role is _FULL and array.flags.c_contiguous)
        for array, role in zip(values, roles, strict=True)
    ):
        # Nothing is broadcast and all arrays are contiguous: flatten them to one row.
        values = [array.reshape(-1) if np.ndim(array) else array for array in values]
    whole = values[plan.result]
    cut = {at: values[at] for at, role in enumerate(roles) if role is not _WHOLE}
    bytes_per_item = sum(array.itemsize for array in cut.values()) + sum(
        dtype.itemsize for _, dtype in plan.buffers
    )

    def alone() -> None:
        rows = _rows(whole.shape, max(_LEAST_ITEMS, _CACHE_BYTES // bytes_per_item))
        _pieces(plan, values, cut, rows, iter(range(0, len(whole), rows)))

    if start_thread is None or result.size * len(plan.calls) < _SHARED:
        alone()
        return result
    rows = _rows(whole.shape, max(_LEAST_OF_TWO, whole.size // _COUNT))
    starts = iter(range(0, len(whole), rows))
    run_in_two_threads(lambda: _pieces(plan, values, cut, rows, starts), start_thread, alone)
    return result


def _pieces(
    plan: _Plan, whole: Sequence[Any], cut: Mapping[int, _Array], rows: int, starts: Iterator[int]
) -> None:
    """Compute a fused kernel in blocks of rows; other threads may compute some of them.

    Args:
        plan: The plan.
        whole: Leaves, numbers, and the result.
        cut: Those of them that are cut.
        rows: Of a piece.
        starts: First rows of pieces; another thread may take some of them.
    """
    shape = cut[plan.result].shape
    buffers = [np.empty((rows, *shape[1:]), dtype) for _, dtype in plan.buffers]
    values = [*whole, *buffers]
    for start in starts:
        stop = start + rows
        piece = slice(start, stop)
        for index, array in cut.items():
            values[index] = array[piece]
        if stop > shape[0]:
            for index, _ in plan.buffers:
                values[index] = values[index][: shape[0] - start]
        for ufunc, first, second, target in plan.calls:
            # Positional, since parsing a keyword argument takes as long as a thousand items.
            if second < 0:
                ufunc(values[first], values[target])
            elif ufunc in MORE_OPERANDS:
                ufunc(values[first], values[second], out=values[target])
            else:
                ufunc(values[first], values[second], values[target])


def _rows(shape: tuple[int, ...], items: int) -> int:
    """Return how many rows a fused kernel computes at a time: about ``items`` numbers."""
    width = max(1, math.prod(shape[1:]))
    rows = max(1, min(items, _MOST_ITEMS) // width)
    return min(shape[0], rows if rows < _LANES else rows + -rows % _LANES)


@cache
def elides_temporaries() -> bool:
    """Return whether this numpy reuses temporary arrays for results, as a fused kernel must then.

    Then the result has that operand's axis order, which is seen in sums. Numpy does so where it
    finds the interpreter among its callers, which depends on how Python was compiled.
    """
    across, along = np.ones((256, 256)).T, np.ones((256, 256))
    return not (across * 1.0 - along).flags.c_contiguous


def _is_elided(instruction: Instruction, operand: Any, other: Any) -> bool:
    """Return whether numpy would overwrite this operand: a fused kernel then must, too."""
    if type(operand) is not np.ndarray or operand.nbytes < _ELIDED_BYTES:
        return False
    kind, dtype = operand.dtype.kind, operand.dtype
    if kind not in ("fc" if instruction.plain is operator.truediv else "iufc"):
        return False
    if type(other) is np.ndarray:
        return other.shape == operand.shape and np.can_cast(other.dtype, dtype)
    return kind in "fc" and type(other) in {int, float}


def _is_float64(value: Any) -> bool:
    return type(value) is np.ndarray and value.dtype is FLOAT64


def _number(leaf: Any, dtype: np.dtype[Any]) -> Any:
    """Convert a number for a fused kernel to its ufunc's float dtype, unless it would overflow."""
    if isinstance(leaf, np.ndarray) or dtype.kind not in "fc":
        return leaf
    with np.errstate(all="ignore"):
        number = np.asarray(leaf, dtype)
    # On overflow keep the number: numpy then warns at its use.
    return number if np.isfinite(number) else leaf


def count_references(values: Sequence[Any], index: int) -> int:
    """Count the references to one input of a fused kernel, including the one in ``values``."""
    return sys.getrefcount(values[index])


def has_one_reference(array: np.ndarray[Any, Any], count: int) -> bool:
    """Return whether a fused kernel's input array has one reference only, and may be overwritten.

    There is no other reference, no view and no weak reference.
    """
    return (
        count == _of_one_variable
        and array.flags.owndata
        and array.flags.writeable
        and weakref.getweakrefcount(array) == 0
    )


class _Counting:
    """A stand-in for a kernel that counts references, called as a fused chain is."""

    def __call__(self, worth: object, *leaves: Any) -> int:
        del worth
        return count_references(leaves, 0)


def _count_of_one(called: Callable[..., int]) -> int:
    array = np.empty(0)
    return called(None, array)


def _measured() -> int:
    """Measure the reference count that a fused kernel sees for one variable; -1 if unknown."""
    is_locked: Callable[[], bool] = getattr(sys, "_is_gil_enabled", lambda: True)
    # From Python 3.14 on, borrowed references of local variables are not counted.
    if sys.implementation.name != "cpython" or sys.version_info >= (3, 14) or not is_locked():
        return -1
    return _count_of_one(_Counting())


_of_one_variable = _measured()


def run_in_two_threads(work: Work, start: Start, alone: Work | None = None) -> None:
    """Run the pieces of a fused kernel in this thread and a second one, until both have ended.

    Floating-point events of the other thread are reported by this one afterwards, so that they have
    its place. Where there can be no other thread, or its processor computes otherwise, this one
    does it all.

    Args:
        work: Takes what is left to do from where both take it, until there is nothing.
        start: Runs work in another thread; raises ``RuntimeError`` where there can be none.
        alone: Does all of it, where there is no other thread; ``work`` if not given.

    Raises:
        BaseException: What either raised; the other has ended then, too.
    """
    ways, report = np.geterr(), np.geterrcall()
    alone = alone or work
    if not _CAN_WAIT.issuperset(ways.values()):
        alone()
        return
    way = probe_arithmetic()
    met: list[tuple[str, int]] = []
    raised: list[BaseException] = []
    ended: SimpleQueue[None] = SimpleQueue()

    def help_out() -> None:
        try:
            if probe_arithmetic() == way:
                with np.errstate(**ways, call=lambda kind, flags: met.append((kind, flags))):
                    work()
        except BaseException as error:  # noqa: BLE001 - raised below, in the other thread
            raised.append(error)

    try:
        start(help_out, lambda: ended.put(None))
    except (RuntimeError, EnvironmentFaultError):
        # No second thread can be started.
        alone()
        return
    try:
        work()
    finally:
        ended.get()
    if raised:
        raise raised[0]
    # Events are recorded in mode "call" only, in which there is a function to call.
    for kind, flags in dict.fromkeys(met):
        cast("Callable[[str, int], object]", report)(kind, flags)


def probe_arithmetic() -> bytes:
    """Compute bytes that show the floating-point mode of a thread that runs a fused kernel.

    A library that was built with ``-ffast-math``, or ``torch.set_flush_denormal``, changes it for
    the thread in which it is imported or called.
    """
    with np.errstate(all="ignore"):
        products: bytes = (_PROBES * _FACTORS).tobytes()
    return products
