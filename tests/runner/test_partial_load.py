"""Loading some blobs of a saved epoch, without a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError
from jobrun.core.events import CheckpointTimes
from jobrun.graph.types import Cluster, Node, Scope, Task, TaskGroup
from jobrun.runner.partial_load import load_blobs_from_checkpoints, parse_address
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession
from jobrun.testing.graphs import steps
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import same_bits
from tests.support.checkpoints import write
from tests.support.resumable_job import WalkJob

A = {"w": np.arange(6.0), "k": 4, "readers/train": 7}
B = {"w": np.float32(0.5), "v": "text"}


@pytest.fixture
def store(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    staged = store.stage(2)
    files = tuple(
        write(Path(staged), values, node=node, epoch=2) for node, values in (("a", A), ("b", B))
    )
    store.commit(staged, Manifest(2, RUN_ID, 0, files, "sha256:" + "0" * 64))
    return store


@pytest.fixture
def session(tmp_path):
    session = session_of(tmp_path, "a", "b", "c")
    yield session
    session.close()


def session_of(path, *nodes):
    session = ThreadsSession()
    session.open(Cluster(tuple(map(Node, nodes))), RunContext(0, str(path), str(path)))
    return session


def blobs(session, *nodes):
    return {
        f"{node}.{name}": session.read(node, (name,))[name]
        for node in nodes
        for name in session.names(node)
    }


def test_a_plain_name_is_loaded_into_every_node_that_saved_it(session, store):
    loaded = load_blobs_from_checkpoints(session, store, 2, ["w", "k"])

    assert loaded == {"w": ("a", "b"), "k": ("a",)}
    now = blobs(session, "a", "b", "c")
    assert set(now) == {"a.w", "a.k", "b.w"}
    assert same_bits(now["a.w"], A["w"])
    assert same_bits(now["b.w"], B["w"])


def test_a_name_with_its_node_is_loaded_into_that_one(session, store):
    loaded = load_blobs_from_checkpoints(session, store, 2, ["b.w", "a.readers/train"])

    assert loaded == {"b.w": ("b",), "a.readers/train": ("a",)}
    assert set(blobs(session, "a", "b")) == {"a.readers/train", "b.w"}


def test_names_in_no_file_load_nothing(session, store):
    loaded = load_blobs_from_checkpoints(session, store, 2, ["no", "v", "c.w", "b.k"])

    assert loaded == {"no": (), "v": ("b",), "c.w": (), "b.k": ()}
    assert set(blobs(session, "a", "b", "c")) == {"b.v"}


def test_loading_no_names_returns_nothing(session, store):
    assert load_blobs_from_checkpoints(session, store, 2, []) == {}


def test_other_blobs_of_the_session_stay(session, store):
    scopes = (("w", Scope.NODE), ("x", Scope.NODE))
    make = Task("make", "a", steps("w = 1", "x = 2"), scopes=scopes, path="init/make")
    session.run(TaskGroup("init", (make,), workspace="global"), 0, {})

    load_blobs_from_checkpoints(session, store, 2, ["a.w"])

    now = blobs(session, "a")
    assert now["a.x"] == 2
    assert same_bits(now["a.w"], A["w"])


@pytest.mark.parametrize("change", ["missing", "empty", "cut", "other byte"])
def test_when_one_file_is_damaged_no_node_is_changed(session, store, change):
    load_blobs_from_checkpoints(session, store, 2, ["k"])
    before = blobs(session, "a", "b")
    path = Path(store.path(2), "b.h5")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    {
        "missing": path.unlink,
        "empty": lambda: path.write_bytes(b""),
        "cut": lambda: path.write_bytes(data[:-1]),
        "other byte": lambda: path.write_bytes(data),
    }[change]()

    for _ in range(5):
        with pytest.raises(CheckpointError):
            load_blobs_from_checkpoints(session, store, 2, ["w"])

    assert blobs(session, "a", "b") == before
    assert load_blobs_from_checkpoints(session, store, 2, ["a.w"]) == {"a.w": ("a",)}


def test_missing_epoch_is_an_error(session, store):
    with pytest.raises(CheckpointError) as caught:
        load_blobs_from_checkpoints(session, store, 3, ["w"])

    assert caught.value.faults[0].code == "E310"


def test_missing_node_in_the_session_is_an_error_before_reading(tmp_path, store):
    session = session_of(tmp_path, "a")
    with pytest.raises(CheckpointError, match="no node 'b'"):
        load_blobs_from_checkpoints(session, store, 2, ["w"])
    assert session.names("a") == ()

    assert load_blobs_from_checkpoints(session, store, 2, ["a.w"]) == {"a.w": ("a",)}
    session.close()


def test_times_are_reported_by_node(session, store):
    events = []

    load_blobs_from_checkpoints(session, store, 2, ["w"], events.append)

    (times,) = events
    assert isinstance(times, CheckpointTimes)
    assert (times.action, times.epoch) == ("partial load", 2)
    assert [node.node for node in times.nodes] == ["a", "b"]
    assert times.slowest in {"a", "b"}


@pytest.mark.parametrize("outside", [False, True])
def test_a_run_or_a_directory_is_a_source_too(session, tmp_path, outside):
    edits = [("stop:", "checkpoint: {dir: ck}\nstop:")] if outside else []
    walk = WalkJob(tmp_path / "walk", *edits)
    walk.start()

    assert load_blobs_from_checkpoints(session, walk.run, 4, ["w"]) == {"w": ("a",)}

    if not outside:
        root = walk.run.path / "checkpoints"
        assert load_blobs_from_checkpoints(session, root, 1, ["b.v"]) == {"b.v": ("b",)}


@pytest.mark.parametrize(
    ("name", "blob", "nodes"),
    [
        ("w", "w", ("a", "b")),
        ("b.w", "w", ("b",)),
        ("readers/train", "readers/train", ("a", "b")),
        ("a.readers/train", "readers/train", ("a",)),
        ("c.w", "c.w", ("a", "b")),
    ],
)
def test_a_name_means_a_blob_on_all_nodes_or_on_one(name, blob, nodes):
    assert parse_address(name, ("a", "b")) == (blob, nodes)
