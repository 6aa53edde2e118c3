"""Interrupt a job on a Ray cluster of several machines in mid-run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from tests.support.command import JOBRUN, environment
from tests.support.session_runs import SLOW, of_run
from tests.support.waiting import wait_until

LIBRARY = """\
import os
import pathlib
import time

HERE = pathlib.Path(__file__).parent


def pause(node, run_dir):
    if "hit" in run_dir:
        (HERE / f"{node}.new").write_text(str(os.getpid()))
        (HERE / f"{node}.new").replace(HERE / f"{node}.pid")
        while (HERE / "wait").exists():
            time.sleep(0.01)
        time.sleep(0.05)
"""
# As a machine of the cluster has one place, each node is on one of its own.
SPEC = (
    SLOW.replace("{count: 2}", "{count: 2, resources: {place: 1}}")
    .replace('"slow_library:pause", with: {seconds: 0.1}', '"losses_library:pause"')
    .replace("epochs: 15", "epochs: 12")
)


@contextlib.contextmanager
def started(spec: Path, session: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """Start a run in the folder ``hit``, and yield it in its third epoch; kill it at the end."""
    folder = spec.parent / "hit"
    words = [*JOBRUN, "run", str(spec), "--run-dir", str(folder), "--session", session, *more]
    process = subprocess.Popen(
        words,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=environment(RAYS_MARK=str(spec.parent), **token()),
    )
    try:
        wait_until(lambda: 2 in of_run(folder) or process.poll() is not None, "epoch 2")
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def token() -> dict[str, str]:
    """Return the variables of a token for Ray, so that it reads none from a home directory."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0123456789abcdef" * 4}


def pids(spec: Path) -> dict[str, int]:
    """Return the process that each node had when it last ran."""
    return {path.stem: int(path.read_text()) for path in spec.parent.glob("*.pid")}
