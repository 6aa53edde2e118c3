from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobrun.blobs.values import same_bits
from jobrun.checkpoint.directory import DirectoryStore
from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.divided import FilePart
from jobrun.graph.steps import LoadState
from jobrun.session import collecting
from jobrun.session.collecting import expect_seen, given_piece, probing, sees
from jobrun.session.nodefiles import NodeFiles
from jobrun.session.processes import ProcessesSession
from jobrun.session.share import shares_of
from tests.session.contract import Room, _saving, _stored
from tests.support.graphs import group, task

STATE = (("a", ("w",)), ("b", ("w",)))


def share_of(step):
    one = replace(task("t", "x = 1", node="a"), steps=(step,))
    return shares_of(group(one)).by_node["a"]


def test_a_node_gets_the_files_that_it_loads_and_no_others(tmp_path):
    names = ("a.h5", "part.h5", "other")
    for name in names:
        (tmp_path / name).write_text(name)
    own, part, other = (str(tmp_path / name) for name in names)
    step = LoadState(own, ("w",), 4, "r", "", parts=(FilePart(part, "b", "", ()),))

    share = share_of(step)

    assert given_piece(share, own, 0).data.tobytes() == b"a.h5"
    assert given_piece(share, part, 0).data.tobytes() == b"part.h5"
    with pytest.raises(RuntimeError, match="does not load"):
        given_piece(share, other, 0)


def test_whoever_sees_the_probe_sees_the_directory(tmp_path):
    with probing(str(tmp_path / "checkpoints")) as probe:
        assert sees(probe)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    with probing("") as nothing:
        assert sees(nothing)


def test_another_file_of_that_name_is_not_the_probe(tmp_path, monkeypatch):
    monkeypatch.setattr(collecting, "_LOOK_S", 0)
    with probing(str(tmp_path)) as probe:
        assert not sees(replace(probe, said="something else"))
    assert not sees(probe)


def test_a_probe_that_a_kill_left_is_swept_with_the_other_leftovers(tmp_path):
    with probing(str(tmp_path)) as probe:
        assert DirectoryStore(str(tmp_path)).sweep() == (Path(probe.path).name,)


def test_a_node_that_sees_nothing_is_named_with_the_ways_out():
    expect_seen({"a": True, "b": True}, "/runs")

    with pytest.raises(EnvironmentFaultError, match="node 'b' does not see /runs") as caught:
        expect_seen({"a": True, "b": False}, "/runs")
    (fault,) = caught.value.faults
    assert fault.code == "E397"
    assert "node_dir" in fault.mend


@pytest.fixture
def room(tmp_path):
    session = ProcessesSession()
    files = NodeFiles(("a", "b"), node_dir=str(tmp_path / "own" / "jobrun-r"))
    yield Room(session, tmp_path, "a", "b", files=files)
    session.close()
    assert list((tmp_path / "own").iterdir()) == []


def tickets_of(room):
    room.init("w = zeros(5) + 1", "w", "a")
    room.init("w = zeros(5) + 2", "w", "b")
    return tuple(room.run(_saving(STATE), 4).values())


@pytest.mark.long
def test_what_another_incarnation_has_written_is_refused_and_the_next_try_is_not(room, tmp_path):
    tickets = tickets_of(room)
    link = room.session._links["b"]
    link.incarnation += 1
    (first := tmp_path / "first").mkdir()

    with pytest.raises(EnvironmentFaultError, match="incarnation") as caught:
        room.session.persist(tickets, str(first))

    assert caught.value.faults[0].code == "E327"
    link.incarnation -= 1
    (second := tmp_path / "second").mkdir()
    saves = room.session.persist(tickets, str(second))
    values = _stored(second, saves[1].file, dict(STATE))
    assert same_bits(values["w"], np.zeros(5) + 2)


@pytest.mark.long
def test_a_file_that_is_damaged_on_its_way_is_refused(room, tmp_path, monkeypatch):
    tickets = tickets_of(room)
    write = collecting.write_pieces

    def damaging(target, *rest):
        size = write(target, *rest)
        with target.open("r+b") as file:
            file.seek(size // 2)
            byte = file.read(1)[0]
            file.seek(size // 2)
            file.write(bytes([byte ^ 1]))
        return size

    monkeypatch.setattr(collecting, "write_pieces", damaging)
    (staged := tmp_path / "staged").mkdir()

    with pytest.raises(EnvironmentFaultError) as caught:
        room.session.persist(tickets, str(staged))

    assert {fault.code for fault in caught.value.faults} == {"E327"}
