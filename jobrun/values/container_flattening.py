"""Flatten containers into leaves and a structure, and unflatten them.

Not objects (``object_state``). A container is taken apart into leaves, each a value with a path,
and a structure that says how they belong together; put together again it is the same, and what was
at two places in it is so again. A value that has an adapter (``adapters``) is a container, too.
"""

from __future__ import annotations

import json
import math
import sys
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from importlib import import_module
from types import CoroutineType, GeneratorType
from typing import Any

import numpy as np
from msgspec import Struct, field

from jobrun.core.errors import TaskFailedError
from jobrun.core.text.big_integers import is_long, key_text
from jobrun.values.adapters.registry import (
    Adapter,
    Path,
    UnboundValue,
    UnsavableError,
    class_name,
    class_text,
    fill_adapted,
    find_adapter,
    find_by_name,
    find_named_value,
    is_adapted,
    is_makeable,
    is_shipped,
    make_adapted,
    take_tree,
)
from jobrun.values.axis_order import copy_with_strides, has_gaps
from jobrun.values.kinds import SELF, Steps
from jobrun.values.kinds import record as records
from jobrun.values.kinds import tensor as tensors
from jobrun.values.kinds.array import is_structured_scalar
from jobrun.values.kinds.builtin import DICT_NAMES, DICTS, NAMES, PLAIN_KINDS
from jobrun.values.kinds.counter import Counter
from jobrun.values.overlapping_arrays import Layout, Pair, common_layouts, find_overlapping, lay_out
from jobrun.values.traversal import depth_first, find_kind

Value = Any
# Leaves by their path: the names of the keys and the numbers of the items on the way.
Leaves = dict[Path, Value]

_SEQUENCES: dict[str, type] = {"list": list, "tuple": tuple}
_CONTAINERS: frozenset[type] = frozenset({*DICT_NAMES, list, tuple})
TREE_KINDS: frozenset[type] = _CONTAINERS | {bytes, type(None)}
_SCALARS: frozenset[type] = PLAIN_KINDS | {Counter}
_SINGLE: frozenset[type] = _SCALARS | {np.ndarray}
_INT64 = np.iinfo(np.int64)
# What PyTorch hangs on the state of a module: versions of its parts.
_METADATA = "_metadata"
# The place of a value that is no container itself.
_ALONE: Path = ("value",)
_MOST_DEPTH = 200
# Nodes of a structure that are values.
_INLINE: frozenset[type] = frozenset({bool, int, float, type(None)})
# Fewer numbers in a list are put into the structure one by one, where that is done.
_FEW = 32


class Parts(Struct, frozen=True):
    """A flattened container: its leaves and its structure.

    Attributes:
        structure: How the leaves belong together, as JSON values.
        leaves: Arrays, scalars and text. They share memory with what is in the container.
        same: Where something is that was met before, and where that was.
        adapted: Whether adapters have taken something in it apart.
        loose: Arrays that are in no value of an adapter.
        checked: Values whose adapters may leave attributes out, by path.
        overlapping: Paths of parts that share memory, which a copy cannot do. That of arrays is in
            the structure.
        inline: Scalars are in the structure, and are no leaves.
    """

    structure: Any
    leaves: Leaves
    same: Mapping[Path, Path] = field(default_factory=dict)
    adapted: bool = False
    loose: tuple[Any, ...] = ()
    checked: Mapping[Path, Any] = field(default_factory=dict)
    overlapping: tuple[Pair, ...] = ()
    inline: bool = False

    @property
    def layouts(self) -> list[Layout]:
        """Return how arrays lie in memory that they share."""
        is_shared = isinstance(self.structure, dict) and "memory" in self.structure
        return self.structure["memory"] if is_shared else []


def is_tree(value: Value) -> bool:
    """Return whether a value is a container to flatten: list, dict, bytes, tensor, None, ….

    So is a value that has an adapter, unless that sets the state of objects.
    """
    kind = type(value)
    if kind in TREE_KINDS:
        return True
    if kind in _SINGLE:
        return False
    return is_record(value) or tensors.is_tensor(value) or is_adapted(value)


def is_record(value: Value) -> bool:
    """Return whether a container is flattened by named fields: a named tuple or dataclass."""
    return records.RecordKind.matches(type(value))


def unbound_classes(value: Value) -> list[str]:
    """List the classes, by name, of values in a container that are not imported."""
    if not records.exist_unbound():
        return []
    names: dict[str, None] = {}
    for _, part, _ in depth_first(value, _saved_parts):
        if type(part) in (records.UnboundRecord, UnboundValue):
            names[part.class_name] = None
    return list(names)


def _saved_parts(value: Value) -> Steps:
    # Of two classes the one that is met last is named first.
    return [(SELF, part) for part in reversed([*find_kind(type(value)).saved_parts(value)])]


def unbound_class_error(class_name: str, path: str) -> TaskFailedError:
    """Build error E249: a container holds a value whose class is not imported in this process."""
    module = class_name.partition(":")[0]
    at = f", at '{path}'" if path else ""
    return TaskFailedError.of(
        "E249",
        f"the class {class_name} of a value{at} is not there: no callable of the job has loaded "
        f"the module '{module}', or it has no such class any more",
        f"import '{module}' in the module of the callable that gets the value",
    )


def require_imported(record: Any, path: Path) -> Any:
    """Return the named tuple or dataclass of a stored container; raise E249 if it is not imported.

    Raises:
        TaskFailedError: E249, its class is not loaded.
    """
    if type(record) is not records.UnboundRecord:
        return record
    raise unbound_class_error(record.class_name, "/".join(path))


def flatten(
    value: Value,
    reserved: tuple[str, ...] = (),
    *,
    gaps: bool = False,
    most_leaves: int = sys.maxsize,
) -> Parts:
    """Flatten a container (nested lists, dicts, records) into its leaves and its structure.

    Args:
        value: The container.
        reserved: Names that no leaf, and no container in it, gets at the first place of its path.
        gaps: Record gaps between the elements of arrays in the structure, to restore them:
            for the states of objects, which no boundary brings into another form.
        most_leaves: Where there are more, those that JSON can express exactly are in the structure.

    Raises:
        UnsavableError: Something in it is of a kind that cannot be kept, or it contains itself.
    """
    try:
        return _flatten(value, reserved, _Flattener(gaps, most_leaves))
    except _TooManyLeavesError:
        return _flatten(value, reserved, _Flattener(gaps, inline=True))


def _flatten(value: Value, reserved: tuple[str, ...], flattener: _Flattener) -> Parts:
    at = () if type(value) in _CONTAINERS or is_record(value) else _ALONE
    return flattener.parts(flattener.node(value, at, set(reserved)))


def list_unsavable(value: Value) -> list[UnsavableError]:
    """List all parts of a value that cannot be kept, one of each class, with their paths.

    Those with a ``part`` can be kept once their classes are admitted: their attributes are listed,
    too. The others cannot be, for the reason in ``what``.
    """
    survey = _Survey()
    survey.survey(value)
    return list(survey.errors.values())


def flatten_leniently(value: Value) -> Parts:
    """Flatten a value as if each unknown class were admitted, to compare it; never to rebuild it.

    Of what cannot be kept nothing but the class is in the structure.
    """
    survey = _Survey()
    return survey.parts(survey.survey(value))


def unflatten(structure: Any, leaves: Mapping[Path, Value], *, place: bool = True) -> Value:
    """Rebuild a flattened container from structure and leaves; its arrays share the leaves' memory.

    Args:
        structure: As ``flatten`` made it.
        leaves: Likewise.
        place: Bring tensors to their devices.

    Raises:
        ValueError: The two do not belong together; the message says how.
    """
    try:
        placed: dict[Path, Value] = {}
        if isinstance(structure, dict) and "memory" in structure:
            placed = lay_out(structure["memory"], leaves)
            structure = structure["of"]
        unflattener = _Unflattener({**leaves, **placed}, place, frozenset(placed))
        value = unflattener.value(structure, _first_path(structure))
    except (KeyError, TypeError, AttributeError, RecursionError, IndexError) as error:
        raise ValueError(f"its structure cannot be read ({error!r})") from error
    if unflattener.unread:
        raise ValueError(f"'{'/'.join(min(unflattener.unread))}' has no place in its structure")
    return value


def take_out_inline(structure: Any) -> tuple[Any, Leaves]:
    """Take the scalars out of a structure: return it as if each were a leaf, and these leaves."""
    leaves: Leaves = {}
    if isinstance(structure, dict) and "memory" in structure:
        of, leaves = take_out_inline(structure["of"])
        return {**structure, "of": of}, leaves
    return _taken_out(structure, _first_path(structure), leaves), leaves


def _first_path(structure: Any) -> Path:
    is_container = isinstance(structure, dict) and "adapted" not in structure
    return () if is_container and not _is_leaf(structure) else _ALONE


def _taken_out(node: Any, path: Path, leaves: Leaves) -> Any:
    if node is not None and _is_inline(node):
        leaves[path] = node["text"] if isinstance(node, dict) else node
        return "value"

    def each(nodes: list[Any], *steps: str) -> list[Any]:
        return [_taken_out(item, (*path, *steps, str(at)), leaves) for at, item in enumerate(nodes)]

    match node:
        case {"pairs": [keys, items]}:
            return {**node, "pairs": [each(keys, "keys"), each(items, "items")]}
        case {"dict": items}:
            return {**node, "dict": _items_taken_out(items, path, leaves)}
        case {"fields": items}:
            return {**node, "fields": _items_taken_out(items, path, leaves)}
        case {"class": _, "tuple": items}:
            return {**node, "tuple": _items_taken_out(items, path, leaves)}
        case {"list": items}:
            return {"list": each(items)}
        case {"tuple": items}:
            return {"tuple": each(items)}
        case {"adapted": _, "of": tree, "rest": rest}:
            tree = _taken_out(tree, (*path, "new"), leaves)
            return {**node, "of": tree, "rest": _taken_out(rest, (*path, "rest"), leaves)}
        case {"adapted": _, "of": tree}:
            return {**node, "of": _taken_out(tree, path, leaves)}
        case _:
            return node


def _items_taken_out(items: list[Any], path: Path, leaves: Leaves) -> list[Any]:
    taken = {name[0] if name else str(key) for key, node, *name in items if not _is_inline(node)}
    taken_out = []
    for key, node, *name in items:
        step = name[0] if name else str(key)
        if _is_inline(node):
            step = _free(step, taken)
            taken.add(step)
        part = _taken_out(node, (*path, step), leaves)
        taken_out.append([key, part] if step == str(key) else [key, part, step])
    return taken_out


def describe_tree(value: Value) -> str:
    """Describe a value that can be flattened, such as a dict, in words: its kind and length."""
    if value is None:
        return "None"
    if type(value) is bytes:
        return f"bytes, {len(value)} of them"
    if is_record(value):
        record_form, count = (
            records.record_form(type(value)),
            len(records.record_items(value)),
        )
        kind = "named tuple" if record_form == "tuple" else "dataclass"
        title = value.title if record_form is None else f"{kind} {type(value).__qualname__}"
        return f"{title} of {count}"
    if type(value) in TREE_KINDS:
        return f"{type(value).__name__} of {len(value)}"
    if type(value) is UnboundValue:
        return f"{value.class_name.partition(':')[2]} whose class is not loaded"
    if not tensors.is_tensor(value):
        return _describe_adapted(value)
    dtype = str(value.dtype).partition(".")[2]
    return f"{dtype} tensor of shape {tuple(value.shape)}"


def _describe_adapted(value: Value) -> str:
    kind = type(value)
    module = kind.__module__.partition(".")[0]
    title = kind.__qualname__ if module == "builtins" else f"{module}.{kind.__qualname__}"
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and shape:
        return f"{title} of shape {shape}"
    return f"{title} of {len(value)}" if hasattr(kind, "__len__") else title


class _TooManyLeavesError(Exception):
    """A container has more leaves than each may be stored by itself."""


class _Flattener(Struct):
    """A container that is being flattened."""

    gaps: bool = False
    most_leaves: int = sys.maxsize
    # Scalars are put into the structure.
    inline: bool = False
    leaves: Leaves = field(default_factory=dict)
    tensors: list[tuple[Path, Any]] = field(default_factory=list)
    # What was met before, and where. What is met is kept, so that nothing else gets its number.
    met: dict[Any, Path] = field(default_factory=dict)
    same: dict[Path, Path] = field(default_factory=dict)
    keep_alive: list[Any] = field(default_factory=list)
    ancestors: set[int] = field(default_factory=set)
    adapted: bool = False
    held: list[tuple[Path, Any]] = field(default_factory=list)
    # The outermost of them that is being taken apart.
    holder: Path | None = None
    # Where values are that must be complete before anything refers to them.
    unfinished: set[Path] = field(default_factory=set)
    loose: list[Any] = field(default_factory=list)
    checked: dict[Path, Any] = field(default_factory=dict)
    # How many values with adapters are being taken apart, each in the one before.
    depth: int = 0

    def parts(self, structure: Any) -> Parts:
        """Return the leaves of a container and this structure, with tensors as arrays."""
        arrays = tensors.to_arrays(tensor for _, tensor in self.tensors)
        array_leaves = dict(zip((path for path, _ in self.tensors), arrays, strict=True))
        leaves = {path: array_leaves.get(path, leaf) for path, leaf in self.leaves.items()}
        pairs = find_overlapping(leaves, self.held, identical=False)
        # Nothing takes memory in again that an adapter copies, or a tensor.
        fixed = array_leaves.keys() | {path for path, _ in self.held}
        shared = [pair for pair in pairs if fixed.isdisjoint(pair)]
        if shared:
            structure = {"memory": common_layouts(leaves, shared), "of": structure}
        return Parts(
            structure,
            leaves,
            self.same,
            self.adapted,
            tuple(self.loose),
            self.checked,
            tuple(pair for pair in pairs if pair not in shared),
            self.inline,
        )

    def node(self, value: Value, path: Path, taken: set[str] | None = None) -> Any:
        """Flatten one value in a container: store its leaves by path, and return its structure."""
        kind = type(value)
        key: Any = id(value)
        # Most are containers, of which nothing else needs to be asked.
        if kind not in _CONTAINERS:
            if value is None:
                return None
            if kind in _SCALARS or (is_numpy_scalar(value) and not is_structured_scalar(value)):
                node = self._inlined(value)
                return self._leaf(value, path, "value") if node is None else node
            if kind is bytes:
                return self._leaf(np.frombuffer(value, np.uint8), path, "bytes")
            adapter = find_adapter(kind)
            if adapter is not None and adapter.by_name:
                self.adapted = True
                return {"named": take_tree(adapter, value, path)}
            if tensors.is_tensor(value):
                why = tensors.explain_unsavable(value)
                if why:
                    raise UnsavableError(path, why)
                key = tensors.memory_key(value) or key
        if key in self.met:
            if self.met[key] in self.unfinished:
                raise UnsavableError(path, f"a {kind.__qualname__} that contains itself")
            self.same[path] = self.met[key]
            return {"same": list(self.met[key])}
        if not isinstance(value, tuple):
            # A tuple is made of its items, none of which can refer to it as the same.
            self.met[key] = path
            self.keep_alive.append(value)
        return self._node(value, path, taken)

    def _node(self, value: Value, path: Path, taken: set[str] | None) -> Any:
        kind = type(value)
        memory = None if kind in _CONTAINERS else self._memory(value, path)
        if memory is not None:
            return memory
        if id(value) in self.ancestors:
            raise UnsavableError(path, f"a {kind.__qualname__} that contains itself")
        if len(path) > _MOST_DEPTH:
            raise UnsavableError(path, f"a container more than {_MOST_DEPTH} deep")
        self.ancestors.add(id(value))
        try:
            if kind in (list, tuple):
                return self._sequence(value, path)
            if kind in DICT_NAMES:
                return self._dict(value, path, taken or set())
            if is_record(value):
                return self._record(value, path, taken or set())
            if kind is UnboundValue or is_makeable(value):
                return self._adapted(value, path)
        finally:
            self.ancestors.discard(id(value))
        if isinstance(value, GeneratorType | CoroutineType):
            description = "a generator or coroutine, whose place in its code cannot be saved"
            raise UnsavableError(path, f"{description}; let an epoch run it to its end")
        raise UnsavableError(path, class_text(value), value)

    def _memory(self, value: Value, path: Path) -> Any:
        """Store a tensor, an array or a structured scalar; return None for any other value."""
        if tensors.is_tensor(value):
            self.tensors.append((path, value))
            facts = tensors.tensor_facts(value, gaps=self.gaps or self.depth > 0)
            if 0 in facts.get("strides", ()):
                raise UnsavableError(path, "a tensor whose elements share memory; clone() it")
            return self._leaf(None, path, {"tensor": facts} if facts else "tensor")
        if is_structured_scalar(value) and is_numpy_scalar(value):
            return self._leaf(value, path, "value")
        if type(value) is not np.ndarray or value.dtype.hasobject:
            return None
        if not self.depth:
            self.loose.append(value)
        if (self.gaps or self.depth) and has_gaps(value.shape, value.strides, value.itemsize):
            return self._leaf(value, path, {"strides": list(value.strides)})
        return self._leaf(value, path, "value")

    def _adapted(self, value: Value, path: Path) -> Any:
        self.adapted = True
        if type(value) is UnboundValue and not value.version:
            return {"named": value.class_name}
        adapter = find_adapter(type(value))
        if adapter is None or adapter.memory is None:
            return self._taken_apart(value, adapter, path)
        outer = self.holder
        self.holder = path if outer is None else outer
        self.held.append((self.holder, value))
        try:
            return self._taken_apart(value, adapter, path)
        finally:
            self.holder = outer

    def _taken_apart(self, value: Any, adapter: Adapter | None, path: Path) -> Any:
        self.depth += 1
        try:
            return self._adapted_parts(value, adapter, path)
        finally:
            self.depth -= 1

    def _adapted_parts(self, value: Any, adapter: Adapter | None, path: Path) -> Any:
        taken = value
        if adapter is not None:
            if not is_shipped(type(value)):
                self.checked[path] = value
            taken = UnboundValue(class_name(type(value)), adapter.version, None)
            tree = take_tree(adapter, value, path)
            taken.tree, taken.rest = (tree, None) if adapter.fill is None else tree
        # Kept, so that nothing else gets the numbers of its parts.
        self.keep_alive.append(taken)
        structure: dict[str, Any] = {"adapted": taken.class_name}
        if taken.version != 1:
            structure["version"] = taken.version
        if taken.rest is not None:
            structure["of"] = self.node(taken.tree, (*path, "new"))
            return {**structure, "rest": self.node(taken.rest, (*path, "rest"))}
        self.unfinished.add(path)
        # The tree itself is new, and nothing refers to it as the same: its parts may be.
        is_node = type(taken.tree) in _CONTAINERS or is_record(taken.tree)
        structure["of"] = (
            self._node(taken.tree, path, None) if is_node else self.node(taken.tree, path)
        )
        self.unfinished.discard(path)
        return structure

    def _leaf(self, value: Value, path: Path, structure: Any) -> Any:
        self.leaves[path] = value
        if len(self.leaves) > self.most_leaves:
            raise _TooManyLeavesError
        return structure

    def _inlined(self, value: Any) -> Any:
        """Return the node of a scalar that is put into the structure; None for any other value."""
        if not self.inline:
            return None
        kind = type(value)
        if kind is float:
            return value if math.isfinite(value) else None
        if kind is int:
            return value if _INT64.min <= value <= _INT64.max else None
        if kind is str:
            return {"text": value}
        return value if kind is bool else None

    def _sequence(self, value: Any, path: Path) -> Any:
        kind = type(value).__name__
        packed = _packed(value) if path and not (self.inline and len(value) < _FEW) else None
        if packed is not None:
            return self._leaf(packed, path, {"packed": kind})
        nodes = list(map(self._inlined, value))
        for at, item in enumerate(value) if None in nodes else ():
            if nodes[at] is None:
                nodes[at] = self.node(item, (*path, str(at)))
        return {kind: nodes}

    def _dict(self, value: Any, path: Path, taken: set[str]) -> Any:
        items = []
        if not NAMES.issuperset(map(type, value)):
            return self._pairs(value, path)
        for key, item in value.items():
            if is_long(key):
                raise UnsavableError(path, f"a dict with a key that is too long: {key_text(key)}")
            node = self._inlined(item)
            if node is not None:
                items.append([key, node])
                continue
            name = _free(str(key), taken)
            taken.add(name)
            node = self.node(item, (*path, name))
            items.append([key, node] if name == str(key) else [key, node, name])
        structure: dict[str, Any] = {"dict": items}
        if type(value) is not dict:
            structure["class"] = DICT_NAMES[type(value)]
        for name in getattr(value, "__dict__", ()):
            if name != _METADATA:
                description = f"{class_text(value)} with the attribute '{name}'"
                raise UnsavableError(path, description)
        metadata = getattr(value, _METADATA, None)
        if metadata is not None:
            structure["metadata"] = _versions(metadata, path)
        return structure

    def _pairs(self, value: Any, path: Path) -> Any:
        """Flatten a dict and its keys, some of which are neither text nor integers."""
        if getattr(value, "__dict__", None):
            raise UnsavableError(path, f"{class_text(value)} with attributes")
        keys = [self._key(key, (*path, "keys", str(at))) for at, key in enumerate(value)]
        items = [
            self.node(item, (*path, "items", str(at))) for at, item in enumerate(value.values())
        ]
        structure: dict[str, Any] = {"pairs": [keys, items]}
        return structure if type(value) is dict else {**structure, "class": DICT_NAMES[type(value)]}

    def _key(self, key: Any, path: Path) -> Any:
        try:
            return self.node(key, path)
        except UnsavableError as error:
            description = f"a dict with the key {key_text(key)[:40]!r}, which is {error.what}"
            raise UnsavableError(path[:-2], description) from error

    def _record(self, value: Any, path: Path, taken: set[str]) -> Any:
        name, kind = records.class_and_form(value)
        if type(value) is not records.UnboundRecord:
            why = records.explain_unsavable(value)
            if why:
                raise UnsavableError(path, why)
        items = []
        for field_name, item in records.record_items(value).items():
            node = self._inlined(item)
            if node is not None:
                items.append([field_name, node])
                continue
            at = _free(field_name, taken)
            taken.add(at)
            node = self.node(item, (*path, at))
            items.append([field_name, node] if at == field_name else [field_name, node, at])
        return {"class": name, kind: items}


class _Survey(_Flattener):
    """Collects all that cannot be kept in a value, as if each unknown class were admitted."""

    # The first part of each class, or with each reason.
    errors: dict[Any, UnsavableError] = field(default_factory=dict)

    def survey(self, value: Value) -> Any:
        """Flatten a value and return its structure; collect what cannot be kept in it."""
        try:
            return self.node(value, ())
        except RecursionError:
            self.note(UnsavableError((), f"a {type(value).__qualname__} that is nested too deep"))
            return None

    def node(self, value: Value, path: Path, taken: set[str] | None = None) -> Any:
        try:
            return super().node(value, path, taken)
        except UnsavableError as error:
            if error.part is not value or find_adapter(type(value)) is not None:
                self.note(error)
                return {"unkept": class_name(type(value))}
        kind = type(value)
        why, tree = _by_attributes(value)
        if tree is None:
            self.note(UnsavableError(path, why))
            return {"unkept": class_name(kind)}
        arguments, state = tree
        self.note(UnsavableError(path, class_text(value), value))
        self.keep_alive.append((arguments, state))
        self.depth += 1
        parts = [self._attributes(part, path) for part in (arguments, *state.values())]
        self.depth -= 1
        return {"adapted": class_name(kind), "of": parts}

    def note(self, error: UnsavableError) -> None:
        """Add a part to the list unless there is one of its class, or with the same reason."""
        self.errors.setdefault(error.what if error.part is None else type(error.part), error)

    def _attributes(self, part: Any, path: Path) -> Any:
        if type(part) is dict and NAMES.issuperset(map(type, part)):
            return {
                key_text(name): self.node(item, (*path, key_text(name)))
                for name, item in part.items()
            }
        return self.node(part, path)


def _by_attributes(value: Any) -> tuple[str, tuple[Any, Any] | None]:
    """Take a value apart as if its class were admitted; or say why even that is not possible."""
    try:
        # Loaded where something cannot be kept, which is seldom.
        protocol: Any = import_module("jobrun.values.adapters.reduce_protocol")
        arguments, state = protocol.attribute_tree(value)
    except UnsavableError as error:
        return error.what, None
    if find_by_name(class_name(type(value))) is not type(value):
        description = f"{class_text(value)}, a class that cannot be found again by its name"
        return f"{description}: define it at the top level of a module", None
    attributes = state.get("state")
    if isinstance(attributes, tuple) and len(attributes) == 2:
        # Attributes in __dict__, and in __slots__.
        state["state"] = {name: item for part in attributes if part for name, item in part.items()}
    return "", (arguments, state)


class _Unflattener(Struct):
    """A container that is being rebuilt from its leaves."""

    leaves: Mapping[Path, Value]
    place: bool
    # Those that lie in common memory.
    placed: frozenset[Path] = frozenset()
    rebuilt: dict[Path, Value] = field(default_factory=dict)
    unread: set[Path] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.unread = set(self.leaves)

    def value(self, node: Any, path: Path) -> Value:
        """Rebuild one value in a flattened container, as its structure describes it."""
        if _is_inline(node):
            return str(node["text"]) if isinstance(node, dict) else node
        if isinstance(node, dict) and "same" in node:
            return self.rebuilt[tuple(node["same"])]
        if isinstance(node, dict) and "named" in node:
            return find_named_value(str(node["named"]))
        if isinstance(node, str) or _is_leaf(node):
            value = self._leaf(node, path)
        elif "dict" in node:
            return self._dict(node, path)
        elif "pairs" in node:
            return self._pairs(node, path)
        elif "adapted" in node:
            value = self._adapted(node, path)
        elif "class" in node:
            value = self._record(node, path)
        else:
            ((kind, items),) = node.items()
            # Known before its items are, one of which may refer to it as the same.
            value = self.rebuilt[path] = []
            value += [
                item if type(item) in _INLINE else self.value(item, (*path, str(at)))
                for at, item in enumerate(items)
            ]
            value = value if _SEQUENCES[kind] is list else tuple(value)
        self.rebuilt[path] = value
        return value

    def _leaf(self, layout: Any, path: Path) -> Value:
        value = self.leaves[path]
        self.unread.discard(path)
        if layout == "value" or path in self.placed:
            return value
        if type(value) is not np.ndarray:
            raise ValueError(f"'{'/'.join(path)}' is no array")
        if layout == "bytes":
            return value.tobytes()
        if layout == "tensor":
            layout = {"tensor": {}}
        if "strides" in layout:
            return copy_with_strides(value, layout["strides"])
        if "tensor" in layout:
            return tensors.from_array(value, layout["tensor"], place=self.place)
        return _SEQUENCES[layout["packed"]](value.tolist())

    def _record(self, node: Any, path: Path) -> Any:
        name, is_tuple = str(node["class"]), "tuple" in node
        items = node["tuple" if is_tuple else "fields"]
        record = None
        if not is_tuple:
            record = self.rebuilt[path] = records.begin_dataclass(
                name, [field_name for field_name, *_ in items]
            )
        values = {
            field_name: self.value(part, (*path, *(at or [field_name])))
            for field_name, part, *at in items
        }
        if is_tuple:
            return records.make_named_tuple(name, values)
        records.fill_fields(record, values)
        return record

    def _adapted(self, node: Any, path: Path) -> Any:
        name, version = str(node["adapted"]), int(node.get("version", 1))
        if "rest" not in node:
            return make_adapted(name, version, self.value(node["of"], path), unbound_classes)
        value = make_adapted(name, version, self.value(node["of"], (*path, "new")), unbound_classes)
        self.rebuilt[path] = value
        fill_adapted(value, name, self.value(node["rest"], (*path, "rest")))
        return value

    def _pairs(self, node: Any, path: Path) -> Any:
        mapping: Any = DICTS[node.get("class", "dict")]()
        self.rebuilt[path] = mapping
        keys, items = node["pairs"]
        # All keys first, as they were flattened: an item may be the same as a later key.
        known = [self.value(key, (*path, "keys", str(at))) for at, key in enumerate(keys)]
        for at, (key, item) in enumerate(zip(known, items, strict=True)):
            mapping[key] = self.value(item, (*path, "items", str(at)))
        return mapping

    def _dict(self, node: Any, path: Path) -> Any:
        mapping: Any = DICTS[node.get("class", "dict")]()
        self.rebuilt[path] = mapping
        for key, item, *name in node["dict"]:
            if type(item) in _INLINE:
                mapping[key] = item
            else:
                mapping[key] = self.value(item, (*path, *(name or [str(key)])))
        if "metadata" in node:
            versions = OrderedDict((part, dict(facts)) for part, facts in node["metadata"])
            setattr(mapping, _METADATA, versions)
        return mapping


def is_numpy_scalar(value: Any) -> bool:
    """Return whether a leaf of a flattened container is a numpy scalar, not of a subclass."""
    if not isinstance(value, np.generic):
        return False
    dtype = value.dtype
    return type(value) is dtype.type and not dtype.hasobject


def _is_inline(node: Any) -> bool:
    """Return whether a node of a structure is a value, and not a leaf's or a container's form."""
    return type(node) in _INLINE or (isinstance(node, dict) and "text" in node)


def _is_leaf(node: Any) -> bool:
    return isinstance(node, dict) and bool(node.keys() & {"tensor", "packed", "strides"})


def _packed(items: Any) -> np.ndarray[Any, Any] | None:
    """Pack a list of only floats or only ints in a container into one array leaf, else None."""
    if len(items) < 2:
        return None
    kinds = set(map(type, items))
    if kinds == {float}:
        return np.array(items, np.float64)
    if kinds == {int} and min(items) >= _INT64.min and max(items) <= _INT64.max:
        return np.array(items, np.int64)
    return None


def _versions(metadata: Any, path: Path) -> list[Any]:
    """Flatten a dict's attribute ``_metadata``, version numbers that PyTorch sets, to lists."""
    pairs = [[part, dict(facts)] for part, facts in dict(metadata).items()]
    try:
        same = json.loads(json.dumps(pairs, allow_nan=False)) == pairs
    except (TypeError, ValueError):
        same = False
    if not same:
        raise UnsavableError((*path, _METADATA), "versions that are no plain values")
    return pairs


def _free(name: str, taken: set[str]) -> str:
    """Choose a name for a leaf of a flattened container that no other leaf has, such as ``1~2``."""
    return next(alternative for alternative in _alternatives(name) if alternative not in taken)


def _alternatives(name: str) -> Iterator[str]:
    yield name
    number = 2
    while True:
        yield f"{name}~{number}"
        number += 1
