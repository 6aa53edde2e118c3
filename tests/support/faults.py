"""Inject faults of the machine at the N-th call: full disks, I/O errors, short writes, kills.

``FaultLab`` runs command lines of jobrun in forked processes, each with one fault of a
preloaded library (``faults.c``, compiled with gcc on first use). For a program of its own,
``environment_with`` gives the variables that arm it from the start.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self

from tests.support.command import ROOT, environment

Action = Literal["fail", "short", "kill-before", "kill-after", "lie"]
# Calls that change something on a disk, or promise that it stays; and those that look.
CALLS = ("open", "write", "fsync", "close", "rename", "mkdir", "unlink", "ftruncate", "symlink")
READING = ("open", "read")
HUNG = -9999


@dataclass(frozen=True)
class Fault:
    """One fault, at one call.

    Attributes:
        call: One of ``CALLS``, ``read``, or ``any``.
        nth: Counted from 1, among those on files below the lab's directory.
        action: ``fail`` with ``errno``; ``short``: half of it, told truly; ``lie``: nothing
            done and success told; or SIGKILL just before or after the call.
        onwards: Not only the N-th, but every later one too.
        path: Count only calls on paths that contain this.
    """

    call: str
    nth: int
    action: Action
    errno: int = 0
    onwards: bool = False
    path: str = ""

    def __str__(self) -> str:
        which = f"{self.call} #{self.nth}{'+' if self.onwards else ''}"
        what = os.strerror(self.errno) if self.action == "fail" else self.action
        return f"{which} {f'on {self.path} ' if self.path else ''}{what}"

    @property
    def text(self) -> str:
        """Render the fault as the library reads it."""
        return f"{self.call}:{self.nth}:{self.action}:{self.errno}:{int(self.onwards)}:{self.path}"


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: The exit code; negative for a signal; ``HUNG`` if it had to be ended.
        calls: Each counted call and its path, in order, where that was asked for.
    """

    code: int
    stdout: str
    stderr: str
    calls: tuple[tuple[str, str], ...] = ()

    @property
    def counts(self) -> Counter[str]:
        """Return how often each call was made."""
        return Counter(call for call, _ in self.calls)


class FaultLab:
    """Runs commands with faults; inside the context a process waits to fork others.

    Args:
        scratch: A directory for outputs, outside of what is tested.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._server: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._server = subprocess.Popen(
            [sys.executable, "-m", "tests.support.fault_server"],
            cwd=ROOT,
            env=environment(LD_PRELOAD=str(library())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == "ready\n"
        return self

    def __exit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.communicate()

    def run(
        self,
        *arguments: str | Path,
        below: Path,
        fault: Fault | None = None,
        log: bool = False,
        timeout_s: float = 60,
        record: Path | None = None,
        patches: Sequence[str] = (),
        with_nodes: bool = False,
    ) -> Ended:
        """Run ``jobrun ARGUMENTS`` in ``below``; only files below it meet the fault.

        Args:
            arguments: Of the command line.
            below: Where it is run.
            fault: What it meets.
            log: Note each call and its path.
            timeout_s: When it is ended.
            record: A file to which all that it changes is added; see ``recorder``.
            patches: ``module:function`` each, called before the command, in its process.
            with_nodes: Record also what programs do that the command starts, such as its nodes.
        """
        paths = {name: self._scratch / name for name in ("stdout", "stderr", "log")}
        paths["log"].unlink(missing_ok=True)
        order = {
            "arguments": [str(argument) for argument in arguments],
            "cwd": str(below),
            "below": str(below),
            "environment": (
                {"FAULTS_ROOT": str(below), "FAULTS_RECORD": str(record)} if with_nodes else {}
            ),
            "fault": fault.text if fault else "",
            "stdout": str(paths["stdout"]),
            "stderr": str(paths["stderr"]),
            "log": str(paths["log"]) if log else "",
            "timeout_s": timeout_s,
            "record": str(record) if record else "",
            "patches": list(patches),
        }
        status = self._ask(order)
        return Ended(
            status, paths["stdout"].read_text(), paths["stderr"].read_text(), calls_of(paths["log"])
        )

    def _ask(self, order: dict[str, object]) -> int:
        server = self._server
        assert server is not None
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(json.dumps(order) + "\n")
        server.stdin.flush()
        answer = server.stdout.readline()
        assert answer, "the server of the lab has died"
        status = json.loads(answer)["status"]
        assert isinstance(status, int)
        return status


def library(name: str = "faults") -> Path:
    """Return the compiled library, compiled again when its source has changed."""
    source = Path(__file__).with_name(f"{name}.c")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir(), f"jobrun-{name}-{os.getuid()}-{digest}.so")
    if not path.is_file():
        beside = path.with_suffix(f".{os.getpid()}")
        command = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(beside), str(source), "-ldl",
                   "-lpthread"]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        beside.replace(path)
    return path


def environment_with(
    fault: Fault | None, below: Path, *, log: Path | None = None
) -> dict[str, str]:
    """Return the variables of a program of its own that meets the fault from its start."""
    return environment(
        LD_PRELOAD=str(library()),
        FAULTS=fault.text if fault else "",
        FAULTS_ROOT=str(below),
        FAULTS_LOG=str(log) if log else None,
    )


def calls_of(log: Path) -> tuple[tuple[str, str], ...]:
    """Return the calls that the library has recorded."""
    if not log.is_file():
        return ()
    lines = log.read_text(errors="replace").splitlines()
    return tuple((call, path) for call, _, path in (line.partition(" ") for line in lines))


def every(
    calls: Counter[str],
    actions: Sequence[tuple[Action, int]],
    *,
    onwards: bool = False,
    names: Sequence[str] = CALLS,
) -> list[Fault]:
    """Return one fault for each of the calls and each of the actions (with its errno)."""
    return [
        Fault(name, nth, action, number, onwards)
        for name in names
        for nth in range(1, calls[name] + 1)
        for action, number in actions
        if action != "short" or name == "write"
    ]
