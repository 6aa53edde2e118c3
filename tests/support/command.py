"""Run the program as a user starts it: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.forked_commands import ROOT, run_module

SPECS = ROOT / "specs"
JOBRUN = (sys.executable, "-m", "jobrun")


def environment(**changes: str | None) -> dict[str, str]:
    """Return this process's variables without those that steer jobrun; None takes one out."""
    variables = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("JOBRUN_") and name not in {"NO_COLOR", "CI", "FORCE_COLOR"}
    }
    for name, value in changes.items():
        if value is None:
            variables.pop(name, None)
        else:
            variables[name] = value
    return variables


def jobrun(
    *arguments: str | Path,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout_s: float = 100,
    started: bool = False,
) -> subprocess.CompletedProcess[str]:
    """Run one command to its end and return what it printed.

    Args:
        arguments: Those of the command line.
        cwd: Where; here if None.
        env: All its variables; without one, this process's that do not steer jobrun.
        timeout_s: It is killed when it takes longer.
        started: Start an interpreter for it, as a user does, instead of forking one.
    """
    if not started and _forks_alike(env):
        return run_module(
            "jobrun",
            list(map(str, arguments)),
            cwd=Path.cwd() if cwd is None else cwd,
            environment=environment() if env is None else env,
            timeout_s=timeout_s,
        )
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


def _forks_alike(env: Mapping[str, str] | None) -> bool:
    """Return whether no variable differs that an interpreter or a library reads at its start."""
    if env is None:
        return True
    here = environment()
    names = {name for name in {*here, *env} if here.get(name) != env.get(name)}
    return all(name.startswith("JOBRUN_") for name in names)


def bash(line: str, cwd: Path, env: Mapping[str, str] | None = None) -> tuple[int, str, str]:
    """Run a line of bash in which ``jobrun`` is the program; return code, stdout, stderr.

    There ``python`` is the interpreter of the tests, as in an activated environment.
    """
    words = " ".join(f"'{word}'" for word in JOBRUN)
    functions = f'jobrun() {{ {words} "$@"; }}\npython() {{ \'{sys.executable}\' "$@"; }}'
    done = subprocess.run(
        ["bash", "-c", f"{functions}\n{line}"],
        cwd=cwd,
        env=dict(environment() if env is None else env),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        stdin=subprocess.DEVNULL,
    )
    return done.returncode, done.stdout, done.stderr
