"""Run commands on another host, as ssh does: ``serve ADDRESS`` there, ``run ADDRESS COMMAND`` here.

An address is ``host:port``. A command gets the standard input of this side, to its end; then its
output and its exit code come back.
"""

from __future__ import annotations

import json
import socket
import socketserver
import subprocess
import sys


class _Login(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        command = json.loads(self.rfile.readline())
        done = subprocess.run(
            ["bash", "-c", command],
            input=self.rfile.read(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        self.wfile.write(json.dumps(done.returncode).encode() + b"\n" + done.stdout)


def _parsed(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)


def serve(address: str) -> None:
    """Serve commands one after the other; a line of standard output says when it begins."""
    with socketserver.TCPServer(_parsed(address), _Login) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()


def run(address: str, command: str) -> int:
    """Run a command on the host that serves at an address; return its exit code."""
    with socket.create_connection(_parsed(address)) as wire:
        wire.sendall(json.dumps(command).encode() + b"\n" + sys.stdin.buffer.read())
        wire.shutdown(socket.SHUT_WR)
        code, _, output = b"".join(iter(lambda: wire.recv(1 << 16), b"")).partition(b"\n")
    sys.stdout.buffer.write(output)
    return int(code)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    sys.exit(run(sys.argv[2], sys.argv[3]))
