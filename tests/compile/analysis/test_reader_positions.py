from __future__ import annotations

import pytest

from jobrun.compile.pipeline import complete
from jobrun.graph.conditions import StopAfterEpochs, StopWhen
from jobrun.graph.readers import CounterSource, Field, Reader, ReadRecords
from jobrun.graph.types import Cluster, Job, Node, Scope, Task, TaskGroup
from tests.support.compiling import compile_text, fault_of, job_of, scopes_of, task_of

_COUNTER = "r: {counter: {stop: 9}, fields: [x], restart: never%s}"


def _readers(keys=""):
    return f"readers: {{{_COUNTER % keys}}}\n"


def test_a_position_is_state_of_the_node_that_reads(tmp_path):
    job = job_of(tmp_path, _readers() + "epoch: [{task: t, read: r, steps: [w = w + x]}]")

    assert job.state == (("local", ("readers/r", "w")),)
    assert job.checkpoint.nodes == ("local",)
    assert [setup.node for setup in job.init.setup] == ["local"]


def test_a_node_that_only_reads_is_saved_too(tmp_path):
    job = job_of(
        tmp_path,
        "nodes: {a: {}, b: {count: 2}}\ninit: [{task: i, node: a, steps: [w = 1.0]}]\n"
        + _readers()
        + "epoch: [{task: t, node: b, read: r, steps: [y = x]},"
        " {task: u, node: a, steps: [w = 2.0]}]",
    )

    assert job.checkpoint.nodes == ("a", "b_0", "b_1")
    assert job.state == (("a", ("w",)), ("b_0", ("readers/r",)), ("b_1", ("readers/r",)))


def test_shares_are_divided_among_the_nodes_of_the_task(tmp_path):
    text = (
        "nodes: {a: {}, b: {count: 2}}\ninit: [{task: i, node: a, steps: [w = 1.0]}]\n"
        + _readers(", shard: SHARD")
        + "epoch: [{task: t, node: 'b_*', read: r, steps: [y = x]}, "
        "{task: u, node: a, steps: [w = 2.0]}]"
    )
    shared = job_of(tmp_path, text.replace("SHARD", "node"))
    whole = job_of(tmp_path, text.replace("SHARD", "none"))

    def parts(job):
        reads = [task_of(job, "t", node).read for node in ("b_0", "b_1")]
        return [(read.part, read.parts) for read in reads]

    assert parts(shared) == [(0, 2), (1, 2)]
    assert parts(whole) == [(0, 1), (0, 1)]


def test_fields_belong_to_the_instance_unless_a_state_blob_has_their_name(tmp_path):
    text = _readers() + "epoch: [{task: t, read: r, instances: 2, steps: [y = x]}]"

    assert scopes_of(task_of(job_of(tmp_path, text), "t"))["x"] is Scope.INSTANCE


def test_what_only_a_record_of_init_makes_is_no_state(tmp_path):
    job = job_of(
        tmp_path,
        _readers()
        + "init: [{task: i, read: r, setup: {task: {init: [w = 0]}}, steps: [y = 2 * x, w += y]}]",
    )

    assert job.state == (("local", ("readers/r", "w")),)


def test_two_tasks_cannot_read_one_reader_at_the_same_time(tmp_path):
    tasks = "[{task: t, read: r, steps: [y = x]}, {task: u, read: r, steps: [w = w + x]%s}]"
    fault = fault_of(tmp_path, _readers() + "epoch: " + tasks % "")

    assert fault.code == "E120"
    assert "needs: [t]" in fault.mend
    job_of(tmp_path, _readers() + "epoch: " + tasks % ", needs: [t]")


def test_nor_can_one_read_what_another_zips(tmp_path):
    fault = fault_of(
        tmp_path,
        "readers: {a: {counter: {}, fields: [x]}, r: {zip: [a]}}\n"
        "epoch: [{task: t, read: r, steps: [y = x]}, {task: u, read: a, steps: [w = w + x]}]",
    )

    assert fault.code == "E120"
    assert "'a'" in fault.message


def test_the_node_of_a_position_must_be_saved(tmp_path):
    fault = fault_of(
        tmp_path,
        "nodes: {a: {}, b: {}}\ninit: [{task: i, node: a, steps: [w = 1.0]}]\n"
        + _readers()
        + "epoch: [{task: t, node: b, read: r, steps: [y = x]},"
        " {task: u, node: a, steps: [w = 2.0]}]\n"
        "checkpoint: {nodes: [a]}",
    )

    assert fault.code == "E120"
    assert fault.mend == "add 'b'"


def test_a_reader_that_nobody_reads_is_reported(tmp_path):
    (warning,) = compile_text(tmp_path, _readers()).warnings

    assert warning.code == "W137"


def test_data_have_ended_when_they_have_on_all_nodes(tmp_path):
    job = job_of(
        tmp_path,
        "nodes: {b: {count: 2}}\ninit: [{task: i, node: b, steps: [w = 1.0]}]\n"
        + _readers()
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


def test_a_graph_built_by_hand_gets_its_positions_once():
    reader = Reader("r", CounterSource(stop=3), (Field("x", ""),))
    task = Task("t", "n", (), read=ReadRecords(reader))
    job = Job(
        "job",
        Cluster((Node("n"),)),
        TaskGroup("init"),
        TaskGroup("epoch", (task,)),
        stop=(StopAfterEpochs(1),),
    )

    once = complete(job).job
    twice = complete(once).job

    assert once.state == (("n", ("readers/r",)),)
    assert twice == once


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
