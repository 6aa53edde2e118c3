"""Define the expressions of a spec as frozen trees, one class per kind of node.

The compiler builds these trees from the text of a spec; the runtime turns them into
Python code. There is no node for attribute access, import, lambda or comprehension in
general, so the safety of an expression does not rest on a list of forbidden things.
Offsets (``at``) count characters from the start of the expression's text; they serve
error messages and never take part in comparison.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from jobrun.core.partly_compared import PartlyCompared

_TYPE_NAMES = (
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 "
    "float16 float32 float64 longdouble complex64 complex128"
)
DTYPES: tuple[str, ...] = tuple(_TYPE_NAMES.split())
ATTRIBUTES: tuple[str, ...] = ("T", "shape", "size", "ndim", "dtype")
# Readable everywhere without being blobs. ``iter`` and ``rng`` have nodes of their own.
BUILTINS: tuple[str, ...] = (
    "epoch", "instance", "instances", "node.name", "node.index", "node.count", "inf", "nan", "pi",
)  # fmt: skip

UnaryOperator = Literal["-", "+", "~", "not"]
BinaryOperator = Literal["+", "-", "*", "/", "//", "%", "**", "@", "&", "|", "^", "<<", ">>"]
Comparison = Literal["<", "<=", ">", ">=", "==", "!="]


class Const(Struct, frozen=True):
    """A literal: bool, int, float, complex, text, None; ``...`` is Ellipsis (in indices)."""

    value: bool | int | float | complex | str | None
    ellipsis: bool = False


class Dtype(Struct, frozen=True):
    """One of ``DTYPES``, by name."""

    name: str


class Name(PartlyCompared, frozen=True):
    """A blob, looked up in the workspace that its task's scopes say."""

    name: str
    at: int = 0


class Builtin(Struct, frozen=True):
    """One of ``BUILTINS``."""

    name: str


class LoopIndex(Struct, frozen=True):
    """The iteration number (int, from 0) of an enclosing loop, given by the loop's path."""

    loop: str


class OutputRead(PartlyCompared, frozen=True):
    """A task's output, a snapshot taken when that task ended.

    ``node`` is empty until the compiler has found which node's task is meant.
    """

    task: str
    output: str
    node: str = ""
    at: int = 0


class NodeBlob(Struct, frozen=True):
    """A state blob of a named node, in stop conditions, metrics and expectations."""

    node: str
    name: str


class Unary(Struct, frozen=True):
    """An operator before its operand: ``-x``, ``not x``."""

    operator: UnaryOperator
    operand: Expr


class Binary(Struct, frozen=True):
    """An operator between two operands: ``x + y``, ``x @ y``, ``x < y``."""

    left: Expr
    operator: BinaryOperator
    right: Expr


class Compare(Struct, frozen=True):
    """A chain: ``left op[0] rest[0] op[1] rest[1] …``."""

    left: Expr
    operators: tuple[Comparison, ...]
    rest: tuple[Expr, ...]


class Logical(Struct, frozen=True):
    """``and`` / ``or`` over two or more operands, evaluated lazily."""

    operator: Literal["and", "or"]
    operands: tuple[Expr, ...]


class Conditional(Struct, frozen=True):
    """``then if condition else otherwise``."""

    condition: Expr
    then: Expr
    otherwise: Expr


class Call(PartlyCompared, frozen=True):
    """A registered function, by its name in the operator table."""

    function: str
    args: tuple[Expr, ...] = ()
    kwargs: tuple[tuple[str, Expr], ...] = ()
    at: int = 0


class Draw(PartlyCompared, frozen=True):
    """A method of the task's random stream, such as ``rng.choice(…)``."""

    method: str
    args: tuple[Expr, ...] = ()
    kwargs: tuple[tuple[str, Expr], ...] = ()
    at: int = 0


class Attribute(Struct, frozen=True):
    """One of ``ATTRIBUTES`` of a value."""

    value: Expr
    name: str


class Slice(Struct, frozen=True):
    """``start:stop:step`` as an index; None for a part that is left out."""

    start: Expr | None = None
    stop: Expr | None = None
    step: Expr | None = None


class Index(Struct, frozen=True):
    """``value[index]``; several indices are a ``Sequence`` of form tuple."""

    value: Expr
    index: Expr


class Sequence(Struct, frozen=True):
    """``(a, b)`` or ``[a, b]``."""

    items: tuple[Expr, ...]
    kind: Literal["tuple", "list"] = "tuple"


class Hole(Struct, frozen=True):
    """``{expr:format}`` inside a text."""

    value: Expr
    format: str = ""


class Text(Struct, frozen=True):
    """A text with parts that are filled in at run time.

    A part is literal text, a ``Hole``, or one of the ``Builtin`` names ``epoch``,
    ``instance``, ``node.name`` and ``run.dir``.
    """

    parts: tuple[str | Hole | Builtin, ...]


Expr = (
    Const
    | Dtype
    | Name
    | Builtin
    | LoopIndex
    | OutputRead
    | NodeBlob
    | Unary
    | Binary
    | Compare
    | Logical
    | Conditional
    | Call
    | Draw
    | Attribute
    | Slice
    | Index
    | Sequence
    | Text
)
