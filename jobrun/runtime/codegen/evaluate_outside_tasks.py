"""Evaluate single expressions outside tasks: stop conditions, metrics, expectations."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from jobrun.graph.expressions import Expr, NodeBlob, OutputRead
from jobrun.graph.types import OutputRef
from jobrun.runtime.codegen.compiler import compile_expression
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.values.blob_kinds import Value

Read = Callable[[NodeBlob | OutputRead], Value]


def evaluate(expr: Expr, read: Read, *, epoch: int = 0) -> Value:
    """Evaluate an expression outside tasks, over nodes' blobs and tasks' outputs.

    Args:
        expr: Its leaves are ``NodeBlob`` and ``OutputRead``; it draws no random numbers.
        read: Gives the value of a leaf.
        epoch: What ``epoch`` means in it.

    Raises:
        Exception: Whatever the expression raises; the caller knows where it is written.
    """
    if isinstance(expr, NodeBlob | OutputRead):
        # As most are that look at many nodes, and there is nothing to compute.
        return read(expr)

    def output(ref: OutputRef) -> Value:
        return read(OutputRead(ref.task, ref.output, ref.node))

    frame = SimpleNamespace(node_blob=read, output=output, epoch=epoch)
    # A metric that is nan says so itself.
    with np.errstate(all="ignore"):
        return _compiled(_ByIdentity(expr))(frame)


class _ByIdentity:
    """A cache key for an expression that equals only the same expression object.

    Expressions will not do as keys: ``x * 1`` equals ``x * True`` and ``x * 1.0``.
    """

    __slots__ = ("expr",)

    def __init__(self, expr: Expr) -> None:
        self.expr = expr

    def __hash__(self) -> int:
        return id(self.expr)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.expr is self.expr


# A condition on many nodes is as many expressions.
@lru_cache(maxsize=1 << 14)
def _compiled(same: _ByIdentity) -> Callable[[Any], Value]:
    return compile_expression(same.expr, BlockNames())
