"""Infer types through steps: an abstract interpreter that walks with types in place of values.

What it has no rule for becomes unknown; it never guesses. What cannot be computed is noted:
as an error where the step is certainly reached, else as a warning.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import chain
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import assert_never

from msgspec.structs import replace

from jobrun.compile.types.arithmetic import infer_binary, require_in_place
from jobrun.compile.types.expressions import (
    ExpressionInference,
    Misfit,
    RuleCache,
    TypeFaults,
    render_short,
)
from jobrun.compile.types.records_and_queues import Headers
from jobrun.compile.types.subscripts import infer_index
from jobrun.core.file_formats import format_of, suffix_of
from jobrun.graph.effects import Effect
from jobrun.graph.expression_text import render_text
from jobrun.graph.expressions import Binary, Expr, Index, Name, Slice
from jobrun.graph.steps import (
    Assign,
    Augment,
    DataFile,
    Delete,
    Guard,
    If,
    ItemTarget,
    Load,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Perform,
    Save,
    Step,
    Stop,
    Target,
    UseNet,
    While,
)
from jobrun.graph.types import Task
from jobrun.ops.abstract_values import (
    KINDS,
    NONE,
    SHAPES,
    UNKNOWN,
    Known,
    MisfitError,
    UnclearError,
    as_array,
    broadcast,
    clash,
    join,
    shape_text,
)
from jobrun.ops.dtype_promotion import dtype_name, kind_of

Names = dict[str, Known]
# The type that a part of the steps gives to each name; None for a deleted name.
_Changes = dict[str, Known | None]
# Widening: names that still change after this many passes of a loop become unknown.
_WIDENING_PASSES = 4


class _Frame:
    """A block, a loop, a pass through a loop or a branch that is being walked through.

    Names are kept in one dict, which is changed and changed back: with a copy for each branch, a
    task of many branches and many names would take the product of both.

    Attributes:
        path: Of the block or loop, which a stop may leave; None for what no stop leaves.
        before: What was known at its start of the names that have changed since.
        exits: The changes since its start at each stop that leaves it.
    """

    __slots__ = ("before", "exits", "path")

    def __init__(self, path: str | None) -> None:
        self.path = path
        self.before: _Changes = {}
        self.exits: list[_Changes] = []


class StepInference:
    """An abstract interpretation of the steps of one task.

    Args:
        names: What is known of blobs; updated as the steps bind and delete them.
        faults: Collects what cannot be computed.
        headers: Returns dtype and shape of a data file's member.
        volatile: Names that other threads may bind at any time.
        bound: Called for each name that a step binds.
        outputs: What is known of the outputs of tasks, under ``output_key``.
        cache: What has been inferred from the same types elsewhere in the job.
    """

    def __init__(
        self,
        names: Names,
        faults: TypeFaults,
        headers: Headers,
        volatile: frozenset[str] = frozenset(),
        bound: Callable[[str, Known], None] = lambda _name, _known: None,
        outputs: Mapping[str, Known] = MappingProxyType({}),
        cache: RuleCache | None = None,
    ) -> None:
        self.names = names
        self._faults = faults
        self._headers = headers
        self._volatile = volatile
        self._bound = bound
        self._inference = ExpressionInference(names, self._add_misfit, outputs, cache)
        # The step whose expressions are being inferred.
        self._of: Step | Op | Task | None = None
        self._frames = [_Frame(None)]
        for name in volatile:
            names[name] = UNKNOWN

    def block(self, path: str, steps: tuple[Step, ...]) -> bool:
        """Infer types through the steps of a block; return whether its end is reached."""
        if len(steps) == 1 and isinstance(steps[0], Net):
            # Most tasks of a large job have a single net, which has no stop.
            return self._step(steps[0])
        frame = self._enter(path)
        falls = self.steps(steps)
        if frame.exits:
            self._join(frame, frame.exits, also_here=falls)
        self._leave()
        return falls or bool(frame.exits)

    def steps(self, steps: tuple[Step, ...]) -> bool:
        """Infer types through a list of steps; return whether its end is reached."""
        return all(map(self._step, steps))

    def repeat(self, path: str, body: Callable[[], bool]) -> None:
        """Infer types through a loop's steps until they no longer change."""
        frame = self._enter(path)
        for _ in range(_WIDENING_PASSES):
            falls, after = self._try_branch(body)
            if not falls or not self._join(_Frame(None), [after], also_here=True):
                break
        else:
            _, after = self._try_branch(body)
            for name, known in after.items():
                if known is not None and known != self.names.get(name):
                    self._set(name, UNKNOWN)
        if frame.exits:
            self._join(frame, frame.exits, also_here=True)
        self._leave()

    def value(self, expr: Expr, step: Step | Op) -> Known:
        """Infer the type of a step's expression from the types known at that step."""
        self._of = step
        return self._inference.whole(expr)

    def output(self, expr: Expr, task: Task) -> Known:
        """Infer, after the steps of a task, the type of one of its outputs."""
        self._of = task
        return self._inference.whole(expr)

    def _add_misfit(self, misfit: Misfit) -> None:
        """Add the fault of a misfit found while inferring the types of a step, at this step."""
        if self._of is not None:
            self._faults.add_misfit(misfit, self._of.path, self._of.origin)

    def bind(self, name: str, known: Known) -> None:
        """Bind a name to an inferred type, for the steps that follow."""
        if name in self._volatile or known.dtype == NONE:
            known = UNKNOWN
        self._set(name, known)
        self._bound(name, known)

    def _set(self, name: str, known: Known | None) -> None:
        before, names = self._frames[-1].before, self.names
        if name not in before:
            before[name] = names.get(name)
        if known is None:
            names.pop(name, None)
        else:
            names[name] = known

    def _enter(self, path: str | None) -> _Frame:
        self._frames.append(_Frame(path))
        return self._frames[-1]

    def _leave(self) -> None:
        """Leave a block in type inference; add names it changed to those changed around it."""
        ended = self._frames.pop()
        outer = self._frames[-1].before
        for name, known in ended.before.items():
            outer.setdefault(name, known)

    def _try_branch(self, body: Callable[[], bool]) -> tuple[bool, _Changes]:
        """Infer types through a branch's steps; return the changes, without applying them."""
        frame = self._enter(None)
        falls = body()
        changes = {name: self.names.get(name) for name in frame.before}
        for name, known in frame.before.items():
            self._set(name, known)
        self._frames.pop()
        return falls, changes

    def _join(self, frame: _Frame, branch_ends: list[_Changes], *, also_here: bool) -> bool:
        """Join the types that the steps of several branches leave.

        Args:
            frame: What the changes have been made since.
            branch_ends: The changes at each end.
            also_here: The present names are one more end, the first.

        Returns:
            Whether any name has changed by that.
        """
        changed = False
        for name in dict.fromkeys(chain(frame.before, *branch_ends)):
            here = self.names.get(name)
            start = frame.before.get(name, here)
            joined = here if also_here else None
            for end in branch_ends:
                known = end.get(name, start)
                if joined is None:
                    joined = known
                elif known is not None and known is not joined:
                    joined = join(joined, known)
            if joined != here:
                self._set(name, joined)
                changed = True
        return changed

    def _step(self, step: Step) -> bool:
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
                    self.bind(file.blob, self._infer_file(file))
                return True
            case Save():
                for error in find_unsavable(step, self.names):
                    self._faults.add(error, "", step)
                return True
            case Effect():
                for expr in step.expressions():
                    self.value(expr, step)
                for name in (*step.binds(), *step.lends()):
                    self.bind(name, UNKNOWN)
                return True
            case _:
                assert_never(step)

    def _if(self, step: If) -> bool:
        branch_ends: list[_Changes] = []
        doubt = self._faults.doubt
        decided = False
        for number, (condition, then) in enumerate(step.branches):
            written = replace(step, origin=step.origin_of(number)) if number else step
            holds = self._condition(condition, written)
            if holds is not False:
                self._faults.doubt += holds is None
                falls, changes = self._try_branch(partial(self.steps, then))
                branch_ends += [changes] if falls else []
            if holds:
                decided = True
                break
            self._faults.doubt += holds is None
        if not decided:
            falls, changes = self._try_branch(partial(self.steps, step.otherwise))
            branch_ends += [changes] if falls else []
        self._faults.doubt = doubt
        if branch_ends:
            self._join(_Frame(None), branch_ends, also_here=False)
        return bool(branch_ends)

    def _condition(self, condition: Expr, step: Step) -> bool | None:
        """Infer whether a step's condition holds, or None; refuse one that is no bool."""
        known = self.value(condition, step)
        kind = kind_of(known.dtype)
        if (known.dtype is not None and kind != "b") or known.shape:
            description = (
                known.dtype if not known.shape else f"an array of shape {shape_text(known.shape)}"
            )
            message = (
                f"a condition must be one bool, but {render_short(condition)} is {description}"
            )
            mend = "compare it with something, or reduce it with any() or all()"
            error = MisfitError(KINDS, message, mend)
            self._faults.add(error, "", step)
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

        # While the condition is unknown, the loop may have no iteration, like an if.
        in_doubt = isinstance(step, While) and runs is None
        self._faults.doubt += in_doubt
        self.repeat(step.path, body)
        self._faults.doubt -= in_doubt
        return True

    def _count(self, count: Expr, step: Step) -> bool | None:
        known = self.value(count, step)
        if (known.dtype is not None and kind_of(known.dtype) not in ("i", "u", "b")) or known.shape:
            message = (
                f"the count of a loop must be one integer, but {render_short(count)} is "
                f"{known.dtype}"
            )
            error = MisfitError(KINDS, message, "divide with //, or write int(x)")
            self._faults.add(error, "", step)
            return None
        return None if not isinstance(known.value, int) else known.value > 0

    def _stop(self, step: Stop) -> bool:
        holds = True if step.condition is None else self._condition(step.condition, step)
        if holds is not False:
            self._note_leaving(step.target)
        return not holds

    def _note_leaving(self, target: str) -> None:
        """Record the inferred types where a ``stop`` step leaves a block."""
        changed: dict[str, None] = {}
        for frame in reversed(self._frames):
            changed |= dict.fromkeys(frame.before)
            if frame.path == target:
                frame.exits.append({name: self.names.get(name) for name in changed})
                return

    def _infer_file(self, file: DataFile) -> Known:
        parts = file.path.parts
        if len(parts) != 1 or not isinstance(parts[0], str):
            return UNKNOWN
        path = str(PurePosixPath(file.folder) / parts[0]) if file.folder else parts[0]
        header = self._headers(path, file.member)
        return Known(dtype_name(header[0]), header[1]) if header else UNKNOWN

    def _op(self, op: Op) -> None:
        if type(op) is Assign and len(op.targets) == 1 and type(op.targets[0]) is NameTarget:
            # A fast path: most operators assign one name.
            self._of = op
            self.bind(op.targets[0].name, self._inference.whole(op.value))
            return
        match op:
            case Assign():
                self._assign(op, op.targets, self.value(op.value, op))
            case Augment():
                self._augment(op)
            case Delete(names=deleted):
                for name in deleted:
                    self._set(name, None)
            case Perform(value=value):
                self.value(value, op)
            case _:
                assert_never(op)

    def _assign(self, op: Assign, targets: tuple[Target, ...], known: Known) -> None:
        if len(targets) == 1:
            self._assign_target(op, targets[0], known)
            return
        items = known.items
        if items is None and known.shape:
            length = known.shape[0]
            row = Known(known.dtype, known.shape[1:])
            items = (row,) * (len(targets) if length is None else min(length, 64))
        if items is not None and len(items) != len(targets):
            message = f"{len(items)} values cannot be assigned to {len(targets)} names"
            error = MisfitError(SHAPES, message, "use one name for each value")
            self._faults.add(error, "", op)
            items = None
        for target, item_type in zip(targets, items or (UNKNOWN,) * len(targets), strict=True):
            self._assign_target(op, target, item_type)

    def _assign_target(self, op: Assign, target: Target, known: Known) -> None:
        if isinstance(target, NameTarget):
            self.bind(target.name, known)
            return
        with_index = Index(Name(target.name), target.index)
        self._try_infer(
            op, with_index, lambda: self._require_fitting_item(op, target, as_array(known))
        )

    def _require_fitting_item(self, op: Op, target: ItemTarget, value: Known) -> None:
        array = self.names.get(target.name, UNKNOWN)
        if array.sequence:
            if isinstance(target.index, Slice) and len(value.shape or ()) > 1:
                message = "what a slice of a list takes would be shared with its source"
                mend = "assign the items one by one, x[0] = y[0], which copies each"
                raise MisfitError(KINDS, message, mend)
            # The items of a list can have any type, so one of them is unknown from here on.
            self.bind(target.name, Known(sequence=array.sequence))
            return
        if array.weak:
            raise MisfitError(KINDS, "a scalar cannot be indexed", "make an array: zeros(n)")
        selected = infer_index(array, target.index, lambda expr: self.value(expr, op)).shape
        if selected is None or value.shape is None:
            return
        shape = value.shape
        # numpy drops leading axes of length 1; an unknown length may be 1.
        while len(shape) > len(selected) and shape[0] in {1, None}:
            shape = shape[1:]
        together = broadcast(shape, selected)
        if together is None or len(together) > len(selected):
            message = f"a value of shape {shape_text(value.shape)} does not fit into "
            raise MisfitError(
                SHAPES, f"{message}{shape_text(selected)}", "assign one value, or one per item"
            )

    def _augment(self, op: Augment) -> None:
        value = self.value(op.value, op)
        target = op.target
        if isinstance(target, ItemTarget):
            expr: Expr = Index(Name(target.name), target.index)
            lhs = self.value(expr, op)
        else:
            expr = Name(target.name)
            lhs = self.names.get(target.name, UNKNOWN)
        whole = Binary(expr, op.operator, op.value)  # type: ignore[arg-type]
        result = (
            self._try_infer(op, whole, lambda: infer_binary(lhs, op.operator, value)) or UNKNOWN
        )
        holder = self.names.get(target.name, UNKNOWN)
        if isinstance(target, ItemTarget) and holder.sequence:
            self.bind(target.name, Known(sequence=holder.sequence))
            return
        if lhs.shape:
            self._try_infer(op, whole, lambda: require_in_place(lhs, result, op.operator))
        elif isinstance(target, NameTarget):
            # x += y binds a Python scalar again, but an array without axes keeps its dtype.
            same = lhs.weak or lhs.dtype == result.dtype
            known = result if lhs.shape == () else UNKNOWN
            self.bind(target.name, known if same else Known(None, known.shape))

    def _try_infer(self, op: Op, expr: Expr, find: Callable[[], Known | None]) -> Known | None:
        try:
            return find()
        except MisfitError as error:
            self._faults.add_misfit(Misfit(expr, error, is_perhaps=False), op.path, op.origin)
        except UnclearError:
            pass
        return None


def find_unsavable(step: Save, names: Mapping[str, Known]) -> Iterator[MisfitError]:
    """Yield an error for each value of a step that its file cannot hold, as far as is known."""
    lengths: dict[str, tuple[str, int | None]] = {}
    for file in step.files:
        known = names.get(file.blob, UNKNOWN)
        path = render_text(file.path)
        is_table = format_of(suffix_of(path)) == "csv"
        reason = _describe_misfit(file, known, is_table=is_table)
        if reason:
            mend = "save it to an .npy or .h5 file" if is_table else "make an array of it: array(x)"
            yield MisfitError(
                "E286", f"cannot save '{file.blob}' to {file.location_text()}: {reason}", mend
            )
        elif is_table and known.shape is not None:
            length = known.shape[0] if known.shape else 1
            other, before = lengths.setdefault(path, (file.blob, length))
            if clash(length, before):
                message = f"'{other}' and '{file.blob}' cannot be columns of {path}: their lengths "
                mend = "save them to files of their own"
                yield MisfitError("E286", f"{message}are {before} and {length}", mend)


def _describe_misfit(file: DataFile, known: Known, *, is_table: bool) -> str:
    if known.sequence or known.dtype == NONE:
        return f"it is a {known.sequence or 'None'}, and a data file holds arrays"
    if not is_table:
        return ""
    if kind_of(known.dtype) == "c":
        return f"a table cannot hold {known.dtype}"
    most = 1 if file.member else 2
    if known.shape is not None and len(known.shape) > most:
        noun = "a column" if file.member else "a table"
        return f"{noun} cannot hold an array of shape {shape_text(known.shape)}"
    return ""
