"""A command in a process of its own: its code, its end, its signals, and what it leaves behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jobrun.cli.supervisor import LimitRecorder, OverdueDetector
from jobrun.cli.unexpected_end import build_timeout_fault, task_line_of
from jobrun.core.events import GroupStarted, RunEnded, TaskEnded, TaskLimited, TasksGivenUp
from tests.support.command import environment
from tests.support.waiting import wait_until

# The work of the child is a text of Python; what the parent makes of its end is printed.
PROGRAM = """
import os, signal, subprocess, sys, time
from jobrun.cli import supervisor as guard
from jobrun.cli.supervised_child import SupervisedChild, is_supervised_child, run_as_child
from jobrun.core.stop_signals import MEANT, RELAYS

def work(shared):
    shared.let_signals_in(); {work}
    return 5

def explain(shared, ended):
    print("ended", ended.status, ended.most_bytes > 0, shared.read("exit"), shared.read("run"))
    print("ignored_signal", ended.ignored_signal, ended.is_second)
    print(shared.stacks)
    return 9

guard._LINGERING_S, guard._TICK_S = 0.3, 0.1
guard._ENDING_S = guard._LATE_S = 0.1
if is_supervised_child():
    sys.exit(run_as_child(work))
print("parent", os.getpid(), flush=True)
sys.exit(guard.supervise(SupervisedChild([sys.executable, *sys.orig_argv[1:]], "0"), explain))
"""
SAY = "print('child', os.getpid(), flush=True); "
WAIT = f"signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); {SAY}time.sleep(60)"
_STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture(autouse=True)
def _nothing_stays():
    yield
    while _STARTED:
        process = _STARTED.pop()
        process.kill()
        process.wait()
        process.stdout.close()


def _start(work: str, **options) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(work=work)], env=environment(),
        stdout=subprocess.PIPE, text=True, **options,
    )  # fmt: skip
    _STARTED.append(process)
    return process


def _run(work: str) -> tuple[int, str]:
    process = _start(work)
    output, _ = process.communicate(timeout=60)
    return process.returncode, output


def _pid(process: subprocess.Popen[str], name: str) -> int:
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(name):
            return int(line.split()[1])
    raise AssertionError(f"no word of {name}")


def _state(pid: int) -> str:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(") ")[2][:1]
    except OSError:
        return ""


def test_the_code_of_the_command_is_that_of_the_process():
    code, output = _run("pass")
    assert (code, "ended" in output) == (5, False)


@pytest.mark.parametrize(
    ("work", "words"),
    [
        ("os._exit(0)", "ended 0 True os._exit(0)"),
        ("os.kill(os.getpid(), signal.SIGKILL)", "ended -9 True"),
        ("import ctypes; ctypes.CDLL(None)._exit(0)", "ended 0 True"),
        ("import ctypes; ctypes.string_at(0)", "ended -11 True"),
    ],
)
def test_an_end_without_a_code_is_explained(work, words):
    code, output = _run(work)
    assert code == 9
    assert words in output


@pytest.mark.parametrize("work", ["os._exit(0)", "import ctypes; ctypes.string_at(0)"])
def test_the_stack_of_the_thread_that_ended_it_is_there(work):
    assert 'File "<string>", line 8 in work' in _run(work)[1]


def test_what_was_noted_outlives_a_kill():
    code, output = _run("shared.write('run', 'x' * 9999); os.kill(os.getpid(), signal.SIGKILL)")
    assert code == 9
    assert output.count("x") == 2047


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGQUIT])
@pytest.mark.parametrize("to", ["parent", "child", "group"])
def test_a_signal_that_ends_the_child_before_anyone_listens_is_explained(number, to):
    process = _start(f"{SAY}time.sleep(60)", start_new_session=True)
    child = _pid(process, "child")
    if to == "group":
        os.killpg(process.pid, number)
    else:
        os.kill(child if to == "child" else process.pid, number)
    output, _ = process.communicate(timeout=100)
    assert process.returncode == 9
    assert f"ended -{int(number)}" in output


def test_a_signal_to_the_parent_comes_to_the_child_under_its_own_number():
    listen = "signal.signal(RELAYS[signal.SIGTERM], lambda n, _: os._exit(MEANT[n])); "
    process = _start(f"{listen}{SAY}time.sleep(60)")
    _pid(process, "child")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=100)
    assert (process.returncode, "os._exit(15)" in output) == (9, True)


@pytest.mark.long
def test_a_signal_that_is_ignored_from_outside_is_not_passed_on():
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    process = _start(f"{SAY}time.sleep(0.6)", preexec_fn=ignore)
    _pid(process, "child")
    process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=100) == 5


def test_ctrl_c_while_the_child_starts_is_no_traceback(tmp_path):
    (tmp_path / "long.yaml").write_text(
        "jobrun: 1\nname: long\nepoch: [{task: wait, steps: [{sleep: 60s}]}]\nstop: [{epochs: 1}]\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "jobrun", "run", "long.yaml"], cwd=tmp_path, env=environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    _STARTED.append(process)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while not children.read_text():
        pass

    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 130
    assert "Traceback" not in output


def test_the_child_dies_with_its_parent():
    process = _start(f"{SAY}time.sleep(60)")
    child = _pid(process, "child")
    process.kill()
    process.communicate(timeout=100)
    wait_until(lambda: _state(child) in ("", "Z"))


@pytest.mark.long
def test_the_child_stops_and_continues_with_its_parent():
    process = _start(WAIT)
    child = _pid(process, "child")
    process.send_signal(signal.SIGSTOP)
    wait_until(lambda: _state(child) == "T")
    process.send_signal(signal.SIGCONT)
    wait_until(lambda: _state(child) == "S")
    os.kill(child, signal.SIGTERM)
    process.communicate(timeout=100)
    assert process.returncode == 9


def test_what_the_command_leaves_behind_ends_with_it():
    process = _start(
        "one = subprocess.Popen(['setsid', 'sleep', '300']); print('left', one.pid, flush=True)"
    )
    left_behind = _pid(process, "left")
    assert process.wait(timeout=100) == 5
    assert _state(left_behind) in ("", "Z")


def test_children_from_before_are_not_its_own():
    line = f"sleep 50 > /dev/null & echo before $!; exec '{sys.executable}' -c \"$PROGRAM\""
    done = subprocess.run(
        ["bash", "-c", line], env=environment(PROGRAM=PROGRAM.format(work="pass")),
        stdout=subprocess.PIPE, text=True, check=False, timeout=60,
    )  # fmt: skip
    before = int(done.stdout.split()[1])
    assert done.returncode == 5
    assert _state(before) == "S"
    os.kill(before, signal.SIGKILL)


@pytest.mark.long
def test_a_command_that_has_ended_is_not_held_up_by_its_threads():
    hang = "import threading; threading.Thread(target=time.sleep, args=(300,)).start()"
    assert _run(hang)[0] == 5


def test_a_copy_of_the_child_does_not_speak_for_it():
    code, _ = _run("pid = os.fork(); pid and os.waitpid(pid, 0)")
    assert code == 5


DEAF = (
    "signal.signal(RELAYS[signal.SIGTERM], lambda *_: None); "
    'shared.write("grace", "0.2"); shared.write("group", "{group}"); '
    + SAY
    + "end = time.monotonic() + {s}\n    while time.monotonic() < end: time.sleep(0.01)"
)


def test_a_run_inside_a_long_call_when_its_grace_is_over_is_killed():
    process = _start(DEAF.format(group="epoch", s=60))
    _pid(process, "child")
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=60)

    assert process.returncode == 9
    assert f"ignored_signal {signal.SIGTERM:d} False" in output
    assert "Fatal Python error: Aborted" in output


@pytest.mark.long
def test_a_run_between_groups_when_its_grace_is_over_is_waited_for():
    process = _start(DEAF.format(group="", s=1))
    _pid(process, "child")
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)

    assert process.returncode == 5


def limited(task="step", limit_s=5.0, pid=0):
    return TaskLimited(
        task, "main", 3, f"epoch/{task}", "a.yaml", 7, 5, limit_s, 30.0, pid or os.getpid()
    )


ENDED = TaskEnded("step", "main", 3, 1.0, failed=False)


@pytest.fixture
def notes():
    return [""]


@pytest.fixture
def limits(notes):
    return LimitRecorder(notes.append)


def test_the_limit_that_is_over_first_is_noted(limits, notes):
    limits.listen(limited("late", 50.0))
    limits.listen(limited("soon", 5.0))
    limits.listen(limited("later", 500.0))

    assert '"task": "soon"' in notes[-1]


@pytest.mark.parametrize(
    "event",
    [
        ENDED,
        TasksGivenUp(("main/step",), 3, os.getpid()),
        GroupStarted("epoch", 4, ("step",)),
        RunEnded("failed", 2, 1.0, "why"),
    ],
)
def test_what_ends_the_task_takes_the_note_back(event, limits, notes):
    limits.listen(limited())
    limits.listen(event)

    assert notes[-1] == ""


def test_a_task_of_another_process_is_not_noted(limits, notes):
    limits.listen(limited(pid=1))

    assert notes == [""]


def test_tasks_without_a_limit_note_nothing(limits, notes):
    limits.listen(GroupStarted("epoch", 4, ("step",)))
    limits.listen(ENDED)

    assert notes == [""]


class Watching:
    """Looks once a second, or after longer spans."""

    def __init__(self, text: str) -> None:
        self.text, self.now = text, 0.0
        self.overdue = OverdueDetector(lambda: self.text, lambda: self.now)

    def after(self, *spans_s: float) -> list[str]:
        polled = []
        for span_s in spans_s:
            self.now += span_s
            polled.append(self.overdue.poll())
        return polled


def test_a_task_is_overdue_some_time_after_its_end():
    looks = Watching("20.0\ntask").after(*[1.0] * 40)

    assert looks.index("task") + 1 in range(30, 34)


def test_nothing_is_overdue_when_nothing_is_noted():
    assert not any(Watching("").after(*[1.0] * 100))


def test_time_in_which_the_detector_does_not_poll_does_not_count():
    """A computer that slept, or both processes stopped: the task has had no time to heed it."""
    assert not any(Watching("20.0\ntask").after(5.0, 3600.0, 1.0, 1.0, 1.0))


def test_another_note_starts_again():
    watching = Watching("0.0\none")
    watching.after(*[1.0] * 8)
    watching.text = "0.0\ntwo"

    assert not any(watching.after(*[1.0] * 8))


def test_a_note_that_is_being_written_is_no_note():
    assert not any(Watching("2\x00.0x\ntask").after(*[1.0] * 100))


def test_it_is_reported_with_its_position(limits, notes):
    limits.listen(limited())
    task = notes[-1].partition("\n")[2]

    fault = build_timeout_fault(task, "resume")

    assert fault.code == "E220"
    assert "its limit of 5 s (task step, node main, epoch 3)" in fault.message
    assert (str(fault.where), fault.path, fault.mend) == ("a.yaml:7:5", "epoch/step", "resume")
    assert task_line_of(task) == 7
    assert task_line_of("") == 0
