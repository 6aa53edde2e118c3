from __future__ import annotations

import numpy as np
import pytest

from jobrun.checkpoint.hdf5.digest_blocks import BLOCK_BYTES
from jobrun.checkpoint.read import load_into_objects
from jobrun.checkpoint.read.load_into_objects import InPlace, takes_in_place
from jobrun.checkpoint.read.verified_file import open_state
from jobrun.checkpoint.write.writer import write_state
from jobrun.core.errors import CheckpointError
from jobrun.values.compare import same_bits
from jobrun.values.kinds.tensor import GRADIENTS
from jobrun.values.object_state import ObjectState

# Of a few blocks, of one that shares its block with others, and not an array.
PARTS = {
    "large": np.arange(100_000.0),
    "turned": np.arange(60.0).reshape(6, 10),
    "small": np.arange(300, dtype=np.float32),
    "one/step": 3,
    "rate": np.float32(0.5),
}


def write(tmp_path, parts):
    path = str(tmp_path / "n.h5")
    values = {"net": ObjectState("lib.Net", parts), "w": np.arange(3.0)}
    write_state(path, node="n", epoch=1, run_id="run", values=values)
    return path


def empty(parts=PARTS):
    return {
        name: np.zeros_like(value) if isinstance(value, np.ndarray) else type(value)(0)
        for name, value in parts.items()
    }


def load(path, tree, names=("net", "w")):
    in_place = InPlace({"net": ObjectState("lib.Net", tree)})
    with open_state(path) as file:
        return in_place, in_place.load(file, names)


def test_a_state_is_read_into_the_memory_of_the_object(tmp_path):
    tree = empty()

    _, loaded = load(write(tmp_path, PARTS), tree)

    for name in ("large", "turned", "small"):
        assert same_bits(tree[name], PARTS[name])
        assert loaded["net"].tree[name] is tree[name]
    assert same_bits(loaded["net"].tree, PARTS)
    assert same_bits(loaded["w"], np.arange(3.0))


@pytest.mark.parametrize(
    "other",
    [
        {"small": np.zeros(301, np.float32)},
        {"small": np.zeros(300, np.int32)},
        {"small": 0},
        {"one/step": 0.0},
        {"rate": np.float64(0)},
        {"more": 1},
    ],
    ids=["shape", "dtype", "kind", "another number", "numpy's number", "more parts"],
)
def test_object_with_other_parts_is_unchanged(tmp_path, other):
    tree = empty() | other

    _, loaded = load(write(tmp_path, PARTS), tree)

    assert not tree["large"].any()
    assert same_bits(loaded["net"].tree, PARTS)


def test_gradients_may_be_there_or_not(tmp_path):
    tree = empty()

    _, loaded = load(write(tmp_path, PARTS | {GRADIENTS: {"large": np.ones(3)}}), tree)

    assert loaded["net"].tree["large"] is tree["large"]
    assert same_bits(loaded["net"].tree[GRADIENTS], {"large": np.ones(3)})


def test_axes_in_another_order_get_memory_of_their_own(tmp_path):
    parts = PARTS | {"turned": np.asfortranarray(PARTS["turned"])}
    tree = empty()

    _, loaded = load(write(tmp_path, parts), tree)

    assert same_bits(loaded["net"].tree["turned"], parts["turned"])
    assert not tree["turned"].any()


def test_read_only_array_is_unchanged(tmp_path):
    tree = empty()
    tree["large"].flags.writeable = False

    _, loaded = load(write(tmp_path, PARTS), tree)

    assert not tree["large"].any()
    assert same_bits(loaded["net"].tree, PARTS)


@pytest.mark.parametrize(("name", "at"), [("large", 0), ("large", 50_000), ("small", 299)])
def test_later_change_in_an_object_is_detected(tmp_path, name, at):
    tree = empty()
    in_place, _ = load(write(tmp_path, PARTS), tree)
    assert in_place.find_changed("net") is None

    tree[name][at] += 1

    assert in_place.find_changed("net") == name


def test_several_threads_detect_later_changes_like_one(tmp_path, monkeypatch):
    monkeypatch.setattr(load_into_objects, "_WORTH_A_THREAD", 1)
    tree = empty()
    in_place, _ = load(write(tmp_path, PARTS), tree)
    assert in_place.find_changed("net") is None

    tree["turned"][0, 0] += 1
    tree["large"][-1] += 1

    assert in_place.find_changed("net") == "large"


def test_damage_is_found_in_whatever_is_read_in_place(tmp_path):
    path = write(tmp_path, PARTS)
    with open_state(path) as file:
        begin, end = file.index.span(file.index.rows["net/large"])
    assert end - begin > 3 * BLOCK_BYTES
    for at in (begin, (begin + end) // 2, end - 1):
        with open(path, "r+b") as file:  # noqa: PTH123
            file.seek(at)
            (byte,) = file.read(1)
            file.seek(at)
            file.write(bytes([byte ^ 1]))
        with pytest.raises(CheckpointError) as caught:
            load(path, empty())
        assert caught.value.faults[0].code == "E303"
        with open(path, "r+b") as file:  # noqa: PTH123
            file.seek(at)
            file.write(bytes([byte]))
    load(path, empty())


def test_a_class_that_takes_states_in_its_own_way_is_not_read_into():
    torch = pytest.importorskip("torch")

    class Resets(torch.nn.Linear):
        def load_state_dict(self, state):
            self.reset_parameters()
            return super().load_state_dict(state)

    assert takes_in_place(torch.nn.Linear(1, 1))
    assert not takes_in_place(torch.nn.Linear(1, 1, device="meta"))
    assert not takes_in_place(Resets(1, 1))
    assert not takes_in_place(torch.optim.SGD(torch.nn.Linear(1, 1).parameters()))
