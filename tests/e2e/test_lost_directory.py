"""A run whose directory, checkpoints or journal are moved away writes nothing in their place."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.command import JOBRUN, environment, jobrun
from tests.support.thinning import thinned
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
    steps:
      - x += rng.standard_normal(32)
      - {run: 'sleep 0.05'}
exit:
  - task: last
    steps: [{save: {x: "${run.dir}/artifacts/x.npy"}}]
stop: [{epochs: 60}]
"""
NEW = Path("runs/walk")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "walk.yaml").write_text(SPEC)
    return tmp_path


@contextlib.contextmanager
def live(*words: str):
    """A run that is under way, and has saved three epochs; its directory, and its process."""
    process = subprocess.Popen(
        [*JOBRUN, "run", "walk.yaml", *words], env=environment(), start_new_session=True,
        stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        wait_until(lambda: any(NEW.glob("*/checkpoints/epoch-000003")))
        (run,) = [path for path in NEW.iterdir() if not path.is_symlink()]
        yield run, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stderr.close()


def all_of(path: Path) -> dict[str, bytes]:
    """The content of all files but the lock, which says who looked last."""
    files = [file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "run.lock"]
    return {str(file): file.read_bytes() for file in files}


@pytest.mark.long
@pytest.mark.parametrize("on_error", thinned(["fail", "warn"], 2))
def test_a_run_directory_renamed_in_mid_run_leaves_nothing_at_its_old_place(folder, on_error):
    (folder / "walk.yaml").write_text(f"{SPEC}checkpoint: {{on_error: {on_error}}}\n")
    with live() as (run, process):
        run.rename("moved")
        _, output = process.communicate(timeout=60)

        assert process.returncode == 7
        assert "error[E355]" in output
        assert "which no longer exists" in output
        assert "jobrun resume" not in output
        assert not run.exists()
        assert [path.name for path in NEW.iterdir()] == ["latest"]
    assert jobrun("resume", "moved", "-q", "--max-epochs", "1").returncode == 75
    assert jobrun("ckpt", "verify", "moved").returncode == 0


@pytest.mark.long
@pytest.mark.parametrize(
    "step",
    thinned(
        [
            '{save: {x: "${run.dir}/artifacts/x.npy"}}',
            "{run: 'date > $JOBRUN_STATE_DIR/x', state_dir: mine}",
        ],
        2,
    ),
)
def test_steps_make_no_directory_where_the_run_was(folder, step):
    text = SPEC.replace("{run: 'sleep 0.05'}", f"{{run: 'sleep 0.05'}}\n      - {step}")
    # Saved so seldom that the steps meet it first.
    text += "checkpoint: {every: 1000ep}\n"
    (folder / "walk.yaml").write_text(text.replace("epochs: 60", "epochs: 200"))
    process = subprocess.Popen(
        [*JOBRUN, "run", "walk.yaml"], env=environment(), stderr=subprocess.PIPE, text=True
    )
    wait_until(lambda: any(NEW.glob("2*/checkpoints/epoch-000000")))
    (run,) = NEW.glob("2*")
    wait_until(lambda: any(run.glob("artifacts/*")) or any(run.glob("state_dirs/*/*/x")))
    run.rename("moved")
    _, output = process.communicate(timeout=60)

    process.stderr.close()
    assert process.returncode == 7, output
    # Where it went in the middle of a write, that is what fails.
    assert "error[E355]" in output or "error[E285]" in output
    assert not run.exists()


@pytest.mark.long
def test_a_run_directory_renamed_within_its_job_is_continued_there(folder):
    with live() as (run, process):
        run.rename(NEW / "20200101-0000-old-name")
        process.communicate(timeout=60)
        assert process.returncode == 7
        assert not run.exists()
    done = jobrun("run", "walk.yaml", "--resume", "auto", "--max-epochs", "1")
    assert done.returncode == 75
    assert "continuing from epoch" in done.stderr


@pytest.mark.long
def test_a_directory_put_in_place_of_a_run_gets_nothing(folder):
    with live() as (run, process):
        run.rename("moved")
        run.mkdir()
        (run / "checkpoints").mkdir()
        (run / "mine").write_text("x")
        _, output = process.communicate(timeout=60)

        assert process.returncode == 7
        assert "error[E355]" in output
        assert sorted(path.name for path in run.rglob("*")) == ["checkpoints", "mine"]


@pytest.mark.long
@pytest.mark.parametrize("change", thinned(["rename", "remove", "replace"], 3))
def test_checkpoints_that_go_away_in_mid_run_are_noticed_at_the_next_save(folder, change):
    with live() as (run, process):
        root = run / "checkpoints"
        root.rename("elsewhere")
        if change == "replace":
            root.mkdir()
        _, output = process.communicate(timeout=60)

        assert process.returncode == 7
        assert "error[E390]" in output
        assert not list(run.glob("checkpoints/*"))
    refused = jobrun("run", "walk.yaml", "--resume", "auto")
    assert (refused.returncode, "E357" in refused.stderr) == (4, True)
    if change == "replace":
        root.rmdir()
    Path("elsewhere").rename(root)
    assert jobrun("resume", "-q", "--max-epochs", "1").returncode == 75


@pytest.mark.long
def test_checkpoints_that_go_away_are_a_warning_where_failed_saves_are(folder):
    text = SPEC.replace("epochs: 60", "epochs: 12")
    (folder / "walk.yaml").write_text(f"{text}checkpoint: {{on_error: warn}}\n")
    with live() as (run, process):
        (run / "checkpoints").rename("elsewhere")
        _, output = process.communicate(timeout=60)

        assert process.returncode == 0
        assert "was removed or replaced during the run" in output
        assert not (run / "checkpoints").exists()


@pytest.mark.long
@pytest.mark.parametrize("remaining_file", ["nothing", "empty journal", "empty checkpoints"])
def test_a_run_whose_journal_and_epochs_are_gone_is_not_begun_again(folder, remaining_file):
    assert jobrun("run", "walk.yaml", "-q", "--max-epochs", "3").returncode == 75
    (run,) = [path for path in NEW.iterdir() if not path.is_symlink()]
    (run / "committed.jsonl").unlink()
    (run / "checkpoints").rename("elsewhere")
    if remaining_file == "empty journal":
        (run / "committed.jsonl").write_bytes(b"")
    elif remaining_file == "empty checkpoints":
        (run / "checkpoints").mkdir()
    before = all_of(run)

    for words in (["run", "walk.yaml", "--resume", "auto"], ["resume"], ["resume", "--dry-run"]):
        done = jobrun(*words)
        assert done.returncode == 4, (words, done.stderr)
        assert "error[E357]" in done.stderr
        assert "epoch 3 was saved, as run.json says, and is gone" in done.stderr
        assert "--resume never" in done.stderr
    assert jobrun("run", "walk.yaml").returncode == 2
    assert all_of(run) == before
    assert jobrun("resume", "--allow-lost").returncode == 4
    assert json.loads((run / "run.json").read_text())["epoch"] == 3


def test_a_run_whose_journal_only_is_gone_continues(folder):
    assert jobrun("run", "walk.yaml", "-q", "--max-epochs", "3").returncode == 75
    (run,) = [path for path in NEW.iterdir() if not path.is_symlink()]
    (run / "committed.jsonl").unlink()

    done = jobrun("resume", "--max-epochs", "1")

    assert done.returncode == 75
    assert "continuing from epoch 3" in done.stderr
