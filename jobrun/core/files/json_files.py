"""Read and write JSON: files that may be damaged or hostile, and files of JSON lines.

The files beside a run are for people and other programs to look at, so any of them may be damaged,
replaced by a pipe, or made to hurt. Nothing here waits for a pipe, follows a link, or recurses as
deep as a text asks for; whatever is wrong is an ``OSError`` or a ``ValueError``. No line may fill
the memory, and no hole in a file is read.

A line that a killed process, or a full disk, left without its end is torn. ``LineFile`` closes it
with a line feed before it adds the next line; a ``JournalFile`` is cut off behind its last whole
line instead.
"""

from __future__ import annotations

import functools
import json
import math
import os
import time
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar, Union

import msgspec
from msgspec import Struct
from msgspec.structs import fields

from jobrun.core.files.disk import (
    MOST_BYTES,
    open_append,
    open_regular,
    read_regular,
    sync_directory,
    sync_file,
    unshare,
    write_all,
    write_file,
)
from jobrun.core.text.big_integers import parse_hex

# Files of jobrun have at most ten levels, and ``json`` itself fails at a thousand.
MOST_DEPTH = 100
_INT64 = range(-(1 << 63), 1 << 63)
# The type of a metric's value: the only place for integers of any size, and for NaN.
_VALUE = frozenset({float, int, bool, str})
# JSON has no number for these: they are written as text, as long integers are (``0x…``).
_NOT_FINITE = frozenset({"nan", "inf", "-inf"})
_LINE_BYTES = 64 << 20
_STEP_BYTES = 1 << 20
_NEAR_BYTES = 4096
_MOST_COMPRESSED = 32
# To look at each line would take a tenth of a short epoch; and no copy of a run's directory is
# made within a millisecond.
_LOOK_EVERY_S = 1e-3
T = TypeVar("T")
_Check = Callable[[Any], Any]


def read_json(path: str | os.PathLike[str], most_bytes: int = MOST_BYTES) -> Any:
    """Read and parse a JSON file of limited size, whose contents may be malicious.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
        ValueError: It is too long, too deep, or no JSON.
    """
    return parse_json(read_regular(path, most_bytes))


def write_json(
    path: Path, content: Any, *, indent: int | None = None, private: bool = False
) -> None:
    """Write a value as a JSON file, which replaces an older one atomically and durably.

    Raises:
        OSError: The system refuses; what was there is unchanged.
    """
    write_file(path, json.dumps(content, indent=indent).encode() + b"\n", private=private)


def build_encoder(
    *,
    separators: tuple[str, str] = (", ", ": "),
    sort_keys: bool = False,
    ensure_ascii: bool = True,
    default: Callable[[Any], Any] | None = None,
) -> Callable[[Any], str]:
    """Build a fast function that encodes values as JSON text and raises ``ValueError`` for NaN.

    Made once: what ``json.dumps`` prepares for each text takes longer than a short text itself.

    Args:
        separators: Between items, and behind a key.
        sort_keys: Whether keys are sorted.
        ensure_ascii: Whether other characters are escaped.
        default: Converts what JSON lacks.
    """
    usual = json.JSONEncoder(
        separators=separators, sort_keys=sort_keys, ensure_ascii=ensure_ascii, default=default,
        allow_nan=False, check_circular=False,
    )  # fmt: skip
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return usual.encode
    text = json.encoder.encode_basestring_ascii if ensure_ascii else json.encoder.encode_basestring
    between, behind = separators
    encode = make(None, usual.default, text, None, behind, between, sort_keys, False, False)
    return lambda value: "".join(encode(value, 0))


def exact_json(content: Any) -> str:
    """Write JSON values as text without spaces, from which ``parse_json`` makes the same again.

    Half a surrogate pair stays what it is: as an escape, two in a row would be read as a character.
    """
    try:
        return msgspec.json.encode(content).decode()
    except (UnicodeEncodeError, OverflowError):
        return json.dumps(content, separators=(",", ":"), ensure_ascii=False)


def parse_json(text: bytes | str, most_depth: int = MOST_DEPTH) -> Any:
    """Parse JSON text; refuse text nested so deep that walking it could exhaust the stack.

    Raises:
        ValueError: It is deeper, or no JSON.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise _too_deep(most_depth) from None
    marks = (b"[", b"{") if isinstance(text, bytes) else ("[", "{")
    # With fewer brackets than levels there is nothing to measure.
    if sum(text.count(mark) for mark in marks) > most_depth:  # type: ignore[arg-type,misc]
        _require_shallow(content, most_depth)
    return content


def _too_deep(most_depth: int) -> ValueError:
    return ValueError(f"it is nested deeper than {most_depth} levels")


def _require_shallow(content: Any, most_depth: int) -> None:
    level = [content]
    for _ in range(most_depth + 1):
        if not level:
            return
        lists = [part for part in level if type(part) is list]
        lists += [list(part.values()) for part in level if type(part) is dict]
        level = list(chain.from_iterable(lists))
    raise _too_deep(most_depth)


def build(kind: type[T], content: Any) -> T:
    """Build a record from a JSON object, with checked types; ignore unknown keys.

    Lists become tuples; an int is accepted for a ``float`` field, a bool for no number. An
    integer has at most 64 bits and a float is finite, but for ``float | int | bool | str``.

    Args:
        kind: A ``msgspec.Struct`` with fields of ``str``, ``int``, ``float``, ``bool``, ``None``,
            ``Any``, ``Literal``, ``Mapping``, ``tuple``, records, and unions of these.
        content: What was parsed.

    Raises:
        ValueError: It is no object, or a field is missing, or not of its type.
    """
    if not isinstance(content, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 - one error for all that is wrong
    values = {}
    for name, (check, is_required) in _checks_of(typing.cast("Any", kind)).items():
        if name in content:
            try:
                values[name] = check(content[name])
            except ValueError as error:
                raise ValueError(f"field '{name}' {error}") from None
        elif is_required:
            raise ValueError(f"field '{name}' is missing")
    return kind(**values)


@functools.cache
def _checks_of(kind: type[Any]) -> dict[str, tuple[_Check, bool]]:
    return {part.name: (_check_of(part.type), part.required) for part in fields(kind)}


def _check_of(hint: Any) -> _Check:
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (Union, types.UnionType):
        if frozenset(inner) >= _VALUE:
            return _value_check(is_optional=type(None) in inner)
        return _union_check([_check_of(inner_hint) for inner_hint in inner])
    if origin is Literal:
        return _literal_check(inner)
    if origin is tuple:
        return _tuple_check(inner)
    if origin is not None and issubclass(origin, Mapping):
        return _mapping_check(_check_of(inner[1]))
    if isinstance(hint, type) and issubclass(hint, Struct):
        return functools.partial(build, typing.cast("type[Any]", hint))
    return _PLAIN.get(hint, _any)


def _any(value: Any) -> Any:
    return value


def _text(value: Any) -> str:
    if type(value) is not str:
        raise ValueError("is not text")
    return value


def _integer(value: Any) -> int:
    if type(value) is not int or value not in _INT64:
        raise ValueError("is not an integer of 64 bits")
    return value


def _number(value: Any) -> float:
    if type(value) is int and value in _INT64:
        return float(value)
    if type(value) is not float or not math.isfinite(value):
        raise ValueError("is not a finite number")
    return value


def _truth(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError("is not true or false")
    return value


def _nothing(value: Any) -> None:
    if value is not None:
        raise ValueError("is not null")


_PLAIN: dict[Any, _Check] = {
    str: _text, int: _integer, float: _number, bool: _truth, type(None): _nothing,
}  # fmt: skip


def _value_check(*, is_optional: bool) -> _Check:
    def check(value: Any) -> Any:
        if type(value) is str:
            long = parse_hex(value)
            return float(value) if value in _NOT_FINITE else value if long is None else long
        if type(value) not in _VALUE and not (is_optional and value is None):
            raise ValueError("is not a number or text")
        return value

    return check


def _union_check(checks: list[_Check]) -> _Check:
    def check(value: Any) -> Any:
        reasons = []
        for alternative in checks:
            try:
                return alternative(value)
            except ValueError as error:
                reasons.append(str(error))
        raise ValueError(", and ".join(dict.fromkeys(reasons)))

    return check


def _literal_check(known: tuple[Any, ...]) -> _Check:
    def check(value: Any) -> Any:
        if type(value) is not str or value not in known:
            raise ValueError(f"is none of {', '.join(map(str, known))}")
        return value

    return check


def _tuple_check(inner: tuple[Any, ...]) -> _Check:
    is_open = len(inner) == 2 and inner[1] is Ellipsis
    checks = [_check_of(inner_hint) for inner_hint in inner[:1] if is_open] or [
        _check_of(inner_hint) for inner_hint in inner
    ]

    def check(value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError("is not a list")  # noqa: TRY004
        if is_open:
            return tuple(map(checks[0], value))
        if len(value) != len(checks):
            raise ValueError(f"is not a list of {len(checks)}")
        return tuple(item_check(item) for item_check, item in zip(checks, value, strict=True))

    return check


def _mapping_check(inner: _Check) -> _Check:
    def check(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("is no JSON object")  # noqa: TRY004
        return value if inner is _any else {key: inner(item) for key, item in value.items()}

    return check


class LineFile:
    """A file of JSON lines to append to; it is opened when the first line is written.

    Its lines are not synced: a power cut may lose the last ones. A snapshot of hard links gets no
    line that is written later than a millisecond after it was made.

    Args:
        path: The file; its directory is made with the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = -1
        self._is_torn = False
        # By the monotonic clock: when to see whether a snapshot has the same file.
        self._look_s = 0.0

    def append(self, line: bytes) -> None:
        """Append a line, with its line feed, to a file of JSON lines, without ``fsync``.

        Raises:
            OSError: The system refuses; a part of the line may be in the file.
        """
        if self._descriptor < 0:
            self.path.parent.mkdir(exist_ok=True)
            self._descriptor = open_append(self.path)
            # A process that was killed may have written a part of its last line.
            end = os.fstat(self._descriptor).st_size
            self._is_torn = end > 0 and os.pread(self._descriptor, 1, end - 1) != b"\n"
        elif (now := time.monotonic()) >= self._look_s:
            self._look_s = now + _LOOK_EVERY_S
            self._descriptor = unshare(self.path, self._descriptor)
        try:
            write_all(self._descriptor, b"\n" + line if self._is_torn else line)
        except OSError:
            self._is_torn = True
            raise
        self._is_torn = False

    def close(self) -> None:
        """Close the file of JSON lines; a later line opens it again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


class JournalFile:
    """A durable file of JSON lines: each is on disk when ``append`` returns.

    Args:
        path: The file; it is made if it is not there, and its name is made durable.
        size_bytes: Where its last whole line ends; what is behind that is cut off.

    Raises:
        OSError: The system refuses.
    """

    def __init__(self, path: Path, size_bytes: int) -> None:
        self._path = path
        self._descriptor = open_append(path)
        try:
            if os.fstat(self._descriptor).st_size > size_bytes:
                os.ftruncate(self._descriptor, size_bytes)
            sync_file(self._descriptor)
            sync_directory(path.parent)
        except BaseException:
            self.close()
            raise

    def append(self, line: bytes) -> None:
        """Append a line, with its line feed, to a file of JSON lines, and ``fsync`` the file.

        Raises:
            OSError: The system refuses; whether the line is durable is unknown.
        """
        # A snapshot made of hard links must not get lines that are written after it.
        self._descriptor = unshare(self._path, self._descriptor)
        write_all(self._descriptor, line)
        sync_file(self._descriptor)

    def close(self) -> None:
        """Close the durable file of JSON lines; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def read_lines(path: str | os.PathLike[str]) -> Iterator[bytes]:
    """Yield the lines of a JSON lines file, with line feeds; the last line may be incomplete.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        while line := file.readline(_LINE_BYTES):
            if len(line) == _LINE_BYTES:
                # No line of ours: the rest of it could fill the memory, or be a hole of a terabyte.
                return
            yield line


def read_tail(path: str | os.PathLike[str], size_bytes: int, *, whole: bool = False) -> list[bytes]:
    """Read the lines in the last bytes of a JSON lines file; first and last may be incomplete.

    Args:
        path: The file.
        size_bytes: How many bytes at its end.
        whole: Leave out a first and a last line that are torn.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        start = max(0, os.fstat(file.fileno()).st_size - size_bytes)
        file.seek(start)
        lines = file.read(size_bytes).split(b"\n")
    if whole:
        return lines[1 if start else 0 : -1]
    return lines[:-1] if not lines[-1] else lines


def find_last_line(path: str | os.PathLike[str], mark: bytes) -> bytes:
    """Return the last line of a JSON lines file that contains the bytes ``mark``.

    The file is read backwards; the mark is in the first 4 KiB of its line.

    Returns:
        The line; empty for none.

    Raises:
        OSError: It is not there, is no regular file, or cannot be read.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        facts = os.fstat(file.fileno())
        at = facts.st_size
        # A hole of a terabyte takes no space on disk; compression saves less than that.
        first = max(0, at - max(_LINE_BYTES, _MOST_COMPRESSED * facts.st_blocks * 512))
        behind = b""
        while at > first:
            step = min(_STEP_BYTES, at)
            at -= step
            # A mark may lie across two steps.
            data = os.pread(file.fileno(), step, at) + behind
            if (position := data.rfind(mark)) >= 0:
                before = max(0, at + position - _NEAR_BYTES)
                start = os.pread(file.fileno(), at + position - before, before).rfind(b"\n")
                file.seek(before + start + 1)
                return file.readline(_LINE_BYTES).rstrip(b"\n")
            behind = data[: len(mark) - 1]
    return b""
