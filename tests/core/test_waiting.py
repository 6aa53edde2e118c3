"""Waiting with a time limit."""

from __future__ import annotations

import time

from jobrun.core.waiting import wait_until


def test_waiting_ends_when_the_condition_holds():
    answers = iter((False, False, True))

    assert wait_until(lambda: next(answers), 60.0, 0.001)


def test_waiting_ends_at_the_limit():
    started = time.monotonic()

    assert not wait_until(lambda: False, 0.05, 60.0)
    assert time.monotonic() - started < 5.0


def test_condition_is_asked_once_without_time():
    assert wait_until(lambda: True, 0.0)
    assert not wait_until(lambda: False, 0.0)
