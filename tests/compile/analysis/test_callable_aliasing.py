"""Which blobs a callable may not give the same memory: where it could be seen later."""

from __future__ import annotations

import textwrap

import pytest

from tests.support.compiling import job_of

SPEC = """
init:
  - {{task: start, steps: [{init}]}}
epoch:
{epoch}
stop: [{{epochs: 3}}]
"""
TWO = "{call: 'lib:two', out: [a, b]}"
APART = {("init/start/steps[0]", "a", "b")}


def _apart(tmp_path, init: str, *epoch: str) -> set[tuple[str, str, str]]:
    tasks = "\n".join(f"- {{task: t{at}, {task}}}" for at, task in enumerate(epoch))
    text = SPEC.format(init=init, epoch=textwrap.indent(tasks, "  "))
    job = job_of(tmp_path, text)
    return {pair for group in job.groups for part in group.tasks for pair in part.apart}


def _around(tmp_path, surroundings: str, *steps: str) -> set[tuple[str, str, str]]:
    """Return the pairs of the set-up and reports of an epoch on its node."""
    text = f"""
init: [{{task: start, steps: ['a = zeros(3)', 'b = zeros(3)', s = 0.0]}}]
epoch: {{{surroundings}, tasks: [{{task: t, steps: [{", ".join(steps)}]}}]}}
stop: [{{epochs: 3}}]
"""
    epoch = job_of(tmp_path, text).epoch
    return {pair for part in (*epoch.setup, *epoch.reports) for pair in part.apart}


@pytest.mark.parametrize(
    "step",
    [
        "'a += 1'", "'a[0] = 1'", "'a[1] *= 2'", "'add_at(a, 0, 1)'", "'b -= 1'",
        "{loop: 3, steps: [a += 1]}", "{if: 'b[0] > 0', then: [a += 1]}",
        "{call: 'lib:change', with: {x: a}, inout: [a]}",
    ],
)  # fmt: skip
def test_a_change_in_place_is_seen_in_the_blob_that_shares_memory(tmp_path, step):
    assert _apart(tmp_path, TWO, f"steps: [{step}]") == APART


@pytest.mark.parametrize(
    "steps",
    [
        "a = a + 1", "c = a * 2, c += 1", "a = a + 1, a += 1", "b = a * 2, a += 1",
        "a = zeros(3), a[0] = 1", "log: '{a}'",
    ],
)  # fmt: skip
def test_a_name_rebound_before_any_change_in_place_may_be_an_alias(tmp_path, steps):
    written = ", ".join(
        f"'{step}'" if ":" not in step else f"{{{step}}}" for step in steps.split(", ")
    )
    assert _apart(tmp_path, TWO, f"steps: [{written}]") == set()


def test_a_change_on_one_way_only_counts(tmp_path):
    step = "{if: 'sum(b) > 0', then: [a = a * 1], else: [log: 'x']}"

    assert _apart(tmp_path, TWO, f"steps: [{step}, 'a += 1']") == APART


def test_a_result_that_ends_with_its_task_may_be_an_alias(tmp_path):
    steps = "{call: 'lib:view', with: {x: a}, out: v}, 'c = sum(v)', 'a += 1'"

    assert _apart(tmp_path, "a = zeros(3)", f"steps: [{steps}]") == set()


def test_reading_a_result_after_its_source_changed_is_observable(tmp_path):
    steps = "{call: 'lib:view', with: {x: a}, out: v}, 'a += 1', 'c = sum(v)'"

    pairs = _apart(tmp_path, "a = zeros(3)", f"steps: [{steps}]")

    assert pairs == {("epoch/t0/steps[0]", "a", "v")}


def test_a_view_of_a_view_is_a_view_of_the_first_blob(tmp_path):
    steps = (
        "{call: 'lib:view', with: {x: a}, out: v}, {call: 'lib:view', with: {x: v}, out: w}, "
        "'a += 1', 'c = sum(w)'"
    )

    pairs = _apart(tmp_path, "a = zeros(3)", f"steps: [{steps}]")

    assert ("epoch/t0/steps[0]", "a", "v") in pairs


def test_a_part_of_a_blob_as_an_argument_is_analysed_too(tmp_path):
    steps = "{call: 'lib:view', with: {x: 'a[0]'}, out: v}, 'a += 1', 'c = sum(v)'"

    pairs = _apart(tmp_path, "'a = zeros((3, 2))'", f"steps: [{steps}]")

    assert pairs == {("epoch/t0/steps[0]", "a", "v")}


def test_tasks_are_taken_in_the_order_of_their_needs(tmp_path):
    first = "steps: [a = zeros(3), 'a += 1']"
    then = "needs: [t0], steps: [{call: 'lib:view', with: {x: a}, out: b}, c = sum(b)]"

    assert _apart(tmp_path, "a = zeros(3), b = zeros(3)", first, then) == set()


def test_tasks_without_an_order_are_taken_in_both(tmp_path):
    steps = ("steps: ['a += 1']", "steps: [c = sum(b), b = zeros(3)]")

    assert _apart(tmp_path, TWO, *steps) == APART
    assert _apart(tmp_path, TWO, *reversed(steps)) == APART
    ordered = _apart(tmp_path, TWO, steps[1], f"needs: [t0], {steps[0]}")
    assert ordered == set()


def test_reading_an_argument_while_another_is_changed_is_observable(tmp_path):
    step = "{call: 'lib:step', with: {m: a, x: b}, inout: [a], out: b}"

    assert _apart(tmp_path, TWO, f"steps: [{step}]") >= APART


def test_a_blob_that_a_report_looks_at_is_seen_at_any_time(tmp_path):
    report = "report: [{every: 1s, steps: [{log: '{b}'}]}]"
    steps = "steps: ['a += 1', 'b = zeros(3)', 'a = zeros(3)']"

    assert _apart(tmp_path, TWO, f"{steps}") == set()
    assert _apart(tmp_path, TWO, f"{steps}, {report}") == APART


def test_sharing_is_followed_into_the_next_epoch(tmp_path):
    steps = "'c = sum(b)', 'a += 1', {call: 'lib:view', with: {x: a}, out: b}"
    bound = "'a += 1', {call: 'lib:view', with: {x: a}, out: b}, 'c = sum(b)'"

    assert _apart(tmp_path, "a = zeros(3), b = zeros(3)", f"steps: [{bound}]") == set()
    pairs = _apart(tmp_path, "a = zeros(3), b = zeros(3)", f"steps: ['a *= 2', {steps}]")
    assert pairs == {("epoch/t0/steps[3]", "a", "b")}


def test_callables_in_setups_and_reports_of_a_node_are_analysed(tmp_path):
    view = "[{call: 'lib:view', with: {x: a}, out: b}]"
    steps = ("'a += 1'", "'s = s + sum(b)'")

    for surroundings, path in (
        (f"setup: {{init: {view}}}", "epoch/setup.init[0]"),
        (f"setup: {{exit: {view}}}", "epoch/setup.exit[0]"),
        (f"report: [{{every: 1h, steps: {view}}}]", "epoch/report[0].steps[0]"),
    ):
        assert _around(tmp_path, surroundings, *steps) == {(path, "a", "b")}
        assert _around(tmp_path, surroundings, "'s = s + sum(b)'") == set()
