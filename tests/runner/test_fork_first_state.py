"""What a fork takes over, chosen by name."""

from __future__ import annotations

import pytest

from jobrun.core.errors import UsageError
from jobrun.runner.fork_first_state import (
    describe_parent,
    match_blobs,
    read_stored_names,
    require_full_state,
)
from tests.support.resumable_job import WalkJob

THERE = {"a": ("k", "loss", "w"), "b": ("v",)}


@pytest.fixture(scope="module")
def walk(tmp_path_factory):
    walk = WalkJob(tmp_path_factory.mktemp("lineage") / "a")
    walk.start(max_epochs=1)
    return walk


@pytest.mark.parametrize(
    ("patterns", "wanted"),
    [
        (["*"], THERE),
        (["w"], {"a": ("w",)}),
        (["a.*"], {"a": THERE["a"]}),
        (["[kv]"], {"a": ("k",), "b": ("v",)}),
    ],
)
def test_patterns_mean_names_and_names_of_a_node(walk, patterns, wanted):
    assert match_blobs(walk.load()[1], THERE, tuple(patterns)) == wanted


def test_each_pattern_must_mean_something(walk):
    with pytest.raises(UsageError, match="--blobs loss2") as raised:
        match_blobs(walk.load()[1], THERE, ("w", "loss2"))

    assert "loss" in raised.value.faults[0].mend


def test_missing_blobs_are_named(walk):
    require_full_state(walk.load()[1], THERE, "it")
    with pytest.raises(UsageError, match=r"it has no a\.k, b\.v,"):
        require_full_state(walk.load()[1], {"a": ("loss", "w")}, "it")


def test_the_names_in_an_epoch_are_those_of_the_state(walk):
    assert read_stored_names(walk.store, 1) == THERE


def test_lineage_is_described():
    assert describe_parent({"run": "r/x", "epoch": 3, "blobs": []}) == "r/x, epoch 3"
    assert describe_parent({"run": "r/x", "epoch": 3, "blobs": ["w*"]}) == "r/x, epoch 3 (blobs w*)"
