"""Cases about what is saved, where, and what a resume goes on with."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import CheckpointError
from jobrun.runner.partial_load import load_blobs_from_checkpoints
from tests.support.compiling import codes_of
from tests.support.conformance import Trial

# Ten numbers, at most three in an epoch, each added to a total. The position is a blob of
# the state, until readers are carried out.
_READING = """
nodes: {NODE: {COUNT}}
init:
  - {task: data, rebuild: true, steps: [numbers = arange(10)]}
  - {task: start, steps: ["total = array([100])", position = 0, finished = False]}
epoch:
  - task: add
    steps:
      - batch = numbers[position:position + 3]
      - position = position + len(batch)
      - total += sum(batch)
      - finished = len(batch) < 3
stop: [{when: finished}]
"""
_TOTALS = {0: 100, 1: 103, 2: 115, 3: 136, 4: 145}


def _reading(node: str, count: str = "") -> str:
    return _READING.replace("NODE", node).replace("COUNT", count)


def _check_first_run(job: Trial, node: str) -> None:
    result = job.start()

    assert (result.exit_code, result.epoch) == (0, 4)
    for epoch, total in _TOTALS.items():
        assert np.array_equal(job.state(epoch)[f"{node}.total"], [total])
    assert job.store.epochs() == (0, 1, 2, 3, 4)
    files = {path.name for path in job.run.path.glob("checkpoints/*/*.h5")}
    assert files == {f"{node}.h5"}


def _check_resume(job: Trial, node: str, epoch: int) -> None:
    """From that epoch to the end of the job, which is not gone past."""
    job.forget()

    result = job.resume(epoch)

    assert (result.exit_code, result.epoch) == (0, 4)
    assert job.epochs_run() == 4 - epoch
    assert np.array_equal(job.state(4)[f"{node}.total"], [145])
    assert job.store.epochs() == (0, 1, 2, 3, 4)


def test_case_063_checkpoint_resume_every_epoch(trial):
    """By rule 17: the same totals from every epoch; from the last one, no further epoch."""
    job = trial(_reading("temp_node"))
    _check_first_run(job, "temp_node")

    for epoch in _TOTALS:
        _check_resume(job, "temp_node", epoch)


@pytest.mark.long
def test_case_064_checkpoint_resume_multinode_manager(trial):
    """By rule 17: the same, on a node of a counted name."""
    job = trial(_reading("trainer", "count: 1"))
    _check_first_run(job, "trainer_0")

    for epoch in _TOTALS:
        _check_resume(job, "trainer_0", epoch)


@pytest.mark.long
def test_case_065_reuse_manager_and_session(trial):
    """By rule 17: the same run is resumed again and again, from epochs in any order."""
    job = trial(_reading("trainer", "count: 1"))
    _check_first_run(job, "trainer_0")

    for epoch in (3, 1, 4, 0, 2):
        _check_resume(job, "trainer_0", epoch)


def test_case_066_what_is_checkpointed(trial):
    """By rule 6: what init made, in every epoch; scratch and outputs are never part of it."""
    job = trial("""
        nodes: {n0: {}}
        init: [{task: start, steps: [w = 1]}]
        epoch: [{task: t, steps: [w += 1, p = 5, q = 6], outputs: [q]}]
        stop: [{epochs: 2}]
    """)

    result = job.start()

    assert result.epoch == 2
    assert [job.state(epoch) for epoch in (0, 1, 2)] == [{"n0.w": 1}, {"n0.w": 2}, {"n0.w": 3}]


def test_case_067_global_blob_count_known(trial):
    """By rule 22: nothing but the state is stored, as many blobs in the first run as in later ones.

    Nothing is added by saving or by what ran before in the process.
    """
    stored = []
    for number in range(3):
        job = trial(_reading(f"trainer_{number}"))
        assert job.start().epoch == 4
        stored.append([sorted(job.state(epoch)) for epoch in range(5)])

    assert stored == [
        [[f"trainer_{number}.{blob}" for blob in ("finished", "position", "total")]] * 5
        for number in range(3)
    ]


@pytest.mark.parametrize("where", ["", "elsewhere", "elsewhere/"])
def test_case_069_checkpoint_file_names(trial, where):
    """By rule 21: one rule names all files, for writing as for reading, with a slash or without."""
    policy = f"checkpoint: {{dir: {where}}}\n" if where else ""
    job = trial(_reading("trainer.0") + policy)
    job.start()

    assert job.resume(2).epoch == 4

    run = f"job/{job.run.path.name}"
    folder = f"elsewhere/{run}" if where else f"runs/{run}/checkpoints"
    files = [path.relative_to(job.folder).as_posix() for path in job.folder.rglob("epoch-*/*.h5")]
    assert sorted(name for name in files if "superseded" not in name) == [
        f"{folder}/epoch-{epoch:06d}/trainer.0.h5" for epoch in range(5)
    ]


def test_case_069_checkpoint_file_names_are_those_of_nodes(tmp_path):
    """By design: a node's name is part of a file's name, so it is one that every disk takes."""
    assert codes_of(tmp_path, 'nodes: {"trainer:0": {}}\n') == ["E026"]


_TWO_NODES = """
nodes: {n0: {}, n1: {}}
init:
  - {task: first, node: n0, steps: [w0 = 10]}
  - {task: second, node: n1, steps: [w1 = 20]}
epoch:
  - {task: more, node: n0, steps: [w0 += 1]}
  - {task: most, node: n1, steps: [w1 += 1]}
stop: [{epochs: 1}]
"""


def test_case_083_multinode_files_in_local_session(trial):
    """By rule 21: a node's file holds the blobs of that node only."""
    job = trial(_TWO_NODES)

    assert job.start().epoch == 1

    assert job.store.epochs() == (0, 1)
    assert job.state(0) == {"n0.w0": 10, "n1.w1": 20}
    assert job.state(1) == {"n0.w0": 11, "n1.w1": 21}


def test_case_109_random_state_not_checkpointed(trial):
    """By rule 20: a resumed run draws what the first one drew, bit for bit."""
    job = trial("""
        init: [{task: start, steps: ["w = zeros(3)", r = w]}]
        epoch: [{task: t, steps: [r = rng.random(3), w += r]}]
        stop: [{epochs: 3}]
    """)
    job.start()
    first = {name: value.tobytes() for name, value in job.state(3).items()}

    for _ in range(2):
        job.resume(1)
        assert {name: value.tobytes() for name, value in job.state(3).items()} == first


def test_case_116_partial_load_single_manager(trial, stage):
    """By rule 19: blobs are loaded by name, and the result lists the nodes that had each name."""
    job = trial(_reading("local"))
    job.start()
    other = stage(_reading("local"))
    other.run("init")

    loaded = load_blobs_from_checkpoints(other.session, job.run, 2, ["position", "nothing"])

    assert loaded == {"position": ("local",), "nothing": ()}
    assert other.value("position") == 6
    assert np.array_equal(other.value("total"), [100])


def test_case_116_partial_load_single_manager_of_an_epoch_that_is_not_there(trial, stage):
    """By rule 19: nothing is loaded unless all that is there can be."""
    job = trial(_reading("local"))
    job.start()
    other = stage(_reading("local"))
    other.run("init")

    with pytest.raises(CheckpointError):
        load_blobs_from_checkpoints(other.session, job.run, 9, ["position"])

    assert other.value("position") == 0
