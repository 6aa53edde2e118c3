"""Which blobs a step reads, binds, changes in place and deletes, as its text says.

What a callable or a program touches is what the step declares. Steps inside a step are
not included: whoever asks knows in which order they run.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

from jobrun.graph.expr import Call, Expr, Name, OutputRead
from jobrun.graph.query import expressions
from jobrun.graph.steps import (
    Assign,
    Augment,
    CallPython,
    Delete,
    Guard,
    ItemTarget,
    Load,
    NameTarget,
    Net,
    Op,
    Perform,
    Pull,
    RunProgram,
    Save,
    Step,
)
from jobrun.graph.walk import children


@dataclass(slots=True)
class Access:
    """The names of one step, in the order of the text; a name may stand several times.

    Attributes:
        reads: Names that must hold a value before.
        binds: Names that hold a value afterwards.
        changes: Names whose array is changed in place; these stand in ``reads`` too.
        atomic: Names that only an atomic operator touches here; they must hold a value.
        deletes: Names that hold none afterwards.
        called: Names that a callable's result is bound to; these stand in ``binds`` too.
        lent: Names that a callable may change in place; these stand in ``changes`` too.
        outputs: Outputs of other tasks that are read.
    """

    reads: list[str] = field(default_factory=list)
    binds: list[str] = field(default_factory=list)
    changes: list[str] = field(default_factory=list)
    atomic: list[str] = field(default_factory=list)
    deletes: list[str] = field(default_factory=list)
    outputs: list[OutputRead] = field(default_factory=list)
    called: list[str] = field(default_factory=list)
    lent: list[str] = field(default_factory=list)


class AccessFinder:
    """Finds the names of steps, given what is known of operators.

    Args:
        mutating: Operator → positions of the arguments that it changes in place.
        atomic: Those of them that may be used by several threads at once.
    """

    def __init__(self, mutating: Mapping[str, tuple[int, ...]], atomic: Collection[str]) -> None:
        self._mutating = mutating
        self._atomic = frozenset(atomic)

    def of_expr(self, *exprs: Expr) -> Access:
        """The names that expressions read and change."""
        access = Access()
        for expr in exprs:
            self._scan(expr, access)
        return access

    def counted(self, call: Call) -> tuple[str, ...]:
        """The names that an atomic operator changes; empty for any other call."""
        if call.function not in self._atomic:
            return ()
        arguments = [call.args[at] for at in self._mutating[call.function] if at < len(call.args)]
        return tuple(one.name for one in arguments if isinstance(one, Name))

    def of_op(self, op: Op) -> Access:
        """The names of one operator."""
        access = Access()
        match op:
            case Assign():
                self._scan(op.value, access)
                for target in op.targets:
                    self._target(target, access)
            case Augment():
                access.reads.append(op.target.name)
                self._scan(op.value, access)
                self._target(op.target, access)
                if isinstance(op.target, NameTarget):
                    access.changes.append(op.target.name)
            case Perform():
                self._scan(op.value, access)
            case Delete():
                access.reads += op.names
                access.deletes += op.names
        return access

    def of_step(self, step: Step) -> Access:
        """The names of one step, without those of steps inside it."""
        if isinstance(step, Net):
            return _joined(self.of_op(op) for op in step.ops)
        access = self.of_expr(*expressions(step))
        match step:
            case CallPython():
                changed = {n: v.name for n, v in step.arguments if isinstance(v, Name)}
                access.lent += [changed[n] for n in step.writable if n in changed]
                access.changes += access.lent
                access.called += step.outputs
                access.binds += step.outputs
            case RunProgram():
                access.reads += step.folders
                access.binds += [*(blob for blob, _, _ in step.results), *step.folders]
            case Pull():
                access.binds += [one.blob for one in step.blobs]
            case Load():
                access.binds += [file.blob for file in step.files]
            case Save():
                access.reads += [file.blob for file in step.files]
            case Guard():
                access.binds.append(step.flag)
            case _:
                pass
        return access

    def _target(self, target: NameTarget | ItemTarget, access: Access) -> None:
        if isinstance(target, NameTarget):
            access.binds.append(target.name)
            return
        access.reads.append(target.name)
        access.changes.append(target.name)
        self._scan(target.index, access)

    def _scan(self, expr: Expr, access: Access) -> None:
        if isinstance(expr, Name):
            access.reads.append(expr.name)
            return
        if isinstance(expr, OutputRead):
            access.outputs.append(expr)
            return
        if isinstance(expr, Call) and expr.function in self._mutating:
            self._mutating_call(expr, access)
            return
        for part in children(expr):
            self._scan(part, access)

    def _mutating_call(self, call: Call, access: Access) -> None:
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


def _joined(parts: Iterable[Access]) -> Access:
    joined = Access()
    for part in parts:
        joined.reads += part.reads
        joined.binds += part.binds
        joined.changes += part.changes
        joined.atomic += part.atomic
        joined.deletes += part.deletes
        joined.outputs += part.outputs
    return joined
