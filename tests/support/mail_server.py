"""A mail server that keeps what it gets: as much of SMTP (RFC 5321) as a client needs to send."""

from __future__ import annotations

import socketserver
import threading
from email import message_from_bytes
from email.message import Message


class MailServer:
    """Collects mails; use it in a ``with`` statement.

    Attributes:
        address: ``host:port``.
        got: The mails.
    """

    def __init__(self) -> None:
        self.got: list[Message] = []
        owner = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                self.wfile.write(b"220 here\r\n")
                for line in self.rfile:
                    word = line[:4].upper()
                    if word == b"DATA":
                        self.wfile.write(b"354 go on\r\n")
                        owner.got.append(message_from_bytes(b"".join(self._body())))
                    self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 ok\r\n")
                    if word == b"QUIT":
                        return

            def _body(self) -> list[bytes]:
                lines = []
                while (line := self.rfile.readline()) not in (b".\r\n", b""):
                    lines.append(line.removeprefix(b"."))
                return lines

        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> MailServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
