"""Execute the ``call`` step: a Python callable between blobs, which borrows arrays."""

from __future__ import annotations

import gc
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from jobrun.core.captured_output import PrintedLines, collect
from jobrun.core.errors import Origin, TaskFailedError
from jobrun.core.events import Logged, Noted
from jobrun.core.lazy_dataclass import replace
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import Expr, Name
from jobrun.graph.steps import CallPython
from jobrun.graph.traversal import walk_expr
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.context.frame import LEVELS, Frame, display_name
from jobrun.runtime.context.imported_code import IMPORTED_CODE, ChangedCodeError
from jobrun.runtime.snapshots.values_kept_by_code import (
    KeptPlace,
    Parts,
    count_others,
    count_owner_references,
    find_kept,
    is_watched,
)
from jobrun.runtime.steps.array_audit import ArrayAudit, AuditedArray, Place, find_changed
from jobrun.runtime.steps.user_modules import load_callable
from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.atomic_counter import Counter
from jobrun.values.blob_kinds import (
    PLAIN_KINDS,
    Value,
    check_storable,
    describe,
    is_object,
    require_storable,
)
from jobrun.values.change_detection import Loan, ObjectLoan, lend
from jobrun.values.container_flattening import (
    flatten,
    is_numpy_scalar,
    is_tree,
    unbound_class_error,
    unbound_classes,
)
from jobrun.values.copies import detach, lives_on, take_over
from jobrun.values.shared_parts import find_common_part, mutable_parts, render_place
from jobrun.values.structured_dtypes import is_structured_scalar, read_only_row
from jobrun.values.tree_survey import survey

Getter = Callable[[Frame], Any]

# Handed over when the callable's signature names them.
_EXTRAS: dict[str, Getter] = {
    "rng": lambda frame: frame.rng,
    "epoch": lambda frame: frame.epoch,
    "node": lambda frame: frame.node.name,
    "instance": lambda frame: frame.instance,
    "run_dir": lambda frame: frame.run.run_dir,
}
_SHOWN_FRAMES = 12
# References to a container that is a blob; and to one lent itself, of which its loan has two more.
_BOUND, _LENT_ITSELF = 1, 3
if sys.version_info >= (3, 14):
    from annotationlib import Format

    # They are evaluated when they are asked for, and may name what only type checkers import.
    _signature = partial(inspect.signature, annotation_format=Format.STRING)
else:
    _signature = inspect.signature
_WITHOUT_MEMORY: frozenset[type] = PLAIN_KINDS | {type(None), bytes}


def call_action(
    step: CallPython, names: BlockNames, getter: Callable[[Expr], Getter]
) -> Callable[[Frame], None]:
    """Build the function of a ``call`` step; the user's module is imported when it first runs."""
    return _Call(step, names, getter)


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
        # The blobs that an argument's expression may take a part out of.
        self._in_expressions = {
            name: frozenset(one.name for one in walk_expr(value) if isinstance(one, Name))
            for name, value in step.arguments
            if not isinstance(value, Name)
        }
        self._blobs = {
            name: value.name
            for name, value in step.arguments
            if name in step.writable and isinstance(value, Name)
        }
        self._found: tuple[Callable[..., Any], tuple[str, ...]] | None = None
        # Of other pairs it could not be seen whether they share memory.
        self._apart = names.apart.get(step.path, ())
        self._gap_notes = GapNotes(step.target, step.path, step.origin)
        changing = frozenset(self._blobs.values())
        self._beside = {
            name: blobs & changing
            for name, blobs in self._in_expressions.items()
            if blobs & changing
        }
        self._audit = ArrayAudit()
        racing = names.racing | changing
        self._audited = [
            name
            for name, value in step.arguments
            if racing.isdisjoint(one.name for one in walk_expr(value) if isinstance(one, Name))
        ]

    def __call__(self, frame: Frame) -> None:
        function, extras = self._resolved(frame)
        loans: dict[str, Loan | ObjectLoan] = {}
        if self._beside:
            values = self._lent_beside_inout(frame, loans)
        else:
            values = {name: self._lent(name, get, frame, loans) for name, get in self._arguments}
        values.update((name, _EXTRAS[name](frame)) for name in extras)
        watched = values if self._apart else self._blobs
        before = {name: count_others(values, name) for name in watched}
        owners = count_owner_references(values) if self._apart else {}
        if frame.run.snapshots.kept:
            frame.run.snapshots.kept.require_same_before_call(
                self._places(frame, self._step.outputs),
                f"was changed before '{self._step.target}' began in epoch {frame.epoch}",
            )
        arrays = self._lent_arrays(values, loans)
        audited = self._audit.begin(arrays) if arrays else []
        del arrays
        try:
            result = self._result(function, values, frame)
        except BaseException:
            for name, loan in loans.items():
                if isinstance(loan, Loan) and loan.is_itself and loan.change() is not None:
                    self._put(frame, self._sources[name], loan.original())
            raise
        self._require_unchanged(values, loans, audited, frame)
        audited.clear()
        self._require_kept_unchanged(frame)
        parts = self._parts(result)
        del result
        if self._apart:
            held = {name for name in before if count_others(values, name) > before[name]}
            held.update(
                name
                for name, count in count_owner_references(values).items()
                if count > owners[name]
            )
            self._require_apart(values, loans, parts, held, frame)
        for name in self._beside:
            # It may be a part of a blob below, to which nothing else may refer.
            del values[name]
            loans.pop(name, None)
        kept: list[tuple[str, str, Parts]] = []
        for name, blob in self._blobs.items():
            is_kept = count_others(values, name) > before[name] and not is_object(values[name])
            is_container = is_tree(values[name])
            if is_container and _is_exclusive(values, name, _BOUND):
                continue
            if is_kept or is_container:
                # The callable has kept it: from now on the blob is another array. What it has put
                # into a container must have no other owner either.
                found = _find_kept(values, name, before[name])
                own = detach if found else take_over
                if found and blob not in self._step.outputs:
                    kept.append((blob, "was lent", found))
                # References of ours would count as kept ones.
                del found
                note_gaps = self._gap_notes.to(frame)
                self._put(frame, blob, own(values[name], display_name(blob), note_gaps))
        self._store(frame, parts, kept)
        self._take_back(values, loans, kept, frame)
        lent = {name: one.has_copies for name, one in loans.items() if isinstance(one, Loan)}
        for name, has_copies in lent.items():
            # The loan itself refers to what it has lent.
            del loans[name]
            is_kept = count_others(values, name) > 0
            found = find_kept(values[name], is_kept=is_kept, arrays=has_copies)
            source = self._sources.get(name)
            if found and source is not None and source not in self._step.outputs:
                kept.append((source, "was lent", found))
        values.clear()
        self._note_kept(kept, frame)

    def _take_back(
        self,
        values: dict[str, Value],
        loans: dict[str, Loan | ObjectLoan],
        kept: list[tuple[str, str, Parts]],
        frame: Frame,
    ) -> None:
        """Copy the blobs of containers that were lent themselves, where the callable keeps parts.

        Args:
            values: The arguments.
            loans: Of them, by name; those of such containers are removed.
            kept: What callables keep is added.
            frame: The task's.
        """
        for name in [name for name, one in loans.items() if type(one) is Loan and one.is_itself]:
            if not _is_exclusive(values, name, _LENT_ITSELF):
                found = _find_kept(values, name, _LENT_ITSELF)
                blob = self._sources[name]
                if found:
                    self._put(frame, blob, detach(values[name], display_name(blob)))
                    if blob not in self._step.outputs:
                        kept.append((blob, "was lent", found))
                del found
            del loans[name]

    def _resolved(self, frame: Frame) -> tuple[Callable[..., Any], tuple[str, ...]]:
        if self._found is None:
            folder = frame.resolve_folder(self._step.folder)
            function = frame.run.settings.load(load_callable, self._step.target, folder)
            given = {name for name, _ in self._arguments}
            wanted = [name for name in _parameters(function) if name in _EXTRAS]
            self._found = (function, tuple(name for name in wanted if name not in given))
        return self._found

    def _lent_beside_inout(
        self, frame: Frame, loans: dict[str, Loan | ObjectLoan]
    ) -> dict[str, Value]:
        """Lend arguments some of which may be parts of others that the callable may change.

        Such a part is lent itself, as in plain Python.

        Raises:
            TaskFailedError: E258, a part is in a value that can be lent as a copy only.
        """
        getters = dict(self._arguments)
        values: dict[str, Value] = dict.fromkeys(getters)
        for name in sorted(getters, key=self._beside.__contains__):
            owners = self._beside.get(name, ())
            writable: dict[int, Any] = {}
            for other, blob in self._blobs.items():
                if blob in owners:
                    writable |= mutable_parts(values[other])
            values[name] = self._lent(name, getters[name], frame, loans, writable)
            for other, blob in self._blobs.items():
                loan = loans.get(name)
                if blob in owners and isinstance(loan, Loan) and loan.has_copy_of(values[other]):
                    raise TaskFailedError.of(
                        "E258",
                        f"the argument '{name}' of the callable '{self._step.target}', "
                        f"'{self._source_text(name)}', holds a part of '{display_name(blob)}', "
                        "which the same callable may change: it would get a copy of the part",
                        f"give it '{display_name(blob)}' alone, and let it take the part out",
                    )
        return values

    def _lent_arrays(
        self, values: Mapping[str, Value], loans: Mapping[str, Loan | ObjectLoan]
    ) -> list[Place]:
        """List the arrays that a ``call`` lends to be read, each with its argument and path."""
        found: list[Place] = [
            (name, (), values[name]) for name in self._audited if type(values[name]) is np.ndarray
        ]
        for name, loan in loans.items():
            if type(loan) is Loan and name in self._audited:
                found += loan.arrays(name)
        return found

    def _lent(
        self,
        name: str,
        get: Getter,
        frame: Frame,
        loans: dict[str, Loan | ObjectLoan],
        writable: Mapping[int, Any] | None = None,
    ) -> Value:
        value = get(frame)
        blob = self._blobs.get(name)
        if blob is None:
            kind = type(value)
            if kind in PLAIN_KINDS:
                return value
            if kind is Counter or is_tree(value):
                is_stable = name in self._audited and name in self._sources
                loan = loans[name] = lend(value, writable, itself=is_stable)
                return loan.lent
            if kind is np.ndarray and value.dtype.hasobject:
                # As a part of something: a view of it would not protect what is in it.
                loan = loans[name] = lend([value], writable)
                return loan.lent[0]
            if kind is not np.ndarray and is_object(value):
                title = display_name(self._sources.get(name, name))
                loans[name] = frame.run.snapshots.objects.borrow(title, value)
            return read_only_view(value)
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

    def _result(
        self, function: Callable[..., Any], values: Mapping[str, Value], frame: Frame
    ) -> Any:
        detector = frame.run.snapshots.objects
        changing = [values[name] for name in self._blobs if is_object(values[name])]
        for value in changing:
            detector.note_change(value)

        def invoke() -> Any:
            with collect(printed_lines(frame, self._step.path)):
                return _invoke(self._step.target, function, values)

        try:
            return frame.run.settings.call_for_task(frame.task, invoke)
        except TaskFailedError as error:
            raise self._explain_error(error, values) from error.__cause__
        finally:
            for value in changing:
                detector.note_change(value)

    def _require_unchanged(
        self,
        values: Mapping[str, Value],
        loans: Mapping[str, Loan | ObjectLoan],
        audited: list[AuditedArray],
        frame: Frame,
    ) -> None:
        """Refuse a ``call`` that has changed arguments which its step does not declare as changed.

        Raises:
            TaskFailedError: E246; E247 of an object.
        """
        for name, value in values.items():
            if type(value) is np.ndarray and value.flags.writeable and name not in self._blobs:
                if value.dtype.hasobject and name in self._beside:
                    continue  # a part of a blob that may be changed, lent itself
                raise self._changed(name, ())
        changed = find_changed(audited) if audited else None
        if changed is not None:
            raise self._changed(changed[0], changed[1])
        detector = frame.run.snapshots.objects
        for name, loan in loans.items():
            if isinstance(loan, ObjectLoan):
                if detector.is_changed(loan):
                    detector.forget()
                    raise TaskFailedError.of(
                        "E247",
                        f"the callable '{self._step.target}' has changed its argument '{name}', "
                        f"{describe(loan.value)}, and its step does not say so",
                        self._inout(name, is_object=True),
                    )
                continue
            path = loan.change()
            if path is not None:
                if loan.is_itself:
                    self._put(frame, self._sources[name], loan.original())
                raise self._changed(name, path)

    def _require_kept_unchanged(self, frame: Frame) -> None:
        """Refuse a ``call`` step whose callable changed blobs by references that it had kept.

        Raises:
            TaskFailedError: E246.
        """
        kept = frame.run.snapshots.kept
        if kept:
            kept.require_same_after_call(
                self._places(frame, self._sources.values()),
                self._places(frame, self._step.outputs),
                f"was changed by '{self._step.target}' in epoch {frame.epoch}",
                wholly=frame.run.group == "exit",
            )

    def _places(self, frame: Frame, blobs: Iterable[str]) -> set[KeptPlace]:
        return {(id(self._workspace(frame, blob)), blob) for blob in blobs}

    def _note_kept(self, kept: list[tuple[str, str, Parts]], frame: Frame) -> None:
        registry = frame.run.snapshots.kept
        when = f"was returned again by '{self._step.target}' in epoch {frame.epoch}"
        found = {blob for blob, _, parts in kept if parts}
        for blob in self._step.outputs if registry else ():
            if blob not in found:
                registry.note(self._workspace(frame, blob), blob, [], "", when, is_new=True)
        while kept:
            blob, verb, parts = kept.pop(0)
            if parts:
                title = f"'{self._step.target}' {verb} in epoch {frame.epoch}"
                is_new = blob in self._step.outputs
                workspace = self._workspace(frame, blob)
                registry.note(workspace, blob, parts, title, when, is_new=is_new)

    def _require_apart(
        self,
        values: Mapping[str, Value],
        loans: Mapping[str, Loan | ObjectLoan],
        parts: list[Any],
        held: set[str],
        frame: Frame,
    ) -> None:
        """Refuse a ``call`` whose arguments and results let two blobs share memory.

        Args:
            values: The arguments.
            loans: Of them, by name.
            parts: The results.
            held: Arguments that something refers to that did not before the call.
            frame: The task's.

        Raises:
            TaskFailedError: E258; E259 of an object.
        """
        # A result that only we refer to is shared by nothing.
        fresh = {
            blob
            for at, blob in enumerate(self._step.outputs)
            if type(parts[at]) in _WITHOUT_MEMORY
            or (count_others(parts, at) == 0 and _owns_memory(parts[at]))
        }
        results = dict(zip(self._step.outputs, parts, strict=True))
        for pair in self._apart:
            if fresh.isdisjoint(pair):
                sides = [
                    self._shareable(blob, values, loans, results, held, frame) for blob in pair
                ]
                for first, second in product(*sides):
                    self._require_pair_apart(pair, (first, second))

    def _shareable(
        self,
        blob: str,
        values: Mapping[str, Value],
        loans: Mapping[str, Loan | ObjectLoan],
        results: Mapping[str, Value],
        held: set[str],
        frame: Frame,
    ) -> list[Value]:
        """Return what a blob may share with another one after a ``call``: result or arguments."""
        if blob in results:
            return [results[blob]]
        # One blob may be given as several arguments, and in expressions that make views of it.
        found = [
            values[name]
            for name, source in self._sources.items()
            if source == blob and (name in held or type(values[name]) is not np.ndarray)
        ]
        used_in = [name for name, blobs in self._in_expressions.items() if blob in blobs]
        workspace = self._workspace(frame, blob)
        if (used_in or blob not in self._sources.values()) and blob in workspace:
            found.append(workspace[blob])
            for name in used_in:
                loan = loans.get(name)
                found += loan.stand_ins(workspace[blob]) if isinstance(loan, Loan) else ()
        return found

    def _require_pair_apart(self, pair: tuple[str, str], values: tuple[Value, Value]) -> None:
        found = find_common_part(*values)
        if found is None:
            return
        places = [
            render_place((display_name(blob), *path))
            if is_object(value)
            else f"'{'/'.join((display_name(blob), *path))}'"
            for blob, path, value in zip(pair, found, values, strict=True)
        ]
        with_object = any(map(is_object, values))
        message = (
            f"the callable '{self._step.target}' gives {places[0]} and {places[1]} the same "
            "memory, and a later step changes one in place and uses the other: the other would "
            "not change with it, since blobs are values"
        )
        mend = "copy one of them in the callable: return array.copy(), copy.deepcopy(value)"
        raise TaskFailedError.of("E259" if with_object else "E258", message, mend)

    def _changed(self, name: str, path: tuple[str, ...]) -> TaskFailedError:
        place = "/".join((self._source_text(name), *path))
        return TaskFailedError.of(
            "E246",
            f"the callable '{self._step.target}' has changed its argument '{name}', at '{place}', "
            "and its step does not say so",
            self._inout(name),
        )

    def _inout(self, name: str, *, is_object: bool = False) -> str:
        blob = self._sources.get(name)
        if blob is not None and is_object:
            return f"add inout: [{display_name(blob)}] to the step"
        if blob is None:
            source = self._source_text(name)
            return (
                f"change a copy of '{source}'; or make it a blob of its own, and list it in 'inout'"
            )
        return f"add inout: [{display_name(blob)}] to the step; or change a copy, and return that"

    def _source_text(self, name: str) -> str:
        """Return the name or expression of a ``call`` step's argument, for an error message."""
        blob = self._sources.get(name)
        if blob is not None:
            return display_name(blob)
        return render_expr(dict(self._step.arguments)[name])

    def _explain_error(
        self, error: TaskFailedError, values: Mapping[str, Value]
    ) -> TaskFailedError:
        """Explain why a ``call`` failed, and how to mend it if numpy refused a write."""
        if not isinstance(error.__cause__, ValueError) or "read-only" not in str(error.__cause__):
            return error
        names = [name for name, _ in self._step.arguments if name not in self._blobs]
        touched = _refused_arguments(error.__cause__, {name: values[name] for name in names})
        if not touched:
            return error
        mend = " or ".join(self._inout(name).partition(";")[0] for name in touched)
        if not self._sources.keys().isdisjoint(touched):
            mend += "; or change a copy, and return that"
        fault = replace(error.faults[0], mend=mend)
        explained = TaskFailedError(fault)
        for note in getattr(error, "__notes__", ()):
            explained.add_note(note)
        return explained

    def _put(self, frame: Frame, blob: str, value: Value) -> None:
        workspace, kept = self._workspace(frame, blob), frame.run.snapshots.kept
        if kept:
            # What was lent is still the same to who has kept it.
            kept.follow(workspace, blob, workspace.get(blob), value)
        workspace[blob] = value

    def _workspace(self, frame: Frame, blob: str) -> Any:
        return getattr(frame, LEVELS[self._names.scope(blob)])

    def _parts(self, result: Any) -> list[Any]:
        outputs = self._step.outputs
        if not outputs:
            return []
        return [result] if len(outputs) == 1 else _parts(self._step.target, result, outputs)

    def _store(self, frame: Frame, parts: list[Any], kept: list[tuple[str, str, Parts]]) -> None:
        """Bind a call's results to blobs, and empty the list of results: no reference is left."""
        outputs = self._step.outputs
        parts.reverse()
        note_gaps = self._gap_notes.to(frame)
        owned = []
        for blob in outputs:
            is_tree_of_parts = not is_object(parts[-1]) and is_tree(parts[-1])
            if is_tree_of_parts and _is_exclusive(parts, -1, 0):
                owned.append(parts.pop())
                continue
            found = _find_kept(parts, -1) if is_tree_of_parts and is_watched(parts[-1]) else []
            is_kept = count_others(parts, -1) > 0
            owned.append(_own_value(parts.pop(), blob, note_gaps, found, is_kept=is_kept))
            if found:
                kept.append((blob, "returned", found))
        for blob, value in zip(outputs, owned, strict=True):
            self._workspace(frame, blob)[blob] = value


class GapNotes:
    """Warns once for each place where a blob loses the gaps of an array that user code returned.

    Args:
        target: The callable or class.
        path: Of the step or reader, with its origin.
        origin: Where the spec has it.
    """

    def __init__(self, target: str, path: str, origin: Origin) -> None:
        self._where = f"{path} ({origin})" if origin.line else path
        self._target = target
        self._noted: set[str] = set()

    def to(self, frame: Frame) -> Callable[[str], None]:
        """Return a function that warns once if a ``call`` step's result has gaps in memory."""
        return partial(self._note, frame)

    def _note(self, frame: Frame, place: str) -> None:
        if place in self._noted:
            return
        self._noted.add(place)
        text = (
            f"{self._where}: '{self._target}' gives '{place}' a view with gaps between its "
            "elements, and a blob has none: products such as a @ b may round otherwise than in "
            "plain Python; return a copy, view.copy()"
        )
        frame.run.emit(Noted(text, level="warning"))


def printed_lines(frame: Frame, path: str, now: Frame | None = None) -> PrintedLines:
    """Create the ``PrintedLines`` of one ``call``, which log what its callable prints.

    Args:
        frame: The task's.
        path: The place in the spec of the step or reader that calls it.
        now: One of the present epoch, if that of the task is of an earlier one.
    """
    task, node, instance = frame.task, frame.node.name, frame.instance
    present = now or frame
    epoch = present.epoch

    def log(line: str) -> None:
        present.run.emit(Logged(line, task, node, instance, epoch, path, printed=True))

    return PrintedLines(log, (task, node, instance, epoch))


def make_instance(
    target: str, made: Callable[..., Any], values: Mapping[str, Value], frame: Frame
) -> Any:
    """Create an object of a user's class by a call, as the ``call`` step does.

    Args:
        target: The class, for messages.
        made: The class.
        values: Its arguments, in a form in which it cannot change blobs.
        frame: The task's.

    Raises:
        TaskFailedError: E206, the class raised.
    """
    wanted = [name for name in _parameters(made) if name in _EXTRAS and name not in values]
    return _invoke(target, made, dict(values) | {name: _EXTRAS[name](frame) for name in wanted})


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


def _invoke(target: str, function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    process = os.getpid()
    try:
        return function(**values)
    except (KeyboardInterrupt, CancelledError):
        raise
    except BaseException as error:  # also SystemExit: a callable may not end the process
        raise explain_exception(target, error) from error
    finally:
        if os.getpid() != process:
            # The callable forked, and this is its copy, which must not continue the run.
            os._exit(1)


def explain_exception(target: str, error: BaseException) -> TaskFailedError:
    """Build a ``call`` step's error from its callable's exception, with file and line."""
    if isinstance(error, ChangedCodeError):
        IMPORTED_CODE.note(error)
    frames = [one for one in traceback.extract_tb(error.__traceback__) if one.filename != __file__]
    text = str(error).partition("\n")[0]
    reason = f"{type(error).__name__}: {text}" if text else type(error).__name__
    place = ""
    if frames:
        last = frames[-1]
        place = f", at {Path(last.filename).name}:{last.lineno} in {last.name}"
    explain_exception = TaskFailedError.of(
        "E206",
        f"the callable '{target}' raised {reason}{place}",
        "fix the callable, or its arguments",
    )
    if frames:
        listed = "".join(traceback.format_list(frames[-_SHOWN_FRAMES:])).rstrip()
        explain_exception.add_note(f"{listed}\n{reason}")
    return explain_exception


def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    try:
        return tuple(_signature(function).parameters)
    except (ValueError, TypeError):  # some functions written in C have none
        return ()


def _parts(target: str, result: Any, outputs: tuple[str, ...]) -> list[Any]:
    if not isinstance(result, tuple | list):
        found = f"one value of class {type(result).__name__}"
    elif len(result) != len(outputs):
        found = f"{len(result)} values"
    else:
        return list(result)
    names = ", ".join(map(display_name, outputs))
    raise TaskFailedError.of(
        "E208",
        f"the callable '{target}' returned {found}, but its step names {len(outputs)} blobs",
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
    found = find_kept(owner[key], is_kept=is_kept)
    if found and lives_on(owner[key]):
        # Cycles of a library's objects that nothing refers to any more keep none of it. They would
        # do so until Python happens to collect them: copied or not, by chance.
        found.clear()
        gc.collect()
        is_kept = count_others(owner, key) > before
        found = find_kept(owner[key], is_kept=is_kept)
    return found


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


def _refused_arguments(error: BaseException, values: Mapping[str, Value]) -> list[str]:
    """Guess which read-only arguments a running ``call`` step's callable tried to change."""
    arrays = {name: list(_arrays_in(value)) for name, value in values.items()}
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    for frame in reversed(frames):
        if frame.f_code.co_filename == __file__:
            break
        there = [one for local in frame.f_locals.values() for one in _arrays_in(local)]
        found = [
            name
            for name, ours in arrays.items()
            if any(np.may_share_memory(one, other) for one in ours for other in there)
        ]
        if found:
            return found
    return [name for name, ours in arrays.items() if ours]


def _arrays_in(value: Any) -> Iterator[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray) or is_structured_scalar(value):
        yield np.asarray(value)
    elif is_tree(value):
        try:
            leaves = flatten(value).leaves.values()
        except UnsavableError:
            return
        for leaf in leaves:
            if isinstance(leaf, np.ndarray) or is_structured_scalar(leaf):
                yield np.asarray(leaf)


def _owns_memory(value: Any) -> bool:
    return type(value) is np.ndarray and bool(value.flags.owndata)
