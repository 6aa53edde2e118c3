"""Tests of ``runner.datalock``."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import DriftError, EnvironmentFaultError
from jobrun.runner.identity.data_lock import (
    Pin,
    find_data_files,
    lock_path,
    pin_data,
    read_lock,
    require_locked,
    write_lock,
)
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import newest_run
from jobrun.runner.start_or_resume import resume_run, start_run
from jobrun.spec.load import load_spec

SPEC = """\
jobrun: 1
name: reads
readers: {r: {npy: data/r.npy, fields: [x], batch: 5}}
init:
  - {task: once, steps: [{load: {A: "data/a.npy"}}, w = sum(A)]}
epoch:
  - {task: again, read: r, steps: [w = w + sum(x), {save: {w: out.npy}}, {load: {v: out.npy}}]}
stop: [{epochs: 2}]
"""


class _Place:
    def __init__(self, folder):
        self.folder = folder
        (folder / "data").mkdir()
        for name in "ar":
            self.save(name, np.arange(10.0))
        self.spec = folder / "reads.yaml"
        self.spec.write_text(SPEC)
        self.lock = folder / "reads.lock.json"

    def save(self, name, array):
        np.save(self.folder / "data" / f"{name}.npy", array)

    def load(self):
        loaded = load_spec(str(self.spec))
        return loaded, compile_job(loaded).job

    def pin(self):
        write_lock(self.lock, pin_data(self.load()[1], self.folder))

    def start(self, **keys):
        options = RunOptions(run_dir=self.folder / "runs", **keys)
        return start_run(*self.load(), options, lambda event: None)


@pytest.fixture
def reads_job(tmp_path):
    return _Place(tmp_path)


def test_pinned_files_are_read_and_not_written(reads_job):
    job = reads_job.load()[1]

    assert list(find_data_files(job, reads_job.folder)) == ["data/a.npy", "data/r.npy"]


def test_a_pin_is_size_and_digest_of_all_bytes(reads_job):
    bytes_ = (reads_job.folder / "data/a.npy").read_bytes()

    assert pin_data(reads_job.load()[1], reads_job.folder)["data/a.npy"] == Pin(
        len(bytes_), hashlib.sha256(bytes_).hexdigest()
    )


def test_lock_file_round_trips(reads_job):
    reads_job.pin()

    assert lock_path(reads_job.load()[0]) == reads_job.lock
    assert read_lock(reads_job.lock) == pin_data(reads_job.load()[1], reads_job.folder)


def test_without_a_lock_nothing_is_pinned(reads_job):
    assert read_lock(reads_job.lock) is None
    assert require_locked(*reads_job.load()) == ()


def test_run_accepts_the_pinned_data(reads_job):
    reads_job.pin()

    assert reads_job.start().exit_code == 0


@pytest.mark.parametrize(
    ("name", "line", "array"),
    [("a", 5, np.arange(10.0) + 1), ("r", 3, np.arange(10.0) + 1), ("r", 3, np.arange(11.0))],
)
def test_other_data_are_refused_with_the_place_that_reads_them(reads_job, name, line, array):
    reads_job.pin()
    reads_job.save(name, array)
    with pytest.raises(DriftError) as caught:
        reads_job.start()
    (fault,) = caught.value.faults

    assert (fault.code, fault.where.line) == ("E265", line)
    assert f"data/{name}.npy is not the one that reads.lock.json pins" in fault.message
    assert "jobrun lock reads.yaml" in fault.mend
    assert not (reads_job.folder / "runs").exists()


def test_resume_checks_the_pins_too(reads_job):
    reads_job.pin()
    reads_job.start(max_epochs=1)
    reads_job.save("a", np.arange(10.0) + 1)
    run = newest_run(reads_job.folder / "runs", "reads")
    with pytest.raises(DriftError) as caught:
        resume_run(run, RunOptions(run_dir=reads_job.folder / "runs"), loaded=reads_job.load()[0])

    assert caught.value.faults[0].code == "E265"


def test_a_file_that_is_not_pinned_is_a_warning(reads_job):
    write_lock(reads_job.lock, {})

    assert [(fault.code, fault.severity) for fault in require_locked(*reads_job.load())] == [
        ("W142", "warning"),
        ("W142", "warning"),
    ]


def test_a_missing_file_cannot_be_pinned(reads_job):
    (reads_job.folder / "data/r.npy").unlink()
    with pytest.raises(EnvironmentFaultError) as caught:
        reads_job.pin()
    (fault,) = caught.value.faults

    assert (fault.code, fault.where.line) == ("E372", 3)


@pytest.mark.parametrize("text", ["<<<< mine", "[]", '{"format": 9, "files": {}}', '{"format": 1}'])
def test_unreadable_lock_file_is_an_error(reads_job, text):
    reads_job.lock.write_text(text)
    with pytest.raises(EnvironmentFaultError) as caught:
        reads_job.start()

    assert caught.value.faults[0].code == "E266"
