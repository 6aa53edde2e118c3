"""Requests to end, as signals and otherwise. In a thread and in processes of their own."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time

import pytest

from jobrun.core.stop_signals import RELAYS
from jobrun.runner.stop_requests import StopRequests, exit_on_early_signal
from tests.support.waiting import wait_until

SIGNALS = [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGINT]


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_and_drops_nothing(number):
    cancelled = []
    with StopRequests(lambda: cancelled.append(1), grace_s=1000) as requests:
        os.kill(os.getpid(), number)
        wait_until(lambda: requests.reason)

        assert requests.reason == f"signal {number.name}"
        assert requests.interrupted == (number == signal.SIGINT)
        assert not requests.dropping
    assert not cancelled


def test_second_signal_drops_immediately_and_keeps_the_first_reason():
    cancelled = threading.Event()
    with StopRequests(cancelled.set, grace_s=1000) as requests:
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: requests.reason)
        os.kill(os.getpid(), signal.SIGINT)

        cancelled.wait()
        assert requests.dropping
        assert requests.reason == "signal SIGTERM"
        assert not requests.interrupted


def test_epoch_longer_than_the_grace_is_dropped_immediately():
    cancelled = threading.Event()
    with StopRequests(cancelled.set, grace_s=1000) as requests:
        requests.expect(2000.0)
        os.kill(os.getpid(), signal.SIGTERM)

        cancelled.wait()
        assert requests.dropping


def test_epoch_that_fits_into_the_grace_continues():
    with StopRequests(lambda: None, grace_s=1000) as requests:
        requests.expect(10.0)
        os.kill(os.getpid(), signal.SIGTERM)
        wait_until(lambda: requests.reason)

        assert not requests.dropping


def test_epoch_longer_than_the_grace_is_dropped_after_it():
    cancelled = threading.Event()
    with StopRequests(cancelled.set, grace_s=0.05) as requests:
        os.kill(os.getpid(), signal.SIGTERM)

        cancelled.wait()
        assert requests.dropping


def test_a_cancel_is_repeated_since_it_may_fall_between_two_groups():
    count = []
    with StopRequests(lambda: count.append(1), grace_s=0) as requests:
        requests.ask("a test")

        wait_until(lambda: len(count) > 2)
    assert requests.dropping


def test_time_limit_requests_a_stop():
    with StopRequests(lambda: None, time_s=0.01) as requests:
        wait_until(lambda: requests.reason)

        assert "time limit" in requests.reason


@pytest.mark.long
def test_request_file_in_the_run_requests_a_stop(tmp_path):
    with StopRequests(lambda: None, request=tmp_path / "stop") as requests:
        (tmp_path / "stop").touch()
        wait_until(lambda: requests.reason)

        assert requests.reason == "a stop was requested"


def test_handlers_are_as_before_afterwards():
    before = [signal.getsignal(number) for number in SIGNALS]
    wakeup = signal.set_wakeup_fd(-1)

    with StopRequests(lambda: None):
        assert [signal.getsignal(number) for number in SIGNALS] != before

    assert [signal.getsignal(number) for number in SIGNALS] == before
    assert signal.set_wakeup_fd(wakeup) == -1


def test_signals_ignored_by_the_parent_stay_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with StopRequests(lambda: None) as requests:
            os.kill(os.getpid(), signal.SIGHUP)
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(lambda: requests.reason)

            assert requests.reason == "signal SIGTERM"
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_a_process_that_a_task_forks_ends_that_alone(number):
    # As multiprocessing does with the workers of a pool.
    cancelled = []
    with StopRequests(lambda: cancelled.append(1), grace_s=0) as requests:
        child = os.fork()
        if not child:
            time.sleep(100)
            os._exit(0)
        os.kill(child, number)
        _, status = os.waitpid(child, 0)
        time.sleep(0.2)

    assert os.waitstatus_to_exitcode(status) == -number
    assert (requests.reason, cancelled) == ("", [])


def test_a_forked_process_keeps_the_handlers_that_its_program_has_set():
    before = signal.signal(signal.SIGUSR1, lambda *_: os._exit(7))
    try:
        child = os.fork()
        if not child:
            os.kill(os.getpid(), signal.SIGUSR1)
            os._exit(0)
        _, status = os.waitpid(child, 0)
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert os.waitstatus_to_exitcode(status) == 7


def test_other_signals_are_not_requests():
    before = signal.signal(signal.SIGUSR2, lambda number, frame: None)
    try:
        with StopRequests(lambda: None) as requests:
            os.kill(os.getpid(), signal.SIGUSR2)
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(lambda: requests.reason)

            assert requests.reason == "signal SIGTERM"
            assert not requests.dropping
    finally:
        signal.signal(signal.SIGUSR2, before)


def test_outside_the_main_thread_no_handler_is_installed():
    seen = []

    def run():
        before = signal.getsignal(signal.SIGTERM)
        with StopRequests(lambda: None) as requests:
            seen.append(signal.getsignal(signal.SIGTERM) == before)
            requests.ask("a test")
            seen.append(requests.reason)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert seen == [True, "a test"]


def test_many_signals_make_one_request():
    program = """
import os, signal, time
from jobrun.runner.stop_requests import StopRequests, exit_on_early_signal
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


def test_an_epoch_that_would_not_be_saved_before_the_deadline_is_not_begun():
    with StopRequests(lambda: None, deadline_s=100) as requests:
        requests.foresee(20.0)
        assert not requests.reason
        requests.foresee(200.0)

        assert "before the deadline" in requests.reason
        assert not requests.dropping


def test_an_epoch_that_would_not_be_saved_within_the_time_limit_is_not_begun():
    with StopRequests(lambda: None, time_s=100, deadline_s=1000) as requests:
        requests.foresee(20.0)
        assert not requests.reason
        requests.foresee(200.0)

        assert "within the time limit of this invocation" in requests.reason
        assert "one of the last took 200 s" in requests.reason
        assert not requests.dropping


def test_the_longest_of_the_last_epochs_counts():
    with StopRequests(lambda: None, deadline_s=100) as requests:
        requests.foresee(99.0)
        requests._deadline_at -= 50
        requests.foresee(1.0)

        assert "before the deadline" in requests.reason


def test_epoch_running_at_the_deadline_is_dropped():
    cancelled = threading.Event()
    with StopRequests(cancelled.set, deadline_s=0.05) as requests:
        cancelled.wait()

        assert requests.dropping
        assert "deadline" in requests.reason


def test_row_82_a_signal_before_the_loop_ends_the_process_in_good_order():
    program = """
import os, signal, sys
from jobrun.core.errors import JobrunError
from jobrun.runner.stop_requests import exit_on_early_signal
try:
    with exit_on_early_signal():
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        while True:
            pass
except JobrunError as error:
    print(error.exit_code, error)
"""
    for name, code in (("SIGTERM", 75), ("SIGHUP", 75), ("SIGUSR1", 75), ("SIGINT", 130)):
        done = subprocess.run(
            [sys.executable, "-c", program, name], capture_output=True, text=True, check=True
        )
        assert done.stdout.startswith(f"{code} error[E36")
        assert name in done.stdout


def test_early_handlers_are_gone_afterwards():
    before = [signal.getsignal(number) for number in SIGNALS]
    with exit_on_early_signal():
        assert [signal.getsignal(number) for number in SIGNALS] != before

    assert [signal.getsignal(number) for number in SIGNALS] == before


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGUSR1", "SIGINT"])
def test_a_signal_after_a_run_has_recorded_its_end_does_not_change_it(name):
    with exit_on_early_signal():
        with StopRequests(lambda: None):
            pass
        os.kill(os.getpid(), getattr(signal, name))


def test_in_another_thread_early_signals_are_left_alone():
    handlers = []

    def run():
        with exit_on_early_signal():
            handlers.append(signal.getsignal(signal.SIGTERM))

    before = signal.getsignal(signal.SIGTERM)
    thread = threading.Thread(target=run)
    thread.start()
    thread.join()

    assert handlers == [before]


@pytest.fixture
def relayed():
    """As in a process that is watched by one that passes signals on."""
    for number in RELAYS.values():
        signal.signal(number, lambda *_: None)
    yield RELAYS
    for number in RELAYS.values():
        signal.signal(number, signal.SIG_DFL)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_is_passed_on_asks_like_one_that_came_by_itself(number, relayed):
    with StopRequests(lambda: None, grace_s=1000) as requests:
        os.kill(os.getpid(), relayed[number])
        wait_until(lambda: requests.reason)

        assert requests.reason == f"signal {number.name}"
        assert requests.interrupted == (number == signal.SIGINT)


@pytest.mark.parametrize("first", ["by itself", "passed on"])
def test_a_signal_to_all_processes_of_a_run_counts_once(first, relayed):
    ways = [signal.SIGTERM, relayed[signal.SIGTERM]]
    with StopRequests(lambda: None, grace_s=1000) as requests:
        for number in ways if first == "by itself" else reversed(ways):
            os.kill(os.getpid(), number)
        wait_until(lambda: requests.reason)
        time.sleep(0.1)
        assert not requests.dropping

        for number in ways:
            os.kill(os.getpid(), number)
        wait_until(lambda: requests.dropping)


def test_two_forwarded_signals_are_two_requests(relayed):
    with StopRequests(lambda: None, grace_s=1000) as requests:
        os.kill(os.getpid(), relayed[signal.SIGTERM])
        wait_until(lambda: requests.reason)
        os.kill(os.getpid(), relayed[signal.SIGTERM])
        wait_until(lambda: requests.dropping)


def test_no_handler_for_signals_that_are_not_passed_on():
    with StopRequests(lambda: None):
        assert signal.getsignal(RELAYS[signal.SIGTERM]) is signal.SIG_DFL


def test_it_listens_in_a_process_with_more_files_than_select_knows():
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(limit[0], 1200), limit[1]))
    opened = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
    try:
        with StopRequests(lambda: None, grace_s=1000) as requests:
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(lambda: requests.reason)
    finally:
        for descriptor in opened:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
