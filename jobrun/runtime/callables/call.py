"""Execute the ``call`` step: a Python callable between blobs, which borrows arrays."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct, field

from jobrun.core.captured_output import collect
from jobrun.core.errors import TaskFailedError
from jobrun.graph.expressions import Expr, Name
from jobrun.graph.steps import CallPython
from jobrun.graph.traversal import walk_expr
from jobrun.runtime.callables.array_audit import ArrayAudit, AuditedArray, Place, find_changed
from jobrun.runtime.callables.change_errors import ChangeErrors
from jobrun.runtime.callables.invocation import (
    EXTRAS,
    GapNotes,
    invoke,
    parameter_names,
    printed_lines,
)
from jobrun.runtime.callables.shared_memory import SharedMemoryCheck
from jobrun.runtime.callables.user_modules import load_callable
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.frame import LEVELS, Frame, display_name
from jobrun.runtime.snapshots.kept_references import (
    KeptPlace,
    Parts,
    count_others,
    count_owner_references,
    find_kept,
    is_watched,
)
from jobrun.values.blob_kinds import (
    Value,
    check_storable,
    describe,
    is_object,
    require_storable,
)
from jobrun.values.change_detection import Loan, ObjectLoan, lend
from jobrun.values.container_flattening import (
    is_numpy_scalar,
    is_tree,
    unbound_class_error,
    unbound_classes,
)
from jobrun.values.copies import detach, lives_on, take_over
from jobrun.values.kinds.array import is_structured_scalar, read_only_row
from jobrun.values.kinds.builtin import PLAIN_KINDS
from jobrun.values.kinds.counter import Counter
from jobrun.values.shared_parts import mutable_parts
from jobrun.values.tree_survey import survey

Getter = Callable[[Frame], Any]

# References to a container that is a blob; and to one lent itself, of which its loan has two more.
_BOUND, _LENT_ITSELF = 1, 3


def call_action(
    step: CallPython, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """Build the function of a ``call`` step; the user's module is imported when it first runs."""
    return _Call(step, names, getter)


class _CallRecord(Struct):
    """What one call has lent, and what came of it.

    Nothing else refers to the arguments and results while references are counted.

    Attributes:
        frame: The task's.
        values: The arguments by name.
        loans: Of containers and objects that are lent to be read.
        references: How many references to arguments there were before the call.
        owner_references: Likewise, to the arrays of which arguments are views.
        audited: Arrays that are lent to be read, with digests.
        results: One for each output.
        kept: What code keeps of blobs: the blob, how the callable got it, and the parts.
    """

    frame: Frame
    values: dict[str, Value] = field(default_factory=dict)
    loans: dict[str, Loan | ObjectLoan] = field(default_factory=dict)
    references: dict[str, int] = field(default_factory=dict)
    owner_references: dict[str, int] = field(default_factory=dict)
    audited: list[AuditedArray] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    kept: list[tuple[str, str, Parts]] = field(default_factory=list)


class _Call:
    def __init__(
        self, step: CallPython, names: BlockNames, getter: Callable[[Expr], Getter]
    ) -> None:
        self._step = step
        self._names = names
        self._arguments = [(name, getter(value)) for name, value in step.arguments]
        self._sources = {
            name: value.name for name, value in step.arguments if isinstance(value, Name)
        }
        used_names = {
            name: frozenset(part.name for part in walk_expr(value) if isinstance(part, Name))
            for name, value in step.arguments
        }
        # The blobs that an argument's expression may take a part out of.
        expressions = {
            name: blobs for name, blobs in used_names.items() if name not in self._sources
        }
        self._inout = {name: blob for name, blob in self._sources.items() if name in step.writable}
        changing = frozenset(self._inout.values())
        self._parts_of_inout = {
            name: blobs & changing for name, blobs in expressions.items() if blobs & changing
        }
        self._resolved_function: tuple[Callable[..., Any], tuple[str, ...]] | None = None
        # Of other pairs it could not be seen whether they share memory.
        pairs = names.apart.get(step.path, ())
        self._sharing = (
            SharedMemoryCheck(step.target, pairs, step.outputs, self._sources, expressions)
            if pairs
            else None
        )
        self._gap_notes = GapNotes(step.target, step.path, step.origin)
        self._errors = ChangeErrors(step)
        self._audit = ArrayAudit()
        racing = names.racing | changing
        # Arguments that nothing changes while the callable runs.
        self._stable = [name for name, blobs in used_names.items() if racing.isdisjoint(blobs)]
        # Blobs that nothing else sees meanwhile: a callable may change one, and change it back.
        self._unseen = {
            name
            for name in self._stable
            if name in self._sources and self._sources[name] not in names.shared
        }

    def __call__(self, frame: Frame) -> None:
        function, extras = self._resolve(frame)
        call = _CallRecord(frame)
        try:
            self._lend(call, extras)
            self._count_references(call)
            self._run(call, function)
            self._require_unchanged(call)
            self._require_apart(call)
            self._bind_inout(call)
            self._bind_results(call)
            self._end_loans(call)
            self._note_kept(call)
        except BaseException:
            self._restore(call)
            raise

    def _resolve(self, frame: Frame) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """Return the callable, and the names of the further arguments that it wants."""
        if self._resolved_function is None:
            folder = frame.resolve_folder(self._step.folder)
            function = frame.run.settings.load(load_callable, self._step.target, folder)
            listed = {name for name, _ in self._arguments}
            extras = [name for name in parameter_names(function) if name in EXTRAS]
            self._resolved_function = (
                function,
                tuple(name for name in extras if name not in listed),
            )
        return self._resolved_function

    # 1. Lend the arguments.

    def _lend(self, call: _CallRecord, extras: Iterable[str]) -> None:
        if self._parts_of_inout:
            self._lend_with_parts_of_inout(call)
        else:
            for name, get in self._arguments:
                call.values[name] = self._lend_argument(name, get, call)
        call.values.update((name, EXTRAS[name](call.frame)) for name in extras)

    def _lend_with_parts_of_inout(self, call: _CallRecord) -> None:
        """Lend arguments some of which may be parts of others that the callable may change.

        Such a part is lent itself, as in plain Python.

        Raises:
            TaskFailedError: E258, a part is in a value that can be lent as a copy only.
        """
        getters = dict(self._arguments)
        values = call.values
        values.update(dict.fromkeys(getters))
        for name in sorted(getters, key=self._parts_of_inout.__contains__):
            owners = self._parts_of_inout.get(name, ())
            writable: dict[int, Any] = {}
            for other, blob in self._inout.items():
                if blob in owners:
                    writable |= mutable_parts(values[other])
            values[name] = self._lend_argument(name, getters[name], call, writable)
            for other, blob in self._inout.items():
                loan = call.loans.get(name)
                if blob in owners and isinstance(loan, Loan) and loan.has_copy_of(values[other]):
                    raise self._errors.holds_part(name, blob)

    def _lend_argument(
        self,
        name: str,
        get: Getter,
        call: _CallRecord,
        writable: Mapping[int, Any] | None = None,
    ) -> Value:
        value = get(call.frame)
        blob = self._inout.get(name)
        if blob is not None:
            return self._lend_inout(blob, value, call.frame)
        kind = type(value)
        if kind in PLAIN_KINDS:
            return value
        if kind is Counter or is_tree(value):
            loan = call.loans[name] = lend(value, writable, itself=name in self._unseen)
            return loan.lent
        if kind is np.ndarray and value.dtype.hasobject:
            # As a part of something: a view of it would not protect what is in it.
            loan = call.loans[name] = lend([value], writable)
            return loan.lent[0]
        if kind is not np.ndarray and is_object(value):
            title = display_name(self._sources.get(name, name))
            call.loans[name] = call.frame.run.snapshots.objects.borrow(title, value)
        return read_only_view(value)

    def _lend_inout(self, blob: str, value: Value, frame: Frame) -> Value:
        if blob in self._names.objects and not is_object(value):
            raise TaskFailedError.of(
                "E244",
                f"'{display_name(blob)}' is a constant, {describe(value)} that a 'rebuild' task "
                f"makes at every start, and '{self._step.target}' is to change it",
                "make it state: take 'rebuild' from the task that makes it; or leave out 'inout'",
            )
        if is_tree(value) and unbound_classes(value):
            # It came from a file or another process before this callable had loaded its class.
            value = detach(value)
            self._put(frame, blob, value)
            missing = unbound_classes(value)
            if missing:
                raise unbound_class_error(missing[0], display_name(blob))
        if isinstance(value, np.ndarray) and value.base is not None:
            # A view would hide who keeps it: references would go to the array it looks at.
            value = value.copy(order="K")
            self._put(frame, blob, value)
        return value

    # 2. Record what is to be compared after the call.

    def _count_references(self, call: _CallRecord) -> None:
        values, frame = call.values, call.frame
        watched = values if self._sharing else self._inout
        call.references = {name: count_others(values, name) for name in watched}
        call.owner_references = count_owner_references(values) if self._sharing else {}
        if frame.run.snapshots.kept_references:
            frame.run.snapshots.kept_references.require_same_before_call(
                self._positions(frame, self._step.outputs),
                f"was changed before '{self._step.target}' began in epoch {frame.epoch}",
            )
        arrays: list[Place] = [
            (name, (), values[name]) for name in self._stable if type(values[name]) is np.ndarray
        ]
        for name, loan in call.loans.items():
            if type(loan) is Loan and name in self._stable:
                arrays += loan.arrays(name)
        if arrays:
            call.audited = self._audit.begin(arrays)

    # 3. Run the callable.

    def _run(self, call: _CallRecord, function: Callable[..., Any]) -> None:
        """Call the function, and list its results.

        Raises:
            TaskFailedError: E206, it raised; E208, it returned another number of values.
        """
        frame, values = call.frame, call.values
        detector = frame.run.snapshots.objects
        changing = [values[name] for name in self._inout if is_object(values[name])]
        for value in changing:
            detector.note_change(value)

        def run() -> Any:
            with collect(printed_lines(frame, self._step.path)):
                return invoke(self._step.target, function, values)

        try:
            result = frame.run.settings.call_for_task(frame.task, run)
        except TaskFailedError as error:
            raise self._errors.explain(error, values) from error.__cause__
        finally:
            for value in changing:
                detector.note_change(value)
        outputs = self._step.outputs
        if outputs:
            is_single = len(outputs) == 1
            call.results = [result] if is_single else _items(self._step.target, result, outputs)

    # 4. Refuse what it was not to do.

    def _require_unchanged(self, call: _CallRecord) -> None:
        """Refuse a ``call`` that has changed arguments which its step does not declare as changed.

        Raises:
            TaskFailedError: E246; E247 of an object.
        """
        for name, value in call.values.items():
            if type(value) is np.ndarray and value.flags.writeable and name not in self._inout:
                if value.dtype.hasobject and name in self._parts_of_inout:
                    continue  # a part of a blob that may be changed, lent itself
                raise self._errors.changed(name, ())
        changed = find_changed(call.audited) if call.audited else None
        if changed is not None:
            raise self._errors.changed(changed[0], changed[1])
        call.audited.clear()
        detector = call.frame.run.snapshots.objects
        for name, loan in call.loans.items():
            if isinstance(loan, ObjectLoan):
                if detector.is_changed(loan):
                    detector.forget()
                    raise self._errors.changed_object(name, loan.value)
                continue
            path = loan.change()
            if path is not None:
                raise self._errors.changed(name, path)
        self._require_kept_unchanged(call.frame)

    def _require_kept_unchanged(self, frame: Frame) -> None:
        """Refuse a ``call`` step whose callable changed blobs by references that it had kept.

        Raises:
            TaskFailedError: E246.
        """
        registry = frame.run.snapshots.kept_references
        if registry:
            registry.require_same_after_call(
                self._positions(frame, self._sources.values()),
                self._positions(frame, self._step.outputs),
                f"was changed by '{self._step.target}' in epoch {frame.epoch}",
                wholly=frame.run.group == "exit",
            )

    def _require_apart(self, call: _CallRecord) -> None:
        """Refuse a ``call`` after which two blobs share memory, where that could be seen.

        Raises:
            TaskFailedError: E258; E259 of an object.
        """
        values = call.values
        if self._sharing is not None:
            held = {
                name
                for name, before in call.references.items()
                if count_others(values, name) > before
            }
            held.update(
                name
                for name, count in count_owner_references(values).items()
                if count > call.owner_references[name]
            )
            workspace_of = partial(self._workspace, call.frame)
            self._sharing.require_apart(values, call.loans, call.results, held, workspace_of)
        for name in self._parts_of_inout:
            # It may be a part of a blob below, to which nothing else may refer.
            del values[name]
            call.loans.pop(name, None)

    # 5. Bind what it changed and returned: values to which nothing else refers.

    def _bind_inout(self, call: _CallRecord) -> None:
        values, frame = call.values, call.frame
        for name, blob in self._inout.items():
            is_kept = count_others(values, name) > call.references[name] and not is_object(
                values[name]
            )
            is_container = is_tree(values[name])
            if is_container and _is_exclusive(values, name, _BOUND):
                continue
            if is_kept or is_container:
                # The callable has kept it: from now on the blob is another array. What it has put
                # into a container must have no other owner either.
                parts = _find_kept(values, name, call.references[name])
                copy = detach if parts else take_over
                if parts and blob not in self._step.outputs:
                    call.kept.append((blob, "was lent", parts))
                # References of ours would count as kept ones.
                del parts
                note_gaps = self._gap_notes.to(frame)
                self._put(frame, blob, copy(values[name], display_name(blob), note_gaps))

    def _bind_results(self, call: _CallRecord) -> None:
        """Bind a call's results to blobs, and empty the list of results: no reference remains."""
        outputs, results = self._step.outputs, call.results
        results.reverse()
        note_gaps = self._gap_notes.to(call.frame)
        owned = []
        for blob in outputs:
            is_container = not is_object(results[-1]) and is_tree(results[-1])
            if is_container and _is_exclusive(results, -1, 0):
                owned.append(results.pop())
                continue
            parts = _find_kept(results, -1) if is_container and is_watched(results[-1]) else []
            is_kept = count_others(results, -1) > 0
            owned.append(_own_value(results.pop(), blob, note_gaps, parts, is_kept=is_kept))
            if parts:
                call.kept.append((blob, "returned", parts))
        for blob, value in zip(outputs, owned, strict=True):
            self._workspace(call.frame, blob)[blob] = value

    # 6. End the loans, and watch what the callable has kept.

    def _end_loans(self, call: _CallRecord) -> None:
        values, outputs = call.values, self._step.outputs
        loans = {name: loan for name, loan in call.loans.items() if isinstance(loan, Loan)}
        facts = [(name, loan.is_itself, loan.has_copies) for name, loan in loans.items()]
        loans.clear()
        for name, is_itself, has_copies in facts:
            source = self._sources.get(name)
            if source in outputs:
                # The blob has another value now, which owns all that it has.
                del call.loans[name]
                continue
            if is_itself and source is not None:
                parts = self._take_back(call, name, source)
                del call.loans[name]
            else:
                # The loan itself refers to what it has lent.
                del call.loans[name]
                is_kept = count_others(values, name) > 0
                parts = find_kept(values[name], is_kept=is_kept, arrays=has_copies)
            if parts and source is not None:
                call.kept.append((source, "was lent", parts))
        values.clear()

    def _take_back(self, call: _CallRecord, name: str, blob: str) -> Parts:
        """Copy a blob that was lent itself, if the callable keeps parts of it; list these."""
        if _is_exclusive(call.values, name, _LENT_ITSELF):
            return []
        parts = _find_kept(call.values, name, _LENT_ITSELF)
        if parts:
            self._put(call.frame, blob, detach(call.values[name], display_name(blob)))
        return parts

    def _restore(self, call: _CallRecord) -> None:
        """Replace blobs that were lent themselves by what they were, since the job may go on."""
        for name, loan in call.loans.items():
            if isinstance(loan, Loan) and loan.is_itself:
                self._put(call.frame, self._sources[name], loan.original())

    def _note_kept(self, call: _CallRecord) -> None:
        frame, kept = call.frame, call.kept
        registry = frame.run.snapshots.kept_references
        when = f"was returned again by '{self._step.target}' in epoch {frame.epoch}"
        watched = {blob for blob, _, parts in kept if parts}
        for blob in self._step.outputs if registry else ():
            if blob not in watched:
                registry.note(self._workspace(frame, blob), blob, [], "", when, is_new=True)
        while kept:
            blob, verb, parts = kept.pop(0)
            if parts:
                title = f"'{self._step.target}' {verb} in epoch {frame.epoch}"
                is_new = blob in self._step.outputs
                workspace = self._workspace(frame, blob)
                registry.note(workspace, blob, parts, title, when, is_new=is_new)

    def _put(self, frame: Frame, blob: str, value: Value) -> None:
        workspace, registry = self._workspace(frame, blob), frame.run.snapshots.kept_references
        if registry:
            # What was lent is still the same to who has kept it.
            registry.follow(workspace, blob, workspace.get(blob), value)
        workspace[blob] = value

    def _positions(self, frame: Frame, blobs: Iterable[str]) -> set[KeptPlace]:
        return {(id(self._workspace(frame, blob)), blob) for blob in blobs}

    def _workspace(self, frame: Frame, blob: str) -> Any:
        return getattr(frame, LEVELS[self._names.scope(blob)])


def read_only_view(value: Value) -> Value:
    """Return an argument of a ``call`` as a read-only view, which must not be changed."""
    if type(value) is np.ndarray:
        view = value.view()
        view.flags.writeable = False
        return view
    if is_structured_scalar(value) and is_numpy_scalar(value):
        return read_only_row(value)
    if isinstance(value, np.dtype) or is_object(value):
        # There is only one of an object, and whether it changes is its own matter.
        return value
    if type(value) is tuple and PLAIN_KINDS.issuperset(map(type, value)):
        return value
    return detach(value) if check_storable(value, "?") is None else value


def _items(target: str, result: Any, outputs: tuple[str, ...]) -> list[Any]:
    if not isinstance(result, tuple | list):
        returned = f"one value of class {type(result).__name__}"
    elif len(result) != len(outputs):
        returned = f"{len(result)} values"
    else:
        return list(result)
    names = ", ".join(map(display_name, outputs))
    raise TaskFailedError.of(
        "E208",
        f"the callable '{target}' returned {returned}, but its step names {len(outputs)} blobs",
        f"return a tuple of {len(outputs)} values, for {names}",
    )


def _is_exclusive(owner: Any, key: Any, others: int) -> bool:
    """Return whether a container, an item of ``owner``, is in boundary form, and code keeps none.

    Args:
        owner: A dict or list.
        key: Of the item.
        others: How many references to the item there are outside of ``owner`` and the container.
    """
    surveyed = survey(owner[key])
    if surveyed is None or not surveyed.is_exclusive:
        return False
    return count_others(owner, key) - surveyed.root_references <= others


def _find_kept(owner: Any, key: Any, before: int = 0) -> Parts:
    """Find parts of a container, an item of ``owner``, to which user code keeps references.

    Args:
        owner: A dict or list.
        key: Of the item.
        before: How many references to the item were there before the call.
    """
    # Counted first: an argument that waits for the next one counts, too.
    is_kept = count_others(owner, key) > before
    parts = find_kept(owner[key], is_kept=is_kept)
    if parts and lives_on(owner[key]):
        # Cycles of a library's objects that nothing refers to any more keep none of it. They would
        # do so until Python happens to collect them: copied or not, by chance.
        parts.clear()
        gc.collect()
        is_kept = count_others(owner, key) > before
        parts = find_kept(owner[key], is_kept=is_kept)
    return parts


def _own_value(
    value: Any, blob: str, note_gaps: Callable[[str], None], kept: Parts, *, is_kept: bool
) -> Value:
    """Return the result of a ``call`` for its blob, copied if the user's code still refers to it.

    Args:
        value: The result.
        blob: Its blob.
        note_gaps: As of ``detach``.
        kept: What something else has of a container; of an array it is added.
        is_kept: Something else has all of it.
    """
    if type(value) is not np.ndarray:
        if is_object(value):
            return require_storable(value, display_name(blob))
        own = detach if kept else take_over
        return own(value, display_name(blob), note_gaps)
    if not is_kept and value.base is None and value.flags.writeable and not value.dtype.hasobject:
        return require_storable(value, display_name(blob))
    if is_watched(value):
        kept += find_kept(value, is_kept=is_kept)
    return detach(value, display_name(blob), note_gaps)
