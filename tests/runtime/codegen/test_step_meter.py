"""What a meter has measured: whose, how long, and when."""

from __future__ import annotations

import threading

import pytest
from msgspec.structs import replace

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.codegen.meter_protocol import Owner
from jobrun.runtime.codegen.step_meter import Meter
from tests.support.profiled_jobs import Metered

_TWO = """
  - {task: a, instances: 2, setup: {task: {init: [k = 1]}, instance: {exit: [j = 2]}},
     steps: [t = 1]}
  - {task: b, steps: [t = 2], report: [{every: 1h, steps: [{log: hi}]}]}
"""


def test_each_instance_has_separate_times(tmp_path):
    metered = Metered(tmp_path, _TWO, runs=3)

    bodies = {block.owner: block.runs for block in metered.block("epoch/a")}
    assert bodies == {Owner("epoch", "local", "a", number): 3 for number in range(2)}
    assert [block.runs for block in metered.block("epoch/b")] == [3]


def test_setup_and_reports_are_separate_blocks(tmp_path):
    metered = Metered(tmp_path, _TWO)

    runs = {(block.path, block.owner.instance): block.runs for block in metered.blocks}
    assert runs["epoch/a/setup.task.init", 0] == 1
    assert runs["epoch/a/setup.instance.exit", 1] == 1
    assert runs["epoch/b/report[0]", 0] == 1


def test_branches_and_loops_too_deep_for_one_function_are_counted_too(tmp_path):
    deep = "n += 1"
    for number in range(8):
        deep = f"{{guard: g{number}, steps: [{deep}]}}"
    metered = Metered(tmp_path, f"[{{task: t, steps: [{{parallel: [[a = 1], [b = 2]]}}, {deep}]}}]")

    counts = metered.calls()
    assert counts["steps[0][0].steps[0]"] == counts["steps[0][1].steps[0]"] == 1
    assert counts["steps[1]" + ".steps[0]" * 8] == 1


def test_times_of_steps_add_up_to_no_more_than_their_block(tmp_path):
    steps = "['a = ones((400, 400))', 'b = a @ a', 'c = b + a']"
    metered = Metered(tmp_path, f"[{{task: t, steps: {steps}}}]")
    (body,) = metered.block("epoch/t")

    assert 0 < sum(step.seconds for step in body.steps) <= body.seconds
    assert all(step.seconds >= 0 for step in body.steps)


def test_the_time_goes_to_the_step_that_takes_it(tmp_path):
    steps = "['a = ones((300, 300))', 'b = a @ a @ a @ a', 'c = b[0, 0]']"
    metered = Metered(tmp_path, f"[{{task: t, steps: {steps}}}]", runs=5)

    longest = max(metered.steps.values(), key=lambda step: step.seconds)
    assert longest.path == "epoch/t/steps[1]"


def test_runs_are_kept_with_their_epoch_and_thread(tmp_path):
    metered = Metered(tmp_path, "[{task: t, steps: [n += 1]}]", runs=2)
    (body,) = metered.block("epoch/t")

    assert [span.epoch for span in body.spans] == [1, 2]
    assert all(span.start <= span.end for span in body.spans)
    assert {span.thread for span in body.spans} == {threading.get_ident()}


def test_failed_steps_are_measured_too(tmp_path, monkeypatch):
    meters = []
    times = Meter.times
    monkeypatch.setattr(Meter, "__init__", _noting(Meter.__init__, meters))

    with pytest.raises(TaskFailedError):
        Metered(tmp_path, "[{task: t, steps: [n = 1, {assert: n > 1}, n = 2]}]")

    (body,) = (time_ for time_ in times(meters[0]) if time_.path == "epoch/t")
    assert [step.calls for step in body.steps] == [1, 0, 0]


def _noting(init, meters):
    def created(self):
        init(self)
        meters.append(self)

    return created


def test_spans_are_reported_once_and_times_each_time(tmp_path):
    meter = Metered(tmp_path, "[{task: t, steps: [n += 1]}]", runs=2).meter

    first, second = (
        next(time_ for time_ in meter.take_times() if time_.path == "epoch/t") for _ in range(2)
    )

    assert [span.epoch for span in first.spans] == [1, 2]
    assert second == replace(first, spans=())


def test_times_of_other_processes_are_included(tmp_path):
    meter, other = (Metered(tmp_path, "[{task: t, steps: [n += 1]}]").meter for _ in range(2))
    own_times, other_times = meter.times(), other.take_times()

    meter.merge_times("n 1", other_times)

    assert meter.times() == (*own_times, *other_times)


def test_only_a_limited_number_of_runs_is_recorded_separately():
    meter = Meter()
    recorded = sum(meter.has_room() for _ in range(50_000))
    assert recorded == 20_000
