from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from jobrun.tools import doctor
from jobrun.tools.doctor import examine


def findings(run_dir: Path) -> dict[str, doctor.Finding]:
    return {finding.topic: finding for finding in examine(run_dir)}


def test_a_good_directory_is_good_in_all_that_a_run_relies_on(tmp_path):
    facts = findings(tmp_path / "runs" / "deep")

    for topic in ("fsync", "rename", "lock", "links"):
        assert facts[topic].verdict in ("good", "note"), topic
    assert "ms" in facts["fsync"].text
    assert facts["file system"].text


def test_nothing_is_left_behind(tmp_path):
    examine(tmp_path / "runs")

    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_does_not_sync_is_bad(tmp_path, monkeypatch):
    def refuse(descriptor):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)

    assert findings(tmp_path)["fsync"].verdict == "bad"


def test_a_rename_that_replaces_is_bad(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor, "rename_noreplace", lambda source, target: None)

    assert findings(tmp_path)["rename"].verdict == "bad"


def test_a_directory_that_cannot_be_written_to_is_bad(tmp_path, monkeypatch):
    def refuse(**settings):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(doctor.tempfile, "TemporaryDirectory", refuse)

    facts = findings(tmp_path)

    assert facts["writing"].verdict == "bad"
    assert "Permission denied" in facts["writing"].text


@pytest.mark.parametrize(("free", "verdict"), [(10, "note"), (1 << 40, "good")])
def test_little_space_is_worth_a_note(tmp_path, monkeypatch, free, verdict):
    usage = type("usage", (), {"free": free, "total": 1 << 40})
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda path: usage)

    assert findings(tmp_path)["disk"].verdict == verdict


def test_a_clock_in_the_past_is_worth_a_note(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.time, "gmtime", lambda: type("t", (), {"tm_year": 1970}))

    assert findings(tmp_path)["clock"].verdict == "note"


def test_it_imports_nothing_from_the_working_directory(tmp_path, monkeypatch):
    (tmp_path / "jobrun.py").write_text("raise SystemExit(3)\n")
    monkeypatch.chdir(tmp_path)

    assert findings(tmp_path / "runs")["lock"].verdict == "good"
