"""A job on three hosts of a real Slurm: its Ray cluster is its own, and it ends as a run does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command import environment, jobrun
from tests.support.host_namespaces import hosts
from tests.support.session_runs import same
from tests.support.slurm import slurm
from tests.support.stored_runs import only_run

SPEC = """\
jobrun: 1
name: spread
seed: 3
checkpoint: {every: 1ep}
nodes: {worker: {count: 3, resources: {CPU: 1}}}
init: [{task: i, node: worker, steps: [w = zeros(5)]}]
epoch:
  - task: t
    node: worker
    steps:
      - w += rng.normal(size=5) + node.index
      - metric: {first: "w[0]"}
      - {run: 'hostname >> $SEEN/seen; sleep $(cat $SEEN/pause)', env: [SEEN]}
stop: [{epochs: EPOCHS}]
"""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    with hosts(("front", "node1", "node2", "node3"), tmp_path_factory.mktemp("hosts")) as created:
        yield created


@pytest.fixture(scope="module")
def cluster(nodes):
    with slurm(nodes["front"], [nodes[name] for name in ("node1", "node2", "node3")]) as actual:
        yield actual


def _submitted(cluster, folder, epochs, *words, token=False):
    (folder / "spread.yaml").write_text(SPEC.replace("EPOCHS", str(epochs)))
    (folder / "pause").write_text("0.5")
    home = folder / "home"
    home.mkdir()
    if token:
        (home / ".ray").mkdir()
        (home / ".ray" / "auth_token").write_text("f" * 64)
    variables = {**environment(HOME=str(home), SEEN=str(folder)), **cluster.environment}
    for name in [name for name in variables if name.startswith("RAY_")]:
        del variables[name]
    done = subprocess.run(
        cluster.words(
            "env",
            "-C",
            str(folder),
            sys.executable,
            "-m",
            "jobrun",
            "submit",
            "spread.yaml",
            "--hosts",
            "3",
            "--warn",
            "20s",
            "--time",
            "20m",
            *words,
        ),
        env=variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def _saved(folder):
    journal = folder / "runs" / "spread" / "latest" / "committed.jsonl"
    return journal.read_text().count("\n") if journal.exists() else 0


def _same_as_alone(folder, epochs):
    alone = folder / "alone"
    alone.mkdir()
    (alone / "pause").write_text("0")
    (alone / "spread.yaml").write_text(SPEC.replace("EPOCHS", str(epochs)))
    variables = environment(SEEN=str(alone))
    done = jobrun("run", "spread.yaml", cwd=alone, env=variables, started=True)
    assert done.returncode == 0, done.stderr
    same(only_run(alone / "runs"), only_run(folder / "runs"))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_job_on_three_hosts_ends_with_the_bits_of_one(cluster, tmp_path):
    job = _submitted(cluster, tmp_path, 4)
    facts = cluster.wait(job)

    assert facts["JobState"] == "COMPLETED", cluster.printed_by(facts)
    assert {*(tmp_path / "seen").read_text().split()} == {"node1", "node2", "node3"}
    _same_as_alone(tmp_path, 4)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_token_at_home_is_not_used_and_a_job_that_is_put_back_continues(cluster, tmp_path):
    job = _submitted(cluster, tmp_path, 12, token=True)
    cluster.wait(job, lambda _: _saved(tmp_path) > 2)
    (token,) = (tmp_path / "runs" / "spread").glob(".ray-token-*")
    mode = token.stat().st_mode & 0o777
    # The first start is to end by the signal, however late that comes.
    (tmp_path / "pause").write_text("3")
    cluster.ask("scancel", "--signal=USR1", "--batch", job)
    cluster.wait(job, lambda facts: facts.get("Restarts") == "1")
    (tmp_path / "pause").write_text("0")
    facts = cluster.wait(job)

    output = cluster.printed_by(facts)
    assert facts["JobState"] == "COMPLETED", output
    assert "stopped early (signal SIGUSR1)" in output
    assert "continuing from epoch" in output
    assert mode == 0o600
    assert not token.exists()
    _same_as_alone(tmp_path, 12)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_host_on_which_ray_does_not_start_ends_the_job_at_once(cluster, tmp_path, nodes):
    ray = str(Path(sys.executable).parent / "ray")
    nodes["node3"].sh(f"mount --bind /bin/false {ray}")
    try:
        job = _submitted(cluster, tmp_path, 30, token=True)
        facts = cluster.wait(job)
    finally:
        nodes["node3"].sh(f"umount {ray}")

    assert facts["JobState"] == "FAILED", cluster.printed_by(facts)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("number", ["USR1", "TERM"])
def test_a_signal_before_there_is_a_run_ends_the_job_and_its_cluster(cluster, tmp_path, number):
    job = _submitted(cluster, tmp_path, 30)
    log = tmp_path / "runs" / "spread"
    cluster.wait(job, lambda _: [*log.glob(".ray-token-*")])
    cluster.ask("scancel", f"--signal={number}", "--batch", job)
    facts = cluster.wait(job)

    assert (facts["ExitCode"], facts["Restarts"]) == ("75:0", "0"), cluster.printed_by(facts)
    assert ("nothing was saved" in cluster.printed_by(facts)) == (number == "USR1")
    assert [*log.iterdir()] == []
