from __future__ import annotations

import signal

import pytest

from jobrun.runtime.context.cancel import CancelledError, CancelScope


def test_a_scope_is_seen_once_it_is_cancelled():
    scope = CancelScope()
    scope.check()

    scope.cancel()

    with pytest.raises(CancelledError):
        scope.check()


def test_cancel_ends_a_loop_over_the_passes():
    scope, seen = CancelScope(), 0

    for _ in scope.passes:
        seen += 1
        if seen == 3:
            scope.cancel()

    assert seen == 3


def test_loops_that_begin_after_the_cancel_have_no_pass():
    asked, not_asked = CancelScope(), CancelScope()
    assert asked.passes
    asked.cancel()
    not_asked.cancel()

    assert asked.passes == not_asked.passes == []


def test_all_looping_threads_share_the_passes():
    scope = CancelScope()

    assert scope.passes is scope.passes


def test_a_scope_has_nothing_else_that_is_made_later():
    with pytest.raises(AttributeError, match="others"):
        _ = CancelScope().others


def test_cancel_wakes_waiting_threads():
    scope, woken = CancelScope(), []

    with scope.waking(lambda: woken.append(1)), scope.waking(lambda: woken.append(2)):
        scope.cancel()

    assert woken == [1, 2]


def test_a_waker_registered_after_the_cancel_is_called_at_once():
    scope, woken = CancelScope(), []
    scope.cancel()

    with scope.waking(lambda: woken.append(1)):
        assert woken == [1]


def test_a_waker_that_was_removed_is_not_called():
    scope, woken = CancelScope(), []
    with scope.waking(lambda: woken.append(1)):
        pass

    scope.cancel()

    assert woken == []


def test_cancel_may_come_from_a_signal_handler_at_any_instant():
    scope, woken = CancelScope(), []
    old = signal.signal(signal.SIGALRM, lambda *_: scope.cancel())
    signal.setitimer(signal.ITIMER_REAL, 0.02)
    try:
        while not scope.cancelled:
            with scope.waking(lambda: woken.append(1)):
                pass
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)

    assert scope.cancelled


def test_a_scope_gives_programs_time_unless_it_says_otherwise():
    assert not CancelScope().at_once
