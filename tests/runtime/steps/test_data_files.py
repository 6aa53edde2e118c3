from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.graph.expressions import Builtin, Text
from jobrun.graph.steps import DataFile, Load, Save
from jobrun.testing.graphs import text
from jobrun.values.compare import same_bits
from tests.support.step_bench import Bench


@pytest.fixture
def bench(tmp_path):
    (tmp_path / "run").mkdir()
    with Bench(str(tmp_path), x=np.arange(6.0).reshape(2, 3).T, n=4) as step_bench:
        yield step_bench


def load(*files):
    return Load(tuple(DataFile(blob, text(path), member) for blob, path, member in files), "e/l")


def save(*files):
    return Save(tuple(DataFile(blob, text(path), member) for blob, path, member in files), "e/s")


def test_saved_blobs_are_loaded_again(bench):
    blobs = bench.do(save(("x", "out/x.npy", "")), load(("y", "out/x.npy", "")))

    assert same_bits(blobs["y"], blobs["x"])
    assert blobs["y"].flags.writeable
    assert not np.shares_memory(blobs["y"], blobs["x"])


def test_members_of_one_file_are_written_together(bench, tmp_path):
    bench.do(save(("x", "all.npz", "x"), ("n", "all.npz", "n")))

    with np.load(tmp_path / "all.npz") as stored:
        assert set(stored.files) == {"x", "n"}


def test_paths_may_name_the_runs_directory(bench, tmp_path):
    path = Text((Builtin("run.dir"), "/artifacts/x.npy"))

    bench.do(Save((DataFile("x", path),), "e/s"))

    assert (tmp_path / "run/artifacts/x.npy").exists()


def test_nothing_is_bound_unless_all_files_can_be_read(bench):
    with pytest.raises(EnvironmentFaultError) as caught:
        bench.do(save(("x", "x.npy", "")), load(("y", "x.npy", ""), ("z", "missing.npy", "")))

    assert "y" not in bench.blobs
    assert caught.value.faults[0].path == "e/l"


def test_a_blob_that_is_missing_is_named(bench):
    with pytest.raises(TaskFailedError, match="'nothing'"):
        bench.do(save(("nothing", "x.npy", "")))


def test_a_steps_own_folder_is_where_its_paths_start(bench, tmp_path):
    assert bench.frame.resolve_folder("") == str(tmp_path)
    assert bench.frame.resolve_folder("sub") == str(tmp_path / "sub")
    assert bench.frame.resolve_folder("/abs") == "/abs"
