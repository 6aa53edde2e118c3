from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.testing.stores import write_epoch


@pytest.fixture
def store(tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    write_epoch(store, 3, nodes=("a", "b"))
    return store


def damages(store, *, whole):
    return {
        file.node: find_damage(store.path(3), file, whole=whole) for file in store.manifest(3).files
    }


@pytest.mark.parametrize("whole", [False, True])
def test_an_undamaged_file_has_no_reason(store, whole):
    assert damages(store, whole=whole) == {"a": "", "b": ""}


def test_other_bytes_of_the_same_length_are_seen_by_reading_all_of_them_only(store):
    path = Path(store.path(3), "b.h5")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)

    assert damages(store, whole=False) == {"a": "", "b": ""}
    reasons = damages(store, whole=True)
    assert reasons["a"] == ""
    assert "checksum" in reasons["b"]


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"short")])
def test_a_missing_or_cut_file_is_damage_of_its_node_alone(store, change):
    change(Path(store.path(3), "a.h5"))

    reasons = damages(store, whole=False)
    assert reasons["a"] != ""
    assert reasons["b"] == ""
