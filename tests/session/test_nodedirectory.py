from __future__ import annotations

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.session.calls import Answer
from jobrun.session.nodedirectory import NodeDirectory
from jobrun.session.nodefiles import Footing
from jobrun.session.pieces import read_piece


def made(tmp_path, incarnation=1, node="a"):
    return NodeDirectory(node, Footing(incarnation, str(tmp_path / "v" / "jobrun-r")))


def test_without_one_files_are_where_the_master_says(tmp_path):
    one = NodeDirectory()

    assert one.stage("/x/.tmp-1") == "/x/.tmp-1"
    with one.landed("/x/a.h5", lambda offset: Answer()) as path:
        assert path == "/x/a.h5"
    one.forget(".tmp-1")
    one.close()


def test_what_is_written_is_told_with_its_save_and_incarnation(tmp_path):
    one = made(tmp_path, 4)
    (staged := tmp_path / one.stage("save") / "a.h5").write_bytes(b"bytes")

    piece = one.piece("save", "a.h5", 1)

    assert (piece.token, piece.incarnation, piece.name) == ("save", 4, "a.h5")
    assert (piece.offset, piece.size_bytes, piece.data.tobytes()) == (1, 5, b"ytes")
    one.forget("save")
    assert not staged.parent.exists()
    with pytest.raises(EnvironmentFaultError) as caught:
        one.piece("save", "a.h5", 0)
    assert caught.value.faults[0].code == "E327"


def test_nodes_that_share_a_place_write_for_one_save_side_by_side(tmp_path):
    one = made(tmp_path)

    assert one.stage("save") == one.stage("save")


def test_names_from_elsewhere_do_not_lead_out_of_it(tmp_path):
    one = made(tmp_path)
    (tmp_path / "secret").write_text("s")

    with pytest.raises(EnvironmentFaultError):
        one.piece("../../../..", "../secret", 0)


def test_a_new_incarnation_removes_what_earlier_ones_left_and_nothing_of_other_nodes(tmp_path):
    first, other = made(tmp_path), made(tmp_path, 2, "b")
    first.stage("old")
    kept = other.stage("mine")

    second = made(tmp_path, 3)

    assert [path.name[:2] for path in (tmp_path / "v" / "jobrun-r" / "a").iterdir()] == ["3-"]
    assert (tmp_path / kept).is_dir()
    second.close()
    other.close()
    assert list((tmp_path / "v").iterdir()) == []


def test_a_file_of_the_master_is_here_while_it_is_read(tmp_path):
    source = tmp_path / "a.h5"
    source.write_bytes(b"epoch")

    def ask(offset):
        answer = Answer()
        answer.put((True, read_piece(str(source), offset)))
        return answer

    with made(tmp_path).landed(str(source), ask) as path:
        assert path != str(source)
        assert (tmp_path / path).read_bytes() == b"epoch"
    assert not (tmp_path / path).exists()


def test_a_place_of_somebody_else_or_a_file_is_refused(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "jobrun-r").symlink_to(tmp_path)

    with pytest.raises(EnvironmentFaultError) as caught:
        made(tmp_path)
    assert caught.value.faults[0].code == "E313"

    (tmp_path / "w").write_text("")
    with pytest.raises(EnvironmentFaultError, match="node 'a'"):
        NodeDirectory("a", Footing(1, str(tmp_path / "w" / "jobrun-r")))
