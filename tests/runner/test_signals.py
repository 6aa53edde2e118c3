"""Requests to end, as signals and otherwise. In a thread and in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from jobrun.runner.signals import StopRequests

SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT]


def until(condition):
    """Wait for another thread, without saying how long that may take."""
    while not condition():
        time.sleep(0.001)


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_and_drops_nothing(number):
    cancelled = []
    with StopRequests(lambda: cancelled.append(1), grace_s=1000) as requests:
        os.kill(os.getpid(), number)
        until(lambda: requests.reason)

        assert requests.reason == f"signal {number.name}"
        assert requests.interrupted == (number == signal.SIGINT)
        assert not requests.dropping
    assert not cancelled


def test_the_second_signal_drops_at_once_and_keeps_the_first_reason():
    cancelled = threading.Event()
    with StopRequests(cancelled.set, grace_s=1000) as requests:
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: requests.reason)
        os.kill(os.getpid(), signal.SIGINT)

        cancelled.wait()
        assert requests.dropping
        assert requests.reason == "signal SIGTERM"
        assert not requests.interrupted


def test_an_epoch_that_will_not_fit_into_the_grace_is_dropped_at_once():
    cancelled = threading.Event()
    with StopRequests(cancelled.set, grace_s=1000) as requests:
        requests.expect(2000.0)
        os.kill(os.getpid(), signal.SIGTERM)

        cancelled.wait()
        assert requests.dropping


def test_an_epoch_that_fits_into_the_grace_goes_on():
    with StopRequests(lambda: None, grace_s=1000) as requests:
        requests.expect(10.0)
        os.kill(os.getpid(), signal.SIGTERM)
        until(lambda: requests.reason)

        assert not requests.dropping


def test_what_takes_longer_than_the_grace_is_dropped_when_it_is_over():
    cancelled = threading.Event()
    with StopRequests(cancelled.set, grace_s=0.05) as requests:
        os.kill(os.getpid(), signal.SIGTERM)

        cancelled.wait()
        assert requests.dropping


def test_a_cancel_is_repeated_since_it_may_fall_between_two_groups():
    count = []
    with StopRequests(lambda: count.append(1), grace_s=0) as requests:
        requests.ask("a test")

        until(lambda: len(count) > 2)
    assert requests.dropping


def test_a_time_limit_asks():
    with StopRequests(lambda: None, time_s=0.01) as requests:
        until(lambda: requests.reason)

        assert "time limit" in requests.reason


def test_a_file_in_the_run_asks(tmp_path):
    with StopRequests(lambda: None, request=tmp_path / "stop") as requests:
        (tmp_path / "stop").touch()
        until(lambda: requests.reason)

        assert requests.reason == "a stop was requested"


def test_handlers_are_as_before_afterwards():
    before = [signal.getsignal(number) for number in SIGNALS]
    wakeup = signal.set_wakeup_fd(-1)

    with StopRequests(lambda: None):
        assert [signal.getsignal(number) for number in SIGNALS] != before

    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert signal.set_wakeup_fd(wakeup) == -1


def test_what_is_ignored_from_outside_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequests(lambda: None) as requests:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            until(lambda: requests.reason)

            assert requests.reason == "signal SIGTERM"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_other_signals_are_not_requests():
    before = signal.signal(signal.SIGUSR2, lambda number, frame: None)
    try:
        with StopRequests(lambda: None) as requests:
            os.kill(os.getpid(), signal.SIGUSR2)
            os.kill(os.getpid(), signal.SIGTERM)
            until(lambda: requests.reason)

            assert requests.reason == "signal SIGTERM"
            assert not requests.dropping
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_outside_the_main_thread_no_handler_is_installed():
    found = []

    def run():
        before = signal.getsignal(signal.SIGTERM)
        with StopRequests(lambda: None) as requests:
            found.append(signal.getsignal(signal.SIGTERM) == before)
            requests.ask("a test")
            found.append(requests.reason)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert found == [True, "a test"]


def test_a_storm_of_signals_ends_in_one_request():
    program = """
import os, signal, time
from jobrun.runner.signals import StopRequests
with StopRequests(lambda: None, grace_s=1000) as requests:
    for _ in range(1000):
        os.kill(os.getpid(), signal.SIGTERM)
    while not requests.dropping:
        time.sleep(0.001)
print(requests.reason)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert done.stdout == "signal SIGTERM\n"
