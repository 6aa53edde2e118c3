"""Fork the tests' command lines from a warm process, for ``forked_commands.py``.

Imports first, then one child per line of stdin, each with its own folder, environment, files and
exit code. Run as ``python -m``; starts no thread, so that a fork is sound.
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
from pathlib import Path

from jobrun.core.failpoints import arm

# What a run needs, and what its import would take most of the time of a short one.
_PRELOAD = (
    "numpy", "h5py", "jobrun.cli.jobs.run", "jobrun.runner.invocation",
    "jobrun.session.threads.session", "jobrun.cli.app", "jobrun.cli.run_command",
    "jobrun.cli.supervisor", "jobrun.cli.progress.display", "jobrun.cli.progress.summary",
    *(f"jobrun.cli.jobs.{name}" for name in ("run", "resume", "fork")),
    *(f"jobrun.cli.runs.{name}" for name in ("ckpt", "inspect_checkpoint", "runs", "status")),
    *(f"jobrun.cli.specs.{name}" for name in ("plan", "validate")),
)  # fmt: skip


def main() -> int:
    """Serve until stdin is closed."""
    for name in (*_PRELOAD, *os.environ.get("JOBRUN_TEST_PRELOAD", "").split()):
        importlib.import_module(name)
    gc.freeze()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    for line in sys.stdin:
        print(json.dumps(_serve(json.loads(line))), flush=True)
    return 0


def _serve(request: dict) -> int | None:
    """Fork and wait: return the exit code, as that of ``subprocess``; None after the timeout."""
    child = os.fork()
    if child == 0:
        _become(request)
    deadline = time.monotonic() + request["timeout_s"]
    while os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
        left = deadline - time.monotonic()
        if left <= 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        signal.sigtimedwait({signal.SIGCHLD}, left)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(request: dict) -> None:
    code = 70
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        for number, path in enumerate((os.devnull, request["stdout"], request["stderr"])):
            given = os.open(path, os.O_RDWR | os.O_APPEND)
            os.dup2(given, number)
            os.close(given)
        os.chdir(request["cwd"])
        hash_seed = os.environ["PYTHONHASHSEED"]
        os.environ.clear()
        os.environ.update({"PYTHONHASHSEED": hash_seed, **request["environment"]})
        arm(os.environ)
        sys.path[0] = str(Path.cwd())
        code = _run(request["module"], request["arguments"])
    except Exception:  # noqa: BLE001 - told as an interpreter tells it, with its exit code
        code = 1
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Without the parent's exit functions and buffers.
        os._exit(code)


def _run(module: str, arguments: list[str]) -> int:
    """Run a module as ``python -m`` does, as far as a command line can tell."""
    sys.argv = [str(Path(module)), *arguments]
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
