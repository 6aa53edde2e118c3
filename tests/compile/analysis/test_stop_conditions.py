"""How a job ends: the end of its data, and conditions that can come true."""

from __future__ import annotations

import pytest

from jobrun.graph.conditions import StopWhen
from tests.support.compiling import compile_text, fault_of, job_of

_READERS = "readers: {r: {counter: {stop: 9}, fields: [x], restart: never}}\n"


def test_data_have_ended_when_they_have_on_all_nodes(tmp_path):
    job = job_of(
        tmp_path,
        "nodes: {b: {count: 2}}\ninit: [{task: i, node: b, steps: [w = 1.0]}]\n"
        + _READERS
        + "epoch: [{task: t, node: b, read: r, steps: [w = w + x]}]\nstop: [{data_finished: r}]",
    )

    (stop,) = job.stop
    assert isinstance(stop, StopWhen)
    assert stop.path == "stop[0]"
    assert len(stop.probe.parts) == 2
    assert stop.probe.reduce == "all"


@pytest.mark.parametrize(
    ("keys", "stop", "mend"),
    [("", "nope", "no reader"), (", restart: epoch", "r", "restart: never")],
)
def test_data_that_never_end_cannot_stop_a_job(tmp_path, keys, stop, mend):
    text = f"readers: {{r: {{counter: {{stop: 9}}, fields: [x]{keys}}}}}\n"
    fault = fault_of(
        tmp_path,
        text + "epoch: [{task: t, read: r, steps: [w = w + x]}]\n"
        f"stop: [{{data_finished: {stop}}}]",
    )

    assert fault.code == "E121"
    assert fault.mend


@pytest.mark.parametrize(
    ("epoch", "when"),
    [
        ("[{task: t, steps: [y = w]}]", "w > 3"),
        ("[{task: t, steps: [y = 1, w2 = y]}]", "w > 3 or w + 1 < init0.o"),
        ("[{task: t, steps: [y = w], outputs: [y]}]", "w > p"),
        ("[{task: t, steps: [y = w]}]", "false"),
        (
            "[{task: t, steps: [{call: 'lib:f', with: {x: w}, out: y}]}]",
            "{of: w > 3, nodes: '*', reduce: any}",
        ),
    ],
)  # fmt: skip
def test_a_condition_that_no_epoch_changes_is_refused(tmp_path, epoch, when):
    text = (
        "params: {p: 3}\ninit: [{task: init0, steps: [w = 1.0], outputs: [{o: w}]}]\n"
        f"epoch: {epoch}\nstop: [{{when: {when}}}]\n"
    )

    fault = fault_of(tmp_path, text.replace("false", "'0 > 1'"))

    assert fault.code == "E521"
    assert fault.path == "stop[0]"
    assert fault.where.line
    assert "epochs: N" in fault.mend
    assert "false" in when or "'w'" in fault.message


@pytest.mark.parametrize(
    ("epoch", "stop"),
    [
        ("[{task: t, steps: [w += 1]}]", "{when: w > 3}"),
        ("[{task: t, steps: [y = w]}]", "{when: w > 3}, {epochs: 2}"),
        ("[{task: t, steps: [y = w]}]", "{when: w > 3}, {endless: true}"),
        ("[{task: t, steps: [y = w], outputs: [y]}]", "{when: t.y > 3}"),
        ("[{task: t, steps: [count_up(c)]}]", "{when: count_value(c) > 3}"),
        ("[{task: t, steps: [{call: 'lib:f', with: {x: w}, inout: [w]}]}]", "{when: w > 3}"),
        ("[{task: t, steps: [{loop: 2, steps: [{if: w > 0, then: [w = 2]}]}]}]", "{when: w > 3}"),
        ("[{task: t, steps: [y = w], setup: {task: {exit: [w += 1]}}}]", "{when: w > 3}"),
        ("[{task: t, steps: [y = w], setup: {node: {init: [w += 1]}}}]", "{when: w > 3}"),
        ("[{task: t, steps: [y = w], report: [{every: 1s, steps: [w = 2]}]}]", "{when: w > 3}"),
        ("{setup: {exit: [w += 1]}, tasks: [{task: t, steps: [y = w]}]}", "{when: w > 3}"),
        ("[{task: t, steps: [y = w]}]", "{when: 'True'}"),
        ("[{task: t, steps: [w += 1]}]", "{when: v > 3}, {when: w > 3}"),
    ],
)
def test_a_condition_that_an_epoch_may_change_or_beside_a_bound_is_not(tmp_path, epoch, stop):
    text = (
        "init: [{task: init0, steps: [w = 1.0, v = 2.0, c = counter(0)]}]\n"
        f"epoch: {epoch}\nstop: [{stop}]\n"
    )

    compile_text(tmp_path, text)


def test_a_condition_that_no_epoch_changes_beside_a_fail_if_is_not_refused(tmp_path):
    compile_text(
        tmp_path,
        "init: [{task: i, steps: [w = 1.0, v = 2.0]}]\nepoch: [{task: t, steps: [v += 1]}]\n"
        "stop: [{when: w > 3}]\nfail_if: [v > 10]\n",
    )
