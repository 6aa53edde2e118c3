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
from jobrun.runtime.meter import Meter
from jobrun.session.base import RunContext
from jobrun.session.cancel import GroupCancelledError, TasksStuckError
from jobrun.session.channel import Channel
from jobrun.session.lost import NodeLostError
from jobrun.session.processes import ProcessesSession
from tests.session.contract import Room, SessionContract, failing, forever
from tests.support.graphs import call, cluster, group, log, ref, task

LIBRARY = '''
"""What only processes can be asked."""

import ctypes
import os
import signal
import time

import numpy as np


def pid():
    return os.getpid()


def threads_of_blas():
    from jobrun.runner.environment import blas_threads

    return blas_threads()


def end_itself():
    os.kill(os.getpid(), signal.SIGKILL)


def fork_and_stay():
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    return np.array([os.getpid(), child])


def hollow():
    return np.zeros(1, [("a", "f4"), ("b", "U0")])


def leave():
    os._exit(3)


def hold_the_interpreter():
    ctypes.PyDLL(None).sleep(1000)
'''


@pytest.fixture
def session():
    before = set(threading.enumerate())
    one = ProcessesSession()
    yield one
    one.close()
    one.close()
    assert set(threading.enumerate()) <= before


@pytest.mark.long
class TestProcessesSession(SessionContract):
    """The contract."""


@pytest.fixture
def room(session, tmp_path):
    (tmp_path / "process_library.py").write_text(LIBRARY)
    return Room(session, tmp_path, "a", "b")


def asked(room, name, *nodes):
    """What a callable says on each of the nodes."""
    step = call(f"process_library:{name}", out="x")
    tasks = [task("t", step, node=node, outputs={"x": "x"}) for node in nodes]
    outputs = room.run(group(*tasks))
    return [outputs[ref("t", "x", node)] for node in nodes]


def test_each_node_is_a_process_of_its_own(room):
    assert len({*asked(room, "pid", "a", "b"), os.getpid()}) == 3


@pytest.mark.long
def test_nodes_have_as_many_blas_threads_as_is_set_before_they_begin(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    (tmp_path / "process_library.py").write_text(LIBRARY)
    session = ProcessesSession()

    assert asked(Room(session, tmp_path, "a"), "threads_of_blas", "a") == [1]
    session.close()


def test_a_lost_node_is_told_at_once_and_replaced(room):
    room.init("w = 1", "w", "a")
    (pid,) = asked(room, "pid", "b")
    waiting = group(
        task("t", room.touch("up"), forever(), node="a"), task("u", forever(), node="b")
    )
    up = room.folder / "up"

    def kill():
        while not up.exists():
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)

    killer = threading.Thread(target=kill)
    killer.start()

    with pytest.raises(NodeLostError) as caught:
        room.run(waiting)

    killer.join()
    assert (caught.value.node, caught.value.exit_code) == ("b", 7)
    with pytest.raises(NodeLostError):
        room.session.names("b")
    assert room.session.renew() == ("b",)
    assert room.session.names("a") == room.session.names("b") == ()
    assert asked(room, "pid", "b") != [pid]


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "said"), [("end_itself", "was ended by SIGKILL"), ("leave", "ended with exit code 3")]
)
def test_a_callable_that_ends_its_process_loses_its_node(room, name, said):
    other = task("u", forever(), node="b")
    bad = task("t", call(f"process_library:{name}"), node="a")

    with pytest.raises(NodeLostError, match=said):
        room.run(group(bad, other))


@pytest.mark.long
def test_a_node_that_is_stopped_for_good_is_lost_and_replaced(room, monkeypatch):
    monkeypatch.setattr("jobrun.session.launch.STOPPED_S", 0.3)
    a, b = asked(room, "pid", "a", "b")
    os.kill(b, signal.SIGSTOP)

    with pytest.raises(
        NodeLostError, match=r"was stopped by a signal and did not go on for 0\.3 s"
    ):
        room.run(group(task("t", forever(), node="a"), task("u", forever(), node="b")))

    assert room.session.renew() == ("b",)
    assert asked(room, "pid", "a", "b")[0] == a


@pytest.mark.long
def test_all_nodes_that_are_lost_at_once_are_replaced_at_once(room):
    pids = asked(room, "pid", "a", "b")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)

    with pytest.raises(NodeLostError):
        room.run(group(task("t", forever(), node="a"), task("u", forever(), node="b")))

    assert set(room.session.renew()) == {"a", "b"}
    assert not set(asked(room, "pid", "a", "b")) & set(pids)


@pytest.mark.long
def test_a_node_that_dies_within_its_answer_is_lost(room, monkeypatch):
    # Too large for what the kernel holds: the node still sends when its master begins to read.
    room.init("w = zeros(10000000)", "w", "b")
    (pid,) = asked(room, "pid", "b")
    fill = Channel._fill

    def fill_and_kill(self, memory):
        os.kill(pid, signal.SIGKILL)
        fill(self, memory)

    monkeypatch.setattr(Channel, "_fill", fill_and_kill)

    with pytest.raises(NodeLostError, match="SIGKILL"):
        room.session.read("b", ("w",))

    assert room.session.renew() == ("b",)
    assert room.session.names("b") == ()


@pytest.mark.long
def test_what_a_callable_has_forked_does_not_hide_the_loss_of_its_node(room):
    (pid, child), *_ = asked(room, "fork_and_stay", "a")
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(NodeLostError):
        room.run(group(task("t", forever(), node="a")))
    os.kill(child, signal.SIGKILL)


@pytest.mark.long
def test_an_output_that_cannot_be_told_to_other_processes_is_a_fault(room):
    made = call("process_library:hollow", out="x")
    first = task("t", made, node="a", outputs={"x": "x"})
    after = task("u", "y = 1", node="b", needs=("t",))

    for ran in (group(first), group(first, after)):
        with pytest.raises(TaskFailedError) as caught:
            room.run(ran)
        assert caught.value.faults[0].code == "E274"


@pytest.mark.long
def test_a_node_that_was_lost_between_groups_is_found_by_the_next(room):
    (pid,) = asked(room, "pid", "a")
    os.kill(pid, signal.SIGKILL)

    with pytest.raises(NodeLostError):
        room.run(group(task("t", "x = 1", node="a"), task("u", forever(), node="b")))
    with pytest.raises(NodeLostError):
        room.session.settle({})


@pytest.mark.long
def test_tasks_that_hold_the_whole_interpreter_are_stuck(tmp_path, monkeypatch):
    monkeypatch.setattr("jobrun.session.flight._UNHEARD_S", 0.2)
    monkeypatch.setattr("jobrun.session.flight.LAST_S", 0.2)
    (tmp_path / "process_library.py").write_text(LIBRARY)
    session = ProcessesSession(grace_s=0.2)
    room = Room(session, tmp_path, "a", "b")
    holding = task("t", room.touch("up"), call("process_library:hold_the_interpreter"), node="a")
    bad = task("u", room.wait_for("up"), failing("broken"), node="b")

    with pytest.raises(TasksStuckError) as caught:
        room.run(group(holding, bad))

    session.close()
    assert [fault.code for fault in caught.value.faults] == ["E205", "E215"]


@pytest.mark.long
def test_a_stop_request_reaches_all_nodes_at_any_time(room):
    ran = group(*(task("t", forever(), node=node) for node in "ab"))
    for wait_s in (0.0, 0.001, 0.01, 0.05):
        stopper = threading.Timer(wait_s, lambda: _stop_until(room.session))
        stopper.start()
        with pytest.raises(GroupCancelledError):
            room.run(ran)
        stopper.join()


def _stop_until(session):
    while session._flight is None:
        time.sleep(0.001)
    session.request_stop()


@pytest.mark.long
def test_nothing_is_left_when_a_session_is_closed(tmp_path):
    session = ProcessesSession()
    room = Room(session, tmp_path, "a", "b")
    pids = [link.pid for link in session._links.values()]
    open_before = len(list(Path("/proc/self/fd").iterdir()))

    session.close()

    assert room.folder.exists()
    assert not any(Path("/proc", str(pid)).exists() for pid in pids)
    assert open_before - len(list(Path("/proc/self/fd").iterdir())) >= 2


@pytest.mark.long
def test_large_values_cross_whole(room):
    room.init("w = arange(3000000.0)", "w", "a")

    assert np.array_equal(room.value("w", "a"), np.arange(3_000_000.0))


@pytest.mark.long
def test_many_lines_are_told_in_order(room):
    lines = [log(f"line {number}") for number in range(300)]

    room.run(group(task("t", *lines, node="a")))

    assert room.said() == [f"line {number}" for number in range(300)]


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

    found = Counter()
    spans = {"a": [], "b": []}
    for one in meter.times():
        if one.path == "e/t":
            found[one.owner.node] += sum(step.calls for step in one.steps)
            spans[one.owner.node] += [span.epoch for span in one.spans]
    assert found == {"a": 3, "b": 3}
    assert {node: sorted(epochs) for node, epochs in spans.items()} == {
        "a": [1, 2, 3], "b": [1, 2, 3],
    }  # fmt: skip


def test_a_session_that_was_never_opened_runs_nothing():
    with pytest.raises(RuntimeError, match="not open"):
        ProcessesSession().run(group(task("t", "x = 1")), 1, {})


def test_needs_are_checked_before_anything_is_sent(room):
    with pytest.raises(TaskFailedError, match="wait for each other"):
        room.run(group(task("t", node="a", needs=("u",)), task("u", node="b", needs=("t",))))
