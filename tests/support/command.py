"""The program as a user starts it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
SPECS = ROOT / "specs"
JOBRUN = (sys.executable, "-m", "jobrun")


def environment(**changes: str | None) -> dict[str, str]:
    """This process's variables without those that steer jobrun; None takes one out."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("JOBRUN_") and name not in {"NO_COLOR", "CI", "FORCE_COLOR"}
    }
    for name, value in changes.items():
        if value is None:
            kept.pop(name, None)
        else:
            kept[name] = value
    return kept


def jobrun(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 100,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end and return what it printed."""
    return subprocess.run(
        [*JOBRUN, *map(str, arguments)],
        cwd=cwd,
        env=dict(environment() if env is None else env),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def bash(line: str, cwd: Path, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a line of bash in which ``jobrun`` is the program; exit code, stdout, stderr."""
    words = " ".join(f"'{word}'" for word in JOBRUN)
    done = subprocess.run(
        ["bash", "-c", f'jobrun() {{ {words} "$@"; }}\n{line}'],
        cwd=cwd,
        env=dict(environment() if env is None else env),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr
