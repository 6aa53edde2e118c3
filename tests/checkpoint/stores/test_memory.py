from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from jobrun.checkpoint.stores.memory import MemoryStore
from jobrun.core.errors import EnvironmentFaultError
from jobrun.testing.stores import StoreContract, write_epoch


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def tmp_path(self):
        # In memory, too: what is set aside stays on its file system.
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            yield Path(folder)

    @pytest.fixture
    def store(self):
        store = MemoryStore()
        yield store
        store.clear()


def test_memory_store_is_deleted_with_its_object():
    store = MemoryStore()
    write_epoch(store, 1)
    path = Path(store.path(1))
    assert path.is_dir()

    del store

    assert not path.exists()


def test_missing_bucket_is_an_error(tmp_path):
    with pytest.raises(EnvironmentFaultError, match="none/at/all"):
        MemoryStore(str(tmp_path / "none/at/all"))
