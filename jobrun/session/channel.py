"""Messages over a connected socket: whole, in order, from any thread. What they say is not known.

A message is the length of its head, the head, and the memory of large arrays, which goes from
the sender's array into the receiver's without another copy in this process.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
from typing import Any

from jobrun.session.codec import decode, encode
from jobrun.session.crossing import TABLE

_LENGTH = struct.Struct("<I")
_BUFFER_BYTES = 1 << 16
# What the kernel holds of a message before its receiver has to take some; it may grant less.
_SOCKET_BYTES = 1 << 22


class Channel:
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
        """Send a message whole; waits until the receiver has taken most of it.

        Raises:
            OSError: There is nobody any more.
            TaskFailedError: E274, a value has a dtype that cannot be told.
        """
        head, apart = encode(message, TABLE)
        first = _LENGTH.pack(len(head)) + head
        with self._lock:
            self._end.sendall(first)
            for memory in apart:
                self._end.sendall(memory)

    def receive(self) -> tuple[Any, ...] | None:
        """The next message, waited for; None when the other side has ended. One thread only."""
        try:
            length = self._input.read(_LENGTH.size)
            if len(length) < _LENGTH.size:
                return None
            head = self._input.read(_LENGTH.unpack(length)[0])
            message: tuple[Any, ...] = decode(head, TABLE, self._fill)
        except (EOFError, OSError, ValueError, IndexError, struct.error):
            # Cut off within a message, or closed by ourselves.
            return None
        return message

    def close(self) -> None:
        """End both directions; whoever receives gets None. May be called twice."""
        try:
            self._end.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    def release(self) -> None:
        """Give the socket back. Only when nobody receives any more."""
        self._input.close()
        self._end.close()

    def _fill(self, memory: memoryview) -> None:
        while memory.nbytes:
            count = self._input.readinto(memory)
            if not count:
                raise EOFError
            memory = memory[count:]
