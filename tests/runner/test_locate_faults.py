"""Faults of blobs that are found between groups get the place of the step that makes the blob."""

from __future__ import annotations

import pytest

from jobrun import api
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.runner.locate_faults import locate_faults

SPEC = """\
jobrun: 1
name: placing
init:
  - task: make
    steps:
      - k = 1
      - r = 2
epoch: [{task: go, steps: [k = k + r]}]
stop: [{epochs: 1}]
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(SPEC)
    return api.prepare("job.yaml").job


def test_fault_of_two_blobs_has_the_place_of_the_first_and_names_that_of_the_other(job):
    error = TaskFailedError.of("E256", "'k'.rng is the object 'r'", "give each its own")
    error.add_note("a note")

    placed = locate_faults(error, job)

    assert type(placed) is TaskFailedError
    assert placed.__notes__ == ["a note"]
    (fault,) = placed.faults
    assert (fault.path, str(fault.where)) == ("init/make/steps[0]", "job.yaml:6:9")
    assert fault.message == "'k'.rng is the object 'r'; 'r' is made at job.yaml:7:9"
    assert fault.mend == "give each its own"


def test_fault_of_a_part_of_a_container_has_the_place_of_the_container(job):
    placed = locate_faults(TaskFailedError.of("E202", "'r/0' is of a kind"), job)

    assert str(placed.faults[0].where) == "job.yaml:7:9"


@pytest.mark.parametrize(
    "error",
    [
        TaskFailedError.of("E256", "'nothing' is the object 'other'"),
        EnvironmentFaultError.of("E222", "the system refuses 'k'"),
    ],
)
def test_fault_of_an_unknown_blob_is_unchanged(job, error):
    assert locate_faults(error, job).faults == error.faults
