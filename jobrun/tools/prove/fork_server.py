"""Start the processes of a proof quickly, forked from a server that has imported everything.

``ForkClient`` starts the server, which is this module run as ``python -m``: it forks a child for
each command line. Each runs in a process that can be killed, with its own files, signals and exit
code, a few milliseconds after the request instead of some hundreds. The server starts no thread of
its own, so that a fork is sound; a request is a line of JSON, and so is its answer.
"""

from __future__ import annotations

import gc
import importlib
import json
import math
import os
import runpy
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from msgspec import Struct

from jobrun.core.child_process import start_module, write_line
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.failpoints import arm
from jobrun.core.hash_seed import DEFAULT, VARIABLE
from jobrun.core.system_calls import wait_for_signal
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
        self._program = (program, *preload)
        self._environment = {VARIABLE: DEFAULT, **environment}

    def __enter__(self) -> ForkClient:
        self._process = start_module(
            MODULE,
            *self._program,
            env=self._environment,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        return self

    def __exit__(self, *_: object) -> None:
        # Closes its input; if it died, a request may be left in the pipe unread.
        self._process.communicate()

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
        write_line(self._process, request)
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        answer = self._process.stdout.readline()
        if not answer:
            raise EnvironmentFaultError.of(
                "E417",
                "the process that starts the runs of the proof has ended",
                "see its output above; a memory limit may have killed it",
            )
        return ProcessEnd(**json.loads(answer))


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
    status, killed = _wait_for_child(child, request["kill_after_s"])
    return {
        "exit_code": os.waitstatus_to_exitcode(status),
        "started": started,
        "seconds": time.monotonic() - started,
        "killed": killed,
    }


def _wait_for_child(child: int, limit_s: float | None) -> tuple[int, bool]:
    """Wait in the fork server for a child, which is killed after a limit.

    Returns:
        Its status, and whether it was killed here.
    """
    deadline = math.inf if limit_s is None else time.monotonic() + limit_s
    while True:
        pid, status = os.waitpid(child, 0 if limit_s is None else os.WNOHANG)
        if pid:
            return status, False
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            os.kill(child, signal.SIGKILL)
            return os.waitpid(child, 0)[1], True
        wait_for_signal({signal.SIGCHLD}, remaining_s)


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
