"""Run command lines in forked processes of their own, started within milliseconds.

Importing takes most of the time of a short run, and the tests start hundreds of them. These are
forked from a server that has imported everything; ``run_module`` uses one per test run. They can be
killed and have files, folder and environment of their own; only what an interpreter reads at its
start (the ``PYTHON…`` variables, the locale, limits, closed streams) is not theirs, and they have
no supervisor, so tests of that start real ones.

The server is this module, run as ``python -m``: it imports first, then forks one child per line of
stdin. It starts no thread, so that a fork is sound.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from pathlib import Path

from jobrun.core.failpoints import arm

ROOT = Path(__file__).parent.parent.parent
# What a run needs, and what its import would take most of the time of a short one.
_PRELOAD = (
    "numpy", "h5py", "jobrun.cli.jobs.run", "jobrun.runner.invocation",
    "jobrun.session.threads.session", "jobrun.cli.app", "jobrun.cli.run_command",
    "jobrun.cli.progress.lines", "jobrun.cli.progress.summary",
    *(f"jobrun.cli.jobs.{name}" for name in ("run", "resume", "fork")),
    *(f"jobrun.cli.runs.{name}" for name in ("ckpt", "inspect_checkpoint", "runs", "status")),
    *(f"jobrun.cli.specs.{name}" for name in ("plan", "validate")),
)  # fmt: skip


class ForkServer:
    """The forking process, started here. One command line at a time.

    Args:
        environment: Its variables.
        preload: Modules that it imports besides those of a run.
    """

    def __init__(self, environment: Mapping[str, str], preload: Sequence[str] = ()) -> None:
        # One thread: a fork of a process with more may find their locks held for ever. The hash
        # seed is as the command line starts itself; a fork cannot.
        defaults = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forked_commands", *preload],
            cwd=ROOT, env={"PYTHONHASHSEED": "0", **environment, **defaults},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip
        self._lock = threading.Lock()

    def run(
        self,
        module: str,
        arguments: Sequence[str],
        *,
        cwd: Path,
        environment: Mapping[str, str],
        outputs: tuple[Path, Path],
        timeout_s: float,
    ) -> int | None:
        """Run ``python -m module arguments``; return its exit code, or None after the timeout.

        Args:
            module: Run as ``__main__``.
            arguments: Without the program's name.
            cwd: Where.
            environment: All its variables.
            outputs: The files that its stdout and stderr go to.
            timeout_s: It is killed when it takes longer.
        """
        for path in outputs:
            path.write_text("")
        request = {
            "module": module, "arguments": list(arguments), "cwd": str(cwd),
            "environment": dict(environment), "timeout_s": timeout_s,
            "outputs": list(map(str, outputs)),
        }  # fmt: skip
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            answer = self._process.stdout.readline()
        assert answer, "the server that forks has died"
        return json.loads(answer)

    def close(self) -> None:
        """End the process."""
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait()


_server: list[ForkServer] = []


def _opened() -> ForkServer:
    if not _server:
        preload = os.environ.get("JOBRUN_TEST_PRELOAD", "").split()
        _server.append(ForkServer(os.environ, preload))
        atexit.register(_server[0].close)
    return _server[0]


def run_module(
    module: str,
    arguments: Sequence[str],
    *,
    cwd: Path,
    environment: Mapping[str, str],
    timeout_s: float = 100,
) -> subprocess.CompletedProcess[str]:
    """Run ``python -m module arguments`` to its end; return what it printed.

    Raises:
        subprocess.TimeoutExpired: It took longer, and was killed.
    """
    with tempfile.TemporaryDirectory(prefix="forked-") as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        code = _opened().run(
            module, arguments, cwd=cwd, environment=environment, outputs=(out, err),
            timeout_s=timeout_s,
        )  # fmt: skip
        output, errors = out.read_text(), err.read_text()
    if code is None:
        raise subprocess.TimeoutExpired([module, *arguments], timeout_s, output, errors)
    return subprocess.CompletedProcess([module, *arguments], code, output, errors)


def main(preload: Sequence[str]) -> int:
    """Serve until stdin is closed."""
    for name in (*_PRELOAD, *preload):
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
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        signal.sigtimedwait({signal.SIGCHLD}, remaining_s)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _become(request: dict) -> None:
    code = 70
    try:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        for number, path in enumerate((os.devnull, *request["outputs"])):
            descriptor = os.open(path, os.O_RDWR | os.O_APPEND)
            os.dup2(descriptor, number)
            os.close(descriptor)
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
    sys.exit(main(sys.argv[1:]))
