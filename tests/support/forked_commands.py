"""Run command lines in forked processes of their own, started within milliseconds.

Importing takes most of the time of a short run, and the tests start hundreds of them. These are
forked from one process per test run that has imported everything. They can be killed and
have files, folder and environment of their own; only what an interpreter reads at its start (the
``PYTHON…`` variables, the locale, limits, closed streams) is not theirs, so tests of that start
real ones.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


class _Server:
    """The forking process. One command line at a time."""

    def __init__(self) -> None:
        # One thread: a fork of a process with more may find their locks held for ever.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        # As the command line starts itself; a fork cannot.
        environment.setdefault("PYTHONHASHSEED", "0")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fork_server"], cwd=ROOT, env=environment,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._lock = threading.Lock()

    def ask(self, request: Mapping[str, object]) -> int | None:
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


_server: list[_Server] = []


def _opened() -> _Server:
    if not _server:
        _server.append(_Server())
        atexit.register(_server[0].close)
    return _server[0]


def run_module(
    module: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float = 100,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module arguments`` to its end; return what it printed.

    Raises:
        subprocess.TimeoutExpired: It took longer, and was killed.
    """
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        for path in (out, err):
            path.touch()
        code = _opened().ask(
            {
                "module": module, "arguments": list(arguments), "cwd": str(cwd),
                "environment": dict(environment), "timeout_s": timeout_s,
                "stdout": str(out), "stderr": str(err),
            }
        )  # fmt: skip
        said, complained = out.read_text(), err.read_text()
    if code is None:
        raise subprocess.TimeoutExpired([module, *arguments], timeout_s, said, complained)
    return subprocess.CompletedProcess([module, *arguments], code, said, complained)
