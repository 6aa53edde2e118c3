"""A real HTTP server that keeps what is posted to it, and can refuse, hang, redirect or fail."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class NewsServer:
    """Collects posted JSON; use it in a ``with`` statement.

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
