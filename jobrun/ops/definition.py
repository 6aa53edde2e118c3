"""Define what declares an operator: ``OpDef`` with its signature, and ``DrawDef`` of ``rng``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from jobrun.ops.abstract_values import COUNTER, DTYPE, NONE, TEXT, Known, Rule, as_array
from jobrun.ops.dtype_promotion import kind_of

# Has the functions of operators that numpy does not have.
OWN_FUNCTIONS = "jobrun.ops.numpy_implementations"

# ``OpDef.results`` of an operator that returns a tuple as long as its arguments say.
MANY = -1

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
# Parameters whose kind differs from that of other parameters of the same name.
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
    # With ``n=0`` numpy ignores the axis.
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


class OpDef(Struct, frozen=True):
    """One operator, which is a function of that name in expressions.

    Attributes:
        name: As it is written in a spec.
        signature: ``(a, axis=None)``; a parameter after ``/`` may be passed by name.
        implementation: ``module:attribute`` of the function that computes it.
        doc: What it does, one line.
        example: One line that runs: statements joined by ``; ``, the last one calls it.
        shares_memory: Its result may be, or be a view of, one of its arguments.
        mutates: Positions of the arguments that it changes in place.
        atomic: It may change one argument from several threads at once.
        deterministic: Equal arguments give equal bits.
        results: How many values it returns; 0 for none, ``MANY`` where the arguments decide.
        since: The language version that first had it. Names of version 1 are reserved, a
            later one is hidden by a blob of its name.
        rule: Gives dtype and shape of the result from those of the arguments, or that no
            such call can succeed; None where that takes the values themselves.
    """

    name: str
    signature: str
    implementation: str
    doc: str
    example: str
    shares_memory: bool = False
    mutates: tuple[int, ...] = ()
    atomic: bool = False
    deterministic: bool = True
    results: int = 1
    since: int = 1
    rule: Rule | None = None

    @property
    def parameters(self) -> Signature:
        """The parameters of the defined operator, parsed from its signature."""
        return parse_signature(self.signature)

    @property
    def typed_signature(self) -> str:
        """The signature of the defined operator as text, with each parameter's argument type."""
        results = RESULTS.get(self.name) or _RESULTS.get(self.results, "arrays")
        return f"{_typed(self.name, self.signature)} -> {results}"


def numpy_op(
    name: str,
    signature: str,
    doc: str,
    example: str,
    results: int = 1,
    *,
    shares: bool = False,
    module: str = "numpy",
) -> OpDef:
    """Define an operator that a function of the same name computes, in a module of numpy."""
    implementation = f"{module}:{name}"
    return OpDef(
        name, signature, implementation, doc, example, shares_memory=shares, results=results
    )


class DrawDef(Struct, frozen=True):
    """One method of the random stream, written ``rng.NAME(…)``; numpy's by name and meaning.

    Attributes:
        name: As it is written behind ``rng.``.
        signature: As that of an operator.
        doc: What it draws, one line.
        example: One line that runs.
        since: The language version that first had it.
        rule: As that of an operator.
    """

    name: str
    signature: str
    doc: str
    example: str
    since: int = 1
    rule: Rule | None = None

    @property
    def parameters(self) -> Signature:
        """The parsed signature in the definition of a method of ``rng``."""
        return parse_signature(self.signature)

    @property
    def typed_signature(self) -> str:
        """The signature of this ``DrawDef``, a drawing method of ``rng``, with argument types."""
        return f"{_typed(self.name, self.signature)} -> array"


_RESULTS = {0: "None", 1: "array", 2: "(array, array)", 3: "(array, array, array)"}
_Definition = TypeVar("_Definition", OpDef, DrawDef)


@cache
def _typed(function: str, text: str) -> str:
    arguments = parse_arguments(text)
    for parameter in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        parameter.annotation = ast.Name(kind(function, parameter.arg))
    return f"({ast.unparse(arguments)})"


def ruled(definitions: Iterable[_Definition], rules: Mapping[str, Rule]) -> tuple[_Definition, ...]:
    """Return operators' definitions (``OpDef``), each with the type rule given under its name.

    Raises:
        ValueError: A rule is for none of them.
    """
    ruled_definitions = tuple(
        replace(definition, rule=rules.get(definition.name, definition.rule))
        for definition in definitions
    )
    strays = set(rules) - {definition.name for definition in ruled_definitions}
    if strays:
        raise ValueError(f"rules for no operator: {', '.join(sorted(strays))}")
    return ruled_definitions


class WrongKind(Struct, frozen=True):
    """An argument that no call can succeed with.

    Attributes:
        name: The parameter's.
        wanted: The kind that it takes.
        actual: The argument's kind, in words.
    """

    name: str
    wanted: str
    actual: str


def kind(function: str, parameter: str) -> str:
    """Return the kind of a parameter in an operator's definition, such as ``array`` or ``int``."""
    return EXCEPTIONS.get((function, parameter)) or KINDS.get(parameter, "array")


def wrong_kind(function: str, parameter: str, known: Known) -> WrongKind | None:
    """Describe how an argument's dtype does not fit the operator's definition; None if it does.

    None counts as an argument that was not passed; whether that is allowed is not checked here.
    """
    wanted = kind(function, parameter)
    array = as_array(known)
    # numpy accepts any dtype for an empty array.
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
            # numpy converts almost anything to an array. The rules judge the result.
            return True


def _words(known: Known) -> str:
    if known.dtype == TEXT:
        return "text"
    if not kind_of(known.dtype):
        return f"{known.dtype}" if known.dtype == DTYPE else f"a {known.dtype}"
    if known.shape == ():
        return f"one {known.dtype}"
    return f"an array of {known.dtype}"


class Signature(Struct, frozen=True):
    """The parameters of a function, as far as a call can be checked against them.

    Attributes:
        positional: Parameters that may be given by position, in order.
        unnamed: How many of them, from the first, cannot be given by name.
        named: Parameters that are given by name only.
        required: Those without a default.
        variadic: Further arguments by position are taken.
    """

    positional: tuple[str, ...]
    unnamed: int
    named: tuple[str, ...]
    required: frozenset[str]
    variadic: bool

    @property
    def keywords(self) -> tuple[str, ...]:
        """The parameters in an operator's definition that may be given by name."""
        return self.positional[self.unnamed :] + self.named

    def too_many(self, count: int) -> bool:
        """Return whether a call has more positional arguments than an operator's definition."""
        return not self.variadic and count > len(self.positional)

    def missing(self, count: int, keywords: Iterable[str]) -> tuple[str, ...]:
        """List the required parameters of an operator's definition that a call leaves out."""
        passed = {*self.positional[:count], *keywords}
        return tuple(
            name
            for name in (*self.positional, *self.named)
            if name in self.required and name not in passed
        )

    def parameter(self, position: int) -> str:
        """Return the name of the parameter at a position in an operator's definition, or ""."""
        return self.positional[position] if position < len(self.positional) else ""


@cache
def parse_signature(text: str) -> Signature:
    """Parse the signature in an operator's definition: ``(a, axis=None, *, keepdims=False)``.

    Raises:
        SyntaxError: The text is none.
    """
    return _signature(parse_arguments(text))


def parse_arguments(text: str) -> ast.arguments:
    """Parse the signature in an operator's definition into ``ast.arguments`` of Python."""
    function = ast.parse(f"lambda {text.strip()[1:-1]}: 0", mode="eval").body
    if isinstance(function, ast.Lambda):
        return function.args
    raise SyntaxError(text)


def _signature(arguments: ast.arguments) -> Signature:
    positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    named = [arg.arg for arg in arguments.kwonlyargs]
    required = set(positional[: len(positional) - len(arguments.defaults)])
    pairs = zip(named, arguments.kw_defaults, strict=True)
    required |= {name for name, default in pairs if default is None}
    return Signature(
        tuple(positional),
        len(arguments.posonlyargs),
        tuple(named),
        frozenset(required),
        arguments.vararg is not None,
    )
