"""Take named tuples and dataclasses (records) apart into named fields, and rebuild them.

A class is known by its module and name. It is looked up among the modules that are loaded, and
never imported: what a file names is not run.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from msgspec import Struct

from jobrun.values.kinds import Kind, Steps

Form = Literal["tuple", "fields"]
# What makes an instance of a class an object with a state of its own, and no plain record.
_OBJECT_METHODS = (
    ("state_dict", "load_state_dict"),
    ("get_params", "set_params", "fit"),
    # Modules of flax.linen, dataclasses that are bound to variables for a while.
    ("init_with_output", "apply", "bind"),
)


# Values whose class is not loaded. All that exist are known, which are seldom any.
_unbound: list[weakref.ref[Any]] = []
_unbound_lock = threading.Lock()


def note_unbound(value: Any) -> Any:
    """Record that a value without its class exists; return it."""
    with _unbound_lock:
        _unbound.append(weakref.ref(value))
    return value


def exist_unbound() -> bool:
    """Return whether this process has any value whose class is not loaded."""
    with _unbound_lock:
        while _unbound and _unbound[-1]() is None:
            _unbound.pop()
        return bool(_unbound)


class UnboundRecord(Struct, frozen=True, weakref=True):
    """A record (named tuple or dataclass) whose class is not loaded; to read and pass on.

    Attributes:
        class_name: ``module:qualified.name``.
        form: ``tuple`` for a named tuple, ``fields`` for a dataclass.
        items: The values of its fields, by their names.
    """

    class_name: str
    form: Form
    items: Mapping[str, Any]

    def __hash__(self) -> int:
        # It may be the key of a dict.
        return hash((self.class_name, *self.items.values()))

    @property
    def title(self) -> str:
        """Describe a named tuple or dataclass whose class is not imported, for error messages."""
        kind = "named tuple" if self.form == "tuple" else "dataclass"
        return f"{kind} {self.class_name.partition(':')[2]}"


def record_form(kind: Any) -> Form | None:
    """Return ``tuple`` for a named tuple's class, ``fields`` for a dataclass, and else None."""
    return _form(kind)


@lru_cache(maxsize=1024)
def _form(kind: Any) -> Form | None:
    if kind is UnboundRecord:
        return None
    if issubclass(kind, tuple):
        names = getattr(kind, "_fields", None)
        is_named = isinstance(names, tuple) and all(type(name) is str for name in names)
        return "tuple" if is_named else None
    if not is_dataclass(kind) or any(
        all(callable(getattr(kind, name, None)) for name in names) for names in _OBJECT_METHODS
    ):
        return None
    return "fields"


class RecordKind(Kind):
    """Named tuples and dataclasses, also those whose class is not loaded."""

    @staticmethod
    def matches(value_class: type) -> bool:
        return record_form(value_class) is not None or value_class is UnboundRecord

    def parts(self, value: Any) -> Steps:
        return record_items(value).items()

    def is_mutable(self, value: Any) -> bool:
        return not isinstance(value, tuple)


def record_items(value: Any) -> dict[str, Any]:
    """Map field names of a named tuple or dataclass instance to values, in the instance's order.

    That is the order of ``vars(value)`` in a dataclass, which code can see; then that of the class.
    """
    if type(value) is UnboundRecord:
        return dict(value.items)
    if record_form(type(value)) == "tuple":
        return dict(zip(type(value)._fields, tuple.__iter__(value), strict=False))
    missing = object()
    known = _field_names(type(value))
    there = [name for name in getattr(value, "__dict__", ()) if name in known]
    names = dict.fromkeys((*there, *known))
    found = {name: _own(value, name, missing) for name in names}
    return {name: one for name, one in found.items() if one is not missing}


def class_and_form(value: Any) -> tuple[str, Form]:
    """Return the class name of a named tuple or dataclass, and which of the two it is."""
    if type(value) is UnboundRecord:
        return value.class_name, value.form
    return class_name(type(value)), cast("Form", record_form(type(value)))


def class_name(kind: type) -> str:
    """Return ``module:qualified.name`` of the class of a named tuple or dataclass."""
    return f"{kind.__module__}:{kind.__qualname__}"


def explain_unsavable(value: Any) -> str:
    """Explain why a named tuple or dataclass cannot be saved; empty when it can."""
    kind: Any = type(value)
    what = f"a value of class {kind.__module__}.{kind.__qualname__}"
    is_known = find_class(class_name(kind)) is kind
    if not is_known:
        return (
            f"{what}, a class that cannot be found again by its name: define it at the top level "
            "of a module"
        )
    if record_form(kind) == "tuple":
        if len(value) != len(kind._fields):
            return f"{what} with {len(value)} items and {len(kind._fields)} fields"
    elif kind.__new__ is not object.__new__ or not _is_plain(kind):
        return f"{what}, a dataclass that is also something else"
    known = _field_names(kind)
    more = [
        name
        for name in (*getattr(value, "__dict__", ()), *_slots(kind))
        if name not in known and hasattr(value, name)
    ]
    return f"{what} with the attribute '{more[0]}', which is no field" if more else ""


def find_class(name: str) -> type | None:
    """Find the class of a named tuple or dataclass by name among imported modules, or None."""
    module, _, path = name.partition(":")
    value: Any = sys.modules.get(module)
    for part in path.split("."):
        value = None if value is None else vars(value).get(part)
    is_record = isinstance(value, type) and record_form(value) is not None
    return value if is_record and class_name(value) == name else None


def make_named_tuple(name: str, items: Mapping[str, Any]) -> Any:
    """Make a named tuple by class name, or an ``UnboundRecord`` if the class is not imported.

    Raises:
        ValueError: The class has other fields.
    """
    kind = _expected(name, "tuple", items)
    if kind is None:
        return note_unbound(UnboundRecord(name, "tuple", dict(items)))
    return tuple.__new__(kind, [items[one] for one in _field_names(kind)])


def begin_dataclass(name: str, names: Sequence[str]) -> Any:
    """Make an empty dataclass by class name, or an ``UnboundRecord`` if the class is not imported.

    Raises:
        ValueError: The class has other fields.
    """
    kind = _expected(name, "fields", names)
    if kind is None:
        return note_unbound(UnboundRecord(name, "fields", {}))
    return object.__new__(kind)


def fill_fields(record: Any, items: Mapping[str, Any]) -> None:
    """Set the fields of an empty dataclass instance that ``begin_dataclass`` made."""
    if type(record) is UnboundRecord:
        cast("dict[str, Any]", record.items).update(items)
        return
    for name, item in items.items():
        # As a frozen dataclass does it itself.
        object.__setattr__(record, name, item)


def _expected(name: str, form: Form, names: Iterable[str]) -> Any:
    kind: Any = find_class(name)
    if kind is None or record_form(kind) != form:
        return None
    known, given = _field_names(kind), tuple(names)
    if not known == given if form == "tuple" else set(given) - set(known):
        raise ValueError(
            f"the class {name} has the fields {', '.join(known)}, and the value {', '.join(given)}"
        )
    return kind


def _field_names(kind: Any) -> tuple[str, ...]:
    if record_form(kind) == "tuple":
        names: tuple[str, ...] = kind._fields
        return names
    return tuple(each.name for each in fields(kind))


def _own(value: Any, name: str, missing: object) -> Any:
    """Return the instance's own value of a dataclass field, not the class's, else ``missing``."""
    inside = getattr(value, "__dict__", {})
    if name in inside:
        return inside[name]
    if name in _slots(type(value)):
        return getattr(value, name, missing)
    return missing


def _slots(kind: type) -> tuple[str, ...]:
    listed: list[str] = []
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        listed += [slots] if isinstance(slots, str) else slots
    return tuple(name for name in listed if name not in ("__dict__", "__weakref__"))


@lru_cache(maxsize=1024)
def _is_plain(kind: Any) -> bool:
    try:
        object.__new__(kind)
    except TypeError:
        return False
    return True
