from __future__ import annotations

from jobrun.tools.runs.tags import change_tags, tags_of
from jobrun.tools.sweeping.marks import mark, tags_for
from tests.support.sweeps import planned


def test_tags_name_the_sweep_and_each_value():
    assert tags_for("grow", planned(k=3, rate=0.5)) == ("sweep=grow", "k=3", "rate=0.5")


def test_what_cannot_stand_in_a_tag_is_replaced(tmp_path):
    mark(tmp_path, "grow", planned(path="a b/ü", rate=1e30, long="x" * 99))

    assert tags_of(tmp_path) == ("long=" + "x" * 59, "path=a_b_", "rate=1e_30", "sweep=grow")


def test_tags_of_a_person_stay(tmp_path):
    change_tags(tmp_path, ("mine",), ())

    mark(tmp_path, "grow", planned(k=1))

    assert tags_of(tmp_path) == ("k=1", "mine", "sweep=grow")


def test_a_run_that_is_gone_is_passed_over(tmp_path):
    mark(tmp_path / "gone", "grow", planned(k=1))

    assert not (tmp_path / "gone").exists()
