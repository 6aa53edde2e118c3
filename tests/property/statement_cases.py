"""Draw statements, and values of all types for their names."""

from __future__ import annotations

import re
from random import Random

from jobrun.ops.declarations.creation import CREATION
from jobrun.ops.operator_table import DRAWS, OPERATORS
from tests.property.statement_judge import KNOWLEDGE, Case

_DTYPES = [
    "bool_",
    "int8",
    "uint8",
    "int16",
    "int64",
    "uint64",
    "float16",
    "float32",
    "float64",
    "longdouble",
    "complex64",
    "complex128",
]
_SHAPES = ("()", "(1,)", "(3,)", "(0,)", "(2, 3)", "(3, 3)", "(1, 3)", "(3, 1)", "(2, 0)",
           "(2, 2, 3)")  # fmt: skip
ARRAYS = tuple(
    f"full(shape={shape}, fill_value=2, dtype={dtype})" for dtype in _DTYPES for shape in _SHAPES
)
NUMBERS = (
    *("True", "3", "-2", "0", "2.5", "2j", "nan"),
    *(f"{dtype}(3)" for dtype in _DTYPES),
)
# What jobrun may refuse to compute with.
OTHERS = ("'text'", "None", "[]", "[1, 2]", "[1.5, 2, 3]", "(1, 2)", "()", "[[1, 2], [3, 4]]",
          "[zeros(3), zeros(3)]", "['a', 'b']", "array(['a', 'b', 'c'])")  # fmt: skip
# What no expression makes.
FOREIGN = ("{'a': 1, 'b': zeros(3)}", "b'bytes'", "array(['2020-01-01'], dtype='M8[D]')",
           "datetime64('2020-01-01')", "timedelta64(3, 'D')",
           "zeros(3, dtype=[('a', 'i4'), ('b', 'f8')])")  # fmt: skip
SIGNS = ["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
INDICES = ("0", "-1", "5", "True", "None", "...", ":", "1:", "::-1", "7:2", "::0", "0, 0", "0, :",
           "..., 0", "None, 0", "[0, 1]", "[0, 0]", "[]", "[True, False, True]", "x == 2", "y", "i",
           "1.5", "'a'", "(0, 1)", "[0, 1], [0, 1]", "[0, 1], 0", "0, 0, 0, 0")  # fmt: skip
_INDEX = ("i", "array([0, 1])")


def assignments(pick: Random) -> Case:
    """Draw a statement that assigns, and the values of its names."""
    index, other = pick.choice(INDICES), pick.choice(INDICES)
    sign = pick.choice(SIGNS)
    statement = pick.choice((
        f"x {sign}= y", f"x {sign}= y", f"x[{index}] = y", f"x[{index}] {sign}= y",
        f"z = x {sign} y", f"x[{index}] {sign}= x[{other}]", f"x[{index}] = x[{other}]",
        f"z = x[{index}]", f"x {sign}= x", f"x[:] {sign}= y", f"x[...] {sign}= y", "a, b = x",
        "a, b, c = x", "x, y = y, x", f"x[0], y[{index}] = y, x", f"a, x[{index}] = y",
        f"x[0], x[{index}] = x[{other}], x[0]", f"x {sign}= y {pick.choice(SIGNS)} x",
    ))  # fmt: skip
    kinds = (ARRAYS, ARRAYS, ARRAYS, NUMBERS, OTHERS, FOREIGN)
    knowledge = pick.choice(KNOWLEDGE)
    values = [pick.choice(pick.choice(kinds[: 6 if knowledge == "nothing" else 5])) for _ in "xy"]
    before = [("x", values[0]), ("y", values[1])]
    if re.search(r"\bi\b", statement):
        before.append(_INDEX)
    refusable = not {*values} <= {*ARRAYS, *NUMBERS}
    return Case(tuple(before), (statement,), knowledge, refusable=refusable)


_UNARY = ("-", "+", "~", "not ")
_COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_ATTRIBUTES = ("T", "shape", "size", "ndim", "dtype")
# An argument of these may ask for all memory there is.
_UNBOUNDED = {operator.name for operator in CREATION} | {
    "resize", "tile", "repeat", "pad", "broadcast_to", "vander", "one_hot", "matrix_power",
    "diag_indices", "tril_indices", "triu_indices", "bincount", "fft", "ifft", "rfft", "irfft",
}  # fmt: skip
_FUNCTIONS = tuple(
    name
    for name, operator in OPERATORS.items()
    if operator.deterministic
    and not operator.mutates
    and len(operator.parameters.required) <= 3
    and "count" not in name
    and name not in _UNBOUNDED
)
_CHANGES = ("x[0] = 1", "z[0] = 1", "z[0] += 1", "x += 1", "z += 1", "x[:] = y", "w = z", "y = z")


def expressions(pick: Random) -> Case:
    """Draw an assignment of an expression, mostly with a change of one of the names after it."""
    kinds = (ARRAYS, NUMBERS, NUMBERS, OTHERS, OTHERS, FOREIGN)
    knowledge = pick.choice(KNOWLEDGE)
    values = [pick.choice(pick.choice(kinds[: 6 if knowledge == "nothing" else 5])) for _ in "xy"]
    draw = _ExpressionDraw(pick)
    statements = [f"z = {draw.expression(2)}"]
    if pick.random() < 0.6:
        statements.append(pick.choice(_CHANGES))
    before = (("x", values[0]), ("y", values[1]))
    refusable = draw.has_others or not {*values} <= {*ARRAYS, *NUMBERS}
    return Case(before, tuple(statements), knowledge, refusable=refusable)


class _ExpressionDraw:
    """Draws one expression.

    Attributes:
        has_others: It has parts that are no numbers or arrays, with which jobrun may not compute.
    """

    def __init__(self, pick: Random) -> None:
        self._pick = pick
        self.has_others = False

    def expression(self, depth: int) -> str:
        """Draw an expression of at most so many levels."""
        pick = self._pick
        if not depth or pick.random() < 0.1:
            return self._leaf()
        first, second = self.expression(depth - 1), self.expression(depth - 1)
        choice = pick.randrange(11)
        # An index of a literal number is refused even where it is not reached.
        self.has_others |= choice in (5, 6, 7) or (choice == 4 and first in NUMBERS)
        match choice:
            case 0:
                return f"({pick.choice(_UNARY)}{first})"
            case 1:
                return f"({first} {pick.choice(_COMPARISONS)} {second})"
            case 2:
                return f"({first} {pick.choice(('and', 'or'))} {second})"
            case 3:
                return f"({first} if {second} else {self.expression(depth - 1)})"
            case 4:
                index = pick.choice([index for index in INDICES if index != "i"])
                return f"({first})[{index}]"
            case 5:
                return f"({first}).{pick.choice(_ATTRIBUTES)}"
            case 6:
                return f"[{first}, {second}]"
            case 7:
                return f"({first}, {second})"
            case 8:
                return f"({first} {pick.choice(SIGNS)} {second})"
            case _:
                name = pick.choice(_FUNCTIONS)
                required = OPERATORS[name].parameters.required
                arguments = [first, second, self._leaf()][: len(required)]
                return f"{name}({', '.join(arguments)})"

    def _leaf(self) -> str:
        pick = self._pick
        if pick.random() < 0.7:
            return pick.choice("xy")
        others = pick.random() < 0.5
        self.has_others |= others
        return pick.choice(OTHERS[:7] if others else NUMBERS[:7])


# Arguments that an operator may get: also some of wrong types, shapes and sizes.
_ARGUMENTS = (
    *ARRAYS[::7], *NUMBERS, *OTHERS, "u", "v", "w", "c", "-1", "5", "100", "(2, 3)", "(2, u)",
    "((1, 2), (3, 4))", "[u, v]", "[zeros((2, 3)), zeros(3)]", "[zeros((2, 3)), u]", "'full'",
    "float64", "int8", "(zeros(3), zeros((2, 2)))", "(-1,)", "(0, 0)", "(None, 2)", "[None]",
    "(1.5,)", "[[]]", "[[], [1]]", "([],)", "(v, v)", "9223372036854775807", "1e308", "inf",
)  # fmt: skip
_CALLABLE = (*OPERATORS.items(), *((f"rng.{name}", draw) for name, draw in DRAWS.items()))


def calls(pick: Random) -> str:
    """Draw a call of any operator, whose arguments may be of any type."""
    name, operator = pick.choice(_CALLABLE)
    signature = operator.parameters
    arguments = [pick.choice(_ARGUMENTS) for _ in signature.required]
    if pick.random() < 0.2:
        arguments.append(pick.choice(_ARGUMENTS))
    arguments += [
        f"{keyword}={pick.choice(_ARGUMENTS)}"
        for keyword in (*signature.positional, *signature.named)
        if keyword not in signature.required and pick.random() < 0.35
    ]
    call = f"{name}({', '.join(arguments)})"
    if pick.random() < 0.7:
        return call
    index = pick.choice(("0", "-1", ":", "0, 0", "...", "None"))
    return f"({call})[{index}] {pick.choice(SIGNS)} {pick.choice(_ARGUMENTS)}"
