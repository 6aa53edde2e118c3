"""Remote nets: lowered, put on nodes, and kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from jobrun.api import steps
from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import Call, Name, OutputRead
from jobrun.graph.steps import Assign, NameTarget, Net
from jobrun.graph.types import Cluster, Job, Node, Output, RemoteNet, Task, TaskGroup
from tests.support.compiling import codes_of, compile_text, fault_of

SPEC = """\
nodes: {trainer: {}, server: {count: 2, props: {color: red}}}
nets:
  inner: {setup: {task: {init: [a = 1]}}, steps: [b = a]}
  answer: {in: [q], out: [r], steps: ["r = q + v", {net: inner}, {stop_if: r > 1}, "s = 1"]}
init: [{task: i, node: trainer, steps: [w = 1.0]}]
epoch:
  tasks: [{task: t, node: trainer, steps: [w = w + 1]}]
  remote: [{net: answer, node: server}, {net: inner, node: trainer}]
"""


def test_an_entry_is_one_net_for_each_node_it_names(tmp_path):
    compiled = compile_text(tmp_path, SPEC)

    remote = compiled.job.epoch.remote
    assert [(one.name, one.node, one.path) for one in remote] == [
        ("answer", "server_0", "epoch/remote[0]"),
        ("answer", "server_1", "epoch/remote[0]"),
        ("inner", "trainer", "epoch/remote[1]"),
    ]
    assert remote[0].props == (("color", "red"),)
    line = (tmp_path / "job.yaml").read_text().splitlines()[remote[0].origin.line - 1]
    assert line.strip().startswith("remote:")
    assert {fault.code for fault in compiled.warnings} == {"W136"}


def test_its_steps_keep_the_nets_own_names_and_its_set_up(tmp_path):
    first, _, second = compile_text(tmp_path, SPEC).job.epoch.remote

    net, use, stop, _ = first.steps
    assert render_expr(net.ops[0].value) == "q + v"
    assert use.net == "inner"
    assert stop.target == first.path
    assert [one.name for one in first.setup] == ["nets/inner/setup.task"]
    assert second.setup == first.setup


def test_unknown_names_are_told_with_the_nearest(tmp_path):
    net = fault_of(tmp_path, SPEC.replace("{net: answer,", "{net: anser,"))
    node = fault_of(tmp_path, SPEC.replace("node: server}", "node: servers}"))

    assert (net.code, net.path) == ("E145", "epoch/remote[0]")
    assert "'answer'" in net.mend
    assert (node.code, "'server'" in node.mend) == ("E142", True)


def test_what_is_wrong_inside_is_reported(tmp_path):
    broken = SPEC.replace("{stop_if: r > 1}", "{stop: nothing}")

    assert codes_of(tmp_path, broken) == ["E156"]


def test_outputs_of_tasks_cannot_be_read_there(tmp_path):
    text = SPEC.replace("b = a", "b = t.x").replace(
        "steps: [w = w + 1]", "steps: [w = w + 1], outputs: [{x: w}]"
    )

    assert set(codes_of(tmp_path, text)) == {"E125"}


def test_a_net_that_uses_itself_is_no_second_fault(tmp_path):
    assert codes_of(tmp_path, SPEC.replace("steps: [b = a]", "steps: [{net: inner}]")) == ["E143"]


def test_a_node_with_nothing_but_remote_nets_is_used(tmp_path):
    warned = {fault.code for fault in compile_text(tmp_path, SPEC).warnings}

    assert "W133" not in warned
    assert "W134" not in warned


def test_remote_nets_of_a_job_built_by_hand_are_kept():
    kept = RemoteNet("f", "n", (), path="epoch/remote[0]")
    job = Job(
        "j",
        Cluster((Node("n"),)),
        TaskGroup("init", (Task("start", "n", steps("x = 1")),)),
        TaskGroup("epoch", (Task("t", "n", steps("x = x + 1"), timeout_s=5.0),), remote=(kept,)),
        stop=(StopAfterEpochs(1),),
    )

    completed = complete(job).job
    elsewhere = replace(job.epoch, remote=(replace(kept, node="m"),))

    assert completed.epoch.remote == (kept,)
    assert completed.epoch.tasks[0].timeout_s == 5.0
    with pytest.raises(SpecError, match="unknown node 'm'"):
        complete(replace(job, epoch=elsewhere))


def _by_hand(*nets):
    return Job(
        "j",
        Cluster((Node("n", props=(("color", "red"),)), Node("m"))),
        TaskGroup("init", (Task("start", "n", steps("x = 1"), outputs=(Output("o", Name("x")),)),)),
        TaskGroup("epoch", (Task("t", "n", steps("x = x + 1")),), remote=nets),
        stop=(StopAfterEpochs(1),),
    )


def test_remote_nets_of_a_job_built_by_hand_get_paths_and_their_nodes_properties():
    nets = (
        RemoteNet("f", "n", steps("a = 1")),
        RemoteNet("f", "m", steps("a = 1")),
        RemoteNet("g", "n", steps("a = 2")),
    )

    found = complete(_by_hand(*nets)).job.epoch.remote

    assert [(net.path, net.steps[0].path, net.props) for net in found] == [
        ("epoch/remote[0]", "epoch/remote[0].f[0]", (("color", "red"),)),
        ("epoch/remote[0]", "epoch/remote[0].f[0]", ()),
        ("epoch/remote[1]", "epoch/remote[1].g[0]", (("color", "red"),)),
    ]


@pytest.mark.parametrize(
    ("value", "code"), [(OutputRead("start", "o"), "E125"), (Call("nothing_known"), "E199")]
)
def test_remote_nets_of_a_job_built_by_hand_are_looked_at(value, code):
    net = RemoteNet("f", "n", (Net((Assign((NameTarget("a"),), value),)),))

    with pytest.raises(SpecError) as caught:
        complete(_by_hand(net))

    assert caught.value.faults[0].code == code
