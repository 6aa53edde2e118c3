"""Rows 55-60: a file from elsewhere is read by a process that may die of it."""

from __future__ import annotations

import hashlib
import shutil

import pytest

from jobrun.core.errors import CheckpointError
from jobrun.tools import inspect_sandbox as sandbox
from jobrun.tools.inspect_sandbox import inspect_guarded
from tests.support.resumable_job import Place


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("sandbox") / "a")
    place.start(max_epochs=1)
    return place.run.path / "checkpoints" / "epoch-000001" / "a.h5"


@pytest.fixture
def file(saved, tmp_path):
    return shutil.copy(saved, tmp_path / "from-elsewhere.h5")


@pytest.mark.long
def test_a_sound_file_is_read(file):
    facts = inspect_guarded(str(file))

    assert (facts.header.node, facts.header.epoch) == ("a", 1)
    assert [blob.name for blob in facts.blobs] == ["k", "loss", "w"]


@pytest.mark.long
def test_what_is_no_checkpoint_is_told_as_ever(tmp_path):
    (tmp_path / "x.h5").write_text("text")
    with pytest.raises(CheckpointError) as raised:
        inspect_guarded(str(tmp_path / "x.h5"))

    assert raised.value.faults[0].code == "E301"
    with pytest.raises(CheckpointError):
        inspect_guarded(str(tmp_path / "missing.h5"))


def dying(monkeypatch, line):
    """Let the child do something bad as soon as it has its limits."""
    place = "from jobrun.checkpoint.checkpoint_file"
    text = sandbox._CHILD.replace(place, f"{line}\n{place}")
    monkeypatch.setattr(sandbox, "_CHILD", text)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("import os; os._exit(0)", "no word"),
        ("x = bytearray(1 << 40)", "MemoryError"),
        ("import os; os.write(os.memfd_create('x'), b'x')", "SIGXFSZ|File too large"),
    ],
)
def test_row_60_the_readers_death_is_not_ours(file, monkeypatch, line, word):
    dying(monkeypatch, line)

    with pytest.raises(CheckpointError, match=word) as raised:
        inspect_guarded(str(file))

    assert raised.value.faults[0].code == "E384"


@pytest.mark.long
def test_row_60_a_reader_that_does_not_end_is_ended(file, monkeypatch):
    dying(monkeypatch, "while True: pass")

    with pytest.raises(CheckpointError, match=r"takes longer than 0\.5 s"):
        inspect_guarded(str(file), timeout_s=0.5)


def test_row_60_a_file_that_changes_in_between_is_refused(file, monkeypatch):
    other = hashlib.sha256(b"other").hexdigest()
    monkeypatch.setattr(sandbox, "_child", lambda path, timeout_s: {"digest": f"sha256:{other}"})

    with pytest.raises(CheckpointError, match="it changes while it is read"):
        inspect_guarded(str(file))
