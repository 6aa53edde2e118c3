"""Values as bytes and back, for messages between the processes of one run. No sockets here.

Only what is listed can be written, and nothing that is read can run anything: plain values,
tuples, lists and mappings of them, values of blobs, the frozen dataclasses, named tuples and
enums of a ``Table``, and errors. Large arrays are not copied into the message: their memory is
sent behind it, and read straight into new arrays that own theirs.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from jobrun.blobs import tensors
from jobrun.blobs.counter import Counter
from jobrun.checkpoint.dtypes import dtype_text, parse_dtype
from jobrun.core.errors import TaskFailedError

Array = np.ndarray[Any, Any]
# Fills the memory with what was sent behind the message next.
Fill = Callable[[memoryview], None]

# Smaller ones are cheaper to copy than to send apart.
APART_BYTES = 1 << 14
_INT64 = 1 << 63
_U32, _I64, _F64 = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")
_PAIR, _U16 = struct.Struct("<dd"), struct.Struct("<H")


class Message(NamedTuple):
    """What is to be sent: a head, and the memory that follows it, in order."""

    head: bytearray
    apart: list[memoryview]


class Table:
    """The classes that may cross: both sides have the same, since they run the same code."""

    def __init__(self, classes: Iterable[type]) -> None:
        self.classes = tuple(sorted(classes, key=lambda one: (one.__module__, one.__qualname__)))
        self.numbers = {cls: number for number, cls in enumerate(self.classes)}
        # By class: all values of its fields, in the order that its constructor takes them.
        self.values = {
            cls: _reader(_field_names(cls))
            for cls in self.classes
            if not issubclass(cls, enum.Enum)
        }
        self.counts = {cls: len(_field_names(cls)) for cls in self.values}


def _field_names(cls: Any) -> tuple[str, ...]:
    if is_dataclass(cls):
        return tuple(one.name for one in fields(cls))
    names: tuple[str, ...] = cls._fields
    return names


def _reader(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def encode(value: Any, table: Table) -> Message:
    """A value as a message.

    Raises:
        TaskFailedError: E274, an array's dtype cannot be told to another process.
        TypeError: The value is of no kind that may cross: a defect.
    """
    writer = _Writer(table)
    writer.write(value)
    return Message(writer.head, writer.apart)


def decode(head: bytes | bytearray | memoryview, table: Table, fill: Fill) -> Any:
    """The value of a message; ``fill`` is called for each array that was sent apart, in order."""
    return _Reader(head, table, fill).read()


class _Writer:
    def __init__(self, table: Table) -> None:
        self.head = bytearray()
        self.apart: list[memoryview] = []
        self._table = table

    def write(self, value: Any) -> None:
        """Any value."""
        write = _WRITERS.get(type(value))
        if write is not None:
            write(self, value)
        elif type(value) in self._table.numbers:
            self._listed(value)
        elif isinstance(value, np.generic):
            self._numpy(value)
        elif tensors.is_tensor(value):
            self._tensor(value)
        elif isinstance(value, Mapping):
            self.mapping(value)
        else:
            raise TypeError(f"{type(value).__qualname__} cannot cross to another process")

    def constant(self, value: Any) -> None:
        """None, a bool, or an ellipsis."""
        self.head += _CONSTANT_TAGS[value]

    def integer(self, value: int) -> None:
        """An int of any size."""
        if -_INT64 <= value < _INT64:
            self.head += b"i" + _I64.pack(value)
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.head += b"I" + _U32.pack(len(raw)) + raw

    def real(self, value: float) -> None:
        """A float, by its bits."""
        self.head += b"f" + _F64.pack(value)

    def complex(self, value: complex) -> None:
        """A complex number, by its bits."""
        self.head += b"c" + _PAIR.pack(value.real, value.imag)

    def text(self, value: str) -> None:
        """A text."""
        # Half of a surrogate pair is a text to Python, so it is one here.
        raw = value.encode("utf-8", "surrogatepass")
        self.head += b"s" + _U32.pack(len(raw)) + raw

    def raw(self, value: bytes) -> None:
        """Bytes."""
        self.head += b"b" + _U32.pack(len(value)) + value

    def row(self, value: tuple[Any, ...]) -> None:
        """A tuple."""
        self._items(b"t", value)

    def list(self, value: list[Any]) -> None:
        """A list."""
        self._items(b"l", value)

    def names(self, value: frozenset[Any]) -> None:
        """A frozen set of texts."""
        self._items(b"z", value)

    def mapping(self, value: Mapping[Any, Any]) -> None:
        """Keys and values, in their order."""
        self.head += b"d" + _U32.pack(len(value))
        for key, item in value.items():
            self.write(key)
            self.write(item)

    def counter(self, value: Counter) -> None:
        """A counter."""
        self.head += b"k"
        self.integer(value.value)

    def array(self, value: Array) -> None:
        """The order of axes in memory is kept; gaps, and steps back, are not."""
        if not value.flags.forc:
            value = value.copy(order="K")
        order = _axes_by_stride(value)
        self.head += b"a"
        self.text(_dtype_text(value.dtype))
        self.row(value.shape)
        self.row(order)
        if not value.nbytes:
            return
        flat = value.transpose(order).reshape(-1).view(np.uint8)
        if value.nbytes < APART_BYTES:
            self.head += flat.tobytes()
        else:
            self.apart.append(flat.data)

    def _numpy(self, value: np.generic) -> None:
        self.head += b"n"
        self.text(_dtype_text(value.dtype))
        self.raw(value.tobytes())

    def _tensor(self, value: Any) -> None:
        self.head += b"x"
        self.mapping(tensors.facts_of(value))
        self.array(tensors.to_arrays([value])[0])

    def _listed(self, value: Any) -> None:
        cls = type(value)
        number = _U16.pack(self._table.numbers[cls])
        if isinstance(value, enum.Enum):
            self.head += b"e" + number
            self.text(value.name)
        else:
            self.head += b"o" + number
            for item in self._table.values[cls](value):
                self.write(item)

    def _items(self, tag: bytes, items: Iterable[Any]) -> None:
        items = tuple(items)
        self.head += tag + _U32.pack(len(items))
        for item in items:
            self.write(item)


def _dtype_text(dtype: np.dtype[Any]) -> str:
    try:
        return dtype_text(dtype)
    except ValueError as error:
        raise TaskFailedError.of(
            "E274",
            f"a value of dtype {dtype} cannot be told to another process: {error}",
            "convert it to a plain dtype before it leaves the node",
        ) from error


_CONSTANT_TAGS: dict[Any, bytes] = {None: b"N", True: b"T", False: b"F", ...: b"E"}
_CONSTANTS = {tag[0]: value for value, tag in _CONSTANT_TAGS.items()}
_WRITERS: dict[type, Callable[[_Writer, Any], None]] = {
    type(None): _Writer.constant, bool: _Writer.constant, type(...): _Writer.constant,
    int: _Writer.integer, float: _Writer.real, complex: _Writer.complex, str: _Writer.text,
    bytes: _Writer.raw, tuple: _Writer.row, list: _Writer.list, frozenset: _Writer.names,
    dict: _Writer.mapping, Counter: _Writer.counter, np.ndarray: _Writer.array,
}  # fmt: skip


def _axes_by_stride(value: Array) -> tuple[int, ...]:
    """The axes from the slowest to the fastest in memory."""
    if value.flags.c_contiguous:
        return tuple(range(value.ndim))
    if value.flags.f_contiguous:
        return tuple(range(value.ndim))[::-1]
    return tuple(sorted(range(value.ndim), key=lambda axis: -value.strides[axis]))


class _Reader:
    def __init__(self, head: bytes | bytearray | memoryview, table: Table, fill: Fill) -> None:
        self._head = memoryview(head)
        self._table = table
        self._fill = fill
        self._at = 0

    def read(self) -> Any:
        """The next value."""
        tag = self._head[self._at]
        self._at += 1
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        return _READERS[tag](self)

    def integer(self) -> int:
        """An int of any size."""
        value: int = self._unpack(_I64)[0]
        return value

    def large(self) -> int:
        """An int of any size."""
        return int.from_bytes(self._bytes(), "little", signed=True)

    def real(self) -> float:
        """A float, by its bits."""
        value: float = self._unpack(_F64)[0]
        return value

    def complex(self) -> complex:
        """A complex number, by its bits."""
        return complex(*self._unpack(_PAIR))

    def text(self) -> str:
        """A text."""
        return str(self._bytes(), "utf-8", "surrogatepass")

    def raw(self) -> bytes:
        """Bytes."""
        return bytes(self._bytes())

    def row(self) -> tuple[Any, ...]:
        """A tuple."""
        return tuple([self.read() for _ in range(self._unpack(_U32)[0])])

    def list(self) -> list[Any]:
        """A list."""
        return [self.read() for _ in range(self._unpack(_U32)[0])]

    def names(self) -> frozenset[Any]:
        """A frozen set of texts."""
        return frozenset(self.list())

    def mapping(self) -> dict[Any, Any]:
        """Keys and values, in their order."""
        return {self.read(): self.read() for _ in range(self._unpack(_U32)[0])}

    def counter(self) -> Counter:
        """A counter."""
        return Counter(self.read())

    def array(self) -> Array:
        """An array that owns its memory."""
        dtype, shape, order = _parsed(self.read()), self.read(), self.read()
        value = _empty(dtype, shape, order)
        if value.nbytes:
            flat = value.transpose(order).reshape(-1).view(np.uint8).data
            if value.nbytes < APART_BYTES:
                flat[:] = self._take(value.nbytes)
            else:
                self._fill(flat)
        return value

    def tensor(self) -> Any:
        """A tensor of PyTorch."""
        facts = self.read()
        return tensors.from_array(self.read(), facts)

    def numpy(self) -> Any:
        """A numpy scalar."""
        value = np.empty((1,), _parsed(self.read()))
        raw = self.read()
        if raw:
            value.view(np.uint8).data[:] = raw
        return value[0]

    def listed(self) -> Any:
        """One of the classes of the table."""
        cls = self._table.classes[self._unpack(_U16)[0]]
        return cls(*[self.read() for _ in range(self._table.counts[cls])])

    def member(self) -> Any:
        """A member of an enum."""
        cls: Any = self._table.classes[self._unpack(_U16)[0]]
        return cls[self.read()]

    def _unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        at = self._at
        self._at = at + form.size
        return form.unpack_from(self._head, at)

    def _bytes(self) -> memoryview:
        return self._take(self._unpack(_U32)[0])

    def _take(self, count: int) -> memoryview:
        at = self._at
        self._at = at + count
        return self._head[at : at + count]


_READERS: dict[int, Callable[[_Reader], Any]] = {
    ord("i"): _Reader.integer, ord("I"): _Reader.large, ord("f"): _Reader.real,
    ord("c"): _Reader.complex, ord("s"): _Reader.text, ord("b"): _Reader.raw,
    ord("t"): _Reader.row, ord("l"): _Reader.list, ord("z"): _Reader.names,
    ord("d"): _Reader.mapping, ord("k"): _Reader.counter, ord("a"): _Reader.array,
    ord("n"): _Reader.numpy, ord("o"): _Reader.listed, ord("e"): _Reader.member,
    ord("x"): _Reader.tensor,
}  # fmt: skip


@lru_cache(maxsize=256)
def _parsed(text: str) -> np.dtype[Any]:
    return parse_dtype(text)


def _empty(dtype: np.dtype[Any], shape: tuple[int, ...], order: tuple[int, ...]) -> Array:
    """New memory of its own, with the axes in that order from the slowest to the fastest."""
    if order == tuple(range(len(shape))):
        return np.empty(shape, dtype)
    strides = [0] * len(shape)
    step = dtype.itemsize
    for axis in reversed(order):
        strides[axis] = step
        step *= max(1, shape[axis])
    # A view of nothing, read by nobody: only its form counts.
    form = np.lib.stride_tricks.as_strided(np.empty((1,), dtype), shape, strides)
    return np.empty_like(form, order="K")
