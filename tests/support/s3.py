"""Serve S3 from a process of its own, over a connection on which things go wrong."""

from __future__ import annotations

import contextlib
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "kept-out-of-all-records"
VARIABLES = {
    "AWS_ACCESS_KEY_ID": "a-key",
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_REGION": "us-east-1",
}
_PATIENCE_S = 60


class S3Server:
    """One S3 server; its contents are lost with it."""

    def __init__(self, port: int = 0) -> None:
        self.port = port or _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "moto.server", "-H", "127.0.0.1", "-p",
             str(self.port)],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, **VARIABLES},
        )  # fmt: skip
        end = time.monotonic() + _PATIENCE_S
        while not self._answers():
            assert self._process.poll() is None, "the server ended"
            assert time.monotonic() < end, "the server does not answer"
            time.sleep(0.05)

    def make_bucket(self, name: str) -> None:
        self.request("PUT", name)

    def request(self, method: str, path: str, data: bytes | None = None) -> bytes:
        asked = urllib.request.Request(f"{self.url}/{path}", data, method=method)
        with urllib.request.urlopen(asked, timeout=30) as answer:
            return answer.read()

    def names(self, bucket: str) -> list[str]:
        """Return the names of all objects."""
        text = self.request("GET", f"{bucket}?list-type=2").decode()
        return [part.partition("</Key>")[0] for part in text.split("<Key>")[1:]]

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _answers(self) -> bool:
        try:
            self.request("GET", "moto-api/")
        except (urllib.error.URLError, OSError, http.client.HTTPException):
            return False
        return True


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


# Of a request: its method and its path. What happens to it: "" nothing; a number: that is the
# answer; "lose": it is carried out, and the connection ends without an answer; "flip": a byte of
# what is sent is another one.
Trouble = Callable[[str, str], str]


class TroubledWay:
    """A connection to a server on which things go wrong.

    Attributes:
        trouble: Says what happens to each request.
        seen: The requests, as method and path.
    """

    def __init__(self, server: S3Server) -> None:
        self.trouble: Trouble = lambda method, path: ""
        self.seen: list[tuple[str, str]] = []
        way = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_any(self) -> None:
                way.handle(self, server)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_any  # noqa: N815 - what is called

            def log_message(self, *args: object) -> None:
                """Ignore the message."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def handle(self, asked: BaseHTTPRequestHandler, server: S3Server) -> None:
        length = int(asked.headers.get("Content-Length") or 0)
        data = asked.rfile.read(length)
        trouble = self.trouble(asked.command, asked.path)
        self.seen.append((asked.command, asked.path))
        if trouble.isdecimal():
            asked.send_response(int(trouble))
            asked.send_header("Content-Length", "0")
            asked.end_headers()
            return
        if trouble == "flip" and data:
            data = bytes([data[0] ^ 1]) + data[1:]
        status, headers, body = self._passed_on(asked, server, data)
        if trouble == "lose":
            asked.close_connection = True
            return
        asked.send_response(status)
        for name, value in headers:
            if name.lower() not in {"connection", "transfer-encoding", "content-length"}:
                asked.send_header(name, value)
        whole = {name.lower(): value for name, value in headers}
        size = whole.get("content-length") if asked.command == "HEAD" else str(len(body))
        asked.send_header("Content-Length", size or "0")
        asked.end_headers()
        asked.wfile.write(body)

    @staticmethod
    def _passed_on(
        asked: BaseHTTPRequestHandler, server: S3Server, data: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        line = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        with contextlib.closing(line):
            # moto takes the bucket from the host's name when that looks like one of Amazon's.
            line.request(asked.command, asked.path, data or None, dict(asked.headers.items()))
            answer = line.getresponse()
            return answer.status, answer.getheaders(), answer.read()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextlib.contextmanager
def serving() -> Iterator[S3Server]:
    """Run a server while inside."""
    server = S3Server()
    try:
        yield server
    finally:
        server.kill()
