"""A program's folder as an array of bytes, and back."""

from __future__ import annotations

import io
import os
import tarfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.steps.run_program import pack_directory, unpack_directory


def _there(folder):
    """All of a folder by name: content of files, targets of links, whether it may be run."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = ("link", str(path.readlink()))
        elif path.is_dir():
            found[name] = ("folder",)
        else:
            found[name] = ("file", path.read_bytes(), os.access(path, os.X_OK))
    return found


def _filled(folder):
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "empty").mkdir()
    (folder / "deep" / "er" / "data").write_bytes(bytes(range(256)) * 9)
    (folder / "tool").write_text("#!/bin/sh\n")
    (folder / "tool").chmod(0o700)
    (folder / "ünï cödé").write_text("")
    (folder / "link").symlink_to("deep/er/data")
    (folder / "deep" / "up").symlink_to("../tool")
    return folder


def _archive(*entries):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            archive.addfile(entry)
    return np.frombuffer(whole.getvalue(), np.uint8)


def test_what_is_unpacked_is_what_was_packed(tmp_path):
    folder = _filled(tmp_path / "one")

    unpack_directory(pack_directory(folder), tmp_path / "other")

    assert _there(tmp_path / "other") == _there(folder)


def test_equal_folders_have_equal_bytes_whenever_and_however_they_were_made(tmp_path):
    one, other = _filled(tmp_path / "one"), _filled(tmp_path / "other")
    os.utime(other / "tool", (1, 1))
    (other / "new").touch()
    (other / "new").unlink()

    assert pack_directory(one).tobytes() == pack_directory(other).tobytes()


def test_what_was_there_before_is_gone(tmp_path):
    folder = _filled(tmp_path / "one")
    content = pack_directory(folder)
    (folder / "deep" / "more").write_text("x")
    (tmp_path / "one.new").mkdir()

    unpack_directory(content, folder)

    assert "deep/more" not in _there(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def test_an_empty_folder_and_none_have_no_bytes(tmp_path):
    (tmp_path / "empty").mkdir()

    assert (
        pack_directory(tmp_path / "empty").shape == pack_directory(tmp_path / "none").shape == (0,)
    )
    unpack_directory(np.empty(0, np.uint8), tmp_path / "other")
    assert _there(tmp_path / "other") == {}


def test_plain_tar_reads_it(tmp_path):
    content = pack_directory(_filled(tmp_path / "one"))

    with tarfile.open(fileobj=io.BytesIO(content.tobytes())) as archive:
        names = archive.getnames()
        assert names == sorted(names)
        assert archive.extractfile("deep/er/data").read() == bytes(range(256)) * 9
        assert {(one.mtime, one.uid, one.gname) for one in archive} == {(0, 0, "")}


@pytest.mark.parametrize("target", ["/etc/passwd", "..", "deep/../../x"])
def test_a_link_that_leads_out_is_refused(target, tmp_path):
    folder = _filled(tmp_path / "one")
    (folder / "out").symlink_to(target)

    with pytest.raises(TaskFailedError, match="the link 'out' leads out of the folder"):
        pack_directory(folder)


def test_a_pipe_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    with pytest.raises(TaskFailedError, match="'pipe' is neither a file nor a folder nor a link"):
        pack_directory(tmp_path)


@pytest.mark.parametrize(
    "entries",
    [
        [("../x", tarfile.REGTYPE, "")],
        [("/tmp/x", tarfile.REGTYPE, "")],
        [("x", tarfile.SYMTYPE, "/etc")],
        [("x", tarfile.LNKTYPE, "/etc/passwd")],
        [("x", tarfile.FIFOTYPE, "")],
        [
            ("a", tarfile.DIRTYPE, ""), ("a/b", tarfile.DIRTYPE, ""), ("c", tarfile.DIRTYPE, ""),
            ("a/b/l", tarfile.SYMTYPE, "../../c"), ("m", tarfile.SYMTYPE, "a/b/l/../.."),
            ("m/x", tarfile.REGTYPE, ""),
        ],
    ],
)  # fmt: skip
def test_bytes_of_somebody_else_write_nothing_outside(entries, tmp_path):
    (tmp_path / "in").mkdir()

    with pytest.raises(TaskFailedError):
        unpack_directory(_archive(*entries), tmp_path / "in" / "one")

    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert {path.name for path in (tmp_path / "in").iterdir()} <= {"one.new"}


def test_bytes_that_are_no_archive_are_refused(tmp_path):
    with pytest.raises(TaskFailedError, match="the stored folder cannot be read"):
        unpack_directory(np.full(2000, 7, np.uint8), tmp_path / "one")


_NAMES = st.text("ab.é ", min_size=1, max_size=3).filter(lambda name: name.strip("."))
_TREES = st.recursive(
    st.binary(max_size=50),
    lambda inside: st.dictionaries(_NAMES, inside, max_size=3),
    max_leaves=8,
).filter(lambda tree: isinstance(tree, dict))


def _write(tree, folder):
    folder.mkdir()
    for name, inside in tree.items():
        if isinstance(inside, dict):
            _write(inside, folder / name)
        else:
            (folder / name).write_bytes(inside)


@settings(max_examples=40, deadline=None)
@given(tree=_TREES)
def test_any_folder_comes_back(tree, tmp_path_factory):
    place = tmp_path_factory.mktemp("any")
    _write(tree, place / "one")

    unpack_directory(pack_directory(place / "one"), place / "other")

    assert _there(place / "other") == _there(place / "one")
