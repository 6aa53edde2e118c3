from __future__ import annotations

import pytest

from jobrun.graph.group_transforms import remap_nodes
from jobrun.graph.steps import Pull, PulledBlob
from jobrun.graph.traversal import find_parts
from tests.support.compiling import codes_of, faults_of, job_of

NODES = "nodes: {t: {count: 3}, solo: {}}\ncheckpoint: {nodes: [t, solo]}\n"
TASKS = "{task: start, node: 't_*', steps: [w = 1.0]}, {task: s, node: solo, steps: [v = 1]}"
INIT = f"init: [{TASKS}]\n"


def spec(epoch, init=INIT, rest=""):
    return f"{NODES}{init}epoch: [{epoch}]\n{rest}"


def pull(source="t", blob="w", reduce="mean"):
    return f"{{pull: {{m: {{from: {source}, blob: {blob}, reduce: {reduce}}}}}}}"


def test_a_pull_names_its_nodes_in_their_order(tmp_path):
    job = job_of(tmp_path, spec(f"{{task: a, node: solo, steps: [{pull()}, v = m]}}"))

    (step,) = find_parts(job.epoch, Pull)
    assert step.blobs == (PulledBlob("m", ("t_0", "t_1", "t_2"), "w", "mean"),)
    assert step.path == "epoch/a/steps[0]"


def test_pulled_nodes_move_with_the_tasks(tmp_path):
    epoch = f"{{task: a, node: t_0, steps: [{pull('t_0', reduce='first')}, w = m]}}"
    job = job_of(tmp_path, spec(epoch, INIT).replace("w = m", "x = m"))

    (moved,) = find_parts(remap_nodes(job.epoch, {"t_0": "solo"}), PulledBlob)

    assert moved.nodes == ("solo",)


def test_a_pattern_without_nodes_is_refused(tmp_path):
    epoch = f"{{task: a, node: solo, steps: [{pull('x_*')}, v = m]}}"

    assert codes_of(tmp_path, spec(epoch)) == ["E142"]


@pytest.mark.parametrize("blob", ["ww", "v"])
def test_a_blob_that_nobody_makes_there_is_refused(tmp_path, blob):
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

    found = [] if needs else ["E272"]
    assert codes_of(tmp_path, spec(f"{first}, {second}"))[:1] == found


def test_hogwild_tasks_may_race(tmp_path):
    first = f"{{task: a, node: solo, hogwild: true, steps: [{pull()}, v = m]}}"
    second = "{task: b, node: 't_*', steps: [w = w + 1]}"

    assert codes_of(tmp_path, spec(f"{first}, {second}")) == []


def test_what_a_global_task_made_before_can_be_pulled(tmp_path):
    rest = """
        download:
          - {task: make, node: 't_*', steps: [part = w * 2]}
          - {task: join, node: solo, needs: [make], steps: [%s]}
        """ % pull(blob="part", reduce="stack")  # noqa: UP031

    job = job_of(
        tmp_path,
        spec("{task: a, node: solo, steps: [v = v + 1]}", rest=rest.replace("\n        ", "\n")),
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
