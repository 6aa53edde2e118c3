"""Expression trees as Python syntax trees. Makes no code: ``codegen`` alone does."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, assert_never

import numpy as np

from jobrun.core.names import did_you_mean
from jobrun.graph import expr as e
from jobrun.graph.types import OutputRef
from jobrun.ops.table import DRAWS
from jobrun.runtime import landing, texts
from jobrun.runtime.chains import chain_of, is_chain
from jobrun.runtime.columns import compare, has_column, known_row
from jobrun.runtime.direct import form
from jobrun.runtime.pieces import Pieces
from jobrun.runtime.temporaries import (
    FLOAT64,
    Link,
    Spine,
    constant,
    spine_of,
)

BINARY: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv,
    "%": ast.Mod, "**": ast.Pow, "@": ast.MatMult, "&": ast.BitAnd, "|": ast.BitOr,
    "^": ast.BitXor, "<<": ast.LShift, ">>": ast.RShift,
}  # fmt: skip
_UNARY: dict[str, type[ast.unaryop]] = {
    "-": ast.USub, "+": ast.UAdd, "~": ast.Invert, "not": ast.Not,
}  # fmt: skip
_COMPARE: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, ">": ast.Gt, ">=": ast.GtE, "==": ast.Eq, "!=": ast.NotEq,
}  # fmt: skip
_BUILTINS: dict[str, str] = {
    "epoch": "f.epoch", "instance": "f.instance", "instances": "f.instances",
    "node.name": "f.node.name", "node.index": "f.node.index", "node.count": "f.node.count",
    "run.dir": "f.run.run_dir",
}  # fmt: skip
_NUMBERS: dict[str, float] = {"inf": float("inf"), "nan": float("nan"), "pi": float(np.pi)}
_ATTRIBUTES: dict[str, Callable[[Any], Any]] = {
    "T": landing.attribute_t,
    "shape": landing.attribute_shape,
    "size": landing.attribute_size,
    "ndim": landing.attribute_ndim,
    "dtype": landing.attribute_dtype,
}
# A constant exponent up to this needs no check of its size.
_HARMLESS_EXPONENT = 64


def load(name: str) -> ast.expr:
    """A variable, or a chain of attributes of one, being read."""
    first, *rest = name.split(".")
    node: ast.expr = ast.Name(first, ast.Load())
    for attribute in rest:
        node = ast.Attribute(node, attribute, ast.Load())
    return node


def store(name: str) -> ast.Name:
    """A variable being bound."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.stmt:
    """``name = value``."""
    return ast.Assign([store(name)], value)


def call(function: ast.expr, *args: ast.expr) -> ast.expr:
    """``function(*args)``."""
    return ast.Call(function, list(args), [])


def item(container: ast.expr, key: ast.expr, context: ast.expr_context) -> ast.Subscript:
    """``container[key]``."""
    return ast.Subscript(container, key, context)


def import_of_numpy(name: str, *_: object) -> ModuleType:
    """What numpy asks of the code that calls it, when it has an error to explain.

    Raises:
        ImportError: It is no module of numpy's.
    """
    if name.partition(".")[0] != "numpy":
        raise ImportError(f"no import of {name} here")
    return import_module(name)


class Globals:
    """The objects that one piece of generated code may name, each bound once."""

    def __init__(self) -> None:
        # Without this, Python would put all its builtins in. No code names the one that is here.
        self.table: dict[str, Any] = {"__builtins__": {"__import__": import_of_numpy}}
        self._names: dict[int, str] = {}

    def bind(self, value: object, hint: str) -> ast.expr:
        """A name for ``value``; the same object always gets the same one."""
        name = self._names.get(id(value))
        if name is None:
            name = f"_{hint}_{len(self._names)}"
            self._names[id(value)] = name
            self.table[name] = value
        return load(name)


class Expressions:
    """Turns expression trees into Python's, given how leaves are read.

    Args:
        names: Where global objects are bound.
        read: The Python expression that reads a blob, an output or a node's blob.
    """

    def __init__(self, names: Globals, read: Callable[[e.Expr], ast.expr]) -> None:
        self._names = names
        self._read = read
        # Loops of this code that keep their pass number in a variable: path -> variable.
        self.pass_numbers: dict[str, str] = {}
        # Variables that tell whether a chain is worth computing in pieces; None in code that is
        # no function of its own.
        self.worth: list[tuple[str, ast.expr]] | None = None
        # Variables of the statement at hand for what has no name; None where there can be none.
        self.held: list[str] | None = None
        # The whole value at hand, the name that gets it, and the variable of what it held before.
        self._replaced: tuple[e.Expr, str, str] | None = None
        # Operators inside the chain at hand.
        self._inside: set[int] = set()
        # Operators of the spine at hand, and by ``id`` what stands in a variable.
        self._as_written: set[int] = set()
        self._standing: dict[int, str] = {}

    def value_of(self, name: str, expr: e.Expr, spare: str = "") -> ast.expr:
        """As ``of``, for the value that a variable's blob gets; ``spare`` holds what it had."""
        self._replaced = (expr, name, spare)
        made = self.of(expr)
        self._replaced = None
        return made

    def of(self, expr: e.Expr) -> ast.expr:
        """The Python expression of the same meaning."""
        if id(expr) in self._standing:
            return load(self._standing[id(expr)])
        if isinstance(expr, e.Binary | e.Unary | e.Compare | e.Call):
            if self._begins_chain(expr):
                return self._chained(expr)
            spine = self._spine(expr)
            if spine is not None:
                return self._over(expr, spine)
        return self._written(expr)

    def _written(self, expr: e.Expr) -> ast.expr:  # noqa: C901 - one case per kind of a closed union
        match expr:
            case e.Const():
                return ast.Constant(... if expr.ellipsis else expr.value)
            case e.Dtype():
                return self._names.bind(getattr(np, _known(expr.name, e.DTYPES)), expr.name)
            case e.Name() | e.OutputRead() | e.NodeBlob():
                return self._read(expr)
            case e.Builtin():
                number = _NUMBERS.get(expr.name)
                return load(_BUILTINS[expr.name]) if number is None else ast.Constant(number)
            case e.LoopIndex():
                return self._pass_number(expr.loop)
            case e.Call():
                keywords = [name for name, _ in expr.kwargs]
                chosen = form(expr.function, len(expr.args), keywords)
                function = self._names.bind(chosen, "op")
                return self._call(function, expr.args, expr.kwargs)
            case e.Draw():
                method = ast.Attribute(load("f.rng"), _known(expr.method, DRAWS), ast.Load())
                return self._call(method, expr.args, expr.kwargs)
            case e.Text():
                return call(self._names.bind(texts.join, "join"), *map(self._part, expr.parts))
            case e.Attribute():
                return self._attribute(expr)
            case e.Slice() | e.Index() | e.Sequence():
                return self._structure(expr)
            case _:
                return self._operation(expr)

    def _begins_chain(self, expr: e.Expr) -> bool:
        return self.worth is not None and id(expr) not in self._inside and is_chain(expr)

    def _chained(self, expr: e.Expr) -> ast.expr:
        """``pieces(worth, leaves) if worth else expr``: what it is, or what costs less."""
        assert self.worth is not None  # noqa: S101 - for the type checker
        chain, replaced, spare = chain_of(expr), -1, ""
        if self._replaced is not None and expr is self._replaced[0]:
            name, spare = e.Name(self._replaced[1]), self._replaced[2]
            replaced = chain.leaves.index(name) if name in chain.leaves else -1
        worth = f"h{len(self.worth)}"
        pieces = self._names.bind(Pieces(chain, replaced, has_spare=bool(spare)), "pieces")
        self.worth.append((worth, call(ast.Attribute(pieces, "begin", ast.Load()), load("f"))))
        leaves = [self.of(leaf) for leaf in chain.leaves]
        self._inside.update(map(id, chain.operators))
        more = [load(spare)] if spare else []
        return ast.IfExp(load(worth), call(pieces, load(worth), *leaves, *more), self.of(expr))

    def _spine(self, expr: e.Expr) -> Spine | None:
        is_plain = self.held is None or id(expr) in self._as_written
        return None if is_plain else spine_of(expr)

    def _over(self, expr: e.Expr, spine: Spine) -> ast.expr:
        """``f(n, v, v) if type(v := base) is ndarray and v.dtype is float64 else n + v``.

        And ``v`` lets go of the array at once: numpy reuses what nobody else has, too.
        """
        assert self.held is not None  # noqa: S101 - for the type checker
        base = self.of(spine.base)
        variable = f"v{len(self.held)}"
        self.held.append(variable)
        kind = call(self._names.bind(type, "type"), ast.NamedExpr(store(variable), base))
        dtype = ast.Attribute(load(variable), "dtype", ast.Load())
        is_array = ast.Compare(kind, [ast.Is()], [self._names.bind(np.ndarray, "ndarray")])
        is_float = ast.Compare(dtype, [ast.Is()], [self._names.bind(FLOAT64, "float64")])
        quick = load(variable)
        for link in spine.links:
            into = [load(variable)] if spine.reuses else []
            quick = call(self._names.bind(link.ufunc, "op"), *self._operands(link, quick), *into)
        operators = {id(link.expr) for link in spine.links}
        self._as_written |= operators
        self._standing[id(spine.base)] = variable
        written = self._written(expr)
        del self._standing[id(spine.base)]
        self._as_written -= operators
        chosen = ast.IfExp(ast.BoolOp(ast.And(), [is_array, is_float]), quick, written)
        let_go = ast.NamedExpr(store(variable), ast.Constant(None))
        return item(ast.Tuple([chosen, let_go], ast.Load()), ast.Constant(0), ast.Load())

    def _operands(self, link: Link, array: ast.expr) -> list[ast.expr]:
        match link.other:
            case None:
                return [array]
            case float(number):
                other = self._names.bind(constant(number.hex()), "number")
            case _:
                other = self.of(link.other)
        return [other, array] if link.is_first else [array, other]

    def _attribute(self, expr: e.Attribute) -> ast.expr:
        """``x.T if type(x) is ndarray else attribute_t(x)``: no call for an array."""
        function = self._names.bind(_ATTRIBUTES[expr.name], expr.name)
        value = self.of(expr.value)
        if not isinstance(value, ast.Name):
            return call(function, value)
        kind = call(self._names.bind(type, "type"), value)
        is_array = ast.Compare(kind, [ast.Is()], [self._names.bind(np.ndarray, "ndarray")])
        direct = ast.Attribute(load(value.id), expr.name, ast.Load())
        return ast.IfExp(is_array, direct, call(function, load(value.id)))

    def _structure(self, expr: e.Slice | e.Index | e.Sequence) -> ast.expr:
        match expr:
            case e.Slice():
                return ast.Slice(*(self.of(one) if one else None for one in _bounds(expr)))
            case e.Index():
                return item(self.of(expr.value), self.of(expr.index), ast.Load())
            case e.Sequence(form="list"):
                return ast.List(self._each(expr.items), ast.Load())
            case e.Sequence():
                return ast.Tuple(self._each(expr.items), ast.Load())
            case _:
                assert_never(expr)

    def _operation(
        self, expr: e.Unary | e.Binary | e.Compare | e.Logical | e.Conditional
    ) -> ast.expr:
        match expr:
            case e.Unary():
                return ast.UnaryOp(_UNARY[expr.operator](), self.of(expr.operand))
            case e.Binary():
                return self._binary(expr)
            case e.Compare() if has_column(expr):
                function, row = compare(expr.operators[0]), known_row(expr.rest[0])
                right = self.of(expr.rest[0]) if row is None else self._names.bind(row, "row")
                return call(self._names.bind(function, "compare"), self.of(expr.left), right)
            case e.Compare():
                kinds = [_COMPARE[one]() for one in expr.operators]
                return ast.Compare(self.of(expr.left), kinds, self._each(expr.rest))
            case e.Logical():
                kind = ast.And() if expr.operator == "and" else ast.Or()
                return ast.BoolOp(kind, self._each(expr.operands))
            case e.Conditional():
                return ast.IfExp(*self._each((expr.condition, expr.then, expr.otherwise)))
            case _:
                assert_never(expr)

    def _each(self, exprs: Iterable[e.Expr]) -> list[ast.expr]:
        return [self.of(one) for one in exprs]

    def _call(
        self,
        function: ast.expr,
        args: tuple[e.Expr, ...],
        kwargs: tuple[tuple[str, e.Expr], ...],
    ) -> ast.expr:
        keywords = [ast.keyword(name, self.of(value)) for name, value in kwargs]
        return ast.Call(function, self._each(args), keywords)

    def _binary(self, expr: e.Binary) -> ast.expr:
        left, right = self.of(expr.left), self.of(expr.right)
        if expr.operator == "**" and not _is_harmless(expr.right):
            return call(self._names.bind(landing.power, "power"), left, right)
        if expr.operator == "%" and _may_be_text(expr.left):
            return call(self._names.bind(landing.modulo, "modulo"), left, right)
        if expr.operator == "<<":
            return call(self._names.bind(landing.shift_left, "shift"), left, right)
        return ast.BinOp(left, BINARY[expr.operator](), right)

    def _pass_number(self, loop: str) -> ast.expr:
        variable = self.pass_numbers.get(loop)
        if variable is not None:
            return load(variable)
        return item(load("f.loops"), ast.Constant(loop), ast.Load())

    def _part(self, part: str | e.Hole | e.Builtin) -> ast.expr:
        if isinstance(part, str):
            return ast.Constant(part)
        if isinstance(part, e.Builtin):
            return self.of(part)
        fill = self._names.bind(texts.fill, "fill")
        return call(fill, self.of(part.value), ast.Constant(part.format))


def output_ref(read: e.OutputRead) -> OutputRef:
    """The identity of the output that an expression reads."""
    return OutputRef(read.task, read.node, read.output)


def _bounds(part: e.Slice) -> tuple[e.Expr | None, e.Expr | None, e.Expr | None]:
    return part.start, part.stop, part.step


def _is_harmless(exponent: e.Expr) -> bool:
    value = exponent.value if isinstance(exponent, e.Const) else None
    if isinstance(exponent, e.Unary) and isinstance(exponent.operand, e.Const):
        value = exponent.operand.value
    return isinstance(value, float) or (isinstance(value, int) and value <= _HARMLESS_EXPONENT)


def _may_be_text(value: e.Expr) -> bool:
    """Whether an expression may give text: numbers of the spec and operations on them do not."""
    match value:
        case e.Const():
            return isinstance(value.value, str)
        case e.Binary():
            return value.operator == "+" and _may_be_text(value.left)
        case e.LoopIndex() | e.Unary() | e.Compare() | e.Draw() | e.Attribute():
            return False
        case _:
            return True


def _known(name: str, known: Iterable[str]) -> str:
    # The tree may have been built by hand; nothing but these names reaches Python.
    names = tuple(known)
    if name not in names:
        raise ValueError(f"unknown name '{name}': {did_you_mean(name, names)}")
    return name
