"""The checkpoints of a run as markup."""

from __future__ import annotations

from dataclasses import replace

from jobrun.tools.report.report_data import Stored
from jobrun.tools.report.run_history import History
from jobrun.tools.report.sections import blob_cards, stored_section
from tests.support.reports import a_report


def test_every_blob_has_a_card_with_its_drawings():
    report = a_report()
    found = stored_section(report.stored, report.history)

    assert "5 epochs are stored, 0 to 4." in found
    assert found.count('class="blob"') == 3
    assert found.count("data:image/png;base64,") == 2
    assert 'aria-label="histogram of w: ' in found


def test_a_single_value_is_shown_and_a_text_is_escaped():
    cards = blob_cards(a_report().stored.blobs)

    assert "<code>0.5</code>" in cards
    assert "<img src=x" not in cards


def test_why_there_is_nothing_to_see_is_said():
    assert "no checkpoint" in stored_section(Stored(), History())
    assert "broken &lt;b&gt;" in stored_section(Stored((1,), fault="broken <b>"), History())


def test_blobs_of_several_nodes_are_told_apart():
    one = a_report().stored.blobs[1]

    assert "<h4>m.w</h4>" in blob_cards((one, replace(one, node="m")))


def test_very_many_blobs_are_cut_and_it_says_so():
    blobs = a_report().stored.blobs

    assert blob_cards((blobs[0],) * 700).endswith("<p>and 100 more blobs</p>")
