"""The script for Slurm, run by bash with a Slurm that only writes down what it is told."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from jobrun.core.errors import EnvironmentFaultError, UsageError
from jobrun.tools.slurm import Batch, render_script, setting, slurm_time, submit


def _program(path, text):
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def bench(tmp_path):
    """A run that saves an epoch and ends as the file ``code`` says, and a scontrol that notes.

    As Slurm does, it ends the processes of a job that it puts back, a little later.
    """
    _program(
        tmp_path / "scontrol",
        f'echo "$@" >> {tmp_path}/asked\n'
        f"(sleep 0.3; kill -0 $PPID && touch {tmp_path}/killed; kill -TERM -- -$PPID) &",
    )
    runs = tmp_path / "runs" / "j"
    (runs / "latest").mkdir(parents=True)
    _program(
        tmp_path / "jobrun",
        f'trap "echo told >> {tmp_path}/said; touch {tmp_path}/end" USR1 TERM\n'
        f"touch {tmp_path}/began\n"
        f"if test -e {tmp_path}/wait; then\n"
        f"  while ! test -e {tmp_path}/end; do sleep 0.02; done\nfi\n"
        f"test -e {tmp_path}/idle || echo line >> {runs}/latest/committed.jsonl\n"
        f"exit $(cat {tmp_path}/code)",
    )
    batch = Batch("j", ("run", "j.yaml"), (str(tmp_path / "jobrun"),), tmp_path, runs)
    (tmp_path / "script").write_text(render_script(batch))
    return tmp_path


def _start(bench):
    path = f"{bench}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "SLURM_JOB_ID": "12"}
    words = ["bash", str(bench / "script")]
    return subprocess.Popen(words, env=variables, cwd=bench, start_new_session=True)


def _asked(bench):
    path = bench / "asked"
    return path.read_text().split("\n")[:-1] if path.exists() else []


@pytest.mark.parametrize("code", [0, 1, 7, 9, 130])
def test_a_run_that_is_over_is_not_put_back(bench, code):
    (bench / "code").write_text(str(code))

    assert _start(bench).wait(60) == code
    assert _asked(bench) == []


def test_a_run_that_ended_early_is_put_back_by_a_script_that_waits_for_its_end(bench):
    (bench / "code").write_text("75")

    assert _start(bench).wait(60) == 75
    assert _asked(bench) == ["requeue 12"]
    assert (bench / "killed").exists()


def test_a_job_that_saved_nothing_is_not_requeued_for_ever(bench):
    (bench / "code").write_text("75")
    (bench / "idle").touch()

    assert _start(bench).wait(60) == 75
    assert _asked(bench) == []


@pytest.mark.parametrize(
    ("number", "asked"), [(signal.SIGUSR1, ["requeue 12"]), (signal.SIGTERM, [])]
)
def test_a_signal_reaches_the_run_and_its_code_counts(bench, number, asked):
    (bench / "code").write_text("75")
    (bench / "wait").touch()
    shell = _start(bench)
    while not (bench / "began").exists():
        time.sleep(0.01)
    shell.send_signal(number)

    assert shell.wait(60) == 75
    assert (bench / "said").read_text() == "told\n"
    assert _asked(bench) == asked


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGTERM])
def test_a_signal_that_comes_before_there_is_a_run_ends_the_job(bench, number):
    (bench / "code").write_text("0")
    batch = Batch(
        "j",
        ("run", "j.yaml"),
        (str(bench / "jobrun"),),
        bench,
        bench / "runs" / "j",
        before=(f"touch {bench}/begins; sleep 0.5",),
    )
    text = render_script(batch)
    # As early as the traps are there, before anything else.
    text = text.replace(
        'if test -z "$asked"', f'touch {bench}/ready; sleep 0.5\nif test -z "$asked"'
    )
    (bench / "script").write_text(text)
    shell = _start(bench)
    while not (bench / "ready").exists():
        time.sleep(0.01)
    shell.send_signal(number)

    assert shell.wait(60) == 75
    assert not (bench / "began").exists()
    assert _asked(bench) == []


def _batch(**changes):
    defaults = {"name": "j", "command": ("run", "j.yaml"), "jobrun": ("jobrun",)}
    places = {"directory": Path("/data"), "runs": Path("/data/runs/j")}
    return Batch(**{**defaults, **places, **changes})


def test_the_requests_to_slurm_are_at_the_top():
    text = render_script(
        _batch(settings=(("time", "02:00:00"), ("exclusive", ""), ("comment", "a b")))
    )
    asked = [line for line in text.splitlines() if line.startswith("#SBATCH")]

    assert asked == [
        "#SBATCH --job-name=j",
        "#SBATCH --output=/data/runs/slurm-j-%j.log",
        "#SBATCH --chdir=/data",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --time=02:00:00",
        "#SBATCH --exclusive",
        '#SBATCH --comment="a b"',
    ]


def test_settings_of_the_user_count_before_those_that_are_only_usual():
    text = render_script(_batch(settings=(("job-name", "mine"),)))

    assert "--job-name=mine\n" in text
    assert "--job-name=j\n" not in text


def test_the_run_gets_the_deadline_and_the_remaining_time():
    assert "run j.yaml --resume auto --set deadline=auto --grace 280s" in render_script(
        _batch(warn_s=300)
    )


def test_what_the_command_says_of_that_itself_counts():
    text = render_script(_batch(command=("run", "j.yaml", "--grace", "5s"), has_deadline=True))

    assert "run j.yaml --grace 5s --resume auto &" in text


def test_on_several_hosts_ray_is_started_on_all_and_the_run_on_the_first():
    text = render_script(_batch(hosts=4))

    assert "#SBATCH --nodes=4" in text
    assert "srun --nodes=4 --ntasks=4 --ntasks-per-node=1" in text
    assert "--kill-on-bad-exit=1" in text
    assert "export RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH=" in text
    assert '--session "ray:$ip:$port" &' in text


def test_what_saves_nothing_is_not_put_back():
    assert "scontrol requeue" in render_script(_batch(again=True))
    assert "scontrol requeue" not in render_script(_batch(again=False))


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(60, "00:01:00"), (5400, "01:30:00"), (93784, "1-02:03:04"), (0.5, "00:00:01")],
)
def test_times_are_written_as_slurm_reads_them(seconds, text):
    assert slurm_time(seconds) == text


def test_an_option_of_sbatch_has_a_value_or_none():
    assert setting("mem=4G") == ("mem", "4G")
    assert setting("--exclusive") == ("exclusive", "")


@pytest.mark.parametrize("text", ["4G", "MEM=4G", "=x", "signal=USR1", "array=1-4", "comment=a\nb",
                                  'comment="'])  # fmt: skip
def test_what_cannot_be_meant_is_refused(text):
    with pytest.raises(UsageError) as caught:
        setting(text)

    assert caught.value.faults[0].code == "E403"


def test_sbatch_gets_the_script_and_returns_the_number(tmp_path, monkeypatch):
    _program(tmp_path / "sbatch", f"cat > {tmp_path}/got; echo '31;cluster'")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")

    assert submit("text\n") == "31"
    assert (tmp_path / "got").read_text() == "text\n"


def test_the_error_of_sbatch_is_reported(tmp_path, monkeypatch):
    _program(tmp_path / "sbatch", "echo 'sbatch: error: no such partition' >&2; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(EnvironmentFaultError, match="no such partition"):
        submit("")


def test_a_machine_without_slurm_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EnvironmentFaultError) as caught:
        submit("")

    assert caught.value.faults[0].code == "E445"
    assert "--print" in caught.value.faults[0].mend
