"""Start the processes of a proof quickly, forked from one that has imported everything.

This is the client; the process that forks is ``fork_server.py``. Each command line
runs in a process that can be killed, with its own files, signals and exit code, a few
milliseconds after it was asked for instead of some hundreds.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.hash_seed import DEFAULT, VARIABLE
from jobrun.core.lazy_dataclass import dataclass

MODULE = "jobrun.tools.prove.fork_server"


@dataclass(frozen=True, slots=True)
class ProcessEnd:
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
        self._arguments = [sys.executable, "-m", MODULE, program, *preload]
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
    ) -> ProcessEnd:
        """Send a proof's command line to the fork server; wait until the process has ended.

        Args:
            arguments: Without the program's name.
            output: The file to which stdout and stderr go.
            variables: Further environment variables.
            kill_after_s: Send SIGKILL when so many seconds have passed; None never.

        Raises:
            EnvironmentFaultError: E417, the forking process is gone.
        """
        request = {
            "arguments": list(arguments),
            "output": os.fspath(output),
            "variables": dict(variables or {}),
            "kill_after_s": kill_after_s,
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
            raise RuntimeError("the forge is not open")
        return self._process


def _pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    if process.stdin is None or process.stdout is None:
        raise RuntimeError("the forge has no pipes")
    return process.stdin, process.stdout
