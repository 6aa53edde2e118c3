from __future__ import annotations

from jobrun.compile.pipeline import complete
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.readers import CounterSource, Field, Reader, ReadRecords
from jobrun.graph.types import Cluster, Job, Node, Scope, Task, TaskGroup
from tests.support.compiling import compile_text, fault_of, job_of, scopes_of, task_of

_COUNTER = "r: {counter: {stop: 9}, fields: [x], restart: never%s}"


def _readers(keys=""):
    return f"readers: {{{_COUNTER % keys}}}\n"


_STOP = "stop: [data_finished: r]\n"


def test_a_position_is_state_of_the_node_that_reads(tmp_path):
    job = job_of(tmp_path, f"{_STOP}{_readers()}epoch: [{{task: t, read: r, steps: [w = w + x]}}]")

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
    text = f"{_STOP}{_readers()}epoch: [{{task: t, read: r, instances: 2, steps: [y = x]}}]"

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
    job_of(tmp_path, f"{_STOP}{_readers()}epoch: {tasks % ', needs: [t]'}")


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


def test_an_unused_reader_is_reported(tmp_path):
    (warning,) = compile_text(tmp_path, _readers()).warnings

    assert warning.code == "W137"


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
