"""Inject faults of the machine at the N-th call: full disks, I/O errors, short writes, kills.

``FaultLab`` runs command lines of jobrun in forked processes, each with one fault of a
preloaded library (``faults.c``, compiled on first use). For a program of its own,
``environment_with`` gives the variables that arm it from the start.
"""

from __future__ import annotations

import ctypes
import hashlib
import importlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from tests.support.c_library import compile_library
from tests.support.command import environment
from tests.support.forked_commands import ForkServer

Action = Literal["fail", "short", "kill-before", "kill-after", "lie"]
# Calls that change something on a disk, or promise that it stays; and those that look.
CALLS = ("open", "write", "fsync", "close", "rename", "mkdir", "unlink", "ftruncate", "symlink")
READING = ("open", "read")
HUNG = -9999
# What a run imports late, and this module, which runs the command in the forked process.
_PRELOAD = (
    "jobrun.api", "jobrun.cli.progress.live", "jobrun.tools.inspection", "tests.support.command",
)  # fmt: skip


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
        effect = os.strerror(self.errno) if self.action == "fail" else self.action
        return f"{which} {f'on {self.path} ' if self.path else ''}{effect}"

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
        self._environment: dict[str, str] = {}
        self._server: ForkServer | None = None

    def __enter__(self) -> Self:
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._environment = environment(LD_PRELOAD=str(library()))
        self._server = ForkServer(self._environment, _PRELOAD)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._server is not None
        self._server.close()

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
            record: A file to which all that it changes is added; see ``call_recorder``.
            patches: ``module:function`` each, called before the command, in its process.
            with_nodes: Record also what programs do that the command starts, such as its nodes.
        """
        out, err, calls = (self._scratch / name for name in ("stdout", "stderr", "log"))
        calls.unlink(missing_ok=True)
        order = {
            "arguments": [str(argument) for argument in arguments],
            "below": str(below),
            "fault": fault.text if fault else "",
            "log": str(calls) if log else "",
            "record": str(record) if record else "",
            "patches": list(patches),
        }
        assert self._server is not None
        nodes = {"FAULTS_ROOT": str(below), "FAULTS_RECORD": str(record)} if with_nodes else {}
        code = self._server.run(
            "tests.support.faults", [json.dumps(order)],
            cwd=below, environment=self._environment | nodes, outputs=(out, err),
            timeout_s=timeout_s,
        )  # fmt: skip
        return Ended(
            HUNG if code is None else code, out.read_text(), err.read_text(), calls_of(calls)
        )


def _run_armed(order: dict[str, Any]) -> int:
    """Run a command of jobrun in this process, which has the library, with a fault armed."""
    loaded = ctypes.CDLL(None)
    for name in order["patches"]:
        module, _, function = name.partition(":")
        getattr(importlib.import_module(module), function)()
    if order["record"]:
        loaded.faults_record(order["record"].encode())
    loaded.faults_arm(*(order[name].encode() for name in ("fault", "below", "log")))
    code: int = importlib.import_module("jobrun.cli.run_command").invoke(order["arguments"])
    return code


def library(name: str = "faults") -> Path:
    """Return the compiled library, compiled again when its source has changed."""
    source = Path(__file__).with_name(f"{name}.c")
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:16]
    path = Path(tempfile.gettempdir(), f"jobrun-{name}-{os.getuid()}-{digest}.so")
    if not path.is_file():
        temporary = path.with_suffix(f".{os.getpid()}")
        compile_library(source, temporary)
        temporary.replace(path)
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


if __name__ == "__main__":
    sys.exit(_run_armed(json.loads(sys.argv[1])))
