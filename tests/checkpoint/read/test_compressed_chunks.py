from __future__ import annotations

import h5py
import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.index_parser import CHUNKS_TYPE, EPOCH_TYPE
from jobrun.checkpoint.hdf5.value_codec import encode
from jobrun.checkpoint.write.chunk_compression import choose_chunk_shape, choose_packings
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import CheckpointError
from jobrun.graph.checkpoint_policy import CODECS
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import same_bits
from tests.support.checkpoints import resealed

RNG = np.random.default_rng(7)
WALK = np.cumsum(RNG.integers(-3, 4, (311, 1000)), axis=0)
VALUES = {
    "walk": WALK,
    "big_endian": np.arange(1 << 17).astype(">i4"),
    "deep": np.zeros((3, 5, 100, 201), np.float32),
    "dates": np.arange(20_000).astype("M8[s]"),
    "noise": RNG.integers(0, 1 << 62, 20_000),
    "small": np.arange(4.0),
    "k": 3,
}


def write(folder, rules, values=VALUES):
    path = str(folder / "n.h5")
    return NodeWriter("n", rules).write(path, epoch=1, run_id=RUN_ID, values=values)


def read(folder, digest="", names=VALUES):
    return read_state(
        str(folder / "n.h5"), node="n", epoch=1, run_id=RUN_ID, digest=digest, names=names
    )


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_blobs_round_trip_bit_for_bit(tmp_path, codec):
    stored = write(tmp_path, (("*", codec),))

    back = read(tmp_path, stored.digest)

    assert all(same_bits(back[name], VALUES[name]) for name in VALUES)
    assert stored.size_bytes == (tmp_path / "n.h5").stat().st_size
    assert stored.size_bytes < sum(np.asarray(value).nbytes for value in VALUES.values()) * 0.8


def test_any_hdf5_reader_shows_what_deflate_made(tmp_path):
    write(tmp_path, (("*", "deflate"),))

    with h5py.File(tmp_path / "n.h5") as file:
        assert file["blobs/walk"].compression == "gzip"
        assert file["blobs/walk"].shuffle
        for name in ("walk", "big_endian", "deep", "noise", "small", "k"):
            assert np.array_equal(file["blobs"][name][()], VALUES[name])


def test_the_rules_say_which_and_a_probe_leaves_out_what_does_not_shrink():
    coded = {name: encode(value, name) for name, value in VALUES.items()}

    assert set(choose_packings(coded, (("*", "deflate"),))) == {
        "walk",
        "big_endian",
        "deep",
        "dates",
    }
    assert set(choose_packings(coded, (("walk", "none"), ("*", "deflate")))) == {
        "big_endian",
        "deep",
        "dates",
    }
    assert choose_packings(coded, ()) == {}


@pytest.mark.parametrize(
    ("shape", "itemsize", "chunk"),
    [
        ((10,), 8, (10,)),
        ((1 << 20,), 8, (1 << 17,)),
        ((700, 1000), 8, (131, 1000)),
        ((3, 5, 100, 201), 8, (1, 5, 100, 201)),
        ((2, 1 << 20), 8, (1, 1 << 17)),
        ((4, 1), 1 << 21, (1, 1)),
    ],
)
def test_a_chunk_is_one_piece_of_its_array_of_about_1_mib(shape, itemsize, chunk):
    assert choose_chunk_shape(shape, itemsize) == chunk


def test_equal_values_give_equal_bytes(tmp_path):
    for name in "ab":
        (tmp_path / name).mkdir()
        write(tmp_path / name, (("*", "deflate"),))

    assert (tmp_path / "a/n.h5").read_bytes() == (tmp_path / "b/n.h5").read_bytes()


def test_one_writer_writes_what_changes_in_size(tmp_path):
    writer = NodeWriter("n", (("*", "deflate"),))
    for epoch, factor in enumerate((1, 1000, 3)):
        path = str(tmp_path / f"{epoch}.h5")
        values = {"w": WALK * factor, "v": np.full(3, epoch)}
        stored = writer.write(path, epoch=epoch, run_id=RUN_ID, values=values)
        back = read_state(
            path, node="n", epoch=epoch, run_id=RUN_ID, digest=stored.digest, names=values
        )
        assert all(same_bits(back[name], values[name]) for name in values)


def test_any_damaged_byte_is_found(tmp_path):
    stored = write(tmp_path, (("*", "deflate"),), {"walk": WALK})
    data = (tmp_path / "n.h5").read_bytes()

    for offset in range(0, len(data), len(data) // 97):
        changed = bytearray(data)
        changed[offset] ^= 4
        (tmp_path / "n.h5").write_bytes(changed)
        with pytest.raises(CheckpointError):
            read(tmp_path, stored.digest, ["walk"])


def change_chunk(data, fields):
    data[fields["parts"]["tail"] + 8] ^= 0xFF
    data[fields["parts"]["tail"] + 12] ^= 0xFF


def change_size(data, fields):
    data[fields["parts"]["tail"] + 16] ^= 0x01


def change_shape(data, fields):
    begin = fields["parts"]["index"]
    end = begin + fields["parts"]["layout_bytes"]
    data[begin:end] = bytes(data[begin:end]).replace(b"[131,1000]", b"[132,1000]")


def change_count(data, fields):
    begin = fields["parts"]["index"]
    end = begin + fields["parts"]["layout_bytes"]
    data[begin:end] = bytes(data[begin:end]).replace(b"1000],3]", b"1000],4]")


def change_codec(data, fields):
    begin = fields["parts"]["index"]
    end = begin + fields["parts"]["layout_bytes"]
    data[begin:end] = bytes(data[begin:end]).replace(b"deflate", b"pickled")


def share_chunk(data, fields):
    first = fields["parts"]["tail"] + EPOCH_TYPE.itemsize
    size = CHUNKS_TYPE.itemsize
    data[first + size : first + 2 * size] = data[first : first + size]


@pytest.mark.parametrize(
    "change", [change_chunk, change_size, change_shape, change_count, change_codec, share_chunk]
)
def test_chunks_that_jobrun_has_not_made_are_refused(tmp_path, change):
    write(tmp_path, (("*", "deflate"),), {"walk": WALK})
    resealed(tmp_path / "n.h5", change)

    with pytest.raises(CheckpointError) as caught:
        read(tmp_path, "", ["walk"])

    assert caught.value.faults[0].code == "E306"
