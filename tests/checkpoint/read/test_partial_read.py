from __future__ import annotations

import numpy as np

from jobrun.checkpoint.read.partial_read import PortionReader, RowSpans
from jobrun.checkpoint.read.verified_file import open_state
from tests.support.checkpoints import write


def test_rows_are_found_by_their_place_in_the_file(tmp_path):
    write(tmp_path, {f"b{n}": np.full(16, n, np.uint8) for n in range(5)} | {"x": np.zeros(3)})
    with open_state(str(tmp_path / "n.h5")) as file:
        spans = RowSpans(file.index, np.arange(6))
    first, last = int(spans.begin[0]), int(spans.end[-1])

    assert list(spans.inside(first, last)) == [0, 1, 2, 3, 4, 5]
    assert list(spans.inside(first + 1, last - 1)) == [1, 2, 3, 4]
    assert list(spans.touching(first + 1, last - 1)) == [0, 1, 2, 3, 4, 5]
    assert list(spans.touching(first + 16, first + 17)) == [1]
    assert [list(run) for run in spans.runs(range(6))] == [[0, 1, 2, 3, 4], [5]]


def test_targets_are_filled_and_other_blobs_passed_on(tmp_path):
    write(tmp_path, {"big": np.arange(100_000), "k": 1, "v": np.arange(4.0)})
    target = np.zeros(100_000, np.int64)
    others = {}
    with open_state(str(tmp_path / "n.h5")) as file:
        rows = file.index.rows
        portions = PortionReader(
            file,
            RowSpans(file.index, np.array([rows["big"]])),
            [target],
            RowSpans(file.index, np.array([rows["k"], rows["v"]])),
            lambda numbers, data: others.update({numbers[0]: bytes(data)}),
        )
        portions.read(range(file.parts.blocks))
        portions.take_halves()

    assert target.tolist() == list(range(100_000))
    assert others == {
        rows["k"]: np.int64(1).tobytes(),
        rows["v"]: np.arange(4.0).tobytes(),
    }
