"""Receive what C code writes to standard descriptors in a file that never blocks the writer.

A pipe would block: C code may hold the GIL while it writes, and then no thread of the process can
empty the pipe. The file has no name and lies in memory; what has been read of it is freed.
"""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import functools
import mmap
import os
import resource
from collections.abc import Callable

from jobrun.core.system_calls import find_c_function, free_beginning, open_anonymous_file

_CHUNK_BYTES = 1 << 12
_FREE_EVERY_BYTES = 1 << 20
_LABEL_BYTES = 4096
_LINE_BUFFERED = 1


class OutputFile:
    """A file in memory that takes what is written to standard descriptors, and a label.

    It is read through a descriptor of its own, whose position all processes share that inherit
    it: what a process that crashed has not read, the process that watches it reads.

    Args:
        descriptors: Those whose output it takes.
        inherited: Its three descriptors, in a process that was started with them.
    """

    def __init__(
        self, descriptors: tuple[int, ...], inherited: tuple[int, int, int] | None = None
    ) -> None:
        self.descriptors = descriptors
        if inherited is None:
            self.writing = open_anonymous_file("jobrun-output")
            fcntl.fcntl(self.writing, fcntl.F_SETFL, os.O_APPEND)
            self.reading = os.open(f"/proc/self/fd/{self.writing}", os.O_RDWR | os.O_CLOEXEC)
            self._label = open_anonymous_file("jobrun-label")
            os.ftruncate(self._label, _LABEL_BYTES)
        else:
            self.writing, self.reading, self._label = inherited
            for number in inherited:
                os.set_inheritable(number, False)
        self._page = mmap.mmap(self._label, _LABEL_BYTES)
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._buffers = [bytearray(_CHUNK_BYTES)]
        self._freed_bytes = 0

    @property
    def inheritable(self) -> tuple[int, int, int]:
        """The output file's descriptors that a child process inherits to write to it."""
        return self.writing, self.reading, self._label

    def read(self) -> bytes:
        """Read what was written to the output file since the last call; about 1 MiB at most."""
        # Usually there is nothing, at the begin and the end of each call: no memory is allocated.
        count = os.readv(self.reading, self._buffers)
        if count < _CHUNK_BYTES:
            return bytes(self._buffers[0][:count]) if count else b""
        parts = [bytes(self._buffers[0]), os.read(self.reading, _FREE_EVERY_BYTES)]
        self._free()
        return b"".join(parts)

    def rewind(self) -> None:
        """Read from the beginning if a program has emptied the file: ``> /dev/stderr`` does."""
        size_bytes = os.fstat(self.reading).st_size
        if size_bytes < os.lseek(self.reading, 0, os.SEEK_CUR):
            os.lseek(self.reading, 0, os.SEEK_SET)
            self._freed_bytes = 0

    def decode(self, data: bytes) -> str:
        """Decode what was read from the output file; an incomplete character waits."""
        return self._decoder.decode(data)

    def write_label(self, text: str) -> None:
        """Write into the output file the label of the task that is printing from now on."""
        data = text.encode(errors="replace")[: _LABEL_BYTES - 1] + b"\0"
        self._page[: len(data)] = data

    def read_label(self) -> str:
        """Return the label of the printing task that the output file holds last; or ""."""
        return self._page[:].partition(b"\0")[0].decode(errors="replace")

    def close(self) -> None:
        """Close the file in this process."""
        self._page.close()
        for number in self.inheritable:
            os.close(number)

    def _free(self) -> None:
        """Free the memory of the part of the output file that has been read."""
        position = os.lseek(self.reading, 0, os.SEEK_CUR)
        if position - self._freed_bytes >= _FREE_EVERY_BYTES:
            free_beginning(self.reading, position)
            self._freed_bytes = position


def open_output_files() -> tuple[OutputFile, ...]:
    """Open files for the standard descriptors: one for both where they lead to the same place.

    None where the system has no such files, or limits the size of files (``ulimit -f``), which
    would hold for these.
    """
    limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    if limited or not hasattr(os, "memfd_create"):
        return ()
    try:
        places = [(one.st_dev, one.st_ino) for one in (os.fstat(1), os.fstat(2))]
        groups = ((1, 2),) if places[0] == places[1] else ((1,), (2,))
        return tuple(OutputFile(group) for group in groups)
    except OSError:
        # Closed descriptors, or no more of them: then nothing is taken.
        return ()


@functools.cache
def line_buffer_c_output() -> Callable[[], None]:
    """Let C code's ``stdout`` write whole lines to the output file; return its flush function.

    It would keep 4 KiB of them otherwise, as the descriptor leads to no terminal.
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
