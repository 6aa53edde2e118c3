"""Races between tasks and between instances."""

from __future__ import annotations

import itertools

import pytest

from jobrun.graph.group_transforms import remap_nodes
from jobrun.graph.steps import Pull, PulledBlob
from jobrun.graph.traversal import find_parts
from tests.support.compiling import codes_of, fault_of, faults_of, job_of

USES = {"reads": "x = w", "writes": "w = 2.0", "changes": "w += 1"}
INIT = "init: [{task: i, steps: [w = 1.0, c = counter(0), u = zeros(3)]}]\n"


@pytest.mark.parametrize(("first", "second"), list(itertools.product(USES, repeat=2)))
def test_tasks_race_unless_both_only_read(tmp_path, first, second):
    tasks = f"{{task: a, steps: [{USES[first]}]}}, {{task: b, steps: [{USES[second]}]}}"

    expected = [] if first == second == "reads" else ["E177"]
    assert codes_of(tmp_path, f"epoch: [{tasks}]") == expected
    assert codes_of(tmp_path, f"epoch: [{tasks}]".replace("b, ", "b, needs: [a], ")) == []


def test_both_sides_are_named_with_their_places(tmp_path):
    fault = fault_of(
        tmp_path,
        "epoch:\n  - {task: a, steps: [w = w + 1]}\n  - {task: b, steps: [{log: hi}, x = w]}\n",
    )

    assert "epoch/a/steps[0]" in fault.message
    assert "job.yaml:6:23" in fault.message
    assert fault.path == "epoch/b/steps[1]"
    assert fault.where is not None
    assert fault.where.line == 7


def test_an_order_through_other_tasks_is_an_order(tmp_path):
    text = """\
        epoch:
          - {task: d, needs: [b, c], steps: [w = w * 2]}
          - {task: a, steps: [w = w + 1]}
          - {task: b, needs: [a], steps: [x = w]}
          - {task: c, needs: [a], steps: [y = w]}
        """

    assert codes_of(tmp_path, text) == []
    assert codes_of(tmp_path, text.replace("[b, c]", "[b]")) == ["E177"]


def test_only_blobs_that_are_shared_can_race(tmp_path):
    text = "epoch: [{task: a, steps: [x = w]}, {task: b, steps: [x = w]}]"

    assert codes_of(tmp_path, text) == []


def test_blobs_of_a_group_run_are_shared(tmp_path):
    text = """\
        epoch:
          tasks: [{task: a, steps: [g = 1]}, {task: b, steps: [g = 2]}]
          setup: {init: [g = 0]}
        """

    assert codes_of(tmp_path, text) == ["E177"]


def test_global_tasks_share_what_they_make(tmp_path):
    text = """\
        epoch:
          - {task: a, workspace: global, steps: [x = 1]}
          - {task: b, workspace: global, steps: [x = 2]}
        """

    assert codes_of(tmp_path, text) == ["E177"]


def test_tasks_on_different_nodes_do_not_race(tmp_path):
    text = """\
        nodes: {n: {count: 3}}
        init: [{task: i, node: n, steps: [w = 1.0]}]
        epoch: [{task: a, node: n_0, steps: [w = 2.0]}, {task: b, node: n_1, steps: [w = 2.0]}]
        """

    assert codes_of(tmp_path, text) == []


def test_counting_together_is_no_race(tmp_path):
    tasks = "{task: a, steps: [count_up(c)]}, {task: b, instances: 3, steps: ['atomic_add(c, 2)']}"

    assert codes_of(tmp_path, f"{INIT}epoch: [{tasks}]") == []


@pytest.mark.parametrize("step", ["x = count_value(c)", "c = counter(0)", "{save: {c: a.npy}}"])
def test_counting_and_anything_else_is_a_race(tmp_path, step):
    tasks = f"{{task: a, steps: [count_up(c)]}}, {{task: b, steps: [{step}]}}"

    assert codes_of(tmp_path, f"{INIT}epoch: [{tasks}]") == ["E177"]


def test_who_reads_its_counter_plainly_races_with_who_counts(tmp_path):
    tasks = "{task: a, steps: [count_up(c)]}, {task: b, steps: [count_up(c), x = count_value(c)]}"

    assert codes_of(tmp_path, f"{INIT}epoch: [{tasks}]") == ["E177"]


@pytest.mark.parametrize("step", ["w = 2.0", "w += 1", "'u[0] = 1'", "'add_at(u, 0, 1)'"])
def test_instances_may_not_write_what_they_share(tmp_path, step):
    text = f"{INIT}epoch: [{{task: a, instances: 2, steps: [{step}]}}]"

    assert codes_of(tmp_path, text) == ["E178"]
    assert codes_of(tmp_path, text.replace("instances: 2", "instances: 1")) == []
    assert codes_of(tmp_path, text.replace("instances: 2", "instances: 2, hogwild: true")) == []


def test_instances_share_what_set_up_of_the_task_made(tmp_path):
    text = """\
        epoch:
          - {task: a, instances: 2, setup: {task: {init: [s = 0]}}, steps: [s = s + 1]}
        """

    assert codes_of(tmp_path, text) == ["E178"]


def test_instances_have_their_own_of_what_the_body_makes(tmp_path):
    text = """\
        epoch:
          - task: a
            instances: 2
            setup: {instance: {init: [s = 0]}}
            steps: [s = s + 1, x = s]
        """

    assert codes_of(tmp_path, text) == []


def test_instances_may_count_and_not_look(tmp_path):
    text = f"{INIT}epoch: [{{task: a, instances: 2, steps: [count_up(c), x = count_value(c)]}}]"

    assert codes_of(tmp_path, text) == ["E178"]


def test_a_report_may_look_at_what_is_being_written(tmp_path):
    text = """\
        epoch:
          - {task: a, steps: [w = w + 1], report: [{steps: [{log: "{w}"}]}]}
          - {task: b, steps: [x = 1], report: [{steps: [{log: "{w}"}]}]}
        """

    assert codes_of(tmp_path, text) == []


def test_what_a_report_writes_races_like_the_rest(tmp_path):
    text = """\
        epoch:
          - {task: a, steps: [w = w + 1]}
          - {task: b, steps: [x = 1], report: [{steps: [w = 1.0]}]}
        """

    assert codes_of(tmp_path, text) == ["E177"]


def test_hogwild_on_one_side_is_enough(tmp_path):
    text = "epoch: [{task: a, hogwild: true, steps: [w = 2.0]}, {task: b, steps: [x = w]}]"

    assert codes_of(tmp_path, text) == []


def test_every_task_that_races_is_reported(tmp_path):
    tasks = ", ".join(f"{{task: t{i}, steps: [w = 1.0]}}" for i in range(5))

    assert len(faults_of(tmp_path, f"epoch: [{tasks}]")) == 4


PIPELINE = """\
queues: {{q: {{}}, r: {{}}}}
readers: {{src: {{npz: a.npz, fields: [x]}}}}
epoch:
  workspace: global
  tasks:
    - {{task: p, read: src, steps: [{0}], write: {{q: [x], r: [x]}}}}
    - {{task: c, read: q, steps: [{1}]}}
    - {{task: d, read: r, steps: [{2}]}}
"""


@pytest.mark.parametrize(
    ("steps", "code", "mend"),
    [
        (("w = w + 1", "w = w + x", "z = 1"), "E177", "send what the other needs"),
        (("z = 1", "w = w + 1", "w = w + x"), "E177", "send what the other needs"),
        (("z = w", "w = w + x", "y = 1"), "E177", "send what the other needs"),
    ],
)
def test_hint_for_tasks_joined_by_queues_proposes_no_needs(tmp_path, steps, code, mend):
    fault = fault_of(tmp_path, PIPELINE.format(*steps))

    assert fault.code == code
    assert mend in fault.mend
    assert "needs:" not in fault.mend


def test_blob_or_output_of_a_task_joined_by_queues_is_to_be_sent(tmp_path):
    text = """\
        queues: {q: {}}
        readers: {src: {npz: a.npz, fields: [x]}}
        epoch:
          - {task: p, workspace: global, read: src, steps: [m = 1], write: {q: [x]},
             setup: {task: {init: [m = 0]}}, outputs: [m]}
          - {task: c, read: q, steps: [y = READ]}
        """

    for read, code in (("m", "E182"), ("p.m", "E149")):
        fault = fault_of(tmp_path, text.replace("READ", read))
        assert fault.code == code
        assert "as a field" in fault.mend


NODES = "nodes: {t: {count: 3}, solo: {}}\ncheckpoint: {nodes: [t, solo]}\n"
TASKS = "{task: start, node: 't_*', steps: [w = 1.0]}, {task: s, node: solo, steps: [v = 1]}"
TWO_NODES = f"init: [{TASKS}]\n"


def spec(epoch, init=TWO_NODES, more=""):
    return f"{NODES}{init}epoch: [{epoch}]\n{more}"


def pull(source="t", blob="w", reduce="mean"):
    return f"{{pull: {{m: {{from: {source}, blob: {blob}, reduce: {reduce}}}}}}}"


def test_a_pull_names_its_nodes_in_their_order(tmp_path):
    job = job_of(tmp_path, spec(f"{{task: a, node: solo, steps: [{pull()}, v = m]}}"))

    (step,) = find_parts(job.epoch, Pull)
    assert step.blobs == (PulledBlob("m", ("t_0", "t_1", "t_2"), "w", "mean"),)
    assert step.path == "epoch/a/steps[0]"


def test_pulled_nodes_move_with_the_tasks(tmp_path):
    epoch = f"{{task: a, node: t_0, steps: [{pull('t_0', reduce='first')}, w = m]}}"
    job = job_of(tmp_path, spec(epoch, TWO_NODES).replace("w = m", "x = m"))

    (moved,) = find_parts(remap_nodes(job.epoch, {"t_0": "solo"}), PulledBlob)

    assert moved.nodes == ("solo",)


def test_a_pattern_without_nodes_is_refused(tmp_path):
    epoch = f"{{task: a, node: solo, steps: [{pull('x_*')}, v = m]}}"

    assert codes_of(tmp_path, spec(epoch)) == ["E142"]


@pytest.mark.parametrize("blob", ["ww", "v"])
def test_a_pulled_blob_that_no_task_makes_is_refused(tmp_path, blob):
    epoch = f"{{task: a, node: solo, steps: [{pull(blob=blob)}, v = m]}}"

    (fault,) = faults_of(tmp_path, spec(epoch))

    assert fault.code == "E273"
    assert f"the global blob '{blob}' may not exist on 't_0', 't_1', 't_2'" in fault.message
    assert fault.where.line > 0


def test_a_task_cannot_pull_what_it_writes_on_other_nodes(tmp_path):
    epoch = f"{{task: a, node: 't_*', steps: [{pull()}, w = m]}}"

    (fault, *_) = faults_of(tmp_path, spec(epoch))

    assert fault.code == "E272"
    assert "races with itself on 'w'" in fault.message


def test_a_task_cannot_pull_what_it_writes_on_its_own_node(tmp_path):
    epoch = f"{{task: a, node: t_0, steps: [w = w + 1, {pull('t_0')}, x = m]}}"

    (fault,) = faults_of(tmp_path, spec(epoch))

    assert "pulls it from its own node" in fault.message


@pytest.mark.parametrize("needs", ["", "needs: [a]", "needs: [b]"])
def test_a_write_elsewhere_must_be_ordered(tmp_path, needs):
    first = (
        f"{{task: a, node: solo, steps: [{pull()}, v = m]{', ' + needs if 'b' in needs else ''}}}"
    )
    second = f"{{task: b, node: 't_*', steps: [w = w + 1]{', ' + needs if '[a]' in needs else ''}}}"

    codes = [] if needs else ["E272"]
    assert codes_of(tmp_path, spec(f"{first}, {second}"))[:1] == codes


def test_hogwild_tasks_may_race(tmp_path):
    first = f"{{task: a, node: solo, hogwild: true, steps: [{pull()}, v = m]}}"
    second = "{task: b, node: 't_*', steps: [w = w + 1]}"

    assert codes_of(tmp_path, spec(f"{first}, {second}")) == []


def test_what_a_global_task_made_before_can_be_pulled(tmp_path):
    download = """
        download:
          - {task: make, node: 't_*', steps: [part = w * 2]}
          - {task: join, node: solo, needs: [make], steps: [%s]}
        """ % pull(blob="part", reduce="stack")  # noqa: UP031

    job = job_of(
        tmp_path,
        spec(
            "{task: a, node: solo, steps: [v = v + 1]}", more=download.replace("\n        ", "\n")
        ),
    )

    assert len(list(find_parts(job.download, Pull))) == 1


def test_the_set_up_of_a_node_cannot_pull(tmp_path):
    epoch = "{task: a, node: solo, setup: {node: {init: [%s]}}, steps: [v = v + 1]}" % pull()  # noqa: UP031

    assert codes_of(tmp_path, spec(epoch)) == ["E272"]


def test_what_is_rebuilt_cannot_pull_what_is_not(tmp_path):
    init = (
        f"init: [{TASKS}, "
        f"{{task: r, node: solo, rebuild: true, needs: [start], steps: [{pull()}, c = m]}}]\n"
    )

    assert "E273" in codes_of(tmp_path, spec("{task: a, node: solo, steps: [v = v + 1]}", init))
