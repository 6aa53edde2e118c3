"""Goes through steps as a run would, with what is known of blobs instead of their values.

What it has no rule for becomes unknown; it never guesses. What cannot be computed it notes:
as an error where the step is surely reached, as a warning where a condition decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePosixPath
from typing import assert_never

from jobrun.compile.faults import Place
from jobrun.compile.record_shapes import Headers
from jobrun.compile.shape_eval import Misfit, evaluate
from jobrun.compile.shape_index import indexed
from jobrun.compile.shape_judge import Judge, shown
from jobrun.compile.shape_operators import binary, check_in_place
from jobrun.graph.expr import Binary, Expr, Index, Name
from jobrun.graph.query import expressions
from jobrun.graph.steps import (
    AdoptState,
    Assert,
    Assign,
    Augment,
    CallPython,
    CopyState,
    DataFile,
    Delete,
    Guard,
    If,
    ItemTarget,
    Load,
    LoadState,
    Log,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Perform,
    PublishCopy,
    Pull,
    Record,
    RunProgram,
    Save,
    SaveState,
    Step,
    Stop,
    Target,
    UseNet,
    While,
)
from jobrun.graph.types import Task
from jobrun.ops.arguments import KINDS, SHAPES, MisfitError, UnclearError, shape_text
from jobrun.ops.known import (
    NONE,
    UNKNOWN,
    Known,
    as_array,
    broadcast,
    dtype_name,
    join,
    kind_of,
)

Names = dict[str, Known]
# After so many passes of a loop that still change something, it is given up.
_WIDENING_PASSES = 4


class Walk:
    """Goes through the steps of one task.

    Args:
        names: What is known of blobs; changed as the steps would change them.
        judge: Takes note.
        headers: Looks a data file's member up.
        volatile: Names that others may bind anew at any time.
        bound: Is told of each name that a step binds.
    """

    def __init__(
        self,
        names: Names,
        judge: Judge,
        headers: Headers,
        volatile: frozenset[str] = frozenset(),
        bound: Callable[[str, Known], None] = lambda _name, _known: None,
    ) -> None:
        self.names = names
        self._judge = judge
        self._headers = headers
        self._volatile = volatile
        self._bound = bound
        self._left: list[tuple[str, Names]] = []
        for name in volatile:
            names[name] = UNKNOWN

    def block(self, path: str, steps: tuple[Step, ...]) -> bool:
        """Go through a block that ``stop`` can leave; whether anything gets behind it."""
        falls = self.steps(steps)
        ends = ([self.names] if falls else []) + self._leaving(path)
        if ends:
            self.names = merged(ends)
        return bool(ends)

    def steps(self, steps: tuple[Step, ...]) -> bool:
        """Go through steps; whether anything gets behind the last one."""
        return all(self._step(step) for step in steps)

    def repeated(self, path: str, body: Callable[[], bool]) -> None:
        """Zero, one or more passes: join until nothing changes, else give the changing ones up."""
        ends: list[Names] = []
        before = self.names
        for _ in range(_WIDENING_PASSES):
            self.names = dict(before)
            falls = body()
            ends += self._leaving(path)
            if not falls:
                break
            after = merged([before, self.names])
            if after == before:
                break
            before = after
        else:
            self.names = dict(before)
            body()
            ends += self._leaving(path)
            changing = [name for name, known in self.names.items() if known != before.get(name)]
            before.update(dict.fromkeys(changing, UNKNOWN))
        self.names = merged([before, *ends])

    def value(self, expr: Expr, step: Step | Op) -> Known:
        """What is known of an expression of a step."""
        origin, path = step.origin, step.path
        return evaluate(expr, self.names, lambda one: self._judge.note(one, path, origin))

    def output(self, expr: Expr, task: Task) -> Known:
        """What is known of an output of a task that is at its end."""
        return evaluate(expr, self.names, lambda one: self._judge.note(one, task.path, task.origin))

    def bind(self, name: str, known: Known) -> None:
        """A name has a value from now on."""
        known = as_array(known)
        if name in self._volatile or known.dtype == NONE:
            known = UNKNOWN
        self.names[name] = known
        self._bound(name, known)

    def _leaving(self, path: str) -> list[Names]:
        """What is known where a stop leaves the block of that path."""
        found = [names for target, names in self._left if target == path]
        self._left = [one for one in self._left if one[0] != path]
        return found

    def _step(self, step: Step) -> bool:  # noqa: C901, PLR0912 - one case per kind of a closed union
        match step:
            case Net(ops=ops):
                for op in ops:
                    self._op(op)
                return True
            case UseNet(steps=steps):
                return self.steps(steps)
            case If():
                return self._if(step)
            case Guard():
                falls = self.block(step.path, step.steps)
                self.bind(step.flag, Known("bool", (), weak=True))
                return falls
            case Loop() | While():
                return self._loop(step)
            case Parallel(branches=branches):
                branched = [
                    self.block(f"{step.path}[{number}]", branch)
                    for number, branch in enumerate(branches)
                ]
                return all(branched)
            case Stop():
                return self._stop(step)
            case Load(files=files):
                for file in files:
                    self.bind(file.blob, self._in_file(file))
                return True
            case CallPython() | RunProgram() | Pull():
                self._foreign(step)
                return True
            case (
                Save() | Log() | Record() | Assert()
                | SaveState() | LoadState() | AdoptState() | CopyState() | PublishCopy()
            ):  # fmt: skip
                for expr in expressions(step):
                    self.value(expr, step)
                return True
            case _:
                assert_never(step)

    def _if(self, step: If) -> bool:
        ends: list[Names] = []
        start = self.names
        doubt = self._judge.doubt
        decided = False
        for condition, then in step.branches:
            self.names = dict(start)
            holds = self._condition(condition, step)
            if holds is not False:
                self._judge.doubt += holds is None
                ends += [self.names] if self.steps(then) else []
            if holds:
                decided = True
                break
            self._judge.doubt += holds is None
        if not decided:
            self.names = dict(start)
            ends += [self.names] if self.steps(step.otherwise) else []
        self._judge.doubt = doubt
        if ends:
            self.names = merged(ends)
        return bool(ends)

    def _condition(self, condition: Expr, step: Step) -> bool | None:
        """Whether a condition holds, where that is known; it must be one bool."""
        known = self.value(condition, step)
        kind = kind_of(known.dtype)
        if (known.dtype is not None and kind != "b") or known.shape:
            what = (
                known.dtype if not known.shape else f"an array of shape {shape_text(known.shape)}"
            )
            message = f"a condition is one bool, and {shown(condition)} is {what}"
            mend = "compare it with something, or reduce it with any() or all()"
            error = MisfitError(KINDS, message, mend)
            self._judge.tell(error, "", Place(step.path, step.origin))
            return None
        return None if known.value is None else bool(known.value)

    def _loop(self, step: Loop | While) -> bool:
        if isinstance(step, While):
            runs = self._condition(step.condition, step)
        else:
            runs = None if step.count is None else self._count(step.count, step)
        if runs is False:
            return True

        def body() -> bool:
            if isinstance(step, While):
                self._condition(step.condition, step)
            return self.steps(step.steps)

        # While nobody knows whether there is a pass, a while is like an if.
        in_doubt = isinstance(step, While) and runs is None
        self._judge.doubt += in_doubt
        self.repeated(step.path, body)
        self._judge.doubt -= in_doubt
        return True

    def _count(self, count: Expr, step: Step) -> bool | None:
        known = self.value(count, step)
        if (known.dtype is not None and kind_of(known.dtype) not in ("i", "u", "b")) or known.shape:
            message = f"a loop's count is one whole number, and {shown(count)} is {known.dtype}"
            error = MisfitError(KINDS, message, "divide with //, or write int(x)")
            self._judge.tell(error, "", Place(step.path, step.origin))
            return None
        return None if not isinstance(known.value, int) else known.value > 0

    def _stop(self, step: Stop) -> bool:
        holds = True if step.condition is None else self._condition(step.condition, step)
        if holds is not False:
            self._left.append((step.target, dict(self.names)))
        return not holds

    def _in_file(self, file: DataFile) -> Known:
        parts = file.path.parts
        if len(parts) != 1 or not isinstance(parts[0], str):
            return UNKNOWN
        path = str(PurePosixPath(file.folder) / parts[0]) if file.folder else parts[0]
        found = self._headers(path, file.member)
        return Known(dtype_name(found[0]), found[1]) if found else UNKNOWN

    def _foreign(self, step: CallPython | RunProgram | Pull) -> None:
        for expr in expressions(step):
            self.value(expr, step)
        if isinstance(step, RunProgram):
            made: tuple[str, ...] = tuple(blob for blob, _, _ in step.results)
        elif isinstance(step, Pull):
            made = tuple(one.blob for one in step.blobs)
        else:
            changed = [value.name for name, value in step.arguments
                       if name in step.writable and isinstance(value, Name)]  # fmt: skip
            made = (*step.outputs, *changed)
        for name in made:
            self.bind(name, UNKNOWN)

    def _op(self, op: Op) -> None:
        match op:
            case Assign(targets=targets, value=value):
                self._assign(op, targets, self.value(value, op))
            case Augment():
                self._augment(op)
            case Delete(names=deleted):
                for name in deleted:
                    self.names.pop(name, None)
            case Perform(value=value):
                self.value(value, op)
            case _:
                assert_never(op)

    def _assign(self, op: Assign, targets: tuple[Target, ...], known: Known) -> None:
        if len(targets) == 1:
            self._put(op, targets[0], known)
            return
        items = known.items
        if items is None and known.shape:
            length = known.shape[0]
            row = Known(known.dtype, known.shape[1:])
            items = (row,) * (len(targets) if length is None else min(length, 64))
        if items is not None and len(items) != len(targets):
            message = f"{len(items)} values are assigned to {len(targets)} names"
            error = MisfitError(SHAPES, message, "name as many as there are values")
            self._judge.tell(error, "", Place(op.path, op.origin))
            items = None
        for target, one in zip(targets, items or (UNKNOWN,) * len(targets), strict=True):
            self._put(op, target, one)

    def _put(self, op: Assign, target: Target, known: Known) -> None:
        if isinstance(target, NameTarget):
            self.bind(target.name, known)
            return
        with_index = Index(Name(target.name), target.index)
        self._guarded(op, with_index, lambda: self._check_item(op, target, as_array(known)))

    def _check_item(self, op: Op, target: ItemTarget, value: Known) -> None:
        array = self.names.get(target.name, UNKNOWN)
        if array.weak:
            raise MisfitError(KINDS, "a single number has no items", "make an array: zeros(n)")
        place = indexed(array, target.index, lambda expr: self.value(expr, op)).shape
        if place is None or value.shape is None:
            return
        shape = value.shape
        while len(shape) > len(place) and shape[0] == 1:
            shape = shape[1:]
        together = broadcast(shape, place)
        if together is None or len(together) > len(place):
            message = f"a value of shape {shape_text(value.shape)} does not fit into "
            raise MisfitError(SHAPES, f"{message}{shape_text(place)}",
                              "give one value, or one for each item")  # fmt: skip

    def _augment(self, op: Augment) -> None:
        value = self.value(op.value, op)
        target = op.target
        if isinstance(target, ItemTarget):
            expr: Expr = Index(Name(target.name), target.index)
            left = self.value(expr, op)
        else:
            expr = Name(target.name)
            left = self.names.get(target.name, UNKNOWN)
        whole = Binary(expr, op.operator, op.value)  # type: ignore[arg-type]
        result = self._guarded(op, whole, lambda: binary(left, op.operator, value)) or UNKNOWN
        if left.shape:
            self._guarded(op, whole, lambda: check_in_place(left, result, op.operator))
        elif isinstance(target, NameTarget):
            # A scalar is bound anew, and an array without axes keeps its dtype.
            same = left.weak or left.dtype == result.dtype
            known = result if left.shape == () else UNKNOWN
            self.bind(target.name, known if same else Known(None, known.shape))

    def _guarded(self, op: Op, expr: Expr, find: Callable[[], Known | None]) -> Known | None:
        try:
            return find()
        except MisfitError as error:
            self._judge.note(Misfit(expr, error, is_perhaps=False), op.path, op.origin)
        except UnclearError:
            pass
        return None


def merged(ends: Iterable[Names]) -> Names:
    """What is known where several ways meet; a name that only some have is as they have it."""
    first, *others = ends
    merged = dict(first)
    for other in others:
        for name, known in other.items():
            merged[name] = join(merged[name], known) if name in merged else known
    return merged
