"""A spec whose blobs are not those of the checkpoint is refused before anything is loaded."""

from __future__ import annotations

import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import CheckpointError
from jobrun.runner.checkpoint_types import require_stored_types
from jobrun.runner.start_or_resume import start_run
from jobrun.spec.load import load_spec
from tests.support.command import jobrun
from tests.support.resumable_job import WalkJob
from tests.support.stored_runs import blobs, epochs, only_run

SPEC = """\
jobrun: 1
name: typed
params: {n: 4}
init:
  - task: start
    steps:
      - w = zeros((n, 3))
      - grown = zeros(0)
      - k = 0
epoch:
  - task: step
    steps:
      - w += 1
      - grown = concatenate([grown, ones(2)])
      - k = k + 1
checkpoint: {every: 1ep}
stop: [{epochs: 3}]
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "typed.yaml").write_text(SPEC)
    done = jobrun("run", "typed.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    return tmp_path


def _check(walk, old="", new=""):
    """Compare the checkpoint of a run with a changed spec."""
    walk.spec.write_text(walk.spec.read_text().replace(old, new))
    job = compile_job(load_spec(str(walk.spec))).job
    require_stored_types(job, walk.folder, walk.store, 4)


@pytest.fixture
def walk(tmp_path):
    walk = WalkJob(tmp_path)
    start_run(*walk.load(), walk.options(), walk.events.append)
    return walk


def test_the_spec_that_it_was_saved_with_is_right(walk):
    _check(walk)


def test_type_difference_names_the_position_in_the_spec(walk):
    walk.spec.write_text(walk.spec.read_text().replace("12", "13"))

    with pytest.raises(CheckpointError) as caught:
        _check(walk, "w = X * 0", "w = zeros(13)")

    (fault,) = caught.value.faults
    assert (fault.code, caught.value.exit_code) == ("E325", 4)
    assert fault.message.startswith(
        "blob 'w' of node 'a' is float64 12 in the checkpoint of epoch 4, and float64 13 in the"
    )
    assert "w = zeros(13)" in walk.line(fault)
    assert fault.mend


@pytest.mark.parametrize(
    ("new", "words"),
    [
        ("w = ones((3, 4))", "float64 3 x 4"),
        ("w = zeros(12, dtype=float32)", "float32 12"),
    ],
)
def test_another_dtype_or_number_of_axes_is_refused(walk, new, words):
    walk.spec.write_text(walk.spec.read_text().replace("size=12) * X", "size=12)"))
    if "ones" in new:
        walk.spec.write_text(walk.spec.read_text().replace("size=12)", "size=(3, 4))"))
    if "float32" in new:
        walk.spec.write_text(walk.spec.read_text().replace("w += rng", "w *= 2 # rng"))

    with pytest.raises(CheckpointError, match=words):
        _check(walk, "w = X * 0", new)


def test_a_number_in_the_place_of_another_kind_is_left_to_the_run(walk):
    # A Python number and a numpy one of the same dtype: nothing is known to be wrong.
    _check(walk, '"k = 0"', '"k = int64(0)"')


def test_fork_with_another_shape_is_refused_and_the_parent_unchanged(folder):
    parent = only_run(folder / "runs")
    before = blobs(epochs(parent)[3])

    done = jobrun("fork", "typed", "--set", "params.n=5", cwd=folder)

    assert done.returncode == 4, done.stderr
    assert "error[E325]" in done.stderr
    assert "float64 4 x 3 in the checkpoint of epoch 3, and float64 5 x 3" in done.stderr
    assert blobs(epochs(parent)[3]) == before


def test_shape_that_grows_each_epoch_is_no_difference(folder):
    done = jobrun("fork", "typed@2", "--set", "params.n=4", cwd=folder)

    assert done.returncode == 0, done.stderr


def test_an_accepted_change_that_moves_a_shape_is_refused_by_name(folder):
    only_run(folder / "runs")
    accept = ("--accept-drift", "params.n")

    done = jobrun("resume", "typed", "--set", "params.n=5", "--epochs", "4", *accept, cwd=folder)

    assert (done.returncode, "error[E325]" in done.stderr) == (4, True), done.stderr
