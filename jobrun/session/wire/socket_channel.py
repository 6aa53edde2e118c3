"""Send whole messages over a connected socket, in order, from any thread.

A message is the length of its head, the head, and the memory of large arrays, which goes from
the sender's array into the receiver's without another copy in this process.
"""

from __future__ import annotations

import io
import socket
import struct
import threading
from typing import Any

from jobrun.session.wire.codec import WIRE_TYPES, decode, encode

_LENGTH = struct.Struct("<I")
_BUFFER_BYTES = 1 << 16
# SO_SNDBUF and SO_RCVBUF: what the kernel buffers of a message; it may grant less.
_SOCKET_BYTES = 1 << 22


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
        """Receive the next message from the socket, or None at its end; by one thread only."""
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
