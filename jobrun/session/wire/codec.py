"""Encode values, classes and errors as the bytes of messages between processes, and carry them.

Only what is listed can be written, and nothing that is read can run anything: plain values,
tuples, lists and mappings of them, values of blobs of any kind, the frozen records, named
tuples and enums of a ``TypeTable``, and errors (``SerializedError``). Large arrays are not copied
into the message: their memory is sent behind it, and read straight into new arrays that own theirs.

A message travels through a socket (``SocketChannel``) as the length of its head, the head, and that
memory; or as a ``Frame``, an argument of a call of a Ray actor. Nothing here needs Ray.
"""

from __future__ import annotations

import builtins
import enum
import io
import json
import socket
import struct
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from operator import attrgetter
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct

from jobrun.checkpoint import checkpoint_times, store_protocol
from jobrun.checkpoint import task_groups as save_load_groups
from jobrun.checkpoint.hdf5.dtypes import dtype_text, parse_dtype
from jobrun.checkpoint.stores import object_references as elsewhere
from jobrun.core import errors, events, time_use
from jobrun.core import resource_usage as usage
from jobrun.core.errors import Fault, JobrunError, TaskFailedError
from jobrun.core.text import object_url as objecturl
from jobrun.graph import checkpoint_policy, conditions, readers, steps, types
from jobrun.graph import expressions as expr
from jobrun.graph.effects import DECLARED, DeclaredEffect
from jobrun.runtime.codegen import meter_protocol
from jobrun.runtime.context import cancel, frame, safe_point
from jobrun.session import base
from jobrun.session.base import GroupCancelledError
from jobrun.session.wire import file_messages
from jobrun.session.wire import partition_group as partition
from jobrun.values import container_flattening as trees
from jobrun.values import object_state as objects
from jobrun.values.adapters.registry import UnsavableError
from jobrun.values.axis_order import axis_order, dense_copy, empty_in_order, flat_view, is_dense
from jobrun.values.kinds import tensor as tensors
from jobrun.values.kinds.counter import Counter

Array = np.ndarray[Any, Any]
# Fills memory with the next out-of-band bytes that follow the message.
Fill = Callable[[memoryview], None]
# The head of a message, and the memory (uint8) of its large arrays.
Frame = tuple[bytes, list[np.ndarray[Any, np.dtype[np.uint8]]]]

# Smaller arrays are cheaper to copy into the head than to send out of band.
OUT_OF_BAND_BYTES = 1 << 14
_INT64 = 1 << 63
_U32, _I64, _F64 = struct.Struct("<I"), struct.Struct("<q"), struct.Struct("<d")
_PAIR, _U16 = struct.Struct("<dd"), struct.Struct("<H")

_LENGTH = struct.Struct("<I")
_BUFFER_BYTES = 1 << 16
# SO_SNDBUF and SO_RCVBUF: what the kernel buffers of a message; it may grant less.
_SOCKET_BYTES = 1 << 22

_MODULES = (
    checkpoint_policy, checkpoint_times, conditions, readers, elsewhere, errors, events,
    expr, file_messages, objects, objecturl, partition, safe_point, save_load_groups,
    meter_protocol, steps, store_protocol, time_use, types, usage,
)  # fmt: skip


class Message(NamedTuple):
    """An encoded message: a head, and the memory that follows it, in order."""

    head: bytearray
    out_of_band: list[memoryview]


class TypeTable:
    """The classes that encoded messages may contain; both sides run the same code."""

    def __init__(self, classes: Iterable[type]) -> None:
        self.classes = tuple(sorted(classes, key=lambda cls: (cls.__module__, cls.__qualname__)))
        self.numbers = {cls: number for number, cls in enumerate(self.classes)}
        # By class: all values of its fields, in the order that its constructor takes them.
        self.values = {
            cls: _field_getter(_field_names(cls))
            for cls in self.classes
            if not issubclass(cls, enum.Enum)
        }
        self.counts = {cls: len(_field_names(cls)) for cls in self.values}
        # Classes whose constructor takes some fields by keyword only.
        self.keywords = {
            cls: _field_names(cls) for cls in self.values if issubclass(cls, DeclaredEffect)
        }


def _field_names(cls: Any) -> tuple[str, ...]:
    names: tuple[str, ...] = cls.__struct_fields__ if issubclass(cls, Struct) else cls._fields
    return names


def _field_getter(names: tuple[str, ...]) -> Callable[[Any], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def encode(value: Any, table: TypeTable) -> Message:
    """Encode a value as the bytes of a message.

    Raises:
        TaskFailedError: E274, an array's dtype cannot be encoded.
        TypeError: The value is of no kind that may cross: a defect.
    """
    writer = _Writer(table)
    writer.write(value)
    return Message(writer.head, writer.out_of_band)


def decode(head: bytes | bytearray | memoryview, table: TypeTable, fill: Fill) -> Any:
    """Decode a message's bytes; ``fill`` reads each array that was sent out of band, in order."""
    return _Reader(head, table, fill).read()


class _Writer:
    def __init__(self, table: TypeTable) -> None:
        self.head = bytearray()
        self.out_of_band: list[memoryview] = []
        self._table = table
        # True within a container in which no mutable object occurs twice.
        self._is_plain = False

    def write(self, value: Any) -> None:
        """Encode a value of any supported kind into a message."""
        write = _WRITERS.get(type(value))
        if write is not None:
            write(self, value)
        elif type(value) in self._table.numbers:
            self._listed(value)
        elif isinstance(value, np.generic):
            self._numpy(value)
        elif tensors.is_tensor(value):
            self._tensor(value)
        elif trees.is_tree(value):
            self._tree(value)
        elif isinstance(value, Mapping):
            self.mapping(value)
        else:
            raise TypeError(f"{type(value).__qualname__} cannot cross to another process")

    def constant(self, value: Any) -> None:
        """Encode None, a bool, or an ellipsis for a message."""
        self.head += _CONSTANT_TAGS[value]

    def integer(self, value: int) -> None:
        """Encode an int of any size for a message."""
        if -_INT64 <= value < _INT64:
            self.head += b"i" + _I64.pack(value)
        else:
            raw = value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)
            self.head += b"I" + _U32.pack(len(raw)) + raw

    def real(self, value: float) -> None:
        """Encode a float for a message, by its bits."""
        self.head += b"f" + _F64.pack(value)

    def complex(self, value: complex) -> None:
        """Encode a complex number for a message, by its bits."""
        self.head += b"c" + _PAIR.pack(value.real, value.imag)

    def text(self, value: str) -> None:
        """Encode a str for a message."""
        # surrogatepass: Python strings may hold lone surrogates.
        raw = value.encode("utf-8", "surrogatepass")
        self.head += b"s" + _U32.pack(len(raw)) + raw

    def raw(self, value: bytes) -> None:
        """Encode bytes for a message."""
        self.head += b"b" + _U32.pack(len(value)) + value

    def row(self, value: tuple[Any, ...]) -> None:
        """Encode a tuple for a message, item by item."""
        self._items(b"t", value)

    def list(self, value: list[Any]) -> None:
        """Encode a list for a message, item by item."""
        self._items(b"l", value)

    def names(self, value: frozenset[Any]) -> None:
        """Encode a frozenset of strings for a message."""
        self._items(b"z", value)

    def mapping(self, value: Mapping[Any, Any]) -> None:
        """Encode the keys and values of a dict for a message, in their order."""
        self.head += b"d" + _U32.pack(len(value))
        for key, item in value.items():
            self.write(key)
            self._write_item(item)

    def counter(self, value: Counter) -> None:
        """Encode a counter for a message, by its value."""
        self.head += b"k"
        self.integer(value.value)

    def array(self, value: Array) -> None:
        """Encode an array into a message; axis order is kept, gaps and negative strides are not."""
        if not is_dense(value):
            value = dense_copy(value)
        order = axis_order(value)
        self.head += b"a"
        self.text(_dtype_text(value.dtype))
        self.row(value.shape)
        self.row(order)
        if not value.nbytes:
            return
        flat = flat_view(value, order).view(np.uint8)
        if value.nbytes < OUT_OF_BAND_BYTES:
            self.head += flat.tobytes()
        else:
            self.out_of_band.append(flat.data)

    def _numpy(self, value: np.generic) -> None:
        self.head += b"n"
        self.text(_dtype_text(value.dtype))
        self.raw(value.tobytes())

    def _tensor(self, value: Any) -> None:
        self.head += b"x"
        self.mapping(tensors.tensor_facts(value))
        self.array(tensors.to_arrays([value])[0])

    def _tree(self, value: Any) -> None:
        """Encode a structured container into a message, such as a dataclass or OrderedDict."""
        self._parts(trees.flatten(value))

    def _parts(self, parts: trees.Parts) -> None:
        self.head += b"y"
        self.text(json.dumps(parts.structure))
        self.mapping(parts.leaves)

    def _listed(self, value: Any) -> None:
        cls = type(value)
        number = _U16.pack(self._table.numbers[cls])
        if isinstance(value, enum.Enum):
            self.head += b"e" + number
            self.text(value.name)
        else:
            self.head += b"o" + number
            was_plain, self._is_plain = self._is_plain, False
            for item in self._table.values[cls](value):
                self.write(item)
            self._is_plain = was_plain

    def _items(self, tag: bytes, items: Iterable[Any]) -> None:
        items = tuple(items)
        self.head += tag + _U32.pack(len(items))
        for item in items:
            # Most items are no containers, and this loop is hot in calls to nodes.
            (self._write_item if type(item) in _CONTAINERS else self.write)(item)

    def _write_item(self, value: Any) -> None:
        """Encode one item of a container into a message; an object that occurs twice stays one."""
        if self._is_plain or type(value) not in _CONTAINERS or not value:
            self.write(value)
        elif _shares_parts(value) and (parts := _parts_of(value)) is not None:
            self._parts(parts)
        else:
            self._is_plain = True
            self.write(value)
            self._is_plain = False


def _shares_parts(value: Any) -> bool:
    """Return whether a value to encode for a message contains a mutable object twice."""
    seen = set[int]()
    unvisited = [value]
    while unvisited:
        part = unvisited.pop()
        if type(part) is not tuple:
            if id(part) in seen:
                return True
            seen.add(id(part))
        if type(part) in _CONTAINERS:
            items = part.values() if isinstance(part, Mapping) else part
            unvisited += [item for item in items if type(item) not in _IMMUTABLE]
    return False


def _parts_of(value: Any) -> trees.Parts | None:
    """Flatten a container to encode it for a message; None if no checkpoint could hold it."""
    try:
        return trees.flatten(value)
    except UnsavableError:
        return None


def _dtype_text(dtype: np.dtype[Any]) -> str:
    try:
        return dtype_text(dtype)
    except ValueError as error:
        raise TaskFailedError.of(
            "E274",
            f"a value of dtype {dtype} cannot be sent to another process: {error}",
            "convert it to a plain dtype before it leaves the node",
        ) from error


_CONTAINERS = {tuple, list, dict}
_IMMUTABLE = {type(None), bool, int, float, complex, str, bytes, frozenset, type(...)}
_CONSTANT_TAGS: dict[Any, bytes] = {None: b"N", True: b"T", False: b"F", ...: b"E"}
_CONSTANTS = {tag[0]: value for value, tag in _CONSTANT_TAGS.items()}
_WRITERS: dict[type, Callable[[_Writer, Any], None]] = {
    type(None): _Writer.constant, bool: _Writer.constant, type(...): _Writer.constant,
    int: _Writer.integer, float: _Writer.real, complex: _Writer.complex, str: _Writer.text,
    bytes: _Writer.raw, tuple: _Writer.row, list: _Writer.list, frozenset: _Writer.names,
    dict: _Writer.mapping, Counter: _Writer.counter, np.ndarray: _Writer.array,
}  # fmt: skip


class _Reader:
    def __init__(self, head: bytes | bytearray | memoryview, table: TypeTable, fill: Fill) -> None:
        self._head = memoryview(head)
        self._table = table
        self._fill = fill
        self._at = 0

    def read(self) -> Any:
        """Decode the next value of a message."""
        tag = self._head[self._at]
        self._at += 1
        if tag in _CONSTANTS:
            return _CONSTANTS[tag]
        return _READERS[tag](self)

    def integer(self) -> int:
        """Decode an int of 64 bits from a message."""
        value: int = self._unpack(_I64)[0]
        return value

    def large(self) -> int:
        """Decode an int of any size from a message."""
        return int.from_bytes(self._bytes(), "little", signed=True)

    def real(self) -> float:
        """Decode a float from a message, by its bits."""
        value: float = self._unpack(_F64)[0]
        return value

    def complex(self) -> complex:
        """Decode a complex number from the two floats that a message has for it."""
        return complex(*self._unpack(_PAIR))

    def text(self) -> str:
        """Decode a str from a message."""
        return str(self._bytes(), "utf-8", "surrogatepass")

    def raw(self) -> bytes:
        """Decode bytes from a message."""
        return bytes(self._bytes())

    def row(self) -> tuple[Any, ...]:
        """Decode a tuple from a message, item by item."""
        return tuple([self.read() for _ in range(self._unpack(_U32)[0])])

    def list(self) -> list[Any]:
        """Decode a list from a message, item by item."""
        return [self.read() for _ in range(self._unpack(_U32)[0])]

    def names(self) -> frozenset[Any]:
        """Decode a frozenset of strings from a message."""
        return frozenset(self.list())

    def mapping(self) -> dict[Any, Any]:
        """Decode the keys and values of a dict in a message, in their order."""
        return {self.read(): self.read() for _ in range(self._unpack(_U32)[0])}

    def counter(self) -> Counter:
        """Decode a counter from a message."""
        return Counter(self.read())

    def array(self) -> Array:
        """Decode an array from a message; the array owns its memory."""
        dtype, shape, order = _parse_dtype(self.read()), self.read(), self.read()
        value = empty_in_order(shape, dtype, order)
        if value.nbytes:
            flat = flat_view(value, order).view(np.uint8).data
            if value.nbytes < OUT_OF_BAND_BYTES:
                flat[:] = self._take(value.nbytes)
            else:
                self._fill(flat)
        return value

    def tensor(self) -> Any:
        """Decode a tensor of PyTorch from a message."""
        facts = self.read()
        return tensors.from_array(self.read(), facts)

    def tree(self) -> Any:
        """Decode a container, such as a list or a dataclass, from a message.

        An instance of a class that is not imported here gets a stand-in.
        """
        structure = json.loads(self.read())
        return trees.unflatten(structure, self.read())

    def numpy(self) -> Any:
        """Decode a numpy scalar from a message."""
        value = np.empty((1,), _parse_dtype(self.read()))
        raw = self.read()
        if raw:
            value.view(np.uint8).data[:] = raw
        return value[0]

    def listed(self) -> Any:
        """Decode from a message an instance of one of the codec's known classes, field by field."""
        cls = self._table.classes[self._unpack(_U16)[0]]
        values = [self.read() for _ in range(self._table.counts[cls])]
        names = self._table.keywords.get(cls)
        return cls(**dict(zip(names, values, strict=True))) if names else cls(*values)

    def member(self) -> Any:
        """Decode a member of an enum from a message."""
        cls: Any = self._table.classes[self._unpack(_U16)[0]]
        return cls[self.read()]

    def _unpack(self, layout: struct.Struct) -> tuple[Any, ...]:
        at = self._at
        self._at = at + layout.size
        return layout.unpack_from(self._head, at)

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
    ord("x"): _Reader.tensor, ord("y"): _Reader.tree,
}  # fmt: skip


@lru_cache(maxsize=256)
def _parse_dtype(text: str) -> np.dtype[Any]:
    return parse_dtype(text)


def _list_wire_classes(module: ModuleType) -> list[type]:
    return [
        member
        for member in vars(module).values()
        if isinstance(member, type)
        and member.__module__ == module.__name__
        and (issubclass(member, Struct | enum.Enum) or hasattr(member, "_fields"))
    ]


class SerializedError(Struct, frozen=True):
    """An error as plain values.

    Attributes:
        kind: The name of its class.
        said: Its message, if it has no faults.
        trace: Where it was raised, for debugging.
    """

    kind: str
    message: str
    faults: tuple[Fault, ...] = ()
    tasks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trace: str = ""


WIRE_TYPES = TypeTable(
    {
        SerializedError,
        *DECLARED.values(),
        *(cls for module in _MODULES for cls in _list_wire_classes(module)),
    }
)


# Errors that are rebuilt with their own class.
_OWN_ERRORS: dict[str, type[BaseException]] = {
    member.__name__: member
    for module in (errors, base, cancel, frame)
    for member in vars(module).values()
    if isinstance(member, type) and issubclass(member, BaseException)
}


class RemoteTracebackError(Exception):
    """The cause of an error that was raised in another process: its traceback, as text."""


def serialize_error(error: BaseException) -> SerializedError:
    """Serialize an error: convert it to plain values that a message can carry."""
    notes = tuple(getattr(error, "__notes__", ()))
    trace = "".join(traceback.format_exception(error)).rstrip()
    kind = type(error).__name__
    if isinstance(error, JobrunError):
        return SerializedError(kind, "", error.faults, error.tasks, notes, trace)
    message = str(error.args[0]) if error.args else str(error)
    return SerializedError(kind, message, notes=notes, trace=trace)


def deserialize_error(serialized: SerializedError) -> BaseException:
    """Rebuild the error that was serialized into a message, of its class if that is known."""
    error = _build_error(serialized)
    for note in serialized.notes:
        error.add_note(note)
    if not isinstance(error, GroupCancelledError):
        error.__cause__ = RemoteTracebackError(f"\n{serialized.trace}")
    return error


def _build_error(serialized: SerializedError) -> BaseException:
    cls = _OWN_ERRORS.get(serialized.kind)
    if cls is not None and issubclass(cls, JobrunError):
        known = cls(*serialized.faults)
        known.tasks = serialized.tasks
        return known
    if cls is not None:
        return cls(serialized.message)
    python = getattr(builtins, serialized.kind, None)
    if isinstance(python, type) and issubclass(python, Exception):
        try:
            return python(serialized.message)
        except TypeError:
            pass
    return RuntimeError(f"{serialized.kind}: {serialized.message}")


class SocketChannel:
    """One end of a connection between two processes of a run.

    Args:
        end: Connected; the channel closes it.
    """

    def __init__(self, end: socket.socket) -> None:
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, _SOCKET_BYTES)
        self._end = end
        self._lock = threading.Lock()
        self._input = io.BufferedReader(socket.SocketIO(end, "r"), _BUFFER_BYTES)

    def send(self, *message: Any) -> None:
        """Send a whole message over the socket; block until the receiver has taken most of it.

        Raises:
            OSError: The other side has ended.
            TaskFailedError: E274, a value has a dtype that cannot be encoded.
        """
        head, out_of_band = encode(message, WIRE_TYPES)
        first = _LENGTH.pack(len(head)) + head
        with self._lock:
            self._end.sendall(first)
            for memory in out_of_band:
                self._end.sendall(memory)

    def receive(self) -> tuple[Any, ...] | None:
        """Receive the next message from the socket; return None after the socket's end.

        For one thread only.
        """
        try:
            length = self._input.read(_LENGTH.size)
            if len(length) < _LENGTH.size:
                return None
            head = self._input.read(_LENGTH.unpack(length)[0])
            message: tuple[Any, ...] = decode(head, WIRE_TYPES, self._fill)
        except (EOFError, OSError, ValueError, IndexError, struct.error):
            # Cut off within a message, or closed by ourselves.
            return None
        return message

    def close(self) -> None:
        """Shut down both directions of the socket; a receiving thread gets None."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def release(self) -> None:
        """Close the socket's descriptor, once no thread receives any more."""
        self._input.close()
        self._end.close()

    def _fill(self, memory: memoryview) -> None:
        while memory.nbytes:
            count = self._input.readinto(memory)
            if not count:
                raise EOFError
            memory = memory[count:]


def encode_frame(value: Any, *, copied: bool = False) -> Frame:
    """Encode a value as a message for Ray, sharing the memory of its arrays unless ``copied``.

    Raises:
        TaskFailedError: E274, an array's dtype cannot be encoded.
    """
    head, out_of_band = encode(value, WIRE_TYPES)
    arrays = [np.frombuffer(memory, np.uint8) for memory in out_of_band]
    return bytes(head), [array.copy() for array in arrays] if copied else arrays


def frame_size(frame: Frame) -> int:
    """Return the size in bytes of a message to or from an actor."""
    return len(frame[0]) + sum(array.nbytes for array in frame[1])


def decode_frame(frame: Frame) -> Any:
    """Decode the value of a message to or from an actor; its arrays own their memory."""
    head, arrays = frame
    unread = iter(arrays)

    def fill(memory: memoryview) -> None:
        memory[:] = next(unread).data

    return decode(head, WIRE_TYPES, fill)
