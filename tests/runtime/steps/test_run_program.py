"""The run step, with real programs."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import Logged
from jobrun.graph.steps import RunProgram
from jobrun.runtime.context.cancel import CancelledError
from jobrun.runtime.steps.run_program import explain_exit_code
from jobrun.runtime.steps.state_directory import unpack_directory
from jobrun.testing.graphs import expr, text
from jobrun.values.kinds.counter import Counter
from tests.support.step_bench import Bench


@pytest.fixture
def bench(tmp_path):
    (tmp_path / "run").mkdir()
    with Bench(str(tmp_path), x=np.arange(3.0), n=2) as step_bench:
        yield step_bench


def program(*command, values=None, out=(), env=()):
    inputs = tuple((name, expr(value)) for name, value in (values or {}).items())
    results = tuple((blob, text(path), member) for blob, path, member in out)
    return RunProgram(tuple(map(text, command)), False, env, inputs, results, path="e/t/run")


def shell(line, **more):
    created = program(line, **more)
    return RunProgram(
        created.command, True, created.env, created.values, created.results, path="e/t/run"
    )


def logged_lines(bench):
    return [event.text for event in bench.events if isinstance(event, Logged)]


def test_output_and_errors_become_log_lines_in_their_order(bench):
    bench.do(shell("echo one; echo two >&2; printf 'three'"))

    assert logged_lines(bench) == ["one", "two", "three"]
    assert bench.events[0].path == "e/t/run"


def test_a_program_runs_in_the_specs_folder_without_input(bench, tmp_path):
    bench.do(shell("pwd; cat"))

    assert logged_lines(bench) == [os.path.realpath(tmp_path)]


def test_a_program_sees_only_its_declared_environment(bench, monkeypatch, tmp_path):
    monkeypatch.setenv("SECRET", "s")
    monkeypatch.setenv("WANTED", "w")

    bench.do(program("/usr/bin/env", values={"lr": "0.5"}, env=("WANTED", "ABSENT")))

    seen = dict(line.split("=", 1) for line in logged_lines(bench))
    assert set(seen) - {"PATH", "HOME", "LANG", "TZ", "TMPDIR"} == {
        "WANTED",
        "JOBRUN_EPOCH",
        "JOBRUN_INSTANCE",
        "JOBRUN_INSTANCES",
        "JOBRUN_NODE",
        "JOBRUN_RUN_PATH",
        "JOBRUN_SEED",
        "JOBRUN_TASK",
        "JOBRUN_LR",
        "JOBRUN_REAPER",
    }
    assert (seen["JOBRUN_EPOCH"], seen["JOBRUN_NODE"], seen["JOBRUN_TASK"]) == ("3", "local", "t")
    assert seen["JOBRUN_RUN_PATH"] == f"{tmp_path}/run"


@pytest.mark.parametrize(
    ("value", "handed"),
    [
        (True, "true"), (np.bool_(False), "false"), (3, "3"), (0.1, "0.1"),
        (np.float32(0.5), "0.5"),
        ("a b'c", "a b'c"), (Counter(4), "4"), (None, "null"), (2 - 1j, "(2-1j)"),
        (float("inf"), "inf"), (np.longdouble(3), "3.0"), (np.int8(-3), "-3"),
        (np.datetime64(1, "ns"), "1970-01-01T00:00:00.000000001"),
        (np.timedelta64(5, "ms"), "5 milliseconds"),
        ([1, 2.5, "t\u00e9xt", None, True], '[1, 2.5, "t\\u00e9xt", null, true]'),
        ([], "[]"), ((1, [2]), "[1, [2]]"), ({"k": [1], "m": {}}, '{"k": [1], "m": {}}'),
    ],
)  # fmt: skip
def test_values_other_than_arrays_are_passed_as_text_or_json(bench, value, handed):
    bench.blobs["v"] = value

    bench.do(shell('echo "$JOBRUN_V"', values={"v": "v"}))

    assert logged_lines(bench) == [handed]


def test_integer_of_any_size_is_handed_over_whole(bench):
    bench.blobs["v"] = 16**4000

    bench.do(shell('echo "${#JOBRUN_V} ${JOBRUN_V:0:5}"', values={"v": "v"}))

    assert logged_lines(bench) == ["4003 0x100"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({1: 2}, "a dict with the key 1"), ([np.zeros(2)], "'v/0'"), ({"k": [1, b"x"]}, "'v/k/1'"),
        (b"x", "bytes"), ([float("nan")], "nan"), ([10**5000], "digits"),
        ("a\0b", "NUL"), ("\ud800", "Unicode"), ("x" * 200_000, "200000 characters"),
        ([np.float64(1)], "'v/0'"), (np.random.default_rng(0), "'v'"),
    ],
    ids=list(map(str, range(11))),
)  # fmt: skip
def test_a_value_without_a_text_form_is_refused_by_name(bench, value, words):
    bench.blobs["v"] = value

    with pytest.raises(TaskFailedError) as caught:
        bench.do(shell("true", values={"v": "v"}))

    (fault,) = caught.value.faults
    assert fault.code == "E520"
    assert words in fault.message
    assert "array" in fault.mend or "by itself" in fault.mend


def test_list_of_an_expression_is_no_array(bench):
    bench.do(shell('echo "$JOBRUN_V"', values={"v": "[1, 2.0]"}))

    assert logged_lines(bench) == ["[1, 2.0]"]


def test_arrays_are_passed_and_read_back_as_files(bench):
    line = 'cp "$JOBRUN_X" back.npy; test -e "$JOBRUN_X" && echo "$JOBRUN_X"'

    blobs = bench.do(shell(line, values={"x": "x * 2"}, out=(("y", "back.npy", ""),)))

    assert blobs["y"].tolist() == [0, 2, 4]
    assert not Path(logged_lines(bench)[0]).exists()


def test_a_result_that_was_not_written_is_an_error(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(shell("true", out=(("y", "nothing.npy", ""),)))

    assert caught.value.faults[0].code == "E211"


def test_a_failed_program_says_its_code_and_last_line(bench):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(shell("echo all is lost; exit 3"))

    fault = caught.value.faults[0]
    assert (fault.code, fault.path) == ("E209", "e/t/run")
    assert "exit code 3" in fault.message
    assert "all is lost" in fault.message


def test_exit_75_means_call_me_again(bench, tmp_path):
    bench.do(shell("echo x >> tries; test $(wc -l < tries) -ge 3 || exit 75"))

    assert (tmp_path / "tries").read_text() == "x\n" * 3


@pytest.mark.parametrize("command", [["no-such-program-anywhere"], ["./plain.txt"]])
def test_a_program_that_cannot_start_is_a_fault_of_the_environment(bench, tmp_path, command):
    (tmp_path / "plain.txt").write_text("no program")

    with pytest.raises(EnvironmentFaultError) as caught:
        bench.do(program(*command))

    assert caught.value.faults[0].code == "E210"


def test_a_command_line_that_finds_no_program_is_one_too(bench):
    with pytest.raises(EnvironmentFaultError, match="127"):
        bench.do(shell("no-such-program-anywhere"))


@pytest.mark.parametrize(
    ("code", "part"), [(-9, "killed by SIGKILL"), (137, "137 (128 + SIGKILL)"), (1, "exit code 1"),
                       (250, "exit code 250"), (-40, "signal 40")],
)  # fmt: skip
def test_codes_and_signals_are_named(code, part):
    assert part in explain_exit_code("p", code, "", shell=False).faults[0].message


def test_a_program_killed_by_a_signal_fails(bench):
    with pytest.raises(TaskFailedError, match="SIGTERM"):
        bench.do(shell("kill -TERM $$"))


def test_cancel_ends_the_program_and_all_it_started(bench, tmp_path):
    line = "sleep 1000 & echo $!; wait"

    def cancel_when_up():
        while not logged_lines(bench):
            threading.Event().wait(0.005)
        bench.run.body.cancel()

    canceller = threading.Thread(target=cancel_when_up)
    canceller.start()
    with pytest.raises(CancelledError):
        bench.do(shell(line))
    canceller.join()

    assert _is_gone(int(logged_lines(bench)[0]))


def test_processes_that_a_program_leaves_behind_are_killed(bench):
    bench.do(shell("sleep 1000 & echo $!"))

    assert _is_gone(int(logged_lines(bench)[0]))


def test_holes_are_filled_into_the_command(bench):
    hole = text(("n", "03d"))
    bench.do(RunProgram((text("echo"), hole), path="e/t/run"))

    assert logged_lines(bench) == ["002"]


def _is_gone(pid: int) -> bool:
    for _ in range(2000):
        try:
            with Path(f"/proc/{pid}/stat").open() as file:
                if file.read().rpartition(")")[2].split()[0] == "Z":
                    return True
        except FileNotFoundError:
            return True
        threading.Event().wait(0.005)
    return False


def keeping(line):
    created = shell(line)
    return replace(created, state_dir="own")


def test_the_state_dir_is_stored_after_the_program(bench, tmp_path):
    bench.blobs["state_dirs/own"] = np.empty(0, np.uint8)

    bench.do(keeping("echo one > $JOBRUN_STATE_DIR/a; echo $JOBRUN_STATE_DIR"))

    assert logged_lines(bench) == [str(tmp_path / "run" / "state_dirs" / "local" / "own")]
    unpack_directory(bench.blobs["state_dirs/own"], tmp_path / "copy")
    assert (tmp_path / "copy" / "a").read_text() == "one\n"


def test_the_state_dir_is_restored_from_its_value(bench, tmp_path):
    bench.blobs["state_dirs/own"] = np.empty(0, np.uint8)
    bench.do(keeping("echo one > $JOBRUN_STATE_DIR/a"))
    folder = tmp_path / "run" / "state_dirs" / "local" / "own"
    (folder / "a").write_text("other")
    os.mkfifo(folder / "pipe")

    bench.do(keeping("ls $JOBRUN_STATE_DIR; cat $JOBRUN_STATE_DIR/a"))

    assert logged_lines(bench) == ["a", "one"]


def test_changes_of_a_failed_program_to_its_state_dir_are_undone(bench):
    bench.blobs["state_dirs/own"] = np.empty(0, np.uint8)
    with pytest.raises(TaskFailedError):
        bench.do(keeping("echo half > $JOBRUN_STATE_DIR/a; exit 3"))
    assert bench.blobs["state_dirs/own"].size == 0

    bench.do(keeping("ls $JOBRUN_STATE_DIR"))

    assert logged_lines(bench) == []


def test_a_program_that_is_called_again_finds_its_state_dir_unchanged(bench):
    bench.blobs["state_dirs/own"] = np.empty(0, np.uint8)

    bench.do(keeping("cd $JOBRUN_STATE_DIR; echo x >> a; [ $(wc -l < a) = 3 ] || exit 75; cat a"))

    assert logged_lines(bench) == ["x", "x", "x"]
