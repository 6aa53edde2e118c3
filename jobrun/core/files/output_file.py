"""Capture what is written to standard descriptors in files in memory, which processes share.

What a process that crashed had not read of it, the process that watches it reads.
"""

from __future__ import annotations

import codecs
import fcntl
import mmap
import os
import resource

from jobrun.core.system_calls import free_beginning, open_anonymous_file

_CHUNK_BYTES = 1 << 12
_FREE_EVERY_BYTES = 1 << 20
_LABEL_BYTES = 4096
# A run of several nodes needs about two dozen.
_ENOUGH_FILES = 64


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
        """Return the descriptors of a captured output file, for a child process to inherit."""
        return self.writing, self.reading, self._label

    def read(self) -> bytes:
        """Read captured output that was written since the last read, at most about 1 MiB."""
        # Usually there is nothing, at the begin and the end of each call: no memory is allocated.
        count = os.readv(self.reading, self._buffers)
        if count < _CHUNK_BYTES:
            return bytes(self._buffers[0][:count]) if count else b""
        parts = [bytes(self._buffers[0]), os.read(self.reading, _FREE_EVERY_BYTES)]
        self._free()
        return b"".join(parts)

    def rewind(self) -> None:
        """Move the read position of captured output to 0 if a program has truncated the file."""
        size_bytes = os.fstat(self.reading).st_size
        if size_bytes < os.lseek(self.reading, 0, os.SEEK_CUR):
            os.lseek(self.reading, 0, os.SEEK_SET)
            self._freed_bytes = 0

    def decode(self, data: bytes) -> str:
        """Decode captured output as UTF-8; keep an incomplete last character for the next read."""
        return self._decoder.decode(data)

    def write_label(self, text: str) -> None:
        """Record the task whose printed output is captured from now on."""
        data = text.encode(errors="replace")[: _LABEL_BYTES - 1] + b"\0"
        self._page[: len(data)] = data

    def read_label(self) -> str:
        """Return the task recorded last for captured output; empty if there is none."""
        return self._page[:].partition(b"\0")[0].decode(errors="replace")

    def close(self) -> None:
        """Close a file of captured output in this process; other processes may keep it open."""
        self._page.close()
        for number in self.inheritable:
            os.close(number)

    def _free(self) -> None:
        """Free the memory of captured output already read, by a hole in its ``memfd`` file."""
        position = os.lseek(self.reading, 0, os.SEEK_CUR)
        if position - self._freed_bytes >= _FREE_EVERY_BYTES:
            free_beginning(self.reading, position)
            self._freed_bytes = position


def open_output_files() -> tuple[OutputFile, ...]:
    """Open files in memory to capture stdout and stderr; one file if both go to the same place.

    None where the system has no such files, limits the size of files (``ulimit -f``), which would
    hold for these, or allows so few open files (``ulimit -n``) that the run needs each itself.
    """
    limited = resource.getrlimit(resource.RLIMIT_FSIZE)[0] != resource.RLIM_INFINITY
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    is_scarce = files != resource.RLIM_INFINITY and files < _ENOUGH_FILES
    if limited or is_scarce or not hasattr(os, "memfd_create"):
        return ()
    try:
        places = [(fact.st_dev, fact.st_ino) for fact in (os.fstat(1), os.fstat(2))]
        groups = ((1, 2),) if places[0] == places[1] else ((1,), (2,))
        return tuple(OutputFile(group) for group in groups)
    except OSError:
        # Descriptors are closed or used up: capture nothing.
        return ()
