from __future__ import annotations

import os
import time

import pytest

from jobrun.core.files import json_files
from jobrun.core.files.json_files import (
    JournalFile,
    LineFile,
    find_last_line,
    read_lines,
    read_tail,
)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("/dev/null")])
def test_what_is_no_regular_file_is_refused_at_once(tmp_path, make):
    make(tmp_path / "f")

    for read in (lambda path: next(read_lines(path)), lambda path: read_tail(path, 9)):
        with pytest.raises(OSError, match="no regular file"):
            read(tmp_path / "f")


def test_a_hole_of_a_terabyte_is_not_read(tmp_path):
    with (tmp_path / "f").open("wb") as file:
        file.truncate(1 << 40)

    assert list(read_lines(tmp_path / "f")) == []
    assert find_last_line(tmp_path / "f", b"mark") == b""


def test_the_last_line_with_a_mark_is_found_across_the_steps_of_the_search(tmp_path, monkeypatch):
    monkeypatch.setattr("jobrun.core.files.json_files._STEP_BYTES", 7)
    (tmp_path / "f").write_text("a mark 1\nanother\nthe mark 2\nlast\n")

    assert find_last_line(tmp_path / "f", b"mark") == b"the mark 2"
    assert find_last_line(tmp_path / "f", b"nothing") == b""


def test_the_tail_has_the_last_lines(tmp_path):
    (tmp_path / "f").write_text("one\ntwo\nthree\n")

    assert read_tail(tmp_path / "f", 10) == [b"two", b"three"]
    assert read_tail(tmp_path / "f", 1000) == [b"one", b"two", b"three"]


def _full(descriptor, data):
    os.write(descriptor, data[:3])
    raise OSError(28, "No space left on device")


def test_a_torn_line_is_ended_before_the_next_one(tmp_path, monkeypatch):
    file = LineFile(tmp_path / "logs" / "a.jsonl")
    file.append(b"one\n")
    with monkeypatch.context() as patch:
        patch.setattr(json_files, "write_all", _full)
        with pytest.raises(OSError, match="No space"):
            file.append(b"two, torn\n")
    file.append(b"three\n")
    file.close()
    file.append(b"four\n")
    file.close()

    assert file.path.read_bytes() == b"one\ntwo\nthree\nfour\n"


def test_a_line_that_another_process_left_torn_is_ended(tmp_path):
    (tmp_path / "f").write_bytes(b"one\ntw")
    file = LineFile(tmp_path / "f")

    file.append(b"three\n")
    file.close()

    assert (tmp_path / "f").read_bytes() == b"one\ntw\nthree\n"


@pytest.mark.parametrize("kind", [LineFile, lambda path: JournalFile(path, 4)])
def test_a_snapshot_of_hard_links_gets_no_later_lines(tmp_path, kind):
    (tmp_path / "f").write_bytes(b"one\n")
    file = kind(tmp_path / "f")
    (tmp_path / "snapshot").hardlink_to(tmp_path / "f")

    file.append(b"two\n")
    file.append(b"three\n")
    file.close()

    assert (tmp_path / "f").read_bytes() == b"one\ntwo\nthree\n"
    assert (tmp_path / "snapshot").read_bytes() == b"one\n"


def test_an_open_file_is_looked_at_for_a_snapshot_once_a_millisecond(tmp_path, monkeypatch):
    clock_s = 10.0
    monkeypatch.setattr(time, "monotonic", lambda: clock_s)
    file = LineFile(tmp_path / "f")
    file.append(b"one\n")
    file.append(b"two\n")
    looked = []
    look = json_files.unshare
    monkeypatch.setattr(json_files, "unshare", lambda *a: (looked.append(a), look(*a))[1])
    for _ in range(100):
        file.append(b"within the millisecond\n")
    assert not looked
    (tmp_path / "snapshot").hardlink_to(tmp_path / "f")
    whole = (tmp_path / "f").read_bytes()

    clock_s += 0.001
    file.append(b"later\n")
    file.close()

    assert (tmp_path / "f").read_bytes() == whole + b"later\n"
    assert (tmp_path / "snapshot").read_bytes() == whole


def test_a_journal_is_cut_behind_its_last_whole_line_and_synced(tmp_path, monkeypatch):
    synced = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda number: (synced.append(number), fsync(number))[1])
    (tmp_path / "f").write_bytes(b"one\ntw")

    file = JournalFile(tmp_path / "f", 4)
    assert len(synced) == 2
    file.append(b"two\n")
    assert len(synced) == 3
    file.close()
    file.close()

    assert (tmp_path / "f").read_bytes() == b"one\ntwo\n"
