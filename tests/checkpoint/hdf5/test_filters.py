from __future__ import annotations

import zlib

import h5py
import numpy as np
import pytest

from jobrun.checkpoint.hdf5 import filters as codecs
from jobrun.checkpoint.hdf5.filters import encoder_for
from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.checkpoint_policy import CODECS
from tests.support.limits import no_larger_than
from tests.support.tables import each_case

CHUNKS = [
    np.arange(60, dtype=np.int64).reshape(3, 20), np.arange(7, dtype=">f4"),
    np.arange(5, dtype=np.uint8), np.zeros((2, 2, 2), np.complex128), np.array([True, False]),
]  # fmt: skip


@each_case("codec", CODECS)
@each_case("chunk", CHUNKS)
def test_chunk_round_trips_bit_for_bit(codec, chunk):
    encoder = encoder_for(codec, chunk.dtype, chunk.shape)

    assert encoder.decode(encoder.encode(chunk)).tobytes() == chunk.tobytes()


def test_libhdf5_undoes_what_deflate_made():
    chunk = np.arange(1000).reshape(10, 100)
    encoder = encoder_for("deflate", chunk.dtype, chunk.shape)

    with h5py.File("x", "w", driver="core", backing_store=False) as file:
        dataset = file.create_dataset(
            "w", chunk.shape, chunk.dtype, chunks=chunk.shape, compression=1, shuffle=True
        )
        dataset.id.write_direct_chunk((0, 0), encoder.encode(chunk))
        assert dataset[...].tolist() == chunk.tolist()


def test_without_the_fast_encoder_zlib_does_it(monkeypatch):
    monkeypatch.setattr(codecs.util, "find_spec", lambda _: None)
    chunk = np.arange(1000)
    encoder = encoder_for("deflate", chunk.dtype, chunk.shape)

    stored = encoder.encode(chunk)

    assert len(zlib.decompress(stored)) == chunk.nbytes
    assert encoder.decode(stored).tobytes() == chunk.tobytes()


BOMB = zlib.compress(bytes(1 << 24))
WHOLE = zlib.compress(bytes(800))


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", zlib.compress(b"short"), BOMB, WHOLE[:-1], WHOLE + b"x"]
)
def test_data_not_made_by_the_codec_are_refused(data):
    with pytest.raises(ValueError, match="chunk"), no_larger_than(1 << 20):
        encoder_for("deflate", np.dtype("f8"), (100,)).decode(data)


def test_an_unknown_codec_is_refused():
    with pytest.raises(ValueError, match="no codec 'gzip'"):
        encoder_for("gzip", np.dtype("f8"), (100,))


def test_missing_codec_names_the_package_to_install(monkeypatch):
    monkeypatch.setattr(codecs.util, "find_spec", lambda _: None)

    with pytest.raises(EnvironmentFaultError, match="jobrun\\[hdf5plugin\\]") as caught:
        encoder_for("zstd", np.dtype("f8"), (100,))

    assert caught.value.faults[0].code == "E326"
