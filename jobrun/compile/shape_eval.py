"""What is known of an expression's value from what is known of its blobs. No numpy, no guess."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, assert_never

from jobrun.compile.shape_index import indexed
from jobrun.compile.shape_operators import binary, check_truth, compare, unary
from jobrun.graph.expr import (
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
from jobrun.ops.arguments import KINDS, Arguments, MisfitError, UnclearError
from jobrun.ops.definition import DrawDef, OpDef
from jobrun.ops.kinds import wrong_kind
from jobrun.ops.known import (
    DTYPE,
    NONE,
    TEXT,
    UNKNOWN,
    Known,
    as_array,
    dtype_name,
    join,
    scalar,
)
from jobrun.ops.plugins import find_operator
from jobrun.ops.table import DRAWS


class Misfit(NamedTuple):
    """A part of an expression that cannot be computed."""

    expr: Expr
    error: MisfitError
    # Only if a condition holds of which nothing is known.
    is_perhaps: bool


Report = Callable[[Misfit], None]


def evaluate(expr: Expr, names: Mapping[str, Known], report: Report = lambda _: None) -> Known:
    """What is known of an expression's value.

    Args:
        expr: The expression.
        names: What is known of blobs; of an output under ``output_key``, of a node's blob as
            the runner sees it under ``blob_key``.
        report: Is told of each part that cannot be computed; its value is unknown.
    """
    return _Evaluation(names, report).of(expr)


def output_key(node: str, task: str, output: str) -> str:
    """The name of a task's output among those of blobs; no blob can have it."""
    return f"{node}/{task}.{output}"


def blob_key(node: str, name: str) -> str:
    """The name of a node's blob, looked at from outside, among those of blobs."""
    return f"{node}//{name}"


def _key(leaf: OutputRead | NodeBlob) -> str:
    if isinstance(leaf, NodeBlob):
        return blob_key(leaf.node, leaf.name)
    return output_key(leaf.node, leaf.task, leaf.output)


class _Evaluation:
    """Goes through one expression."""

    def __init__(self, names: Mapping[str, Known], report: Report) -> None:
        self._names = names
        self._report = report
        self._doubt = 0

    def of(self, expr: Expr) -> Known:
        """What is known of a part's value."""
        try:
            return self._value(expr)
        except MisfitError as error:
            self._report(Misfit(expr, error, self._doubt > 0))
        except UnclearError:
            pass
        return UNKNOWN

    def _value(self, expr: Expr) -> Known:
        match expr:
            case Binary(left=left, operator=sign, right=right):
                return binary(self.of(left), sign, self.of(right))
            case Call() | Draw():
                return self._call(expr)
            case Compare():
                return self._compare(expr)
            case Unary(operator=sign, operand=operand):
                return unary(sign, self.of(operand))
            case Index(value=value, index=index):
                return indexed(self.of(value), index, self.of)
            case Attribute(value=value, name=name):
                return _attribute(self.of(value), name)
            case Conditional():
                return self._conditional(expr)
            case Logical(operands=operands):
                return self._logical(operands, expr.operator)
            case _:
                return self._leaf(expr)

    def _leaf(  # noqa: C901 - one line per kind of a closed union
        self,
        expr: Const | Name | Builtin | LoopIndex | OutputRead | NodeBlob | Dtype | Text | Sequence
        | Slice,
    ) -> Known:  # fmt: skip
        match expr:
            case Const(value=value, ellipsis=ellipsis):
                return UNKNOWN if ellipsis else scalar(value)
            case Name(name=name):
                return self._names.get(name, UNKNOWN)
            case Builtin(name=name):
                return _builtin(name)
            case LoopIndex():
                return Known("int64", (), weak=True)
            case OutputRead() | NodeBlob():
                return self._names.get(_key(expr), UNKNOWN)
            case Dtype(name=name):
                return Known(DTYPE, (), dtype_name(name))
            case Text(parts=parts):
                for part in parts:
                    if isinstance(part, Hole):
                        self.of(part.value)
                return Known(TEXT, (), weak=True)
            case Sequence(items=items):
                return Known(items=tuple(map(self.of, items)))
            case Slice():
                return UNKNOWN
            case _:
                assert_never(expr)

    def _compare(self, expr: Compare) -> Known:
        operands = [self.of(one) for one in (expr.left, *expr.rest)]
        found = [
            compare(left, sign, right)
            for left, sign, right in zip(operands, expr.operators, operands[1:], strict=False)
        ]
        if len(found) == 1:
            return found[0]
        for one in found[:-1]:
            check_truth(one)
        return UNKNOWN

    def _conditional(self, expr: Conditional) -> Known:
        condition = self._truth(expr.condition)
        if condition is not None:
            return self.of(expr.then if condition else expr.otherwise)
        self._doubt += 1
        found = join(self.of(expr.then), self.of(expr.otherwise))
        self._doubt -= 1
        return found

    def _logical(self, operands: tuple[Expr, ...], word: str) -> Known:
        """Lazily, as ``and`` and ``or`` are: what decides ends it."""
        doubt = self._doubt
        values = []
        for operand in operands[:-1]:
            value = self.of(operand)
            check_truth(value)
            if value.value is not None and bool(value.value) is (word == "or"):
                break
            if value.value is None:
                values.append(value)
                self._doubt = doubt + 1
        else:
            value = self.of(operands[-1])
        self._doubt = doubt
        for other in values:
            value = join(value, other)
        return value

    def _truth(self, condition: Expr) -> bool | None:
        known = self.of(condition)
        check_truth(known)
        return None if known.value is None else bool(known.value)

    def _call(self, call: Call | Draw) -> Known:
        is_draw = isinstance(call, Draw)
        operator = DRAWS.get(call.method) if is_draw else find_operator(call.function)  # type: ignore[union-attr]
        given = [self.of(one) for one in call.args]
        named = {name: self.of(value) for name, value in call.kwargs}
        if operator is None:
            return UNKNOWN
        arguments = _bound(operator, given, named)
        _check_kinds(operator, arguments)
        if operator.rule is None:
            return UNKNOWN
        found = operator.rule(arguments)
        return found if isinstance(found, Known) else Known(items=found)


def _bound(
    operator: OpDef | DrawDef, given: Iterable[Known], named: Mapping[str, Known]
) -> Arguments:
    positional = operator.parameters.positional
    values = list(given)
    by_name = dict(zip(positional, values, strict=False)) | dict(named)
    return Arguments(by_name, tuple(values[len(positional) :]))


def _check_kinds(operator: OpDef | DrawDef, arguments: Arguments) -> None:
    for name, known in arguments.given.items():
        wrong = wrong_kind(operator.name, name, known)
        if wrong is not None:
            article = "an" if wrong.wanted[0] in "ai" else "a"
            message = f"'{name}' is {article} {wrong.wanted}, and not {wrong.found}"
            raise MisfitError(KINDS, message, f"it is {operator.name}{operator.signature}")


def _builtin(name: str) -> Known:
    if name in ("inf", "nan", "pi"):
        return scalar(float(getattr(math, name)))
    if name == "node.name":
        return Known(TEXT, (), weak=True)
    return Known("int64", (), weak=True)


def _attribute(value: Known, name: str) -> Known:
    if name == "shape":
        shape = as_array(value).shape
        return UNKNOWN if shape is None else Known(
            items=tuple(Known("int64", (), length, weak=True) for length in shape)
        )  # fmt: skip
    known = as_array(value)
    if name == "dtype":
        return Known(DTYPE, (), known.dtype if known.dtype not in (TEXT, NONE) else None)
    if name == "T":
        return Known(known.dtype, None if known.shape is None else known.shape[::-1],
                     weak=known.weak)  # fmt: skip
    if known.shape is None or (name == "size" and None in known.shape):
        return Known("int64", (), weak=True)
    if name == "ndim":
        return scalar(len(known.shape))
    return scalar(math.prod(length for length in known.shape if length is not None))
