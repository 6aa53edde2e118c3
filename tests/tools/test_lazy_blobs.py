"""Blobs of a checkpoint one by one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.write.writer import write_state
from jobrun.core.errors import CheckpointError
from jobrun.tools.lazy_blobs import find_stored_epoch, open_node
from tests.support.sample_runs import make_run


def test_a_run_and_an_epoch_mean_its_files_and_their_digests(tmp_path):
    run = make_run(tmp_path)

    stored = find_stored_epoch("shrink@2", tmp_path / "runs")

    assert (stored.epoch, stored.run_id) == (2, run.record.run_id)
    ((path, digest),) = stored.files
    assert path == str(run.path / "checkpoints" / "epoch-000002" / "local.h5")
    assert digest.startswith("sha256:")
    assert stored == find_stored_epoch(str(Path(path).parent), tmp_path / "runs")


def test_types_are_known_before_anything_is_read(tmp_path):
    path = str(tmp_path / "x.h5")
    values = {"w": np.zeros((2, 3), "f4"), "note": "words", "n": 3}
    write_state(path, node="a", epoch=1, run_id="r", values=values)

    with open_node(path, "") as node:
        facts = {blob.name: (blob.kind, blob.dtype, blob.shape) for blob in node.blobs}
        assert facts["w"] == ("array", "<f4", (2, 3))
        assert facts["note"][::2] == ("text", ())
        assert node.read("note") == "words"
        np.testing.assert_array_equal(node.read("w"), values["w"])


def test_a_file_that_its_manifest_does_not_mean_is_refused(tmp_path):
    path = str(tmp_path / "x.h5")
    write_state(path, node="a", epoch=1, run_id="r", values={"w": 1})

    with pytest.raises(CheckpointError, match="E303"), open_node(path, "sha256:" + "0" * 64):
        pass
