"""Requests to another process and their answers, by number. How they travel is not known here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from itertools import count
from queue import SimpleQueue
from typing import Any, TypeVar

from jobrun.runtime.cancel import CancelledError, CancelScope
from jobrun.session.crossing import ErrorForm, error_of
from jobrun.session.faults import combined
from jobrun.session.lost import NodeLostError

# What came back: whether it went well, and the value or the error.
Outcome = tuple[bool, Any]
Then = Callable[[Outcome], None]
Send = Callable[..., None]
_Key = TypeVar("_Key")


class Answer:
    """One that may still have to come."""

    def __init__(self) -> None:
        self._inbox: SimpleQueue[Outcome | None] = SimpleQueue()

    def put(self, outcome: Outcome | None) -> None:
        """It has come; None only wakes who waits. Any thread, also a signal handler."""
        self._inbox.put(outcome)

    def wait(self, scope: CancelScope | None = None) -> Any:
        """Wait for the value.

        Raises:
            CancelledError: The scope was cancelled before.
            BaseException: What went wrong there.
        """
        if scope is None:
            return self._taken()
        with scope.waking(lambda: self.put(None)):
            return self._taken()

    def _taken(self) -> Any:
        outcome = self._inbox.get()
        if outcome is None:
            raise CancelledError
        return value_of(outcome)


def value_of(outcome: Outcome) -> Any:
    """The value of an outcome.

    Raises:
        BaseException: The error of an outcome that has one.
    """
    is_well, value = outcome
    if is_well:
        return value
    raise value


class Calls:
    """The requests of one process to one other.

    Args:
        send: Sends a message; raises ``OSError`` when there is nobody any more.
    """

    def __init__(self, send: Send) -> None:
        self._send = send
        self._numbers = count(1)
        self._lock = threading.Lock()
        self._open: dict[int, Then] = {}
        self._end: BaseException | None = None

    def ask(self, kind: str, *given: Any) -> Answer:
        """Send a request; its answer."""
        answer = Answer()
        self.ask_then(answer.put, kind, *given)
        return answer

    def ask_then(self, then: Then, kind: str, *given: Any) -> None:
        """Send a request; ``then`` is called with the outcome, once, and must not block."""
        number = next(self._numbers)
        with self._lock:
            end = self._end
            if end is None:
                self._open[number] = then
        if end is not None:
            then((False, end))
            return
        try:
            self._send(kind, number, *given)
        except OSError:
            # Whoever receives finds out too, and says why.
            return
        except BaseException:
            with self._lock:
                self._open.pop(number, None)
            raise

    def answered(self, number: int, outcome: Outcome) -> None:
        """An answer has come."""
        with self._lock:
            then = self._open.pop(number, None)
        if then is None:
            return
        is_well, value = outcome
        then((is_well, error_of(value) if isinstance(value, ErrorForm) else value))

    def end(self, error: BaseException) -> None:
        """There will be no more answers: all requests fail, those to come too."""
        with self._lock:
            self._end = error
            left, self._open = list(self._open.values()), {}
        for then in left:
            then((False, error))


def wait_all(answers: Mapping[_Key, Answer]) -> dict[_Key, Any]:
    """What all of them say, when all of them have.

    Raises:
        NodeLostError: One was lost.
        BaseException: What went wrong, of all of them.
    """
    found: dict[_Key, Any] = {}
    errors: list[BaseException] = []
    for key, answer in answers.items():
        try:
            found[key] = answer.wait()
        except Exception as error:  # noqa: BLE001 - raised below, when all have answered
            errors.append(error)
    lost = next((one for one in errors if isinstance(one, NodeLostError)), None)
    if errors:
        raise lost or combined(errors)
    return found
