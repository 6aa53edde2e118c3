"""Send requests to another process and match the numbered replies to them (RPC)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.session.base import NodeLostError, merge_errors
from jobrun.session.wire.codec import SerializedError, deserialize_error

# What came back: whether it went well, and the value or the error.
Outcome = tuple[bool, Any]
Callback = Callable[[Outcome], None]
Send = Callable[..., None]
_Key = TypeVar("_Key")


class Reply:
    """The reply to a request, which may still have to come: a future."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Outcome | None] = SimpleQueue()

    def put(self, outcome: Outcome | None) -> None:
        """Set the outcome of a request (RPC); with None only wake the thread that waits."""
        self._inbox.put(outcome)

    def wait(self, scope: CancelScope | None = None) -> Any:
        """Wait for the reply to a request (RPC) and return its value.

        Raises:
            CancelledError: The scope was cancelled before.
            BaseException: What went wrong there.
        """
        if scope is None:
            return self._take()
        with scope.waking(lambda: self.put(None)):
            return self._take()

    def _take(self) -> Any:
        outcome = self._inbox.get()
        if outcome is None:
            raise CancelledError
        return unwrap_outcome(outcome)


def unwrap_outcome(outcome: Outcome) -> Any:
    """Return the value in the reply to a request (RPC), or raise its error.

    Raises:
        BaseException: The error of an outcome that has one.
    """
    is_well, value = outcome
    if is_well:
        return value
    raise value


class RpcClient:
    """Sends the requests of one process to one other, and keeps those without a reply.

    Args:
        send: Sends a message; raises ``OSError`` when the other side has ended.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._open: dict[int, Callback] = {}
        self._end: BaseException | None = None

    def call(self, kind: str, *arguments: Any) -> Reply:
        """Send a request to the other process (RPC); return its ``Reply``, which arrives later."""
        reply = Reply()
        self.call_then(reply.put, kind, *arguments)
        return reply

    def call_then(self, then: Callback, kind: str, *arguments: Any) -> None:
        """Send a request (RPC); call ``then`` with the outcome when that arrives."""
        number = next(self._numbers)
        with self._lock:
            end = self._end
            if end is None:
                self._open[number] = then
        if end is not None:
            then((False, end))
            return
        try:
            self._send(kind, number, *arguments)
        except OSError:
            # The receiving thread sees the end too, and calls fail_all with the reason.
            return
        except BaseException:
            with self._lock:
                self._open.pop(number, None)
            raise

    def resolve(self, number: int, outcome: Outcome) -> None:
        """Match a reply that has arrived to the open request (RPC) with its number."""
        with self._lock:
            then = self._open.pop(number, None)
        if then is None:
            return
        is_well, value = outcome
        then((is_well, deserialize_error(value) if isinstance(value, SerializedError) else value))

    def fail_all(self, error: BaseException) -> None:
        """Fail all open requests (RPC) and all later ones with an error."""
        with self._lock:
            self._end = error
            unanswered, self._open = list(self._open.values()), {}
        for then in unanswered:
            then((False, error))


def wait_all(answers: Mapping[_Key, Reply]) -> dict[_Key, Any]:
    """Wait for the replies to several requests (RPC) and return the replied values by key.

    Raises:
        NodeLostError: One was lost.
        BaseException: What went wrong, of all of them.
    """
    replies: dict[_Key, Any] = {}
    errors: list[BaseException] = []
    for key, answer in answers.items():
        try:
            replies[key] = answer.wait()
        except Exception as error:  # noqa: BLE001 - raised below, when all have answered
            errors.append(error)
    lost = next((error for error in errors if isinstance(error, NodeLostError)), None)
    if errors:
        raise lost or merge_errors(errors)
    return replies
