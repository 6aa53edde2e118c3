from __future__ import annotations

import os

import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.formats.load_save import read_member, write_members
from jobrun.values.kinds.counter import Counter

ARRAY = np.arange(6.0).reshape(2, 3)


def write_member(path, member, value):
    write_members(path, {member: value})


@pytest.mark.parametrize(
    ("name", "member"), [("x.npy", ""), ("x.npz", "a"), ("x.csv", ""), ("x.h5", "/g/a")]
)
def test_written_members_are_read_back(tmp_path, name, member):
    path = str(tmp_path / name)

    write_member(path, member, ARRAY)

    back = read_member(path, member)
    assert back.dtype == ARRAY.dtype
    assert np.array_equal(back, ARRAY)
    assert [item.name for item in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["X.NPZ", "x.hdf5", "x.tsv"])
def test_several_members_go_into_one_file(tmp_path, name):
    path = str(tmp_path / name)

    write_members(path, {"a": np.arange(3), "b": np.array([0.5, 1.5, 2.5])})

    assert read_member(path, "a").tolist() == [0, 1, 2]
    assert read_member(path, "b").tolist() == [0.5, 1.5, 2.5]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, np.array(3)),
        (True, np.array(True)),
        (0.5, np.array(0.5)),
        ("word", np.array("word")),
        (Counter(4), np.array(4)),
        (np.float32(1), np.array(1, np.float32)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("name", ["x.npz", "x.h5"])
def test_a_single_value_becomes_an_array_of_shape_nothing(tmp_path, name, value, expected):
    path = str(tmp_path / name)

    write_member(path, "a", value)

    back = read_member(path, "a")
    assert back.dtype == expected.dtype or expected.dtype.kind == "U"
    assert back.shape == ()
    assert back[()] == expected[()]


def test_a_folder_is_made(tmp_path):
    path = str(tmp_path / "deep" / "er" / "x.npy")

    write_member(path, "", ARRAY)

    assert np.array_equal(read_member(path), ARRAY)


def test_a_file_is_replaced_whole(tmp_path):
    path = str(tmp_path / "x.npz")
    write_members(path, {"a": ARRAY, "b": ARRAY})

    write_member(path, "b", 1)

    with pytest.raises(EnvironmentFaultError, match="no member 'a'"):
        read_member(path, "a")


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.h5"])
def test_a_value_that_does_not_fit_leaves_the_old_file(tmp_path, name):
    path = str(tmp_path / name)
    member = "" if name in {"x.npy", "x.csv"} else "a"
    write_member(path, member, ARRAY)

    with pytest.raises(TaskFailedError) as caught:
        write_member(path, member, 2**100)

    assert caught.value.faults[0].mend
    assert np.array_equal(read_member(path, member), ARRAY)
    assert [item.name for item in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("x.npy", {"a": ARRAY}),
        ("x.npy", {"": ARRAY, "a": ARRAY}),
        ("x.npz", {"": ARRAY}),
        ("x.h5", {"": ARRAY}),
    ],
)
def test_members_that_a_format_does_not_have_are_reported(tmp_path, name, values):
    with pytest.raises(TaskFailedError, match=name):
        write_members(str(tmp_path / name), values)


@pytest.mark.parametrize("name", ["x.pkl", "x", "x.npz.bak"])
def test_an_unknown_ending_is_reported(tmp_path, name):
    (tmp_path / name).write_text("")

    with pytest.raises(EnvironmentFaultError, match="format"):
        read_member(str(tmp_path / name))
    with pytest.raises(EnvironmentFaultError, match="format"):
        write_member(str(tmp_path / name), "", ARRAY)


def test_a_missing_file_and_a_wrong_member_are_reported(tmp_path):
    with pytest.raises(EnvironmentFaultError, match="no file"):
        read_member(str(tmp_path / "x.npy"))

    write_member(str(tmp_path / "x.npy"), "", ARRAY)
    with pytest.raises(EnvironmentFaultError, match="no member 'a'"):
        read_member(str(tmp_path / "x.npy"), "a")


def test_a_disk_that_refuses_is_reported(tmp_path, monkeypatch):
    path = str(tmp_path / "x.npy")
    write_member(path, "", ARRAY)

    def refuse(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(EnvironmentFaultError, match="No space left"):
        write_member(path, "", ARRAY + 1)
    monkeypatch.undo()

    assert np.array_equal(read_member(path), ARRAY)
    assert [item.name for item in tmp_path.iterdir()] == ["x.npy"]


def test_a_folder_where_a_file_should_be_is_reported(tmp_path):
    (tmp_path / "x.npy").mkdir()

    with pytest.raises(EnvironmentFaultError):
        read_member(str(tmp_path / "x.npy"))
    with pytest.raises(EnvironmentFaultError):
        write_member(str(tmp_path / "x.npy"), "", ARRAY)


def test_a_read_only_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "x.npy"
    write_members(str(path), {"": np.zeros(3)})
    monkeypatch.setattr("jobrun.formats.load_save.os.access", lambda *_: False)

    with pytest.raises(EnvironmentFaultError) as caught:
        write_members(str(path), {"": np.ones(3)})

    assert caught.value.faults[0].code == "E285"
    assert np.load(path).tolist() == [0, 0, 0]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_an_empty_table_is_saved(tmp_path, shape):
    write_members(str(tmp_path / "x.csv"), {"": np.zeros(shape)})

    assert (tmp_path / "x.csv").read_text().strip() == ""
