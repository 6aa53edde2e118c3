from __future__ import annotations

import threading

import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.context.cancel import CancelledError, CancelScope
from jobrun.session.wire.codec import serialize_error
from jobrun.session.wire.rpc import RpcClient, unwrap_outcome


class Line:
    """Keeps what is sent."""

    def __init__(self):
        self.sent = []

    def __call__(self, *message):
        self.sent.append(message)


def test_an_answer_goes_to_the_request_of_its_number():
    calls = RpcClient(line := Line())
    first, second = calls.call("read", "a"), calls.call("read", "b")

    for kind, number, name in reversed(line.sent):
        calls.resolve(number, (True, f"{kind} {name}"))

    assert (first.wait(), second.wait()) == ("read a", "read b")


def test_an_error_is_raised_where_it_was_asked():
    calls = RpcClient(Line())
    answer = calls.call("run")

    calls.resolve(1, (False, serialize_error(TaskFailedError.of("E200", "broken"))))

    with pytest.raises(TaskFailedError, match="broken"):
        answer.wait()


def test_cancel_wakes_waiting_threads():
    answer = RpcClient(Line()).call("take")
    scope = CancelScope()
    threading.Timer(0.01, scope.cancel).start()

    with pytest.raises(CancelledError):
        answer.wait(scope)


def test_after_the_end_all_requests_fail():
    calls = RpcClient(Line())
    before = calls.call("run")
    calls.fail_all(TaskFailedError.of("E200", "gone"))
    outcomes = []

    calls.call_then(outcomes.append, "run")

    with pytest.raises(TaskFailedError, match="gone"):
        before.wait()
    with pytest.raises(TaskFailedError, match="gone"):
        unwrap_outcome(outcomes[0])


def test_broken_pipe_in_send_is_reported_by_fail_all():
    def send(*_):
        raise BrokenPipeError

    calls = RpcClient(send)
    answer = calls.call("run")
    calls.fail_all(TaskFailedError.of("E200", "gone"))

    with pytest.raises(TaskFailedError, match="gone"):
        answer.wait()


def test_request_that_cannot_be_sent_is_not_open():
    def send(*_):
        raise TypeError("object cannot cross")

    calls = RpcClient(send)

    with pytest.raises(TypeError, match="cannot cross"):
        calls.call("run", object())

    calls.resolve(1, (True, None))
