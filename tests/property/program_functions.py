"""What the callables of drawn programs are made of; a copy lies beside each program.

Needs nothing but Python and numpy, so that plain Python and jobrun run the very same code; PyTorch
where a program makes tensors.
Each function works on a value of any kind, so that any sequence of calls is a program.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import os
import random
import signal
import struct
from collections import Counter, OrderedDict, deque, namedtuple
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Point = namedtuple("Point", ["x", "y"])


class Pair(NamedTuple):
    first: Any
    second: Any = None


@dataclasses.dataclass
class Cell:
    value: Any
    note: Any = None


@dataclasses.dataclass(frozen=True)
class Fixed:
    value: Any
    size: int = 3


@dataclasses.dataclass(slots=True)
class Slim:
    value: Any


class Tagged(list):
    """A list that has more than its items."""

    def __init__(self, items: Any = ()) -> None:
        super().__init__(items)
        self.tag = "more"


class Color(IntEnum):
    RED = 1


class Holder:
    """An object with a state, which gives out and takes in references."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self.steps = 0

    def state_dict(self) -> dict[str, Any]:
        return {"value": self.value, "steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.value, self.steps = state["value"], state["steps"]


class Sampler:
    """An object that draws from a generator, which may be somebody else's, too."""

    def __init__(self, source: Any, width: int = 3) -> None:
        self.source = source
        self.last = np.zeros(width)

    def draw(self) -> None:
        for at in range(len(self.last)):
            self.last[at] = number(self.source)

    def state_dict(self) -> dict[str, Any]:
        return {"last": self.last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.last[...] = state["last"]


OBJECTS = (Holder, Sampler)
GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_MUTABLE = (np.ndarray, list, dict, Cell, Slim, deque, *OBJECTS, *GENERATORS)
DTYPES = {
    "aligned": np.dtype([("x", "i1"), ("y", "f8")], align=True),
    "gaps": np.dtype(
        {"names": ["x", "y"], "formats": ["<i2", "<f4"], "offsets": [1, 8], "itemsize": 16}
    ),
    "overlap": np.dtype({"names": ["x", "y"], "formats": ["<i4", "<i2"], "offsets": [0, 2]}),
    "titles": np.dtype([(("the title", "x"), "<f8"), ("y", "<i4")]),
    "nested": np.dtype([("x", [("u", ">f4"), ("v", "S3")]), ("y", "<i2", (2,))]),
    "plain": np.dtype([("x", "<f8"), ("y", "<i4")]),
    "record": np.dtype((np.record, [("x", "<f8"), ("y", "<i4")])),
    "metadata": np.dtype("<f8", metadata={"unit": "m"}),
    "member": np.dtype([("x", np.dtype("<f8", metadata={"unit": "m"}))]),
}  # fmt: skip


# ---- values -------------------------------------------------------------------------------


def array(dtype: str, shape: tuple[int, ...], order: str = "C", seed: int = 0) -> np.ndarray:
    """An array of numbers that are not round, in one of many layouts."""
    kind = DTYPES.get(dtype) or np.dtype(dtype)
    data = _data(kind, shape, seed)
    if order == "C" or not shape:
        return data
    if order == "F":
        return np.asfortranarray(data)
    if order == "turned":
        return _data(kind, (*shape[1:], shape[0]), seed).transpose(-1, *range(len(shape) - 1))
    if order == "swapped":
        turned = (*shape[:-2], *shape[:-3:-1])
        return _data(kind, turned, seed).swapaxes(-1, -2) if len(shape) > 1 else data
    if order == "gaps":
        return _data(kind, (*shape[:-1], 2 * shape[-1]), seed)[..., ::2]
    if order == "backwards":
        return data[::-1]
    if order == "columns":
        return np.asfortranarray(_data(kind, (shape[0] + 2, *shape[1:]), seed))[1:-1]
    if order == "spread":
        return np.broadcast_to(data[:1], shape)
    if order == "repeated":
        return np.broadcast_to(_data(kind, (*shape[:-1], 1), seed), shape)
    if order == "unaligned":
        raw = np.zeros(data.nbytes + 1, np.uint8)[1:]
        unaligned = (
            raw.view(kind).reshape(shape) if data.size and not kind.hasobject else data.copy()
        )
        unaligned[...] = data
        return unaligned
    assert order == "fixed"
    data.flags.writeable = False
    return data


def _data(kind: np.dtype, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if kind.names:
        structured = np.zeros(shape, kind)
        for at, name in enumerate(kind.names):
            structured[name] = _data(structured[name].dtype, structured[name].shape, seed + at)
        return structured
    size = int(np.prod(shape, dtype=int))
    numbers = np.random.RandomState(seed).standard_normal(size)
    if kind.kind in "cfmM":
        numbers = numbers * 10 / 3
    if kind.kind == "c":
        data = (numbers + 1j * numbers[::-1]).astype(kind)
    elif kind.kind in "mM":
        data = np.round(numbers * 100).astype("i8").astype(kind)
    elif kind.kind == "V":
        data = np.frombuffer(np.random.RandomState(seed).bytes(size * kind.itemsize), kind).copy()
    elif kind.kind in "US":
        data = np.array([f"{x:.2f}" for x in numbers]).astype(kind)
    else:
        with np.errstate(invalid="ignore"):
            data = (
                np.round(numbers * 20).astype("i8").astype(kind)
                if kind.kind in "iub"
                else (numbers.astype(kind))
            )
    return data.reshape(shape)


def tensor(dtype: str, shape: tuple[int, ...], layout: str = "contiguous", seed: int = 0) -> Any:
    """A tensor of numbers that are not round, in one of many layouts."""
    import torch  # noqa: PLC0415 - only where a program makes tensors

    kind = getattr(torch, dtype)
    contiguous = torch.from_numpy(array("f8", shape, "C", seed)).to(kind)
    if layout == "channels_last":
        return (
            contiguous.contiguous(memory_format=torch.channels_last)
            if contiguous.dim() == 4
            else contiguous
        )
    if layout == "turned":
        return (
            contiguous.permute(*reversed(range(contiguous.dim())))
            .contiguous()
            .permute(*reversed(range(contiguous.dim())))
        )
    if layout == "transposed":
        return contiguous.transpose(0, -1) if contiguous.dim() > 1 else contiguous
    if layout == "gaps":
        return contiguous[..., ::2]
    if layout == "spread":
        return contiguous[:1].expand(shape)
    if layout == "trained":
        return contiguous.requires_grad_() if contiguous.is_floating_point() else contiguous
    return contiguous


def _is_tensor(value: Any) -> bool:
    return type(value).__module__ == "torch" and type(value).__name__ == "Tensor"


def words(at: int) -> Any:
    """What depends on the order of a set of texts, which the hash of texts decides."""
    chosen = {f"w{n * n}" for n in range(2 + at % 9)}
    ways = (
        lambda: list(chosen), lambda: dict.fromkeys(chosen, at), lambda: "".join(chosen),
        lambda: {word: n for n, word in enumerate(chosen | {"more"})},
        lambda: np.array([float(word[1:]) / 3 for word in chosen]).cumsum(),
        lambda: hash("text") % 1000 + at,
    )  # fmt: skip
    return ways[at // 7 % len(ways)]()


# ---- what callables do --------------------------------------------------------------------


def parts_of(value: Any) -> list[Any]:
    """The values right inside one."""
    if isinstance(value, dict):
        return list(value.values())
    if isinstance(value, list | tuple | deque):
        return list(value)
    if dataclasses.is_dataclass(value):
        return [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, Holder):
        return [value.value]
    return [value.source, value.last] if isinstance(value, Sampler) else []


def walk(value: Any, kinds: tuple[type, ...], seen: set[int] | None = None) -> list[Any]:
    """What there is of some kinds in a value, itself included; what can be changed once."""
    seen = set() if seen is None else seen
    if isinstance(value, _MUTABLE) or _is_tensor(value):
        if id(value) in seen:
            return []
        seen.add(id(value))
    met = [value] if isinstance(value, kinds) or (kinds is _MUTABLE and _is_tensor(value)) else []
    for part in parts_of(value):
        met += walk(part, kinds, seen)
    return met


def part(value: Any, at: int) -> Any:
    """A thing inside a value, the thing itself."""
    inside = parts_of(value)
    return inside[at % len(inside)] if inside else value


def view(value: Any, at: int) -> Any:
    """Another array over the memory of one of a value's arrays."""
    arrays = walk(value, (np.ndarray,))
    if not arrays:
        return value
    source = arrays[at % len(arrays)]
    ways = (
        lambda: source[1:], lambda: source[::-1], lambda: source.T, lambda: source[::2],
        lambda: source[:2], lambda: source[...], lambda: source.reshape(-1), source.view,
        lambda: source[..., 0], lambda: source.real, lambda: source[source.dtype.names[0]],
        lambda: np.broadcast_to(source, (2, *source.shape)),
    )  # fmt: skip
    for way in (ways[at // 3 % len(ways)], ways[5]):
        try:
            return way()
        except (IndexError, TypeError, ValueError):
            continue
    return source


def clone(value: Any) -> Any:
    """A copy that shares nothing with the value."""
    return copy.deepcopy(value)


def use(value: Any) -> float:
    """A number that depends on each bit, and on the order in which memory holds them."""
    total = 0.0
    with np.errstate(all="ignore"):
        for numbers in walk(value, (np.ndarray,)):
            if numbers.dtype.kind not in "biufc" or not numbers.size:
                continue
            # Blobs have no gaps between elements, as a warning tells, and products show them.
            numbers = numbers if numbers.flags.forc else numbers.copy(order="K")  # noqa: PLW2901
            parts = [np.ravel(numbers, order="K").sum(), numbers.sum()]
            parts += [
                numbers.sum(axis=axis).max()
                for axis in range(numbers.ndim)
                if numbers.dtype != bool
            ]
            if numbers.ndim == 2:
                parts.append((numbers @ numbers.T).sum())
            parts.append(next(iter(numbers.flat)))
            for number_ in parts:
                total = total / 3 + float(np.real(number_))
    for part in walk(value, _MUTABLE):
        if _is_tensor(part):
            dense = part.detach().clone()
            total = total / 3 + float(dense.double().sum()) + float(dense.sum())
    counted = sum(len(container) for container in walk(value, (list, dict, tuple)))
    total += counted + sum(float(real) for real in walk(value, (float,)))
    return total if np.isfinite(total) else float(counted)


def sums(value: Any) -> Any:
    """Sums along the last axis of each array, a list of arrays and text."""
    results: list[Any] = []
    with np.errstate(all="ignore"):
        for numbers in walk(value, (np.ndarray,)):
            ok = numbers.dtype.kind in "iufc" and numbers.ndim
            results.append(numbers.sum(axis=0) if ok else str(numbers.dtype))
    return results


def number(source: Any) -> float:
    """A random number of a generator."""
    if isinstance(source, random.Random | np.random.Generator):
        return source.random()
    return source.random_sample() if isinstance(source, np.random.RandomState) else 0.5


def change(value: Any, at: int) -> None:
    """Change one thing inside a value, in place."""
    things = walk(value, _MUTABLE)
    if not things:
        return
    part, way = things[at % len(things)], at // 5
    if isinstance(part, np.ndarray):
        _change_array(part, way)
    elif isinstance(part, list | deque):
        _change_list(part, way)
    elif isinstance(part, dict):
        _change_dict(part, way)
    elif isinstance(part, Cell):
        part.note = part.value if way % 2 else [part.note][:1] if way % 3 else way
    elif isinstance(part, Slim):
        part.value = (way, 2.5)
    elif isinstance(part, Holder):
        part.steps += 1
        if way % 2:
            part.value = [way, np.arange(3.0) / 7]
    elif isinstance(part, Sampler):
        part.draw()
    elif _is_tensor(part):
        part = part.detach()
        part[...] = part.flip(0) if way % 3 == 0 and part.dim() else part * 0.75 + way % 4
    else:
        number(part)


def _change_array(numbers: np.ndarray, way: int) -> None:
    if numbers.dtype.kind in "iufc" and way % 3 == 0:
        np.add(numbers, 1, out=numbers, casting="unsafe")
    elif numbers.dtype.kind in "fc" and way % 3 == 1:
        with np.errstate(all="ignore"):
            np.multiply(numbers, 0.75 + 1 / (3 + abs(use(numbers))), out=numbers, casting="unsafe")
    elif numbers.ndim:
        numbers[...] = np.roll(numbers, 1, axis=way % numbers.ndim)
    else:
        numbers[...] = np.zeros((), numbers.dtype)


def _change_list(items: Any, way: int) -> None:
    ways = (
        lambda: items.append(way / 3), items.reverse, lambda: items.insert(0, None),
        lambda: items.append([way]), lambda: items.pop() if len(items) > 1 else None,
        lambda: items.extend(["text", way]), items.clear,
        lambda: items.append(items[0]) if items else None,
    )  # fmt: skip
    ways[way % len(ways)]()
    while len(items) > 12:
        items.pop()


def _change_dict(entries: Any, way: int) -> None:
    if isinstance(entries, Counter):
        entries[str(way % 3)] += 1
    elif way % 4 == 0:
        entries[f"k{way % 3}"] = way
    elif way % 4 == 1 and len(entries) > 1:
        first = next(iter(entries))
        entries[first] = entries.pop(first)
    elif way % 4 == 2 and len(entries) > 1:
        entries.pop(next(iter(entries)))
    else:
        entries[way % 5] = [way, 1.5]


def put(value: Any, other: Any, at: int) -> None:
    """Put one value into a container inside another one, where it is shared from then on."""
    kinds = (list, dict, Cell)
    inside = [id(part) for part in walk(other, kinds)]
    places = [part for part in walk(value, kinds) if id(part) not in inside]
    if not places:
        return
    container = places[at % len(places)]
    if isinstance(container, list):
        container[:] = [*container[:8], other]
    elif isinstance(container, Cell):
        container.note = other
    elif not isinstance(container, Counter):
        container["put"] = other


# ---- what is seen -------------------------------------------------------------------------


def look(moment: str, epoch: int, run_dir: str, values: dict[str, Any]) -> None:
    """Write down all that can be seen of some values: one line of JSON in ``seen.jsonl``."""
    seen = {name: seen_of(value) for name, value in values.items()}
    line = json.dumps({"place": moment, "epoch": epoch, "seen": seen})
    with Path(run_dir, "seen.jsonl").open("a") as file:
        file.write(line + "\n")
    orders = Path(__file__).with_name("die")
    epochs = orders.read_text().split() if orders.exists() else []
    if moment == "end" and str(epoch) in epochs:
        epochs.remove(str(epoch))
        orders.write_text(" ".join(epochs))
        os.kill(os.getpid(), signal.SIGKILL)


def seen_of(value: Any) -> Any:
    """Types, bits, order of memory, and which of its parts are one thing or one memory."""
    looking = _Looking({}, [], [])
    seen = looking.at(value, "")
    arrays = looking.arrays
    shared = [
        [ours, theirs]
        for at, (ours, first) in enumerate(arrays)
        for theirs, other in arrays[at + 1 :]
        if np.shares_memory(first, other)
    ]
    tensors = looking.tensors
    shared += [
        [ours, theirs]
        for at, (ours, first) in enumerate(tensors)
        for theirs, other in tensors[at + 1 :]
        # Tensors without elements have no memory in common, though all of it begins at address 0.
        if first.untyped_storage().nbytes()
        and first.untyped_storage().data_ptr() == other.untyped_storage().data_ptr()
    ]
    return {"value": seen, "overlap": shared}


@dataclasses.dataclass
class _Looking:
    met: dict[int, str]
    arrays: list[tuple[str, np.ndarray]]
    tensors: list[tuple[str, Any]]

    def at(self, value: Any, path: str) -> Any:
        """The description of a part."""
        kind = f"{type(value).__module__}.{type(value).__qualname__}"
        changeable = (np.ndarray, list, dict, Cell, Slim, *OBJECTS, *GENERATORS)
        if isinstance(value, changeable) or _is_tensor(value):
            if id(value) in self.met:
                return ["same", self.met[id(value)]]
            self.met[id(value)] = path
        if isinstance(value, np.ndarray):
            self.arrays.append((path, value))
            return [kind, self._array(value, path)]
        if _is_tensor(value):
            self.tensors.append((path, value))
            return [kind, _tensor(value)]
        if isinstance(value, np.generic):
            return [kind, _dtype(value.dtype), _bits(np.asarray(value))]
        if isinstance(value, random.Random):
            return [kind, _digest(repr(value.getstate()).encode())]
        if isinstance(value, np.random.Generator):
            return [kind, _digest(repr(value.bit_generator.state).encode())]
        if isinstance(value, np.random.RandomState):
            return [kind, _digest(repr([
                part.tolist() if isinstance(part, np.ndarray) else part
                for part in value.get_state()
            ]).encode())]  # fmt: skip
        if isinstance(value, dict):
            items = [
                [self.at(key, f"{path}/k{n}"), self.at(part, f"{path}/{n}")]
                for n, (key, part) in enumerate(value.items())
            ]
            return [kind, items]
        if isinstance(value, list | tuple | deque) or dataclasses.is_dataclass(value):
            return [kind, [self.at(part, f"{path}/{n}") for n, part in enumerate(parts_of(value))]]
        if isinstance(value, OBJECTS):
            return [kind, [[name, self.at(part, f"{path}/{name}")]
                           for name, part in sorted(vars(value).items())]]  # fmt: skip
        return [kind, _plain(value)]

    def _array(self, value: np.ndarray, path: str) -> Any:
        if value.dtype.hasobject:
            items = [self.at(item, f"{path}/{n}") for n, item in enumerate(value.ravel().tolist())]
            return ["objects", value.shape, items]
        return [_dtype(value.dtype), list(value.shape), {"order": _order(value)}, _bits(value)]


def _order(value: np.ndarray) -> Any:
    """The axes from the slowest to the fastest; None where that cannot be said."""
    axes = [axis for axis in range(value.ndim) if value.shape[axis] > 1]
    if not value.size or len(axes) < 2 or any(not value.strides[axis] for axis in axes):
        return None
    return sorted(axes, key=lambda axis: -abs(value.strides[axis]))


def _tensor(value: Any) -> Any:
    """Its kind, shape, order of axes, whether it takes part in training, and its numbers."""
    data = value.detach().contiguous()
    axes = [axis for axis in range(value.dim()) if value.shape[axis] > 1]
    order = sorted(axes, key=lambda axis: -value.stride(axis)) if len(axes) > 1 else None
    if any(not value.stride(axis) for axis in axes):
        order = None
    numbers = data if data.element_size() > 2 else data.double()
    return [
        str(value.dtype), list(value.shape), {"order": order}, value.requires_grad, value.is_leaf,
        _digest(numbers.numpy().tobytes()),
    ]  # fmt: skip


def _dtype(dtype: np.dtype) -> Any:
    fields = []
    for name in dtype.names or ():
        field_dtype, *offset_and_title = dtype.fields[name]
        fields.append([name, _dtype(field_dtype), *offset_and_title])
    return [
        repr(dtype), dtype.byteorder if dtype.isnative else "other", dtype.isalignedstruct,
        dtype.type.__name__, sorted((dtype.metadata or {}).items()), fields, dtype.itemsize,
    ]  # fmt: skip


def _bits(value: np.ndarray) -> str:
    """A digest of all numbers in the order of indices, without what lies between fields."""
    if value.dtype.names:
        return _digest("".join(_bits(value[name]) for name in value.dtype.names).encode())
    raw = np.ascontiguousarray(value).tobytes()
    if value.dtype.type in (np.longdouble, np.clongdouble) and np.finfo(np.longdouble).nmant == 63:
        native = np.frombuffer(raw, value.dtype).astype(value.dtype.newbyteorder("="))
        width = np.dtype(np.longdouble).itemsize
        raw = np.frombuffer(native.tobytes(), np.uint8).reshape(-1, width)[:, :10].tobytes()
    return _digest(raw)


def _digest(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()[:16]


def _plain(value: Any) -> str:
    if isinstance(value, float):
        return struct.pack("<d", value).hex()
    if isinstance(value, complex):
        return struct.pack("<dd", value.real, value.imag).hex()
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, str):
        return ascii(value)
    return value.hex() if isinstance(value, bytes) else repr(value)


__all__ = [
    "Cell", "Color", "Counter", "Decimal", "Fixed", "Fraction", "Holder", "OrderedDict", "Pair",
    "Point", "Sampler", "Slim", "Tagged", "array", "change", "clone", "deque", "look", "np", "part",
    "put", "random", "sums", "tensor", "use", "view", "words",
]  # fmt: skip
