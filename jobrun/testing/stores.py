"""Test that a checkpoint store keeps the promises of ``CheckpointStore``.

Subclass ``StoreContract``, and supply a fixture ``store`` that returns an empty store.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobrun.checkpoint.store_protocol import CheckpointStore, Damage, Manifest
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import CheckpointError, EnvironmentFaultError

RUN_ID = "run-1"


class StoreContract:
    """Tests that a checkpoint store of your own passes; subclass it."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> CheckpointStore:
        """Return an empty checkpoint store to test; override this."""
        raise AssertionError("a subclass supplies the fixture 'store'")

    def test_a_new_store_has_no_epochs(self, store: CheckpointStore) -> None:
        assert store.epochs() == ()
        assert store.sweep() == ()

    def test_an_epoch_is_invisible_until_committed(self, store: CheckpointStore) -> None:
        staged = store.stage(0)

        assert store.epochs() == ()
        assert staged != store.stage(0)

    def test_a_committed_epoch_is_there(self, store: CheckpointStore) -> None:
        manifest = write_epoch(store, 3, nodes=("a", "b"), runner={"stopped": True})

        assert store.epochs() == (3,)
        assert store.manifest(3) == manifest
        assert store.verify(3) is None
        assert {path.name for path in Path(store.path(3)).iterdir()} >= {"a.h5", "b.h5"}

    def test_epochs_are_in_the_order_of_integers(self, store: CheckpointStore) -> None:
        for epoch in (1_000_000, 2, 999_999, 0, 10):
            write_epoch(store, epoch)

        assert store.epochs() == (0, 2, 10, 999_999, 1_000_000)

    def test_a_commit_never_replaces(self, store: CheckpointStore) -> None:
        first = write_epoch(store, 1)

        with pytest.raises(EnvironmentFaultError):
            write_epoch(store, 1, runner={"second": True})

        assert store.manifest(1) == first
        assert store.verify(1) is None
        assert store.sweep() == ()

    def test_a_discarded_stage_leaves_nothing(self, store: CheckpointStore) -> None:
        staged = store.stage(1)
        Path(staged, "n.h5").write_bytes(b"half")

        store.discard(staged)
        store.discard(staged)

        assert not Path(staged).exists()
        assert store.sweep() == ()

    def test_a_discard_after_the_commit_does_not_touch_the_epoch(
        self, store: CheckpointStore
    ) -> None:
        staged = store.stage(5)
        write_epoch(store, 1)

        store.discard(store.path(1))
        store.discard(staged)

        assert store.verify(1) is None

    def test_an_epoch_that_is_not_there_is_an_error(self, store: CheckpointStore) -> None:
        write_epoch(store, 1)

        with pytest.raises(CheckpointError) as caught:
            store.manifest(2)

        assert "2" in caught.value.faults[0].message
        assert "1" in caught.value.faults[0].mend
        assert isinstance(store.verify(2), Damage)

    def test_removed_epochs_are_gone_and_others_stay(self, store: CheckpointStore) -> None:
        for epoch in range(4):
            write_epoch(store, epoch)

        store.remove((1, 2))
        store.remove((1,))

        assert store.epochs() == (0, 3)
        assert store.verify(0) is None
        assert store.verify(3) is None
        assert store.sweep() == ()

    def test_epochs_that_are_set_aside_are_kept_elsewhere(
        self, store: CheckpointStore, tmp_path: Path
    ) -> None:
        for epoch in range(4):
            write_epoch(store, epoch)
        aside = tmp_path / "run" / "superseded" / "g0"

        store.set_aside((2, 3), str(aside))

        assert store.epochs() == (0, 1)
        assert sorted(path.name for path in aside.iterdir()) == ["epoch-000002", "epoch-000003"]
        write_epoch(store, 2)
        assert store.verify(2) is None

    def test_an_interrupted_save_is_swept(self, store: CheckpointStore) -> None:
        write_epoch(store, 0)
        staged = store.stage(1)
        Path(staged, "n.h5").write_bytes(b"half")

        assert store.sweep() == (Path(staged).name,)

        assert store.epochs() == (0,)
        assert not Path(staged).exists()

    def test_a_changed_file_is_damage(self, store: CheckpointStore) -> None:
        write_epoch(store, 1, nodes=("a", "b"))
        path = Path(store.path(1), "b.h5")
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)

        damage = store.verify(1)

        assert damage is not None
        assert damage.epoch == 1
        assert "b" in damage.reason

    def test_a_missing_file_is_damage(self, store: CheckpointStore) -> None:
        write_epoch(store, 1)
        Path(store.path(1), "n.h5").unlink()

        assert store.verify(1) is not None


def write_epoch(
    store: CheckpointStore, epoch: int, nodes: tuple[str, ...] = ("n",), **manifest: Any
) -> Manifest:
    """Stage, write and commit an epoch in the tested store, its state derived from its number.

    Args:
        store: Where to.
        epoch: The epoch.
        nodes: Those that have a file each.
        manifest: Further fields of the manifest.
    """
    staged = store.stage(epoch)
    values = {"w": np.arange(6.0) + epoch, "epoch": epoch}
    files = tuple(
        NodeWriter(node).write(
            f"{staged}/{node}.h5", epoch=epoch, run_id=RUN_ID, values=values, over_removed=True
        )
        for node in nodes
    )
    written = Manifest(epoch, RUN_ID, 0, files, "sha256:" + "0" * 64, **manifest)
    store.commit(staged, written)
    return written
