"""A job under a real Slurm: its time is nearly over, it is put back, goes on, and finishes."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from tests.support.command import environment, jobrun
from tests.support.slurm import slurm

# The first start is slow, so that its minute cannot be enough; what comes after it is quick.
SPEC = """\
jobrun: 1
name: batch
seed: 3
deadline: auto
margin: 1s
checkpoint: {every: 1ep}
init: [{task: i, steps: [w = zeros(5), n = 0]}]
epoch:
  - task: t
    steps:
      - w += rng.normal(size=5)
      - n = n + 1
      - {run: 'test -n "$SLURM_RESTART_COUNT" || sleep 0.5', env: [SLURM_RESTART_COUNT]}
exit: [{task: e, steps: [{save: {w: w.npy, n: n.npy}}]}]
stop: [{epochs: 130}]
"""


@pytest.fixture(scope="module")
def cluster():
    with slurm() as actual:
        yield actual


def _submitted(cluster, folder, *words):
    variables = {**environment(), **cluster.environment}
    done = jobrun("submit", "batch.yaml", *words, cwd=folder, env=variables, started=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _runs(folder):
    return [path for path in (folder / "runs" / "batch").iterdir() if not path.is_symlink()]


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_whose_time_is_nearly_over_is_put_back_and_continues_to_the_end(cluster, tmp_path):
    (tmp_path / "batch.yaml").write_text(SPEC)
    job = _submitted(cluster, tmp_path, "--slurm", "time=1", "--warn", "10s")
    facts = cluster.wait(job)
    output = cluster.printed_by(facts)
    ended = np.load(tmp_path / "w.npy")

    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "batch.yaml").write_text(SPEC)
    variables = environment(SLURM_RESTART_COUNT="1")
    whole = jobrun("run", "batch.yaml", cwd=tmp_path / "whole", env=variables, started=True)

    assert facts["JobState"] == "COMPLETED", output
    assert int(facts["Restarts"]) >= 1
    assert "stopped early (signal SIGUSR1)" in output
    assert "continuing from epoch" in output
    assert len(_runs(tmp_path)) == 1
    assert whole.returncode == 0, whole.stderr
    assert np.load(tmp_path / "n.npy") == 130
    assert ended.tobytes() == np.load(tmp_path / "whole" / "w.npy").tobytes()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_that_is_cancelled_saves_and_is_not_put_back(cluster, tmp_path):
    (tmp_path / "batch.yaml").write_text(SPEC)
    job = _submitted(cluster, tmp_path, "--time", "1h", "--partition", "main")
    journal = tmp_path / "runs" / "batch" / "latest" / "committed.jsonl"
    cluster.wait(job, lambda _: journal.exists() and journal.read_text().count("\n") > 2)
    cluster.ask("scancel", "--signal=TERM", "--batch", job)
    facts = cluster.wait(job)

    assert (facts["Restarts"], facts["ExitCode"]) == ("0", "75:0")
    assert facts["TimeLimit"] == "01:00:00"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_each_element_of_an_array_is_put_back_and_ends_as_an_unbroken_run(cluster, tmp_path):
    spec = SPEC.replace("{w: w.npy, n: n.npy}", '{w: "w-${k}.npy"}')
    spec = spec.replace("jobrun: 1\n", "jobrun: 1\nparams: {k: 0}\n")
    spec = spec.replace("w += rng.normal(size=5)", "w += rng.normal(size=5) + k")
    (tmp_path / "batch.yaml").write_text(spec)
    job = _submitted(cluster, tmp_path, "--slurm", "time=1", "--warn", "10s", "--array", "k=1..3")
    assert job.isdecimal()
    facts = [cluster.wait(f"{job}_{number}") for number in range(3)]
    messages = [cluster.printed_by(fact) for fact in facts]

    assert [fact["JobState"] for fact in facts] == ["COMPLETED"] * 3, messages
    assert all(int(fact["Restarts"]) >= 1 for fact in facts), facts
    assert all("continuing from epoch" in text for text in messages), messages
    jobs = [path for path in (tmp_path / "runs").iterdir() if path.name.startswith("batch.k")]
    assert sorted(len([*job.glob("2*")]) for job in jobs) == [1, 1, 1]
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "batch.yaml").write_text(spec)
    for number in (1, 2, 3):
        words = ("run", "batch.yaml", "--set", f"params.k={number}")
        variables = environment(SLURM_RESTART_COUNT="1")
        whole = jobrun(*words, cwd=tmp_path / "whole", env=variables, started=True)
        assert whole.returncode == 0, whole.stderr
        ended, unbroken = (
            np.load(value / f"w-{number}.npy") for value in (tmp_path, tmp_path / "whole")
        )
        assert ended.tobytes() == unbroken.tobytes()
    shown = jobrun("sweep", "batch.yaml", "--status", cwd=tmp_path)
    assert shown.stdout.count("finished") >= 3


@pytest.mark.long
def test_a_refusal_of_slurm_is_reported_verbatim(cluster, tmp_path):
    (tmp_path / "batch.yaml").write_text(SPEC)
    variables = {**environment(), **cluster.environment}
    words = ("submit", "batch.yaml", "--partition", "nowhere")
    done = jobrun(*words, cwd=tmp_path, env=variables, started=True)

    assert done.returncode == 7
    assert "error[E445] sbatch rejected the job" in done.stderr
    assert "invalid partition" in done.stderr


@pytest.mark.long
@pytest.mark.parametrize(
    "words", [(), ("--hosts", "3", "--before", "module load x"), ("--array", "seed=1..3")]
)
def test_the_script_has_nothing_that_a_linter_finds(tmp_path, words):
    (tmp_path / "batch.yaml").write_text(SPEC)
    text = jobrun("submit", "batch.yaml", "--print", *words, cwd=tmp_path).stdout
    done = subprocess.run(
        ["shellcheck", "-"], input=text, capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stdout
