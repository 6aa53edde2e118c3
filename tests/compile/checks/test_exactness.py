"""Why a resumed run may differ."""

from __future__ import annotations

import pytest

from jobrun.compile.checks import exactness
from tests.support.compiling import compile_text


def _reasons(folder, text):
    return compile_text(folder, text).job.exactness.reasons


def test_a_job_without_reasons_is_exact(tmp_path):
    text = """\
        epoch: [{task: t, instances: 3, steps: ['x = rng.normal(size=3)', {run: ls}]}]
        stop: [{time: 2h}]
        """

    assert compile_text(tmp_path, text).job.exactness.exact


def test_hogwild_is_a_reason_with_its_task(tmp_path):
    ((path, why),) = _reasons(tmp_path, "epoch: [{task: t, hogwild: true, steps: [w = 1.0]}]")

    assert path == "epoch/t"
    assert "hogwild" in why


@pytest.mark.parametrize(
    "step", ["{call: 'm:f', deterministic: false}", "{run: x, deterministic: false}"]
)
def test_a_step_declared_nondeterministic_is_a_reason(tmp_path, step):
    text = f"epoch: [{{task: t, steps: [{{if: w > 1, then: [{step}]}}]}}]"

    assert [path for path, _ in _reasons(tmp_path, text)] == ["epoch/t/steps[0].then[0]"]


@pytest.mark.parametrize(
    ("report", "is_reason"),
    [("w = 1.0", True), ("x = w", True), ("r = w", False), ("r = w, {log: '{r}'}", False)],
)
def test_a_report_that_writes_what_counts_is_a_reason(tmp_path, report, is_reason):
    text = f"""\
        epoch:
          - task: t
            setup: {{task: {{init: [x = 0]}}}}
            steps: [w = w + x]
            report: [{{steps: [{report}]}}]
        """

    assert bool(_reasons(tmp_path, text)) is is_reason


def test_a_report_of_a_group_that_writes_state_is_a_reason(tmp_path):
    text = "epoch: {tasks: [{task: t, steps: [x = w]}], report: [{steps: [w = 1.0]}]}"

    assert [path for path, _ in _reasons(tmp_path, text)] == ["epoch/report[0].steps[0]"]


@pytest.mark.parametrize(
    ("tasks", "is_reason"),
    [
        ("{task: t, instances: 2, steps: [count_up(c)]}", False),
        ("{task: t, instances: 2, steps: [n = count_up(c)]}", True),
        ("{task: t, instances: 2, steps: [{while: not count_down(c), steps: [x = 1]}]}", True),
        ("{task: t, steps: [n = count_up(c)]}", False),
        ("{task: t, steps: [n = count_up(c)]}, {task: u, steps: [count_up(c)]}", True),
        ("{task: t, steps: [n = count_up(c)]}, {task: u, needs: [t], steps: [count_up(c)]}", False),
        ("{task: t, instances: 2, setup: {instance: {init: [d = counter(0)]}}, "
         "steps: [n = count_up(d)]}", False),
    ],
)  # fmt: skip
def test_the_old_value_of_a_counter_that_several_threads_use_is_a_reason(
    tmp_path, tasks, is_reason
):
    text = f"init: [{{task: i, steps: [c = counter(3)]}}]\nepoch: [{tasks}]"

    assert bool(_reasons(tmp_path, text)) is is_reason


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("epoch: [{task: t, steps: [y = w], outputs: [{o: sqrt(w)}]}]", "epoch/t.o"),
        ("epoch: [{task: t, steps: [y = w, {if: w > 1, then: [y = 1 + sqrt(w)]}]}]",
         "epoch/t/steps[1].then[0]"),
        ("epoch: [{task: t, steps: [{call: 'm:f', with: {x: sqrt(w)}}]}]", "epoch/t/steps[0]"),
        ("epoch: [{task: t, steps: [stop, y = sqrt(w)]}]", "epoch/t/steps[1]"),
        ("epoch: [{task: t, setup: {instance: {exit: [y = sqrt(w)]}}, steps: [y = 1]}]",
         "epoch/t/setup.instance.exit[0]"),
        ("epoch: [{task: t, steps: [y = w], report: [{steps: [{log: '{sqrt(w)}'}]}]}]",
         "epoch/t/report[0].steps[0]"),
        ("readers: {r: {blobs: {x: 'sqrt(arange(4))'}}}\n"
         "epoch: [{task: t, read: r, steps: [y = x]}]", "readers.r"),
        ("metrics: {m: sqrt(w)}", "metrics.m"),
        ("stop: [{when: sqrt(w) > 2}]", "stop[0].when"),
        ("fail_if: [sqrt(w) > 9]", "fail_if[0]"),
    ],
)  # fmt: skip
def test_operator_that_is_not_deterministic_is_a_reason_wherever_it_is_used(
    tmp_path, monkeypatch, text, path
):
    # Only installed packages have such operators.
    monkeypatch.setattr(exactness, "_is_nondeterministic", lambda name: name == "sqrt")

    assert [reported for reported, _ in _reasons(tmp_path, text)] == [path]
