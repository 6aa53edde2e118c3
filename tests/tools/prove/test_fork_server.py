from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from jobrun.core.failpoints import TRACE_VARIABLE, VARIABLE
from jobrun.tools.prove.fork_client import MODULE
from tests.support.command import environment

PROGRAM = """
from jobrun.core.failpoints import reach
for _ in range(3):
    reach("checkpoint.staged")
"""


def answers(folder: Path, *requests: dict[str, object]) -> list[dict[str, object]]:
    (folder / "small_program.py").write_text(PROGRAM)
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
    }  # fmt: skip


def test_crash_points_are_armed_in_the_one_process_that_is_to_die(tmp_path):
    armed = request(**{VARIABLE: "checkpoint.staged:2"})

    codes = [answer["exit_code"] for answer in answers(tmp_path, armed, request(), armed)]

    assert codes == [-signal.SIGKILL, 0, -signal.SIGKILL]


def test_a_trace_tells_each_time_a_crash_point_is_reached(tmp_path):
    trace = tmp_path / "trace"

    answers(tmp_path, request(**{TRACE_VARIABLE: str(trace)}))

    assert [line.split()[0] for line in trace.read_text().splitlines()] == ["checkpoint.staged"] * 3
