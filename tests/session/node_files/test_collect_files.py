from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.store import Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.object_references import Reference, write_reference
from jobrun.checkpoint.stores.object_store import upload_file
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.object_url import parse_object_url
from jobrun.graph.steps import FilePart, LoadState
from jobrun.session.node_files import collect_files as collecting
from jobrun.session.node_files.collect_files import (
    is_visible,
    require_visible,
    serve_chunk,
    serve_reference,
    upload_from_nodes,
    write_probe,
)
from jobrun.session.processes.session import ProcessesSession
from jobrun.session.wire.file_messages import NodeFiles, UploadedSave
from jobrun.session.wire.partition_group import partition_group
from jobrun.session.wire.rpc import Reply
from jobrun.testing.graphs import group, task
from jobrun.testing.sessions import SessionHarness, read_saved, saving_group
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import same_bits
from tests.support.checkpoints import write

STATE = (("a", ("w",)), ("b", ("w",)))


def share_of(step):
    one = replace(task("t", "x = 1", node="a"), steps=(step,))
    return partition_group(group(one)).by_node["a"]


def test_a_node_gets_the_files_that_it_loads_and_no_others(tmp_path):
    names = ("a.h5", "part.h5", "other")
    for name in names:
        (tmp_path / name).write_text(name)
    own, part, other = (str(tmp_path / name) for name in names)
    step = LoadState(own, ("w",), 4, "r", "", parts=(FilePart(part, "b", "", ()),))

    share = share_of(step)

    assert serve_chunk(share, own, 0).data.tobytes() == b"a.h5"
    assert serve_chunk(share, part, 0).data.tobytes() == b"part.h5"
    with pytest.raises(RuntimeError, match="does not load"):
        serve_chunk(share, other, 0)


def test_whoever_sees_the_probe_sees_the_directory(tmp_path):
    with write_probe(str(tmp_path / "checkpoints")) as probe:
        assert is_visible(probe)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    with write_probe("") as nothing:
        assert is_visible(nothing)


def test_another_file_of_that_name_is_not_the_probe(tmp_path, monkeypatch):
    monkeypatch.setattr(collecting, "_LOOK_S", 0)
    with write_probe(str(tmp_path)) as probe:
        assert not is_visible(replace(probe, content="something else"))
    assert not is_visible(probe)


def test_a_probe_that_a_kill_left_is_swept_with_the_other_leftovers(tmp_path):
    with write_probe(str(tmp_path)) as probe:
        assert DirectoryStore(str(tmp_path)).sweep() == (Path(probe.path).name,)


def test_a_node_that_sees_nothing_is_named_with_the_ways_out():
    require_visible({"a": True, "b": True}, "/runs")

    with pytest.raises(EnvironmentFaultError, match="node 'b' does not see /runs") as caught:
        require_visible({"a": True, "b": False}, "/runs")
    (fault,) = caught.value.faults
    assert fault.code == "E397"
    assert "node_dir" in fault.mend


@pytest.fixture
def harness(tmp_path):
    session = ProcessesSession()
    files = NodeFiles(("a", "b"), node_dir=str(tmp_path / "own" / "jobrun-r"))
    yield SessionHarness(session, tmp_path, "a", "b", files=files)
    session.close()
    assert list((tmp_path / "own").iterdir()) == []


def tickets_of(harness):
    harness.init("w = zeros(5) + 1", "w", "a")
    harness.init("w = zeros(5) + 2", "w", "b")
    return tuple(harness.run(saving_group(STATE), 4).values())


class FarNode:
    """A link to a node that has brought its file already, and says so in the words of a test."""

    def __init__(self, node, incarnation, brought):
        self.node, self.incarnation, self.sent = node, incarnation, []
        self.rpc = self
        self._brought = brought

    def call(self, kind, tickets, token):
        (answer := Reply()).put((True, self._brought(tickets[0].node, token)))
        return answer

    def send(self, *message):
        self.sent.append(message)


@pytest.fixture
def place(tmp_path):
    return parse_object_url(f"memory://{tmp_path.name}/r")


def brought(tmp_path, place, incarnation=3):
    def bring(node, token):
        file = write(tmp_path, node=node)
        upload_file(place, 3, file, str(tmp_path / file.name))
        return UploadedSave(token, incarnation, (NodeSave(file),))

    return bring


def test_where_nodes_bring_files_only_that_is_noted_here(tmp_path, place):
    (staged := tmp_path / ".tmp-save").mkdir()
    link = FarNode("a", 3, brought(tmp_path, place))
    tickets = [Ticket(node, 3, number) for number, node in enumerate(("a", "b"))]

    saves = upload_from_nodes(tickets, str(staged), str(place), lambda node: link)

    assert [save.file.node for save in saves] == ["a", "b"]
    assert sorted(path.name for path in staged.iterdir()) == ["a.h5.url", "b.h5.url"]
    assert link.sent == [("forget_save", ".tmp-save")]
    manifest = Manifest(3, RUN_ID, 0, tuple(save.file for save in saves), "")
    store = DirectoryStore(str(tmp_path))
    store.commit(str(staged), manifest)
    assert store.verify(3) is None


@pytest.mark.parametrize("what", ["another save", "another incarnation"])
def test_what_was_brought_for_something_else_is_refused(tmp_path, place, what):
    (staged := tmp_path / ".tmp-save").mkdir()
    bring = brought(tmp_path, place, 2 if what == "another incarnation" else 3)
    token = {"another save": ".tmp-before"}.get(what, ".tmp-save")
    link = FarNode("a", 3, lambda node, _: bring(node, token))

    with pytest.raises(EnvironmentFaultError, match="was to be of save") as caught:
        upload_from_nodes([Ticket("a", 3, 1)], str(staged), str(place), lambda node: link)

    assert caught.value.faults[0].code == "E327"
    assert list(staged.iterdir()) == []


def test_a_node_is_told_where_the_files_are_that_it_loads_and_no_others(tmp_path, place):
    reference = Reference(place, "epoch-000004/a.0.h5")
    for name in ("a.h5", "b.h5"):
        write_reference(tmp_path / name, reference)
    (tmp_path / "b.h5").write_text("here")
    own, here = (str(tmp_path / name) for name in ("a.h5", "b.h5"))
    share = share_of(LoadState(own, ("w",), 4, "r", "", parts=(FilePart(here, "b", "", ()),)))

    assert serve_reference(share, own) == reference
    assert serve_reference(share, here) is None
    with pytest.raises(RuntimeError, match="does not load"):
        serve_reference(share, str(tmp_path / "c.h5"))


@pytest.mark.long
def test_what_another_incarnation_has_written_is_refused_and_the_next_try_is_not(harness, tmp_path):
    tickets = tickets_of(harness)
    link = harness.session._workers["b"]
    link.incarnation += 1
    (first := tmp_path / "first").mkdir()

    with pytest.raises(EnvironmentFaultError, match="incarnation") as caught:
        harness.session.persist(tickets, str(first))

    assert caught.value.faults[0].code == "E327"
    link.incarnation -= 1
    (second := tmp_path / "second").mkdir()
    saves = harness.session.persist(tickets, str(second))
    values = read_saved(second, saves[1].file, dict(STATE))
    assert same_bits(values["w"], np.zeros(5) + 2)


@pytest.mark.long
def test_a_file_that_is_damaged_on_its_way_is_refused(harness, tmp_path, monkeypatch):
    tickets = tickets_of(harness)
    write = collecting.write_chunks

    def damaging(target, *rest):
        size = write(target, *rest)
        with target.open("r+b") as file:
            file.seek(size // 2)
            byte = file.read(1)[0]
            file.seek(size // 2)
            file.write(bytes([byte ^ 1]))
        return size

    monkeypatch.setattr(collecting, "write_chunks", damaging)
    (staged := tmp_path / "staged").mkdir()

    with pytest.raises(EnvironmentFaultError) as caught:
        harness.session.persist(tickets, str(staged))

    assert {fault.code for fault in caught.value.faults} == {"E327"}
