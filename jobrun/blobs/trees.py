"""Containers as blobs: dicts, lists and tuples of what a blob can hold, bytes and tensors.

Not objects (``objects``). A container is taken apart into leaves, each a value with a path, and a
structure that says how they belong together; put together again it is the same, and what stood
at two places in it does so again.
"""

from __future__ import annotations

import json
from collections import Counter as Tally
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jobrun.blobs import tensors
from jobrun.blobs.counter import Counter

Value = Any
# Leaves by their path: the names of the keys and the numbers of the items on the way.
Path = tuple[str, ...]
Leaves = dict[Path, Value]

_DICTS: dict[str, type] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Tally}
_DICT_NAMES = {kind: name for name, kind in _DICTS.items()}
_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple}
TREE_KINDS: frozenset[type] = frozenset({*_DICT_NAMES, list, tuple, bytes})
_SCALARS: frozenset[type] = frozenset({bool, int, float, complex, str, Counter})
_INT64 = np.iinfo(np.int64)
# What PyTorch hangs on the state of a module: versions of its parts.
_METADATA = "_metadata"
# The place of a value that is no container itself.
_ALONE: Path = ("value",)
_MOST_DEPTH = 200


class UnsavableError(ValueError):
    """Something in a container cannot be kept exactly. ``path`` says where, ``what`` what it is."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{'/'.join(path)}: {what}" if path else what)
        self.path = path
        self.what = what


@dataclass(frozen=True, slots=True)
class Parts:
    """A container, taken apart.

    Attributes:
        structure: How the leaves belong together, as JSON values.
        leaves: Arrays, scalars and text. They share memory with what is in the container.
    """

    structure: Any
    leaves: Leaves


def is_tree(value: Value) -> bool:
    """Whether a value is of a kind that is taken apart: a container, bytes or a tensor."""
    return type(value) in TREE_KINDS or tensors.is_tensor(value)


def taken_apart(value: Value, reserved: tuple[str, ...] = ()) -> Parts:
    """The leaves of a container, and its structure.

    Args:
        value: The container.
        reserved: Names that no leaf, and no container in it, gets at the first place of its path.

    Raises:
        UnsavableError: Something in it is of a kind that cannot be kept, or it contains itself.
    """
    taking = _Taking()
    at = () if type(value) in TREE_KINDS - {bytes} else _ALONE
    structure = taking.node(value, at, set(reserved))
    arrays = tensors.to_arrays(tensor for _, tensor in taking.tensors)
    found = dict(zip((path for path, _ in taking.tensors), arrays, strict=True))
    leaves = {path: found.get(path, leaf) for path, leaf in taking.leaves.items()}
    return Parts(structure, leaves)


def put_together(structure: Any, leaves: Mapping[Path, Value], *, place: bool = True) -> Value:
    """The container again. Arrays in it, and tensors of the host, have the memory of the leaves.

    Args:
        structure: As ``taken_apart`` made it.
        leaves: Likewise.
        place: Bring tensors to their devices.

    Raises:
        ValueError: The two do not belong together; the message says how.
    """
    try:
        building = _Building(leaves, place)
        at = () if isinstance(structure, dict) and not _is_leaf(structure) else _ALONE
        value = building.value(structure, at)
    except (KeyError, TypeError, AttributeError, RecursionError, IndexError) as error:
        raise ValueError(f"its structure cannot be read ({error!r})") from error
    if building.left:
        raise ValueError(f"'{'/'.join(min(building.left))}' has no place in its structure")
    return value


def copied(value: Value, copy: Callable[[Value, Path], Value]) -> Value:
    """The same container of copies of its leaves; ``copy`` is given each with its path.

    Raises:
        UnsavableError: As by ``taken_apart``.
    """
    parts = taken_apart(value)
    return put_together(
        parts.structure, {path: copy(leaf, path) for path, leaf in parts.leaves.items()}
    )


def describe_tree(value: Value) -> str:
    """The kind of a container, and how much it holds, in a few words."""
    if type(value) is bytes:
        return f"bytes, {len(value)} of them"
    if type(value) in TREE_KINDS:
        return f"{type(value).__name__} of {len(value)}"
    dtype = str(value.dtype).partition(".")[2]
    return f"{dtype} tensor of shape {tuple(value.shape)}"


@dataclass(slots=True)
class _Taking:
    """One container on its way apart."""

    leaves: Leaves = field(default_factory=dict)
    tensors: list[tuple[Path, Any]] = field(default_factory=list)
    # What was met before, and where. What is met is kept, so that nothing else gets its number.
    met: dict[Any, Path] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)
    around: set[int] = field(default_factory=set)

    def node(self, value: Value, path: Path, taken: set[str] | None = None) -> Any:
        """The structure of a part."""
        kind = type(value)
        if value is None:
            return None
        if kind in _SCALARS or (isinstance(value, np.generic) and not value.dtype.hasobject):
            return self._leaf(value, path, "value")
        if kind is bytes:
            return self._leaf(np.frombuffer(value, np.uint8), path, "bytes")
        key: Any = id(value)
        if tensors.is_tensor(value):
            why = tensors.refusal_of(value)
            if why:
                raise UnsavableError(path, why)
            key = tensors.identity(value) or key
        if key in self.met:
            return {"same": list(self.met[key])}
        if kind is not tuple:
            self.met[key] = path
            self.kept.append(value)
        return self._node(value, path, taken)

    def _node(self, value: Value, path: Path, taken: set[str] | None) -> Any:
        kind = type(value)
        if tensors.is_tensor(value):
            self.tensors.append((path, value))
            facts = tensors.facts_of(value)
            return self._leaf(None, path, {"tensor": facts} if facts else "tensor")
        if kind is np.ndarray and not value.dtype.hasobject:
            return self._leaf(value, path, "value")
        if id(value) in self.around:
            raise UnsavableError(path, "a tuple that contains itself")
        if len(path) > _MOST_DEPTH:
            raise UnsavableError(path, f"a container more than {_MOST_DEPTH} deep")
        self.around.add(id(value))
        try:
            if kind in (list, tuple):
                return self._sequence(value, path)
            if kind in _DICT_NAMES:
                return self._dict(value, path, taken or set())
        finally:
            self.around.discard(id(value))
        raise UnsavableError(path, _class_text(value))

    def _leaf(self, value: Value, path: Path, form: Any) -> Any:
        self.leaves[path] = value
        return form

    def _sequence(self, value: Any, path: Path) -> Any:
        kind = type(value).__name__
        packed = _packed(value) if path else None
        if packed is not None:
            return self._leaf(packed, path, {"packed": kind})
        return {kind: [self.node(item, (*path, str(at))) for at, item in enumerate(value)]}

    def _dict(self, value: Any, path: Path, taken: set[str]) -> Any:
        items = []
        for key, item in value.items():
            if type(key) not in (str, int):
                raise UnsavableError(path, f"a dict with the key {str(key)[:40]!r}, which is "
                                     f"{_class_text(key)}")  # fmt: skip
            name = _free(str(key), taken)
            taken.add(name)
            node = self.node(item, (*path, name))
            items.append([key, node] if name == str(key) else [key, node, name])
        form: dict[str, Any] = {"dict": items}
        if type(value) is not dict:
            form["class"] = _DICT_NAMES[type(value)]
        metadata = getattr(value, _METADATA, None)
        if metadata is not None:
            form["metadata"] = _versions(metadata, path)
        return form


@dataclass(slots=True)
class _Building:
    """One container on its way back."""

    leaves: Mapping[Path, Value]
    place: bool
    made: dict[Path, Value] = field(default_factory=dict)
    left: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.left = set(self.leaves)

    def value(self, node: Any, path: Path) -> Value:
        """The part that a structure stands for."""
        if node is None:
            return None
        if isinstance(node, dict) and "same" in node:
            return self.made[tuple(node["same"])]
        if isinstance(node, str) or _is_leaf(node):
            value = self._leaf(node, path)
        elif "dict" in node:
            return self._dict(node, path)
        else:
            ((kind, items),) = node.items()
            # Known before its items are, one of which may be told to be the same as it.
            value = self.made[path] = []
            value += [self.value(item, (*path, str(at))) for at, item in enumerate(items)]
            value = value if _SEQUENCES[kind] is list else tuple(value)
        self.made[path] = value
        return value

    def _leaf(self, form: Any, path: Path) -> Value:
        value = self.leaves[path]
        self.left.discard(path)
        if form == "value":
            return value
        if type(value) is not np.ndarray:
            raise ValueError(f"'{'/'.join(path)}' is no array")
        if form == "bytes":
            return value.tobytes()
        if form == "tensor":
            form = {"tensor": {}}
        if "tensor" in form:
            return tensors.from_array(value, form["tensor"], place=self.place)
        return _SEQUENCES[form["packed"]](value.tolist())

    def _dict(self, node: Any, path: Path) -> Any:
        made: Any = _DICTS[node.get("class", "dict")]()
        self.made[path] = made
        for key, item, *name in node["dict"]:
            made[key] = self.value(item, (*path, *(name or [str(key)])))
        if "metadata" in node:
            versions = OrderedDict((part, dict(facts)) for part, facts in node["metadata"])
            setattr(made, _METADATA, versions)
        return made


def _is_leaf(node: Any) -> bool:
    return isinstance(node, dict) and bool(node.keys() & {"tensor", "packed"})


def _packed(items: Any) -> np.ndarray[Any, Any] | None:
    """Many numbers of one kind as one array; None for what is something else."""
    if len(items) < 2:
        return None
    kinds = set(map(type, items))
    if kinds == {float}:
        return np.array(items, np.float64)
    if kinds == {int} and min(items) >= _INT64.min and max(items) <= _INT64.max:
        return np.array(items, np.int64)
    return None


def _versions(metadata: Any, path: Path) -> list[Any]:
    """The versions of a module's parts; so small, and so many, that they stand in the structure."""
    form = [[part, dict(facts)] for part, facts in dict(metadata).items()]
    try:
        same = json.loads(json.dumps(form, allow_nan=False)) == form
    except (TypeError, ValueError):
        same = False
    if not same:
        raise UnsavableError((*path, _METADATA), "versions that are no plain values")
    return form


def _free(name: str, taken: set[str]) -> str:
    """The name, or one like it that is not taken: the keys ``1`` and ``"1"`` are two."""
    return next(one for one in _alternatives(name) if one not in taken)


def _alternatives(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}~{number}"
        number += 1


def _class_text(value: Any) -> str:
    cls = type(value)
    module = "" if cls.__module__ == "builtins" else f"{cls.__module__}."
    return f"a value of class {module}{cls.__qualname__}"
