"""Nets and their uses: their parameters, names and set-up."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun import api
from jobrun.api import steps
from jobrun.compile.lowering.nets import NetRenaming
from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.expression_text import render_expr
from jobrun.graph.expressions import Call, Name, OutputRead
from jobrun.graph.steps import Assign, NameTarget, Net, UseNet
from jobrun.graph.types import Cluster, Job, Node, Output, RemoteNet, Task, TaskGroup
from jobrun.runner.options import RunOptions
from tests.support.compiling import codes_of, compile_text, fault_of, faults_of, job_of, task_of


def test_names_of_a_use_are_its_own_and_those_of_set_up_are_shared():
    rename = NetRenaming("f", "epoch/t/steps[0]", frozenset({"c"}))

    assert rename("x") == "epoch/t/steps[0]:x"
    assert rename("c") == "nets/f:c"


def _steps(folder, steps, **more):
    keys = "\n".join(f"{key}: {value}" for key, value in more.items())
    compiled = compile_text(folder, f"{keys}\nepoch: [{{task: t, steps: [{steps}]}}]")
    return task_of(compiled.job, "t").steps


def test_a_net_that_uses_itself_is_named_with_its_way(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        nets: {a: [{net: b}], b: [{loop: 2, steps: [{net: c}]}], c: [{net: a}]}
        epoch: [{task: t, steps: [{net: b}]}]
        """,
    )

    assert fault.code == "E143"
    assert "a -> b -> c -> a" in fault.message


def test_a_net_that_uses_itself_directly_is_found(tmp_path):
    assert codes_of(tmp_path, "nets: {a: [{net: a}]}") == ["E143"]


def test_a_net_that_uses_a_circle_adds_no_further_fault(tmp_path):
    text = """\
        nets: {a: [{net: a}], b: [{net: a}]}
        epoch: [{task: t, steps: [{net: b}]}]
        """
    assert codes_of(tmp_path, text) == ["E143"]


def test_nets_that_grow_exponentially_are_refused_at_once(tmp_path):
    nets = ", ".join(f"n{i}: [{{net: n{i + 1}}}, {{net: n{i + 1}}}]" for i in range(40))
    text = f"nets: {{{nets}, n40: [x = 1]}}\nepoch: [{{task: t, steps: [{{net: n0}}]}}]\n"

    assert codes_of(tmp_path, text) == ["E146"]


@pytest.mark.parametrize("uses", [1, 3])
def test_a_net_may_be_used_any_number_of_times(tmp_path, uses):
    steps = ", ".join(["{net: f}"] * uses)

    compiled = compile_text(
        tmp_path, f"nets: {{f: [w = w + 1]}}\nepoch: [{{task: t, steps: [{steps}]}}]"
    )

    assert len(compiled.job.epoch.tasks[0].steps) == uses


def test_a_long_chain_of_nets_is_refused_for_its_depth_only(tmp_path):
    nets = ", ".join(f"n{i}: [{{net: n{i + 1}}}]" for i in range(2000))
    text = f"nets: {{{nets}, n2000: [x = 1]}}\nepoch: [{{task: t, steps: [{{net: n0}}]}}]\n"

    assert codes_of(tmp_path, text) == ["E144"]


@pytest.mark.parametrize(
    ("net", "use"),
    [
        ("{in: [c], steps: ['c[0] = 1']}", "in: {c: w}"),
        ("{in: [c], steps: ['c[0] += 1']}", "in: {c: w}"),
        ("{in: [c], steps: ['add_at(c, 0, 1)']}", "in: {c: w}"),
        ("{in: [c], steps: [{call: 'm:f', inout: [c]}]}", "in: {c: w}"),
        ("{in: [c], steps: [{call: 'm:f', with: {v: c}, inout: [c]}]}", "in: {c: w}"),
        ("{in: [c], steps: [{loop: 2, steps: [{if: 'sum(c) > 1', then: ['c[0] = 1']}]}]}",
         "in: {c: w}"),
        ("{in: [c], steps: [c += 1]}", "in: {c: w}"),
        ("{in: [c], steps: [c = c + 1]}", "in: {c: w}"),
        ("{in: [c], out: [d], steps: [d = c, c = c + 1]}", "in: {c: w}, out: {d: y}"),
        ("{in: [c], steps: [{loop: 3, steps: [c += 1]}]}", "in: {c: w}"),
        ("{in: [c], steps: [{load: {c: a.npy}}]}", "in: {c: w}"),
        ("{in: [c], steps: ['c[0] = 1']}", "in: {c: 'w[1:]'}"),
        ("{in: [c], steps: ['c[0] = 1']}", "in: {c: w.T}"),
        ("{in: [c], out: [c], steps: ['c[0] = 1']}", "in: {c: w}"),
        ("{in: [c], out: [d], steps: ['c[0] = 1', d = 2]}", "in: {c: w}, out: {d: y}"),
        ("{in: [c], steps: [{net: inner, in: {a: c}, out: {a: c}}]}", "in: {c: w}"),
    ],
)  # fmt: skip
def test_a_lost_change_of_a_parameter_is_refused(tmp_path, net, use):
    text = f"""\
        nets: {{f: {net}, inner: {{in: [a], out: [a], steps: ['a[0] = 1']}}}}
        init: [{{task: start, steps: ['w = zeros(4)']}}]
        epoch:
          - {{task: t, steps: [{{net: f, {use}}}, {{net: inner, in: {{a: w}}, out: {{a: w}}}}]}}
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E511"
    assert fault.path == "epoch/t/steps[0]"
    assert "'w' is not changed" in fault.message
    assert "out: {c: w}" in fault.mend


@pytest.mark.parametrize(
    ("net", "use"),
    [
        ("{in: [c], out: [c], steps: ['c[0] = 1']}", "in: {c: w}, out: {c: w}"),
        ("{in: [c], out: [c], steps: ['c[0] = 1']}", "in: {c: w}, out: {c: y}"),
        ("{in: [c], out: [d], steps: [c -= mean(c), d = c * 2]}", "in: {c: w}, out: {d: y}"),
        ("{in: [c], out: [d], steps: [d = 0, {loop: 3, steps: [d = d + c, c = c + 1]}]}",
         "in: {c: w}, out: {d: y}"),
        ("{in: [c], out: [d], steps: ['own = c', 'own[0] = 1', d = own]}",
         "in: {c: w}, out: {d: y}"),
        ("{in: [c], out: [d], steps: ['c[0] = 1', d = c]}", "in: {c: w + 1}, out: {d: y}"),
    ],
)  # fmt: skip
def test_change_of_a_parameter_that_is_handed_on_is_meant(tmp_path, net, use):
    text = f"""\
        nets: {{f: {net}}}
        init: [{{task: start, steps: ['w = zeros(4)']}}]
        epoch: [{{task: t, steps: [{{net: f, {use}}}]}}]
        """

    assert codes_of(tmp_path, text) == []


COUNTING = """\
jobrun: 1
name: counts
nets:
  bump: {in: [c], steps: [count_up(c)]}
  twice:
    in: [n]
    out: [seen]
    steps: [{net: bump, in: {c: n}}, "atomic_add(n, 1)", seen = count_value(n)]
init: [{task: start, steps: [c = counter(0), d = counter(0), last = 0]}]
epoch:
  - task: t
    instances: 4
    steps:
      - {loop: 10, steps: [{net: bump, in: {c: c}}]}
  - {task: u, steps: [{net: twice, in: {n: d}, out: {seen: last}}]}
stop: [{epochs: 1}]
expect: [count_value(c) == 40, count_value(d) == 2, last == 2]
"""


def test_counters_are_passed_to_nets_by_reference(tmp_path):
    path = tmp_path / "counts.yaml"
    path.write_text(COUNTING)

    assert api.run(path, RunOptions(run_dir=tmp_path / "runs")).exit_code == 0


def test_counter_that_begins_below_zero_is_refused(tmp_path):
    faults = faults_of(tmp_path, "init: [{task: start, steps: ['w = 1.0', c = counter(-1)]}]")

    assert ["0 or more, not at -1" in fault.message for fault in faults] == [True]


@pytest.mark.parametrize("value", ["c + 1", "1 - c", "-c", "c < 3", "c == 3"])
def test_counter_that_is_computed_with_is_refused(tmp_path, value):
    text = f"""\
        init: [{{task: start, steps: [w = 1.0, c = counter(0)]}}]
        epoch: [{{task: t, steps: ["y = {value}"]}}]
        """
    fault = fault_of(tmp_path, text)

    assert fault.code == "E291"
    assert "count_value(c)" in fault.mend


def test_a_plain_net_works_on_the_callers_names(tmp_path):
    (use,) = _steps(tmp_path, "{net: f}", nets="{f: [y = w, {log: hi}, z = y]}")

    assert isinstance(use, UseNet)
    assert [step.path for step in use.steps] == [
        "epoch/t/steps[0].f[0]",
        "epoch/t/steps[0].f[1]",
        "epoch/t/steps[0].f[2]",
    ]
    assert isinstance(use.steps[0], Net)
    assert use.steps[0].ops[0].origin.line == 5


def test_a_net_with_parameters_has_names_of_its_own(tmp_path):
    (use,) = _steps(
        tmp_path,
        "{net: f, in: {a: w + 1}, out: {b: w}}",
        nets="{f: {in: [a], out: [b], steps: [t = a * 2, b = t]}}",
    )

    assert isinstance(use, UseNet)
    (net,) = use.steps
    assert isinstance(net, Net)
    names = [op.targets[0].name for op in net.ops if isinstance(op, Assign)]
    assert names == [
        "epoch/t/steps[0]:a",
        "epoch/t/steps[0]:t",
        "epoch/t/steps[0]:b",
        "w",
    ]


def test_a_net_without_in_and_out_works_on_the_callers_names_in_its_long_form_too(tmp_path):
    (use,) = _steps(tmp_path, "{net: f}", nets="{f: {steps: [y = w]}}")

    assert isinstance(use, UseNet)
    assert isinstance(use.steps[0], Net)
    assert use.steps[0].ops[0].targets[0].name == "y"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("use", "part"),
    [
        ("{net: g, in: {a: w}}", "unknown net"),
        ("{net: f, in: {x: w, a: w}}", "no parameter 'x'"),
        ("{net: f}", "missing a value for parameter 'a'"),
        ("{net: f, in: {a: w}, out: {c: y}}", "no result 'c'"),
        ("{net: plain, in: {a: w}}", "takes no 'in' or 'out'"),
    ],
)
def test_a_net_is_called_as_it_was_declared(tmp_path, use, part):
    fault = fault_of(
        tmp_path,
        f"""\
        nets: {{f: {{in: [a], out: [b], steps: [b = a]}}, plain: [y = w]}}
        epoch: [{{task: t, steps: [{{net: plain}}, {{net: f, in: {{a: 1}}}}, {use}]}}]
        """,
    )

    assert fault.code in ("E145", "E147")
    assert part in fault.message


def test_set_up_of_a_net_runs_once_for_each_task_that_uses_it(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nets:
          f:
            setup: {task: {init: [total = 0]}, instance: {init: [own = 1]}, node: {init: [g = 2]}}
            steps: [total = total + own + g]
        epoch:
          - {task: a, steps: [{net: f}, {net: f}]}
          - {task: b, steps: [{loop: 2, steps: [{net: f}]}]}
        """,
    )

    for name in ("a", "b"):
        task = task_of(job, name)
        assert [setup.name for setup in task.setup] == ["nets/f/setup.task"]
        assert [setup.name for setup in task.instance_setup] == ["nets/f/setup.instance"]
    assert [node_setup.nets.name for node_setup in job.epoch.setup] == ["nets/f/setup.node"]


def test_what_set_up_of_a_net_makes_is_shared_by_all_uses_in_a_task(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nets:
          f:
            in: [x]
            setup: {task: {init: [total = 0]}}
            steps: [total = total + x]
        epoch: [{task: t, steps: [{net: f, in: {x: 1}}, {net: f, in: {x: 2}}]}]
        """,
    )

    names = [name for name, _ in task_of(job, "t").scopes]
    assert names == ["epoch/t/steps[0]:x", "epoch/t/steps[1]:x", "nets/f:total"]


def test_a_net_that_nothing_uses_is_read_all_the_same(tmp_path):
    assert codes_of(tmp_path, "nets: {f: [x = nosuch(1), {stop: block}, y = iter]}") == ["E104"]


def test_a_net_that_nothing_uses_gets_a_warning(tmp_path):
    compiled = compile_text(tmp_path, "nets: {f: [{net: g}], g: [x = 1]}")

    assert [(warning.code, warning.path) for warning in compiled.warnings] == [("W134", "nets.f")]


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
    assert [(net.name, net.node, net.path) for net in remote] == [
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
    assert [setup.name for setup in first.setup] == ["nets/inner/setup.task"]
    assert second.setup == first.setup


def test_unknown_names_are_reported_with_the_nearest(tmp_path):
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


def test_remote_nets_of_a_job_built_in_python_are_kept():
    remote_net = RemoteNet("f", "n", (), path="epoch/remote[0]")
    job = Job(
        "j",
        Cluster((Node("n"),)),
        TaskGroup("init", (Task("start", "n", steps("x = 1")),)),
        TaskGroup(
            "epoch", (Task("t", "n", steps("x = x + 1"), timeout_s=5.0),), remote=(remote_net,)
        ),
        stop=(StopAfterEpochs(1),),
    )

    completed = complete(job).job
    elsewhere = replace(job.epoch, remote=(replace(remote_net, node="m"),))

    assert completed.epoch.remote == (remote_net,)
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


def test_remote_nets_built_in_python_get_paths_and_node_properties():
    nets = (
        RemoteNet("f", "n", steps("a = 1")),
        RemoteNet("f", "m", steps("a = 1")),
        RemoteNet("g", "n", steps("a = 2")),
    )

    completed = complete(_by_hand(*nets)).job.epoch.remote

    assert [(net.path, net.steps[0].path, net.props) for net in completed] == [
        ("epoch/remote[0]", "epoch/remote[0].f[0]", (("color", "red"),)),
        ("epoch/remote[0]", "epoch/remote[0].f[0]", ()),
        ("epoch/remote[1]", "epoch/remote[1].g[0]", (("color", "red"),)),
    ]


@pytest.mark.parametrize(
    ("value", "code"), [(OutputRead("start", "o"), "E125"), (Call("nothing_known"), "E199")]
)
def test_remote_nets_of_a_job_built_in_python_are_checked(value, code):
    net = RemoteNet("f", "n", (Net((Assign((NameTarget("a"),), value),)),))

    with pytest.raises(SpecError) as caught:
        complete(_by_hand(net))

    assert caught.value.faults[0].code == code
