"""Laps: each step is counted as often as it runs, and does what it did without them."""

from __future__ import annotations

import pytest

from jobrun.graph.steps import Loop
from jobrun.runtime.codegen.compiler import compile_block
from jobrun.runtime.codegen.liveness import BlockNames
from jobrun.runtime.codegen.step_meter import SAMPLED, Meter
from jobrun.testing.graphs import expr, steps
from tests.support.profiled_jobs import Metered
from tests.support.step_bench import Bench


def _task(*lines):
    return "[{task: t, steps: [" + ", ".join(lines) + "]}]"


def test_each_step_counts_its_runs(tmp_path):
    metered = Metered(tmp_path, _task("n = 1", "n += 2", "{log: hi}", "x = x + 1"), runs=3)

    assert metered.calls() == {"steps[0]": 3, "steps[1]": 3, "steps[2]": 3, "steps[3]": 3}
    assert not any(step.estimated for step in metered.steps.values())


def test_only_the_taken_branches_are_counted(tmp_path):
    choice = "{if: iter < 2, then: [n = 1], elif: [{if: iter < 7, then: [n = 2]}], else: [n = 3]}"
    actual = Metered(tmp_path, _task(f"{{loop: 10, steps: [{choice}, {{log: hi}}]}}")).calls()

    assert actual["steps[0].steps[0]"] == 10
    assert actual["steps[0].steps[0].then[0]"] == 2
    assert actual["steps[0].steps[0].elif[0].then[0]"] == 5
    assert actual["steps[0].steps[0].else[0]"] == 3


def test_steps_skipped_by_a_stop_are_not_counted(tmp_path):
    inner = "{loop: forever, steps: [n += 1, {stop_if: n >= 3}, {log: hi}]}"
    actual = Metered(tmp_path, _task(inner, "stop", "n = 0")).calls()

    assert actual["steps[0].steps[0]"] == 3
    assert actual["steps[0].steps[1]"] == 3
    assert actual["steps[0].steps[2]"] == 2
    assert (actual["steps[0]"], actual["steps[1]"], actual["steps[2]"]) == (1, 1, 0)


@pytest.mark.parametrize("passes", [0, 1, 31, 32, 33, 255, 256, 257, 1000, 20_000])
@pytest.mark.parametrize("body", ["x += 1", "x += iter"])
def test_all_passes_are_counted_although_few_are_timed(tmp_path, passes, body):
    metered = Metered(tmp_path, _task(f"{{loop: {passes}, steps: [{body}, n = n + 1]}}"))

    assert metered.blobs["n"] == passes
    assert metered.calls()["steps[0].steps[0]"] == passes
    assert metered.calls()["steps[0].steps[1]"] == passes


def test_passes_of_both_forms_of_a_loop_are_counted_to_the_last(tmp_path):
    steps = "{loop: 20000, steps: [n = n * 1]}, n = n + 0.5"
    epoch = _task(steps)
    metered = Metered(tmp_path, epoch, runs=2)

    assert metered.blobs["n"] == 1.0
    assert metered.calls()["steps[0]"] == 2
    assert metered.calls()["steps[0].steps[0]"] == 40_000
    assert not metered.steps["epoch/t/steps[0].steps[0]"].estimated


def test_small_loops_in_a_loop_are_counted_to_the_last(tmp_path):
    inner = "{loop: 7, steps: [n += 1, {if: n > 0, then: [x += 1]}]}"
    actual = Metered(tmp_path, _task(f"{{loop: 300, steps: [{inner}]}}")).calls()

    assert actual["steps[0].steps[0]"] == 300
    assert actual["steps[0].steps[0].steps[0]"] == 2100
    assert actual["steps[0].steps[0].steps[1].then[0]"] == 2100


def test_calls_in_passes_that_are_not_timed_are_estimates(tmp_path):
    body = "n += 1, {if: n % 3 == 0, then: [x += 1]}"
    metered = Metered(tmp_path, _task(f"{{loop: 100000, steps: [{body}]}}"))
    step = metered.steps["epoch/t/steps[0].steps[1].then[0]"]

    assert step.estimated
    assert abs(step.calls - 33_333) < 2_000
    assert metered.blobs["x"][0] == 33_333


def test_a_loop_left_early_has_an_estimate_of_its_passes(tmp_path):
    body = "n += 1, {stop_if: n == 9000}"
    metered = Metered(tmp_path, _task(f"{{loop: forever, steps: [{body}]}}"))

    assert metered.blobs["n"] == 9000
    assert abs(metered.calls()["steps[0].steps[0]"] - 9000) <= 256 * SAMPLED


def test_most_passes_of_a_small_loop_are_not_timed():
    count = 10_000
    body = (Loop(expr(str(count)), steps("x = x + 1"), "e/t/steps[0]"),)
    names = BlockNames(elsewhere=frozenset({"x"}), meter=Meter())
    with Bench(x=0) as bench:
        block = compile_block(body, "e/t", names, lambda _: None)
        objects = block.run.__globals__
        (begin,) = (value for name, value in objects.items() if name.startswith("_begin_"))
        laps = begin(bench.frame)

        block.run(bench.frame)

    looked_into = laps.calls[len(laps.calls) // 2 :]
    assert 0 < max(looked_into) < count / 10


def test_code_without_a_meter_has_no_instrumentation():
    block = compile_block(steps("x = x + 1"), "e/t", BlockNames(), lambda _: None)

    assert not [name for name in block.code.co_varnames if "meter" in name]
