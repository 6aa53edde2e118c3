"""Lower expressions, statements and texts of a spec, resolving names of nets and loops.

The syntax of expressions is the parser's; this adds what depends on the surroundings of the text.
Texts with holes (log lines, messages, paths) are parsed here into literals and expressions.
"""

from __future__ import annotations

import re
from typing import Any

from msgspec.structs import replace

from jobrun.compile.expressions.limits import MAX_DEPTH
from jobrun.compile.expressions.parse import parse_expression
from jobrun.compile.expressions.repeated_texts import RepeatedTexts
from jobrun.compile.expressions.source_text import (
    Part,
    SourceText,
    merge_literals,
    split_placeholders,
)
from jobrun.compile.expressions.translate import UNREADABLE, Params
from jobrun.compile.faults import Located, SpecPosition
from jobrun.compile.lowering.context import Context, Env, StepPosition
from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import (
    Binary,
    Builtin,
    Const,
    Expr,
    Hole,
    LoopIndex,
    Name,
    Sequence,
    Text,
    Unary,
)
from jobrun.graph.steps import Assign, Augment, Delete, ItemTarget, NameTarget, Op, Perform, Target
from jobrun.graph.traversal import map_expr
from jobrun.spec.yaml.nodes import Path

_ARITHMETIC = frozenset(("+", "-", "*", "/", "//", "%", "**", "@", "<<", ">>"))
_TARGETS = lazy_pattern(r"\s*([^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*)\s*=(?!=)")
MAX_TEXT_LENGTH = 64 * 1024

# Python's format language, without its nested fields.
_FORMAT = lazy_pattern(
    r"(?:.?[<>=^])?[-+ ]?z?#?0?(?:[0-9]{1,3})?[,_]?(?:\.[0-9]{1,3})?[bcdeEfFgGnosxX%]?", re.DOTALL
)
_LITERAL = lazy_pattern(r"\$\$|\$\{[^{}]*\}?|\{\{|\}\}|\{|\}")
_QUOTED = lazy_pattern(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
_CONVERSION = lazy_pattern(r"![rsa]$")


class ExpressionLowering:
    """Lowers expressions, statements and texts, and collects their faults."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._faults = context.faults
        self._parser = RepeatedTexts(context.params)
        self._statements: dict[Path, Op] = {}

    def expression(self, value: Any, at: Path, path: str, env: Env) -> Expr:
        """Lower the expression at a key of the spec, for the step of a given path."""
        expr = self._parser.known(value)
        if expr is not None and not _needs_resolving(value, env):
            # The position is not looked up: a large spec has hundreds of thousands of such values.
            return expr
        origin = self._context.source.at(at)
        try:
            expr = self._parser.expression(value, origin, path)
        except SpecError as error:
            self._faults.extend(error.faults)
            return UNREADABLE
        return self._resolve(expr, value, SpecPosition(path, origin), env)

    def condition(self, value: Any, at: Path, path: str, env: Env) -> Expr:
        """Lower an expression that has to be a bool; add a fault if it obviously is none."""
        expr = self.expression(value, at, path, env)
        if expr is not UNREADABLE:
            self.check_bool(expr, SpecPosition(path, self._context.source.at(at)))
        return expr

    def check_bool(self, expr: Expr, spec_position: SpecPosition) -> None:
        """Add a fault if a lowered expression, used as a condition, can never be a bool."""
        if is_never_bool(expr):
            mend = "write a comparison, such as 'x > 0'; any(…) and all(…) reduce an array of bools"
            self._faults.error("E152", "a condition must be true or false", mend, spec_position)

    def text(self, value: str, at: Path, path: str, env: Env, *, holes: bool) -> Text:
        """Lower a text template: lower each expression in ``{}`` that it contains."""
        origin = self._context.source.at(at)
        try:
            text = parse_text(value, origin, path, self._context.params, holes=holes)
        except SpecError as error:
            self._faults.extend(error.faults)
            return Text((value,))
        if not holes:
            return text
        resolved = self._resolve(text, value, SpecPosition(path, origin), env)
        return resolved if isinstance(resolved, Text) else text

    def statement(self, value: str, step: StepPosition, env: Env) -> Op:
        """Lower a statement's text to an ``Op``: rename blobs of nets, resolve loop indices."""
        path, origin, at = step
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
        """Rename the blobs, and resolve the loop indices, in a statement's expressions."""
        for name in _bound_names(op):
            self._context.check_blob_name(name, op)
            if env.indices and name in env.indices:
                message = f"'{name}' is the loop variable, which is read-only"
                self._faults.error("E153", message, "use another blob name", op)
        if not _needs_resolving(written, env):
            return op
        return self._resolve_names(op, env)

    def blob(self, name: str, where: Located, env: Env) -> str:
        """Lower the name of an assigned blob in an expression: check it, rename it in nets."""
        self._context.check_blob_name(name, where)
        return self.name(name, env)

    def name(self, name: str, env: Env) -> str:
        """Return a blob's name for a lowered expression: as written, or renamed in a net."""
        return env.rename(name) if env.rename is not None else name

    def _resolve(self, expr: Expr, written: Any, spec_position: SpecPosition, env: Env) -> Expr:
        if not _needs_resolving(written, env):
            return expr
        return map_expr(expr, lambda part: self._leaf(part, spec_position, env))

    def _leaf(self, expr: Expr, where: Located, env: Env) -> Expr:
        if isinstance(expr, Name):
            loop = env.indices.get(expr.name)
            if loop is not None:
                return LoopIndex(loop)
            return Name(env.rename(expr.name), expr.at) if env.rename is not None else expr
        if isinstance(expr, LoopIndex) and not expr.loop:
            if env.loops:
                return LoopIndex(env.loops[-1])
            mend = "use it inside 'loop' or 'while'"
            self._faults.error("E154", "'iter' is used outside a loop", mend, where)
        return expr

    def _resolve_names(self, op: Op, env: Env) -> Op:
        def leaf(expr: Expr) -> Expr:
            return self._leaf(expr, op, env)

        def target(old: Target) -> Target:
            if isinstance(old, NameTarget):
                return NameTarget(self.name(old.name, env))
            return ItemTarget(self.name(old.name, env), map_expr(old.index, leaf))

        match op:
            case Assign():
                targets = tuple(target(old) for old in op.targets)
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
    """Return whether an expression may have loop indices or names that a net renames."""
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


def parse_text(text: str, origin: Origin, path: str, params: Params, *, holes: bool) -> Text:
    """Parse a text template of the spec: literals, ``{holes}`` and placeholders ``${run.dir}``.

    ``${run.dir}``, ``${node}``, ``${epoch}`` and ``${instance}`` are filled in at run time,
    ``$$`` is a dollar. With ``holes``, ``{expr}`` and ``{expr:format}`` are filled in too,
    and ``{{`` and ``}}`` are braces.

    Raises:
        SpecError: It is not valid; with all faults: E108, E112, E113, and those of expressions.
    """
    if len(text) > MAX_TEXT_LENGTH:
        message = f"this text has {len(text)} characters; at most {MAX_TEXT_LENGTH} are allowed"
        raise SpecError.of("E108", message, "write it to a file", where=origin, path=path)
    scalar = SourceText(text, origin, path)
    if not holes:
        return Text(tuple(split_placeholders(text, scalar, 0)))
    reader = _TextParser(scalar, params)
    parts = reader.parts()
    if reader.faults:
        raise SpecError(*reader.faults)
    return Text(parts)


class _TextParser:
    """Parses one text with holes."""

    def __init__(self, scalar: SourceText, params: Params) -> None:
        self._scalar = scalar
        self._params = params
        self.faults: list[Fault] = []

    def parts(self) -> tuple[str | Hole | Builtin, ...]:
        """Parse a text to lower: literals, expressions in ``{}``, builtins (``${run.dir}``)."""
        text = self._scalar.text
        parts: list[str | Hole | Builtin] = []
        position = 0
        while True:
            match = _LITERAL.search(text, position)
            if match is None:
                parts.append(text[position:])
                return tuple(merge_literals(parts))
            parts.append(text[position : match.start()])
            position = match.end()
            mark = match[0]
            if mark in ("{{", "}}"):
                parts.append(mark[0])
            elif mark == "{":
                hole, position = self._parse_hole(match.start())
                parts.append(hole)
            elif mark == "}":
                self._fault("a '}' has no '{'", "write }} for a brace", match.start())
            else:
                parts += self._placeholder(mark, match.start())

    def _placeholder(self, mark: str, at: int) -> list[Part]:
        try:
            return split_placeholders(mark, self._scalar, at)
        except SpecError as error:
            self.faults += error.faults
            return []

    def _parse_hole(self, start: int) -> tuple[Hole, int]:
        """Parse one hole ``{expr:format}`` of a text; return the hole, and where it ends."""
        text = self._scalar.text
        colon, end = _find_hole_end(text, start + 1)
        if end is None:
            self._fault("a '{' is not closed", "close it with '}', or write {{ for a brace", start)
            return Hole(UNREADABLE), len(text)
        written = text[start + 1 : end if colon is None else colon]
        spec = "" if colon is None else text[colon + 1 : end]
        self._check_format(spec, end if colon is None else colon + 1)
        if not written.strip():
            self._fault("there is nothing between '{' and '}'", "write {{}} for braces", start)
            return Hole(UNREADABLE), end + 1
        if not self._check_written(written, start + 1):
            return Hole(UNREADABLE), end + 1
        origin = self._scalar.origin.inside(start + 1, max(1, len(written)))
        try:
            value = parse_expression(written, origin, self._scalar.path, self._params)
        except SpecError as error:
            self.faults += error.faults
            value = UNREADABLE
        return Hole(value, spec), end + 1

    def _check_written(self, written: str, at: int) -> bool:
        if _CONVERSION.search(written):
            self._fault("conversions such as '!r' are not supported", "remove it", at)
            return False
        if written.rstrip().endswith("=") and not written.rstrip().endswith("=="):
            name = written.rstrip()[:-1].strip()
            self._fault("'=' is not supported in {…}", f"write {name} {{{name}}}", at)
            return False
        return True

    def _check_format(self, spec: str, at: int) -> None:
        if not _FORMAT.fullmatch(spec):
            mend = "write for example {x:.3f}, {x:.2e}, {x:>8} or {x:,}"
            self._fault(f"'{spec}' is not a valid format", mend, at, len(spec))

    def _fault(self, message: str, mend: str, at: int, length: int = 1) -> None:
        self.faults.append(self._scalar.fault("E113", message, mend, at, max(1, length)))


def _find_hole_end(text: str, start: int) -> tuple[int | None, int | None]:
    """Find where a hole ``{expr:format}`` of a text with holes ends, and where its colon is.

    Colons and braces inside brackets or quotes belong to the expression.
    """
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character in "'\"":
            quoted = _QUOTED.match(text, position)
            if quoted is None:
                return None, None
            position = quoted.end()
            continue
        if character in "([{":
            depth += 1
        elif character == "}" and depth == 0:
            return None, position
        elif character in ")]}":
            depth -= 1
        elif character == ":" and depth == 0:
            return position, _find_format_end(text, position)
        if abs(depth) > MAX_DEPTH:
            return None, None
        position += 1
    return None, None


def _find_format_end(text: str, position: int) -> int | None:
    """Find the brace that ends the format in a text's hole ``{expr:format}``, or None."""
    depth = 0
    for at in range(position, len(text)):
        if text[at] == "}" and depth == 0:
            return at
        depth += (text[at] == "{") - (text[at] == "}")
    return None
