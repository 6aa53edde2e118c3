"""Several runs side by side."""

from __future__ import annotations

import pytest

from jobrun.tools.report.page import difference_sections, summary
from tests.support.reports import a_report


@pytest.fixture
def pair():
    return a_report(), a_report("--set", "params.lr=0.25")


def _parts(pair):
    return {identity: content for identity, _, content in difference_sections(pair)}


def test_each_run_has_a_line(pair):
    for one in pair:
        assert one.run.name in summary(pair)


def test_only_what_differs_is_listed(pair):
    found = _parts(pair)

    assert "<td>lr</td><td>0.5</td><td>0.25</td>" in found["params"]
    assert "note" not in found["params"].replace('class="note"', "")
    assert "All runs are alike" in found["environment"]


def test_last_values_stand_next_to_each_other(pair):
    assert "<td>x</td><td>0.5</td><td>0.03125</td>" in _parts(pair)["last"]


def test_spec_and_state_are_compared_with_the_first(pair):
    found = _parts(pair)["differences"]

    assert "<code>params.lr</code>" in found
    assert "2 of 3 blobs have the same bits" in found
    assert "<td>local.x</td><td>1 of 1</td>" in found


def test_a_run_is_like_itself(pair):
    assert "The same spec and code." in _parts((pair[0], pair[0]))["differences"]
