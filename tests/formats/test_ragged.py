from __future__ import annotations

from functools import partial

import h5py
import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.formats import ragged
from jobrun.formats.ragged import open_ragged
from jobrun.formats.rows import ArrayRows, open_rows

WORDS = [[1, 2, 3], [], [4], [5, 6], [], [7, 8, 9, 10], [11]]
LENGTHS = np.array([len(word) for word in WORDS], np.uint8)
VALUES = np.concatenate([np.array(word, "<i4") for word in WORDS])
RAGGED = ["stored", "compressed", "contiguous", "chunked", "memory"]


def _ragged(folder, storage, members, *, joined=False, **more):
    held = {"v": VALUES, "n": LENGTHS, "w": np.stack([VALUES, -VALUES], 1), "y": np.arange(7.0)}
    held |= more
    if storage == "memory":
        return open_ragged(
            lambda names: ArrayRows("here", tuple(held[name] for name in names), names),
            "here",
            members,
            joined=joined,
        )
    kind = "npz" if storage in {"stored", "compressed"} else "hdf5"
    path = str(folder / f"a.{kind}" if kind == "npz" else folder / "a.h5")
    if kind == "npz":
        (np.savez if storage == "stored" else np.savez_compressed)(path, **held)
    else:
        with h5py.File(path, "w") as file:
            for name, array in held.items():
                chunks = (1, *array.shape[1:]) if storage == "chunked" else None
                file.create_dataset(name, data=array, chunks=chunks)
    return open_ragged(partial(open_rows, kind, path), path, members, joined=joined)


@pytest.mark.parametrize("kind", ["npz", "hdf5"])
def test_flat_values_of_as_many_as_records_are_refused_by_lengths_in_their_file(tmp_path, kind):
    count = np.array([3, 0, 0, 1])
    held = {"words": np.arange(4), "y": np.ones(4), "words_lengths": count, "label": count,
            "ones_len": np.ones(4, int), "x": np.zeros((4, 2))}  # fmt: skip
    path = str(tmp_path / ("a.npz" if kind == "npz" else "a.h5"))
    if kind == "npz":
        np.savez(path, **held)
    else:
        with h5py.File(path, "w") as file:
            for name, array in held.items():
                file[name] = array

    def opened(*names, lengths=None, others=tuple(held)):
        members = [(name, lengths if name == "words" else None) for name in names]
        return open_ragged(
            partial(open_rows, kind, path), path, members, joined=False, others=others
        )

    with pytest.raises(EnvironmentFaultError) as caught:
        opened("y", "words")
    assert caught.value.faults[0].code == "E515"
    assert "'words' of" in caught.value.faults[0].message
    assert "{values: words, lengths: words_lengths}" in caught.value.faults[0].mend

    # Declared; alone, with nothing to be mistaken for; labels that add up to the number of rows.
    opened("y", "words", lengths="words_lengths").close()
    opened("words").close()
    opened("x", "words_lengths").close()
    opened("y", "words", others=("words", "y", "label", "ones_len")).close()


MEMBERS = [("y", None), ("v", "n"), ("n", None), ("w", "n")]


@pytest.mark.parametrize("storage", RAGGED)
@pytest.mark.parametrize("rows", [[0, 1, 2, 3, 4, 5, 6], [2, 3, 4], [5, 0, 4, 2, 1], [1], [4, 1]])
@pytest.mark.parametrize(("long_row", "gap"), [(0, 0), (0, 8), (0, 1 << 20), (256, 0)])
def test_rows_of_a_ragged_field_are_the_values_between_the_bounds(
    tmp_path, monkeypatch, storage, rows, long_row, gap
):
    monkeypatch.setattr(ragged, "_LONG_ROW", long_row)
    monkeypatch.setattr(ragged, "_GAP_BYTES", gap)
    monkeypatch.setattr(ragged, "_AT_ONCE_BYTES", 24 if gap == 8 else 1 << 20)
    opened = _ragged(tmp_path, storage, MEMBERS)
    in_order = rows == list(range(rows[0], rows[-1] + 1))
    piece = opened.take(rows[0], rows[-1] + 1) if in_order else opened.pick(np.array(rows))
    opened.close()

    assert len(opened) == 7
    assert [column.name for column in opened.columns] in (["y", "v", "n", "w"], ["", "", "", ""])
    for position, row in enumerate(rows):
        y, v, n, w = (column[position] for column in piece)
        assert (y, n) == (float(row), len(WORDS[row]))
        assert (v.dtype, v.tolist()) == (np.dtype("<i4"), WORDS[row])
        assert (w.shape, w.tolist()) == ((n, 2), [[word, -word] for word in WORDS[row]])
    assert [column.tolist() for column in piece[1][:]] == [WORDS[row] for row in rows]


@pytest.mark.parametrize("storage", RAGGED)
def test_several_rows_of_a_ragged_field_are_joined_for_a_batch(tmp_path, storage):
    opened = _ragged(tmp_path, storage, [("v", "n")], joined=True)
    ordered, picked = opened.take(2, 6)[0], opened.pick(np.array([5, 1, 0]))[0]
    opened.close()

    assert ordered[1:4].tolist() == [5, 6, 7, 8, 9, 10]
    assert ordered[2:3].tolist() == []
    assert ordered[2:3].dtype == np.dtype("<i4")
    assert picked[:].tolist() == [7, 8, 9, 10, 1, 2, 3]
    assert picked[:].flags.owndata


def test_values_and_lengths_may_be_fields_of_records(tmp_path):
    people = np.zeros(7, [("count", "<i4"), ("age", "<i8")])
    people["count"], people["age"] = LENGTHS, np.arange(7)
    pairs = np.zeros(11, [("word", "<i4"), ("at", "<f8")])
    pairs["word"] = VALUES
    np.savez(tmp_path / "a.npz", people=people, pairs=pairs)
    path = str(tmp_path / "a.npz")
    members = [("pairs/word", "people/count"), ("people/age", None)]
    opened = open_ragged(partial(open_rows, "npz", path), path, members, joined=False)

    words, ages = opened.take(0, 7)
    opened.close()

    assert [word.tolist() for word in words[:]] == WORDS
    assert ages.tolist() == list(range(7))


def test_rows_without_any_values_are_empty(tmp_path):
    opened = _ragged(tmp_path, "stored", [("v", "n")], v=VALUES[:0], n=LENGTHS * 0)

    assert [column.tolist() for column in opened.pick(np.array([3, 0]))[0][:]] == [[], []]
    opened.close()


@pytest.mark.parametrize("storage", RAGGED)
@pytest.mark.parametrize(
    ("lengths", "code", "message"),
    [
        (LENGTHS + 1, "E514", "'n' of .* adds up to 18, and 'v' has 11 values"),
        (np.array([12, -1, 0, 0, 0, 0, 0]), "E514", "'n' of .* is -1 for record 1"),
        (LENGTHS * 1.0, "E514", "float64"),
        (LENGTHS > 0, "E514", "bool"),
        (LENGTHS[:, None], "E514", r"shape \(7, 1\)"),
        (np.full(7, 2**63 - 1), "E514", "adds up to 64563604257983430649"),
        (np.array([11]), "E288", "differ in length: 'y' has 7 rows, 'n' 1"),
    ],
)  # fmt: skip
def test_lengths_that_cannot_be_those_of_the_values_are_refused(
    tmp_path, storage, lengths, code, message
):
    with pytest.raises(EnvironmentFaultError, match=message) as caught:
        _ragged(tmp_path, storage, [("v", "n"), ("y", None)], n=lengths)

    assert caught.value.faults[0].code == code
    assert caught.value.faults[0].mend


def test_a_block_reckons_with_the_longest_row(tmp_path):
    lengths = np.zeros(1000, np.int64)
    lengths[7] = 1 << 20
    opened = _ragged(tmp_path, "memory", [("v", "n")], v=np.zeros(1 << 20, np.int8), n=lengths)

    assert opened.columns[0].row_bytes == 1 << 16
