"""How long a batch system lets a process live, by its variables and by its commands."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from jobrun.core.errors import UsageError
from jobrun.graph.conditions import Deadline
from jobrun.runner.stop_requests import (
    TimeLeft,
    job_age_s,
    parse_clock,
    require_valid_deadline,
    time_left,
)
from tests.support.tables import each_case

AUTO = Deadline("auto")
NOW = 1_795_000_000.0


def silent(command):
    raise AssertionError(f"asked {command}")


def time_left_with(answer="", **environment):
    return time_left(AUTO, environment, NOW, ask=(lambda command: answer) if answer else silent)


def test_no_deadline_without_a_batch_system():
    assert time_left_with() is None


@pytest.mark.parametrize("name", ["SLURM_JOB_END_TIME", "COBALT_ENDTIME", "JOBRUN_DEADLINE"])
def test_a_time_in_a_variable_counts_from_now(name):
    assert time_left_with(**{name: str(int(NOW) + 90)}) == TimeLeft(90, name)


def test_our_own_variable_counts_before_that_of_the_batch_system():
    remaining = time_left_with(
        JOBRUN_DEADLINE=str(int(NOW) + 5), SLURM_JOB_END_TIME=str(int(NOW) + 90)
    )

    assert remaining == TimeLeft(5, "JOBRUN_DEADLINE")


def test_a_time_of_the_spec_is_local_where_it_names_no_zone():
    text = datetime.fromtimestamp(NOW + 60, UTC).astimezone().replace(tzinfo=None).isoformat()

    assert time_left(Deadline(text), {"JOBRUN_DEADLINE": "0"}, NOW) == TimeLeft(60, "the spec")
    zoned = datetime.fromtimestamp(NOW + 60, UTC).isoformat()
    assert time_left(Deadline(zoned), {}, NOW) == TimeLeft(60, "the spec")


@each_case(
    ("environment", "answer", "seconds"),
    [
        ({"SLURM_JOB_ID": "7"}, "1-02:03:04", 93784),
        ({"SLURM_JOB_ID": "7"}, "4:05", 245),
        ({"SLURM_JOB_ID": "7"}, "UNLIMITED", None),
        ({"FLUX_JOB_ID": "f1"}, "1799.5", 1799.5),
        ({"FLUX_JOB_ID": "f1"}, "inf", None),
        ({"LSB_JOBID": "7"}, "1:30 L", 5400),
        ({"LSB_JOBID": "7"}, "1:30 E", None),
        ({"LSB_JOBID": "7"}, "-", None),
        ({"JOB_ID": "7", "SGE_ROOT": "/sge"}, "hard resource_list: h_rt=3600,h_vmem=2G", 3600),
        ({"JOB_ID": "7"}, "", None),
    ],
)
def test_batch_commands_are_run_without_a_variable(environment, answer, seconds):
    remaining = time_left_with(answer, **environment)

    assert (remaining and remaining.seconds) == seconds


def test_missing_or_failing_command_gives_no_deadline(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert time_left(AUTO, {"SLURM_JOB_ID": "7"}, NOW) is None
    program = tmp_path / "squeue"
    program.write_text("#!/bin/sh\necho 10:00\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")

    assert time_left(AUTO, {"SLURM_JOB_ID": "7"}, NOW) == TimeLeft(600, "squeue")


def test_a_wall_time_counts_from_the_oldest_process_of_the_job():
    program = (
        "import os, subprocess, sys, time; time.sleep(0.3); "
        "subprocess.run([sys.executable, '-c', 'from jobrun.runner.stop_requests import *;"
        " import os;"
        ' print(job_age_s("PBS_JOBID", os.environ["PBS_JOBID"]))\'], check=True)'
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PBS_JOBID": "1.test"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert float(done.stdout) >= 0.3
    assert job_age_s("PBS_JOBID", None) == 0


def test_a_wall_time_is_what_is_left_of_it():
    assert time_left_with(PBS_WALLTIME="60", PBS_JOBID="not ours") == TimeLeft(60, "PBS_WALLTIME")


def test_invalid_deadline_is_refused_before_the_run_is_created():
    with pytest.raises(UsageError, match="'soon'") as raised:
        require_valid_deadline(AUTO, {"JOBRUN_DEADLINE": "soon"})

    assert raised.value.faults[0].code == "E383"
    require_valid_deadline(None, {"JOBRUN_DEADLINE": "soon"})
    require_valid_deadline(AUTO, {})


def test_clocks_of_batch_systems_are_read():
    assert [parse_clock(text) for text in ("5", "1:05", "2:00:00", "1-0:0:1", "x", "")] == [
        5,
        65,
        7200,
        86401,
        None,
        None,
    ]
