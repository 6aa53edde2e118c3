"""What a file holds, what a load gives, and what was in memory: equal, of blobs of all kinds."""

from __future__ import annotations

import random

import h5py
import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import inspect_state, read_state
from jobrun.checkpoint.hdf5.dataset_names import quote_name
from jobrun.checkpoint.stores.manifest import find_damage
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import find_difference
from jobrun.values.copies import detach
from jobrun.values.kinds.counter import Counter
from tests.support.mixed_blobs import TENSORS, draw_blobs, next_blobs
from tests.support.thinning import examples, thinned

RULES = (("*", "deflate"),)
EPOCHS = 4


def check(folder, seed, *, most=60, kinds=()):
    """Save random sets of some epochs with one writer, and compare each with what it was."""
    rng = random.Random(seed)
    writer = NodeWriter("n", rng.choice([(), (), RULES]))
    reuses = rng.random() < 0.5
    blobs = draw_blobs(rng, most)
    blobs.update({f"t{at}": draw(rng) for at, draw in enumerate(kinds)})
    for epoch in range(EPOCHS):
        before = {name: detach(value, name) for name, value in blobs.items()}
        path = folder / ("n.h5" if reuses else f"{epoch}") / "n.h5"
        path.parent.mkdir(exist_ok=True)
        stored = writer.write(
            str(path), epoch=epoch, run_id=RUN_ID, values=blobs, over_removed=reuses
        )

        assert find_damage(str(path.parent), stored, whole=True) == ""
        loaded = read(path, epoch, stored.digest, before)
        different = {
            name: difference
            for name in before
            if (difference := find_difference(before[name], loaded[name])) is not None
        }
        assert different == {}
        name = rng.choice(list(before))
        alone = read(path, epoch, stored.digest, [name])[name]
        assert find_difference(before[name], alone) is None
        compare_with_h5py(path, before)
        inspect_state(str(path))
        blobs = next_blobs(rng, blobs)


def read(path, epoch, digest, names):
    return read_state(
        str(path), node="n", epoch=epoch, run_id=RUN_ID, digest=digest, names=list(names)
    )


def compare_with_h5py(path, blobs):
    """Compare single values with what h5py alone reads."""
    with h5py.File(path) as file:
        for name, value in blobs.items():
            dataset = file["blobs"].get(quote_name(name))
            if isinstance(dataset, h5py.Dataset):
                shown = np.empty(dataset.shape, dataset.dtype)
                if shown.size:
                    dataset.read_direct(shown)
                assert are_same_items(shown, as_array(value)), name


def as_array(value):
    """A value as an array whose items HDF5 has, but for their form."""
    if type(value) is str:
        data = value.encode("utf-8", "surrogatepass")
        return np.frombuffer(data, f"S{len(data)}").reshape(()) if data else np.zeros(0, "S1")
    if isinstance(value, Counter):
        value = value.value
    if type(value) is int and not -(2**63) <= value < 2**63:
        return np.array(hex(value).encode())
    if isinstance(value, np.str_ | np.bytes_):
        data = bytes(value) if isinstance(value, bytes) else value.encode("utf-8", "surrogatepass")
        size = max(1, value.dtype.itemsize)
        return np.frombuffer(data.ljust(size, b"\0"), f"S{size}").reshape(())
    return np.asarray(value)


def are_same_items(shown, array):
    """Compare bits, field by field, with text as UTF-8, dates as numbers."""
    dtype = array.dtype
    if shown.shape != array.shape:
        return False
    if dtype.names == ("r", "i"):
        # h5py shows a record of these two as a complex number.
        return all(map(are_same_items, (shown.real, shown.imag), (array["r"], array["i"])))
    if dtype.names:
        return all(are_same_items(shown[name], array[name]) for name in dtype.names)
    if dtype.kind == "U":
        texts = [text.encode("utf-8", "surrogatepass") for text in array.reshape(-1).tolist()]
        array = np.array(texts or [b""], f"S{dtype.itemsize}")[: array.size]
    if dtype.type in (np.longdouble, np.clongdouble):
        return shown.dtype.kind == dtype.kind and repr(shown.tolist()) == repr(array.tolist())
    return shown.tobytes() == array.tobytes()


@pytest.mark.parametrize("seed", thinned(range(30), 3))
def test_sets_of_mixed_blobs_are_what_they_were(tmp_path, seed):
    check(tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, examples(300), 20))
def test_many_sets_of_mixed_blobs_are_what_they_were(tmp_path, first):
    for seed in range(1000 + first, 1000 + first + 20):
        folder = tmp_path / str(seed)
        folder.mkdir()
        check(folder, seed, kinds=TENSORS)
