"""What init leaves."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.api import prepare
from jobrun.compile.analysis.state import KeptNames, names_of, sort_by_node
from jobrun.compile.pipeline import complete
from jobrun.compile.plan_document import plan_json
from jobrun.compile.plan_text import plan_text
from jobrun.core.errors import SpecError
from jobrun.graph.types import Cluster, Node, Scope, StateLayout
from tests.support.compiling import codes_of, fault_of, job_of


def test_names_of_a_node_are_state_and_constants():
    names_by_node = {"a": KeptNames(frozenset("w"), frozenset("X")), "b": KeptNames()}
    assert names_of(names_by_node) == {"a": frozenset({"w", "X"}), "b": frozenset()}


def test_names_come_in_the_order_of_the_nodes_without_empty_ones():
    cluster = Cluster((Node("b"), Node("a"), Node("c")))
    assert sort_by_node(cluster, {"a": frozenset("x"), "b": frozenset("yz"), "c": frozenset()}) == (
        ("b", ("y", "z")),
        ("a", ("x",)),
    )


def test_state_and_constants_are_distinguished_per_node(tmp_path):
    job = job_of(
        tmp_path,
        """\
        nodes: {b: {}, a: {count: 2}}
        init:
          - {task: data, node: '*', rebuild: true, steps: [X = zeros(3), n = len(X)]}
          - {task: w, node: a, needs: [data], steps: [w = X, v = n]}
        epoch: [{task: t, node: '*', steps: [y = X]}]
        """,
    )

    assert job.constants == (("b", ("X", "n")), ("a_0", ("X", "n")), ("a_1", ("X", "n")))
    assert job.state == (("a_0", ("v", "w")), ("a_1", ("v", "w")))


@pytest.mark.parametrize(
    "steps",
    ["{if: 1 > 0, then: [x = 1]}", "{loop: 0, steps: [x = 1]}", "x = 1, {if: 1 > 0, then: [del x]}",
     "{stop_if: 1 > 0}, x = 1"],
)  # fmt: skip
def test_state_is_there_whatever_way_init_takes(tmp_path, steps):
    fault = fault_of(tmp_path, f"init: [{{task: i, steps: [w = 1.0, {steps}]}}]")

    assert fault.code == "E179"
    assert "'x'" in fault.message


def test_a_later_task_of_init_may_delete_what_an_earlier_one_made(tmp_path):
    job = job_of(
        tmp_path,
        """\
        init:
          - {task: a, steps: [t = 1.0]}
          - {task: b, needs: [a], steps: [w = t, del t]}
        """,
    )

    assert job.state == (("local", ("w",)),)


def test_a_constant_may_not_be_state_too(tmp_path):
    fault = fault_of(
        tmp_path,
        """\
        init:
          - {task: a, rebuild: true, steps: [w = 1.0]}
          - {task: b, needs: [a], steps: [w = 2.0]}
        """,
    )

    assert fault.code == "E175"
    assert "init/a/steps[0]" in fault.message
    assert fault.path == "init/b/steps[0]"


def test_counting_is_writing_too(tmp_path):
    text = """\
        init:
          - {task: a, rebuild: true, steps: [c = counter(0)]}
          - {task: b, needs: [a], steps: [w = 1.0, count_up(c)]}
        """

    assert codes_of(tmp_path, text) == ["E175"]


def test_the_order_of_names_is_not_that_of_a_set(tmp_path):
    names = [f"n{i:02d}" for i in range(40)]
    steps = ", ".join(f"{name} = 1" for name in reversed(names))

    job = job_of(
        tmp_path,
        f"init: [{{task: i, steps: [{steps}]}}]\nepoch: [{{task: t, steps: [x = n00]}}]",
    )

    assert job.state == (("local", tuple(names)),)


def test_what_a_callable_of_a_rebuild_task_makes_may_be_lent_to_be_changed(tmp_path):
    job = job_of(
        tmp_path,
        """\
        init:
          - {task: make, rebuild: true, steps: [{call: "lib:make", out: model}]}
          - {task: warm, needs: [make], steps: [{call: "lib:warm", inout: [model]}, w = 1.0]}
        epoch:
          - {task: train, steps: [{call: "lib:train", inout: [model, w]}]}
        """,
    )

    assert dict(job.constants) == {"local": ("model",)}
    assert dict(job.state) == {"local": ("w",)}
    tasks = [task for group in job.groups for task in group.tasks]
    assert [task.objects for task in tasks] == [(), ("model",), ("model",)]


@pytest.mark.parametrize("steps", ["X = zeros(3)", "{call: 'lib:make', out: X}, 'X += 1'"])
def test_a_constant_of_another_origin_may_not_be_lent(tmp_path, steps):
    text = f"""\
        init:
          - {{task: make, rebuild: true, steps: [{steps}]}}
          - {{task: other, needs: [make], steps: [{{call: "lib:warm", inout: [X]}}, w = 1.0]}}
        """

    assert codes_of(tmp_path, text) == ["E175"]


STEP = "{run: make, state_dir: s}"


def _state(job):
    return dict(job.state)


def test_a_state_dir_is_state_of_the_node_that_runs_the_program(tmp_path):
    job = job_of(
        tmp_path,
        f"""
        nodes: {{a: {{}}, b: {{}}}}
        init: [{{task: start, node: a, steps: [w = 1.0]}}]
        epoch: [{{task: t, node: b, steps: [{STEP}]}}, {{task: u, node: a, steps: [w = w + 1]}}]
        """,
    )

    assert _state(job) == {"a": ("w",), "b": ("state_dirs/s",)}
    assert job.checkpoint.nodes == ("a", "b")
    assert [(setup.node, setup.scopes) for setup in job.init.setup] == [
        ("b", (("state_dirs/s", Scope.NODE),))
    ]


@pytest.mark.parametrize("group", ["init", "epoch", "download", "exit"])
@pytest.mark.parametrize(
    "steps",
    [
        f"[{STEP}]",
        f"[{{if: epoch > 1, then: [{STEP}]}}]",
        f"[{{loop: 3, steps: [{STEP}]}}]",
        f"[{STEP}, {STEP}]",
    ],
)
def test_it_is_there_from_the_start_wherever_it_is_used(group, steps, tmp_path):
    start = "{task: start, steps: [w = 1.0]}, " if group == "init" else ""
    spec = f"{group}: [{start}{{task: t, steps: {steps}}}]"
    if group == "epoch":
        spec += "\ninit: []"

    assert "state_dirs/s" in _state(job_of(tmp_path, spec))["local"]


def test_a_net_uses_the_folder_of_the_task_that_uses_it(tmp_path):
    job = job_of(
        tmp_path,
        f"""
        nets: {{f: {{in: [x], out: [y], steps: [y = x, {STEP}]}}}}
        epoch: [{{task: t, steps: [{{net: f, in: {{x: "1.0"}}, out: {{y: w}}}}]}}]
        """,
    )

    assert _state(job) == {"local": ("state_dirs/s", "w")}


def test_two_tasks_at_once_are_refused(tmp_path):
    two = f"epoch: [{{task: t, steps: [{STEP}]}}, {{task: u, steps: [{STEP}]}}]"

    assert "state_dirs/s" in fault_of(tmp_path, two).message
    assert codes_of(tmp_path, two.replace("task: u,", "task: u, needs: [t],")) == []


def test_several_instances_are_refused(tmp_path):
    fault = fault_of(tmp_path, f"epoch: [{{task: t, instances: 2, steps: [{STEP}]}}]")

    assert "state_dirs/s" in fault.message


def test_its_node_must_be_saved(tmp_path):
    fault = fault_of(
        tmp_path,
        f"""
        nodes: {{a: {{}}, b: {{}}}}
        init: [{{task: start, node: a, steps: [w = 1.0]}}]
        epoch: [{{task: t, node: b, steps: [{STEP}]}}, {{task: u, node: a, steps: [w = w + 1]}}]
        checkpoint: {{nodes: [a]}}
        """,
    )

    assert (fault.code, fault.mend) == ("E120", "add 'b'")
    assert "state_dir" in fault.message


def test_a_completed_job_stays_as_it_is(tmp_path):
    job = job_of(tmp_path, f"epoch: [{{task: t, steps: [{STEP}]}}]")

    assert complete(job).job == job


BODY = """\
nodes: {t: {count: 2}}
state: {STATE}
init: [{task: i, node: t, steps: ["U = zeros((4, 2))", V = 1.0, k = 0]}]
epoch: [{task: e, node: t, steps: [U += V]}]
"""


def _body(state):
    return BODY.replace("STATE", state)


def test_declarations_are_part_of_the_job(tmp_path):
    job = job_of(tmp_path, _body("U: {partition: rows}, V: replicated"))

    assert job.layouts == (
        StateLayout("U", "rows", "state.U"),
        StateLayout("V", "replicated", "state.V"),
    )


def test_a_declaration_of_what_is_no_state_is_refused_with_its_place(tmp_path):
    fault = fault_of(tmp_path, _body("U: {partition: rows}, Vv: replicated"))

    assert (fault.code, fault.path, fault.mend) == ("E044", "state.Vv", "did you mean 'V'?")
    assert fault.where is not None
    assert fault.where.line > 1


def test_a_single_value_has_no_rows(tmp_path):
    fault = fault_of(tmp_path, _body("V: {partition: rows}"))

    assert (fault.code, fault.path) == ("E045", "state.V")


def test_a_job_built_in_python_is_checked_too(tmp_path):
    job = job_of(tmp_path, _body("U: {partition: rows}"))
    try:
        prepare(replace(job, layouts=(StateLayout("nothing", "rows"),)))
    except SpecError as error:
        codes = [fault.code for fault in error.faults]

    assert codes == ["E044"]


def test_a_plan_says_what_another_number_of_nodes_would_mean(tmp_path):
    job = job_of(tmp_path, _body("U: {partition: rows}, V: replicated"))
    text = plan_text(job)

    assert "other nodes a resume may use another 'count': U by rows, V the same on all" in text
    assert "but not of nodes with k, not declared in 'state'" in text
    assert [layout["layout"] for layout in plan_json(job)["layouts"]] == ["rows", "replicated"]
