"""Receive notifications: servers of HTTP and of mail that keep what they get, or refuse it."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Callable, Iterator
from email import message_from_bytes
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class NewsServer:
    """Collects posted JSON, or refuses, hangs, redirects or fails; use it in a ``with`` statement.

    Attributes:
        answers: Status codes, one for each request to come; 0 hangs, the last one is repeated.
        got: The documents that were answered with 200.
        asked: How many requests came.
    """

    def __init__(self, *answers: int, reads: Callable[[bytes], Any] = json.loads) -> None:
        self.answers = list(answers or (200,))
        self.got: list[Any] = []
        self.asked = 0
        self._end = threading.Event()
        self._reads = reads
        owner = self

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                owner._answer(self)

            def do_POST(self) -> None:
                owner._answer(self)

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}/a-secret-topic"

    def __enter__(self) -> NewsServer:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        body = b"".join(_body(request))
        code = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        if code == 0:
            self._end.wait()
            return
        if code == 200:
            self.got.append(self._reads(body))
        request.send_response(code)
        if code in (301, 302, 307):
            request.send_header("Location", self.url)
        request.end_headers()


def _body(request: BaseHTTPRequestHandler) -> Iterator[bytes]:
    """Read the body of a request, whose length is known or which comes in chunks."""
    if "Content-Length" in request.headers:
        yield request.rfile.read(int(request.headers["Content-Length"]))
        return
    while size := int(request.rfile.readline(), 16):
        yield request.rfile.read(size)
        request.rfile.readline()
    request.rfile.readline()


class MailServer:
    """Collects mails; use it in a ``with`` statement.

    It speaks as much of SMTP (RFC 5321) as a client needs to send.

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
