from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

from jobrun.runtime.context.child_processes import ChildReaper

HOLDER = """
import subprocess, sys, time
from jobrun.runtime.context.child_processes import ChildReaper
program = subprocess.Popen(["sleep", "1000"], process_group=0)
other = subprocess.Popen(["sleep", "1000"], process_group=0)
reaper = ChildReaper()
with reaper.watching(other.pid):
    pass
with reaper.watching(program.pid):
    print(program.pid, other.pid, flush=True)
    time.sleep(1000)
"""


def test_a_program_ends_when_its_holder_is_killed():
    holder = subprocess.Popen([sys.executable, "-c", HOLDER], stdout=subprocess.PIPE, text=True)
    held, free = map(int, holder.stdout.readline().split())

    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()

    assert _ends(held)
    assert _lives(free)
    os.kill(free, signal.SIGKILL)


EARLY = """
import os, signal, subprocess
from jobrun.runtime.context.child_processes import ChildReaper
reaper = ChildReaper()
program = subprocess.Popen(["sleep", "1000"], process_group=0,
                           env={**os.environ, **reaper.environment()})
print(program.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_program_ends_when_its_holder_dies_before_it_could_write_down_its_number():
    holder = subprocess.Popen([sys.executable, "-c", EARLY], stdout=subprocess.PIPE, text=True)
    started = int(holder.stdout.readline())

    holder.wait()
    holder.stdout.close()

    assert _ends(started)


def test_closing_lets_go():
    program = subprocess.Popen(["sleep", "1000"], process_group=0)
    reaper = ChildReaper()
    with reaper.watching(program.pid):
        pass

    reaper.close()
    reaper.close()

    assert program.poll() is None
    program.kill()
    program.wait()


def test_a_leash_that_was_never_used_starts_nothing():
    reaper = ChildReaper()

    reaper.close()

    assert reaper._watcher is None


def test_the_run_continues_when_its_shell_is_killed():
    reaper = ChildReaper()
    with reaper.watching(2**22 + 1):
        pass
    reaper._watcher.kill()
    reaper._watcher.wait()

    with reaper.watching(2**22 + 1):
        pass

    reaper.close()


def _lives(pid: int) -> bool:
    try:
        with Path(f"/proc/{pid}/stat").open() as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def _ends(pid: int) -> bool:
    for _ in range(2000):
        if not _lives(pid):
            return True
        threading.Event().wait(0.005)
    return False
