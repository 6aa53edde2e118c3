"""What a report shows, as values for JSON."""

from __future__ import annotations

import json

from jobrun.cli.formatting import render_json
from jobrun.tools.report.report_json import report_values
from tests.support.reports import HOSTILE, a_report


def test_all_that_the_page_shows_is_there():
    (run,) = json.loads(render_json(report_values([a_report()])))["runs"]

    assert run["params"] == {"lr": 0.5, "note": HOSTILE}
    assert run["metrics_last"]["x"] == 0.5
    assert [expectation["held"] for expectation in run["expectations"]] == [True, False]
    assert [epoch["epoch"] for epoch in run["history"]["epochs"]] == [1, 2, 3, 4]
    assert [blob["name"] for blob in run["blobs"]] == ["t", "w", "x"]
    assert run["checkpoint_epochs"] == [0, 1, 2, 3, 4]


def test_values_that_json_has_no_number_for_are_text():
    content = json.loads(render_json(report_values([a_report()])))

    assert content["charts"][0]["curves"][0]["y"][1] == "nan"
