"""Runs that older commits wrote are read and continued as ``manual/compatibility.md`` says.

The commits are those of the archives beside this module, which ``tests/support/older_versions.py``
wrote. The arithmetic of the jobs is exact, so that any processor computes the same bits.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.support.command import jobrun
from tests.support.older_versions import EPOCHS, EPOCHS_BEFORE, EPOCHS_MIDWAY, FOLDER, specs_of
from tests.support.stored_runs import blobs, epochs
from tests.support.thinning import thinned

# The jobs of each commit whose checkpoints are read.
READ = {
    "0f26ebed": ("arrays", "packed", "containers", "generator", "midway"),
    "d96accb9": ("arrays", "packed", "containers", "generator", "midway"),
    "fbd3c073": ("arrays", "packed", "generator", "midway"),
}
# What a resume refuses, and by which words; the manual says why.
REFUSED = {
    ("d96accb9", "generator"): (4, "E325", "'own'"),
    ("fbd3c073", "generator"): (5, "E369", "callables.numpy.random:default_rng"),
}
# Of these a save within an epoch is not continued from; the whole epoch before it is.
FROM_WHOLE_EPOCH = {("d96accb9", "midway"), ("fbd3c073", "midway")}
# The last commit that wrote format 1 of checkpoint files.
FORMAT_1 = "cbe7ee93"

CASES = [(commit, job) for commit, jobs in READ.items() for job in jobs]
RESUMED = [case for case in CASES if case not in REFUSED]
SHOWN = [case for case in RESUMED if case[1] != "midway"]


def unpack(commit: str, folder: Path) -> Path:
    """Unpack the specs and the ``runs`` of a commit into a folder; return it."""
    with tarfile.open(FOLDER / f"{commit}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    return folder


def run_of(job: str, run_dir: Path) -> Path:
    """Return the only run of a job below a directory."""
    (run,) = (path for path in (run_dir / job).iterdir() if not path.is_symlink())
    return run


def read_json(*command: str, cwd: Path) -> dict:
    """Run a reading command that succeeds, and return its document."""
    done = jobrun(*command, "--json", cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def shown_blobs(job: str, run_dir: Path) -> dict[str, list[dict]]:
    """Return what ``inspect-checkpoint`` shows of the values of the epoch, by node.

    How a container is put together is a text beside its values, which a new format may extend.
    """
    name = f"{job}@{EPOCHS_BEFORE}"
    shown = read_json("inspect-checkpoint", name, "--run-dir", run_dir.name, cwd=run_dir.parent)
    return {
        node["node"]: [blob for blob in node["blobs"] if not blob["name"].endswith(":structure")]
        for node in shown["nodes"]
    }


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    """Return a function that runs a job of today without a break, and returns the run directory."""
    folders: dict[str, Path] = {}

    def run(job: str) -> Path:
        if job not in folders:
            folder = unpack("0f26ebed", tmp_path_factory.mktemp(job))
            options = ("--run-dir", "unbroken", "--set", "checkpoint.keep={last: 9}")
            done = jobrun("run", *specs_of(job), *options, cwd=folder)
            assert done.returncode == 0, done.stderr
            folders[job] = folder / "unbroken"
        return folders[job]

    return run


def test_each_archive_is_tested():
    archives = {path.name.partition(".")[0] for path in FOLDER.glob("*.tar.xz")}

    assert archives == {*READ, FORMAT_1}


@pytest.mark.parametrize("commit", thinned(READ, 3))
def test_the_status_of_an_older_run_is_read(commit, tmp_path):
    status = read_json("status", "arrays", cwd=unpack(commit, tmp_path))

    assert (status["job"], status["status"], status["epoch"]) == (
        "arrays",
        "stopped",
        EPOCHS_BEFORE,
    )


@pytest.mark.parametrize("commit", thinned(READ, 3))
def test_the_metrics_of_an_older_run_are_those_of_an_unbroken_run(commit, tmp_path, unbroken):
    older = read_json("metrics", "arrays", cwd=unpack(commit, tmp_path))
    today = read_json("metrics", "arrays", "--run-dir", "unbroken", cwd=unbroken("arrays").parent)

    assert older["epochs"] == today["epochs"][:EPOCHS_BEFORE]


@pytest.mark.parametrize(("commit", "job"), thinned(CASES, 5))
def test_the_checkpoints_of_an_older_run_are_verified(commit, job, tmp_path):
    verified = read_json("ckpt", "verify", job, cwd=unpack(commit, tmp_path))

    assert verified["good"]
    assert len(verified["epochs"]) >= 2
    assert len(verified["within"]) == (job == "midway")


@pytest.mark.parametrize(("commit", "job"), thinned(SHOWN, 5))
def test_the_blobs_of_an_older_checkpoint_are_those_of_an_unbroken_run(
    commit, job, tmp_path, unbroken
):
    older = shown_blobs(job, unpack(commit, tmp_path) / "runs")

    assert older == shown_blobs(job, unbroken(job))


@pytest.mark.parametrize(("commit", "job"), thinned(RESUMED, 5))
def test_an_older_run_is_resumed_to_the_bits_of_an_unbroken_run(commit, job, tmp_path, unbroken):
    folder = unpack(commit, tmp_path)
    last = EPOCHS_MIDWAY if job == "midway" else EPOCHS
    options = ("--epoch", "1") if (commit, job) in FROM_WHOLE_EPOCH else ()

    done = jobrun("resume", job, *options, cwd=folder)

    assert done.returncode == 0, done.stderr
    resumed, whole = run_of(job, folder / "runs"), run_of(job, unbroken(job))
    assert blobs(epochs(resumed)[last]) == blobs(epochs(whole)[last])


@pytest.mark.parametrize(("commit", "job"), thinned(REFUSED, 2))
def test_what_a_resume_cannot_continue_is_refused_by_name(commit, job, tmp_path):
    code, error, words = REFUSED[commit, job]
    folder = unpack(commit, tmp_path)

    done = jobrun("resume", job, cwd=folder)

    assert done.returncode == code
    assert error in done.stderr
    assert words in done.stderr


@pytest.mark.parametrize("command", ["inspect-checkpoint", "resume"])
def test_a_checkpoint_of_format_1_is_refused_by_name(command, tmp_path):
    done = jobrun(command, "numbers", cwd=unpack(FORMAT_1, tmp_path))

    assert done.returncode == 4
    assert "E308" in done.stderr
    assert "was written by an older jobrun: it has format 1, this version reads 2" in done.stderr


@pytest.mark.parametrize(("commit", "job"), sorted(FROM_WHOLE_EPOCH))
def test_a_save_within_an_epoch_without_seeds_is_refused_by_name(commit, job, tmp_path):
    done = jobrun("resume", job, cwd=unpack(commit, tmp_path))

    assert done.returncode == 4
    assert "E308" in done.stderr
    assert "did not save the seeds" in done.stderr


def test_the_metrics_of_a_run_with_format_1_are_read(tmp_path):
    metrics = read_json("metrics", "numbers", cwd=unpack(FORMAT_1, tmp_path))

    assert [epoch["count"] for epoch in metrics["epochs"]] == [1, 2, 3, 4]
