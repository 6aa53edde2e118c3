from __future__ import annotations

import pytest

from jobrun.checkpoint.store_protocol import Manifest, StoredFile
from jobrun.checkpoint.task_groups import (
    file_name,
    load_group,
    partial_group,
    save_group,
    stored_files,
)
from jobrun.core.errors import CheckpointError
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.steps import AdoptState, LoadState, SaveState
from jobrun.graph.types import Cluster, Job, Node, TaskGroup

DIGEST = "sha256:" + "0" * 64
JOB = Job(
    name="job",
    cluster=Cluster((Node("a"), Node("b"), Node("c"))),
    init=TaskGroup("init"),
    epoch=TaskGroup("epoch"),
    download=TaskGroup("download"),
    exit=TaskGroup("exit"),
    state=(("a", ("w", "k")), ("b", ("file",)), ("c", ("z",))),
    constants=(("a", ("X",)),),
    checkpoint=CheckpointPolicy(nodes=("a", "b")),
)


def manifest(*nodes: str) -> Manifest:
    files = tuple(StoredFile(node, file_name(node), 1, DIGEST) for node in nodes)
    return Manifest(4, "parent-run", 0, files, DIGEST)


def test_each_checkpointed_node_begins_to_save_its_state():
    group = save_group(JOB, "run-1")

    assert [task.node for task in group.tasks] == ["a", "b"]
    (step,) = group.tasks[0].steps
    assert isinstance(step, SaveState)
    assert (step.file, step.names, step.run_id) == ("a.h5", ("k", "w"), "run-1")


def test_each_save_task_outputs_a_ticket():
    group = save_group(JOB, "run-1")

    assert [[output.name for output in task.outputs] for task in group.tasks] == [["ticket"]] * 2


def test_each_checkpointed_node_reads_its_state():
    group = load_group(JOB, manifest("b", "a"), "/run/epoch-000004")

    (step,) = group.tasks[0].steps
    assert isinstance(step, LoadState)
    assert (step.file, step.names) == ("/run/epoch-000004/a.h5", ("k", "w"))
    assert (step.epoch, step.run_id, step.digest) == (4, "parent-run", DIGEST)


def test_the_names_of_the_tasks_cannot_be_those_of_a_spec():
    groups = (save_group(JOB, "r"), load_group(JOB, manifest("a", "b"), "d"))

    assert all("/" in task.name for group in groups for task in group.tasks)


def test_a_node_without_state_has_a_file_too():
    job = Job(**{name: getattr(JOB, name) for name in JOB.__struct_fields__} | {"state": ()})

    assert [task.steps[0].names for task in save_group(job, "r").tasks] == [(), ()]


def test_an_epoch_without_a_nodes_file_is_refused():
    with pytest.raises(CheckpointError) as caught:
        load_group(JOB, manifest("a"), "/run/epoch-000004")

    assert "'b'" in caught.value.faults[0].message


def test_files_of_other_nodes_stay_unread():
    group = load_group(JOB, manifest("a", "b", "gone"), "/run/epoch-000004")

    assert [task.node for task in group.tasks] == ["a", "b"]


def test_load_task_outputs_facts_of_the_file():
    group = load_group(JOB, manifest("a", "b"), "d")

    assert [[output.name for output in task.outputs] for task in group.tasks] == [["file"]] * 2


def test_some_blobs_are_adopted_only_when_every_node_has_read():
    group = partial_group(manifest("a", "b"), "/run/e", {"a": ("w",), "b": ("file", "no")})

    reading, adopting = group.tasks[:2], group.tasks[2:]
    assert [task.node for task in (*reading, *adopting)] == ["a", "b", "a", "b"]
    assert all(task.steps[0].partial for task in reading)
    assert reading[1].steps[0].names == ("file", "no")
    assert {task.needs for task in adopting} == {(reading[0].name,)}
    assert adopting[1].steps == (AdoptState(("file", "no"), path="checkpoint/adopt"),)
    assert group.workspace == "private"


def test_facts_about_files_are_found_among_other_outputs():
    file = StoredFile("a", "a.h5", 1, DIGEST, 0.5)

    assert stored_files({"x": 3, "file": file, "names": ("w",)}) == (file,)
