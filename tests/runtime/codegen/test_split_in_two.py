from __future__ import annotations

import ctypes
import ctypes.util
import platform
import threading
from contextlib import nullcontext

import numpy as np
import pytest

from jobrun.runtime.codegen.fused_kernel import probe_arithmetic, run_in_two_threads
from jobrun.session.threads.thread_pool import ThreadPool

# Of fesetround, by the ABI of the machine.
_UPWARD = {"x86_64": 0x800, "aarch64": 0x400000}[platform.machine()]


@pytest.fixture
def crew():
    pool = ThreadPool(nullcontext)
    yield pool
    pool.close()


def both(act):
    """Work that each of two threads does once, each only when the other does it too."""
    meeting = threading.Barrier(2)

    def work():
        meeting.wait()
        act()

    return work


def in_other(act):
    """Work of which the other thread alone does something."""
    here = threading.current_thread()
    return both(lambda: act() if threading.current_thread() is not here else None)


def fail():
    raise MemoryError("there")


def test_two_threads_do_it(crew):
    seen: set[str] = set()

    with np.errstate(all="ignore"):
        run_in_two_threads(both(lambda: seen.add(threading.current_thread().name)), crew.start)

    assert len(seen) == 2


def test_an_error_of_the_second_thread_is_raised_in_the_first(crew):
    with np.errstate(all="ignore"), pytest.raises(MemoryError, match="there"):
        run_in_two_threads(in_other(fail), crew.start)


def test_an_error_of_the_first_thread_waits_for_the_second(crew):
    here = threading.current_thread()
    ended: list[bool] = []

    def act():
        if threading.current_thread() is here:
            fail()
        ended.append(True)

    with np.errstate(all="ignore"), pytest.raises(MemoryError, match="there"):
        run_in_two_threads(both(act), crew.start)

    assert ended == [True]


def test_floating_point_events_of_the_second_thread_are_reported_in_the_first(crew):
    reported: list[tuple[str, threading.Thread]] = []

    def note(kind, flags):
        reported.append((kind, threading.current_thread()))

    with np.errstate(all="call", call=note):
        run_in_two_threads(in_other(lambda: np.ones(3) / 0), crew.start)

    assert reported == [("divide by zero", threading.current_thread())]


def test_the_second_thread_uses_the_error_mode_of_the_first(crew):
    ways: list[dict[str, str]] = []
    with np.errstate(divide="call", over="ignore", under="ignore", invalid="call", call=fail):
        run_in_two_threads(in_other(lambda: ways.append(np.geterr())), crew.start)
        assert ways == [np.geterr()]


def test_events_that_cannot_wait_keep_all_in_one_thread(crew):
    threads: list[threading.Thread] = []

    with np.errstate(all="raise"):
        run_in_two_threads(lambda: threads.append(threading.current_thread()), crew.start)

    assert threads == [threading.current_thread()]


def test_without_a_second_thread_the_first_does_all_pieces():
    threads: list[threading.Thread] = []

    def start(work, done):
        raise RuntimeError("can't start new thread")

    with np.errstate(all="ignore"):
        run_in_two_threads(lambda: threads.append(threading.current_thread()), start)

    assert threads == [threading.current_thread()]


def test_a_single_thread_may_use_another_function():
    done: list[str] = []

    def start(work, done):
        raise RuntimeError("no processor is idle")

    with np.errstate(all="ignore"):
        run_in_two_threads(lambda: done.append("two"), start, lambda: done.append("alone"))

    assert done == ["alone"]


def test_a_thread_that_computes_otherwise_takes_no_part(crew):
    libm = ctypes.CDLL(ctypes.util.find_library("m"))
    before = libm.fegetround()
    here, seen = threading.current_thread(), []

    def rounds_up():
        libm.fesetround(_UPWARD)

    done = threading.Event()
    crew.start(rounds_up, done.set)
    done.wait()
    with np.errstate(all="ignore"):
        run_in_two_threads(lambda: seen.append(threading.current_thread()), crew.start)

    assert libm.fegetround() == before != _UPWARD
    assert seen == [here]


def test_the_probe_detects_subnormals_and_rounding_modes():
    assert probe_arithmetic() == probe_arithmetic()
    assert np.all(np.frombuffer(probe_arithmetic()) != 0)
