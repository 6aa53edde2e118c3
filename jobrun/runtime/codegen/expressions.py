"""Build the Python syntax trees (``ast``) of expressions, and the single nodes of all code."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Iterable
from importlib import import_module
from types import ModuleType
from typing import Any, assert_never

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.text.big_integers import formatted_integer
from jobrun.core.text.names import did_you_mean
from jobrun.graph import expressions as e
from jobrun.graph.types import OutputRef
from jobrun.ops.operator_table import DRAWS, implementation
from jobrun.runtime.codegen import coercion
from jobrun.runtime.codegen.elementwise_chains import (
    FLOAT64,
    ReuseChain,
    ReuseStep,
    build_chain,
    find_reuse_chain,
    float64_constant,
    is_fusible,
)
from jobrun.runtime.codegen.fused_kernel import FusedKernel
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.kinds.counter import Counter

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
# A constant exponent up to this needs no check of its size.
_HARMLESS_EXPONENT = 64


def import_numpy_module(name: str, *_: object) -> ModuleType:
    """Import a module of numpy for code generated from expressions; refuse any other module.

    Raises:
        ImportError: It is no module of numpy's.
    """
    if name.partition(".")[0] != "numpy":
        raise ImportError(f"no import of {name} here")
    return import_module(name)


class Globals:
    """The objects that one piece of generated code may name, each bound once."""

    def __init__(self) -> None:
        # Without this entry Python would add all its builtins. No generated code uses them.
        self.table: dict[str, Any] = {"__builtins__": {"__import__": import_numpy_module}}
        self._names: dict[int, str] = {}

    def bind(self, value: object, hint: str) -> ast.expr:
        """Bind an object to a name of generated expressions; return that name's ``ast`` node."""
        name = self._names.get(id(value))
        if name is None:
            name = f"_{hint}_{len(self._names)}"
            self._names[id(value)] = name
            self.table[name] = value
        return load(name)

    def call(self, function: Callable[..., object], *args: ast.expr) -> ast.expr:
        """Build the ``ast`` node of a call of a function that generated expressions need."""
        return call(self.bind(function, function.__name__), *args)

    def is_exactly(self, value: ast.expr, kind: type) -> ast.expr:
        """Build the ``ast`` node of a test of a value's type: ``type(value) is kind``."""
        return ast.Compare(self.call(type, value), [ast.Is()], [self.bind(kind, kind.__name__)])

    def if_unbound(self, body: list[ast.stmt], handler: list[ast.stmt]) -> ast.stmt:
        """Build the ``try`` node of statements that may read a variable which has no value."""
        unbound = self.bind(UnboundLocalError, "Unbound")
        return ast.Try(body, [ast.ExceptHandler(unbound, None, handler)], [], [])


class ExpressionBuilder:
    """Builds Python expressions from expression trees, given how leaves are read.

    Args:
        names: Where global objects are bound.
        read: The Python expression that reads a blob, an output or a node's blob.
    """

    def __init__(self, names: Globals, read: Callable[[e.Expr], ast.expr]) -> None:
        self._names = names
        self._read = read
        # Maps the path of a loop to the variable with its pass number.
        self.pass_numbers: dict[str, str] = {}
        # Whether names mostly hold arrays, as the fields of records do.
        self.names_hold_arrays = False
        # Variables that say whether a chain is worth fusing; None in code that is
        # no function of its own.
        self.worth: list[tuple[str, ast.expr]] | None = None
        # Variables for unnamed values of the current statement; None where there can be none.
        self.held: list[str] | None = None
        # Choices between a float64 array and any other value in the current statement.
        self.choices: list[ast.expr] = []
        # The current value, the name it is assigned to, and the variable with the old value.
        self._replaced: tuple[e.Expr, str, str] | None = None
        # Operators inside the current chain.
        self._inside: set[int] = set()
        # Operators of the current reuse chain, and the variables of values by ``id``.
        self._as_written: set[int] = set()
        self._standing: dict[int, str] = {}

    def value_of(self, name: str, expr: e.Expr, spare: str = "") -> ast.expr:
        """Build the ``ast`` of an expression that may overwrite the old array of its name."""
        self._replaced = (expr, name, spare)
        built = self.of(expr)
        self._replaced = None
        return built

    def of(self, expr: e.Expr) -> ast.expr:
        """Generate the Python ``ast`` node of an expression of the spec."""
        if id(expr) in self._standing:
            return load(self._standing[id(expr)])
        if isinstance(expr, e.Binary | e.Unary | e.Compare | e.Call):
            if self._begins_chain(expr):
                return self._chained(expr)
            reuse = self._reuse_chain(expr)
            if reuse is not None:
                return self._over(expr, reuse)
        return self._written(expr)

    def _written(self, expr: e.Expr) -> ast.expr:
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
                chosen = choose_function(expr.function, len(expr.args), keywords)
                function = self._names.bind(chosen, "op")
                return self._call(function, expr.args, expr.kwargs)
            case e.Draw():
                method = ast.Attribute(load("f.rng"), _known(expr.method, DRAWS), ast.Load())
                return self._call(method, expr.args, expr.kwargs)
            case e.Text():
                return self._names.call(join_text, *map(self._part, expr.parts))
            case e.Attribute():
                return self._attribute(expr)
            case e.Slice() | e.Index() | e.Sequence():
                return self._structure(expr)
            case _:
                return self._operation(expr)

    def _begins_chain(self, expr: e.Expr) -> bool:
        return self.worth is not None and id(expr) not in self._inside and is_fusible(expr)

    def _chained(self, expr: e.Expr) -> ast.expr:
        """Build an expression's syntax tree, as a call of a fused kernel where that costs less."""
        assert self.worth is not None  # noqa: S101 - for the type checker
        chain, replaced, spare = build_chain(expr), -1, ""
        if self._replaced is not None and expr is self._replaced[0]:
            name, spare = e.Name(self._replaced[1]), self._replaced[2]
            replaced = chain.leaves.index(name) if name in chain.leaves else -1
        worth = f"h{len(self.worth)}"
        kernel = self._names.bind(FusedKernel(chain, replaced, has_spare=bool(spare)), "kernel")
        self.worth.append((worth, call(ast.Attribute(kernel, "begin", ast.Load()), load("f"))))
        leaves = [self.of(leaf) for leaf in chain.leaves]
        self._inside.update(map(id, chain.operators))
        more = [load(spare)] if spare else []
        return ast.IfExp(load(worth), call(kernel, load(worth), *leaves, *more), self.of(expr))

    def _reuse_chain(self, expr: e.Expr) -> ReuseChain | None:
        is_plain = self.held is None or id(expr) in self._as_written
        return None if is_plain else find_reuse_chain(expr, names=self.names_hold_arrays)

    def _over(self, expr: e.Expr, reuse: ReuseChain) -> ast.expr:
        """Build an expression's ``ast`` node that overwrites its operand's array if it is float64.

        And ``v`` lets go of the array at once: numpy reuses such temporaries.
        """
        assert self.held is not None  # noqa: S101 - for the type checker
        base = self.of(reuse.base)
        is_named = isinstance(base, ast.Name)
        variable = base.id if isinstance(base, ast.Name) else f"v{len(self.held)}"
        looked_at: ast.expr = base
        if not is_named:
            self.held.append(variable)
            looked_at = ast.NamedExpr(store(variable), base)
        dtype = ast.Attribute(load(variable), "dtype", ast.Load())
        is_array = self._names.is_exactly(looked_at, np.ndarray)
        is_float = ast.Compare(dtype, [ast.Is()], [self._names.bind(FLOAT64, "float64")])
        quick = load(variable)
        for link in reuse.links:
            into = [load(variable)] if reuse.reuses else []
            quick = call(self._names.bind(link.ufunc, "op"), *self._operands(link, quick), *into)
        operators = {id(link.expr) for link in reuse.links}
        self._as_written |= operators
        self._standing[id(reuse.base)] = variable
        written = self._written(expr)
        del self._standing[id(reuse.base)]
        self._as_written -= operators
        chosen = ast.IfExp(ast.BoolOp(ast.And(), [is_array, is_float]), quick, written)
        if is_named:
            self.choices.append(chosen)
            return chosen
        let_go = ast.NamedExpr(store(variable), ast.Constant(None))
        return item(ast.Tuple([chosen, let_go], ast.Load()), ast.Constant(0), ast.Load())

    def _operands(self, link: ReuseStep, array: ast.expr) -> list[ast.expr]:
        match link.other:
            case None:
                return [array]
            case float(number):
                other = self._names.bind(float64_constant(number.hex()), "number")
            case _:
                other = self.of(link.other)
        return [other, array] if link.is_first else [array, other]

    def _attribute(self, expr: e.Attribute) -> ast.expr:
        """Generate the expression ``x.T`` and the like: no call if ``x`` is an array."""
        function = self._names.bind(coercion.read_attribute, "attribute")
        name = ast.Constant(_known(expr.name, e.ATTRIBUTES))
        value = self.of(expr.value)
        if not isinstance(value, ast.Name):
            return call(function, value, name)
        is_array = self._names.is_exactly(value, np.ndarray)
        direct = ast.Attribute(load(value.id), expr.name, ast.Load())
        return ast.IfExp(is_array, direct, call(function, load(value.id), name))

    def _structure(self, expr: e.Slice | e.Index | e.Sequence) -> ast.expr:
        match expr:
            case e.Slice():
                return ast.Slice(*(self.of(bound) if bound else None for bound in _bounds(expr)))
            case e.Index():
                return self._index(self.of(expr.value), self.of(expr.index))
            case e.Sequence(kind="list"):
                return ast.List(self._each(expr.items), ast.Load())
            case e.Sequence():
                return ast.Tuple(self._each(expr.items), ast.Load())
            case _:
                assert_never(expr)

    def _index(self, value: ast.expr, index: ast.expr) -> ast.expr:
        """Generate the expression ``value[index]``, or a call where the value is a literal."""
        if isinstance(index, ast.Slice | ast.Tuple) or _has_name(value):
            return item(value, index, ast.Load())
        # Python's compiler prints a SyntaxWarning about ``'a'[2.5]``, which is an error of the run.
        return self._names.call(operator.getitem, value, index)

    def _operation(
        self, expr: e.Unary | e.Binary | e.Compare | e.Logical | e.Conditional
    ) -> ast.expr:
        match expr:
            case e.Unary():
                return ast.UnaryOp(_UNARY[expr.operator](), self.of(expr.operand))
            case e.Binary():
                return self._binary(expr)
            case e.Compare():
                kinds = [_COMPARE[sign]() for sign in expr.operators]
                return ast.Compare(self.of(expr.left), kinds, self._each(expr.rest))
            case e.Logical():
                kind = ast.And() if expr.operator == "and" else ast.Or()
                return ast.BoolOp(kind, self._each(expr.operands))
            case e.Conditional():
                return ast.IfExp(*self._each((expr.condition, expr.then, expr.otherwise)))
            case _:
                assert_never(expr)

    def _each(self, exprs: Iterable[e.Expr]) -> list[ast.expr]:
        return [self.of(expr) for expr in exprs]

    def _call(
        self, function: ast.expr, args: tuple[e.Expr, ...], kwargs: tuple[tuple[str, e.Expr], ...]
    ) -> ast.expr:
        keywords = [ast.keyword(name, self.of(value)) for name, value in kwargs]
        return ast.Call(function, self._each(args), keywords)

    def _binary(self, expr: e.Binary) -> ast.expr:
        lhs, rhs = self.of(expr.left), self.of(expr.right)
        if expr.operator == "**" and not _is_harmless(expr.right):
            return self._names.call(coercion.power, lhs, rhs)
        if expr.operator == "%" and _may_be_text(expr.left):
            return self._names.call(coercion.modulo, lhs, rhs)
        if expr.operator == "<<":
            return self._names.call(coercion.shift_left, lhs, rhs)
        return ast.BinOp(lhs, BINARY[expr.operator](), rhs)

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
        return self._names.call(format_value, self.of(part.value), ast.Constant(part.format))


def load(name: str) -> ast.expr:
    """Build the Python ``ast`` node that reads a variable, or an attribute: ``name.attribute``."""
    first, *attributes = name.split(".")
    node: ast.expr = ast.Name(first, ast.Load())
    for attribute in attributes:
        node = ast.Attribute(node, attribute, ast.Load())
    return node


def store(name: str) -> ast.Name:
    """Build the Python ``ast`` node of a variable to which a value is assigned."""
    return ast.Name(name, ast.Store())


def assign(name: str, value: ast.expr) -> ast.stmt:
    """Build the Python ``ast`` node of the statement ``name = value``."""
    return ast.Assign([store(name)], value)


def call(function: ast.expr, *args: ast.expr) -> ast.expr:
    """Build the Python ``ast`` node of the call ``function(*args)``."""
    return ast.Call(function, list(args), [])


def item(container: ast.expr, key: ast.expr, context: ast.expr_context) -> ast.Subscript:
    """Build the Python ``ast`` node of the subscript ``container[key]``."""
    return ast.Subscript(container, key, context)


def output_ref(read: e.OutputRead) -> OutputRef:
    """Build the key by which an expression's generated code finds a task's output at run time."""
    return OutputRef(read.task, read.node, read.output)


def _bounds(part: e.Slice) -> tuple[e.Expr | None, e.Expr | None, e.Expr | None]:
    return part.start, part.stop, part.step


def _is_harmless(exponent: e.Expr) -> bool:
    value = exponent.value if isinstance(exponent, e.Const) else None
    if isinstance(exponent, e.Unary) and isinstance(exponent.operand, e.Const):
        value = exponent.operand.value
    return isinstance(value, float) or (isinstance(value, int) and value <= _HARMLESS_EXPONENT)


def _may_be_text(value: e.Expr) -> bool:
    """Return whether the code generated for an expression's operand may yield a ``str``."""
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


Function = Callable[..., Any]


def choose_function(operator: str, positional: int, named: Collection[str]) -> Function:
    """Choose the Python function that generated code calls for an operator in an expression.

    Raises:
        KeyError: There is no operator of that name.
    """
    function = implementation(operator)
    direct = _DIRECT.get(function)
    # Further arguments differ from function to function.
    fits = 1 <= positional <= 2 and _AXES.issuperset(named)
    return direct if direct is not None and fits else function


def _reduction(function: Function, reduce: Function, dtype: Any = None) -> Function:
    def reduced(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if type(a) is _ARRAY:
            return reduce(a, axis, dtype, None, keepdims)
        return function(a, axis, keepdims=True) if keepdims else function(a, axis)

    return reduced


def _search(function: Function, method: Function) -> Function:
    def searched(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
        if type(a) is _ARRAY and not keepdims:
            return method(a, axis)
        return function(a, axis, keepdims=True) if keepdims else function(a, axis)

    return searched


def _mean(a: Any, axis: Any = None, *, keepdims: bool = False) -> Any:
    if type(a) is _ARRAY:
        if axis is None and not keepdims and a.dtype is _FLOAT64 and a.size:
            return _ADD(a, None) / a.size
        return _MEAN(a, axis, None, None, keepdims=keepdims)
    return np.mean(a, axis, keepdims=True) if keepdims else np.mean(a, axis)


_ARRAY = np.ndarray
# ``Any``: which of its overloads is meant is unknown here.
_MEAN: Any = np.ndarray.mean
_ADD = np.add.reduce
# There is one object for each of numpy's own dtypes; one of foreign byte order is another.
_FLOAT64 = np.dtype(np.float64)
_AXES = frozenset({"axis", "keepdims"})
_DIRECT: dict[Function, Function] = {
    np.sum: _reduction(np.sum, _ADD),
    np.prod: _reduction(np.prod, np.multiply.reduce),
    np.max: _reduction(np.max, np.maximum.reduce),
    np.min: _reduction(np.min, np.minimum.reduce),
    np.any: _reduction(np.any, np.logical_or.reduce, np.bool_),
    np.all: _reduction(np.all, np.logical_and.reduce, np.bool_),
    np.mean: _mean,
    np.argmin: _search(np.argmin, np.ndarray.argmin),
    np.argmax: _search(np.argmax, np.ndarray.argmax),
}


def _has_name(tree: ast.expr) -> bool:
    """Return whether an expression's generated ``ast`` has a variable, so is no literal."""
    return any(isinstance(node, ast.Name) for node in ast.walk(tree))


def format_value(value: Value, spec: str) -> str:
    """Format a value in a text expression: in ``loss {loss:.3f}``, ``loss`` by ``.3f``.

    Raises:
        TaskFailedError: E213, if the format does not suit the value.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    try:
        if isinstance(value, np.ndarray):
            return _array_text(value, spec)
        plain = _plain(value)
        if type(plain) is int:
            return formatted_integer(plain, spec)
        return format(value, spec) if spec else str(plain)
    except (ValueError, TypeError) as error:
        message = f"the format '{spec}' does not fit a {describe(value)}"
        mend = "leave the format out, or use one for that kind of value"
        raise TaskFailedError.of("E213", message, mend) from error


def join_text(*parts: object) -> str:
    """Join the literals and formatted values of a text expression, for generated code."""
    return "".join(map(str, parts))


def _plain(value: Value) -> Value:
    return value.value if type(value) is Counter else value


def _array_text(value: np.ndarray[Any, Any], spec: str) -> str:
    if not spec:
        return str(value)
    return np.array2string(value, formatter={"all": lambda number: format(number, spec)})
