from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.object_references import Reference
from jobrun.checkpoint.stores.object_store import object_name
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.object_url import parse_object_url
from jobrun.session.node_files.file_chunks import read_chunk
from jobrun.session.node_files.node_dir import NodeDirectory
from jobrun.session.wire.file_messages import UploadedSave, WorkerFileSetup
from jobrun.session.wire.rpc import Reply
from tests.support.checkpoints import write


def made(tmp_path, incarnation=1, node="a"):
    return NodeDirectory(node, WorkerFileSetup(incarnation, str(tmp_path / "v" / "jobrun-r")))


def answered(value) -> Reply:
    answer = Reply()
    answer.put((True, value))
    return answer


def test_without_one_files_are_where_the_master_says(tmp_path):
    one = NodeDirectory()

    assert one.stage("/x/.tmp-1") == "/x/.tmp-1"
    with one.local_copy("/x/a.h5", lambda offset: Reply(), Reply) as path:
        assert path == "/x/a.h5"
    one.forget(".tmp-1")
    one.close()


def test_what_is_written_is_told_with_its_save_and_incarnation(tmp_path):
    one = made(tmp_path, 4)
    (staged := tmp_path / one.stage("save") / "a.h5").write_bytes(b"bytes")

    piece = one.read_chunk("save", "a.h5", 1)

    assert (piece.token, piece.incarnation, piece.name) == ("save", 4, "a.h5")
    assert (piece.offset, piece.size_bytes, piece.data.tobytes()) == (1, 5, b"ytes")
    one.forget("save")
    assert not staged.parent.exists()
    with pytest.raises(EnvironmentFaultError) as caught:
        one.read_chunk("save", "a.h5", 0)
    assert caught.value.faults[0].code == "E327"


def test_nodes_that_share_a_place_write_for_one_save_side_by_side(tmp_path):
    one = made(tmp_path)

    assert one.stage("save") == one.stage("save")


def test_names_from_elsewhere_do_not_lead_out_of_it(tmp_path):
    one = made(tmp_path)
    (tmp_path / "secret").write_text("s")

    with pytest.raises(EnvironmentFaultError):
        one.read_chunk("../../../..", "../secret", 0)


def test_a_new_incarnation_removes_what_earlier_ones_left_and_nothing_of_other_nodes(tmp_path):
    first, other = made(tmp_path), made(tmp_path, 2, "b")
    first.stage("old")
    kept = other.stage("mine")
    first.unlock()

    second = made(tmp_path, 3)

    assert [path.name[:2] for path in (tmp_path / "v" / "jobrun-r" / "a").iterdir()] == ["3-"]
    assert (tmp_path / kept).is_dir()
    second.close()
    other.close()
    assert list((tmp_path / "v").iterdir()) == []


def test_what_a_live_process_has_there_stays_whoever_begins_beside_it(tmp_path):
    first = made(tmp_path)
    kept = first.stage("mine")

    copied = made(tmp_path)

    assert (tmp_path / kept).is_dir()
    copied.close()
    assert (tmp_path / kept).is_dir()
    first.unlock()
    made(tmp_path).close()
    assert list((tmp_path / "v").iterdir()) == []


def test_what_somebody_is_just_making_there_stays_when_another_ends(tmp_path):
    one = made(tmp_path)
    node = tmp_path / "v" / "jobrun-r" / "a"
    making = os.open(node, os.O_RDONLY)
    fcntl.flock(making, fcntl.LOCK_EX)
    (node / "2-new").mkdir()

    one.close()

    assert [path.name for path in node.iterdir()] == ["2-new"]
    os.close(making)


def test_a_file_of_the_master_is_here_while_it_is_read(tmp_path):
    source = tmp_path / "a.h5"
    source.write_bytes(b"epoch")

    def ask(offset):
        return answered(read_chunk(str(source), offset))

    with made(tmp_path).local_copy(str(source), ask, lambda: answered(None)) as path:
        assert path != str(source)
        assert (tmp_path / path).read_bytes() == b"epoch"
    assert not (tmp_path / path).exists()


@pytest.fixture
def place(tmp_path):
    return parse_object_url(f"memory://{tmp_path.name}/runs/r")


def test_a_file_that_is_in_an_object_store_is_fetched_from_there(tmp_path, place):
    Bucket(place).put_new("epoch-000004/a.0.h5", b"epoch")
    where = answered(Reference(place, "epoch-000004/a.0.h5"))

    with made(tmp_path).local_copy("/x/a.h5", lambda offset: Reply(), lambda: where) as path:
        assert (tmp_path / path).read_bytes() == b"epoch"
    assert not (tmp_path / path).exists()


def test_what_is_written_is_brought_to_the_object_store_and_told(tmp_path, place):
    one = NodeDirectory(
        "a", WorkerFileSetup(4, str(tmp_path / "v" / "jobrun-r"), objects=str(place))
    )
    staged = Path(one.stage("save"))
    save = NodeSave(write(staged, node="a"), copy_s=1.0)

    brought = one.upload("/there/save", 3, (save,))

    assert brought == UploadedSave("save", 4, (save,))
    assert list(staged.iterdir()) == []
    assert Bucket(place).list() == {object_name(3, save.file): save.file.size_bytes}
    assert made(tmp_path, 5, "b").upload("save", 3, (save,)) == (save,)


def test_what_is_not_as_it_was_written_is_not_brought(tmp_path, place):
    one = NodeDirectory(
        "a", WorkerFileSetup(4, str(tmp_path / "v" / "jobrun-r"), objects=str(place))
    )
    staged = Path(one.stage("save"))
    save = NodeSave(write(staged, node="a"))
    with (staged / "a.h5").open("r+b") as file:
        file.seek(save.file.size_bytes // 2)
        file.write(b"other")

    with pytest.raises(EnvironmentFaultError) as caught:
        one.upload("save", 3, (save,))

    assert caught.value.faults[0].code == "E327"
    assert Bucket(place).list() == {}


def test_a_place_of_somebody_else_or_a_file_is_refused(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "jobrun-r").symlink_to(tmp_path)

    with pytest.raises(EnvironmentFaultError) as caught:
        made(tmp_path)
    assert caught.value.faults[0].code == "E313"

    (tmp_path / "w").write_text("")
    with pytest.raises(EnvironmentFaultError, match="node 'a'"):
        NodeDirectory("a", WorkerFileSetup(1, str(tmp_path / "w" / "jobrun-r")))
