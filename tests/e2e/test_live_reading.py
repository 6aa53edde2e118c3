"""Readers of a live run that deletes its epochs soon, and forks that die before they have one."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from pathlib import Path

import pytest

from jobrun.runner.rundir.run_directories import open_run
from tests.support.command import JOBRUN, environment, jobrun
from tests.support.waiting import wait_until

SPEC = """\
jobrun: 1
name: walk
seed: 5
init:
  - task: start
    steps: [x = rng.standard_normal(32)]
epoch:
  - task: step
    steps: [x += rng.standard_normal(32)]
checkpoint: {every: 1ep, keep: {last: 2}}
stop: [{epochs: 1000000}]
"""
NEW = Path("runs/walk")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.yaml").write_text(SPEC)
    return tmp_path


@contextlib.contextmanager
def live(*words: str):
    """A run that is under way, and has saved a few epochs; killed in the end."""
    process = subprocess.Popen(
        [*JOBRUN, *(words or ("run", "walk.yaml", "-q"))], env=environment(),
        start_new_session=True, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        wait_until(
            lambda: any(NEW.glob("*/checkpoints/epoch-000003")) or process.poll() is not None,
            "third epoch",
        )
        assert process.poll() is None
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def runs() -> list[Path]:
    return sorted(path for path in NEW.iterdir() if not path.is_symlink())


@pytest.mark.timeout(300)
@pytest.mark.parametrize("count", [3, pytest.param(20, marks=pytest.mark.long)])
def test_forks_and_copies_in_a_row_of_a_live_run_that_keeps_two_epochs_succeed(folder, count):
    with live() as parent:
        (original,) = runs()
        for number in range(count):
            done = jobrun("fork", str(original), "-q", "--max-epochs", "1")
            assert done.returncode == 75, done.stderr
            done = jobrun("ckpt", "copy", str(original), f"copy-{number}")
            assert done.returncode == 0, done.stderr
        assert parent.poll() is None

    forks = [open_run(path) for path in runs() if path != original]
    assert len(forks) == count
    began = [fork.record.parent["epoch"] for fork in forks]
    # Not epoch 0, which is there always, but the newest of that moment.
    assert min(began) > 0
    assert all(fork.record.epoch == fork.record.parent["epoch"] + 1 for fork in forks)
    assert jobrun("resume", f"copy-{count - 1}", "-q", "--max-epochs", "2").returncode == 75
    assert jobrun("ckpt", "verify", str(original)).returncode == 0


@pytest.mark.long
@pytest.mark.timeout(300)
def test_export_inspect_and_verify_beside_a_live_run_that_keeps_two_epochs_succeed(folder):
    with live() as parent:
        (original,) = runs()
        for number in range(4):
            for words in (
                ("ckpt", "export", str(original), "--out", f"{number}.npz"),
                ("inspect-checkpoint", str(original)),
                ("ckpt", "verify", str(original)),
                ("ckpt", "verify", f"{original}@latest"),
            ):
                done = jobrun(*words)
                assert done.returncode == 0, (words, done.stderr, done.stdout)
        assert parent.poll() is None


@pytest.mark.long
def test_retention_continues_behind_a_reader_that_was_killed(folder):
    with live():
        (original,) = runs()
        root = original / "checkpoints"
        code = (
            "import sys, time; from pathlib import Path;"
            "from jobrun.tools.inspection import locate_checkpoint;"
            "held = locate_checkpoint(sys.argv[1], Path('runs'));"
            "print(held.epoch, flush=True); time.sleep(100)"
        )
        reader = subprocess.Popen(
            [JOBRUN[0], "-c", code, str(original)], stdout=subprocess.PIPE, text=True
        )
        assert reader.stdout is not None
        epoch = int(reader.stdout.readline())
        newer = root / f"epoch-{epoch + 20:06d}"
        wait_until(newer.is_dir)
        assert (root / f"epoch-{epoch:06d}").is_dir()
        reader.kill()
        reader.wait()
        reader.stdout.close()
        wait_until(lambda: not (root / f"epoch-{epoch:06d}").is_dir())


def stillborn_fork() -> tuple[Path, Path]:
    """A stopped parent that does not have the epoch any more, and a fork that died before it."""
    assert jobrun("run", "walk.yaml", "-q", "--max-epochs", "20").returncode == 75
    (parent,) = runs()
    died = jobrun("fork", str(parent), "-q", env=environment(JOBRUN_CRASHPOINT="runner.run-made:1"))
    assert died.returncode not in (0, 75)
    (fork,) = set(runs()) - {parent}
    assert jobrun("resume", str(parent), "-q", "--max-epochs", "20").returncode == 75
    return parent, fork


@pytest.mark.long
def test_a_fork_that_died_does_not_stand_before_its_parent(folder):
    parent, fork = stillborn_fork()

    assert jobrun("resume", str(fork), "-q").returncode == 4
    dry = jobrun("resume", str(fork), "--dry-run")
    assert (dry.returncode, "does not exist any more" in dry.stderr) == (4, True)
    dry = jobrun("resume", "--dry-run")
    assert parent.name in dry.stdout + dry.stderr
    assert jobrun("resume", "-q", "--max-epochs", "1").returncode == 75
    assert open_run(parent).record.epoch == 41
    auto = jobrun("run", "walk.yaml", "-q", "--resume", "auto", "--max-epochs", "1")
    assert auto.returncode == 75, auto.stderr
    assert open_run(parent).record.epoch == 42
    assert jobrun("inspect-checkpoint", "latest").returncode == 0
    assert jobrun("run", "walk.yaml", "-q").returncode == 2


@pytest.mark.long
def test_a_dead_fork_is_forecast_as_it_is_resumed(folder):
    assert jobrun("run", "walk.yaml", "-q", "--max-epochs", "3").returncode == 75
    (parent,) = runs()
    jobrun("fork", str(parent), "-q", env=environment(JOBRUN_CRASHPOINT="runner.run-made:1"))
    (fork,) = set(runs()) - {parent}

    dry = jobrun("resume", str(fork), "--dry-run")

    assert dry.returncode == 0
    assert "taken once more from" in dry.stdout
    assert "epoch 3" in dry.stdout
    assert "init runs" not in dry.stdout
    assert jobrun("resume", str(fork), "-q", "--max-epochs", "1").returncode == 75
    assert open_run(fork).record.epoch == 4


def test_a_fork_whose_parent_cannot_be_had_is_removed(folder, monkeypatch):
    from jobrun.runner import fork_first_state as lineage  # noqa: PLC0415
    from jobrun.runner.fork import Fork, fork_run  # noqa: PLC0415
    from jobrun.runner.options import RunOptions  # noqa: PLC0415

    assert jobrun("run", "walk.yaml", "-q", "--max-epochs", "3").returncode == 75
    (parent,) = runs()
    retained = lineage._require_usable

    def lost(store, epoch, record):
        # A file system without locks: the parent deletes it in between.
        store.set_aside((epoch,), str(parent / "superseded" / "x"))
        retained(store, epoch, record)

    monkeypatch.setattr(lineage, "_require_usable", lost)
    with pytest.raises(Exception, match="E359"):
        fork_run(Fork(open_run(parent)), None, RunOptions(run_dir=Path("runs")))

    assert runs() == [parent]
    assert (NEW / "latest").resolve() == parent.resolve()
