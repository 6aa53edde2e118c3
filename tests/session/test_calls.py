from __future__ import annotations

import threading

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.cancel import CancelledError, CancelScope
from jobrun.session.calls import Calls, value_of
from jobrun.session.crossing import form_of


class Line:
    """Keeps what is sent."""

    def __init__(self):
        self.sent = []

    def __call__(self, *message):
        self.sent.append(message)


def test_an_answer_goes_to_the_request_of_its_number():
    calls = Calls(line := Line())
    first, second = calls.ask("read", "a"), calls.ask("read", "b")

    for kind, number, name in reversed(line.sent):
        calls.answered(number, (True, f"{kind} {name}"))

    assert (first.wait(), second.wait()) == ("read a", "read b")


def test_an_error_is_raised_where_it_was_asked():
    calls = Calls(Line())
    answer = calls.ask("run")

    calls.answered(1, (False, form_of(TaskFailedError.of("E200", "broken"))))

    with pytest.raises(TaskFailedError, match="broken"):
        answer.wait()


def test_who_waits_is_woken_by_a_cancel():
    answer = Calls(Line()).ask("take")
    scope = CancelScope()
    threading.Timer(0.01, scope.cancel).start()

    with pytest.raises(CancelledError):
        answer.wait(scope)


def test_after_the_end_all_requests_fail():
    calls = Calls(Line())
    before = calls.ask("run")
    calls.end(TaskFailedError.of("E200", "gone"))
    outcomes = []

    calls.ask_then(outcomes.append, "run")

    with pytest.raises(TaskFailedError, match="gone"):
        before.wait()
    with pytest.raises(TaskFailedError, match="gone"):
        value_of(outcomes[0])


def test_nobody_there_is_told_by_the_end_and_not_by_the_sender():
    def send(*_):
        raise BrokenPipeError

    calls = Calls(send)
    answer = calls.ask("run")
    calls.end(TaskFailedError.of("E200", "gone"))

    with pytest.raises(TaskFailedError, match="gone"):
        answer.wait()


def test_what_cannot_be_sent_is_no_open_request():
    def send(*_):
        raise TypeError("object cannot cross")

    calls = Calls(send)

    with pytest.raises(TypeError, match="cannot cross"):
        calls.ask("run", object())

    calls.answered(1, (True, None))
