"""What a copy of folders has, where its paths lead, and what has been written in it."""

from __future__ import annotations

import os

import pytest

from jobrun.tools.isolation import folder_copy
from jobrun.tools.isolation.folder_copy import make_copy, plan_copy


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "above" / "project"
    for name in ("deep/a.txt", ".git/HEAD", "venv/pyvenv.cfg", "venv/lib.py",
                 "runs/job/1/run.json", "runs/.prove-x/a.txt", "b.txt"):  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    (tmp_path / "above" / "data").mkdir()
    (tmp_path / "above" / "data" / "d.txt").write_text("d")
    (folder / "hard.txt").hardlink_to(folder / "b.txt")
    (folder / "absolute").symlink_to(folder / "b.txt")
    (folder / "relative").symlink_to("../data/d.txt")
    (folder / "outward").symlink_to("/etc/hostname")
    os.mkfifo(folder / "pipe")
    return folder


def copy_of(folder, top):
    copy = make_copy(plan_copy([folder]), top)
    return copy, copy.path_of(folder)


def test_a_copy_has_the_same_relative_paths(folder, tmp_path):
    copy, there = copy_of(folder, tmp_path / "copy")

    assert (there / "deep" / "a.txt").read_text() == "deep/a.txt"
    assert (there / ".." / "data" / "d.txt").read_text() == "d"
    assert (there / "relative").read_text() == "d"
    assert (there / "hard.txt").samefile(there / "b.txt")
    assert (there / "absolute").samefile(there / "b.txt")
    assert not (there / "b.txt").samefile(folder / "b.txt")
    assert (there / "outward").readlink() == (folder / "outward").readlink()
    assert (there / "b.txt").stat().st_mtime_ns == (folder / "b.txt").stat().st_mtime_ns
    assert copy.changed_files() == {}


def test_runs_environments_and_repositories_are_linked_and_proofs_left_out(folder, tmp_path):
    copy, there = copy_of(folder, tmp_path / "copy")

    assert [path.is_symlink() for path in (there / ".git", there / "venv", there / "pipe")] == [
        True, True, True,
    ]  # fmt: skip
    assert (there / "runs" / "job" / "1").is_symlink()
    assert not (there / "runs" / ".prove-x").exists()
    assert copy.path_of(folder / "venv" / "lib.py") == folder / "venv" / "lib.py"
    assert copy.path_of(folder / "new" / "x") == there / "new" / "x"
    assert str(copy.path_of("/etc/hostname")) == "/etc/hostname"


def test_the_largest_files_and_the_deepest_folders_are_linked(folder, tmp_path, monkeypatch):
    (folder / "large.bin").write_bytes(bytes(1000))
    monkeypatch.setattr(folder_copy, "MOST_BYTES", 500)
    monkeypatch.setattr(folder_copy, "_share_blocks", lambda source, target: False)
    _, there = copy_of(folder, tmp_path / "copy")

    assert (there / "large.bin").readlink() == folder / "large.bin"
    assert not (there / "b.txt").is_symlink()

    monkeypatch.setattr(folder_copy, "MOST_ENTRIES", 5)
    _, there = copy_of(folder, tmp_path / "less")

    assert (there / "runs").is_symlink()


def test_a_copy_of_a_copy_has_what_the_first_had(folder, tmp_path):
    plan = plan_copy([folder])
    first = make_copy(plan, tmp_path / "first")
    (folder / "b.txt").write_text("edited meanwhile")

    second = make_copy(plan, tmp_path / "second", first.top)

    assert second.path_of(folder / "b.txt").read_text() == "b.txt"
    assert (second.path_of(folder) / "relative").read_text() == "d"


def test_new_written_and_removed_files_are_found(folder, tmp_path):
    copy, there = copy_of(folder, tmp_path / "copy")
    (there / "b.txt").write_text("other")
    (there / "deep" / "a.txt").unlink()
    (there / ".." / "new.txt").write_text("new")
    (there / "__pycache__").mkdir()
    (there / "__pycache__" / "a.pyc").write_text("")

    assert set(copy.changed_files()) == {
        str(folder / "b.txt"), str(folder / "hard.txt"), str(folder.parent / "new.txt"),
    }  # fmt: skip
    assert copy.removed_files() == {str(folder / "deep" / "a.txt")}
