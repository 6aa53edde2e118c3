"""Send news of a run to the targets of ``notify``: a run that ended, a lost node, no progress.

The process that watches the one that computes starts this module as a program, so that a crash is
reported too::

    echo '{"run": …, "news": "failed", "exit_code": 7, "detail": "", "targets": [{"post": …}]}' |
    python -m jobrun.tools.notify

It ends with 0, whatever became of the notifications: they never decide the exit code of a run.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any

from jobrun.core.errors import JobrunError
from jobrun.core.notify_target import News, NotifyTarget
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.rundir.run_json import read_record
from jobrun.tools.runs.metrics import read_last_metrics
from jobrun.tools.runs.status import read_status

TIMEOUT_S = 5.0
TRIES = 3
_PAUSE_S = 0.5
# A mail program may wait for its server.
_COMMAND_S = 20.0
_SERVER_ERROR = 500


def build_message(run: Path, news: News, exit_code: int | None, detail: str = "") -> dict[str, Any]:
    """Build the JSON message that notifies of a run from the files in the run's directory.

    Args:
        run: The run's directory; what cannot be read of it is left out.
        news: What happened.
        exit_code: Of the process, which a crash keeps from ``run.json``; None while it runs.
        detail: What to say in place of the recorded reason.
    """
    message: dict[str, Any] = {
        "news": news,
        "run": f"{run.parent.name}/{run.name}",
        "directory": str(run),
        "host": os.uname().nodename,
        "exit_code": exit_code,
    }
    reason = detail
    try:
        record = read_record(run)
    except JobrunError as error:
        reason = reason or str(error)
    else:
        message |= {"job": record.job, "epoch": max(record.epoch, _newest_epoch(run))}
        # A process that was killed has left the record as it was at its start.
        if not reason and exit_code is not None and record.exit_code == exit_code:
            reason = record.reason
    message["metrics"] = read_last_metrics(run)
    message["reason"] = reason
    if news != "finished":
        message["continue"] = shlex.join(("jobrun", "resume", str(run)))
    message["text"] = _summarize(message)
    return message


def _newest_epoch(run: Path) -> int:
    """Read the newest epoch of a run for the notification about it; -1 if unknown."""
    try:
        return read_status(open_run(run)).epoch
    except (JobrunError, OSError):
        return -1


def send(target: NotifyTarget, message: Mapping[str, Any], timeout_s: float = TIMEOUT_S) -> str:
    """Send one notification; return the reason if it could not be sent, else an empty text.

    An attempt that fails for want of a connection, in time or on the server is repeated twice.
    Redirects are not followed: they would turn the POST into a GET.
    """
    data = json.dumps(message, ensure_ascii=False, default=str).encode()
    if target.run:
        return _run_command(target.run, data)
    why = ""
    for attempt in range(TRIES):
        if attempt:
            time.sleep(_PAUSE_S)
        why, is_final = _post(target.post, data, timeout_s)
        if not why or is_final:
            break
    return why


def send_all(
    targets: Sequence[NotifyTarget], message: Mapping[str, Any], timeout_s: float = TIMEOUT_S
) -> list[str]:
    """Send a notification to all targets that want its kind; return a line per failure."""
    wanted = [target for target in targets if message["news"] in target.on]
    return [
        f"the notification to {target.describe()} was not sent: {why}"
        for target in wanted
        if (why := send(target, message, timeout_s))
    ]


def decode_targets(rows: Sequence[Mapping[str, Any]]) -> tuple[NotifyTarget, ...]:
    """Decode the notification targets in a request that came on standard input."""
    return tuple(NotifyTarget(tuple(row["on"]), row["post"], tuple(row["run"])) for row in rows)


def main() -> int:
    """Run ``python -m jobrun.tools.notify``: send the notification that stdin describes."""
    # The parent waits for signals that it blocks; a mail program must not inherit that.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    request = json.load(sys.stdin)
    message = build_message(
        Path(request["run"]), request["news"], request["exit_code"], request["detail"]
    )
    for line in send_all(decode_targets(request["targets"]), message):
        print(f"warning: {line}", file=sys.stderr)  # noqa: T201 - this is a program
    return 0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Lets a redirect be the error that it is here."""

    def redirect_request(self, *_: Any) -> None:
        """Return None, so that a notification's HTTP request follows no redirect."""


def _post(url: str, data: bytes, timeout_s: float) -> tuple[str, bool]:
    """Post a notification as JSON once; return why that failed, and whether that is final."""
    request = urllib.request.Request(  # noqa: S310 - the scheme was checked
        url, data, {"Content-Type": "application/json", "User-Agent": "jobrun"}, method="POST"
    )
    opener = urllib.request.build_opener(_NoRedirects)
    try:
        with opener.open(request, timeout=timeout_s):
            return "", True
    except urllib.error.HTTPError as error:
        with error:
            return f"the server answered {error.code} {error.reason}", error.code < _SERVER_ERROR
    except urllib.error.URLError as error:
        return str(error.reason), False
    except (OSError, HTTPException) as error:
        return str(error) or type(error).__name__, False


def _run_command(command: Sequence[str], data: bytes) -> str:
    try:
        ended = subprocess.run(  # noqa: S603 - the user's command
            command, input=data, timeout=_COMMAND_S, check=False, stdout=sys.stderr.fileno()
        )
    except subprocess.TimeoutExpired:
        return f"it took longer than {_COMMAND_S:g} s"
    except OSError as error:
        return error.strerror or str(error)
    return f"it ended with {ended.returncode}" if ended.returncode else ""


def _summarize(message: Mapping[str, Any]) -> str:
    """Summarise a notification in one line, the text that chat programs show."""
    word = {"no_progress": "makes no progress", "node_lost": "lost a node"}.get(
        message["news"], message["news"]
    )
    epoch = message.get("epoch", -1)
    when = f" after epoch {epoch}" if epoch >= 0 else ""
    reason = f": {message['reason']}" if message["reason"] else ""
    metrics = ", ".join(f"{name} {value}" for name, value in message["metrics"].items())
    return f"{message['run']} {word}{when}{reason}{f' ({metrics})' if metrics else ''}"


if __name__ == "__main__":
    sys.exit(main())
