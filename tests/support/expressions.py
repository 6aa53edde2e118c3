"""Parse, draw and evaluate expressions for tests, with a plain interpreter."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from jobrun.compile.expressions.parse import parse_expression, parse_statement
from jobrun.core.errors import Origin, SpecError
from jobrun.graph import expressions as e
from jobrun.graph.steps import Assign, NameTarget, Perform
from jobrun.ops.operator_table import implementation

# The text begins in column 9: a fault at offset 4 stands in column 13.
ORIGIN = Origin("job.yaml", 31, 9, 40, 9)

_BINARY = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "**": operator.pow, "@": operator.matmul,
    "<": operator.lt, ">": operator.gt,
}  # fmt: skip
_CONSTANTS = {"pi": np.pi, "inf": np.inf, "nan": np.nan}


def expression(text: Any, **params: Any) -> e.Expr:
    """Parse a text to the tree of an expression."""
    return parse_expression(text, ORIGIN, "epoch/t/steps[0]", params)


def statement(text: str, **params: Any) -> Any:
    """Parse a text to the operator of a statement."""
    return parse_statement(text, ORIGIN, "epoch/t/steps[0]", params)


def prepared(line: str, rng: Any = None) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Run all but the last statement of a text; return the last one's function and arguments."""
    names: dict[str, Any] = {}
    *before, last = line.split("; ")
    for text in before:
        names |= assigned(statement(text), names, rng)
    call = expression(last)
    assert isinstance(call, e.Call | e.Draw)
    args = tuple(work_out(arg, names, rng) for arg in call.args)
    kwargs = {name: work_out(value, names, rng) for name, value in call.kwargs}
    drawn = isinstance(call, e.Draw)
    function = getattr(rng, call.method) if drawn else implementation(call.function)
    return function, args, kwargs


def run_line(line: str, rng: Any = None) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Run statements joined by ``; ``; return result and arguments of the call that ends them."""
    function, args, kwargs = prepared(line, rng)
    return function(*args, **kwargs), args, kwargs


def assigned(op: Any, names: Mapping[str, Any], rng: Any = None) -> dict[str, Any]:
    """Return the names that a simple statement binds, with their values."""
    if isinstance(op, Perform):
        work_out(op.value, names, rng)
        return {}
    assert isinstance(op, Assign)
    (target,) = op.targets
    assert isinstance(target, NameTarget)
    return {target.name: work_out(op.value, names, rng)}


def work_out(expr: e.Expr, names: Mapping[str, Any], rng: Any = None) -> Any:
    """Evaluate an expression of the forms that examples use."""
    match expr:
        case e.Const():
            return ... if expr.ellipsis else expr.value
        case e.Name():
            return names[expr.name]
        case e.Builtin():
            return _CONSTANTS[expr.name]
        case e.Dtype():
            return getattr(np, expr.name)
        case e.Unary():
            assert expr.operator == "-"
            return -work_out(expr.operand, names, rng)
        case e.Binary():
            lhs, rhs = work_out(expr.left, names, rng), work_out(expr.right, names, rng)
            return _BINARY[expr.operator](lhs, rhs)
        case e.Compare():
            lhs, rhs = work_out(expr.left, names, rng), work_out(expr.rest[0], names, rng)
            return _BINARY[expr.operators[0]](lhs, rhs)
        case e.Sequence():
            items = [work_out(item, names, rng) for item in expr.items]
            return items if expr.kind == "list" else tuple(items)
        case e.Call():
            args = [work_out(arg, names, rng) for arg in expr.args]
            kwargs = {name: work_out(value, names, rng) for name, value in expr.kwargs}
            return implementation(expr.function)(*args, **kwargs)
        case _:
            raise AssertionError(f"no example should need {expr}")


_LEAVES = st.one_of(
    st.integers(-(2**63), 2**63).map(e.Const),
    st.floats(allow_nan=False, allow_infinity=False).map(e.Const),
    st.sampled_from([True, False, None]).map(e.Const),
    st.text("a'\"\\ ${}\n", max_size=5).map(e.Const),
    st.sampled_from(["x", "y", "long_name"]).map(e.Name),
    st.sampled_from(e.BUILTINS).map(e.Builtin),
    st.sampled_from(e.DTYPES).map(e.Dtype),
    st.just(e.LoopIndex("")),
    st.just(e.OutputRead("fit", "loss")),
    st.just(e.Text((e.Builtin("run.dir"), "/a$b'"))),
)


class _Grower:
    """Draws trees of forms that the parser makes, each of smaller trees."""

    def __init__(self, draw: st.DrawFn, depth: int) -> None:
        self._draw = draw
        self._depth = depth

    def tree(self) -> e.Expr:
        if self._depth == 0 or self._draw(st.booleans()):
            return self._draw(_LEAVES)
        self._depth -= 1
        grow = self._draw(st.sampled_from(_FORMS))
        tree = grow(self)
        self._depth += 1
        return tree

    def pick(self, *choices: Any) -> Any:
        return self._draw(st.sampled_from(choices))

    def trees(self, least: int = 0) -> tuple[e.Expr, ...]:
        return tuple(self.tree() for _ in range(self._draw(st.integers(least, 3))))

    def value(self) -> e.Expr:
        """Draw a tree that an attribute can follow."""
        tree = self.tree()
        words = e.Builtin | e.Dtype | e.LoopIndex
        return e.Name("x") if isinstance(tree, words) else tree

    def item(self) -> e.Expr:
        """Draw an index."""
        return self.pick(e.Const(None, ellipsis=True), self.tree(), self.slice())

    def slice(self) -> e.Expr:
        return e.Slice(*(self.pick(None, self.tree()) for _ in range(3)))


# Text is not repeated or formatted, and constants are not folded into huge ones.
_FORMS = (
    lambda grow: e.Unary(grow.pick("+", "~", "not"), grow.tree()),
    lambda _: e.Unary("-", e.Name("x")),
    lambda grow: e.Binary(e.Name("x"), grow.pick(*_BINARY_OPERATORS), grow.tree()),
    lambda grow: e.Binary(grow.tree(), grow.pick("+", "-", "/", "@", "&", "|"), e.Name("y")),
    lambda grow: e.Binary(e.Unary("-", e.Name("x")), "**", grow.tree()),
    lambda grow: e.Compare(grow.tree(), ("<", "!="), (grow.tree(), grow.tree())),
    lambda grow: e.Logical(grow.pick("and", "or"), (grow.tree(), *grow.trees(1))),
    lambda grow: e.Conditional(grow.tree(), grow.tree(), grow.tree()),
    lambda grow: e.Call("where", (grow.tree(), grow.tree(), grow.tree())),
    lambda grow: e.Call("sum", (grow.tree(),), (("axis", grow.tree()),)),
    lambda grow: e.Draw("normal", (grow.tree(),), (("size", grow.tree()),)),
    lambda grow: e.Attribute(grow.value(), grow.pick(*e.ATTRIBUTES)),
    lambda grow: e.Index(e.Call("sum", (grow.tree(),)), grow.item()),
    lambda grow: e.Index(e.Name("x"), e.Sequence((grow.item(), grow.item()))),
    lambda grow: e.Sequence(grow.trees(), grow.pick("tuple", "list")),
)
_BINARY_OPERATORS = ("+", "-", "/", "@", "&", "|", "^", ">>", "**", "%", "//")


@st.composite
def trees(draw: st.DrawFn) -> e.Expr:
    """Draw trees that the parser makes."""
    return _Grower(draw, 3).tree()


def faults(read: Any, *args: Any, **kwargs: Any) -> list[tuple[str, int, str, str]]:
    """Return of each fault of a text: code, offset in it (-1 for the whole), message and mend."""
    with pytest.raises(SpecError) as caught:
        read(*args, **kwargs)
    facts = []
    for fault in caught.value.faults:
        assert fault.path == "epoch/t/steps[0]"
        assert fault.where is not None
        at = fault.where.column - ORIGIN.column if fault.where != ORIGIN else -1
        facts.append((fault.code, at, fault.message, fault.mend))
    return facts


def fault(read: Any, *args: Any, **kwargs: Any) -> tuple[str, int, str, str]:
    """Return the only fault of a text."""
    (only,) = faults(read, *args, **kwargs)
    return only
