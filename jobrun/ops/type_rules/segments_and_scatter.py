"""Infer what segment functions, in-place scattering and counters return, and refuse misfits."""

from __future__ import annotations

from jobrun.ops.abstract_values import (
    COUNTER,
    KINDS,
    NONE,
    SHAPES,
    Arguments,
    Known,
    MisfitError,
    Result,
    Rule,
    broadcast,
    clash,
    integer,
    shape_text,
)
from jobrun.ops.dtype_promotion import as_mean, as_sum, kind_of
from jobrun.ops.type_rules.searching import index_kind


def _rows(given: Arguments) -> tuple[Known, int | None]:
    """Infer rows and segment count for type rules of ``segment_sum`` and the like; or refuse."""
    values, segments = given.array("values"), given.array("segments")
    if segments.shape != (0,):
        index_kind(segments, "segments")
    if segments.shape is not None and len(segments.shape) != 1:
        message = f"segments are one row of integers, not shape {shape_text(segments.shape)}"
        raise MisfitError(SHAPES, message, "give the segment of each row of the values")
    if values.shape == () or (
        values.shape and segments.shape and clash(values.shape[0], segments.shape[0])
    ):
        shapes = f"{shape_text(values.shape)} and {shape_text(segments.shape or (None,))}"
        message = f"shapes {shapes} do not fit: there must be one segment for each row"
        raise MisfitError(SHAPES, message, "give as many segments as the values have rows")
    return values, integer(given.get("num_segments"))


def _summed(given: Arguments) -> Result:
    values, number = _rows(given)
    shape = None if values.shape is None else (number, *values.shape[1:])
    return (Known(as_sum(values.dtype), shape), Known("int64", (number,)))


def _averaged(given: Arguments) -> Result:
    values, number = _rows(given)
    shape = None if values.shape is None else (number, *values.shape[1:])
    return Known(as_mean(as_sum(values.dtype)), shape)


def _extreme(given: Arguments) -> Result:
    values, number = _rows(given)
    shape = None if values.shape is None else (number, *values.shape[1:])
    return Known(values.dtype if kind_of(values.dtype) in ("i", "u", "f") else None, shape)


def _scattered(given: Arguments) -> Known:
    array, indices = given.array("a"), given.array("indices")
    if given.get("indices").items is None and indices.shape != (0,):
        index_kind(indices, "indices")
    values = given.array("values").shape
    whole = indices.dtype is not None and kind_of(indices.dtype) in ("i", "u")
    is_row = given.get("indices").items is None and whole
    if is_row and array.shape and indices.shape is not None and values is not None:
        place = (*indices.shape, *array.shape[1:])
        together = broadcast(values, place)
        if together is None or len(together) > len(place):
            message = f"values of shape {shape_text(values)} do not fit into {shape_text(place)}"
            raise MisfitError(SHAPES, message, "give one value, or one for each place")
    return Known(array.dtype if kind_of(array.dtype) else None, array.shape)


def _in_place(given: Arguments) -> Known:
    _scattered(given)
    return Known(NONE, ())


def _set(given: Arguments) -> Known:
    # Leading lengths of 1 are dropped there.
    return Known(given.dtype("a"), given.array("a").shape)


def _counts(result: str) -> Rule:
    def rule(given: Arguments) -> Known:
        counter = given.get("counter")
        if counter.dtype not in (None, COUNTER):
            message = f"this is no counter but {counter.dtype}"
            raise MisfitError(KINDS, message, "make one with counter(0)")
        return Known(result, (), weak=True)

    return rule


def _new_counter(given: Arguments) -> Known:
    value = given.get("value")
    if kind_of(value.dtype) in ("f", "c"):
        message = f"a counter counts whole numbers, not {value.dtype}"
        raise MisfitError(KINDS, message, "write for example counter(0)")
    if isinstance(value.value, int) and value.value < 0:
        message = f"a counter begins at 0 or more, not at {value.value}"
        raise MisfitError(KINDS, message, "write counter(0), and count_down, which goes below 0")
    return Known(COUNTER, ())


ACCUMULATION_RULES: dict[str, Rule] = {
    "segment_sum": _summed,
    "segment_mean": _averaged,
    "segment_max": _extreme,
    "segment_min": _extreme,
    "index_add": _scattered,
    "index_set": _set,
    **dict.fromkeys(("add_at", "subtract_at", "multiply_at", "maximum_at", "minimum_at"),
                    _in_place),
    "counter": _new_counter,
    **dict.fromkeys(("count_up", "atomic_add", "atomic_max", "count_reset", "count_value"),
                    _counts("int64")),
    "count_down": _counts("bool"),
}  # fmt: skip
