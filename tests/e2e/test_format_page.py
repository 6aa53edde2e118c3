"""The page about the checkpoint format is enough to write a reader from."""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from tests.support.command import jobrun
from tests.support.page_reader import read_file
from tests.support.stored_runs import epochs, only_run

SPEC = """\
jobrun: 1
name: page
seed: 3
init:
  - task: start
    steps:
      - w = rng.normal(size=(3, 50000))
      - n = 3
      - small = float32(0.1)
      - x = arange(7)
      - turned = reshape(arange(24), (2, 3, 4)).T
epoch: [{task: step, steps: ["w *= 0.5", n = n + 1]}]
stop: [{epochs: 2}]
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    (folder / "page.yaml").write_text(SPEC)
    done = jobrun("run", "page.yaml", cwd=folder)
    assert done.returncode == 0, done.stderr
    (path,) = epochs(only_run(folder / "runs"))[2].glob("*.h5")
    return path


def test_a_reader_written_from_the_page_finds_what_hdf5_finds(file):
    found = read_file(file)
    assert (found["n"], sorted(found)) == (5, ["n", "small", "turned", "w", "x"])
    with h5py.File(file) as stored:
        for name in ("small", "turned", "w", "x"):
            wanted = stored["blobs"][name][()]
            assert found[name].dtype == wanted.dtype
            assert found[name].shape == wanted.shape
            assert found[name].tobytes() == np.asarray(wanted).tobytes()
    assert found["turned"].flags.f_contiguous


@pytest.mark.parametrize("place", [100, 5000, 300_000, -1])
def test_it_refuses_a_file_of_which_one_bit_differs(file, tmp_path, place):
    data = bytearray(file.read_bytes())
    data[place] ^= 1
    (tmp_path / "bad.h5").write_bytes(data)
    with pytest.raises(AssertionError):
        read_file(tmp_path / "bad.h5")
