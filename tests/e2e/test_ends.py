"""Tasks that crash, end the process, or get stuck: exit 1, words, a stack, and nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.command import JOBRUN, bash, environment, jobrun
from tests.support.limits import memory_group
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.thinning import thinned
from tests.support.waiting import wait_until

SPEC = """\
jobrun: 1
name: ends
seed: 5
init: [{task: start, steps: ["w = zeros(8)"]}]
epoch:
  - task: step
    timeout: 20s
    steps:
      - w += rng.normal(size=8)
      - {call: "ends:step", with: {x: w, epoch: epoch}, out: w}
stop: [{epochs: 4}]
checkpoint: {every: 1ep, async: false}
"""
# What the callable does in epoch 3, as long as the file `armed` is there.
MODULE = """\
import ctypes, os, pathlib, signal, subprocess, sys, threading, time

def end():
    {what}

def step(x, epoch):
    armed = pathlib.Path(__file__).with_name("armed")
    if epoch == 3 and armed.exists():
        end()
    return x
"""
TREE = (
    "one = subprocess.Popen(['setsid', 'sh', '-c', 'setsid sleep 300 & echo $! > pid; sleep 300'])"
)


def _folder(path: Path, statement: str, *changes: tuple[str, str]) -> Path:
    path.mkdir()
    text = SPEC
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (path / "ends.yaml").write_text(text)
    (path / "ends.py").write_text(MODULE.format(what=statement))
    (path / "armed").touch()
    return path


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    folder = _folder(tmp_path_factory.mktemp("unbroken") / "x", "pass")
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert done.returncode == 0, done.stderr
    return _content(folder)


def _content(folder: Path) -> dict[int, object]:
    return {number: blobs(path) for number, path in epochs(only_run(folder / "runs")).items()}


def _goes_on(folder: Path, unbroken: dict[int, object]) -> None:
    """What was committed is intact, and a resume of it ends as an unbroken run."""
    saved = _content(folder)
    assert list(saved) == [0, 1, 2]
    assert saved == {number: unbroken[number] for number in saved}
    (folder / "armed").unlink()
    done = jobrun("resume", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert _content(folder) == unbroken


@pytest.mark.parametrize(
    ("statement", "words", "has_stack"),
    thinned(
        [
            ("os._exit(0)", "was ended by a call of os._exit(0) in epoch 3 (tasks: step)", True),
            (
                "ctypes.CDLL(None)._exit(0)",
                "exited with status 0 without a message, in epoch 3",
                False,
            ),
            ("ctypes.string_at(0)", "crashed (SIGSEGV", True),
            ("os.abort()", "crashed (SIGABRT", True),
            ("os.kill(os.getpid(), signal.SIGKILL)", "was killed (SIGKILL; it had used", False),
            ("os.kill(os.getpid(), signal.SIGTRAP)", "was killed by SIGTRAP in epoch 3", False),
        ],
        2,
    ),
)
def test_row_68_any_end_of_the_process_is_reported_and_loses_nothing(
    statement, words, has_stack, tmp_path, unbroken
):
    folder = _folder(tmp_path / "x", statement)
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    # A kill is no failure of the job's own code.
    assert done.returncode == (7 if "SIGKILL" in statement else 1), done.stderr
    assert "error[E386]" in done.stderr
    assert words in done.stderr
    assert f"jobrun resume {only_run(folder / 'runs')}" in done.stderr
    assert (f'File "{folder / "ends.py"}", line 4, in end' in done.stderr) == has_stack
    assert ('File "ends.yaml"' in done.stderr) == has_stack
    _goes_on(folder, unbroken)


def test_row_68_sys_exit_is_a_failure_of_the_callable(tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "sys.exit(0)")
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert (done.returncode, "error[E206]" in done.stderr) == (1, True)
    _goes_on(folder, unbroken)


def test_row_68_the_copy_of_a_callable_that_forks_does_not_continue_the_run(tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "pid = os.fork(); pid and os.waitpid(pid, 0)")
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert done.returncode == 0, done.stderr
    assert _content(folder) == unbroken
    reported = (only_run(folder / "runs") / "committed.jsonl").read_text()
    assert reported.count("\n") == 5


@pytest.mark.long
def test_row_69_a_program_that_ignores_sigterm_is_killed(tmp_path, unbroken):
    call = '- {call: "ends:step", with: {x: w, epoch: epoch}, out: w}'
    deaf = "if [ -e armed ]; then trap '' TERM; sleep 300; fi"
    deaf = f"""{call}\n      - {{if: "epoch == 3", then: [{{run: "{deaf}"}}]}}"""
    folder = _folder(tmp_path / "x", "pass", (call, deaf), ("timeout: 20s", "timeout: 0.5s"))
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert (done.returncode, "error[E220]" in done.stderr) == (1, True), done.stderr
    _goes_on(folder, unbroken)


def test_row_70_a_memory_limit_is_reported_with_the_location(tmp_path, unbroken):
    hog = "import resource; limit = 3 << 30; "
    hog += "resource.setrlimit(resource.RLIMIT_AS, (limit, limit)); bytearray(limit)"
    folder = _folder(tmp_path / "x", hog)
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert done.returncode == 1, done.stderr
    assert "raised MemoryError, at ends.py:4 in end" in done.stderr
    _goes_on(folder, unbroken)


@pytest.mark.long
def test_row_70_an_out_of_memory_kill_is_reported(tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "blocks = [b'x' * (64 << 20) for _ in range(100)]")
    with memory_group(300 << 20) as group:
        if group is None:
            # A kill that says nothing of memory is all that can be had here.
            (folder / "ends.py").write_text(MODULE.format(what="os.kill(os.getpid(), 9)"))
        join = f"echo $$ > {group}/cgroup.procs; " if group else ""
        done = subprocess.run(
            ["sh", "-c", f'{join}exec "$@"', "sh", *JOBRUN, "run", "ends.yaml"], cwd=folder,
            env=environment(), capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
    assert done.returncode == 7, done.stderr
    assert "error[E386]" in done.stderr
    assert ("by the kernel: out of memory" in done.stderr) == bool(group)
    assert "in epoch 3 (tasks: step)" in done.stderr
    _goes_on(folder, unbroken)


@pytest.mark.long
def test_row_68_a_thread_that_was_left_running_does_not_hold_the_process(tmp_path):
    folder = _folder(tmp_path / "x", "threading.Thread(target=time.sleep, args=(300,)).start()")
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert done.returncode == 0, done.stderr
    assert list(_content(folder)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("statement", thinned(["os._exit(0)", "pass"], 2))
def test_row_77_what_has_a_session_of_its_own_ends_with_the_run(statement, tmp_path):
    folder = _folder(tmp_path / "x", f"{TREE}; time.sleep(0.3); {statement}")
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert done.returncode == (0 if statement == "pass" else 1), done.stderr
    assert not Path("/proc", (folder / "pid").read_text().strip()).exists()


def _started(folder: Path) -> subprocess.Popen[str]:
    """A run that is inside epoch 3, for as long as that is let."""
    process = subprocess.Popen(
        [*JOBRUN, "run", "ends.yaml", "--grace", "60s"], cwd=folder, env=environment(),
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    wait_until((folder / "inside").exists, "file 'inside'")
    return process


INSIDE = "open(armed := __file__.replace('ends.py', 'inside'), 'w').close(); time.sleep(1.5)"


@pytest.mark.long
@pytest.mark.parametrize("to", thinned(["the whole group", "one process"], 2))
def test_row_82_a_signal_is_one_request_whichever_process_gets_it(to, tmp_path):
    folder = _folder(tmp_path / "x", INSIDE)
    process = _started(folder)
    (os.kill if to == "one process" else os.killpg)(process.pid, signal.SIGTERM)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 75, output
    assert "epoch 3 is saved" in output
    assert list(_content(folder)) == [0, 1, 2, 3]


@pytest.mark.long
@pytest.mark.parametrize("kib", [250_000, 200_000, 160_000, 120_000, 80_000, 30_000])
def test_a_limit_of_address_space_ends_with_7_and_words(kib, tmp_path):
    folder = _folder(tmp_path / "x", "pass")
    code, _, output = bash(f"ulimit -v {kib}; jobrun run ends.yaml", folder)
    # How much the libraries take differs from one machine to the next.
    assert code in (7, 0), output
    assert code == 0 or "memory" in output or "thread" in output or "E412" in output
    assert "E414" not in output


@pytest.mark.parametrize("to", thinned(["child", "parent", "the whole group"], 3))
def test_sigquit_ends_with_130_and_words(to, tmp_path, unbroken):
    folder = _folder(tmp_path / "x", INSIDE.replace("1.5", "300"))
    process = _started(folder)
    if to == "child":
        (child,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        os.kill(int(child), signal.SIGQUIT)
    else:
        (os.kill if to == "parent" else os.killpg)(process.pid, signal.SIGQUIT)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert "was killed by SIGQUIT before it could save, in epoch 3 (tasks: step)" in output
    assert f'File "{folder / "ends.py"}", line 4, in end' in output
    assert "jobrun resume" in output
    _goes_on(folder, unbroken)


@pytest.mark.long
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_a_limit_of_processor_time_ends_with_7_and_words(session, tmp_path, unbroken):
    folder = _folder(tmp_path / "x", "while True: pass")
    code, _, output = bash(
        f"ulimit -t 4; jobrun run ends.yaml --session {session} --max-failures 1", folder
    )
    assert code == 7, output
    assert "ulimit -t" in output
    _goes_on(folder, unbroken)


@pytest.mark.long
def test_row_80_who_is_killed_holds_nothing_that_a_resume_at_once_would_meet(tmp_path, unbroken):
    folder = _folder(tmp_path / "x", INSIDE.replace("1.5", "300"))
    process = _started(folder)
    process.kill()
    process.communicate(timeout=60)
    _goes_on(folder, unbroken)


@pytest.mark.long
def test_row_69_code_that_keeps_the_interpreter_is_ended_by_the_second_signal(tmp_path, unbroken):
    # In C, without letting go of the interpreter's lock: no thread of the process can do anything.
    folder = _folder(tmp_path / "x", "ctypes.PyDLL(None).sleep(1000)")
    with subprocess.Popen(
        [*JOBRUN, "run", "ends.yaml"],
        cwd=folder,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not list((folder / "runs").glob("*/2*/checkpoints/epoch-000002")):
            assert process.poll() is None
            time.sleep(0.02)
        time.sleep(1)
        for _ in range(2):
            process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
        output = process.communicate(timeout=60)[1]

    assert process.returncode == 75, output
    assert "did not react to the second SIGTERM" in output
    assert f'File "{folder / "ends.py"}", line 4, in end' in output
    _goes_on(folder, unbroken)


# What a task waits in for ever, the session, and the errors that are told. The last keeps the
# interpreter's lock in C, so that no thread of its process can do anything.
WAITS = [
    ("time.sleep(1000)", "threads", ["E220", "E215"]),
    ("lock = threading.Lock(); lock.acquire(); lock.acquire()", "threads", ["E220", "E215"]),
    ("ctypes.PyDLL(None).sleep(1000)", "threads", ["E220"]),
    ("ctypes.PyDLL(None).sleep(1000)", "processes", ["E220"]),
]


@pytest.mark.long
def test_row_69_a_task_that_cannot_be_ended_ends_its_process_after_its_limit(tmp_path, unbroken):
    # All at once: each gets half a minute to end by itself.
    started = []
    for number, (case, session, _) in enumerate(WAITS):
        folder = _folder(tmp_path / str(number), case, ("timeout: 20s", "timeout: 0.5s"))
        command = [*JOBRUN, "run", "ends.yaml", "--session", session]
        started.append(
            (
                folder,
                subprocess.Popen(
                    command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True
                ),
            )
        )
    for (folder, process), (_, _, codes) in zip(started, WAITS, strict=True):
        output = process.communicate(timeout=300)[1]
        assert process.returncode == 1, output
        assert [code for code in codes if f"error[{code}]" not in output] == [], output
        assert "the task took longer than its limit" in output
        assert "(task step, node local, epoch 3)" in output
        assert f"{folder / 'ends.py'}" in output
        assert ", line 4, in end" in output or "line 4 in end" in output
        _goes_on(folder, unbroken)


def test_row_73_a_callable_that_changes_the_process_changes_nothing_else(tmp_path, unbroken):
    rude = "os.chdir('/'); os.umask(0o777); sys.stdout = sys.stderr = None; "
    rude += "sys.path.clear(); os.environ.clear()"
    folder = _folder(tmp_path / "x", rude)
    done = jobrun("run", "ends.yaml", cwd=folder, started=True)
    assert done.returncode == 0, done.stderr
    assert "changed the mask of new files of the whole process" in done.stderr
    assert "finished after epoch 4" in done.stderr
    assert _content(folder) == unbroken
    modes = {path.stat().st_mode & 0o777 for path in only_run(folder / "runs").rglob("*")}
    assert modes <= {0o755, 0o644, 0o600}
