from __future__ import annotations

import errno

import pytest

from jobrun.core import system_calls
from jobrun.core.system_calls import rename_noreplace


@pytest.fixture(params=["renameat2", "ENOSYS", "EINVAL"], autouse=True)
def way(request, monkeypatch):
    if request.param != "renameat2":
        code = getattr(errno, request.param)
        monkeypatch.setattr(system_calls, "_renameat2", lambda *_: code)


@pytest.fixture
def source(tmp_path):
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "f").write_text("new")
    return tmp_path / "source"


def test_a_free_name_is_taken(tmp_path, source):
    rename_noreplace(str(source), str(tmp_path / "target"))

    assert (tmp_path / "target" / "f").read_text() == "new"
    assert not source.exists()


def test_a_directory_is_not_replaced(tmp_path, source):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "f").write_text("old")

    with pytest.raises(FileExistsError):
        rename_noreplace(str(source), str(tmp_path / "target"))

    assert (tmp_path / "target" / "f").read_text() == "old"
    assert source.exists()


def test_an_empty_directory_a_file_and_a_broken_link_are_not_replaced(tmp_path, source):
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("old")
    (tmp_path / "link").symlink_to("nowhere")

    for name in ("empty", "file", "link"):
        with pytest.raises(FileExistsError):
            rename_noreplace(str(source), str(tmp_path / name))


def test_a_missing_source_is_reported(tmp_path):
    with pytest.raises(FileNotFoundError):
        rename_noreplace(str(tmp_path / "source"), str(tmp_path / "target"))


@pytest.mark.parametrize("way", ["ENOSYS"], indirect=True)
def test_a_directory_that_appears_between_look_and_rename_is_not_replaced(
    tmp_path, source, monkeypatch
):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "f").write_text("old")
    monkeypatch.setattr("os.path.lexists", lambda _: False)

    with pytest.raises(FileExistsError):
        rename_noreplace(str(source), str(tmp_path / "target"))

    assert (tmp_path / "target" / "f").read_text() == "old"
