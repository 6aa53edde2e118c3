"""Send a live run the signal to save and end, and wait for its end."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable

from jobrun.core.errors import EnvironmentFaultError, UsageError
from jobrun.core.files.disk import write_file
from jobrun.core.waiting import wait_until
from jobrun.runner.rundir.lock import Owner, is_live, owner_of
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.stop_requests import SENDER_NAME

_LOOK_EVERY_S = 0.05


def send_stop_signal(run: Run, *, now: bool = False) -> Owner:
    """Send a live run's process a signal on which it saves and ends.

    Args:
        run: The run.
        now: Send it twice: what is not saved is dropped.

    Raises:
        UsageError: E425, the run does not live, or on another host.
        EnvironmentFaultError: E426, the process is another user's.
    """
    owner = owner_of(run.path)
    if not is_live(run.path):
        raise UsageError.of(
            "E425",
            f"{run.name} is not running",
            "see jobrun status for how it ended",
        )
    if owner.host != os.uname().nodename or not owner.pid:
        raise UsageError.of(
            "E425",
            f"{run.name} runs elsewhere: {owner}",
            f"on that host: kill -TERM {owner.pid}" if owner.pid else "end it where it was started",
        )
    with contextlib.suppress(OSError):
        # Marks the signal as one of a user, not of the system.
        write_file(run.path / SENDER_NAME, b"")
    try:
        os.kill(owner.pid, signal.SIGTERM)
        if now:
            time.sleep(_LOOK_EVERY_S)
            os.kill(owner.pid, signal.SIGTERM)
    except ProcessLookupError:
        # It ended by itself meanwhile.
        pass
    except PermissionError as error:
        raise EnvironmentFaultError.of(
            "E426",
            f"no permission to signal process {owner.pid}",
            "ask its owner, or use an account with permission",
        ) from error
    return owner


def wait_for_end(run: Run, timeout_s: float, clock: Callable[[], float] = time.monotonic) -> bool:
    """Wait for a signalled run to end; return whether it ended within the timeout."""
    return wait_until(lambda: not is_live(run.path), timeout_s, _LOOK_EVERY_S, clock)
