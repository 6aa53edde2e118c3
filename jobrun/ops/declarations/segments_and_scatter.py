"""Declare the operators on segments of rows, in-place operators, and counters, with type rules."""

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
from jobrun.ops.declarations.searching import index_kind
from jobrun.ops.definition import OWN_FUNCTIONS, OpDef, numpy_op, ruled
from jobrun.ops.dtype_promotion import as_mean, as_sum, kind_of


def _segment(name: str, doc: str, results: int = 1) -> OpDef:
    example = f"{name}([1.0, 2.0, 4.0], [0, 1, 0], 2)"
    signature = "(values, segments, num_segments)"
    return numpy_op(name, signature, doc, example, results, module=OWN_FUNCTIONS)


def _in_place(name: str, doc: str, value: str = "2.0") -> OpDef:
    return OpDef(
        name,
        "(a, indices, values, /)",
        f"jobrun.ops.numpy_implementations:{name}",
        doc,
        f"u = ones(3); {name}(u, [0, 0, 2], {value})",
        mutates=(0,),
        results=0,
    )


def _counter(name: str, signature: str, doc: str, arguments: str) -> OpDef:
    return OpDef(
        name,
        signature,
        f"jobrun.ops.numpy_implementations:{name}",
        doc,
        f"c = counter(3); {name}({arguments})",
        mutates=(0,),
        atomic=True,
    )


_STATE = (
    _segment("segment_sum", "sum and number of the rows of each segment", 2),
    _segment("segment_mean", "mean of the rows of each segment; nan where there is none"),
    _segment("segment_max", "largest of the rows of each segment; -inf where there is none"),
    _segment("segment_min", "smallest of the rows of each segment; inf where there is none"),
    OpDef("index_add", "(a, indices, values, /)", "jobrun.ops.numpy_implementations:index_add",
          "a with values added at indices, as a new array; repeated indices sum",
          "index_add(zeros(3), [0, 0, 2], 1.0)"),
    OpDef("index_set", "(a, indices, values, /)", "jobrun.ops.numpy_implementations:index_set",
          "a with values at indices, as a new array; of repeated indices the last wins",
          "index_set(zeros(3), [0, 2], [5.0, 7.0])"),
    _in_place("add_at", "add values at indices in place; repeated indices sum"),
    _in_place("subtract_at", "subtract values at indices in place; repeated indices sum"),
    _in_place("multiply_at", "multiply items at indices in place; repeated indices each count"),
    _in_place("maximum_at", "raise items at indices to values in place"),
    _in_place("minimum_at", "lower items at indices to values in place", "0.5"),
    OpDef("counter", "(value=0, /)", "jobrun.ops.numpy_implementations:counter",
          "a counter that tasks may change at the same time; nets are passed the counter itself, "
          "d = c makes another one", "counter(0)"),
    _counter("count_up", "(counter, /)", "add 1; gives the old value", "c"),
    _counter("count_down", "(counter, /)", "take 1 away; gives whether it was 0 or less", "c"),
    _counter("atomic_add", "(counter, amount, /)", "add an int; gives the old value", "c, 5"),
    _counter("atomic_max", "(counter, value, /)", "raise to a value; gives the old one", "c, 7"),
    _counter("count_reset", "(counter, /)", "back to 0; gives the old value", "c"),
    OpDef("count_value", "(counter, /)", "jobrun.ops.numpy_implementations:count_value",
          "the present value of a counter", "c = counter(3); count_value(c)"),
)  # fmt: skip


def _rows(args: Arguments) -> tuple[Known, int | None]:
    """Check the arguments of a ``segment_sum`` or the like; return rows and number of segments."""
    values, segments = args.array("values"), args.array("segments")
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
    return values, integer(args.get("num_segments"))


def _summed(args: Arguments) -> Result:
    values, number = _rows(args)
    shape = None if values.shape is None else (number, *values.shape[1:])
    return (Known(as_sum(values.dtype), shape), Known("int64", (number,)))


def _averaged(args: Arguments) -> Result:
    values, number = _rows(args)
    shape = None if values.shape is None else (number, *values.shape[1:])
    return Known(as_mean(as_sum(values.dtype)), shape)


def _extreme(args: Arguments) -> Result:
    values, number = _rows(args)
    shape = None if values.shape is None else (number, *values.shape[1:])
    return Known(values.dtype if kind_of(values.dtype) in ("i", "u", "f") else None, shape)


def _scattered(args: Arguments) -> Known:
    array, indices = args.array("a"), args.array("indices")
    if args.get("indices").items is None and indices.shape != (0,):
        index_kind(indices, "indices")
    values = args.array("values").shape
    whole = indices.dtype is not None and kind_of(indices.dtype) in ("i", "u")
    is_row = args.get("indices").items is None and whole
    if is_row and array.shape and indices.shape is not None and values is not None:
        target = (*indices.shape, *array.shape[1:])
        joint = broadcast(values, target)
        if joint is None or len(joint) > len(target):
            message = f"values of shape {shape_text(values)} do not fit into {shape_text(target)}"
            raise MisfitError(SHAPES, message, "give one value, or one for each place")
    return Known(array.dtype if kind_of(array.dtype) else None, array.shape)


def _returned_in_place(args: Arguments) -> Known:
    _scattered(args)
    return Known(NONE, ())


def _set(args: Arguments) -> Known:
    # numpy drops leading axes of length 1 from the values.
    return Known(args.dtype("a"), args.array("a").shape)


def _counts(result: str) -> Rule:
    def rule(args: Arguments) -> Known:
        counter = args.get("counter")
        if counter.dtype not in (None, COUNTER):
            message = f"this is no counter but {counter.dtype}"
            raise MisfitError(KINDS, message, "make one with counter(0)")
        return Known(result, (), weak=True)

    return rule


def _new_counter(args: Arguments) -> Known:
    value = args.get("value")
    if kind_of(value.dtype) in ("f", "c"):
        message = f"a counter counts whole numbers, not {value.dtype}"
        raise MisfitError(KINDS, message, "write for example counter(0)")
    if isinstance(value.value, int) and value.value < 0:
        message = f"a counter begins at 0 or more, not at {value.value}"
        raise MisfitError(KINDS, message, "write counter(0), and count_down, which goes below 0")
    return Known(COUNTER, ())


_RULES: dict[str, Rule] = {
    "segment_sum": _summed,
    "segment_mean": _averaged,
    "segment_max": _extreme,
    "segment_min": _extreme,
    "index_add": _scattered,
    "index_set": _set,
    **dict.fromkeys(("add_at", "subtract_at", "multiply_at", "maximum_at", "minimum_at"),
                    _returned_in_place),
    "counter": _new_counter,
    **dict.fromkeys(("count_up", "atomic_add", "atomic_max", "count_reset", "count_value"),
                    _counts("int64")),
    "count_down": _counts("bool"),
}  # fmt: skip

SEGMENTS_AND_SCATTER = ruled(_STATE, _RULES)
