"""Parse texts that differ only in names once: the tree of the first makes those of the others.

A large spec is written by a program: ten thousand of its statements are ``x7 = t - x7`` with
another number. A text is taken apart into words and what is between them, its shape; from the tree
of the first text of a shape, a function is made that builds the tree of any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

from jobrun.compile.expressions.limits import MAX_INT
from jobrun.compile.expressions.parse import parse_expression, parse_statement
from jobrun.compile.expressions.python_ast import is_plain
from jobrun.compile.expressions.reserved_names import MEANINGFUL
from jobrun.compile.expressions.translate import Params
from jobrun.core.errors import Origin
from jobrun.core.lazy_dataclass import dataclass, field_types
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import Const, Expr, Name, OutputRead
from jobrun.graph.steps import Delete, ItemTarget, NameTarget, Op

# Not an attribute, not the end of a number, and not what no blob can be named.
_WORD = lazy_pattern(r"(?<![\w.])((?!__)[A-Za-z_]\w{0,63})(?!\w)", re.ASCII)
# A text, taken apart: at odd positions its words, at even ones what is between them.
_Parts = list[str]
# Builds a part of a tree from the parts of a text, and the offset of each of them in it.
_Make = Callable[[_Parts, list[int]], Any]
_Shape = tuple[str | int, ...]
# The field of a node that is a name of the text.
_NAMED: dict[type[Any], str] = {
    Name: "name", NameTarget: "name", ItemTarget: "name", OutputRead: "task",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Constant:
    """A part that each tree of a shape has."""

    value: Any


class ShapedParser:
    """Parses the statements and expressions of one job, and remembers their shapes.

    Args:
        params: The params, which are replaced by their values.
    """

    def __init__(self, params: Params) -> None:
        self._params = params
        self._fixed = MEANINGFUL.union(params)
        # None: a text of this shape is parsed each time.
        self._statements: dict[_Shape, tuple[Callable[..., Op], _Make] | None] = {}
        self._expressions: dict[_Shape, _Make | None] = {}
        self._equal: dict[str, Expr] = {}
        self._integers: dict[int, Expr] = {}

    def statement(self, text: str, origin: Origin, path: str) -> Op:
        """Parse a statement, or copy the tree of one parsed before that differs only in names.

        Raises:
            SpecError: It is not valid; with all its faults.
        """
        if not is_plain(text):
            return parse_statement(text, origin, path, self._params)
        parts, shape = self._take_apart(text)
        known = self._statements.get(shape)
        if known is not None:
            kind, make = known
            return kind(*make(parts, _offsets(parts)), path, origin)
        op = parse_statement(text, origin, path, self._params)
        if shape not in self._statements:
            learner = _Learner(parts, shape)
            # All but the last fields, which are the path and the origin.
            learnt = learner.learn(op, _tuple_of, skip=2)
            self._statements[shape] = (type(op), learnt) if learnt else None
        return op

    def known(self, value: Any) -> Expr | None:
        """Return the tree of a literal, or of a text equal to one parsed before; else None."""
        if type(value) is str:
            return self._equal.get(value)
        if type(value) is int and abs(value) < MAX_INT:
            found = self._integers.get(value)
            return found or self._integers.setdefault(value, Const(value))
        return Const(value) if value is None or type(value) in (bool, float) else None

    def expression(self, value: Any, origin: Origin, path: str) -> Expr:
        """Parse an expression, or copy the tree of one parsed before that differs only in names.

        Raises:
            SpecError: It is not valid; with all its faults.
        """
        if not isinstance(value, str) or not is_plain(value):
            return parse_expression(value, origin, path, self._params)
        found = self._equal.get(value)
        if found is None:
            found = self._equal[value] = self._expression(value, origin, path)
        return found

    def _expression(self, text: str, origin: Origin, path: str) -> Expr:
        parts, shape = self._take_apart(text)
        make = self._expressions.get(shape)
        if make is not None:
            expr: Expr = make(parts, _offsets(parts))
            return expr
        expr = parse_expression(text, origin, path, self._params)
        if shape not in self._expressions:
            self._expressions[shape] = _Learner(parts, shape).learn(expr, type(expr))
        return expr

    def _take_apart(self, text: str) -> tuple[_Parts, _Shape]:
        """Split a text into words and the rest, and number its names, so renamed texts match."""
        parts = _WORD.split(text)
        shape: list[str | int] = [*parts]
        numbers: dict[str, int] = {}
        for position in range(1, len(parts), 2):
            word = parts[position]
            if word not in self._fixed:
                shape[position] = numbers.setdefault(word, position)
        return parts, tuple(shape)


class _Learner:
    """Makes, from the tree of a text, the functions that build the trees of texts of its shape."""

    def __init__(self, parts: _Parts, shape: _Shape) -> None:
        offsets = _offsets(parts)
        self._positions = {offsets[one]: one for one in range(1, len(parts), 2)}
        self._first = {parts[one]: one for one in shape if isinstance(one, int)}
        self._unseen = sum(isinstance(one, int) for one in shape)
        self._is_exact = True

    def learn(self, tree: Op | Expr, kind: Callable[..., Any], skip: int = 0) -> _Make | None:
        """Build the function that makes a parsed tree again with another text's names, or None.

        Returns:
            None where not each word of the text is a name in the tree: one is a keyword, say.
        """
        made = self._node(tree, kind, skip)
        is_whole = self._is_exact and self._unseen == 0
        return made if is_whole and not isinstance(made, _Constant) else None

    def _node(self, node: Any, kind: Callable[..., Any], skip: int = 0) -> _Make | _Constant:
        # As for other nodes, but faster: most are one of these.
        if type(node) is Name:
            return self._name(node)
        if type(node) is NameTarget:
            word = self._position(node.name)
            return lambda parts, _: NameTarget(parts[word])
        named = _NAMED.get(type(node))
        values: list[_Make | _Constant] = []
        for name in list(field_types(node.__class__))[: -skip or None]:
            value = getattr(node, name)
            if name == named:
                values.append(self._word(value))
            elif name == "at":
                values.append(self._offset(value))
            elif isinstance(node, Delete):
                values.append(_build(_tuple_of, list(map(self._word, value))))
            else:
                values.append(self._value(value))
        return _build(kind, values)

    def _value(self, value: Any) -> _Make | _Constant:
        if isinstance(value, tuple):
            return _build(_tuple_of, [self._value(one) for one in value])
        return self._node(value, type(value)) if field_types(value.__class__) else _Constant(value)

    def _name(self, node: Name) -> _Make:
        self._position(node.name)
        self._offset(node.at)
        position = self._positions.get(node.at, 0)
        return lambda parts, offsets: Name(parts[position], offsets[position])

    def _word(self, name: str) -> _Make:
        position = self._position(name)
        return lambda parts, _: parts[position]

    def _position(self, name: str) -> int:
        """Find the first mention of a name in the text whose parsed tree is to be copied."""
        self._unseen -= 1
        position = self._first.get(name, 0)
        self._is_exact = self._is_exact and position > 0
        return position

    def _offset(self, at: int) -> _Make:
        position = self._positions.get(at, 0)
        self._is_exact = self._is_exact and position > 0
        return lambda _, offsets: offsets[position]


def _offsets(parts: _Parts) -> list[int]:
    return list(accumulate(map(len, parts), initial=0))


def _tuple_of(*values: Any) -> tuple[Any, ...]:
    return values


def _build(kind: Callable[..., Any], given: Sequence[_Make | _Constant]) -> _Make | _Constant:
    """Build a function that makes one node of a parsed tree again, with another text's names."""
    values = [one.value if isinstance(one, _Constant) else None for one in given]
    moving = [(at, one) for at, one in enumerate(given) if not isinstance(one, _Constant)]
    if not moving:
        return _Constant(kind(*values))

    if len(moving) == 1:
        ((only, maker),) = moving
        before, behind = values[:only], values[only + 1 :]
        return lambda parts, offsets: kind(*before, maker(parts, offsets), *behind)

    def make(parts: _Parts, offsets: list[int]) -> Any:
        found = values.copy()
        for at, one in moving:
            found[at] = one(parts, offsets)
        return kind(*found)

    return make
