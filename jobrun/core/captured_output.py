"""Divide what a task prints into lines for its log, beside the terminal that shows it.

While a session is open, ``sys.stdout`` and ``sys.stderr`` pass on what is written to them, and give
it to the ``PrintedLines`` of the call that runs in the same context: ``print``, ``logging``,
``warnings``, progress bars. What C code and programs write to the descriptors 1 and 2 arrives in an
``OutputFile``, from which it is passed on in the same way; it is given to the call that began last
of those that run.

To look into the file takes system calls, and a callable may take less time than these. So nothing
is looked for between two calls of one task: what the first wrote is given to the second. It is
looked for as another task's call begins, before anything else is logged (``TaskEnded`` among it),
and all ``_LOOK_EVERY_S``.
"""

from __future__ import annotations

import contextlib
import functools
import io
import os
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from jobrun.core.files.output_file import OutputFile, open_output_files
from jobrun.core.system_calls import find_c_function

Listener = Callable[[Any], None]
# A line that is longer is passed on in parts.
_LONGEST = 1 << 16
# How long what C code writes may take to the terminal while the code runs.
_LOOK_EVERY_S = 0.1
_DESCRIPTORS = {"stdout": 1, "stderr": 2}

_printing: ContextVar[PrintedLines | None] = ContextVar("jobrun-printing", default=None)

_LINE_BUFFERED = 1


class PrintedLines:
    """Collects the lines that one call prints, until it returns.

    Of a line that was drawn again and again, as a progress bar is, only the last state counts.

    Args:
        emit: Is called with each line, without its end.
        task: Of which task the lines are, for the process that watches this one.
    """

    __slots__ = ("_emit", "_left", "task")

    def __init__(self, emit: Callable[[str], None], task: tuple[object, ...] = ()) -> None:
        self._emit = emit
        self.task = task
        # By stream: what is behind its last line feed.
        self._left: dict[str, str] = {}

    def add(self, stream: str, text: str) -> None:
        """Add printed text to a call's captured lines; emit each line that the text completes."""
        *lines, unfinished = (self._left.get(stream, "") + text).split("\n")
        self._left[stream] = ""
        for line in lines:
            self._emit_line(line)
        if len(unfinished) > _LONGEST:
            unfinished = _last_state(unfinished) + "\r"
        while len(unfinished) > _LONGEST:
            self._emit_line(unfinished[:_LONGEST])
            unfinished = unfinished[_LONGEST:]
        self._left[stream] = unfinished

    @property
    def has_rest(self) -> bool:
        """Return whether a call's captured output ends with an unfinished line."""
        return any(self._left.values())

    def is_of_same_task(self, other: PrintedLines) -> bool:
        """Return whether the captured lines of two calls belong to the same task and epoch."""
        return self.task == other.task

    def end(self) -> None:
        """Emit the unfinished last line of a call's captured output."""
        if not self._left:
            return
        unfinished, self._left = self._left, {}
        for text in unfinished.values():
            if text:
                self._emit_line(text)

    def _emit_line(self, line: str) -> None:
        state = _last_state(line)
        # A bar that was wiped out leaves blanks.
        if state.strip() or "\r" not in line.rstrip("\r"):
            self._emit(state)


def _last_state(line: str) -> str:
    return line.rstrip("\r").rpartition("\r")[2].rstrip()


class collect:  # noqa: N801 - a context, called like a function
    """Collects what this thread prints within the context, and what C code writes meanwhile."""

    __slots__ = ("_lines", "_token")

    def __init__(self, lines: PrintedLines) -> None:
        self._lines = lines

    def __enter__(self) -> None:
        self._token = _printing.set(self._lines)
        STREAMS.begin(self._lines)

    def __exit__(self, *error: object) -> None:
        _printing.reset(self._token)
        STREAMS.end(self._lines)
        self._lines.end()


def without_collecting(listen: Listener) -> Listener:
    """Wrap an event listener so that what it prints is not captured as a task's output.

    What a task has written to descriptors before an event is logged before it.
    """

    def act(event: Any) -> None:
        if not getattr(event, "printed", False):
            STREAMS.settle()
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
    """Takes what this process writes to its standard streams and descriptors.

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
        self._files: Sequence[OutputFile] | None = None
        self._captures: list[_Capture] = []
        self._running: list[PrintedLines] = []
        # The last call that ended, if its output to descriptors was not collected since.
        self._ended: PrintedLines | None = None
        self._labelled: tuple[object, ...] = ()
        self._arrived: deque[tuple[PrintedLines, str]] = deque()
        self._reading, self._delivering = threading.Lock(), threading.RLock()
        # Ends the thread that looks, and that thread, from the first call on.
        self._looking: tuple[threading.Event, threading.Thread] | None = None

    def use_files(self, files: Sequence[OutputFile]) -> None:
        """Use given files for captured output, which another process can read after a crash."""
        self._files = files

    def install(self) -> None:
        """Replace ``sys.stdout`` and ``sys.stderr`` by streams that collect what tasks print.

        Until ``remove`` has been called as often.
        """
        with self._lock:
            self._users += 1
            self.is_collecting = True
            if self._users == 1:
                self._kept = {"stdout": sys.stdout, "stderr": sys.stderr}
                self._capture_descriptors()
                for name, stream in self._kept.items():
                    if stream is not None:
                        shown = self._past_capture(stream)
                        setattr(sys, name, CollectingStream(stream, name, shown))

    def remove(self) -> None:
        """Restore ``sys.stdout`` and ``sys.stderr`` once no session captures output any more."""
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self._release_descriptors()
                for name, stream in self._kept.items():
                    if isinstance(getattr(sys, name), CollectingStream):
                        setattr(sys, name, stream)

    def stop_collecting(self) -> None:
        """Stop capturing printed output in a forked process, as the parent process captures it."""
        self.is_collecting = False
        # Its parent reads them, and shows what the descriptors get.
        self._captures = []

    def original(self, number: int) -> int:
        """Return the descriptor that a standard stream wrote to before its output was captured."""
        originals = (
            capture.originals[number] for capture in self._captures if number in capture.originals
        )
        return next(originals, number)

    def begin(self, lines: PrintedLines) -> None:
        """Begin to capture in ``PrintedLines`` what a task's Python function prints."""
        if self._captures:
            ended = self._ended
            if self._running or ended is None or not lines.is_of_same_task(ended):
                self.settle()
                self.pass_on()
        self._running.append(lines)
        ended, self._ended = self._ended, None
        if ended is not None and ended.has_rest:
            with self._delivering:
                ended.end()
        if self._captures:
            self._label(lines)
            if self._looking is None:
                self._look_from_now_on()

    def end(self, lines: PrintedLines) -> None:
        """Stop capturing in ``PrintedLines`` what a task's Python function prints."""
        if self._captures and self._running == [lines]:
            # Before it is taken out, so that there is always one to whom a text is given.
            self._ended = lines
            self._running.remove(lines)
            return
        if self._captures:
            self.pass_on(is_all=True)
        with contextlib.suppress(ValueError):
            self._running.remove(lines)
        if self._captures and (running := self._running[-1:]):
            self._label(running[0])

    def settle(self) -> None:
        """Add captured output that arrived after a call's end to the lines of that call."""
        if self._ended is None:
            return
        self.pass_on(is_all=True)
        ended, self._ended = self._ended, None
        if ended is not None:
            ended.end()

    def pass_on(self, *, is_all: bool = False, adds: bool = True) -> None:
        """Copy new captured output to the terminal and to the lines of the running task.

        Args:
            is_all: Wait for another thread that is just adding to lines. Not within a lock that
                a listener to the lines may need.
            adds: Add to the lines; else a later call does.
        """
        with self._reading:
            if is_all and self._captures:
                self._captures[0].flush()
            for capture in self._captures:
                running = self._running[-1:]
                lines = running[0] if running else self._ended
                text = capture.pass_on(is_shown=self.is_shown or lines is None)
                if lines is not None and text:
                    self._arrived.append((lines, text))
        # Without the lock: a listener to the lines may print, and so come by here again.
        if adds and self._arrived and self._delivering.acquire(blocking=is_all):
            try:
                while self._arrived:
                    lines, text = self._arrived.popleft()
                    lines.add("descriptor", text)
                    if lines is not self._ended and lines not in self._running:
                        # Its call has ended meanwhile, and another one has begun.
                        lines.end()
            finally:
                self._delivering.release()

    def _label(self, lines: PrintedLines) -> None:
        if self._labelled != lines.task:
            self._labelled = lines.task
            self._captures[0].file.write_label("\n".join(map(str, lines.task)))

    def _capture_descriptors(self) -> None:
        for stream in self._kept.values():
            with contextlib.suppress(Exception):
                stream.flush()
        is_own = self._files is None
        files = open_output_files() if self._files is None else self._files
        self._captures = [_Capture(file, is_own=is_own) for file in files]
        self._labelled = ()

    def _release_descriptors(self) -> None:
        if self._looking is not None:
            (stop, thread), self._looking = self._looking, None
            stop.set()
            thread.join()
        self.settle()
        self.pass_on(is_all=True)
        for name in self._kept:
            with contextlib.suppress(Exception):
                getattr(sys, name).flush()
        with self._reading:
            captures, self._captures = self._captures, []
            for capture in captures:
                capture.close()

    def _past_capture(self, stream: Any) -> Any:
        """Return a stream that bypasses the capture of output and writes to the old descriptor."""
        try:
            number = stream.fileno()
        except (OSError, ValueError, AttributeError):
            return stream
        for capture in self._captures:
            if number in capture.originals:
                is_direct = getattr(stream, "write_through", False)
                raw = io.FileIO(capture.originals[number], "wb", closefd=False)
                return io.TextIOWrapper(
                    raw if is_direct else io.BufferedWriter(raw),
                    encoding=stream.encoding,
                    errors=stream.errors,
                    line_buffering=getattr(stream, "line_buffering", True),
                    write_through=is_direct,
                )
        return stream

    def _look_from_now_on(self) -> None:
        with self._lock:
            if self._looking is not None or not self._captures:
                return
            stop = threading.Event()

            def look() -> None:
                while not stop.wait(_LOOK_EVERY_S):
                    self.pass_on()
                    for capture in self._captures:
                        capture.file.rewind()

            thread = threading.Thread(target=look, name="jobrun-output", daemon=True)
            # There may be no memory for one more: then output is passed on when its call ends.
            with contextlib.suppress(RuntimeError):
                thread.start()
                self._looking = stop, thread


class _Capture:
    """Redirects descriptors to a file, and passes on what arrives there to where they led."""

    def __init__(self, file: OutputFile, *, is_own: bool) -> None:
        self.file = file
        self._is_own = is_own
        self.flush = line_buffer_c_output()
        self.flush()
        #: By descriptor, a copy of what it was.
        self.originals = {number: os.dup(number) for number in file.descriptors}
        for number in file.descriptors:
            os.dup2(file.writing, number)

    def pass_on(self, *, is_shown: bool) -> str:
        """Return newly captured output as text; write it to the terminal, too, if ``is_shown``."""
        text = ""
        while data := self.file.read():
            if is_shown:
                write_all(self.originals[self.file.descriptors[0]], data)
            text += self.file.decode(data)
        return text

    def close(self) -> None:
        """Stop capturing printed output, and restore the standard descriptors."""
        self.flush()
        for number, original in self.originals.items():
            os.dup2(original, number)
        self.pass_on(is_shown=True)
        for original in self.originals.values():
            os.close(original)
        if self._is_own:
            self.file.close()


class LeftOutput(Struct, frozen=True):
    """What a process that has ended wrote to its descriptors, and did not pass on.

    Attributes:
        lines: Its lines.
        task: Of the call that began last; empty if none did.
        node: Of that call, as are ``instance`` and ``epoch``.
    """

    lines: tuple[str, ...]
    task: str
    node: str = ""
    instance: int = 0
    epoch: int = 0


def take_left_output(files: Iterable[OutputFile]) -> list[LeftOutput]:
    """Read captured output that a dead process left in its files; print it and return its lines."""
    outputs = []
    for file in files:
        lines: list[str] = []
        printed = PrintedLines(lines.append)
        task, *call = file.read_label().split("\n")
        while data := file.read():
            if STREAMS.is_shown or not task:
                write_all(file.descriptors[0], data)
            printed.add("descriptor", file.decode(data))
        printed.end()
        if lines:
            node, instance, epoch = call or ("", 0, 0)
            outputs.append(LeftOutput(tuple(lines), task, node, int(instance), int(epoch)))
    return outputs


def write_all(descriptor: int, data: bytes) -> None:
    """Write captured output to its original terminal or pipe; drop bytes that cannot be written."""
    view = memoryview(data)
    with contextlib.suppress(OSError):
        while view:
            view = view[os.write(descriptor, view) :]


STREAMS = StandardStreams()
# A callable may fork: the connection by which lines travel is its parent's.
os.register_at_fork(after_in_child=STREAMS.stop_collecting)


class CollectingStream:
    """A standard stream that collects what tasks print, and has all else of the one it wraps.

    Args:
        stream: The one it wraps.
        name: Of the stream.
        shown: Writes to where that one wrote before its descriptor was redirected.
    """

    def __init__(self, stream: Any, name: str, shown: Any = None) -> None:
        self._stream = stream
        self._shown = stream if shown is None else shown
        self._name = name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def fileno(self) -> int:
        """Return the descriptor of a captured stream, such as 1 for ``sys.stdout``."""
        return int(self._stream.fileno())

    @property
    def _target(self) -> Any:
        """Return the stream that shows captured text; in a forked process, the original stream."""
        return self._shown if STREAMS.is_collecting else self._stream

    @property
    def buffer(self) -> CollectingBuffer:
        """Return the binary layer (``sys.stdout.buffer``) of a stream that captures output."""
        return CollectingBuffer(self._target.buffer, self)

    def write(self, text: str) -> int:
        """Write text to the original stream, and add it to the running call's captured lines."""
        lines = _printing.get() if STREAMS.is_collecting else None
        if STREAMS.is_collecting:
            # Earlier output of C code comes first. A display that writes holds locks which
            # listeners to lines need, so it adds none.
            STREAMS.pass_on(adds=lines is not None)
        if lines is None or STREAMS.is_shown:
            self._target.write(text)
        if lines is not None:
            lines.add(self._name, text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several texts in turn to a stream that captures printed output."""
        for line in lines:
            self.write(line)

    def collect_bytes(self, data: Any) -> bool:
        """Add printed bytes to the captured lines of this thread's task; return False for none."""
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
        """Write bytes to the original stream, and add them as text to the captured lines."""
        if self._stream.collect_bytes(data) and not STREAMS.is_shown:
            return len(data)
        return int(self._buffer.write(data))


@functools.cache
def line_buffer_c_output() -> Callable[[], None]:
    """Make C's ``stdout`` line-buffered while output is captured; return its flush function.

    It would keep 4 KiB of output otherwise, as the descriptor leads to no terminal.
    """
    import ctypes  # noqa: PLC0415 - costs milliseconds, of which other commands have no use

    set_buffer, flush = find_c_function("setvbuf"), find_c_function("fflush")
    if set_buffer is None or flush is None:
        return lambda: None
    with contextlib.suppress(ValueError):
        stdout = ctypes.c_void_p.in_dll(ctypes.CDLL(None), "stdout")
        set_buffer(stdout, None, _LINE_BUFFERED, ctypes.c_size_t(0))
        return lambda: (flush(stdout), None)[1]
    return lambda: None
