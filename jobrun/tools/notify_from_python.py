"""Send the notifications of a run that was started from Python, from its own process.

No other process watches such a run: what ends the process at once (``os._exit``, SIGKILL, a crash)
sends no news.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from types import TracebackType

from jobrun.core.events import Event, Listener, NodeReplaced, Noted
from jobrun.core.notify_target import News, NotifyTarget, news_of_exit

# Enough for three attempts of five seconds at each of a few targets.
_LONGEST_S = 60.0
_INTERRUPTED, _BUG = 130, 70


class PythonNews:
    """Sends news of the run within the context, the last when that ends, however it does.

    Args:
        listener: The caller's; gets all events, and a warning for each failure to send.

    Attributes:
        exit_code: How the run ended, where it did without an exception.
    """

    def __init__(self, listener: Listener) -> None:
        self._listener = listener
        self._targets: tuple[NotifyTarget, ...] = ()
        self._run = Path()
        self._senders: list[threading.Thread] = []
        self._failures: list[str] = []
        self.exit_code = 0

    def announce(self, targets: tuple[NotifyTarget, ...], run: str, stuck: str) -> None:
        """Remember the targets of a run started from Python; notify them now if it is stuck."""
        self._targets, self._run = targets, Path(run)
        if stuck:
            self._start("no_progress", None, stuck)

    def listen(self, event: Event) -> None:
        """Pass an event to the Python caller's listener; if a node was lost, notify the targets."""
        self._listener(event)
        if isinstance(event, NodeReplaced):
            self._start("node_lost", None, f"node '{event.node}' was lost")

    def __enter__(self) -> PythonNews:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        code = self.exit_code
        if error is not None:
            unknown = _INTERRUPTED if isinstance(error, KeyboardInterrupt) else _BUG
            code = getattr(error, "exit_code", unknown)
        self._start(news_of_exit(code), code, "")
        deadline = time.monotonic() + _LONGEST_S
        for sender in self._senders:
            sender.join(max(0.0, deadline - time.monotonic()))
        for words in self._failures:
            self._listener(Noted(words, "warning"))

    def _start(self, news: News, exit_code: int | None, detail: str) -> None:
        """Start a thread that sends a notification of a run started from Python to its targets."""
        if any(news in target.on for target in self._targets):
            sender = threading.Thread(
                target=self._send, args=(news, exit_code, detail), name="jobrun-news", daemon=True
            )
            try:
                sender.start()
            except RuntimeError as error:
                # The system's limits: that must not hide how the run has ended.
                self._failures.append(f"no notification was sent: {error}")
            else:
                self._senders.append(sender)

    def _send(self, news: News, exit_code: int | None, detail: str) -> None:
        # Brings an HTTP client in, for which most runs have no use.
        from jobrun.tools.notify import build_message, send_all  # noqa: PLC0415

        message = build_message(self._run, news, exit_code, detail)
        self._failures += send_all(self._targets, message)
