"""Start the processes of a proof quickly, forked from a server that has imported everything.

``ForkClient`` starts the server, which is this module run as ``python -m``: it forks a child for
each command line. Each runs in a process that can be killed, with its own files, signals and exit
code, a few milliseconds after the request instead of some hundreds. The server starts no thread of
its own, so that a fork is sound; a request is a line of JSON, and so is its answer.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, NoReturn

from msgspec import Struct

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.failpoints import arm
from jobrun.core.hash_seed import DEFAULT, VARIABLE
from jobrun.core.system_calls import has_ended, wait_for_signal
from jobrun.tools.isolation.isolation import Isolation, enter_isolation, plain_environment

MODULE = "jobrun.tools.prove.fork_server"


class ProcessEnd(Struct, frozen=True):
    """How a process of a proof ended.

    Attributes:
        exit_code: As ``subprocess`` gives it: negative for the signal that killed it.
        started: The monotonic time of the fork, which all processes share.
        seconds: From the fork to the end.
        killed: It was killed from outside because its time was over.
    """

    exit_code: int
    started: float
    seconds: float
    killed: bool


def unsupervised_environment() -> dict[str, str]:
    """Copy the environment for the fork server's processes, with jobrun's supervisor turned off.

    A supervisor would report the kill as it does to users.
    """
    return plain_environment() | {"JOBRUN_UNGUARDED": "1"}


class ForkClient:
    """The parent of a proof's processes, started on entry; one command line at a time.

    Args:
        program: The module that is run as ``__main__``.
        preload: Modules to import once, before the first fork.
        environment: Variables of all command lines.
    """

    def __init__(
        self, program: str, preload: Sequence[str], environment: Mapping[str, str]
    ) -> None:
        self._arguments = [sys.executable, "-P", "-m", MODULE, program, *preload]
        self._environment = {VARIABLE: DEFAULT, **environment}
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> ForkClient:
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own module
            self._arguments,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        process = self._opened()
        pipe_in, pipe_out = _pipes(process)
        # If it died, a request may be left in the pipe unread.
        with contextlib.suppress(BrokenPipeError):
            pipe_in.close()
        pipe_out.close()
        process.wait()

    def run(
        self,
        arguments: Sequence[str],
        output: Path,
        *,
        variables: Mapping[str, str] | None = None,
        kill_after_s: float | None = None,
        isolation: Isolation | None = None,
    ) -> ProcessEnd:
        """Send a proof's command line to the fork server; wait until the process has ended.

        Args:
            arguments: Without the program's name.
            output: The file to which stdout and stderr go.
            variables: Further environment variables.
            kill_after_s: Send SIGKILL when so many seconds have passed; None never.
            isolation: Where the process runs, and can write; None for where the server does.

        Raises:
            EnvironmentFaultError: E417, the forking process is gone.
        """
        request = {
            "arguments": isolation.arguments(arguments) if isolation else list(arguments),
            "output": os.fspath(output),
            "variables": dict(variables or {}),
            "kill_after_s": kill_after_s,
            "isolation": isolation.request() if isolation else None,
        }
        pipe_in, pipe_out = _pipes(self._opened())
        try:
            pipe_in.write(json.dumps(request) + "\n")
            pipe_in.flush()
            answer = pipe_out.readline()
        except BrokenPipeError:
            answer = ""
        if not answer:
            raise EnvironmentFaultError.of(
                "E417",
                "the process that starts the runs of the proof has ended",
                "see its output above; a memory limit may have killed it",
            )
        return ProcessEnd(**json.loads(answer))

    def _opened(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise RuntimeError("the fork server is not running")
        return self._process


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the fork server has no pipes")
    return process.stdin, process.stdout


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
        # Do not reap it here if possible: a free PID may be reused by another process.
        if has_ended(child, lambda: _reap(child)):
            return False
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return True
        wait_for_signal({signal.SIGCHLD}, remaining_s)


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
        code = _run(program, request["isolation"])
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Without the parent's exit functions and buffers.
        os._exit(code)


def _run(program: str, isolation: dict[str, Any] | None) -> int:
    try:
        if isolation is not None:
            enter_isolation(isolation)
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
    for descriptor, number in ((null, 0), (file, 1), (file, 2)):
        os.dup2(descriptor, number)
        os.close(descriptor) if descriptor == null else None
    os.close(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
