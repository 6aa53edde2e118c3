"""The parts of a report about one run."""

from __future__ import annotations

from dataclasses import replace

from jobrun.tools.report.history import TaskTime
from jobrun.tools.report.lineage import Link
from jobrun.tools.report.sections import environment, heading, sections
from tests.support.reports import HOSTILE, a_report


def _parts(report):
    return {identity: content for identity, _, content in sections(report)}


def test_a_finished_run_has_all_parts():
    assert list(_parts(a_report())) == [
        "expectations", "timeline", "time", "tasks", "checkpoint", "params", "environment", "log",
        "spec",
    ]  # fmt: skip


def test_what_was_expected_stands_with_what_came_of_it():
    found = _parts(a_report())["expectations"]

    assert found.index("✓ held") < found.index("✗ not held")


def test_the_head_says_how_it_ended_and_what_to_do_next():
    assert "finished, but not as expected" in heading(a_report())
    stopped = heading(a_report("--max-epochs", "1"))
    assert '<span class="pill warn">stopped</span>' in stopped
    assert "jobrun resume " in stopped


def test_tasks_stand_in_the_order_of_their_times():
    report = a_report()
    tasks = (TaskTime("short", "n", 2, 1.0, 0.5), TaskTime("long", "n", 1, 2.0, 2.0, 1))
    found = _parts(replace(report, history=replace(report.history, tasks=tasks)))["time"]

    assert found.index("long") < found.index("short")
    assert "1 run, 1 failed" in found
    assert "--profile" in found


def test_a_profile_shows_steps_and_operators():
    found = _parts(a_report("--profile"))["time"]

    assert "Steps, each by itself" in found
    assert "epoch/halve/steps[0]" in found
    assert "Operators, each by itself" in found


def test_a_profile_of_another_form_is_left_out():
    report = replace(a_report(), profile={"steps": [1, {}, None], "operators": 3})

    assert "Steps" not in _parts(report)["time"]


def test_forks_are_told():
    links = (Link("pages/older", 3, ("w",)),)
    report = replace(a_report(), ancestors=links, children=(Link("pages/newer", 2),))
    found = _parts(report)["lineage"]

    assert "pages/older, epoch 3, blobs w" in found
    assert "pages/newer, from epoch 2" in found


def test_hostile_texts_make_no_element():
    report = a_report()
    whole = heading(report) + "".join(_parts(report).values())

    assert HOSTILE not in whole
    assert "<script" not in whole


def test_the_environment_names_versions_and_host():
    found = environment(a_report())

    assert {"numpy", "python", "host"} <= set(found)


def test_a_very_long_param_is_cut():
    report = a_report()
    job = replace(report.job, params=(("long", "x" * 5000),))

    assert "x" * 401 not in _parts(replace(report, job=job))["params"]
