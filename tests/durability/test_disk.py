"""The model of a disk: what it must keep, and what it may lose."""

from __future__ import annotations

import random

import pytest

from tests.durability.disk import Crash, Disk
from tests.durability.state_sampling import sampled, telling
from tests.support.call_recorder import Change


class Scripted:
    """A disk to which calls are applied as if they had been recorded."""

    def __init__(self, root, model="weak"):
        (root / "old").write_bytes(b"old")
        self._root = root
        self._inodes = {"": root.stat().st_ino, "old": (root / "old").stat().st_ino}
        self.model = model
        self.disk = Disk(root, model)

    def do(self, kind, name="", other="", offset=0, data=b""):
        if kind in {"created", "made"}:
            self._inodes[name] = 1 << 40 | len(self._inodes)
        if kind == "renamed":
            self._inodes[other] = self._inodes[name]
        paths = (str(self._root / name), str(self._root / other) if other else "")
        self.disk.apply(Change(kind, self._inodes[name], *paths, offset, data))

    def states(self):
        """Every state that is looked at: by path what is in the file."""
        crashes = [
            *telling(self.disk, self.model),
            *sampled(self.disk, self.model, random.Random(1), 200),
        ]
        return [
            {
                path: self.disk.content(number, loss)
                for path, number, loss in self.disk.files(crash)
                if not path.endswith("/")
            }
            for crash in crashes
        ]


@pytest.fixture(params=["weak", "ordered"])
def scripted(request, tmp_path):
    return Scripted(tmp_path, request.param)


def test_untouched_files_are_in_every_crash_state(scripted):
    scripted.do("created", "new")

    assert all(state["old"] == b"old" for state in scripted.states())


def test_bytes_that_are_not_synced_may_be_lost_though_the_name_is_there(scripted):
    scripted.do("created", "new")
    scripted.do("written", "new", data=b"data")
    scripted.do("synced", "")

    assert {state["new"] for state in scripted.states()} >= {b"", b"data"}


def test_synced_bytes_under_a_synced_name_are_in_every_state(scripted):
    scripted.do("created", "new")
    scripted.do("written", "new", data=b"data")
    scripted.do("synced", "new")
    scripted.do("synced", "")

    assert {state["new"] for state in scripted.states()} == {b"data"}


def test_a_name_that_is_not_synced_may_be_lost_though_the_bytes_are(scripted):
    scripted.do("created", "new")
    scripted.do("written", "new", data=b"data")
    scripted.do("synced", "new")

    assert {"new" in state for state in scripted.states()} == {True, False}


def test_rename_is_atomic(scripted):
    scripted.do("created", "new")
    scripted.do("synced", "")
    scripted.do("renamed", "new", "old")

    for state in scripted.states():
        assert state in ({"old": b"old", "new": b""}, {"old": b""})


def test_only_the_ordered_model_keeps_earlier_names(scripted):
    scripted.do("created", "a")
    scripted.do("created", "b")

    alone = any("b" in state and "a" not in state for state in scripted.states())

    assert alone == (scripted.model == "weak")


def test_sectors_are_lost_one_by_one(tmp_path):
    scripted = Scripted(tmp_path)
    scripted.do("created", "new")
    scripted.do("written", "new", data=b"x" * 2048)
    scripted.do("synced", "")

    mixed = {
        tuple(state["new"][at : at + 1] == b"x" for at in range(0, 2048, 512))
        for state in scripted.states()
        if len(state["new"]) == 2048
    }

    assert len(mixed) > 4


def test_state_is_written_as_described(tmp_path):
    root, target = tmp_path / "root", tmp_path / "state"
    root.mkdir()
    scripted = Scripted(root)
    scripted.do("made", "folder")
    scripted.do("created", "folder/new")
    scripted.do("written", "folder/new", data=b"data")

    scripted.disk.write(Crash(frozenset({0, 1})), target)

    assert (target / "folder" / "new").read_bytes() == b"data"
    assert (target / "old").read_bytes() == b"old"
