"""Read a spec file as strict UTF-8 text, and refuse forbidden characters by their position."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from pathlib import Path

from jobrun.core.errors import Fault, Origin, SpecError
from jobrun.core.text.names import nearest
from jobrun.core.text.patterns import lazy_pattern

LARGEST_FILE_BYTES = 16 * 1024 * 1024

# Control characters, line separators that editors do not count as lines, direction
# marks that make a line look like another one, and what is no character at all.
FORBIDDEN = lazy_pattern(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029"
    "\u202a-\u202e\u2066-\u2069\ufeff\ufffe\uffff]|\r(?!\n)"
)
_BYTE_ORDER_MARKS = (
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)


def read_text(path: str, shown: str) -> str:
    """Read a spec file as text, without a byte order mark.

    Args:
        path: The file to open.
        shown: Its name in errors.

    Raises:
        SpecError: It cannot be read, is no regular file, is too large, is not UTF-8, or
            has characters that no spec needs.
    """
    return decode(_read_bytes(path, shown), shown)


def _read_bytes(path: str, shown: str) -> bytes:
    where = Origin(shown)
    if path.endswith((".py", ".ipynb")):
        message, mend = (
            "is a program, not a spec",
            "'jobrun new script' writes a spec that calls one",
        )
        raise SpecError.of("E001", message, mend, where=where)
    try:
        # O_NONBLOCK: opening a FIFO would otherwise wait for a writer.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        mend = "check the path and the permissions"
        if isinstance(error, FileNotFoundError):
            mend = _mend_missing(path)
        raise SpecError.of("E001", f"cannot be read: {reason}", mend, where=where) from error
    try:
        return _regular_file(descriptor, where)
    except OSError as error:
        message = f"cannot be read: {error.strerror}"
        raise SpecError.of("E001", message, "check the disk", where=where) from error
    finally:
        os.close(descriptor)


def _regular_file(descriptor: int, where: Origin) -> bytes:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        message = f"is {_kind(status.st_mode)}, not a regular file"
        raise SpecError.of("E001", message, "name a YAML file", where=where)
    if status.st_size > LARGEST_FILE_BYTES:
        raise _too_large(where, status.st_size)
    with os.fdopen(descriptor, "rb", closefd=False) as stream:
        # A file may grow while it is read.
        data = stream.read(LARGEST_FILE_BYTES + 1)
    if len(data) > LARGEST_FILE_BYTES:
        raise _too_large(where, len(data))
    return data


def _mend_missing(path: str) -> str:
    folder, name = Path(path).parent, Path(path).name
    if not folder.is_dir():
        return "check its directory"
    with contextlib.suppress(OSError):
        there = sorted(
            sibling.name for sibling in folder.iterdir() if sibling.suffix in {".yaml", ".yml"}
        )
        same = [file_name for file_name in there if Path(file_name).stem in (name, Path(name).stem)]
        if (match := next(iter(same), None) or nearest(name, there)) is not None:
            return f"did you mean '{folder / match}'?"
    return f"check its name; the directory is '{folder}'"


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a directory"
    return "a named pipe" if stat.S_ISFIFO(mode) else "a device or socket"


def _too_large(where: Origin, size_bytes: int) -> SpecError:
    limit = LARGEST_FILE_BYTES // (1024 * 1024)
    message = f"has {size_bytes} bytes or more; a spec has at most {limit} MiB"
    return SpecError.of("E002", message, "move data into data files", where=where)


def decode(data: bytes, shown: str) -> str:
    """Decode the bytes of a spec file as strict UTF-8, and report each forbidden character."""
    for mark, name in _BYTE_ORDER_MARKS:
        if data.startswith(mark):
            message = f"is {name}: it starts with the bytes {mark.hex(' ')}"
            mend = "save it as UTF-8"
            raise SpecError.of("E003", message, mend, where=Origin(shown, 1, 1))
    try:
        text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        good = error.object[: error.start].decode("utf-8")
        message = f"is not UTF-8: byte 0x{error.object[error.start]:02x}"
        raise SpecError.of(
            "E003", message, "save it as UTF-8", where=_position(good, len(good), shown)
        ) from error
    faults = [_forbidden(text, match, shown) for match in _first_few(text)]
    if faults:
        raise SpecError(*faults)
    return text


def _first_few(text: str) -> list[re.Match[str]]:
    matches = []
    for match in FORBIDDEN.finditer(text):
        matches.append(match)
        if len(matches) == 10:  # a binary file is reported once, not once per byte
            break
    return matches


def _forbidden(text: str, match: re.Match[str], shown: str) -> Fault:
    number = ord(match[0])
    value = f"byte 0x{number:02x}" if number < 0x80 else f"U+{number:04X}"
    mend = "delete it, or write it as an escape, such as \\u" + f"{number:04x} in double quotes"
    return Fault(
        "E004", f"invisible character: {value}", mend, _position(text, match.start(), shown)
    )


def _position(text: str, index: int, shown: str) -> Origin:
    """Return line and column of a character in the text of a spec, as an editor counts."""
    before = text[:index]
    line = before.count("\n") + 1
    return Origin(shown, line, index - (before.rfind("\n") + 1) + 1)
