from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.failpoints import TRACE_VARIABLE, VARIABLE
from jobrun.tools.prove.fork_server import MODULE, ForkClient
from tests.support.command import environment

PROGRAM_WITH_FAILPOINTS = """
from jobrun.core.failpoints import reach
for _ in range(3):
    reach("checkpoint.staged")
"""


def answers(folder: Path, *requests: dict[str, object]) -> list[dict[str, object]]:
    (folder / "small_program.py").write_text(PROGRAM_WITH_FAILPOINTS)
    done = subprocess.run(
        [sys.executable, "-m", MODULE, "small_program", "jobrun.core.failpoints"],
        input="".join(json.dumps(request) + "\n" for request in requests),
        env=environment(PYTHONPATH=os.pathsep.join([str(folder), str(Path.cwd())])),
        capture_output=True,
        text=True,
        check=True,
    )
    return [json.loads(line) for line in done.stdout.splitlines()]


def request(**variables: str) -> dict[str, object]:
    return {
        "arguments": [], "output": os.devnull, "variables": variables, "kill_after_s": None,
        "isolation": None,
    }  # fmt: skip


def test_crash_points_are_armed_in_the_one_process_that_is_to_die(tmp_path):
    armed = request(**{VARIABLE: "checkpoint.staged:2"})

    codes = [answer["exit_code"] for answer in answers(tmp_path, armed, request(), armed)]

    assert codes == [-signal.SIGKILL, 0, -signal.SIGKILL]


def test_a_trace_records_each_time_a_crash_point_is_reached(tmp_path):
    trace = tmp_path / "trace"

    answers(tmp_path, request(**{TRACE_VARIABLE: str(trace)}))

    assert [line.split()[0] for line in trace.read_text().splitlines()] == ["checkpoint.staged"] * 3


PROGRAM = """
import os, sys, time
print("words", sys.argv[1:], os.environ.get("MORE"), os.getppid())
sys.stdout.flush()
if sys.argv[1] == "sleep":
    time.sleep(60)
if sys.argv[1] == "fail":
    raise ValueError("broken")
if sys.argv[1] == "read":
    print(repr(sys.stdin.read()))
sys.exit(int(sys.argv[1]) if sys.argv[1].isdigit() else None)
"""


@pytest.fixture(scope="module")
def forge(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "small_program.py").write_text(PROGRAM)
    with ForkClient("small_program", ["json"], environment(PYTHONPATH=str(folder))) as opened:
        yield opened


def test_a_command_line_ends_with_its_exit_code_and_its_words_are_in_the_file(forge, tmp_path):
    output = tmp_path / "said"

    assert forge.run(["3", "b c"], output, variables={"MORE": "yes"}).exit_code == 3
    assert output.read_text().startswith("words ['3', 'b c'] yes")


def test_variables_of_one_command_line_are_not_those_of_the_next(forge, tmp_path):
    forge.run(["0"], tmp_path / "one", variables={"MORE": "yes"})
    forge.run(["0"], tmp_path / "two")

    assert "None" in (tmp_path / "two").read_text()


def test_an_exception_ends_it_with_its_trace(forge, tmp_path):
    assert forge.run(["fail"], tmp_path / "said").exit_code == 1
    assert "ValueError: broken" in (tmp_path / "said").read_text()


def test_it_has_nothing_to_read(forge, tmp_path):
    assert forge.run(["read"], tmp_path / "said").exit_code == 0
    assert (tmp_path / "said").read_text().endswith("''\n")


def test_it_is_killed_when_its_time_is_over(forge, tmp_path):
    ended = forge.run(["sleep"], tmp_path / "said", kill_after_s=0.2)

    assert (ended.exit_code, ended.killed) == (-signal.SIGKILL, True)
    assert 0.2 <= ended.seconds < 30


def test_one_that_ends_before_its_time_is_not_killed(forge, tmp_path):
    started = time.monotonic()

    ended = forge.run(["0"], tmp_path / "said", kill_after_s=50)

    assert (ended.exit_code, ended.killed) == (0, False)
    assert time.monotonic() - started < 50


def test_a_forge_that_died_is_an_error_with_words(tmp_path):
    (tmp_path / "small_program.py").write_text("import os, signal\nos.kill(os.getppid(), 9)\n")
    with ForkClient("small_program", [], environment(PYTHONPATH=str(tmp_path))) as opened:
        with pytest.raises(EnvironmentFaultError, match="E417"):
            opened.run(["0"], Path(os.devnull))
        with pytest.raises(EnvironmentFaultError, match="E417"):
            opened.run(["0"], Path(os.devnull))
