"""Start child processes, exchange lines with them, limit their time, and signal their groups."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any


def python_command(module: str, *words: str) -> list[str]:
    """Build the command line that runs a module of jobrun with this interpreter.

    Files in the working directory do not shadow modules of Python (``-P``).
    """
    return [sys.executable, "-P", "-m", module, *words]


def start_module(module: str, *words: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a module of jobrun as a child process that reads lines from this one.

    Args:
        module: It is run as ``__main__``.
        words: Its arguments.
        options: As ``subprocess.Popen`` has them.

    Raises:
        OSError: The system can start no process.
    """
    command = python_command(module, *words)
    return subprocess.Popen(command, stdin=subprocess.PIPE, **options)  # noqa: S603 - our module


def write_line(process: subprocess.Popen[bytes], content: Any, *, is_last: bool = False) -> None:
    """Write a value as a line of JSON to the input of a child process, unless it has ended.

    Args:
        process: Its input is a pipe.
        content: The value.
        is_last: Close the pipe then.
    """
    assert process.stdin is not None  # noqa: S101 - for the type checker
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(json.dumps(content).encode() + b"\n")
        process.stdin.flush()
        if is_last:
            process.stdin.close()


def parse_event(line: str | bytes) -> dict[str, Any]:
    """Parse a line of a child's output as a JSON object; return {} for any other line."""
    try:
        event = json.loads(line)
    except ValueError:
        return {}
    return event if isinstance(event, dict) else {}


def wait_or_kill(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """Wait until a child process ends, or kill it after a time; return its exit code."""
    try:
        return process.wait(limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def signal_group(process: subprocess.Popen[Any], number: int) -> None:
    """Send a signal to the process group that a child process leads, if any of it is left."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def run_and_capture(
    command: Sequence[str],
    text: str = "",
    *,
    limit_s: float | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program until it ends; return its exit code and what it has printed.

    Args:
        command: Its command line.
        text: Its input.
        limit_s: It is killed after so many seconds; None for never.
        environment: Its variables; None for those of this process.

    Raises:
        TimeoutError: It was killed after the limit.
        OSError: It could not be started.
    """
    try:
        return subprocess.run(  # noqa: S603 - each caller says which program, and why
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
            env=environment,
        )
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(str(error)) from error
