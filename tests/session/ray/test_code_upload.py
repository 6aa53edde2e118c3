from __future__ import annotations

import sys

import pytest

from jobrun.session.ray import code_upload as shipping
from jobrun.session.ray.code_upload import (
    TooMuchCodeError,
    digest_modules,
    list_module_files,
    make_importable,
    stage_modules,
)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "job"
    for name in (
        "lib.py",
        "data.csv",
        "pkg/__init__.py",
        "pkg/deep/mod.py",
        "empty/below/far.py",
        ".hidden/x.py",
        "__pycache__/lib.py",
        "with-dash/x.py",
    ):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"# {name}\n")
    return folder


def test_modules_are_files_and_folders_that_hold_some(folder):
    modules = [path.as_posix() for path in list_module_files(folder)]

    assert modules == ["lib.py", "pkg/__init__.py", "pkg/deep/mod.py"]


def test_the_digest_is_of_names_and_contents(folder):
    first = digest_modules(folder)
    (folder / "data.csv").write_text("1")
    assert digest_modules(folder) == first

    (folder / "lib.py").write_text("1")

    assert digest_modules(folder) != first


def test_a_folder_without_modules_has_no_digest(tmp_path):
    assert digest_modules(tmp_path) == digest_modules(tmp_path / "nothing") == ""


def test_more_than_a_limit_is_refused(folder, monkeypatch):
    monkeypatch.setattr(shipping, "_MOST_FILES", 2)

    with pytest.raises(TooMuchCodeError, match="more than 2 files"):
        list_module_files(folder)


def test_the_same_modules_in_place_are_used_there(folder):
    before = list(sys.path)

    assert make_importable(str(folder), digest_modules(folder)) == ""

    assert sys.path == before


def test_uploaded_modules_are_importable(folder, tmp_path, monkeypatch):
    staged = stage_modules(folder, tmp_path / "sent", digest_modules(folder))
    monkeypatch.setattr(sys, "path", [str(staged.parent), *sys.path])

    assert make_importable(str(tmp_path / "nothing"), digest_modules(folder)) == ""

    assert sys.path[0] == str(staged)
    assert digest_modules(staged) == digest_modules(folder)


def test_other_modules_in_the_same_place_are_refused(folder):
    refusal = make_importable(str(folder), "0" * 32)

    assert "has other modules" in refusal


def test_modules_that_were_not_uploaded_are_missed(tmp_path):
    assert "none were sent" in make_importable(str(tmp_path / "nothing"), "0" * 32)
