from __future__ import annotations

import os
import signal
import threading
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runtime.codegen.step_meter import Meter
from jobrun.session.base import GroupCancelledError, NodeLostError, RunContext, TasksStuckError
from jobrun.session.processes.session import ProcessesSession
from jobrun.session.wire.codec import SocketChannel
from jobrun.testing.graphs import call, cluster, group, log, task
from jobrun.testing.sessions import SessionContract, SessionHarness, failing, forever
from tests.support.process_library import LIBRARY, asked


@pytest.fixture
def session():
    before = set(threading.enumerate())
    session = ProcessesSession()
    yield session
    session.close()
    session.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.long
class TestProcessesSession(SessionContract):
    """The contract."""


@pytest.fixture
def harness(session, tmp_path):
    (tmp_path / "process_library.py").write_text(LIBRARY)
    return SessionHarness(session, tmp_path, "a", "b")


def test_each_node_has_its_own_process(harness):
    assert len({*asked(harness, "pid", "a", "b"), os.getpid()}) == 3


@pytest.mark.long
def test_nodes_have_as_many_blas_threads_as_is_set_before_they_begin(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    (tmp_path / "process_library.py").write_text(LIBRARY)
    session = ProcessesSession()

    assert asked(SessionHarness(session, tmp_path, "a"), "threads_of_blas", "a") == [1]
    session.close()


@pytest.mark.long
def test_lost_node_is_reported_immediately_and_replaced(harness):
    harness.init("w = 1", "w", "a")
    (pid,) = asked(harness, "pid", "b")
    waiting = group(
        task("t", harness.touch("up"), forever(), node="a"), task("u", forever(), node="b")
    )
    up = harness.folder / "up"

    def kill():
        while not up.exists():
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()

    with pytest.raises(NodeLostError) as caught:
        harness.run(waiting)

    killer.join()
    assert (caught.value.node, caught.value.exit_code) == ("b", 7)
    with pytest.raises(NodeLostError):
        harness.session.names("b")
    assert harness.session.renew() == ("b",)
    assert harness.session.names("a") == harness.session.names("b") == ()
    assert asked(harness, "pid", "b") != [pid]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "message"),
    [("end_itself", "was ended by SIGKILL"), ("leave", "ended with exit code 3")],
)
def test_a_callable_that_ends_its_process_loses_its_node(harness, name, message):
    other = task("u", forever(), node="b")
    bad = task("t", call(f"process_library:{name}"), node="a")

    with pytest.raises(NodeLostError, match=message):
        harness.run(group(bad, other))


@pytest.mark.long
def test_node_that_stays_stopped_is_lost_and_replaced(harness, monkeypatch):
    monkeypatch.setattr("jobrun.session.wire.worker_handle.STOPPED_S", 0.3)
    a, b = asked(harness, "pid", "a", "b")
    os.kill(b, signal.SIGSTOP)

    with pytest.raises(
        NodeLostError, match=r"was stopped by a signal and did not continue for 0\.3 s"
    ):
        harness.run(group(task("t", forever(), node="a"), task("u", forever(), node="b")))

    assert harness.session.renew() == ("b",)
    assert asked(harness, "pid", "a", "b")[0] == a


@pytest.mark.long
def test_nodes_lost_together_are_replaced_together(harness):
    pids = asked(harness, "pid", "a", "b")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)

    with pytest.raises(NodeLostError):
        harness.run(group(task("t", forever(), node="a"), task("u", forever(), node="b")))

    assert set(harness.session.renew()) == {"a", "b"}
    assert not set(asked(harness, "pid", "a", "b")) & set(pids)


@pytest.mark.long
def test_a_node_that_dies_within_its_answer_is_lost(harness, monkeypatch):
    # Too large for what the kernel holds: the node still sends when its master begins to read.
    harness.init("w = zeros(10000000)", "w", "b")
    (pid,) = asked(harness, "pid", "b")
    fill = SocketChannel._fill

    def fill_and_kill(self, memory):
        os.kill(pid, signal.SIGKILL)
        fill(self, memory)

    monkeypatch.setattr(SocketChannel, "_fill", fill_and_kill)

    with pytest.raises(NodeLostError, match="SIGKILL"):
        harness.session.read("b", ("w",))

    assert harness.session.renew() == ("b",)
    assert harness.session.names("b") == ()


@pytest.mark.long
def test_what_a_callable_has_forked_does_not_hide_the_loss_of_its_node(harness):
    (pid, child), *_ = asked(harness, "fork_and_stay", "a")
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(NodeLostError):
        harness.run(group(task("t", forever(), node="a")))
    os.kill(child, signal.SIGKILL)


@pytest.mark.long
def test_output_that_cannot_be_serialized_is_a_fault(harness):
    step = call("process_library:hollow", out="x")
    first = task("t", step, node="a", outputs={"x": "x"})
    after = task("u", "y = 1", node="b", needs=("t",))

    for ran in (group(first), group(first, after)):
        with pytest.raises(TaskFailedError) as caught:
            harness.run(ran)
        assert caught.value.faults[0].code == "E274"


@pytest.mark.long
def test_a_node_that_was_lost_between_groups_is_found_by_the_next(harness):
    (pid,) = asked(harness, "pid", "a")
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(NodeLostError):
        harness.run(group(task("t", "x = 1", node="a"), task("u", forever(), node="b")))
    with pytest.raises(NodeLostError):
        harness.session.settle({})


@pytest.mark.long
def test_tasks_that_hold_the_whole_interpreter_are_stuck(tmp_path, monkeypatch):
    monkeypatch.setattr("jobrun.session.processes.group_run._UNRESPONSIVE_S", 0.2)
    monkeypatch.setattr("jobrun.session.processes.group_run.EXIT_GRACE_S", 0.2)
    (tmp_path / "process_library.py").write_text(LIBRARY)
    session = ProcessesSession(grace_s=0.2)
    harness = SessionHarness(session, tmp_path, "a", "b")
    holding = task("t", harness.touch("up"), call("process_library:hold_the_interpreter"), node="a")
    bad = task("u", harness.wait_for("up"), failing("broken"), node="b")

    with pytest.raises(TasksStuckError) as caught:
        harness.run(group(holding, bad))

    session.close()
    assert [fault.code for fault in caught.value.faults] == ["E205", "E215"]


@pytest.mark.long
def test_a_stop_request_reaches_all_nodes_at_any_time(harness):
    ran = group(*(task("t", forever(), node=node) for node in "ab"))
    for wait_s in (0.0, 0.001, 0.01, 0.05):
        stopper = threading.Timer(wait_s, lambda: _stop_until(harness.session))
        stopper.start()
        with pytest.raises(GroupCancelledError):
            harness.run(ran)
        stopper.join()


def _stop_until(session):
    while session._active_run is None:
        time.sleep(0.001)
    session.request_stop()


@pytest.mark.long
def test_nothing_is_left_when_a_session_is_closed(tmp_path):
    session = ProcessesSession()
    harness = SessionHarness(session, tmp_path, "a", "b")
    pids = [link.pid for link in session._workers.values()]
    open_before = len(list(Path("/proc/self/fd").iterdir()))

    session.close()

    assert harness.folder.exists()
    assert not any(Path("/proc", str(pid)).exists() for pid in pids)
    assert open_before - len(list(Path("/proc/self/fd").iterdir())) >= 2


@pytest.mark.long
def test_large_values_arrive_intact(harness):
    harness.init("w = arange(3000000.0)", "w", "a")

    assert np.array_equal(harness.value("w", "a"), np.arange(3_000_000.0))


@pytest.mark.long
def test_many_printed_lines_arrive_in_order(harness):
    lines = [log(f"line {number}") for number in range(300)]

    harness.run(group(task("t", *lines, node="a")))

    assert harness.log_lines() == [f"line {number}" for number in range(300)]


@pytest.mark.long
def test_steps_are_measured_on_all_nodes_also_on_one_that_is_lost_later(tmp_path):
    (tmp_path / "process_library.py").write_text(LIBRARY)
    meter, session = Meter(), ProcessesSession()
    session.open(cluster("a", "b"), RunContext(0, str(tmp_path), str(tmp_path), meter=meter))
    counted = group(*(task("t", "x = 1", node=node) for node in "ab"))
    ending = group(task("t", call("process_library:end_itself"), node="a"))

    for epoch in (1, 2):
        session.run(counted, epoch, {})
    with pytest.raises(NodeLostError):
        session.run(ending, 3, {})
    session.renew()
    session.run(counted, 3, {})
    session.close()

    calls = Counter()
    spans = {"a": [], "b": []}
    for run in meter.times():
        if run.path == "e/t":
            calls[run.owner.node] += sum(step.calls for step in run.steps)
            spans[run.owner.node] += [span.epoch for span in run.spans]
    assert calls == {"a": 3, "b": 3}
    assert {node: sorted(epochs) for node, epochs in spans.items()} == {
        "a": [1, 2, 3],
        "b": [1, 2, 3],
    }


def test_a_session_that_was_never_opened_runs_nothing():
    with pytest.raises(RuntimeError, match="not open"):
        ProcessesSession().run(group(task("t", "x = 1")), 1, {})


@pytest.mark.long
def test_needs_are_checked_before_anything_is_sent(harness):
    with pytest.raises(TaskFailedError, match="wait for each other"):
        harness.run(group(task("t", node="a", needs=("u",)), task("u", node="b", needs=("t",))))
