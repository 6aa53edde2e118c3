"""Snapshots of runs made of hard links (``cp -al``): both sides are whole and stay as they are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jobrun.core.errors import CheckpointError
from jobrun.runner.rundir.lock import RunLock, is_live
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.start_or_resume import start_run
from tests.support.command import jobrun
from tests.support.resumable_job import ROOT, WalkJob

_HOLD = """
import sys
from pathlib import Path
from jobrun.runner.rundir.lock import RunLock
with RunLock.acquire(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def snapshot(runs: Path) -> Path:
    """Make a snapshot of all runs; gives the directory of the copies."""
    copy = runs.with_name("snap")
    subprocess.run(["cp", "-al", runs, copy], check=True)
    return copy


def contents(directory: Path) -> dict[str, bytes]:
    """Every file of a directory, by its path in it."""
    files = (path for path in sorted(directory.rglob("*")) if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.fixture
def stopped(tmp_path) -> WalkJob:
    """A run that was stopped after two of its four epochs."""
    walk_job = WalkJob(tmp_path)
    walk_job.start(max_epochs=2)
    return walk_job


def test_both_sides_of_hard_links_verify_inspect_and_show_their_metrics(stopped):
    snap = snapshot(stopped.run_dir)

    for runs in (stopped.run_dir, snap):
        for command in (["ckpt", "verify"], ["inspect-checkpoint"], ["status"], ["metrics"]):
            done = jobrun(*command, "walk", "--run-dir", str(runs))
            assert done.returncode == 0, done.stderr


def test_a_copy_by_hard_links_does_not_see_later_changes(stopped):
    snap = snapshot(stopped.run_dir)
    before = contents(snap)

    assert stopped.resume().exit_code == 0
    assert contents(snap) == before

    first, ended = stopped.outcome(), contents(stopped.run_dir)
    stopped.run_dir = snap
    assert stopped.resume().exit_code == 0
    assert stopped.outcome() == first
    assert contents(snap.with_name("runs")) == ended


def test_a_snapshot_in_the_middle_of_an_epoch_keeps_the_journal_and_the_metrics_it_has(tmp_path):
    walk_job = WalkJob(tmp_path)
    retained = []

    def copy(event: object) -> None:
        walk_job.events.append(event)
        if type(event).__name__ == "CheckpointCommitted" and not retained:
            snap = snapshot(walk_job.run_dir)
            retained.append((snap, contents(snap)))

    loaded, job = walk_job.load()
    start_run(loaded, job, walk_job.options(), copy)
    [(snap, before)] = retained

    assert contents(snap) == before
    walk_job.run_dir = snap
    assert walk_job.resume().exit_code == 0


def test_a_snapshot_of_a_run_that_lives_does_not_live_and_can_be_resumed(stopped):
    command = [sys.executable, "-c", _HOLD, str(stopped.run.path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as holder:
        assert holder.stdout.readline() == "held\n"
        snap = snapshot(stopped.run_dir)
        original = stopped.run.path
        stopped.run_dir = snap

        assert is_live(original)
        assert not is_live(stopped.run.path)
        assert stopped.resume().exit_code == 0
        assert is_live(original)
        holder.communicate()
    with RunLock.acquire(original) as lock:
        lock.check()


def test_a_hard_link_of_another_users_file_is_refused_by_name(stopped, monkeypatch):
    epoch = stopped.store.epochs()[-1]
    file = Path(stopped.store.path(epoch), "a.h5")
    snapshot(stopped.run_dir)
    if os.geteuid() == 0:
        os.chown(file, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)

    with pytest.raises(CheckpointError, match=r"a\.h5.*another user \(uid \d+\).*2 names"):
        stopped.state(epoch)
    assert open_run(stopped.run.path).record.status == "stopped"
