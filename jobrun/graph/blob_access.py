"""Find the blobs that a step reads, binds, changes in place and deletes.

A callable or a program uses what the step declares. Steps inside a step are not included: the
caller knows in which order they run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct, field

from jobrun.graph.effects import Effect
from jobrun.graph.expressions import Binary, Call, Const, Expr, Name, OutputRead
from jobrun.graph.query import expressions
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    Delete,
    Guard,
    ItemTarget,
    NameTarget,
    Net,
    Op,
    Perform,
    Step,
)
from jobrun.graph.traversal import children


class Access(Struct):
    """The names that one step uses, in the order of its text; a name may occur several times.

    Attributes:
        reads: Names that must hold a value before.
        binds: Names that hold a value afterwards.
        changes: Names whose array is changed in place; these are in ``reads`` too.
        atomic: Names that only an atomic operator uses here; they must hold a value.
        deletes: Names that hold no value afterwards.
        called: Names that a callable's result is bound to; these are in ``binds`` too.
        lent: Names that a callable may change in place; these are in ``changes`` too.
        outputs: Outputs of other tasks that are read.
        functions: Operators that are called.
    """

    reads: list[str] = field(default_factory=list)
    binds: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    atomic: list[str] = field(default_factory=list)
    deletes: list[str] = field(default_factory=list)
    outputs: list[OutputRead] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    lent: list[str] = field(default_factory=list)
    functions: list[str] = field(default_factory=list)


class AccessFinder:
    """Finds the blobs that steps read, bind and change, with the help of a table of operators.

    Args:
        mutating: Operator → positions of the arguments that it changes in place.
        atomic: Those of them that may be used by several threads at once.
    """

    def __init__(self, mutating: Mapping[str, tuple[int, ...]], atomic: Collection[str]) -> None:
        self._mutating = mutating
        self._atomic = frozenset(atomic)

    def of_expr(self, *exprs: Expr) -> Access:
        """Return which blobs expressions access: those they read or change in place."""
        access = Access()
        for expr in exprs:
            self._scan(expr, access)
        return access

    def counted(self, call: Call) -> tuple[str, ...]:
        """Return the blobs that a call of an atomic operator, such as ``count_up``, changes."""
        if call.function not in self._atomic:
            return ()
        arguments = [call.args[at] for at in self._mutating[call.function] if at < len(call.args)]
        return tuple(argument.name for argument in arguments if isinstance(argument, Name))

    def of_op(self, op: Op) -> Access:
        """Return which blobs a statement accesses: reads, assigns, changes or deletes."""
        access = Access()
        match op:
            case Assign():
                self._scan(op.value, access)
                for target in op.targets:
                    self._add_target(target, access)
            case Augment():
                access.reads.append(op.target.name)
                self._scan(op.value, access)
                self._add_target(op.target, access)
                if isinstance(op.target, NameTarget):
                    access.changes.append(op.target.name)
            case Perform():
                self._scan(op.value, access)
            case Delete():
                access.reads += op.names
                access.deletes += op.names
        return access

    def of_step(self, step: Step) -> Access:
        """Return which blobs a step itself, not steps inside it, reads, assigns or changes."""
        if isinstance(step, Net):
            return _join(self.of_op(op) for op in step.ops)
        access = self.of_expr(*expressions(step))
        if isinstance(step, Effect):
            lent = step.lends()
            access.reads += step.reads()
            access.lent += lent
            access.changes += lent
            access.binds += step.binds()
        if isinstance(step, CallPython):
            access.called += step.outputs
        if isinstance(step, Guard):
            access.binds.append(step.flag)
        return access

    def _add_target(self, target: NameTarget | ItemTarget, access: Access) -> None:
        if isinstance(target, NameTarget):
            access.binds.append(target.name)
            return
        access.reads.append(target.name)
        access.changes.append(target.name)
        self._scan(target.index, access)

    def _scan(self, expr: Expr, access: Access) -> None:
        # A fast path: most parts of expressions are names or constants.
        kind = type(expr)
        if kind is Name:
            access.reads.append(expr.name)  # type: ignore[union-attr]  # of the kind just asked for
            return
        if kind is Const:
            return
        if isinstance(expr, Binary):
            self._scan(expr.left, access)
            self._scan(expr.right, access)
            return
        if isinstance(expr, OutputRead):
            access.outputs.append(expr)
            return
        if isinstance(expr, Call):
            access.functions.append(expr.function)
            if expr.function in self._mutating:
                self._scan_mutating_call(expr, access)
                return
        for part in children(expr):
            self._scan(part, access)

    def _scan_mutating_call(self, call: Call, access: Access) -> None:
        positions = self._mutating[call.function]
        for position, argument in enumerate(call.args):
            if position in positions and isinstance(argument, Name):
                if call.function in self._atomic:
                    access.atomic.append(argument.name)
                else:
                    access.reads.append(argument.name)
                    access.changes.append(argument.name)
            else:
                self._scan(argument, access)
        for _, value in call.kwargs:
            self._scan(value, access)


def _join(parts: Iterable[Access]) -> Access:
    joined = Access()
    for part in parts:
        joined.reads += part.reads
        joined.binds += part.binds
        joined.changes += part.changes
        joined.atomic += part.atomic
        joined.deletes += part.deletes
        joined.outputs += part.outputs
        joined.functions += part.functions
    return joined
