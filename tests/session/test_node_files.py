from __future__ import annotations

import fcntl
import os
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.stores.object_references import Reference, write_reference
from jobrun.checkpoint.stores.object_store import object_name, upload_file
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.object_url import parse_object_url
from jobrun.graph.steps import FilePart, LoadState
from jobrun.session import node_files
from jobrun.session.base import NodeFiles
from jobrun.session.node_files import (
    NodeDirectory,
    is_visible,
    read_chunk,
    require_visible,
    serve_chunk,
    serve_reference,
    upload_from_nodes,
    write_probe,
)
from jobrun.session.processes.session import ProcessesSession
from jobrun.session.wire.file_messages import UploadedSave, WorkerFileSetup
from jobrun.session.wire.partition_group import partition_group
from jobrun.session.wire.rpc import Reply
from jobrun.testing.graphs import group, task
from jobrun.testing.sessions import SessionHarness, read_saved, saving_group
from jobrun.testing.stores import RUN_ID
from jobrun.values.compare import same_bits
from tests.support.checkpoints import write

STATE = (("a", ("w",)), ("b", ("w",)))


def share_of(step):
    loading = replace(task("t", "x = 1", node="a"), steps=(step,))
    return partition_group(group(loading)).by_node["a"]


def test_a_node_gets_the_files_that_it_loads_and_no_others(tmp_path):
    names = ("a.h5", "part.h5", "other")
    for name in names:
        (tmp_path / name).write_text(name)
    loaded, part, other = (str(tmp_path / name) for name in names)
    step = LoadState(loaded, ("w",), 4, "r", "", parts=(FilePart(part, "b", "", ()),))

    share = share_of(step)

    assert serve_chunk(share, loaded, 0).data.tobytes() == b"a.h5"
    assert serve_chunk(share, part, 0).data.tobytes() == b"part.h5"
    with pytest.raises(RuntimeError, match="does not load"):
        serve_chunk(share, other, 0)


def test_node_that_sees_the_probe_sees_the_directory(tmp_path):
    with write_probe(str(tmp_path / "checkpoints")) as probe:
        assert is_visible(probe)
    assert list((tmp_path / "checkpoints").iterdir()) == []
    with write_probe("") as nothing:
        assert is_visible(nothing)


def test_another_file_of_that_name_is_not_the_probe(tmp_path, monkeypatch):
    monkeypatch.setattr(node_files, "_LOOK_S", 0)
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
def url(tmp_path):
    return parse_object_url(f"memory://{tmp_path.name}/r")


def brought(tmp_path, url, incarnation=3):
    def bring(node, token):
        file = write(tmp_path, node=node)
        upload_file(url, 3, file, str(tmp_path / file.name))
        return UploadedSave(token, incarnation, (NodeSave(file),))

    return bring


def test_master_writes_references_to_uploaded_files(tmp_path, url):
    (staged := tmp_path / ".tmp-save").mkdir()
    link = FarNode("a", 3, brought(tmp_path, url))
    tickets = [Ticket(node, 3, number) for number, node in enumerate(("a", "b"))]

    saves = upload_from_nodes(tickets, str(staged), str(url), lambda node: link)

    assert [save.file.node for save in saves] == ["a", "b"]
    assert sorted(path.name for path in staged.iterdir()) == ["a.h5.url", "b.h5.url"]
    assert link.sent == [("forget_save", ".tmp-save")]
    manifest = Manifest(3, RUN_ID, 0, tuple(save.file for save in saves), "")
    store = DirectoryStore(str(tmp_path))
    store.commit(str(staged), manifest)
    assert store.verify(3) is None


@pytest.mark.parametrize("foreign", ["another save", "another incarnation"])
def test_upload_for_another_save_or_incarnation_is_refused(tmp_path, url, foreign):
    (staged := tmp_path / ".tmp-save").mkdir()
    bring = brought(tmp_path, url, 2 if foreign == "another incarnation" else 3)
    token = {"another save": ".tmp-before"}.get(foreign, ".tmp-save")
    link = FarNode("a", 3, lambda node, _: bring(node, token))

    with pytest.raises(EnvironmentFaultError, match="was to be of save") as caught:
        upload_from_nodes([Ticket("a", 3, 1)], str(staged), str(url), lambda node: link)

    assert caught.value.faults[0].code == "E327"
    assert list(staged.iterdir()) == []


def test_node_gets_references_only_to_files_that_it_loads(tmp_path, url):
    reference = Reference(url, "epoch-000004/a.0.h5")
    for name in ("a.h5", "b.h5"):
        write_reference(tmp_path / name, reference)
    (tmp_path / "b.h5").write_text("here")
    loaded, here = (str(tmp_path / name) for name in ("a.h5", "b.h5"))
    share = share_of(LoadState(loaded, ("w",), 4, "r", "", parts=(FilePart(here, "b", "", ()),)))

    assert serve_reference(share, loaded) == reference
    assert serve_reference(share, here) is None
    with pytest.raises(RuntimeError, match="does not load"):
        serve_reference(share, str(tmp_path / "c.h5"))


@pytest.mark.long
def test_file_of_another_incarnation_is_refused_and_a_retry_accepted(harness, tmp_path):
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
    write = node_files.write_chunks

    def damaging(target, *arguments):
        size = write(target, *arguments)
        with target.open("r+b") as file:
            file.seek(size // 2)
            byte = file.read(1)[0]
            file.seek(size // 2)
            file.write(bytes([byte ^ 1]))
        return size

    monkeypatch.setattr(node_files, "write_chunks", damaging)
    (staged := tmp_path / "staged").mkdir()

    with pytest.raises(EnvironmentFaultError) as caught:
        harness.session.persist(tickets, str(staged))

    assert {fault.code for fault in caught.value.faults} == {"E327"}


def node_directory(tmp_path, incarnation=1, node="a"):
    return NodeDirectory(node, WorkerFileSetup(incarnation, str(tmp_path / "v" / "jobrun-r")))


def answered(value) -> Reply:
    answer = Reply()
    answer.put((True, value))
    return answer


def test_without_node_dir_files_are_in_the_master_directory(tmp_path):
    directory = NodeDirectory()

    assert directory.stage("/x/.tmp-1") == "/x/.tmp-1"
    with directory.local_copy("/x/a.h5", lambda offset: Reply(), Reply) as path:
        assert path == "/x/a.h5"
    directory.forget(".tmp-1")
    directory.close()


def test_chunk_has_save_and_incarnation(tmp_path):
    directory = node_directory(tmp_path, 4)
    (staged := tmp_path / directory.stage("save") / "a.h5").write_bytes(b"bytes")

    piece = directory.read_chunk("save", "a.h5", 1)

    assert (piece.token, piece.incarnation, piece.name) == ("save", 4, "a.h5")
    assert (piece.offset, piece.size_bytes, piece.data.tobytes()) == (1, 5, b"ytes")
    directory.forget("save")
    assert not staged.parent.exists()
    with pytest.raises(EnvironmentFaultError) as caught:
        directory.read_chunk("save", "a.h5", 0)
    assert caught.value.faults[0].code == "E327"


def test_nodes_that_share_a_place_write_for_one_save_side_by_side(tmp_path):
    directory = node_directory(tmp_path)

    assert directory.stage("save") == directory.stage("save")


def test_foreign_names_cannot_leave_the_directory(tmp_path):
    directory = node_directory(tmp_path)
    (tmp_path / "secret").write_text("s")

    with pytest.raises(EnvironmentFaultError):
        directory.read_chunk("../../../..", "../secret", 0)


def test_a_new_incarnation_removes_what_earlier_ones_left_and_nothing_of_other_nodes(tmp_path):
    first, other = node_directory(tmp_path), node_directory(tmp_path, 2, "b")
    first.stage("old")
    staged = other.stage("mine")
    first.unlock()

    second = node_directory(tmp_path, 3)

    assert [path.name[:2] for path in (tmp_path / "v" / "jobrun-r" / "a").iterdir()] == ["3-"]
    assert (tmp_path / staged).is_dir()
    second.close()
    other.close()
    assert list((tmp_path / "v").iterdir()) == []


def test_files_of_a_live_process_stay_when_another_starts(tmp_path):
    first = node_directory(tmp_path)
    staged = first.stage("mine")

    copied = node_directory(tmp_path)

    assert (tmp_path / staged).is_dir()
    copied.close()
    assert (tmp_path / staged).is_dir()
    first.unlock()
    node_directory(tmp_path).close()
    assert list((tmp_path / "v").iterdir()) == []


def test_directory_being_created_stays_when_another_process_ends(tmp_path):
    directory = node_directory(tmp_path)
    node = tmp_path / "v" / "jobrun-r" / "a"
    making = os.open(node, os.O_RDONLY)
    fcntl.flock(making, fcntl.LOCK_EX)
    (node / "2-new").mkdir()

    directory.close()

    assert [path.name for path in node.iterdir()] == ["2-new"]
    os.close(making)


def test_a_file_of_the_master_is_here_while_it_is_read(tmp_path):
    source = tmp_path / "a.h5"
    source.write_bytes(b"epoch")

    def ask(offset):
        return answered(read_chunk(str(source), offset))

    with node_directory(tmp_path).local_copy(str(source), ask, lambda: answered(None)) as path:
        assert path != str(source)
        assert (tmp_path / path).read_bytes() == b"epoch"
    assert not (tmp_path / path).exists()


def test_a_file_that_is_in_an_object_store_is_fetched_from_there(tmp_path, url):
    Bucket(url).put_new("epoch-000004/a.0.h5", b"epoch")
    where = answered(Reference(url, "epoch-000004/a.0.h5"))

    with node_directory(tmp_path).local_copy(
        "/x/a.h5", lambda offset: Reply(), lambda: where
    ) as path:
        assert (tmp_path / path).read_bytes() == b"epoch"
    assert not (tmp_path / path).exists()


def test_written_file_is_uploaded_and_reported(tmp_path, url):
    directory = NodeDirectory(
        "a", WorkerFileSetup(4, str(tmp_path / "v" / "jobrun-r"), objects=str(url))
    )
    staged = Path(directory.stage("save"))
    save = NodeSave(write(staged, node="a"), copy_s=1.0)

    brought = directory.upload("/there/save", 3, (save,))

    assert brought == UploadedSave("save", 4, (save,))
    assert list(staged.iterdir()) == []
    assert Bucket(url).list() == {object_name(3, save.file): save.file.size_bytes}
    assert node_directory(tmp_path, 5, "b").upload("save", 3, (save,)) == (save,)


def test_changed_file_is_not_uploaded(tmp_path, url):
    directory = NodeDirectory(
        "a", WorkerFileSetup(4, str(tmp_path / "v" / "jobrun-r"), objects=str(url))
    )
    staged = Path(directory.stage("save"))
    save = NodeSave(write(staged, node="a"))
    with (staged / "a.h5").open("r+b") as file:
        file.seek(save.file.size_bytes // 2)
        file.write(b"other")

    with pytest.raises(EnvironmentFaultError) as caught:
        directory.upload("save", 3, (save,))

    assert caught.value.faults[0].code == "E327"
    assert Bucket(url).list() == {}


def test_directory_of_another_user_or_a_file_is_refused(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "jobrun-r").symlink_to(tmp_path)

    with pytest.raises(EnvironmentFaultError) as caught:
        node_directory(tmp_path)
    assert caught.value.faults[0].code == "E313"

    (tmp_path / "w").write_text("")
    with pytest.raises(EnvironmentFaultError, match="node 'a'"):
        NodeDirectory("a", WorkerFileSetup(1, str(tmp_path / "w" / "jobrun-r")))
