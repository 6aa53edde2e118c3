"""What kind of value each parameter takes, by its name, and whether a value can be of it.

One name means one kind in every signature: the table is the types of all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

from jobrun.ops.known import COUNTER, DTYPE, NONE, TEXT, Known, as_array, kind_of

_INT = "N M num minlength num_segments length decimals axis1 axis2 offset nsample"
_FLAGS = (
    "keepdims equal_nan endpoint sparse increasing rowvar bias return_index return_inverse "
    "return_counts invert right deg full_matrices optimize replace shuffle density"
)
_TEXTS = "kind side indexing UPLO subscripts"
_WORDS = "method norm mode"
_LISTS = "arrays tup condlist choicelist choices keys"
_AXES = "axis axes source destination"

KINDS: dict[str, str] = {
    **dict.fromkeys(_INT.split(), "int"),
    **dict.fromkeys(_FLAGS.split(), "bool"),
    **dict.fromkeys(_TEXTS.split(), "text"),
    **dict.fromkeys(_WORDS.split(), "word"),
    **dict.fromkeys(_LISTS.split(), "arrays"),
    **dict.fromkeys(_AXES.split(), "axis"),
    **dict.fromkeys(("shape", "new_shape", "size"), "shape"),
    "dtype": "dtype",
    "k": "number",
    "counter": "counter",
}
# Where a name means something else.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("pad", "mode"): "text",
    ("tri", "N"): "number",
    ("linspace", "axis"): "number",
    ("norm", "axis"): "number",
    ("einsum", "subscripts"): "word",
    ("one_hot", "length"): "number",
    ("tri", "M"): "number",
    ("norm", "ord"): "number",
    ("standard_gamma", "shape"): "array",
    ("gamma", "shape"): "array",
    ("segment_sum", "num_segments"): "int",
    ("multivariate_hypergeometric", "nsample"): "int",
    ("hypergeometric", "nsample"): "array",
    # Of no differences at all it is not looked at.
    ("diff", "axis"): "number",
    ("len", "a"): "array or text",
    ("counter", "value"): "int",
    ("atomic_add", "amount"): "int",
    ("atomic_max", "value"): "int",
}


# What an operator gives where that is not an array, or a number of numpy's.
RESULTS: dict[str, str] = {
    **dict.fromkeys(
        ("int", "len", "count_up", "atomic_add", "atomic_max", "count_reset", "count_value"), "int"
    ),
    **dict.fromkeys(("bool", "count_down", "allclose", "array_equal"), "bool"),
    "float": "float",
    "counter": "counter",
}


@dataclass(frozen=True, slots=True)
class WrongKind:
    """An argument that no call can succeed with.

    Attributes:
        name: The parameter's.
        wanted: The kind that it takes.
        found: What is given, in words.
    """

    name: str
    wanted: str
    found: str


def kind(function: str, parameter: str) -> str:
    """The kind of value that a parameter takes; ``array`` where nothing else is said."""
    return EXCEPTIONS.get((function, parameter)) or KINDS.get(parameter, "array")


def wrong_kind(function: str, parameter: str, known: Known) -> WrongKind | None:
    """What is wrong with an argument, as far as its kind is known; None when nothing is.

    None as an argument stands for an absent one: whether it may be is not asked here.
    """
    wanted = kind(function, parameter)
    array = as_array(known)
    # Of no items at all numpy takes any dtype.
    is_empty = array.shape is not None and 0 in array.shape
    if is_empty or array.dtype in (None, NONE) or _fits(wanted, array):
        return None
    return WrongKind(parameter, wanted, _words(array))


def _fits(wanted: str, known: Known) -> bool:
    number = kind_of(known.dtype)
    match wanted:
        case "int" | "axis" | "shape":
            return number in ("b", "i", "u")
        case "text":
            return known.dtype == TEXT
        case "counter":
            return known.dtype == COUNTER
        case _:
            # numpy makes an array of almost anything; what it does then is for rules.
            return True


def _words(known: Known) -> str:
    if known.dtype == TEXT:
        return "text"
    if not kind_of(known.dtype):
        return f"{known.dtype}" if known.dtype == DTYPE else f"a {known.dtype}"
    if known.shape == ():
        return f"one {known.dtype}"
    return f"an array of {known.dtype}"
