"""Lend containers to code that may read but not change them, and detect whether it did.

What is lent is the same tree in containers of its own, with read-only views of its arrays. So
nothing that is done to it reaches the blob, and what was done can be seen at the cost of a look
at each container; arrays are not compared, since they are read-only.
"""

from __future__ import annotations

from dataclasses import field
from operator import is_
from typing import Any

import numpy as np

from jobrun.core.errors import TaskFailedError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.big_integers import key_text
from jobrun.values import containers as trees
from jobrun.values import named_nodes
from jobrun.values import torch_tensors as tensors
from jobrun.values.adapters.registry import Path, UnboundValue, find_adapter
from jobrun.values.atomic_counter import Counter
from jobrun.values.blob_kinds import Value, detach, same_bits

_FIXED: frozenset[type] = frozenset({bool, int, float, complex, str, bytes, type(None)})


@dataclass(slots=True)
class Loan:
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

    def change(self) -> Path | None:
        """Return the first place at which the borrower changed what was lent, or None."""
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


def lend(value: Value) -> Loan:
    """Lend a container or a counter to code that may only read it; changes are detected later.

    Raises:
        TaskFailedError: E202, something in it is of a kind that no blob can hold.
    """
    loan = Loan()
    try:
        loan.lent = _lent(value, (), loan, {})
    except _WritableError:
        copy = detach(value)
        return Loan(copy, _copied=(value, copy))
    return loan


class _WritableError(Exception):
    """The container holds something of which there is no read-only view."""


def _lent(value: Value, path: Path, loan: Loan, met: dict[int, Any]) -> Value:
    kind = type(value)
    if kind in _FIXED:
        return value
    if id(value) in met:
        return met[id(value)]
    if kind is np.ndarray and not value.dtype.hasobject:
        view = met[id(value)] = value.view()
        view.flags.writeable = False
        loan._arrays.append((view, path, _form(view)))
        return view
    if trees.is_structured_scalar(value) and trees.is_numpy_scalar(value):
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
        raise unbound_class_error(value.class_name, "/".join(path))
    # A scalar of numpy's; or what no blob can hold, as is said here.
    return detach(value, "/".join(path))


def read_only_row(value: Value) -> Value:
    """Return a numpy scalar with fields as a view that refuses to have them set."""
    row = np.asarray(value).view()
    row.flags.writeable = False
    return row[()]


def _container(value: Value, path: Path, loan: Loan, met: dict[int, Any]) -> Value:
    made: Any
    if type(value) is list:
        made = met[id(value)] = []
        if _FIXED.issuperset(map(type, value)):
            made += value
        else:
            made += [_lent(one, (*path, str(at)), loan, met) for at, one in enumerate(value)]
    elif type(value) is tuple:
        return tuple([_lent(one, (*path, str(at)), loan, met) for at, one in enumerate(value)])
    elif trees.is_record(value):
        items = named_nodes.record_items(value)
        name, form = named_nodes.class_and_form(value)
        if form == "tuple":
            lent = {at: _lent(one, (*path, at), loan, met) for at, one in items.items()}
            return _bound(named_nodes.make_named_tuple(name, lent), path)
        made = met[id(value)] = _bound(named_nodes.begin_dataclass(name, list(items)), path)
        named_nodes.fill_fields(
            made, {at: _lent(one, (*path, at), loan, met) for at, one in items.items()}
        )
    else:
        made = met[id(value)] = type(value)()
        for key, one in value.items():
            made[key] = _lent(one, (*path, key_text(key)), loan, met)
        if getattr(value, "__dict__", None):
            vars(made).update(vars(value))
    loan._inside.append((made, path, _inside(made)))
    return made


def _bound(value: Value, path: Path) -> Value:
    """Return a value to lend, whose changes can be detected; raise for a record without class.

    Raises:
        TaskFailedError: E249, its class is not loaded.
    """
    if type(value) is not named_nodes.UnboundRecord:
        return value
    raise unbound_class_error(value.class_name, "/".join(path))


def unbound_class_error(class_name: str, place: str) -> TaskFailedError:
    """Build the error for lending a record whose changes cannot be detected: no class."""
    module = class_name.partition(":")[0]
    at = f", at '{place}'" if place else ""
    return TaskFailedError.of(
        "E249",
        f"the class {class_name} of a value{at} is not there: no callable of the job has loaded "
        f"the module '{module}', or it has no such class any more",
        f"import '{module}' in the module of the callable that gets the value",
    )


def _inside(container: Any) -> list[Any]:
    """List what a lent container holds now, to detect changes later: names and values in turn."""
    if type(container) is list:
        return list(container)
    is_dict = isinstance(container, dict)
    named = container if is_dict else named_nodes.record_items(container)
    found = [part for item in named.items() for part in item]
    more = getattr(container, "__dict__", None)
    return [*found, *(part for item in more.items() for part in item)] if more else found


def _difference(container: Any, before: list[Any]) -> Path | None:
    """Return where a lent container has changed, or None."""
    now = _inside(container)
    if len(now) == len(before) and all(map(is_, now, before)):
        return None
    if len(now) != len(before):
        return ()
    step = 1 if type(container) is list else 2
    for at, (one, other) in enumerate(zip(now, before, strict=True)):
        if one is other or (type(one) is type(other) and type(one) in _FIXED and _same(one, other)):
            continue
        return (str(at),) if step == 1 else (str(before[at - at % 2]),)
    return None


def _same(one: Any, other: Any) -> bool:
    return one == other if type(one) in (str, bytes, int, bool) else same_bits(one, other)


def _form(array: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return (array.shape, array.strides, array.dtype, array.flags.writeable)
