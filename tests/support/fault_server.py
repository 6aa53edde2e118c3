"""Fork command lines of jobrun with a fault armed in each, for ``faults.FaultLab``.

The parent has everything imported, so that a run costs tens of milliseconds. It runs under the
preloaded library; what it reads from stdin and writes to stdout is one JSON line per command.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from typing import Any

# What a run imports late; the parent imports it once for all children.
_LATE = (
    "h5py", "jobrun.api", "jobrun.cli.runs.inspect_checkpoint", "jobrun.cli.progress.live",
    "jobrun.cli.jobs.resume", "jobrun.cli.jobs.run", "jobrun.runner.invocation",
    "jobrun.session.threads.session",
    "jobrun.tools.inspection", "numpy",
)  # fmt: skip
_POLL_S = 0.002


def main() -> None:
    """Answer each line of stdin until it ends."""
    for name in _LATE:
        importlib.import_module(name)
    library = ctypes.CDLL(None)
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _child(order, library)
        print(json.dumps({"status": _wait(child, order["timeout_s"])}), flush=True)


def _child(order: dict[str, Any], library: Any) -> None:
    """Run the command and leave without any of the parent's clean-up."""
    code = 70
    try:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        for number, path in ((1, order["stdout"]), (2, order["stderr"])):
            target = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(target, number)
        os.chdir(order["cwd"])
        os.environ.update(order["environment"])
        invoke = importlib.import_module("jobrun.cli.run_command").invoke
        for name in order.get("patches", ()):
            module, _, function = name.partition(":")
            getattr(importlib.import_module(module), function)()
        if order.get("record"):
            library.faults_record(order["record"].encode())
        library.faults_arm(order["fault"].encode(), order["below"].encode(), order["log"].encode())
        code = invoke(order["arguments"])
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException as error:  # noqa: BLE001 - a traceback is what the test looks for
        sys.stderr.write(f"Traceback: {error!r}\n")
        sys.stderr.flush()
    finally:
        os._exit(code)


def _wait(child: int, timeout_s: float) -> int:
    """Return the wait status of a child; one that hangs is killed, shown as SIGKILL with -9999."""
    end = time.monotonic() + timeout_s
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > end:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return -9999
        time.sleep(_POLL_S)


if __name__ == "__main__":
    main()
