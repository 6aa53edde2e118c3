"""The lock of a run, against real processes."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import stat
import subprocess
import sys

import pytest

from jobrun.core.errors import EnvironmentFaultError, LockedError
from jobrun.runner.rundir import lock as lock_module
from jobrun.runner.rundir.lock import (
    LOCK_NAME,
    Owner,
    RunLock,
    _is_dying,
    is_live,
    lock_starts,
    owner_of,
)

HOLDER = """
import pathlib, sys
from jobrun.runner.rundir.lock import RunLock
lock = RunLock.acquire(pathlib.Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_row_35_second_runner_is_refused_with_the_name_of_the_holder(tmp_path, holder):
    with pytest.raises(LockedError, match=f"process {holder.pid} on ") as raised:
        RunLock.acquire(tmp_path)

    assert raised.value.exit_code == 6
    assert is_live(tmp_path)


def test_row_36_a_stopped_holder_still_holds(tmp_path, holder):
    os.kill(holder.pid, signal.SIGSTOP)
    # The signal has been sent then; that the process has stopped is told here.
    os.waitid(os.P_PID, holder.pid, os.WSTOPPED | os.WNOWAIT)
    try:
        with pytest.raises(LockedError) as raised:
            RunLock.acquire(tmp_path)
    finally:
        os.kill(holder.pid, signal.SIGCONT)

    (fault,) = raised.value.faults
    assert f"process {holder.pid} on" in fault.message
    assert "which is stopped" in fault.message
    assert f"kill -CONT {holder.pid}" in fault.mend


def test_row_37_a_killed_holder_needs_no_unlocking(tmp_path, holder):
    holder.kill()
    holder.wait()

    with RunLock.acquire(tmp_path):
        assert owner_of(tmp_path).pid == os.getpid()
    assert not is_live(tmp_path)


def test_row_38_a_lock_file_that_is_deleted_is_noticed(tmp_path):
    with RunLock.acquire(tmp_path) as lock:
        (tmp_path / LOCK_NAME).unlink()

        with pytest.raises(EnvironmentFaultError, match="removed or replaced") as raised:
            lock.check()

    assert raised.value.faults[0].code == "E355"


def test_row_38_a_lock_file_that_is_replaced_is_noticed(tmp_path):
    with RunLock.acquire(tmp_path) as lock:
        (tmp_path / LOCK_NAME).rename(tmp_path / "old")
        (tmp_path / LOCK_NAME).touch()

        with pytest.raises(EnvironmentFaultError):
            lock.check()


def test_row_38_a_lock_file_replaced_while_it_is_taken_is_not_the_lock(tmp_path, monkeypatch):
    flock = fcntl.flock

    def late(descriptor, operation):
        flock(descriptor, operation)
        (tmp_path / LOCK_NAME).unlink()
        (tmp_path / LOCK_NAME).touch()

    monkeypatch.setattr(fcntl, "flock", late)

    with pytest.raises(EnvironmentFaultError, match="removed or replaced"):
        RunLock.acquire(tmp_path)


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / LOCK_NAME).symlink_to(tmp_path / "elsewhere")

    with pytest.raises(EnvironmentFaultError):
        RunLock.acquire(tmp_path)

    assert not (tmp_path / "elsewhere").exists()


def test_programs_started_meanwhile_do_not_inherit_the_lock(tmp_path):
    with RunLock.acquire(tmp_path):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        RunLock.acquire(tmp_path).release()
    finally:
        child.communicate(b"\n")


FORKING = """
import os, pathlib, signal, sys
from jobrun.runner.rundir.lock import RunLock
lock = RunLock.acquire(pathlib.Path(sys.argv[1]))
if os.fork() == 0:
    print("forked", flush=True)
    sys.stdin.read()
    os._exit(0)
signal.pause()
"""


def test_a_process_that_a_callable_forked_does_not_hold_the_run_of_a_killed_runner(tmp_path):
    runner = subprocess.Popen(
        [sys.executable, "-c", FORKING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert runner.stdout.readline() == "forked\n"
    with pytest.raises(LockedError):
        RunLock.acquire(tmp_path)

    runner.kill()
    runner.wait()

    # The forked process still waits for its input.
    RunLock.acquire(tmp_path).release()
    runner.communicate()


STARTING = """
import pathlib, subprocess, sys
from jobrun.runner.rundir.lock import RunLock
lock = RunLock.acquire(pathlib.Path(sys.argv[1]))
# A program between fork and exec has what its parent has open.
subprocess.Popen(["sleep", "0.5"], pass_fds=(lock._descriptor, lock._directory))
print("held", flush=True)
sys.stdin.read()
"""


def test_a_program_that_a_killed_runner_was_starting_is_waited_for(tmp_path):
    holder = subprocess.Popen(
        [sys.executable, "-c", STARTING, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout.readline() == "held\n"

    holder.kill()
    holder.wait()
    assert is_live(tmp_path)

    with RunLock.acquire(tmp_path):
        assert owner_of(tmp_path).pid == os.getpid()
    holder.communicate()


def test_invalid_lock_file_content_is_ignored(tmp_path):
    (tmp_path / LOCK_NAME).write_bytes(b"\xff{[")

    assert str(owner_of(tmp_path)) == "another process"
    assert not is_live(tmp_path)


def test_a_lock_may_be_released_twice(tmp_path):
    lock = RunLock.acquire(tmp_path)

    lock.release()
    lock.release()

    RunLock.acquire(tmp_path).release()


@pytest.mark.parametrize("link", [False, True])
def test_row_39_a_directory_or_a_link_put_in_the_runs_place_is_noticed(tmp_path, link):
    run = tmp_path / "run"
    run.mkdir()
    with RunLock.acquire(run) as lock:
        run.rename(tmp_path / "moved")
        if link:
            (tmp_path / "trap").mkdir()
            run.symlink_to(tmp_path / "trap")
        else:
            run.mkdir()

        with pytest.raises(EnvironmentFaultError, match=r"directory .* was removed or replaced"):
            lock.check()


def test_row_45_a_directory_that_is_removed_is_noticed(tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    with RunLock.acquire(run) as lock:
        (run / LOCK_NAME).rename(tmp_path / "kept")
        run.rmdir()

        with pytest.raises(EnvironmentFaultError):
            lock.check()


def test_row_49_file_system_without_locks_is_refused(tmp_path, monkeypatch):
    def refuse(descriptor, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    with pytest.raises(EnvironmentFaultError, match="knows no locks"):
        RunLock.acquire(tmp_path)


@pytest.mark.parametrize("locks_directories", [True, False])
def test_starts_exclude_one_another_also_where_directories_cannot_be_locked(
    tmp_path, monkeypatch, locks_directories
):
    real = fcntl.flock

    def flock(descriptor, operation):
        if not locks_directories and stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        real(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock)
    monkeypatch.setattr(lock_module, "_START_S", 0.1)

    with lock_starts(tmp_path):
        with pytest.raises(LockedError) as raised, lock_starts(tmp_path):
            pass
        assert (raised.value.exit_code, raised.value.faults[0].code) == (6, "E460")
    with lock_starts(tmp_path):
        pass


def test_starts_on_a_file_system_without_locks_are_left_to_the_lock_of_the_run(
    tmp_path, monkeypatch
):
    def refuse(descriptor, operation):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)

    with lock_starts(tmp_path):
        pass


def test_a_holder_that_was_killed_and_is_not_gone_yet_is_waited_for(tmp_path, monkeypatch):
    held = RunLock.acquire(tmp_path)
    looked = []

    def _dies(owner):
        looked.append(owner.pid)
        if len(looked) == 3:
            held.release()
        return True

    monkeypatch.setattr("jobrun.runner.rundir.lock._is_dying", _dies)
    RunLock.acquire(tmp_path).release()
    assert looked[:3] == [os.getpid()] * 3


def test_live_or_ended_process_is_not_dying():
    assert not _is_dying(Owner(os.getpid(), socket.gethostname()))
    assert not _is_dying(Owner(2**22 + 1, socket.gethostname()))
    assert not _is_dying(Owner(os.getpid(), "elsewhere"))
    assert not _is_dying(Owner())


def test_zombie_process_counts_as_dying():
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert _is_dying(Owner(child.pid, socket.gethostname()))
    child.wait()
