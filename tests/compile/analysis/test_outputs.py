"""Outputs of tasks, read by others."""

from __future__ import annotations

import pytest

from jobrun.compile.pipeline import complete
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import OutputRead
from jobrun.graph.steps import Assign, NameTarget, Net
from jobrun.graph.types import Cluster, Job, Node, NodeSetup, SetupNets, Task, TaskGroup
from tests.support.compiling import codes_of, fault_of, job_of, task_of

NODES = """\
nodes: {a: {}, b: {}}
init: [{task: start, node: '*', steps: [w = 1.0]}]
"""


def _read(job, task, node=None):
    net = task_of(job, task, node).steps[0]
    assert isinstance(net, Net)
    op = net.ops[0]
    assert isinstance(op, Assign)
    return op.value


def test_an_output_is_read_from_the_node_of_its_task(tmp_path):
    job = job_of(
        tmp_path,
        NODES + "epoch:\n"
        "  - {task: t, node: a, steps: [x = w], outputs: [x]}\n"
        "  - {task: u, node: b, needs: [t], steps: [y = t.x]}\n",
    )

    assert _read(job, "u") == OutputRead("t", "x", "a")


def test_on_each_node_its_own_task_is_meant(tmp_path):
    job = job_of(
        tmp_path,
        NODES + "epoch:\n"
        "  - {task: t, node: '*', steps: [x = w], outputs: [x]}\n"
        "  - {task: u, node: '*', needs: [t], steps: [y = t.x]}\n",
    )

    assert _read(job, "u", "a") == OutputRead("t", "x", "a")
    assert _read(job, "u", "b") == OutputRead("t", "x", "b")


def test_several_values_are_not_one(tmp_path):
    fault = fault_of(
        tmp_path,
        "nodes: {a: {}, b: {}, c: {}}\n"
        "init: [{task: start, node: '*', steps: [w = 1.0]}]\n"
        "epoch:\n"
        "  - {task: t, node: '[ab]', steps: [x = w], outputs: [x]}\n"
        "  - {task: u, node: c, needs: [t], steps: [y = t.x]}\n",
    )

    assert fault.code == "E133"


def test_outputs_of_earlier_groups_are_there(tmp_path):
    text = """\
        init: [{task: start, steps: [w = 1.0], outputs: [{n: w * 2}]}]
        epoch: [{task: t, steps: [w = w + start.n], outputs: [w]}]
        exit: [{task: e, steps: [x = t.w + start.n]}]
        """

    assert codes_of(tmp_path, text) == []


def test_outputs_of_later_groups_are_not(tmp_path):
    text = """\
        epoch: [{task: t, steps: [x = e.y]}]
        exit: [{task: e, steps: [y = 1], outputs: [y]}]
        """

    assert codes_of(tmp_path, text) == ["E149"]


def test_a_task_of_the_same_group_must_have_ended(tmp_path):
    text = "epoch: [{task: t, steps: [x = w], outputs: [x]}, {task: u, steps: [y = t.x]}]"
    fault = fault_of(tmp_path, text)

    assert fault.code == "E149"
    assert fault.mend == "write needs: [t]"


def test_a_task_cannot_read_its_own_output(tmp_path):
    text = "epoch: [{task: t, steps: [x = w, y = t.x], outputs: [x]}]"

    assert codes_of(tmp_path, text) == ["E149"]


def test_an_unknown_output_gets_the_nearest_name(tmp_path):
    text = """\
        epoch:
          - {task: t, steps: [total = w], outputs: [total]}
          - {task: u, needs: [t], steps: [y = t.totl]}
        """
    fault = fault_of(tmp_path, text)

    assert (fault.code, fault.mend) == ("E148", "did you mean 'total'?")


def test_the_fault_of_a_task_without_outputs_says_how_to_add_one(tmp_path):
    text = "epoch: [{task: t, steps: [x = w]}, {task: u, needs: [t], steps: [y = t.x]}]"

    mend = "write outputs: [x] in task 't'; a text is quoted again: \"'t.x'\""
    assert fault_of(tmp_path, text).mend == mend


def test_an_unknown_task_gets_the_nearest_name(tmp_path):
    text = """\
        epoch:
          - {task: first, steps: [x = w], outputs: [x]}
          - {task: u, needs: [first], steps: [y = frst.x]}
        """
    fault = fault_of(tmp_path, text)

    assert (fault.code, fault.mend) == ("E170", "did you mean 'first'?")


def test_outputs_are_found_wherever_they_are_read(tmp_path):
    text = """\
        init: [{task: start, steps: [w = 1.0], outputs: [w]}]
        epoch:
          tasks:
            - task: t
              setup: {task: {init: [{log: "{start.w}"}]}}
              steps: [{if: start.w > 1, then: [{loop: start.n, steps: ['x = start.w']}]}]
              report: [{steps: [{metric: {m: start.w}}]}]
              outputs: [{o: start.w}]
          setup: {init: [g = start.w]}
          report: [{steps: [{log: "{start.w}"}]}]
        """
    text = text.replace("outputs: [w]", "outputs: [w, {n: 2}]")
    job = job_of(tmp_path, text)

    assert "node=''" not in repr(job)
    assert repr(job).count("OutputRead(") == 8


AROUND = """\
nodes: {a: {}, b: {}}
init: [{task: start, node: '*', steps: [w = 1.0], outputs: [w]}]
epoch:
  tasks:
    - {task: t, node: a, steps: [x = w], outputs: [x]}
    - {task: u, node: b, steps: [w = w + 1], outputs: [w]}
  AROUND
exit: [{task: e, node: a, steps: [y = t.x], outputs: [y]}]
"""


@pytest.mark.parametrize(
    ("surroundings", "code"),
    [
        ("setup: {node: a, init: [y = tt.x]}", "E170"),
        ("setup: {node: a, exit: [y = tt.x]}", "E170"),
        ("setup: {node: a, exit: [{if: 'tt.x > 1', then: [y = 1]}]}", "E170"),
        ("report: [{node: a, steps: [{log: '{tt.x}'}]}]", "E170"),
        ("setup: {node: a, exit: [y = b.w]}", "E170"),
        ("setup: {node: a, init: [y = start.v]}", "E148"),
        ("setup: {node: a, exit: [y = t.z]}", "E148"),
        ("report: [{node: a, steps: [{metric: {m: start.v}}]}]", "E148"),
        ("setup: {node: a, init: [y = e.y]}", "E149"),
        ("setup: {node: a, exit: [y = e.y]}", "E149"),
        ("report: [{node: a, steps: [{log: '{e.y}'}]}]", "E149"),
        ("setup: {node: a, init: [y = t.x]}", "E149"),
        ("report: [{node: a, steps: [{log: '{t.x}'}]}]", "E149"),
        ("setup: {node: b, exit: [y = t.x]}", "E149"),
        ("setup: {node: a, exit: [y = u.w]}", "E149"),
    ],
)
def test_outputs_read_in_setups_and_reports_are_checked_as_in_tasks(tmp_path, surroundings, code):
    assert codes_of(tmp_path, AROUND.replace("AROUND", surroundings)) == [code]


@pytest.mark.parametrize(
    "surroundings",
    [
        "setup: {node: a, exit: [y = t.x]}",
        "setup: {exit: [y = start.w]}",
        "setup: {init: [y = start.w]}",
        "report: [{steps: [{log: '{start.w}'}]}]",
    ],
)
def test_an_exit_reads_outputs_of_its_node_and_all_read_earlier_groups(tmp_path, surroundings):
    assert codes_of(tmp_path, AROUND.replace("AROUND", surroundings)) == []


def test_blob_of_another_node_gets_the_hint_to_pull(tmp_path):
    fault = fault_of(tmp_path, AROUND.replace("AROUND", "setup: {node: a, init: [y = b.w]}"))

    assert fault.mend == "'b' is a node: get its blob with {pull: {w: {from: b, blob: w}}}"


def test_an_exit_of_init_that_runs_at_a_resume_reads_only_what_is_rebuilt(tmp_path):
    text = """\
        init:
          tasks:
            - {task: start, steps: [w = 1.0], outputs: [w]}
            - {task: data, rebuild: true, steps: [k = 2.0], outputs: [k]}
          setup: {exit: [y = READ]}
        """

    assert codes_of(tmp_path, text.replace("READ", "data.k + k")) == []
    assert codes_of(tmp_path, text.replace("READ", "start.w")) == ["E149"]
    assert codes_of(tmp_path, text.replace("READ", "w")) == ["E182"]


def test_outputs_around_tasks_of_a_job_built_in_python_are_checked():
    read = Net((Assign((NameTarget("y"),), OutputRead("tt", "x"), "", NOWHERE),), "", NOWHERE)
    group = TaskGroup(
        "epoch", (Task("t", "n", ()),), (NodeSetup("n", SetupNets((), (read,), "s"), ()),)
    )
    job = Job("j", Cluster((Node("n"),)), TaskGroup("init", ()), group, stop=(StopAfterEpochs(1),))

    with pytest.raises(SpecError) as caught:
        complete(job)

    assert [fault.code for fault in caught.value.faults] == ["E170"]


def test_a_param_with_its_section_is_corrected_to_its_name(tmp_path):
    fault = fault_of(
        tmp_path,
        "params: {rate: 0.1}\nepoch: [{task: t, steps: [y = params.rate]}]\n",
    )

    assert fault.code == "E170"
    assert "write 'rate'" in fault.mend
