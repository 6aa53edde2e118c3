from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError
from jobrun.graph.steps import AdoptState, CopyState, LoadState, PublishCopy, SaveState
from jobrun.testing.stores import RUN_ID, write_epoch
from jobrun.values.compare import same_bits
from tests.support.step_bench import Bench


@pytest.fixture
def bench(tmp_path):
    with Bench(str(tmp_path)) as step_bench:
        step_bench.node.update(w=np.arange(4.0), k=3, scratch=1)
        step_bench.do(SaveState("local.h5", ("k", "w"), "run"))
        ticket = step_bench.frame.results["ticket"]
        step_bench.saved = step_bench.run.snapshots.persist(ticket, str(tmp_path)).file
        yield step_bench


def load(bench, tmp_path, *names, digest="", partial=False):
    digest = digest or bench.saved.digest
    path = str(tmp_path / "local.h5")
    bench.do(LoadState(path, names, 3, "run", digest, partial=partial))


def test_a_load_reports_its_bytes_and_seconds(bench, tmp_path):
    saved = bench.saved
    load(bench, tmp_path, "k", "w")

    read = bench.frame.results["file"]
    assert read == saved
    assert read.seconds > 0
    assert bench.frame.results["names"] == ("k", "w")


def test_a_partial_load_changes_no_node_until_it_is_adopted(bench, tmp_path):
    before = bench.node["w"]
    bench.node["w"] = 0
    load(bench, tmp_path, "w", "no", partial=True)
    assert bench.node["w"] == 0
    assert bench.frame.results["names"] == ("w",)

    bench.do(AdoptState(("w", "no")))

    assert same_bits(bench.node["w"], before)
    assert set(bench.node) == {"w", "k", "scratch"}


def test_a_file_that_does_not_fit_changes_nothing(bench, tmp_path):
    before = dict(bench.node)

    with pytest.raises(CheckpointError):
        load(bench, tmp_path, "w", digest="sha256:" + "0" * 64, partial=True)

    assert dict(bench.node) == before
    assert "w" not in bench.frame.g


def test_an_epoch_is_copied_and_published(bench, tmp_path):
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    (file,) = write_epoch(store, 2).files
    staged, target = tmp_path / "there" / ".tmp-x", tmp_path / "there" / "epoch-000002"
    path = str(Path(store.path(2), file.name))

    bench.do(
        CopyState(path, str(staged), "n", file.size_bytes, file.digest),
        PublishCopy(store.path(2), str(staged), str(target)),
    )

    assert bench.frame.results["file"] == file
    assert DirectoryStore(str(tmp_path / "there")).manifest(2).run_id == RUN_ID


def load_module(bench, tmp_path, make):
    """Save one module of PyTorch, and load it into another of the same class."""
    bench.node["net"] = make()
    bench.do(SaveState("net.h5", (), "run", objects=("net",)))
    file = bench.run.snapshots.persist(bench.frame.results["ticket"], str(tmp_path)).file
    saved, bench.node["net"] = bench.node["net"], make()
    path = str(tmp_path / "net.h5")
    bench.do(LoadState(path, (), 3, "run", file.digest, objects=("net",)))
    return saved, bench.node["net"]


@pytest.mark.long
def test_a_module_is_read_into_its_own_memory(bench, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch", reason="CI installs it")
    inputs = []
    take = torch.nn.Module.load_state_dict

    def spy(module, state):
        assert state["weight"].is_set_to(module.weight)
        inputs.append(module)
        return take(module, state)

    monkeypatch.setattr(torch.nn.Module, "load_state_dict", spy)

    saved, loaded = load_module(bench, tmp_path, lambda: torch.nn.Linear(400, 300))

    assert loaded in inputs
    assert torch.equal(loaded.weight, saved.weight)
    assert torch.equal(loaded.bias, saved.bias)


@pytest.mark.long
@pytest.mark.parametrize("part", [slice(None), (150, 200)], ids=["all", "one element"])
def test_a_module_that_changes_its_loaded_state_is_refused(bench, tmp_path, part):
    torch = pytest.importorskip("torch", reason="CI installs it")

    def double(net, _):
        net.weight.data[part] *= 2

    def make():
        net = torch.nn.Linear(400, 300)
        net.register_load_state_dict_post_hook(double)
        return net

    with pytest.raises(CheckpointError, match="something else of it: 'weight'"):
        load_module(bench, tmp_path, make)
