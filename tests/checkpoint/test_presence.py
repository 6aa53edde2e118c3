from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.checkpoint.directory import DirectoryStore
from jobrun.checkpoint.manifest import NAME
from jobrun.checkpoint.presence import damage_of, exists
from tests.support.checkpoints import write_epoch


@pytest.fixture
def store(tmp_path):
    made = DirectoryStore(str(tmp_path / "checkpoints"))
    write_epoch(made, 3, nodes=("a", "b"))
    return made


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def states(store, epoch, *nodes, **how):
    return {node: one.state for node, one in exists(store, epoch, nodes, **how).items()}


def test_what_is_there_is_present_or_verified_as_far_as_was_looked(store):
    assert states(store, 3, "b", "a") == {"b": "present", "a": "present"}
    assert states(store, 3, "a", verified=True) == {"a": "verified"}
    assert exists(store, 3, ["a"])["a"].there


def test_a_node_or_an_epoch_that_is_not_there_is_absent(store):
    assert states(store, 3, "a", "c") == {"a": "present", "c": "absent"}
    assert states(store, 4, "a", "b") == {"a": "absent", "b": "absent"}
    found = exists(store, 4, ["a"])["a"]
    assert not found.there
    assert found.reason == "there is no epoch 4"


def test_other_bytes_of_the_same_length_are_seen_by_verifying_only(store):
    flip(Path(store.path(3), "b.h5"))

    assert states(store, 3, "a", "b") == {"a": "present", "b": "present"}
    assert states(store, 3, "a", "b", verified=True) == {"a": "verified", "b": "damaged"}
    assert "checksum" in exists(store, 3, ["b"], verified=True)["b"].reason


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"short")])
def test_a_missing_or_cut_file_is_damage_of_its_node_alone(store, change):
    change(Path(store.path(3), "a.h5"))

    assert states(store, 3, "a", "b") == {"a": "damaged", "b": "present"}


def test_without_its_manifest_nothing_of_an_epoch_is_of_use(store):
    flip(Path(store.path(3), NAME))

    assert states(store, 3, "a", "b") == {"a": "damaged", "b": "damaged"}
    assert "manifest" in exists(store, 3, ["a"])["a"].reason


def test_an_undamaged_file_has_no_reason(store):
    for file in store.manifest(3).files:
        assert damage_of(store.path(3), file, whole=True) == ""
