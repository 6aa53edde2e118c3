"""Which data files a resumed run reads again, and by what they are recognised."""

from __future__ import annotations

import os

import numpy as np
import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.runner.identity import data_fingerprints as fingerprints
from jobrun.runner.identity.data_fingerprints import fingerprint_data, keep_of_init
from jobrun.runner.identity.drift import compare_data
from jobrun.spec.load import load_spec

SPEC = """\
jobrun: 1
name: reads
init:
  - {task: once, steps: [{load: {A: "a.npy"}}, w = sum(A)]}
epoch:
  - task: again
    steps: [{load: {B: "b.npy"}}, w = w + sum(B)%s]
stop: [{epochs: 2}]
"""


@pytest.fixture
def folder(tmp_path):
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.arange(5.0))
    return tmp_path


def take_fingerprints(folder, more="", known=None):
    (folder / "s.yaml").write_text(SPEC % more)
    return fingerprint_data(compile_job(load_spec(str(folder / "s.yaml"))).job, folder, known)


def test_files_read_by_init_and_epochs_are_recorded_with_the_reader(folder):
    assert {name: facts.get("read_by") for name, facts in take_fingerprints(folder).items()} == {
        "a.npy": "init",
        "b.npy": None,
    }


def test_data_read_only_by_init_do_not_matter_for_further_epochs(folder):
    before = take_fingerprints(folder)
    np.save(folder / "a.npy", np.arange(5.0) + 1)

    assert compare_data(before, take_fingerprints(folder)) == ()
    (change,) = compare_data(before, take_fingerprints(folder), whole=True)
    assert change.field == "data.a.npy"
    assert keep_of_init(before, take_fingerprints(folder)) == before


def test_a_touched_file_is_the_same_and_another_is_drift(folder):
    before = take_fingerprints(folder)
    os.utime(folder / "b.npy", (1, 1))
    assert compare_data(before, take_fingerprints(folder, known=before)) == ()

    np.save(folder / "b.npy", np.arange(5.0) + 1)
    (change,) = compare_data(before, take_fingerprints(folder, known=before))

    assert (change.field, change.kind) == ("data.b.npy", "semantic")


def test_an_unchanged_file_is_not_read_again(folder, monkeypatch):
    before = take_fingerprints(folder)
    monkeypatch.setattr(fingerprints, "_digest", None)

    assert take_fingerprints(folder, known=before) == before


def test_fingerprint_of_a_large_file_covers_both_ends(folder, monkeypatch):
    monkeypatch.setattr(fingerprints, "_WHOLE_BYTES", 100)
    monkeypatch.setattr(fingerprints, "_END_BYTES", 40)
    before = take_fingerprints(folder)
    assert before["b.npy"]["digest"].startswith("ends-sha256:")
    data = bytearray((folder / "b.npy").read_bytes())
    data[-1] ^= 1
    (folder / "b.npy").write_bytes(data)

    assert len(compare_data(before, take_fingerprints(folder))) == 1


def test_files_written_by_the_job_have_no_fingerprint(folder):
    assert list(take_fingerprints(folder, ', {save: {B: "b.npy"}}')) == ["a.npy"]


def test_jobs_with_programs_have_no_fingerprints(folder):
    assert take_fingerprints(folder, ", {run: [touch, x]}") == {}


def test_a_file_that_is_gone_is_no_drift_of_data(folder):
    before = take_fingerprints(folder)
    (folder / "b.npy").unlink()

    assert compare_data(before, take_fingerprints(folder)) == ()
    (change,) = compare_data(before, take_fingerprints(folder), whole=True)
    assert (change.field, change.after) == ("data.b.npy", "")
