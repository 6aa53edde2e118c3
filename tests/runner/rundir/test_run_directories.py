"""Making, finding and listing runs."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.runner.rundir import run_directories as rundir
from jobrun.runner.rundir import run_index as runindex
from jobrun.runner.rundir.run_directories import (
    create_directory,
    find_moved_latest,
    find_run,
    newest_run,
    newest_unfinished,
    open_run,
    point_latest,
    require_own,
    require_own_parent,
    runs,
    suggest_run_dir,
)
from jobrun.runner.rundir.run_json import RECORD_NAME, RunRecord, write_record
from tests.support.many_runs import make_runs


def make(root, job, name, number, **fields):
    path = root / job / name
    path.mkdir(parents=True)
    created = f"2026-11-21T09:42:00.{number:06d}+00:00"
    write_record(path, RunRecord(f"id-{number}", job, created, folder="../../..", **fields))
    return path


@pytest.fixture
def root(tmp_path):
    root = tmp_path / "runs"
    make(root, "kmeans", "20261121-0942-brisk-heron", 1, status="finished")
    make(root, "kmeans", "20261121-0942-brave-otter", 2)
    make(root, "hmm", "20261121-0941-calm-elk", 3, status="stopped")
    make(root, "hmm", "20261121-0942-quick-fox", 4, resumable=False, status="failed")
    return root


def test_new_directory_is_private_and_not_yet_a_run(tmp_path):
    path = create_directory(tmp_path / "runs", "kmeans")

    assert path.parent == tmp_path / "runs" / "kmeans"
    assert {item.name for item in path.iterdir()} == {
        "spec",
        "checkpoints",
        "logs",
        "artifacts",
        "superseded",
    }
    assert runs(tmp_path / "runs") == ()


def test_a_taken_name_is_never_taken_twice(tmp_path, monkeypatch):
    names = iter(["a-b", "a-b", "a-b", "c-d"])
    monkeypatch.setattr(rundir, "random_name", lambda: next(names))

    directory = create_directory(tmp_path, "j")
    other = create_directory(tmp_path, "j")

    assert directory.name.endswith("a-b")
    assert other.name.endswith("c-d")


def test_running_out_of_names_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(rundir, "random_name", lambda: "a-b")
    create_directory(tmp_path, "j")

    with pytest.raises(EnvironmentFaultError, match="no free name"):
        create_directory(tmp_path, "j")


def test_row_32_no_directory_is_writable_by_others_whatever_the_umask(tmp_path):
    before = os.umask(0)
    try:
        path = create_directory(tmp_path / "runs", "j")
    finally:
        os.umask(before)

    for directory in (path, path.parent, path / "checkpoints"):
        assert directory.stat().st_mode & 0o777 == 0o755


def test_row_32_a_strict_umask_is_kept(tmp_path):
    before = os.umask(0o077)
    try:
        path = create_directory(tmp_path / "runs", "j")
    finally:
        os.umask(before)

    assert path.stat().st_mode & 0o777 == 0o700


def test_row_42_a_place_that_cannot_be_written_fails_at_the_start(tmp_path):
    (tmp_path / "runs").write_text("a file")

    with pytest.raises(EnvironmentFaultError, match="cannot make a run directory") as raised:
        create_directory(tmp_path / "runs", "j")

    assert raised.value.exit_code == 7


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("kmeans", "brave-otter"),
        ("latest", "quick-fox"),
        ("kmeans/latest", "brave-otter"),
        ("brisk-heron", "brisk-heron"),
        ("brisk", "brisk-heron"),
        ("20261121-0942-brisk", "brisk-heron"),
        ("kmeans/bri", "brisk-heron"),
        ("hmm/20261121-0941", "calm-elk"),
        ("kmeans/20261121-0942-brave-otter", "brave-otter"),
    ],
)
def test_a_run_is_found_by_what_a_person_calls_it(root, text, name):
    assert find_run(text, root).path.name.endswith(name)


def test_a_run_is_found_by_its_path(root, monkeypatch):
    path = root / "hmm" / "20261121-0941-calm-elk"
    monkeypatch.chdir(root)

    assert find_run(str(path), Path("elsewhere")).path == path
    assert find_run("hmm/20261121-0941-calm-elk", Path("elsewhere")).path == path


def test_among_many_runs_one_is_found_without_reading_the_others(tmp_path, monkeypatch):
    make_runs(tmp_path, 70)
    newest = find_run("latest", tmp_path)
    monkeypatch.setattr(runindex, "read_record", lambda path: pytest.fail("all are read again"))

    assert find_run(newest.path.name, tmp_path) == newest
    assert find_run("job3", tmp_path).record.job == "job3"


def test_record_counts_and_not_the_index(tmp_path):
    make_runs(tmp_path, 70)
    path = find_run("latest", tmp_path).path
    index = tmp_path / runindex.INDEX_NAME
    index.write_text(index.read_text().replace('"finished"', '"failed"'))

    assert find_run("latest", tmp_path).path == path
    assert find_run("latest", tmp_path).record.status == "finished"


def test_ambiguous_prefix_of_names_is_refused(root):
    with pytest.raises(
        UsageError, match=r"'br' matches several runs: kmeans/.*brisk-heron"
    ) as raised:
        find_run("br", root)

    assert raised.value.exit_code == 2


def test_row_26_a_mistyped_name_gets_the_nearest_one(root):
    with pytest.raises(UsageError, match="did you mean 'kmeans'"):
        find_run("kmaens", root)
    with pytest.raises(UsageError, match="no run 'latestt'"):
        find_run("latestt", root)


def test_path_of_an_epoch_leads_to_its_run(root):
    with pytest.raises(UsageError, match=r"'kmeans@3' names an epoch.*write 'kmeans';"):
        find_run("kmeans@3", root)


@pytest.mark.parametrize("exists", [True, False])
def test_row_27_a_path_that_is_no_run_is_a_checkpoint_error(root, tmp_path, exists):
    path = tmp_path / "results"
    if exists:
        path.mkdir()

    with pytest.raises(CheckpointError, match="not a jobrun run directory") as raised:
        find_run(str(path), root)

    assert raised.value.exit_code == 4


def test_latest_leads_to_the_last_and_counts_nothing_twice(root):
    for name in ("20261121-0942-brisk-heron", "20261121-0942-brave-otter"):
        point_latest(root / "kmeans" / name)

    assert (root / "kmeans" / "latest").resolve().name == "20261121-0942-brave-otter"
    assert len(runs(root, "kmeans")) == 2


def test_a_latest_run_that_is_gone_is_found_though_the_clock_was_set_back(root):
    link = root / "kmeans"
    newest = newest_run(root, "kmeans")
    point_latest(newest.path)
    assert find_moved_latest(root, "kmeans", newest) == ""
    point_latest(link / "20200101-0000-gone-gnu")
    assert find_moved_latest(root, "kmeans", newest) == "20200101-0000-gone-gnu"
    assert find_moved_latest(root, "kmeans", None) == "20200101-0000-gone-gnu"
    renamed = newest.path.rename(link / "renamed")
    assert find_moved_latest(root, "kmeans", open_run(renamed)) == ""


def test_the_newest_is_the_last_that_was_made_though_the_clock_was_set_back(root, monkeypatch):
    orders = []
    for now in (3_000_000, 1_000_000, 2_000_000):
        monkeypatch.setattr(rundir.time, "time_ns", lambda now=now: now * 1_000_000_000)
        orders.append(rundir.next_order(root))
        path = root / "walk" / f"20260101-{len(orders):04d}-a-b"
        path.mkdir(parents=True)
        # By the clock of that moment, as a run of another job beside it.
        created = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
        write_record(path, RunRecord(str(now), "walk", created, orders[-1]))

    assert orders == sorted(set(orders))
    assert rundir.newest_run(root, "walk").path == path
    assert rundir.find_run("latest", root).path == path
    assert rundir.newest_unfinished(root).path == path


def test_newest_goes_by_when_it_was_made_not_by_name(root):
    assert newest_run(root, "kmeans").path.name.endswith("brave-otter")
    assert newest_run(root, "nobody") is None


def test_unfinished_runs_are_those_that_can_be_resumed(root):
    assert newest_unfinished(root).path.name.endswith("calm-elk")
    assert newest_unfinished(root, "kmeans").path.name.endswith("brave-otter")


def test_nothing_unfinished_is_a_checkpoint_error(tmp_path):
    with pytest.raises(CheckpointError, match="no unfinished run") as raised:
        newest_unfinished(tmp_path / "none")

    assert raised.value.exit_code == 4


def test_row_46_stray_files_and_damaged_runs_are_skipped(root):
    (root / "notes.txt").touch()
    (root / "kmeans" / "lost+found").mkdir()
    damaged = make(root, "kmeans", "20261122-0000-dead-end", 9)
    (damaged / RECORD_NAME).write_text("{")

    assert len(runs(root)) == 4


def test_row_47_copied_run_finds_its_folder_by_relative_path(root, tmp_path):
    copy = tmp_path / "there" / "runs"
    shutil.copytree(root, copy)

    run = open_run(copy / "kmeans" / "20261121-0942-brisk-heron")

    assert run.folder == tmp_path / "there"
    assert str(tmp_path) not in (run.path / RECORD_NAME).read_text()


def test_changed_field_is_written_and_others_stay(root):
    run = open_run(root / "kmeans" / "20261121-0942-brave-otter")

    changed = run.write(status="failed", exit_code=1)

    assert open_run(run.path) == changed
    assert changed.record.run_id == run.record.run_id
    assert changed.unfinished


def test_a_run_is_called_by_its_name_where_that_finds_it_and_else_by_its_path(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    run = open_run(make(tmp_path / "runs", "walk", "20261121-0942-brisk-heron", 1))

    assert run.handle(Path("runs")) == run.name
    assert run.handle(tmp_path / "runs") == run.name
    assert run.handle(tmp_path / "elsewhere") == f"runs/{run.name}"


def test_a_run_that_has_saved_something_and_cannot_be_read_is_found(tmp_path):
    paths = [tmp_path / "job" / f"20260101-000{number}-a-b" for number in range(4)]
    for path in paths:
        (path / "checkpoints").mkdir(parents=True)
        (path / RECORD_NAME).write_text("{")
    (paths[0] / "checkpoints" / "epoch-000000").mkdir()
    (paths[1] / "committed.jsonl").write_text("line")
    (paths[2] / RECORD_NAME).unlink()
    (paths[2] / "checkpoints" / "epoch-000003").mkdir()

    assert rundir.unreadable_runs(tmp_path, "job") == tuple(paths[:3])
    assert rundir.unreadable_runs(tmp_path, "nothing") == ()


def test_runs_in_a_parent_folder_are_suggested(tmp_path, monkeypatch):
    make(tmp_path / "runs", "a", "20261121-0942-brisk-heron", 1)
    (tmp_path / "below" / "deep").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "below" / "deep")

    with pytest.raises(UsageError, match="there are no runs in runs") as caught:
        find_run("latest", Path("runs"))
    assert caught.value.faults[0].mend == "there is ../../runs: add --run-dir ../../runs"
    with pytest.raises(UsageError) as caught:
        find_run("latest", tmp_path / "nowhere")
    assert "jobrun run SPEC" in caught.value.faults[0].mend


# Whoever made the files of a test is another user to this one.
ANOTHER = os.geteuid() + 1
FOREIGN = os.geteuid() == 0


@pytest.fixture
def watched(tmp_path):
    run = tmp_path / "run"
    (run / "checkpoints").mkdir(parents=True)
    if FOREIGN:
        # The superuser is trusted, so the files must be somebody's.
        for path in (run, run / "checkpoints"):
            os.chown(path, 12345, 12345)
    return run


def test_ones_own_run_is_trusted_whatever_its_mode(watched):
    watched.chmod(0o777)
    require_own(watched, watched.stat().st_uid)


def test_another_users_run_that_only_he_may_change_is_trusted(watched):
    require_own(watched, ANOTHER)


def test_row_41_another_users_run_that_all_may_change_is_refused(watched):
    watched.chmod(0o777)

    with pytest.raises(EnvironmentFaultError, match="everyone may write") as raised:
        require_own(watched, ANOTHER)

    (fault,) = raised.value.faults
    assert fault.code == "E380"
    assert "--trust-dir" in fault.mend


def test_row_41_its_checkpoints_count_too(watched):
    (watched / "checkpoints").chmod(0o777)

    with pytest.raises(EnvironmentFaultError, match="checkpoints belongs to another user"):
        require_own(watched, ANOTHER)


def test_row_39_a_link_that_another_user_made_is_refused(watched, tmp_path):
    (watched / "checkpoints").rmdir()
    (watched / "checkpoints").symlink_to(tmp_path)
    if FOREIGN:
        os.lchown(watched / "checkpoints", 12345, 12345)

    with pytest.raises(EnvironmentFaultError, match="is a link that another user"):
        require_own(watched, ANOTHER)


def test_a_link_of_ones_own_is_followed(watched, tmp_path):
    (watched / "checkpoints").rmdir()
    (watched / "checkpoints").symlink_to(tmp_path)

    require_own(watched, (watched / "checkpoints").lstat().st_uid)


def test_row_41_no_run_is_made_where_another_user_lets_all_write(watched):
    watched.chmod(0o777)

    with pytest.raises(EnvironmentFaultError, match="belongs to another user"):
        require_own_parent(watched, ANOTHER)
    require_own_parent(watched / "not there", ANOTHER)


@pytest.fixture
def lost(tmp_path, request):
    """A directory of runs whose one run has epochs, and a record as the test asks for."""
    saved = tmp_path / "runs" / "a" / "20260101-1200-able-ant"
    (saved / "checkpoints" / "epoch-000003").mkdir(parents=True)
    if request.param is not None:
        (saved / "run.json").write_text(request.param)
    (saved.parent / "latest").symlink_to(saved.name)
    return saved


@pytest.mark.parametrize("lost", [None, "", '{"format": '], indirect=True)
@pytest.mark.parametrize("text", ["latest", "a", "a/latest", "able-ant", "{path}", "a@3"])
def test_a_run_that_lost_its_record_is_named_with_what_reads_it(lost, text):
    with pytest.raises(CheckpointError) as caught:
        find_run(text.format(path=lost), lost.parent.parent)

    (fault,) = caught.value.faults
    assert fault.code == "E375"
    assert str(lost) in fault.message
    assert f"jobrun inspect-checkpoint {lost}/checkpoints/epoch-000003" in fault.mend


@pytest.mark.parametrize("lost", [None, ""], indirect=True)
@pytest.mark.parametrize("job", ["", "a"])
def test_no_unfinished_run_is_looked_for_beyond_one_that_lost_its_record(lost, job):
    with pytest.raises(CheckpointError) as caught:
        newest_unfinished(lost.parent.parent, job)

    assert caught.value.faults[0].code == "E375"


def test_a_directory_above_is_suggested_only_if_it_has_runs(tmp_path, monkeypatch):
    below = tmp_path / "x" / "y"
    below.mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(below)

    assert "--run-dir DIR" in suggest_run_dir(Path("runs"))
