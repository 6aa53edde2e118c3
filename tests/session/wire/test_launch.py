from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.session.wire.launch import LocalProcess, prepare_worker


@pytest.mark.long
def test_a_process_ends_when_its_master_closes_the_connection():
    process = LocalProcess("trainer_1")

    process.channel.close()
    # However long that takes: to end it by force is another matter.
    process.wait_for_exit()
    how = process.join()
    process.release()

    # For whoever looks at the list of processes.
    assert process._process.args[-1] == "trainer_1"
    assert how == "ended with exit code 1"


@pytest.mark.long
def test_signals_for_the_whole_group_do_not_end_it():
    process = LocalProcess("n")
    # Also before it has begun.
    os.kill(process.pid, signal.SIGINT)
    process.channel.send("names", 1)
    # The answer, an error since nothing is open, comes when it has begun.
    assert process.channel.receive()[0] == "answer"

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        os.kill(process.pid, number)
    process.channel.send("names", 2)

    assert process.channel.receive()[:2] == ("answer", 2)
    os.kill(process.pid, signal.SIGKILL)
    assert process.join() == "was ended by SIGKILL"
    process.channel.close()
    process.release()


@pytest.mark.long
def test_a_process_that_was_stopped_and_goes_on_is_left_alone():
    process = LocalProcess("n")
    watching = threading.Thread(target=process.wait_for_exit)
    watching.start()

    os.kill(process.pid, signal.SIGSTOP)
    while Path("/proc", str(process.pid), "stat").read_text().rpartition(") ")[2][0] != "T":
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGCONT)
    process.channel.send("names", 1)

    assert process.channel.receive()[:2] == ("answer", 1)
    process.channel.close()
    watching.join()
    assert process.join() == "ended with exit code 1"
    process.release()


def test_a_process_that_cannot_be_started_is_a_fault_of_the_machine(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/no/such/python")

    with pytest.raises(EnvironmentFaultError) as caught:
        LocalProcess("n")

    assert caught.value.faults[0].code == "E396"


def test_a_process_whose_master_died_before_it_began_ends(monkeypatch):
    monkeypatch.setattr("ctypes.CDLL", lambda *_, **__: type("C", (), {"prctl": lambda *_: 0})())

    assert prepare_worker(0, master=-1) is None
