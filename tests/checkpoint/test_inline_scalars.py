"""A tree of many scalars: they are in its structure, and are shown as if each were a part."""

from __future__ import annotations

import json
import random
import sys
from dataclasses import dataclass

import h5py
import numpy as np
import pytest

import jobrun
from jobrun.checkpoint import blob_parts
from jobrun.checkpoint.blob_parts import MOST_LEAVES
from jobrun.checkpoint.checkpoint_file import inspect_state, read_state
from jobrun.cli.run_command import invoke
from jobrun.core.errors import CheckpointError
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import find_difference
from tests.support.checkpoints import write
from tests.support.mixed_blobs import draw_large_tree


@dataclass
class Item:
    number: int
    title: str


class Gene:
    def __init__(self, weight):
        self.weight = weight
        self.flag = True


jobrun.adapt(Gene)
NAN = np.frombuffer(b"\1\2\3\4\5\6\xf8\x7f", np.float64)[0].item()
ODD = [
    -0.0,
    float("inf"),
    NAN,
    5e-324,
    2**63 - 1,
    2**63,
    -(2**64),
    True,
    1,
    1.0,
    "1",
    "\ud834\udd1e",
]
FILLERS = {str(at): at for at in range(MOST_LEAVES)}
TREES = {
    "odd": {**FILLERS, "odd": ODD, "": {".": "\ud834\udd1e"}, ":structure": 2},
    "keys": {**FILLERS, 1: "int", "1~2": "text", "\ud834\udd1e": 0, 2**70: 1},
    "pairs": {(at, 0.5): at for at in range(MOST_LEAVES)},
    "records": [Item(at, "t") for at in range(MOST_LEAVES)],
    "adapted": [Gene(at * 0.5) for at in range(MOST_LEAVES)],
    "arrays": [{"a": np.arange(at), "n": at} for at in range(MOST_LEAVES)],
    "shared": [FILLERS, (FILLERS, "t"), [FILLERS]],
    "reserved": {**FILLERS, ":structure": [{1}], "set": {2}},
    "key of an item": {"one": (shared_key := frozenset([1])), shared_key: [shared_key]},
    "views": [*(view := np.arange(MOST_LEAVES + 9.0), view[3:]), *FILLERS],
}


def read(folder, stored, name="tree"):
    return read_state(
        str(folder / "n.h5"), node="n", epoch=3, run_id=RUN_ID, digest=stored.digest, names=[name]
    )[name]


@pytest.mark.parametrize("kind", TREES)
def test_a_large_tree_is_loaded_as_it_was(kind, tmp_path):
    stored = write(tmp_path, {"tree": TREES[kind]})

    assert find_difference(TREES[kind], read(tmp_path, stored)) is None


# Short lists of numbers, as one of these has, are an array each where each leaf is by itself.
@pytest.mark.parametrize("kind", [kind for kind in TREES if kind != "odd"])
def test_parts_are_shown_as_if_each_were_stored_by_itself(kind, tmp_path, monkeypatch):
    write(tmp_path, {"tree": TREES[kind]})
    inline = inspect_state(str(tmp_path / "n.h5"))
    monkeypatch.setattr(blob_parts, "MOST_LEAVES", sys.maxsize)
    (tmp_path / "apart").mkdir()
    write(tmp_path / "apart", {"tree": TREES[kind]})
    apart = inspect_state(str(tmp_path / "apart" / "n.h5"))

    assert sorted(map(facts, inline.blobs)) == sorted(map(facts, apart.blobs))


def facts(blob):
    is_structure = blob.name.endswith(":structure")
    return (blob.name, blob.kind, *([] if is_structure else [blob.dtype, blob.size_bytes]))


def test_h5py_and_json_read_the_scalars(tmp_path):
    write(tmp_path, {"tree": {"genes": [{"weight": at / 2, "id": f"g{at}"} for at in range(99)]}})

    with h5py.File(tmp_path / "n.h5") as file:
        assert list(file["blobs/tree"]) == [":structure"]
        structure = json.loads(file["blobs/tree/:structure"][()])
    ((_, genes),) = structure["tree"]["dict"]
    assert genes["list"][7] == {"dict": [["weight", 3.5], ["id", {"text": "g7"}]]}


@pytest.mark.parametrize("count", [MOST_LEAVES, MOST_LEAVES + 1])
def test_only_a_tree_of_many_leaves_has_them_in_its_structure(count, tmp_path):
    write(tmp_path, {"tree": {str(at): at for at in range(count)}})

    with h5py.File(tmp_path / "n.h5") as file:
        assert len(file["blobs/tree"]) == (1 if count > MOST_LEAVES else count + 1)


@pytest.mark.parametrize("seed", range(20))
def test_random_large_trees_are_loaded_as_they_were(seed, tmp_path):
    tree = draw_large_tree(random.Random(seed))
    stored = write(tmp_path, {"tree": tree})

    assert find_difference(tree, read(tmp_path, stored)) is None
    inspect_state(str(tmp_path / "n.h5"))


def test_an_encoder_that_writes_another_scalar_is_refused(tmp_path, monkeypatch):
    write_exactly = blob_parts.exact_json
    monkeypatch.setattr(
        blob_parts, "exact_json", lambda form: write_exactly(form).replace("0.5", "0.25")
    )
    stored = write(tmp_path, {"tree": [0.5, *map(str, range(MOST_LEAVES))]})

    with pytest.raises(CheckpointError, match="'tree'"):
        read(tmp_path, stored)


@pytest.mark.parametrize("kind", ["keys", "records"])
def test_commands_show_scalars_of_a_large_tree(kind, tmp_path, capsys):
    write(tmp_path, {"tree": TREES[kind]})

    name = "tree/7/number" if kind == "records" else "tree/7"
    path = str(tmp_path / "n.h5")
    assert invoke(["inspect-checkpoint", path, "--values"]) == 0
    assert name in capsys.readouterr().out
    target = str(tmp_path / "one.npz")
    assert invoke(["ckpt", "export", path, "--out", target, "--blob", name]) == 0
    with np.load(target) as arrays:
        assert [array.item() for array in arrays.values()] == [7]
