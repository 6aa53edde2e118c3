"""Adapt values of the standard library: deque, Decimal, datetime, Path, Enum, and others."""

from __future__ import annotations

import array
import ast
import datetime
import enum
import functools
import itertools
import random
import uuid
import zoneinfo
from collections import defaultdict, deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import MemberDescriptorType, MethodType
from typing import Any

import numpy as np

from jobrun.values.adapters.reduce_protocol import object_adapter
from jobrun.values.adapters.registry import Adapter, UnsavableError, class_text
from jobrun.values.adapters.sets import FROZENSET, SET


def find(kind: type) -> Adapter | None:
    """Find the adapter that saves objects of a standard library class, or members of an Enum."""
    if kind in _ADAPTERS:
        return _ADAPTERS[kind]
    if issubclass(kind, enum.Enum):
        return _FLAG if issubclass(kind, enum.Flag) else _ENUM
    if issubclass(kind, PurePath) and kind.__module__.partition(".")[0] == "pathlib":
        return _PATH
    return None


def _deque_tree(value: Any) -> dict[str, Any]:
    return {"items": list(value), "maxlen": value.maxlen}


def _defaultdict_tree(value: Any) -> dict[str, Any]:
    return {"default": value.default_factory, "items": dict(value)}


def _decimal_tree(value: Any) -> str:
    return str(value)


def _datetime_tree(value: Any) -> dict[str, Any]:
    zone = getattr(value, "tzinfo", None)
    tree: dict[str, Any] = {"text": value.isoformat()}
    if zone is not None:
        tree = {"text": value.replace(tzinfo=None).isoformat(), "zone": zone}
    if getattr(value, "fold", 0):
        tree["fold"] = 1
    return tree


def _make_datetime(kind: Any, tree: Any) -> Any:
    value = kind.fromisoformat(tree["text"])
    more = {"tzinfo": tree["zone"]} if "zone" in tree else {}
    return value.replace(fold=tree.get("fold", 0), **more) if more or "fold" in tree else value


def _enum_tree(value: Any) -> str:
    if value.name is None or type(value).__members__.get(value.name) is not value:
        raise UnsavableError((), f"{class_text(value)} without a name")
    return str(value.name)


def _zone_tree(value: Any) -> str:
    if value.key is None:
        raise UnsavableError((), "a ZoneInfo without a key")
    return str(value.key)


def _partial_tree(value: Any) -> dict[str, Any]:
    if vars(value):
        raise UnsavableError((), "a partial with attributes")
    return {"function": value.func, "arguments": value.args, "named": dict(value.keywords)}


def _method_tree(value: Any) -> dict[str, Any]:
    """Return a bound method's object and name.

    Raises:
        UnsavableError: They do not give the method again: its object has another one of that name,
            or has it as an attribute, which is not there yet when the object is made again.
    """
    owner, name = value.__self__, value.__name__
    bound = getattr(owner, name, None)
    is_found = type(bound) is MethodType and (
        bound.__func__ is value.__func__ and bound.__self__ is owner
    )
    is_own = not isinstance(owner, type) and (
        name in getattr(owner, "__dict__", ())
        or type(getattr(type(owner), name, None)) is MemberDescriptorType
    )
    if not is_found or is_own:
        why = "an attribute of its object" if is_own else f"not the '{name}' of its object"
        raise UnsavableError((), f"the bound method {value.__qualname__}, which is {why}")
    return {"object": owner, "name": name}


def _value(
    get: Callable[[Any], Any], make: Callable[[Any, Any], Any], *, immutable: bool = True
) -> Adapter:
    return Adapter(get, make, immutable=immutable)


def _bytes_of(value: Any) -> list[Any]:
    # Gone when it is compared: it must not keep the buffer from growing.
    return [np.frombuffer(value, np.uint8)] if len(value) else []


def _random(kind: type, tree: Any) -> Any:
    value = kind()
    value.setstate(tree)
    return value


def _count_tree(value: Any) -> list[Any]:
    """Return where an ``itertools.count`` is, and its step, which only its text says.

    Raises:
        UnsavableError: They are no numbers of Python.
    """
    try:
        return [ast.literal_eval(part) for part in repr(value)[len("count(") : -1].split(", ")]
    except (ValueError, SyntaxError) as error:
        raise UnsavableError((), f"{value!r}, which does not count by numbers") from error


_ENUM = _value(_enum_tree, lambda kind, tree: kind[tree])
_FLAG = _value(lambda value: value.value, lambda kind, tree: kind(tree))
_PATH = _value(str, lambda kind, tree: kind(tree))
_ADAPTERS: dict[type, Adapter] = {
    set: SET,
    frozenset: FROZENSET,
    deque: _value(
        _deque_tree, lambda _, tree: deque(tree["items"], tree["maxlen"]), immutable=False
    ),
    defaultdict: _value(
        _defaultdict_tree,
        lambda _, tree: defaultdict(tree["default"], tree["items"]),
        immutable=False,
    ),
    array.array: Adapter(
        lambda value: {"typecode": value.typecode, "bytes": value.tobytes()},
        lambda _, tree: array.array(tree["typecode"], tree["bytes"]),
        memory=_bytes_of,
    ),
    bytearray: Adapter(bytes, lambda _, tree: bytearray(tree), memory=_bytes_of),
    itertools.count: _value(_count_tree, lambda _, tree: itertools.count(*tree), immutable=False),
    range: _value(
        lambda value: [value.start, value.stop, value.step], lambda _, tree: range(*tree)
    ),
    slice: Adapter(
        lambda value: (value.start, value.stop, value.step),
        lambda _, tree: slice(*tree),
        inner=True,
    ),
    type(Ellipsis): Adapter(lambda _: None, lambda _, _tree: Ellipsis, immutable=True, inner=True),
    Decimal: _value(_decimal_tree, lambda _, tree: Decimal(tree)),
    Fraction: _value(
        lambda value: (value.numerator, value.denominator), lambda _, tree: Fraction(*tree)
    ),
    datetime.datetime: _value(_datetime_tree, _make_datetime),
    datetime.time: _value(_datetime_tree, _make_datetime),
    datetime.date: _value(_datetime_tree, _make_datetime),
    datetime.timedelta: _value(
        lambda value: (value.days, value.seconds, value.microseconds),
        lambda _, tree: datetime.timedelta(*tree),
    ),
    datetime.timezone: object_adapter("datetime", immutable=True),
    zoneinfo.ZoneInfo: _value(_zone_tree, lambda kind, tree: kind(tree)),
    uuid.UUID: _value(str, lambda _, tree: uuid.UUID(tree)),
    MethodType: Adapter(
        _method_tree,
        lambda _, tree: getattr(tree["object"], tree["name"]),
        inner=True,
    ),
    functools.partial: Adapter(
        _partial_tree,
        lambda _, tree: functools.partial(tree["function"], *tree["arguments"], **tree["named"]),
        inner=True,
    ),
    random.Random: Adapter(lambda value: value.getstate(), _random, inner=True),
}
