"""The parts of a report about one run."""

from __future__ import annotations

import html
import re

from msgspec.structs import replace

from jobrun.tools.report.report_data import Stored
from jobrun.tools.report.run_history import History, Link, TaskTime
from jobrun.tools.report.sections import (
    blob_cards,
    environment,
    heading,
    highlight_spec,
    sections,
    stored_section,
)
from tests.support.command import SPECS
from tests.support.reports import HOSTILE, a_report


def _parts(report):
    return {identity: content for identity, _, content in sections(report)}


def test_a_finished_run_has_all_parts():
    assert list(_parts(a_report())) == [
        "expectations",
        "timeline",
        "time",
        "resources",
        "tasks",
        "checkpoint",
        "params",
        "environment",
        "log",
        "spec",
    ]


def test_each_expectation_is_shown_with_its_result():
    section = _parts(a_report())["expectations"]

    assert section.index("✓ held") < section.index("✗ not held")


def test_the_head_says_how_it_ended_and_what_to_do_next():
    assert "finished, but an expectation does not hold" in heading(a_report())
    stopped = heading(a_report("--max-epochs", "1"))
    assert '<span class="pill warn">stopped</span>' in stopped
    assert "jobrun resume " in stopped


def test_tasks_are_sorted_by_their_times():
    report = a_report()
    tasks = (TaskTime("short", "n", 2, 1.0, 0.5), TaskTime("long", "n", 1, 2.0, 2.0, 1))
    section = _parts(replace(report, history=replace(report.history, tasks=tasks)))["time"]

    assert section.index("long") < section.index("short")
    assert "1 run, 1 failed" in section
    assert "--profile" in section


def test_a_profile_shows_steps_and_operators():
    section = _parts(a_report("--profile"))["time"]

    assert "Steps, each by itself" in section
    assert "epoch/halve/steps[0]" in section
    assert "Operators, each by itself" in section


def test_a_profile_of_another_form_is_left_out():
    report = replace(a_report(), profile={"steps": [1, {}, None], "operators": 3})

    time_part, without = (_parts(each)["time"] for each in (report, replace(report, profile={})))
    headings = re.compile("<h3>(.*?)</h3>")
    assert headings.findall(time_part) == headings.findall(without)
    assert len(headings.findall(without)) >= 3


def test_forks_are_shown():
    links = (Link("pages/older", 3, ("w",)),)
    report = replace(a_report(), ancestors=links, children=(Link("pages/newer", 2),))
    section = _parts(report)["lineage"]

    assert "pages/older, epoch 3, blobs w" in section
    assert "pages/newer, from epoch 2" in section


def test_hostile_texts_make_no_element():
    report = a_report()
    whole = heading(report) + "".join(_parts(report).values())

    assert HOSTILE not in whole
    assert "<script" not in whole


def test_the_environment_names_versions_and_host():
    names = environment(a_report())

    assert {"numpy", "python", "host"} <= set(names)


def test_a_very_long_param_is_cut():
    report = a_report()
    job = replace(report.job, params=(("long", "x" * 5000),))

    assert "x" * 401 not in _parts(replace(report, job=job))["params"]


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]*>", "", markup))


def test_the_text_is_unchanged():
    for path in SPECS.glob("*.yaml"):
        assert _plain(highlight_spec(path.read_text())) == path.read_text()


def test_keys_numbers_texts_and_comments_have_classes_of_their_own():
    highlighted = highlight_spec("- epochs: 10  # ten\n  name: 'a: 1'")

    assert '<span class="yk">epochs</span>:' in highlighted
    assert '<span class="yn">10</span>' in highlighted
    assert '<span class="yc"># ten</span>' in highlighted
    assert '<span class="ys">&#x27;a: 1&#x27;</span>' in highlighted


def test_a_very_long_one_is_cut_and_says_so():
    assert highlight_spec("x" * 300_000).endswith("… and 100000 letters more</span>")


def test_every_blob_has_a_card_with_its_drawings():
    report = a_report()
    section = stored_section(report.stored, report.history)

    assert "5 epochs are stored, 0 to 4." in section
    assert section.count('class="blob"') == 3
    assert section.count("data:image/png;base64,") == 2
    assert 'aria-label="histogram of w: ' in section


def test_a_single_value_is_shown_and_a_text_is_escaped():
    cards = blob_cards(a_report().stored.blobs)

    assert "<code>0.5</code>" in cards
    assert "<img src=x" not in cards


def test_the_reason_for_an_empty_view_is_shown():
    assert "no checkpoint" in stored_section(Stored(), History())
    assert "broken &lt;b&gt;" in stored_section(Stored((1,), fault="broken <b>"), History())


def test_blobs_of_several_nodes_are_named_with_their_node():
    blob = a_report().stored.blobs[1]

    assert "<h4>m.w</h4>" in blob_cards((blob, replace(blob, node="m")))


def test_very_many_blobs_are_cut_and_it_says_so():
    blobs = a_report().stored.blobs

    assert blob_cards((blobs[0],) * 700).endswith("<p>and 100 more blobs</p>")
