"""Values that the runner looks at."""

from __future__ import annotations

import pytest

from jobrun.graph.conditions import StopWhen
from jobrun.graph.expressions import Binary, Compare, Const, NodeBlob, OutputRead
from tests.support.compiling import codes_of, compile_text, fault_of, job_of

NODES = """\
nodes: {main: {}, tr: {count: 3}}
init:
  - {task: i, node: main, steps: [w = 1.0]}
  - {task: j, node: tr, steps: [v = 1.0], outputs: [v]}
epoch:
  - {task: t, node: tr, steps: [v = v + 1], outputs: [{loss: v}]}
  - {task: u, node: main, steps: [w = w + 1], outputs: [{total: w}]}
"""


def _metric(folder, written, start=NODES):
    return dict(job_of(folder, f"{start}metrics: {{m: {written}}}\n").metrics)["m"]


def test_a_blob_that_one_node_has_needs_no_node(tmp_path):
    probe = _metric(tmp_path, "w * 2")

    assert probe.parts == (Binary(NodeBlob("main", "w"), "*", Const(2)),)
    assert (probe.reduce, probe.text, probe.path) == ("", "w * 2", "metrics.m")


def test_a_node_is_named_before_its_blob(tmp_path):
    assert _metric(tmp_path, "tr_1.v").parts == (NodeBlob("tr_1", "v"),)


def test_an_output_is_named_with_its_task(tmp_path):
    assert _metric(tmp_path, "u.total").parts == (OutputRead("u", "total", "main"),)


def test_over_nodes_there_is_one_part_for_each(tmp_path):
    probe = _metric(tmp_path, "{of: v + t.loss, nodes: 'tr_[02]', reduce: max}")

    assert probe.parts == tuple(
        Binary(NodeBlob(node, "v"), "+", OutputRead("t", "loss", node)) for node in ("tr_0", "tr_2")
    )
    assert probe.reduce == "max"


@pytest.mark.parametrize(
    ("written", "code"),
    [
        ("v", "E133"), ("tr.v", "E133"), ("t.loss", "E133"), ("x", "E135"), ("tr_1.w", "E135"),
        ("who.w", "E134"), ("t.lss", "E148"), ("rng.random()", "E130"), ("epoch", "E131"),
        ("node.index", "E131"), ("{of: w, nodes: tr, reduce: max}", "E135"),
        ("{of: v, nodes: x_*, reduce: max}", "E142"), ("nosuch(w)", "E104"),
    ],
)  # fmt: skip
def test_blobs_that_conditions_cannot_read_are_reported(tmp_path, written, code):
    assert (
        fault_of(
            tmp_path, f"{NODES}metrics: {{m: '{written}'}}\n".replace("'{", "{").replace("}'", "}")
        ).code
        == code
    )


def test_looking_cannot_change_anything(tmp_path):
    text = """\
        init: [{task: i, steps: [c = counter(3), w = 1.0]}]
        stop: [{when: count_down(c)}]
        """

    assert codes_of(tmp_path, text) == ["E132"]


def test_looking_on_several_nodes_cannot_change_anything_either(tmp_path):
    text = """\
        nodes: {a: {count: 2}}
        init: [{task: i, node: a, steps: [c = counter(3), w = 1.0]}]
        epoch: [{task: t, node: a, steps: [w = w + 1]}]
        metrics: {left: {of: count_down(c), nodes: a, reduce: sum}}
        """

    assert codes_of(tmp_path, text) == ["E132"]


def test_scratch_is_not_there_between_epochs(tmp_path):
    text = "epoch: [{task: t, steps: [loss = w]}]\nmetrics: {loss: loss}"
    fault = fault_of(tmp_path, text)

    assert fault.code == "E135"
    assert "t.loss" in fault.mend


@pytest.mark.parametrize("private", ["instances: 2", "workspace: private"])
def test_what_ends_within_init_is_not_to_be_made_in_init(tmp_path, private):
    start = (
        f"init: [{{task: i, {private}, steps: [x = 1.0]}}]\nepoch: [{{task: t, steps: [y = 1]}}]\n"
    )

    fault = fault_of(tmp_path, f"{start}metrics: {{m: x}}\n")

    assert (fault.code, fault.message) == (
        "E135",
        "'x' is not state: it is deleted at the end of 'init'",
    )
    assert fault.mend.startswith("make it in a global task without instances, or give task 'i'")


def test_a_task_without_a_node_is_the_only_fault_of_what_reads_its_blobs(tmp_path):
    start = NODES.replace("i, node: main", "i").replace("w = w + 1", "x = 1").replace("w}", "x}")

    assert codes_of(tmp_path, f"{start}metrics: {{m: w}}\n") == ["E141"]


def test_conditions_can_read_constants(tmp_path):
    start = "init: [{task: d, rebuild: true, steps: [X = 1.0]}, {task: i, steps: [w = 1.0]}]\n"

    assert _metric(tmp_path, "X", start).parts == (NodeBlob("local", "X"),)


@pytest.mark.parametrize("key", ["fail_if", "expect"])
def test_conditions_are_bools(tmp_path, key):
    assert codes_of(tmp_path, f"{key}: [w + 1]") == ["E152"]
    assert codes_of(tmp_path, f"{key}: [w > 1, isfinite(w)]") == []


def test_a_mean_over_nodes_is_no_condition(tmp_path):
    text = "stop: [{when: {of: v > 1, nodes: tr, reduce: mean}}]\n"

    assert codes_of(tmp_path, NODES + text) == ["E152"]
    assert codes_of(tmp_path, NODES + text.replace("mean", "all")) == []


def test_only_expectations_see_outputs_of_exit(tmp_path):
    text = "exit: [{task: e, steps: [x = w], outputs: [x]}]\n"

    assert codes_of(tmp_path, text + "expect: [e.x > 1]") == []
    assert codes_of(tmp_path, text + "stop: [{when: e.x > 1}]") == ["E149"]


def test_a_constant_bool_is_allowed(tmp_path):
    job = job_of(tmp_path, "expect: [true, 1 < 2]")

    assert [probe.parts for probe in job.expect] == [
        (Const(True),),
        (Compare(Const(1), ("<",), (Const(2),)),),
    ]


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
def test_a_condition_that_an_epoch_may_change_or_with_a_bound_is_accepted(tmp_path, epoch, stop):
    text = (
        "init: [{task: init0, steps: [w = 1.0, v = 2.0, c = counter(0)]}]\n"
        f"epoch: {epoch}\nstop: [{stop}]\n"
    )

    compile_text(tmp_path, text)


def test_a_condition_that_no_epoch_changes_is_accepted_with_a_fail_if(tmp_path):
    compile_text(
        tmp_path,
        "init: [{task: i, steps: [w = 1.0, v = 2.0]}]\nepoch: [{task: t, steps: [v += 1]}]\n"
        "stop: [{when: w > 3}]\nfail_if: [v > 10]\n",
    )
