"""Nodes that do not see the run's directory: refused at once, or their files are collected."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import EnvironmentFaultError
from jobrun.session import node_files
from tests.support import isolated_nodes
from tests.support.forked_commands import ROOT, run_module
from tests.support.session_runs import same
from tests.support.stored_runs import blobs, epochs

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """The run of nodes that see everything."""
    folder = tmp_path_factory.mktemp("shared")
    isolated_nodes.write_spec(folder, collected=False)
    assert isolated_nodes.start(folder, blind=False) == 0
    return isolated_nodes.run_of(folder)


@pytest.fixture
def folder(tmp_path):
    isolated_nodes.write_spec(tmp_path, collected=True)
    return tmp_path


def process(folder, crash="") -> subprocess.CompletedProcess:
    environment = {**os.environ, "JOBRUN_CRASHPOINT": crash}
    return run_module(
        "tests.support.isolated_nodes", [str(folder)], cwd=ROOT, environment=environment
    )


def leftover_files(folder):
    """What nodes have left on their machines."""
    return sorted(path.name for path in (folder / "own").iterdir())


def test_nodes_that_do_not_see_the_run_are_refused_before_init(tmp_path):
    isolated_nodes.write_spec(tmp_path, collected=False)

    with pytest.raises(EnvironmentFaultError) as caught:
        isolated_nodes.start(tmp_path)

    (fault,) = caught.value.faults
    assert fault.code == "E397"
    run = isolated_nodes.run_of(tmp_path)
    assert str(run / "checkpoints") in fault.message
    assert list((run / "checkpoints").iterdir()) == []
    assert not (run / "metrics.jsonl").exists() or not (run / "metrics.jsonl").read_text()


def test_collected_epochs_are_those_of_a_shared_directory(folder, shared):
    assert isolated_nodes.start(folder) == 0

    same(shared, isolated_nodes.run_of(folder))
    assert leftover_files(folder) == []


def test_collected_files_take_the_place_of_those_that_retention_frees(folder, shared, monkeypatch):
    failed = []
    monkeypatch.setattr(DirectoryStore, "discard", lambda _, staged: failed.append(staged))
    path = isolated_nodes.write_spec(folder, collected=True, keep="{last: 2}")
    path.write_text(path.read_text().replace("epochs: 3", "epochs: 5"))

    assert isolated_nodes.start(folder) == 0

    # Epoch 1 is deleted when 3 is written, and its directory becomes that of 4; 5 is in that of 2.
    run = isolated_nodes.run_of(folder)
    store = DirectoryStore(str(run / "checkpoints"))
    assert store.epochs() == (0, 4, 5)
    assert [store.verify(epoch) for epoch in store.epochs()] == [None] * 3
    assert blobs(epochs(run)[0]) == blobs(epochs(shared)[0])
    assert failed == []


def test_collected_epochs_are_resumed_in_a_shared_directory_and_the_reverse(folder, shared):
    isolated_nodes.start(folder, max_epochs=1)
    isolated_nodes.write_spec(folder, collected=False)
    isolated_nodes.start(folder, blind=False, max_epochs=1)
    isolated_nodes.write_spec(folder, collected=True)

    assert isolated_nodes.start(folder) == 0

    same(shared, isolated_nodes.run_of(folder))


@pytest.mark.parametrize("after", ["nothing", "a piece"])
def test_a_node_killed_while_its_file_is_collected_is_renewed_from_the_master(
    folder, shared, monkeypatch, after
):
    killed = []
    original = node_files._collect_save

    def killing(link, save, directory):
        ask = link.rpc.call

        def asked(kind, *inputs):
            if kind == "chunk" and not killed and inputs[-1] >= (after == "a piece"):
                killed.append(link.pid)
                os.kill(link.pid, signal.SIGKILL)
            return ask(kind, *inputs)

        if link.node == "a" and "epoch-000002" in directory.name:
            monkeypatch.setattr(link.rpc, "call", asked)
        return original(link, save, directory)

    monkeypatch.setattr(node_files, "_collect_save", killing)

    assert isolated_nodes.start(folder) == 0

    assert len(killed) == 1
    same(shared, isolated_nodes.run_of(folder))
    assert leftover_files(folder) == []


# Three files an epoch; that of node a has four pieces.
@pytest.mark.parametrize(
    "crash", ["collect.piece-written:2", "collect.piece-written:9", "collect.file-synced:5",
              "checkpoint.renamed:2"]
)  # fmt: skip
def test_a_master_killed_while_it_collects_continues_from_the_epoch_before(folder, shared, crash):
    killed = process(folder, crash)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = list(epochs(isolated_nodes.run_of(folder)))

    done = process(folder)

    assert done.returncode == 0, done.stderr
    assert before in ([], [0], [0, 1])
    same(shared, isolated_nodes.run_of(folder))
    hidden = [
        path
        for path in (isolated_nodes.run_of(folder) / "checkpoints").iterdir()
        if path.name.startswith(".")
    ]
    assert hidden == []


def test_nodes_killed_while_they_fetch_lose_nothing(folder, shared):
    isolated_nodes.start(folder, max_epochs=1)

    # The nodes have it from their master; each dies of it, and those in their places too.
    failed = process(folder, "collect.piece-written:1")

    assert failed.returncode not in {0, -signal.SIGKILL}, failed.stderr
    assert "E395" in failed.stderr
    done = process(folder)
    assert done.returncode == 0, done.stderr
    same(shared, isolated_nodes.run_of(folder))


def test_a_directory_that_nodes_cannot_make_ends_it_before_init(folder):
    (folder / "own").write_text("a file")

    with pytest.raises(EnvironmentFaultError, match="on the machine of node") as caught:
        isolated_nodes.start(folder)

    assert caught.value.faults[0].code == "E313"


ELASTIC = """\
jobrun: 1
name: far
seed: 5
nodes: {t: {count: COUNT}}
state: {U: {partition: rows}, V: replicated}
init:
  - task: make
    node: t
    steps: ["U = reshape(arange(60.0), (12, 5)) + node.index", "V = arange(3)"]
epoch:
  - {task: step, node: t, steps: ["U = U * 0.5"]}
stop: [{epochs: 3}]
"""


def test_rows_of_files_of_other_nodes_are_brought_to_a_node_too(tmp_path):
    collected = []
    for name, is_blind in (("shared", False), ("collected", True)):
        folder = tmp_path / name
        folder.mkdir()
        separate = (
            f"checkpoint: {{every: 1ep, node_dir: {folder}/own, collect: master}}\n"
            if is_blind
            else ""
        )
        for count in (2, 3):
            (folder / "far.yaml").write_text(ELASTIC.replace("COUNT", str(count)) + separate)
            assert isolated_nodes.start(folder, blind=is_blind, max_epochs=1) in {0, 75}
        collected.append(blobs(epochs(isolated_nodes.run_of(folder))[2]))

    assert len(collected[0]) == 6
    assert collected[1] == collected[0]
