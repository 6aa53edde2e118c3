"""Send the notifications of a supervised run from the supervisor, by processes of their own."""

from __future__ import annotations

import contextlib
import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jobrun.core.events import Event, NodeReplaced
from jobrun.core.notify_target import NotifyTarget, news_of_exit

if TYPE_CHECKING:
    import subprocess

    from jobrun.cli.supervisor import SharedState

# Enough for three attempts of five seconds at each of a few targets.
_LONGEST_S = 60.0


class NewsOfRun:
    """Writes what the parent is to send: who gets news of a run, and what happens in it.

    Args:
        shared: Shared memory of the supervised process.
    """

    def __init__(self, shared: SharedState) -> None:
        self._shared = shared
        self._has_targets = False

    def announce(self, targets: tuple[NotifyTarget, ...], run: str, stuck: str) -> None:
        """Ask the supervisor to notify a run's targets later, and at once if the run is stuck."""
        if not targets:
            return
        self._has_targets = True
        self._write({"run": run, "targets": [asdict(target) for target in targets]})
        if stuck:
            self._write({"news": "no_progress", "detail": stuck})

    def listen(self, event: Event) -> None:
        """Ask the supervisor process to notify users, if an event says a node was lost."""
        if self._has_targets and isinstance(event, NodeReplaced):
            self._write({"news": "node_lost", "detail": f"node '{event.node}' was lost"})

    def _write(self, content: dict[str, Any]) -> None:
        self._shared.write_news(json.dumps(content).encode())


class NewsSender:
    """Sends news from the parent, each message by a process of its own.

    Args:
        spared: Gets the numbers of these processes; the parent does not kill them at the end.
    """

    def __init__(self, spared: set[int]) -> None:
        self._spared = spared
        self._request: dict[str, Any] = {}
        self._senders: list[subprocess.Popen[bytes]] = []

    def send(self, lines: list[bytes], exit_code: int | None, detail: str = "") -> None:
        """Send the notifications that the supervised child asked for, and one at the run's end.

        Args:
            lines: As ``NewsOfRun`` has written them.
            exit_code: None while the run continues; with it, all that is sent is waited for.
            detail: How the child ended, where it could not record that itself.
        """
        for line in lines:
            content = json.loads(line)
            if "targets" in content:
                self._request = content
            else:
                self._start(content | {"exit_code": None})
        if exit_code is None:
            return
        import subprocess  # noqa: PLC0415 - only where someone is notified

        self._start({"news": news_of_exit(exit_code), "exit_code": exit_code, "detail": detail})
        deadline = time.monotonic() + _LONGEST_S
        for sender in self._senders:
            try:
                sender.wait(max(0.0, deadline - time.monotonic()))
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                sender.kill()

    def _start(self, news: dict[str, Any]) -> None:
        """Start a process, from the supervisor, that sends one notification to all targets."""
        import subprocess  # noqa: PLC0415 - only where someone is notified

        sender = subprocess.Popen(
            [sys.executable, "-P", "-m", "jobrun.tools.notify"], stdin=subprocess.PIPE
        )
        self._senders.append(sender)
        self._spared.add(sender.pid)
        assert sender.stdin is not None  # noqa: S101 - for the type checker
        with contextlib.suppress(BrokenPipeError), sender.stdin:
            sender.stdin.write(json.dumps(self._request | news).encode())
