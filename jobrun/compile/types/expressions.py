"""Infer dtype, shape and value of expressions from those of blobs, without numpy.

Types that do not fit become faults, with their positions in the text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import assert_never

from msgspec import Struct

from jobrun.compile.faults import Faults, Located, SpecPosition
from jobrun.compile.types.arithmetic import (
    infer_binary,
    infer_comparison,
    infer_unary,
    require_truth_value,
)
from jobrun.compile.types.subscripts import infer_index
from jobrun.core.errors import Origin
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import (
    Attribute,
    Binary,
    Builtin,
    Call,
    Compare,
    Conditional,
    Const,
    Draw,
    Dtype,
    Expr,
    Hole,
    Index,
    Logical,
    LoopIndex,
    Name,
    NodeBlob,
    OutputRead,
    Sequence,
    Slice,
    Text,
    Unary,
)
from jobrun.graph.traversal import walk_expr
from jobrun.ops.abstract_values import (
    COUNTER,
    DTYPE,
    KINDS,
    NONE,
    TEXT,
    UNKNOWN,
    Arguments,
    Known,
    MisfitError,
    UnclearError,
    as_array,
    join,
    scalar,
    without_value,
)
from jobrun.ops.definition import DrawDef, OpDef, wrong_kind
from jobrun.ops.dtype_promotion import dtype_name, kind_of
from jobrun.ops.operator_table import DRAWS, find_operator

_MAX_TEXT = 60


class Misfit(Struct, frozen=True):
    """A part of an expression whose types do not fit, so that it cannot be computed."""

    expr: Expr
    error: MisfitError
    # Whether the misfit occurs depends on a condition whose value is unknown.
    is_perhaps: bool


Report = Callable[[Misfit], None]


def infer_expression(
    expr: Expr,
    names: Mapping[str, Known],
    report: Report = lambda _: None,
    outside: Mapping[str, Known] = MappingProxyType({}),
) -> Known:
    """Infer dtype, shape and, if possible, value of an expression.

    Args:
        expr: The expression.
        names: Blob → what is known of it.
        report: Called for each part that cannot be computed; its value is unknown.
        outside: What is known of outputs, under ``output_key``, and of nodes' blobs as the
            runner sees them, under ``blob_key``.
    """
    return ExpressionInference(names, report, outside).infer(expr)


def output_key(node: str, task: str, output: str) -> str:
    """Return the key under which the types of expressions have the type of a task's output."""
    return f"{node}/{task}.{output}"


def blob_key(node: str, name: str) -> str:
    """Return the key of a node's blob in the dict of types, to infer expressions."""
    return f"{node}//{name}"


def _leaf_key(leaf: OutputRead | NodeBlob) -> str:
    if isinstance(leaf, NodeBlob):
        return blob_key(leaf.node, leaf.name)
    return output_key(leaf.node, leaf.task, leaf.output)


class RuleCache:
    """Remembers what was inferred of an operation from the same types, for all tasks of a job.

    In a large job, most tasks do the same with blobs of the same type. Types are looked up by
    identity: to compare them takes as long as to apply a rule. They are kept, so that the identity
    of one is never that of another.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[object, ...], tuple[object, Known]] = {}

    def constant(self, expr: Const) -> Known:
        """Return the type of a constant in an expression, from the cache if inferred before."""
        cached = self._found.get((id(expr),))
        if cached is None:
            known = UNKNOWN if expr.ellipsis else scalar(expr.value)
            cached = self._found[(id(expr),)] = (expr, known)
        return cached[1]

    def binary(self, lhs: Known, sign: str, rhs: Known) -> Known:
        """Infer the type of an expression ``a + b``, or return it from the cache."""
        key = (id(lhs), sign, id(rhs))
        cached = self._found.get(key)
        if cached is None:
            cached = self._found[key] = ((lhs, rhs), infer_binary(lhs, sign, rhs))
        return cached[1]

    def call(self, operator: OpDef | DrawDef, arguments: list[Known]) -> Known:
        """Infer the type of an operator call from its arguments' types, and cache it."""
        key = (operator.name, id(operator), *map(id, arguments))
        cached = self._found.get(key)
        if cached is None:
            cached = self._found[key] = (
                (operator, arguments),
                _infer_call(operator, arguments, {}),
            )
        return cached[1]

    def without_value(self, known: Known) -> Known:
        """Return an expression's inferred type without its constant value; cache the result."""
        if known.value is None and known.items is None:
            return known
        key = ("without value", id(known))
        cached = self._found.get(key)
        if cached is None:
            cached = self._found[key] = (known, without_value(known))
        return cached[1]


class ExpressionInference:
    """The inference of expressions over the same names.

    Args:
        names: Blob → what is known of it; may change between two expressions.
        report: Called for each part that cannot be computed.
        outside: What is known of outputs and of other nodes' blobs.
        cache: What has been inferred from the same types.
    """

    def __init__(
        self,
        names: Mapping[str, Known],
        report: Report,
        outside: Mapping[str, Known],
        cache: RuleCache | None = None,
    ) -> None:
        self._names = names
        self._outside = outside
        self._report = report
        self._cache = cache or RuleCache()
        self._doubt = 0

    def whole(self, expr: Expr) -> Known:
        """Infer the type of a whole expression, one that is not part of another."""
        self._doubt = 0
        return self.infer(expr)

    def infer(self, expr: Expr) -> Known:
        """Infer the type of an expression or a part of one; report operands of a wrong type."""
        # A fast path: most parts are names or constants.
        if type(expr) is Name:
            return self._names.get(expr.name, UNKNOWN)
        if type(expr) is Const:
            return self._cache.constant(expr)
        try:
            return self._value(expr)
        except MisfitError as error:
            self._report(Misfit(expr, error, self._doubt > 0))
        except UnclearError:
            pass
        return UNKNOWN

    def _value(self, expr: Expr) -> Known:
        match expr:
            case Binary():
                # Names are looked up here, without a call: large specs have hundreds of thousands.
                names, lhs, rhs = self._names, expr.left, expr.right
                lhs_type = names.get(lhs.name, UNKNOWN) if type(lhs) is Name else self.infer(lhs)
                if lhs_type.dtype == COUNTER:
                    raise _counter_misfit()
                rhs_type = names.get(rhs.name, UNKNOWN) if type(rhs) is Name else self.infer(rhs)
                if rhs_type.dtype == COUNTER:
                    raise _counter_misfit()
                return self._cache.binary(lhs_type, expr.operator, rhs_type)
            case Name():
                return self._names.get(expr.name, UNKNOWN)
            case Call() | Draw():
                return self._call(expr)
            case Compare():
                return self._compare(expr)
            case Unary(operator=sign, operand=operand):
                return infer_unary(sign, self._infer_operand(operand))
            case Index(value=value, index=index):
                return infer_index(self.infer(value), index, self.infer)
            case Attribute(value=value, name=name):
                return _infer_attribute(self.infer(value), name)
            case Conditional():
                return self._conditional(expr)
            case Logical(operands=operands):
                return self._logical(operands, expr.operator)
            case _:
                return self._leaf(expr)

    def _infer_operand(self, expr: Expr) -> Known:
        """Infer the type of an expression's operand, which must not be a counter."""
        known = self.infer(expr)
        if known.dtype == COUNTER:
            raise _counter_misfit()
        return known

    def _leaf(
        self,
        expr: Const | Builtin | LoopIndex | OutputRead | NodeBlob | Dtype | Text | Sequence | Slice,
    ) -> Known:
        match expr:
            case Const():
                return self._cache.constant(expr)
            case Builtin(name=name):
                return _infer_builtin(name)
            case LoopIndex():
                return Known("int64", (), weak=True)
            case OutputRead() | NodeBlob():
                return self._outside.get(_leaf_key(expr), UNKNOWN)
            case Dtype(name=name):
                return Known(DTYPE, (), dtype_name(name))
            case Text(parts=parts):
                for part in parts:
                    if isinstance(part, Hole):
                        self.infer(part.value)
                return Known(TEXT, (), weak=True)
            case Sequence(items=items, kind=kind):
                return Known(items=tuple(map(self.infer, items)), sequence=kind)
            case Slice():
                return UNKNOWN
            case _:
                assert_never(expr)

    def _compare(self, expr: Compare) -> Known:
        operands = [self._infer_operand(operand) for operand in (expr.left, *expr.rest)]
        comparisons = [
            infer_comparison(lhs, sign, rhs)
            for lhs, sign, rhs in zip(operands, expr.operators, operands[1:], strict=False)
        ]
        if len(comparisons) == 1:
            return comparisons[0]
        for comparison in comparisons[:-1]:
            require_truth_value(comparison)
        return UNKNOWN

    def _conditional(self, expr: Conditional) -> Known:
        condition = self._truth(expr.condition)
        if condition is not None:
            return self.infer(expr.then if condition else expr.otherwise)
        self._doubt += 1
        joined = join(self.infer(expr.then), self.infer(expr.otherwise))
        self._doubt -= 1
        return joined

    def _logical(self, operands: tuple[Expr, ...], word: str) -> Known:
        """Infer the type of ``and`` or ``or``, of which not all operands are evaluated."""
        doubt = self._doubt
        values = []
        for operand in operands[:-1]:
            value = self.infer(operand)
            require_truth_value(value)
            if value.value is not None and bool(value.value) is (word == "or"):
                break
            if value.value is None:
                values.append(value)
                self._doubt = doubt + 1
        else:
            value = self.infer(operands[-1])
        self._doubt = doubt
        for other in values:
            value = join(value, other)
        return value

    def _truth(self, condition: Expr) -> bool | None:
        known = self.infer(condition)
        require_truth_value(known)
        return None if known.value is None else bool(known.value)

    def _call(self, call: Call | Draw) -> Known:
        is_draw = isinstance(call, Draw)
        operator = DRAWS.get(call.method) if is_draw else find_operator(call.function)  # type: ignore[union-attr]
        arguments = [self.infer(argument) for argument in call.args]
        named = {name: self.infer(value) for name, value in call.kwargs} if call.kwargs else None
        if operator is None:
            return UNKNOWN
        return (
            _infer_call(operator, arguments, named)
            if named
            else self._cache.call(operator, arguments)
        )


def _infer_call(
    operator: OpDef | DrawDef, passed: Iterable[Known], named: Mapping[str, Known]
) -> Known:
    arguments = _bind_arguments(operator, passed, named)
    _check_kinds(operator, arguments)
    if operator.rule is None:
        return UNKNOWN
    inferred = operator.rule(arguments)
    return inferred if isinstance(inferred, Known) else Known(items=inferred, sequence="tuple")


def _bind_arguments(
    operator: OpDef | DrawDef, passed: Iterable[Known], named: Mapping[str, Known]
) -> Arguments:
    positional = operator.parameters.positional
    values = list(passed)
    by_name = dict(zip(positional, values, strict=False)) | dict(named)
    return Arguments(by_name, tuple(values[len(positional) :]))


def _check_kinds(operator: OpDef | DrawDef, arguments: Arguments) -> None:
    for name, known in arguments.by_name.items():
        wrong = wrong_kind(operator.name, name, known)
        if wrong is not None:
            article = "an" if wrong.wanted[0] in "ai" else "a"
            message = f"'{name}' must be {article} {wrong.wanted}, not {wrong.actual}"
            raise MisfitError(
                KINDS, message, f"its signature is {operator.name}{operator.signature}"
            )


def _counter_misfit() -> MisfitError:
    message = "a counter does not support arithmetic and comparisons"
    return MisfitError(KINDS, message, "read it first: count_value(c)")


def _infer_builtin(name: str) -> Known:
    if name in ("inf", "nan", "pi"):
        return scalar(float(getattr(math, name)))
    if name == "node.name":
        return Known(TEXT, (), weak=True)
    return Known("int64", (), weak=True)


def _infer_attribute(value: Known, name: str) -> Known:
    if value.sequence or value.weak or value.dtype in (NONE, COUNTER):
        kind = value.sequence or ("Python number" if kind_of(value.dtype) else value.dtype)
        message = f"a {kind or 'Python value'} has no '{name}'"
        raise MisfitError(KINDS, message, f"make an array of it, array(x).{name}; or write len(x)")
    if name == "shape":
        if value.shape is None:
            return Known(sequence="tuple")
        lengths = tuple(Known("int64", (), length, weak=True) for length in value.shape)
        return Known(items=lengths, sequence="tuple")
    known = as_array(value)
    if name == "dtype":
        return Known(DTYPE, (), known.dtype if known.dtype not in (TEXT, NONE) else None)
    if name == "T":
        return Known(
            known.dtype, None if known.shape is None else known.shape[::-1], weak=known.weak
        )
    if known.shape is None or (name == "size" and None in known.shape):
        return Known("int64", (), weak=True)
    if name == "ndim":
        return scalar(len(known.shape))
    return scalar(math.prod(length for length in known.shape if length is not None))


class TypeFaults(Struct):
    """Turns misfits into errors, or into warnings where it is not certain that they are reached.

    Attributes:
        faults: Collects them.
        doubt: The number of conditions around the current step whose values are not known.
    """

    faults: Faults
    doubt: int = 0

    def add_misfit(self, misfit: Misfit, path: str, origin: Origin) -> None:
        """Add a fault for a part of an expression whose type does not fit."""
        spec_position = SpecPosition(path, _find_origin(misfit.expr, origin))
        self.add(
            misfit.error,
            f"in {render_short(misfit.expr)}: ",
            spec_position,
            perhaps=misfit.is_perhaps,
        )

    def add(
        self, error: MisfitError, before: str, where: Located, *, perhaps: bool = False
    ) -> None:
        """Add the fault of an expression whose type does not fit, found in a step."""
        message = f"{before}{error.message}"
        if self.doubt or perhaps:
            self.faults.warn("W138", f"{message}, if this is reached", error.mend, where)
        else:
            self.faults.error(error.code, message, error.mend, where)


def render_short(expr: Expr) -> str:
    """Render an expression for the message of a type fault, shortened if it is long."""
    text = render_expr(expr)
    return text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"


def _find_origin(expr: Expr, origin: Origin) -> Origin:
    """Return the position of an expression's type fault: its first name or call."""
    for part in walk_expr(expr):
        match part:
            case Name(name=name) if part.at:
                return origin.inside(part.at, len(name))
            case Call(function=name) | Draw(method=name) if part.at:
                return origin.inside(part.at, len(name))
            case OutputRead() if part.at:
                return origin.inside(part.at)
            case _:
                continue
    return origin
