"""The directory of a program becomes an array and comes back: all of it, in constant memory."""

from __future__ import annotations

import io
import os
import shutil
import socket
import stat
import subprocess
import sys
import tarfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.runtime.steps import state_directory
from jobrun.runtime.steps.state_directory import (
    pack_directory,
    restore_directory,
    unpack_directory,
)
from jobrun.values.compare import find_difference
from jobrun.values.directory_archive import is_archive, packed_files, without_times
from jobrun.values.file_memory import find_file_memory

ODD_NAMES = [
    b"\xff\xfe",
    b"new\nline",
    b"\x1b[31m",
    "ü".encode(),
    b" ",
    b"-",
    b"x" * 255,
    b"a'b\"c",
]


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "own"
    path.mkdir()
    return path


def _fill(folder: Path) -> None:
    (folder / "plain").write_bytes(os.urandom(3000))
    (folder / "empty").touch()
    (folder / "sub" / "deep").mkdir(parents=True)
    (folder / "nothing here").mkdir()
    (folder / "script").write_text("#!/bin/sh\n")
    (folder / "script").chmod(0o751)
    (folder / "read only").write_text("x")
    (folder / "read only").chmod(0o400)
    os.link(folder / "plain", folder / "sub" / "other name")
    (folder / "link").symlink_to("sub/other name")
    (folder / "sub" / "up").symlink_to("../plain")
    (folder / "dangling").symlink_to("not there")
    for name in ODD_NAMES:
        Path(os.fsdecode(os.fsencode(folder) + b"/" + name)).write_bytes(name)
        os.symlink(name, os.fsencode(folder) + b"/sub/" + name)  # noqa: PTH211 - bytes
    with (folder / "holes").open("wb") as file:
        for at in (0, 1 << 20, 5 << 20):
            file.seek(at)
            file.write(b"data" * 1024)
        file.truncate(9 << 20)
    with (folder / "one hole").open("wb") as file:
        file.truncate(1 << 30)
    for number, path in enumerate(sorted(folder.rglob("*"))):
        os.utime(path, ns=(0, 10**18 + number * 1_000_000_007), follow_symlinks=False)
    (folder / "sub" / "deep").chmod(0o500)


def _facts(folder: Path) -> dict[bytes, object]:
    collected = {}
    for name, path in state_directory._walk(folder):
        facts = os.lstat(path)
        content = str(Path(path).readlink()) if stat.S_ISLNK(facts.st_mode) else ""
        if stat.S_ISREG(facts.st_mode) and facts.st_size < 1 << 24:
            content = Path(path).read_bytes()
        inode = facts.st_ino if facts.st_nlink > 1 and stat.S_ISREG(facts.st_mode) else 0
        size = facts.st_size if stat.S_ISREG(facts.st_mode) else 0
        collected[os.fsencode(name)] = (
            facts.st_mode,
            facts.st_mtime_ns,
            size,
            bool(inode),
            content,
        )
    return collected


def test_all_entries_are_restored(folder):
    _fill(folder)
    before = _facts(folder)
    archive = pack_directory(folder)
    unpack_directory(archive, folder)

    assert _facts(folder) == before
    assert (folder / "plain").samefile(folder / "sub" / "other name")
    assert (folder / "one hole").stat().st_blocks == 0
    assert (folder / "holes").stat().st_blocks * 512 < 1 << 20
    assert np.array_equal(pack_directory(folder), archive)


def test_a_copy_in_memory_gives_the_same(folder):
    _fill(folder)
    before = _facts(folder)
    unpack_directory(np.array(pack_directory(folder)), folder)

    assert _facts(folder) == before


@pytest.mark.parametrize("reader", ["python", "tar"])
def test_other_programs_read_the_archive(reader, folder, tmp_path):
    _fill(folder)
    before = _facts(folder)
    stored = tmp_path / "stored.tar"
    np.asarray(pack_directory(folder)).tofile(stored)
    out = tmp_path / "out"
    out.mkdir()
    if reader == "tar":
        subprocess.run(["tar", "-xpf", stored, "-C", out], check=True)
        assert _facts(out) == before
    else:
        with tarfile.open(stored) as archive:
            assert len(archive.getnames()) == len(before)
            data = archive.extractfile("holes").read()
        assert data == (folder / "holes").read_bytes()


def test_equal_content_is_equal_whenever_it_was_written(folder):
    _fill(folder)
    first = pack_directory(folder)
    os.utime(folder / "plain", ns=(5, 7))
    second = pack_directory(folder)

    assert first.shape == second.shape
    assert not np.array_equal(first, second)
    assert find_difference(first, second) is None
    assert np.array_equal(without_times(first), without_times(second))
    (folder / "plain").write_bytes(os.urandom(3000))
    assert find_difference(first, pack_directory(folder)) is not None


def test_the_content_of_an_archive_is_listed_without_holes(folder):
    _fill(folder)
    files = packed_files(pack_directory(folder))

    assert files["plain"].tobytes() == (folder / "plain").read_bytes()
    assert files["holes"].size < 1 << 20
    assert files["one hole"].size == 0
    assert str(1 << 30) in files["one hole (holes)"]
    assert (files["link"], files["sub"]) == ("sub/other name", "folder")


def test_an_empty_or_missing_directory_is_no_bytes(folder):
    assert pack_directory(folder).size == pack_directory(folder / "none").size == 0
    (folder / "x").touch()
    restore_directory(np.empty(0, np.uint8), folder)

    assert list(folder.iterdir()) == []


def test_an_archive_of_an_older_version_is_restored(folder):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        entry = tarfile.TarInfo("a")
        entry.size, entry.mode = 3, 0o755
        archive.addfile(entry, io.BytesIO(b"old"))
        entry = tarfile.TarInfo("d")
        entry.type, entry.mode = tarfile.DIRTYPE, 0o755
        archive.addfile(entry)
    content = np.frombuffer(data.getbuffer(), np.uint8)
    restore_directory(content, folder)

    assert not is_archive(content)
    assert (folder / "a").read_bytes() == b"old"
    assert os.access(folder / "a", os.X_OK)
    assert (folder / "d").is_dir()


def test_a_directory_in_which_nothing_changed_is_not_read_again(folder, monkeypatch):
    (folder / "large").write_bytes(bytes(3 << 20))
    first = pack_directory(folder)
    monkeypatch.setattr(state_directory, "_write_entry", None)
    monkeypatch.setattr(state_directory, "unpack_directory", None)

    assert pack_directory(folder, first) is first
    restore_directory(first, folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(b"\1" * path.stat().st_size),
        lambda path: path.chmod(0o600),
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: path.unlink(),
        lambda path: path.with_name("more").touch(),
        lambda path: os.link(path, path.with_name("more")),
        lambda path: shutil.copy2(path, path.with_name("n")).replace(path),
    ],
)
@pytest.mark.parametrize("size", [10, 3 << 20])
def test_each_change_is_seen_however_soon_it_comes(change, size, folder):
    (folder / "file").write_bytes(bytes(size))
    (folder / "file").chmod(0o640)
    first = pack_directory(folder)
    before = _facts(folder)
    facts = (folder / "file").stat()
    change(folder / "file")
    if (folder / "file").exists() and (folder / "file").stat().st_mtime_ns != 1:
        os.utime(folder / "file", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    restore_directory(first, folder)

    assert _facts(folder) == before


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path.name)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (_pipe, "'bad' is a named pipe (FIFO)"),
        (_socket, "'bad' is a socket"),
        (lambda path: path.symlink_to("/etc/passwd"), "the link 'bad' leads out of the directory"),
        (lambda path: path.symlink_to("../../x"), "the link 'bad' leads out of the directory"),
    ],
)
def test_an_entry_that_cannot_be_stored_is_refused_by_name(make, words, folder, monkeypatch):
    monkeypatch.chdir(folder)
    make(folder / "bad")
    with pytest.raises(TaskFailedError, match="E214") as caught:
        pack_directory(folder)

    assert words in str(caught.value)


def test_a_name_in_a_message_holds_no_control_characters(folder):
    os.mkfifo(os.fsencode(folder) + b"/\x1b[31m\xff")
    with pytest.raises(TaskFailedError) as caught:
        pack_directory(folder)

    assert "'\\x1b[31m\\\\xff' is a named pipe" in caught.value.faults[0].message


def test_an_unreadable_file_is_refused_by_name(folder, monkeypatch):
    (folder / "secret").touch()
    real = os.open

    def refuse(path, *remaining, **more):
        if str(path).endswith("secret"):
            raise PermissionError(13, "Permission denied", path)
        return real(path, *remaining, **more)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(TaskFailedError, match="'secret' in the 'state_dir' cannot be read"):
        pack_directory(folder)


@pytest.mark.parametrize("change", ["grows", "shrinks", "vanishes", "is written to"])
def test_a_file_that_changes_while_it_is_stored_is_refused_by_name(change, folder, monkeypatch):
    path = folder / "busy"
    path.write_bytes(bytes(4 << 20))
    acts = {
        "grows": lambda: os.truncate(path, 5 << 20),
        "shrinks": lambda: os.truncate(path, 5),
        "vanishes": path.unlink,
        "is written to": lambda: path.write_bytes(b"\1" * (4 << 20)),
    }
    real = state_directory._write_entry

    def write(file, entry):
        acts[change]()
        real(file, entry)

    monkeypatch.setattr(state_directory, "_write_entry", write)
    with pytest.raises(TaskFailedError, match="E214") as caught:
        pack_directory(folder)

    assert "'busy' in the 'state_dir'" in str(caught.value)


def test_too_much_is_refused_with_the_largest_file(folder):
    (folder / "small").write_bytes(bytes(1000))
    (folder / "big").write_bytes(bytes(1 << 20))
    with (folder / "sparse").open("wb") as file:
        file.truncate(8 << 30)
    with pytest.raises(TaskFailedError, match="E416") as caught:
        pack_directory(folder, most_bytes=1 << 20)

    assert "the largest file is 'big' with 1.0 MiB" in str(caught.value)
    assert pack_directory(folder, most_bytes=2 << 20).size > 1 << 20


@pytest.mark.parametrize("act", ["store", "restore"])
def test_a_full_disk_is_an_error_of_the_machine(act, folder, monkeypatch):
    (folder / "file").write_bytes(bytes(1 << 20))
    archive = pack_directory(folder)
    (folder / "file").write_bytes(b"other")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "copy_file_range", full)
    with pytest.raises(EnvironmentFaultError, match="E354"):
        pack_directory(folder) if act == "store" else restore_directory(archive, folder)
    assert not folder.with_name("own.new").exists()
    monkeypatch.undo()
    restore_directory(archive, folder)
    assert (folder / "file").read_bytes() == bytes(1 << 20)


def _archive(*entries):
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as archive:
        for name, kind, target in entries:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, target
            archive.addfile(entry)
    return np.frombuffer(whole.getvalue(), np.uint8)


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
def test_bytes_of_another_program_write_nothing_outside(entries, tmp_path):
    (tmp_path / "in").mkdir()

    with pytest.raises(TaskFailedError):
        unpack_directory(_archive(*entries), tmp_path / "in" / "one")

    assert [path.name for path in tmp_path.iterdir()] == ["in"]
    assert {path.name for path in (tmp_path / "in").iterdir()} == set()


def test_bytes_that_are_no_archive_are_refused(tmp_path):
    with pytest.raises(TaskFailedError, match="the stored directory cannot be read"):
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
    folder_path = tmp_path_factory.mktemp("any")
    _write(tree, folder_path / "one")

    unpack_directory(pack_directory(folder_path / "one"), folder_path / "other")

    assert _facts(folder_path / "other") == _facts(folder_path / "one")


def test_a_file_of_more_than_8_gib_of_data_in_several_pieces_has_a_right_header():
    facts = SimpleNamespace(st_mode=0o100644, st_mtime_ns=5, st_size=30 << 30)
    segments = ((1 << 20, 9 << 30), (20 << 30, 1 << 30))
    entry = state_directory._Entry("n", "n", facts, segments)
    header = tarfile.TarInfo("GNUSparseFile.0/file")
    text = state_directory._sparse_map(entry)
    header.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0",
                          "GNU.sparse.name": "n", "GNU.sparse.realsize": str(30 << 30)}  # fmt: skip
    header.size = len(text) + entry.data_bytes
    data = state_directory._render_header(header) + text + bytes(1024)
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        actual = archive.next()
        assert (actual.name, actual.size) == ("n", 30 << 30)
        assert [column for column in actual.sparse if column[1]] == list(segments)
        assert archive.offset == len(data) - 1024 + (10 << 30)


MEASURED = """
import os, resource, sys
from pathlib import Path
import numpy as np
from jobrun.runtime.steps.state_directory import pack_directory, unpack_directory
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.read.load_into_objects import InPlace
folder = Path(sys.argv[1])
NodeWriter("n").write(str(folder.parent / "w.h5"), epoch=1, run_id="r", values={"x": np.zeros(9)})
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
array = pack_directory(folder)
name = "state_dirs/own"
writer = NodeWriter("n")
stored = writer.write(str(folder.parent / "n.h5"), epoch=1, run_id="r", values={name: array})
writer.close()
values = read_state(str(folder.parent / "n.h5"), node="n", epoch=1, run_id="r",
                    digest=stored.digest, names=(name,), in_place=InPlace({}, str(folder.parent)))
unpack_directory(values[name], folder)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, array.size)
"""


@pytest.mark.parametrize("size", [pytest.param(500 << 20, marks=pytest.mark.long), 150 << 20])
def test_memory_is_constant_however_large_the_files_are(size, folder):
    with (folder / "real").open("wb") as file:
        for _ in range(size >> 20):
            file.write(os.urandom(1 << 20))
    with (folder / "sparse").open("wb") as file:
        for at in (5, 3 << 30, (8 << 30) - 9):
            file.seek(at)
            file.write(b"data")
    before = _facts(folder)
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(folder)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    more_kib, stored = map(int, done.stdout.split())
    assert _facts(folder) == before
    assert size < stored < size + (1 << 20)
    # The writer's own buffers are 64 MiB at most.
    assert more_kib < 100 << 10
    assert (folder / "sparse").stat().st_blocks * 512 < 1 << 20


def test_the_array_is_in_a_file(folder):
    (folder / "x").write_bytes(bytes(5000))

    assert find_file_memory(pack_directory(folder)[7:]) is not None
    assert find_file_memory(np.zeros(3)) is None
