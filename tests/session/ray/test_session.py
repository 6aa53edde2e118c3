# Ray is imported where it is used: the tests that are not long go without it.
# ruff: noqa: PLC0415

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.core.errors import EnvironmentFaultError
from jobrun.graph.steps import Pull, PulledBlob
from jobrun.graph.types import Cluster
from jobrun.session.base import NodeLostError, RunContext, TasksStuckError
from jobrun.testing.graphs import call, cluster, group, ref, task
from jobrun.testing.sessions import SessionContract, SessionHarness, failing, forever
from tests.support.command import ROOT, environment
from tests.support.process_library import LIBRARY, asked

pytestmark = pytest.mark.long

# A master whose folder is gone when the nodes look for it, as it is on another machine.
FAR_AWAY = """
import pathlib, sys
import ray
from jobrun.session.base import RunContext
from jobrun.session.ray.session import RaySession
from jobrun.testing.graphs import call, cluster, group, ref, task

folder = pathlib.Path(sys.argv[1])
attach = ray.init


def attach_and_forget(**given):
    attach(**given, object_store_memory=128 << 20, num_cpus=1)
    (folder / "far_library.py").unlink()


ray.init = attach_and_forget
session = RaySession()
session.open(cluster("n"), RunContext(7, str(folder), str(folder)))
ran = group(task("t", call("far_library:here", out="x"), node="n", outputs={"x": "x"}))
print(session.run(ran, 1, {})[ref("t", "x", "n")])
session.close()
"""


@pytest.fixture(scope="module")
def actors():
    from tests.support import ray_cluster

    with ray_cluster.cluster():
        actors = ray_cluster.KeptActors()
        yield actors
        actors.end()


@pytest.fixture
def make(actors):
    from jobrun.session.ray.session import RaySession

    return lambda **more: RaySession(actors=actors, **more)


@pytest.fixture
def session(make):
    before = set(threading.enumerate())
    session = make()
    yield session
    session.close()
    session.close()
    assert set(threading.enumerate()) <= before


@pytest.fixture
def harness(session, tmp_path):
    (tmp_path / "process_library.py").write_text(LIBRARY)
    return SessionHarness(session, tmp_path, "a", "b")


class TestRaySession(SessionContract):
    """The contract."""


def test_each_node_has_its_own_process(harness):
    assert len({*asked(harness, "pid", "a", "b"), os.getpid()}) == 3


@pytest.mark.parametrize("name", ["end_itself", "leave"])
def test_a_callable_that_ends_its_process_loses_its_node_which_is_replaced(harness, name):
    harness.init("w = 1", "w", "b")
    bad = task("t", call(f"process_library:{name}"), node="a")

    with pytest.raises(NodeLostError, match="'a' is lost: its process has ended") as caught:
        harness.run(group(bad, task("u", forever(), node="b")))

    assert (caught.value.node, caught.value.exit_code) == ("a", 7)
    with pytest.raises(NodeLostError):
        harness.session.names("a")
    assert harness.session.renew() == ("a",)
    assert harness.session.names("a") == harness.session.names("b") == ()
    assert len(set(asked(harness, "pid", "a", "b"))) == 2


def test_peer_of_a_lost_node_connects_to_its_replacement(harness):
    pull = Pull((PulledBlob("m", ("b",), "w"),), "e/t/pull")
    ran = group(task("t", pull, node="a", outputs={"m": "m"}))
    for value in (1, 2):
        harness.init(f"w = {value}", "w", "b")
        assert harness.run(ran)[ref("t", "m", "a")] == value
        (pid,) = asked(harness, "pid", "b")
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(NodeLostError):
            harness.run(group(task("u", forever(), node="b")))
        harness.session.renew()


def test_tasks_that_hold_the_whole_interpreter_are_stuck(make, tmp_path, monkeypatch):
    monkeypatch.setattr("jobrun.session.processes.group_run._UNRESPONSIVE_S", 0.2)
    monkeypatch.setattr("jobrun.session.processes.group_run.EXIT_GRACE_S", 0.2)
    (tmp_path / "process_library.py").write_text(LIBRARY)
    session = make(grace_s=0.2)
    harness = SessionHarness(session, tmp_path, "a", "b")
    holding = task("t", harness.touch("up"), call("process_library:hold_the_interpreter"), node="a")
    bad = task("u", harness.wait_for("up"), failing("broken"), node="b")

    with pytest.raises(TasksStuckError):
        harness.run(group(holding, bad))

    session.close()


def test_a_task_over_its_limit_that_holds_the_whole_interpreter_is_ended(
    make, tmp_path, monkeypatch
):
    monkeypatch.setattr("jobrun.session.processes.group_run._UNRESPONSIVE_S", 0.2)
    monkeypatch.setattr("jobrun.session.processes.group_run.EXIT_GRACE_S", 0.2)
    (tmp_path / "process_library.py").write_text(LIBRARY)
    session = make(grace_s=0.2)
    harness = SessionHarness(session, tmp_path, "a", "b")
    # It holds it at once: that it has begun must be known before.
    holding = task("t", call("process_library:hold_the_interpreter"), node="a")

    with pytest.raises(TasksStuckError) as caught:
        harness.run(group(replace(holding, timeout_s=0.1), task("u", forever(), node="b")))

    assert [fault.code for fault in caught.value.faults] == ["E220"]
    assert "limit of 0.1 s (task t, node a, epoch 1)" in caught.value.faults[0].message
    session.close()


def test_large_values_arrive_intact(harness):
    harness.init("w = arange(3000000.0)", "w", "a")

    assert np.array_equal(harness.value("w", "a"), np.arange(3_000_000.0))


def test_resources_that_no_machine_has_are_refused_and_nothing_remains(make, tmp_path):
    (node,) = cluster("n")
    wanting = Cluster((replace(node, host="nowhere"),))
    session = make()

    with pytest.raises(EnvironmentFaultError) as caught:
        session.open(wanting, RunContext(7, str(tmp_path), str(tmp_path)))

    assert caught.value.faults[0].code == "E398"
    session.close()


def test_a_machine_with_another_version_is_refused(make, tmp_path, monkeypatch):
    monkeypatch.setattr("jobrun.session.ray.session.__version__", "0.0.0")
    session = make()

    with pytest.raises(EnvironmentFaultError, match=r"has jobrun .*, and not 0\.0\.0"):
        session.open(cluster("n"), RunContext(7, str(tmp_path), str(tmp_path)))

    session.close()


def test_missing_modules_are_uploaded_to_a_machine(tmp_path):
    (tmp_path / "far_library.py").write_text("def here():\n    return __file__\n")

    done = subprocess.run(
        [sys.executable, "-c", FAR_AWAY, str(tmp_path)], capture_output=True, text=True,
        env=environment(PYTHONPATH=str(ROOT), RAY_AUTH_TOKEN="0" * 64), check=False, timeout=100,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr
    assert "/py_modules_files/" in done.stdout
    assert done.stdout.strip().endswith("/far_library.py")


def test_hosts_that_do_not_join_in_time_are_an_error(monkeypatch):
    module = importlib.import_module("jobrun.session.ray.session")
    monkeypatch.setattr(module, "_list_machines", lambda: [None])
    monkeypatch.setattr(module, "_JOIN_S", 0.3)

    with pytest.raises(EnvironmentFaultError, match=r"E480.*only 1 of 3 hosts have joined .*'h:1'"):
        module._wait_for_hosts("h:1", 3)

    module._wait_for_hosts("h:1", 1)
