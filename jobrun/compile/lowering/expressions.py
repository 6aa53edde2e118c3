"""Lower expressions, statements and texts of a spec, resolving names of nets and loops.

The syntax is the parser's; this adds what depends on the surroundings of the text.
"""

from __future__ import annotations

import re
from typing import Any

from jobrun.compile.expressions.parse_once import ShapedParser
from jobrun.compile.faults import Place
from jobrun.compile.lowering.context import Context, Env
from jobrun.compile.lowering.text_templates import parse_text
from jobrun.core.errors import SpecError
from jobrun.core.lazy_dataclass import replace
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import Binary, Const, Expr, LoopIndex, Name, Sequence, Text, Unary
from jobrun.graph.steps import (
    Assign,
    Augment,
    Delete,
    ItemTarget,
    NameTarget,
    Op,
    Perform,
    Target,
)
from jobrun.graph.traversal import map_expr
from jobrun.spec.yaml.nodes import Path

_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>"))
_TARGETS = lazy_pattern(r"\s*([^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*)\s*=(?!=)")

# Replaces an expression with a fault, so that no further fault follows from it.
UNREADABLE = Const(None)


class ExpressionLowering:
    """Lowers expressions, statements and texts, and collects their faults."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._faults = context.faults
        self._parser = ShapedParser(context.params)
        self._statements: dict[Path, Op] = {}

    def expression(self, value: Any, at: Path, path: str, env: Env) -> Expr:
        """Lower the expression at a key of the spec, for the step whose path is given."""
        expr = self._parser.known(value)
        if expr is not None and not _needs_resolving(value, env):
            # Without its place: a large spec has hundreds of thousands of names and numbers.
            return expr
        origin = self._context.source.at(at)
        try:
            expr = self._parser.expression(value, origin, path)
        except SpecError as error:
            self._faults.extend(error.faults)
            return UNREADABLE
        return self._resolve(expr, value, Place(path, origin), env)

    def condition(self, value: Any, at: Path, path: str, env: Env) -> Expr:
        """Lower an expression that has to be a bool; add a fault if it obviously is none."""
        expr = self.expression(value, at, path, env)
        if expr is not UNREADABLE:
            self.check_bool(expr, Place(path, self._context.source.at(at)))
        return expr

    def check_bool(self, expr: Expr, place: Place) -> None:
        """Add a fault if a lowered expression can never be a bool, though it is a condition."""
        if is_never_bool(expr):
            mend = "write a comparison, such as 'x > 0'; any(…) and all(…) reduce an array of bools"
            self._faults.error("E152", "a condition must be true or false", mend, place)

    def text(self, value: str, at: Path, path: str, env: Env, *, holes: bool) -> Text:
        """Lower a text with holes of the spec by lowering the expressions in its holes."""
        origin = self._context.source.at(at)
        try:
            text = parse_text(value, origin, path, self._context.params, holes=holes)
        except SpecError as error:
            self._faults.extend(error.faults)
            return Text((value,))
        if not holes:
            return text
        resolved = self._resolve(text, value, Place(path, origin), env)
        return resolved if isinstance(resolved, Text) else text

    def statement(self, value: str, at: Path, place: Place, env: Env) -> Op:
        """Lower the text of a statement to an ``Op``, and resolve the names in its expressions."""
        path, origin = place
        op = self._statements.get(at) if env.nets else None
        if op is not None:
            op = replace(op, path=path, origin=origin)
            return self.resolve_op(op, value, env)
        try:
            op = self._parser.statement(value, origin, path)
        except SpecError as error:
            self._faults.extend(error.faults)
            op = replace(_build_placeholder(value), path=path, origin=origin)
        else:
            if not env.nets and not _needs_resolving(value, env):
                # The names that it binds have been checked by the parser.
                return op
        if env.nets:
            # A net is parsed once, however often it is used.
            self._statements[at] = op
        return self.resolve_op(op, value, env)

    def resolve_op(self, op: Op, written: Any, env: Env) -> Op:
        """Resolve names and loop variables in a lowered statement's expressions."""
        place = Place(op.path, op.origin)
        for name in _bound_names(op):
            self._context.check_blob_name(name, place)
            if env.indices and name in env.indices:
                message = f"'{name}' is the loop variable, which is read-only"
                self._faults.error("E153", message, "use another blob name", place)
        if not _needs_resolving(written, env):
            return op
        return self._resolve_names(op, place, env)

    def blob(self, name: str, place: Place, env: Env) -> str:
        """Check the name of a blob that a lowered expression changes; rename it inside nets."""
        self._context.check_blob_name(name, place)
        return self.name(name, env)

    def name(self, name: str, env: Env) -> str:
        """Lower a name that an expression mentions; inside a net, rename it for the using task."""
        return env.rename(name) if env.rename is not None else name

    def _resolve(self, expr: Expr, written: Any, place: Place, env: Env) -> Expr:
        if not _needs_resolving(written, env):
            return expr
        return map_expr(expr, lambda part: self._leaf(part, place, env))

    def _leaf(self, expr: Expr, place: Place, env: Env) -> Expr:
        if isinstance(expr, Name):
            loop = env.indices.get(expr.name)
            if loop is not None:
                return LoopIndex(loop)
            return Name(env.rename(expr.name), expr.at) if env.rename is not None else expr
        if isinstance(expr, LoopIndex) and not expr.loop:
            if env.loops:
                return LoopIndex(env.loops[-1])
            self._faults.error(
                "E154", "'iter' is used outside a loop", "use it inside 'loop' or 'while'", place
            )
        return expr

    def _resolve_names(self, op: Op, place: Place, env: Env) -> Op:
        def leaf(expr: Expr) -> Expr:
            return self._leaf(expr, place, env)

        def target(old: Target) -> Target:
            if isinstance(old, NameTarget):
                return NameTarget(self.name(old.name, env))
            return ItemTarget(self.name(old.name, env), map_expr(old.index, leaf))

        match op:
            case Assign():
                targets = tuple(target(one) for one in op.targets)
                return replace(op, targets=targets, value=map_expr(op.value, leaf))
            case Augment():
                return replace(op, target=target(op.target), value=map_expr(op.value, leaf))
            case Perform():
                return replace(op, value=map_expr(op.value, leaf))
            case Delete():
                return replace(op, names=tuple(self.name(name, env) for name in op.names))


def is_never_bool(expr: Expr) -> bool:
    """Return whether the outermost operation of a lowered expression never gives a bool."""
    match expr:
        case Const(value=value):
            return not isinstance(value, bool)
        case Binary(operator=operator):
            return operator in _ARITHMETIC
        case Unary(operator=operator):
            return operator in ("-", "+")
        case Sequence() | Text():
            return True
        case _:
            return False


def _needs_resolving(written: Any, env: Env) -> bool:
    """Return whether names in an expression may need lowering, as inside nets and loops."""
    if env.rename is not None or env.indices:
        return True
    return "iter" in written if isinstance(written, str) else not isinstance(written, int | float)


def _bound_names(op: Op) -> tuple[str, ...]:
    match op:
        case Assign():
            return tuple(target.name for target in op.targets)
        case Augment():
            return (op.target.name,)
        case Delete():
            return op.names
        case Perform():
            return ()


def _build_placeholder(text: str) -> Op:
    match = _TARGETS.match(text)
    names = re.split(r"\s*,\s*", match[1].strip()) if match else []
    if not names:
        return Perform(UNREADABLE)
    return Assign(tuple(NameTarget(name) for name in names), UNREADABLE)
