from __future__ import annotations

import pickle

from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import CheckpointStore, Manifest, StoredFile
from jobrun.checkpoint.stores.directory import DirectoryStore

FILE = StoredFile("n", "n.h5", 10, "sha256:" + "0" * 64, seconds=1.0)


def test_the_time_that_writing_took_is_not_part_of_a_file():
    assert replace(FILE, seconds=2.0) == FILE


def test_reports_of_nodes_can_be_encoded():
    assert pickle.loads(pickle.dumps(FILE)) == FILE


def test_manifests_do_not_share_runner_state():
    first, second = (Manifest(0, "r", 0, (), "") for _ in range(2))

    assert first.runner is not second.runner


def test_the_directory_store_is_a_store(tmp_path):
    # What mypy checks: each method is there with its signature.
    store: CheckpointStore = DirectoryStore(str(tmp_path))

    assert store.epochs() == ()
