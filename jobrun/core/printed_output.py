"""Divide what a task prints into lines for its log, beside the terminal that shows it.

While a session is open, ``sys.stdout`` and ``sys.stderr`` pass on what is written to them, and give
it to the ``PrintedLines`` of the call that runs in the same context: ``print``, ``logging``,
``warnings``, progress bars. What C code writes to the descriptors does not come by here.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

Listener = Callable[[Any], None]
# A line that is longer is passed on in parts.
_LONGEST = 1 << 16

_printing: ContextVar[PrintedLines | None] = ContextVar("jobrun-printing", default=None)


class PrintedLines:
    """Collects the lines that one call prints, until it returns.

    Of a line that was drawn again and again, as a progress bar is, only the last state counts.

    Args:
        emit: Is called with each line, without its end.
    """

    __slots__ = ("_emit", "_left")

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        # By stream: what is behind its last line feed.
        self._left: dict[str, str] | None = None

    def add(self, stream: str, text: str) -> None:
        """Add text that was written to a stream, and emit the lines that end in it."""
        if self._left is None:
            self._left = {}
        *lines, rest = (self._left.get(stream, "") + text).split("\n")
        self._left[stream] = ""
        for line in lines:
            self._emit_line(line)
        if len(rest) > _LONGEST:
            rest = _last_state(rest) + "\r"
        while len(rest) > _LONGEST:
            self._emit_line(rest[:_LONGEST])
            rest = rest[_LONGEST:]
        self._left[stream] = rest

    def end(self) -> None:
        """Emit what was printed without a line feed at its end."""
        left, self._left = self._left, None
        for text in left.values() if left else ():
            if text:
                self._emit_line(text)

    def _emit_line(self, line: str) -> None:
        state = _last_state(line)
        # A bar that was wiped out leaves blanks.
        if state.strip() or "\r" not in line.rstrip("\r"):
            self._emit(state)


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2].rstrip()


@contextlib.contextmanager
def collect(lines: PrintedLines) -> Iterator[None]:
    """Collect what this thread prints within the context."""
    token = _printing.set(lines)
    try:
        yield
    finally:
        _printing.reset(token)
        lines.end()


def without_collecting(listen: Listener) -> Listener:
    """Return a listener whose own printed output does not get into the log lines of a task."""

    def act(event: Any) -> None:
        if _printing.get() is None:
            listen(event)
            return
        token = _printing.set(None)
        try:
            listen(event)
        finally:
            _printing.reset(token)

    return act


class StandardStreams:
    """Puts streams that collect in the place of ``sys.stdout`` and ``sys.stderr`` of this process.

    Attributes:
        is_collecting: Whether what tasks print is logged.
        is_shown: Whether the terminal gets what tasks print, as it is written; a display that
            draws on the terminal shows the lines itself.
    """

    def __init__(self) -> None:
        self.is_shown = True
        self.is_collecting = False
        self._lock = threading.Lock()
        self._users = 0
        self._kept: dict[str, Any] = {}

    def install(self) -> None:
        """Replace ``sys.stdout`` and ``sys.stderr`` by streams that collect what tasks print.

        Until ``remove`` has been called as often.
        """
        with self._lock:
            self._users += 1
            self.is_collecting = True
            if self._users == 1:
                self._kept = {"stdout": sys.stdout, "stderr": sys.stderr}
                for name, stream in self._kept.items():
                    if stream is not None:
                        setattr(sys, name, CollectingStream(stream, name))

    def remove(self) -> None:
        """Put the standard streams back after the last use, unless others have replaced them."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                for name, stream in self._kept.items():
                    if isinstance(getattr(sys, name), CollectingStream):
                        setattr(sys, name, stream)

    def stop_collecting(self) -> None:
        """Stop collecting printed lines in a forked process; they still reach the terminal."""
        self.is_collecting = False


STREAMS = StandardStreams()
# A callable may fork: the connection by which lines travel is its parent's.
os.register_at_fork(after_in_child=STREAMS.stop_collecting)


class CollectingStream:
    """A standard stream that collects what tasks print, and has all else of the one it wraps."""

    def __init__(self, stream: Any, name: str) -> None:
        self._stream = stream
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    @property
    def buffer(self) -> CollectingBuffer:
        """The binary layer (``sys.stdout.buffer``) of a stream that collects printed lines."""
        return CollectingBuffer(self._stream.buffer, self)

    def write(self, text: str) -> int:
        """Write text to the wrapped stream, and add it to the lines of the call that runs here."""
        lines = _printing.get()
        if lines is None or not STREAMS.is_collecting:
            return int(self._stream.write(text))
        count = int(self._stream.write(text)) if STREAMS.is_shown else len(text)
        lines.add(self._name, text)
        return count

    def writelines(self, lines: Any) -> None:
        """Write texts one after the other."""
        for line in lines:
            self.write(line)

    def collect_bytes(self, data: Any) -> bool:
        """Add printed bytes to the lines of the task in this thread; return whether one runs."""
        lines = _printing.get()
        if lines is None or not STREAMS.is_collecting:
            return False
        lines.add(self._name, bytes(data).decode(errors="backslashreplace"))
        return True


class CollectingBuffer:
    """The stream of bytes behind a ``CollectingStream``."""

    def __init__(self, buffer: Any, stream: CollectingStream) -> None:
        self._buffer = buffer
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._buffer, name)

    def write(self, data: Any) -> int:
        """Write bytes to the wrapped stream, and collect them as text."""
        if self._stream.collect_bytes(data) and not STREAMS.is_shown:
            return len(data)
        return int(self._buffer.write(data))
