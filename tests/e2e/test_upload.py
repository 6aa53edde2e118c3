"""Copies of checkpoints in another directory, made by runs that are killed and go on."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.cli.run_command import invoke
from jobrun.core.failpoints import POINTS
from tests.support.command import environment, jobrun
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.thinning import thinned

SPEC = """\
jobrun: 1
name: job
nodes: {{a: {{}}, b: {{}}}}
init:
  - {{task: one, node: a, steps: [w = arange(4.0)]}}
  - {{task: two, node: b, steps: ["v = rng.normal(size=3)"]}}
epoch:
  - {{task: step, node: a, steps: [w = w * 2]}}
  - {{task: stir, node: b, steps: ["v = v + rng.normal(size=3)"]}}
download:
  - {{task: fetch, node: a, steps: [log: "downloading"]}}
exit:
  - {{task: last, node: a, steps: [save: {{w: "${{run.dir}}/artifacts/w.npy"}}]}}
stop: [epochs: 3]
checkpoint: {checkpoint}
"""


def spec(folder: Path, checkpoint: str) -> Path:
    path = folder / "job.yaml"
    path.write_text(SPEC.format(checkpoint=checkpoint))
    return path


def run(folder: Path, checkpoint: str, *more: str, crash: str = ""):
    env = environment(JOBRUN_CRASHPOINT=crash or None)
    return jobrun(
        "run",
        spec(folder, checkpoint),
        "--run-dir",
        folder / "runs",
        "--resume",
        "auto",
        *more,
        env=env,
    )


def copies(folder: Path, name: str = "up") -> Path:
    (path,) = (folder / name).glob("job/*")
    return path


def check_copies(folder: Path, *expected: int) -> None:
    """Those epochs, byte for byte, and nothing else."""
    target = copies(folder)
    originals = epochs(only_run(folder / "runs"))
    assert sorted(path.name for path in target.iterdir()) == [f"epoch-{n:06d}" for n in expected]
    for number in expected:
        copied = target / f"epoch-{number:06d}"
        assert DirectoryStore(str(target)).verify(number) is None
        actual = {path.name: path.read_bytes() for path in copied.iterdir()}
        assert actual == {path.name: path.read_bytes() for path in originals[number].iterdir()}


def happened(folder: Path) -> list[tuple[str, int]]:
    lines = (only_run(folder / "runs") / "events.jsonl").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return [(e["group"], e["epoch"]) for e in events if e["event"] == "GroupStarted"]


def test_the_final_checkpoint_is_copied_after_the_last_epoch_and_before_download(tmp_path):
    done = run(tmp_path, "{upload: {to: up}}")

    assert done.returncode == 0, done.stderr
    check_copies(tmp_path, 3)
    assert happened(tmp_path)[-4:] == [("epoch", 3), ("upload", 3), ("download", 3), ("exit", 3)]


def test_each_committed_one_is_copied_when_it_is_committed(tmp_path):
    done = run(tmp_path, "{async: false, upload: {to: up, when: committed}}")

    assert done.returncode == 0, done.stderr
    check_copies(tmp_path, 0, 1, 2, 3)
    assert happened(tmp_path)[:4] == [("init", 0), ("upload", 0), ("epoch", 1), ("upload", 1)]


def test_a_copy_can_be_inspected_like_any_checkpoint(tmp_path, capsys):
    run(tmp_path, f"{{upload: {{to: 'file://{tmp_path}/up'}}}}")

    assert invoke(["inspect-checkpoint", str(copies(tmp_path) / "epoch-000003")]) == 0
    assert "epoch  3" in capsys.readouterr().out


UPLOADING = [point for point in POINTS if point.startswith("upload.")] + ["runner.uploaded"]


@pytest.mark.parametrize("occurrence", thinned([2, 1], 2))
@pytest.mark.parametrize("point", thinned(UPLOADING, 3))
def test_killed_while_copying_the_next_start_finishes_the_copy(tmp_path, point, occurrence):
    """Once at the end: two files are copied, so the first kill may come twice."""
    when = "end" if occurrence == 1 else "committed"
    policy = f"{{upload: {{to: up, when: {when}, required: true}}}}"
    point = point if point == "runner.uploaded" else f"{point}:{occurrence}"
    killed = run(tmp_path, policy, crash=point)
    assert killed.returncode == -signal.SIGKILL, killed.stderr

    done = run(tmp_path, policy)

    assert done.returncode == 0, done.stderr
    check_copies(tmp_path, *([3] if when == "end" else [0, 1, 2, 3]))
    assert epochs(only_run(tmp_path / "runs")).keys() == {0, 1, 2, 3}
    assert (only_run(tmp_path / "runs") / "artifacts" / "w.npy").is_file()


def test_killed_between_a_save_and_its_upload_the_resume_uploads_it_first(tmp_path):
    # Each epoch is saved, and none runs beside a save, however busy the machine is.
    policy = "{every: 1ep, async: false, upload: {to: up, when: committed}}"
    killed = run(tmp_path, policy, crash="runner.acknowledged:3")
    assert killed.returncode == -signal.SIGKILL
    before = len(happened(tmp_path))

    assert run(tmp_path, policy).returncode == 0

    assert happened(tmp_path)[before:][:2] == [("upload", 2), ("epoch", 3)]
    check_copies(tmp_path, 0, 1, 2, 3)


def test_killed_after_the_upload_the_run_continues_to_exit_with_no_epoch(tmp_path):
    policy = "{upload: {to: up}}"
    assert run(tmp_path, policy, crash="runner.download-ended").returncode == -signal.SIGKILL
    before = len(happened(tmp_path))

    assert run(tmp_path, policy).returncode == 0

    assert happened(tmp_path)[before:] == [("download", 3), ("exit", 3)]
    check_copies(tmp_path, 3)


def occupied(tmp_path: Path) -> Path:
    """A file is where the directory of the copies should be."""
    path = tmp_path / "up"
    path.write_text("in the way")
    return path


def test_a_failing_upload_is_a_warning_that_is_repeated_at_the_end(tmp_path):
    occupied(tmp_path)

    done = run(tmp_path, "{upload: {to: up}}")

    assert done.returncode == 0
    assert "epoch 3 could not be uploaded" in done.stderr
    assert "1 upload failed; the checkpoints themselves are saved" in done.stderr
    assert ("exit", 3) in happened(tmp_path)


def test_a_required_upload_that_fails_ends_with_7_and_a_resume_finishes_it(tmp_path):
    blocking = occupied(tmp_path)
    policy = "{upload: {to: up, required: true}}"

    done = run(tmp_path, policy)

    assert done.returncode == 7
    assert "E321" in done.stderr
    assert happened(tmp_path)[-1] == ("upload", 3)
    blocking.unlink()
    assert run(tmp_path, policy).returncode == 0
    check_copies(tmp_path, 3)


def test_a_checkpoint_of_others_is_not_overwritten(tmp_path):
    policy = "{upload: {to: up, required: true}}"
    assert run(tmp_path, policy, crash="upload.begun").returncode == -signal.SIGKILL
    other = copies(tmp_path) / "epoch-000003"
    shutil.copytree(epochs(only_run(tmp_path / "runs"))[2], other)

    done = run(tmp_path, policy)

    assert done.returncode == 7
    assert "is there already and is not this checkpoint" in done.stderr
    assert blobs(other) == blobs(epochs(only_run(tmp_path / "runs"))[2])


def test_epochs_computed_again_after_going_back_are_copied_beside_the_old(tmp_path):
    assert run(tmp_path, "{upload: {to: up, when: committed}}").returncode == 0
    path = only_run(tmp_path / "runs")

    done = jobrun("resume", path, "--epoch", "1")

    assert done.returncode == 0, done.stderr
    names = sorted(path.name for path in copies(tmp_path).iterdir())
    assert names == ["epoch-000000", "epoch-000001", "epoch-000002", "epoch-000003", "g1"]
    again = copies(tmp_path) / "g1"
    assert sorted(path.name for path in again.iterdir()) == ["epoch-000002", "epoch-000003"]


def test_other_urls_are_refused_by_validate(tmp_path):
    done = jobrun("validate", spec(tmp_path, "{upload: {to: 'ftp://host/x'}}"))

    assert done.returncode == 3
    assert "'ftp://' is not supported" in done.stderr
    assert "E127" in done.stderr


def test_stopped_early_nothing_is_uploaded_at_the_end(tmp_path):
    done = run(tmp_path, "{upload: {to: up}}", "--max-epochs", "1")

    assert done.returncode == 75
    assert not (tmp_path / "up").exists()
    assert run(tmp_path, "{upload: {to: up}}").returncode == 0
    check_copies(tmp_path, 3)
