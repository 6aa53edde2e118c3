from __future__ import annotations

import pytest

from jobrun.core.errors import UsageError
from jobrun.tools.runs.tag_and_remove_runs import change_tags, read_tags
from jobrun.tools.sweep.sweep_record import (
    SweepRequest,
    build_tags,
    read_request,
    sweep_folder,
    tag_run,
    write_request,
)
from tests.support.sweeps import planned


def test_what_was_asked_for_is_read_back(tmp_path):
    folder = sweep_folder(tmp_path, "grow")
    asked = SweepRequest(("k=1,2", "rate=0.1..1.0"), 5, 7)

    write_request(folder, asked)

    assert read_request(folder) == asked


@pytest.mark.parametrize("content", [None, "", "[]", '{"grid": 1}', '{"grid": []}'])
def test_a_sweep_that_is_not_there_or_damaged_has_to_be_asked_for_again(tmp_path, content):
    folder = sweep_folder(tmp_path, "grow")
    if content is not None:
        folder.mkdir(parents=True)
        (folder / "sweep.json").write_text(content)

    with pytest.raises(UsageError, match=r"E438.*--grid"):
        read_request(folder)


def test_tags_name_the_sweep_and_each_value():
    assert build_tags("grow", planned(k=3, rate=0.5)) == ("sweep=grow", "k=3", "rate=0.5")


def test_what_cannot_stand_in_a_tag_is_replaced(tmp_path):
    tag_run(tmp_path, "grow", planned(path="a b/ü", rate=1e30, long="x" * 99))

    assert read_tags(tmp_path) == ("long=" + "x" * 59, "path=a_b_", "rate=1e_30", "sweep=grow")


def test_tags_of_a_person_stay(tmp_path):
    change_tags(tmp_path, ("mine",), ())

    tag_run(tmp_path, "grow", planned(k=1))

    assert read_tags(tmp_path) == ("k=1", "mine", "sweep=grow")


def test_a_run_that_is_gone_is_passed_over(tmp_path):
    tag_run(tmp_path / "gone", "grow", planned(k=1))

    assert not (tmp_path / "gone").exists()
