"""Fork one child per command line read from stdin, after importing jobrun once.

Run as ``python -m``, never imported for use. It starts no thread of its own, so that a fork
is sound; a request is a line of JSON, and so is its answer.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from typing import Any, NoReturn

from jobrun.core.failpoints import arm
from jobrun.core.system_calls import has_ended, wait_for_signal


def main(arguments: Sequence[str]) -> int:
    """Run the fork server: fork a child for each command line on stdin until it is closed.

    Args:
        arguments: The program to run in the children, and the modules to import before.
    """
    program, *preload = arguments
    for name in preload:
        importlib.import_module(name)
    # Else every child's collector touches, and thereby copies, all that was imported.
    gc.freeze()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Blocked, so that the end of a child can be waited for with a time limit.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for line in sys.stdin:
        print(json.dumps(_serve(program, json.loads(line))), flush=True)  # noqa: T201 - the answer
    return 0


def _serve(program: str, request: dict[str, Any]) -> dict[str, Any]:
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _execute_and_exit(program, request)
    killed = _wait_for_child(child, request["kill_after_s"])
    if killed:
        os.kill(child, signal.SIGKILL)
    status = _reaped.pop(child, None)
    if status is None:
        _, status = os.waitpid(child, 0)
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "started": started,
        "seconds": time.monotonic() - started,
        "killed": killed,
    }


def _wait_for_child(child: int, limit_s: float | None) -> bool:
    """Wait in the fork server for a child, up to a limit; return whether the child still runs."""
    if limit_s is None:
        return False
    deadline = time.monotonic() + limit_s
    while True:
        # Not reaped where that can be: a PID that is free may be reused by another process.
        if has_ended(child, lambda: _reap(child)):
            return False
        left = deadline - time.monotonic()
        if left <= 0:
            return True
        wait_for_signal({signal.SIGCHLD}, left)


_reaped: dict[int, int] = {}


def _reap(child: int) -> int | None:
    """Reap the fork server's child if it has ended, and return the status; None if it runs."""
    pid, status = os.waitpid(child, os.WNOHANG)
    if pid == 0:
        return None
    return _reaped.setdefault(child, status)


def _execute_and_exit(program: str, request: dict[str, Any]) -> NoReturn:
    """Execute a command line in a child of the fork server, and exit with its code."""
    code = 70
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _connect(request["output"])
        os.environ.update(request["variables"])
        arm(os.environ)
        sys.argv = ["jobrun", *request["arguments"]]
        code = _run(program)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Without the parent's exit functions and buffers.
        os._exit(code)


def _run(program: str) -> int:
    try:
        runpy.run_module(program, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:  # noqa: BLE001 - what an interpreter does with it
        traceback.print_exc()
        return 1
    return 0


def _connect(output: str) -> None:
    null = os.open(os.devnull, os.O_RDONLY)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for given, number in ((null, 0), (file, 1), (file, 2)):
        os.dup2(given, number)
        os.close(given) if given == null else None
    os.close(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
