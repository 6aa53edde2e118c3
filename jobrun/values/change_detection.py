"""Detect whether code changed the containers and objects that it was lent to be read only.

Of objects, digests of their states are compared. What is lent of a container is the same tree in
containers of its own, with read-only views of its arrays. So nothing that is done to it reaches
the blob, and what was done can be seen at the cost of a look at each container; arrays are not
compared, since they are read-only.
"""

from __future__ import annotations

import marshal
import pickle
from collections.abc import Mapping
from contextlib import suppress
from operator import is_
from typing import Any

import numpy as np
import xxhash
from msgspec import Struct, field

from jobrun.core.errors import TaskFailedError
from jobrun.core.text.big_integers import integers_in_hex, key_text
from jobrun.values import container_flattening as trees
from jobrun.values.adapters.registry import Path, UnboundValue, find_adapter
from jobrun.values.blob_kinds import Value
from jobrun.values.compare import find_difference, same_bits
from jobrun.values.copies import detach
from jobrun.values.kinds import record as records
from jobrun.values.kinds import tensor as tensors
from jobrun.values.kinds.array import is_structured_scalar, read_only_row, value_bytes
from jobrun.values.kinds.builtin import NUMBERS, SCALARS
from jobrun.values.kinds.counter import Counter
from jobrun.values.kinds.tensor import is_module
from jobrun.values.object_state import class_name, take_state
from jobrun.values.shared_parts import find_common_part, mutable_parts
from jobrun.values.tree_survey import survey

_PROTOCOL = 5
_SAMPLED_ABOVE_BYTES = 1 << 20
_SAMPLE_ITEMS = 4096


class Loan(Struct):
    """A container that is lent to be read, and what it was.

    Attributes:
        lent: What the borrower gets.
    """

    lent: Value = None
    # What was put into each container that is lent, and where it is.
    _inside: list[tuple[Any, Path, list[Any]]] = field(default_factory=list)
    _counters: list[tuple[Counter, Path, int]] = field(default_factory=list)
    _arrays: list[tuple[np.ndarray[Any, Any], Path, tuple[Any, ...]]] = field(default_factory=list)
    # Tensors and values with adapters have no read-only views: they are copied and compared.
    _copied: tuple[Value, Value] | None = None
    # What is lent, by the ``id`` of what it replaces, which ``_value`` keeps.
    _stand_ins: dict[int, Any] = field(default_factory=dict)
    _value: Value = None
    # What it was, where it is lent itself.
    _pickled: bytes | None = None

    @property
    def is_itself(self) -> bool:
        """Return whether the borrower has the container itself."""
        return self._pickled is not None

    def original(self) -> Value:
        """Make the container again as it was when it was lent itself."""
        assert self._pickled is not None  # noqa: S101 - the caller has asked
        # From this process, never from a file.
        return pickle.loads(self._pickled)  # noqa: S301

    def arrays(self, name: str) -> list[tuple[str, Path, np.ndarray[Any, Any]]]:
        """Return the read-only views of arrays in the container, with a name and their paths."""
        return [(name, path, array) for array, path, _ in self._arrays]

    def has_copy_of(self, owner: Value) -> bool:
        """Return whether the borrower has a copy of a mutable part of another value."""
        return self._copied is not None and find_common_part(self._copied[0], owner) is not None

    def stand_ins(self, owner: Value) -> list[Value]:
        """Return what the borrower has instead of the mutable parts of another value.

        Args:
            owner: The value of which the container, or something in it, may be a part.
        """
        if self._copied is not None:
            return [self.lent] if self.has_copy_of(owner) else []
        parts = mutable_parts(owner)
        return [one for number, one in self._stand_ins.items() if number in parts]

    @property
    def has_copies(self) -> bool:
        """Return whether what is lent has copies of arrays, which can be changed."""
        return self._copied is not None

    def change(self) -> Path | None:
        """Return the path of the first change that a callable made in its argument, or None."""
        if self._pickled is not None:
            try:
                is_same = pickle.dumps(self._value, _PROTOCOL) == self._pickled
                return None if is_same else _path_of_change(self.original(), self._value)
            except Exception:  # noqa: BLE001 - it holds now what it did not hold before
                return ()
        if self._copied is not None:
            return None if same_bits(*self._copied) else ()
        for container, path, before in self._inside:
            at = _difference(container, before)
            if at is not None:
                return (*path, *at)
        for counter, path, number in self._counters:
            if counter.value != number:
                return path
        for array, path, form in self._arrays:
            if _form(array) != form:
                return path
        return None


def lend(value: Value, writable: Mapping[int, Any] | None = None, *, itself: bool = False) -> Loan:
    """Copy a container for a callable, with read-only views of arrays, to detect changes.

    Args:
        value: The container.
        writable: Parts that the callable may change, by ``id``: these are lent themselves.
        itself: Nothing else changes it meanwhile, so that it may be lent itself, if it has no
            arrays. Whether it has changed is then seen by a pickle in memory, which is made by C.

    Raises:
        TaskFailedError: E202, something in it is of a kind that no blob can hold.
    """
    surveyed = survey(value) if itself and not writable else None
    if surveyed is not None and surveyed.is_exclusive and surveyed.may_be_pickled():
        # A class that pickle does not find by its name, or a tree that is too deep.
        with suppress(Exception):
            return Loan(value, _value=value, _pickled=pickle.dumps(value, _PROTOCOL))
    met: dict[int, Any] = dict(writable) if writable else {}
    loan = Loan(_stand_ins=met, _value=value)
    try:
        loan.lent = _lent(value, (), loan, met)
    except _WritableError:
        copy = detach(value)
        return Loan(copy, _copied=(value, copy))
    return loan


class _WritableError(Exception):
    """The container holds something of which there is no read-only view."""


def _lent(value: Value, path: Path, loan: Loan, met: dict[int, Any]) -> Value:
    kind = type(value)
    if kind in SCALARS:
        return value
    if id(value) in met:
        return met[id(value)]
    if kind is np.ndarray and not value.dtype.hasobject:
        view = met[id(value)] = value.view()
        view.flags.writeable = False
        loan._arrays.append((view, path, _form(view)))
        return view
    if is_structured_scalar(value) and trees.is_numpy_scalar(value):
        row = met[id(value)] = read_only_row(value)
        return row
    if kind is Counter:
        counter = met[id(value)] = Counter(value.value)
        loan._counters.append((counter, path, counter.value))
        return counter
    adapter = find_adapter(kind)
    if adapter is not None and adapter.immutable:
        return value
    if tensors.is_tensor(value) or (adapter is not None and adapter.make is not None):
        raise _WritableError
    if kind in trees.TREE_KINDS or trees.is_record(value):
        return _container(value, path, loan, met)
    if kind is UnboundValue:
        raise trees.unbound_class_error(value.class_name, "/".join(path))
    # A scalar of numpy's; or what no blob can hold, as is said here.
    return detach(value, "/".join(path))


def _container(value: Value, path: Path, loan: Loan, met: dict[int, Any]) -> Value:
    copy: Any
    if type(value) is list:
        copy = met[id(value)] = []
        if SCALARS.issuperset(map(type, value)):
            copy += value
        else:
            copy += [_lent(item, (*path, str(at)), loan, met) for at, item in enumerate(value)]
    elif type(value) is tuple:
        return tuple([_lent(item, (*path, str(at)), loan, met) for at, item in enumerate(value)])
    elif trees.is_record(value):
        items = records.record_items(value)
        name, shape = records.class_and_form(value)
        if shape == "tuple":
            lent = {at: _lent(item, (*path, at), loan, met) for at, item in items.items()}
            return trees.require_imported(records.make_named_tuple(name, lent), path)
        copy = met[id(value)] = trees.require_imported(
            records.begin_dataclass(name, list(items)), path
        )
        records.fill_fields(
            copy, {at: _lent(item, (*path, at), loan, met) for at, item in items.items()}
        )
    else:
        copy = met[id(value)] = type(value)()
        for key, item in value.items():
            copy[key] = _lent(item, (*path, key_text(key)), loan, met)
        if getattr(value, "__dict__", None):
            vars(copy).update(vars(value))
    loan._inside.append((copy, path, _inside(copy)))
    return copy


def _inside(container: Any) -> list[Any]:
    """List the names and values in a container, to detect later whether a callable changed them."""
    if type(container) is list:
        return list(container)
    is_dict = isinstance(container, dict)
    named = container if is_dict else records.record_items(container)
    parts = [part for item in named.items() for part in item]
    more = getattr(container, "__dict__", None)
    return [*parts, *(part for item in more.items() for part in item)] if more else parts


def _difference(container: Any, before: list[Any]) -> Path | None:
    """Return the path of the first change of a container's items since ``before``, or None."""
    now = _inside(container)
    if len(now) == len(before) and all(map(is_, now, before)):
        return None
    if len(now) != len(before):
        return ()
    step = 1 if type(container) is list else 2
    for at, (part, old_part) in enumerate(zip(now, before, strict=True)):
        if part is old_part or (
            type(part) is type(old_part) and type(part) in SCALARS and _same(part, old_part)
        ):
            continue
        return (str(at),) if step == 1 else (str(before[at - at % 2]),)
    return None


def _path_of_change(before: Any, now: Any) -> Path | None:
    """Return the path of the first difference of two trees, or None."""
    path = _path_of_other_part(before, now)
    if path is not None:
        return path
    # The parts are equal; which of them are one thing at two places may differ.
    difference = find_difference(before, now)
    return difference and difference.path


def _path_of_other_part(before: Any, now: Any) -> Path | None:
    if type(before) is not type(now):
        return ()
    if type(before) in SCALARS:
        return None if _same(before, now) else ()
    is_sequence = type(before) in (list, tuple)
    if not is_sequence and type(before) is not dict and not trees.is_record(before):
        difference = find_difference(before, now)
        return difference and difference.path
    ours, theirs = map(list if is_sequence else _inside, (before, now))
    if len(ours) != len(theirs):
        return ()
    for at, pair in enumerate(zip(ours, theirs, strict=True)):
        path = _path_of_other_part(*pair)
        if path is not None:
            return (str(at if is_sequence else ours[at - at % 2]), *path)
    return None


def _same(first: Any, second: Any) -> bool:
    return first == second if type(first) in (str, bytes, int, bool) else same_bits(first, second)


def _form(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (array.shape, array.strides, array.dtype, array.flags.writeable)


def fingerprint(value: Any) -> bytes | None:
    """Compute a digest of an object's state to detect changes; None if its state cannot be read.

    Of modules and optimizers of PyTorch tensors are not read: they count their changes themselves.
    """
    try:
        # Modes and gradients are kept as they are at a save, no matter what sets them.
        tree = value.state_dict() if is_module(value) else take_state(value).tree
    except Exception:  # noqa: BLE001 - a state that cannot be had is an error where it is saved
        return None
    content = xxhash.xxh3_128()
    _feed(content, tree, _Reading(counts=_counts_changes(value)), set())
    return content.digest()


def digest_value(value: Value, *, sampled: bool = False) -> bytes | None:
    """Compute a digest of a blob's value to detect changes; None for a value without a digest.

    Tensors count their changes themselves.

    Args:
        value: The value.
        sampled: Read some items only of arrays that are large.
    """
    content = xxhash.xxh3_128()
    try:
        _feed(content, value, _Reading(counts=True, sampled=sampled), set())
    except Exception:  # noqa: BLE001 - an adapter that fails says so where the value is saved
        return None
    return content.digest()


class _Reading(Struct, frozen=True):
    """How a value is read for a digest: by what tensors count, and by samples of large arrays."""

    counts: bool = False
    sampled: bool = False


def sample_items(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return evenly spaced items of a large array, to detect changes without reading all."""
    flat: Any = array.reshape(-1, order="A") if array.flags.forc else array.flat
    sample: np.ndarray[Any, Any] = flat[:: array.size // _SAMPLE_ITEMS + 1]
    return sample


def _counts_changes(value: Any) -> bool:
    torch = tensors.loaded_torch()
    kinds = [
        getattr(getattr(torch, "nn", None), "Module", None),
        getattr(getattr(torch, "optim", None), "Optimizer", None),
    ]
    return any(kind is not None and isinstance(value, kind) for kind in kinds)


def _feed(content: Any, value: Any, reading: _Reading, ancestors: set[int]) -> None:
    """Add a value to the digest by which changes of an object are detected."""
    kind = type(value)
    if tensors.is_tensor(value):
        if reading.counts:
            _say(content, value.data_ptr(), value._version, value.shape)
            return
        (value,) = tensors.to_arrays([value])
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        _say(content, value.dtype, value.shape)
        array = np.asarray(value)
        if reading.sampled and array.nbytes > _SAMPLED_ABOVE_BYTES:
            array = sample_items(array)
        for part in value_bytes(array):
            content.update(part.data)
    elif not isinstance(value, dict | list | tuple) and not trees.is_record(value):
        adapter = find_adapter(kind)
        if adapter is None:
            _say(content, kind, value)
        elif id(value) not in ancestors:
            ancestors.add(id(value))
            _say(content, kind)
            _feed(content, adapter.get(value), reading, ancestors)
            ancestors.discard(id(value))
    elif id(value) not in ancestors:
        ancestors.add(id(value))
        _feed_items(content, value, reading, ancestors)
        ancestors.discard(id(value))


def _feed_items(content: Any, value: Any, reading: _Reading, ancestors: set[int]) -> None:
    is_record = trees.is_record(value)
    if isinstance(value, list | tuple) and not is_record:
        _say(content, type(value), len(value))
        if NUMBERS.issuperset(map(type, value)):
            # Version 2 has no references, of which there may be more another time.
            content.update(marshal.dumps(list(value), 2))
            return
        for item in value:
            _feed(content, item, reading, ancestors)
        return
    named = records.record_items(value) if is_record else value
    _say(content, type(value), len(named))
    for key, item in named.items():
        _say(content, key)
        _feed(content, item, reading, ancestors)


def _say(content: Any, *words: object) -> None:
    try:
        text = repr(words)
    except ValueError:
        # Python refuses to write more than 4300 digits.
        text = repr(integers_in_hex(words))
    content.update(text.encode("utf-8", "surrogatepass"))


class ChangeDetector:
    """Detects changes of objects that no step has declared, by digests of their states.

    A callable that has an object without ``inout`` leaves it as it was. That is seen when the
    callable returns, and at the next save of objects that no step declares to change.
    """

    def __init__(self) -> None:
        # By ``id``; the object is kept, so that nothing else gets its number.
        self._known: dict[int, tuple[Any, bytes]] = {}
        # How often lending to be changed has begun and ended.
        self._changes: dict[int, int] = {}

    def forget(self) -> None:
        """Discard all recorded digests of objects, so that changes up to now are not detected."""
        self._known.clear()

    def note_states(self, objects: Mapping[str, Any]) -> None:
        """Begin to detect changes of objects whose states were just restored."""
        for name, value in objects.items():
            self._known.pop(id(value), None)
            self.require_same(name, value)

    def note_change(self, value: Any) -> None:
        """Record the begin or end of a call that may change an object, to detect no change then."""
        self._changes[id(value)] = self._changes.get(id(value), 0) + 1
        self._known.pop(id(value), None)

    def borrow(self, name: str, value: Any) -> ObjectLoan:
        """Begin to detect changes of an object: return an ``ObjectLoan`` with its digest.

        Raises:
            TaskFailedError: E247, a step has changed it without declaring so.
        """
        return ObjectLoan(value, self.require_same(name, value), self._changes.get(id(value), 0))

    def is_changed(self, borrowed: ObjectLoan) -> bool:
        """Return whether a change is detected in an object that a callable should only read."""
        value = borrowed.value
        if borrowed.digest is None or borrowed.changes != self._changes.get(id(value), 0):
            # Another task may change it at the same time: that is a matter of ``hogwild``.
            return False
        return fingerprint(value) != borrowed.digest

    def require_same(self, name: str, value: Any) -> bytes | None:
        """Return the digest of an object's state; raise E247 for a change that no step declared.

        Raises:
            TaskFailedError: E247, it has changed since its digest was recorded.
        """
        known, digest = self._known.get(id(value)), fingerprint(value)
        if known is not None and known[0] is value and digest != known[1]:
            self._known.pop(id(value))
            raise TaskFailedError.of(
                "E247",
                f"the object '{name}' of class {class_name(value)} has changed, and no step that "
                "ran since has it in 'inout'",
                f"add inout: [{name}] to the step that changes it, if by way of something else",
            )
        if digest is not None:
            self._known[id(value)] = (value, digest)
        return digest


class ObjectLoan(Struct, frozen=True):
    """An object that a callable may not change, and what it held before."""

    value: Any
    digest: bytes | None
    changes: int
