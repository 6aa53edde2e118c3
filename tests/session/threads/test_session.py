from __future__ import annotations

import threading

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.core.events import Noted
from jobrun.graph.expressions import Const
from jobrun.graph.steps import Loop
from jobrun.session.base import GroupCancelledError, TasksStuckError
from jobrun.session.threads.session import ThreadsSession
from jobrun.session.threads.work_items import ExternalDeps
from jobrun.testing.graphs import call, expr, group, net, ref, report, setup, steps, task
from jobrun.testing.sessions import SessionContract, SessionHarness, failing
from jobrun.values.compare import same_bits


@pytest.fixture
def session():
    before = set(threading.enumerate())
    session = ThreadsSession()
    yield session
    session.close()
    session.close()
    assert set(threading.enumerate()) == before


class TestThreadsSession(SessionContract):
    """The contract."""


@pytest.fixture
def harness(session, tmp_path):
    return SessionHarness(session, tmp_path)


def test_threads_are_kept_between_groups(harness):
    both = group(task("a", "x = 1"), task("b", "x = 1"))
    harness.run(both)
    before = set(threading.enumerate())

    for epoch in range(20):
        harness.run(both, epoch)

    assert len(set(threading.enumerate()) - before) <= 1


def test_a_plain_task_runs_in_the_callers_thread(harness):
    threads = threading.active_count()

    harness.run(group(task("t", "x = 1")))

    assert threading.active_count() == threads


def test_thread_that_does_not_end_raises_its_own_error(tmp_path):
    session = ThreadsSession(grace_s=0.01)
    harness = SessionHarness(session, tmp_path)
    stuck = task(
        "stuck",
        call(
            "contract_library:touch_and_wait_for",
            path=harness.flag("up"),
            other=harness.flag("never"),
        ),
    )
    bad = task("bad", harness.wait_for("up"), failing("broken"))

    with pytest.raises(TasksStuckError) as caught:
        harness.run(group(stuck, bad))

    (tmp_path / "never").touch()
    session.close()
    assert [fault.code for fault in caught.value.faults] == ["E205", "E215"]
    assert "local/stuck" in caught.value.faults[1].message


def test_a_loop_of_an_exit_block_is_ended_when_the_time_is_over(tmp_path):
    session = ThreadsSession(grace_s=0.3)
    harness = SessionHarness(session, tmp_path)
    looping = Loop(None, steps("spin = 1"), "e/t/exit")
    # A report: so that the task does not run in the caller's thread, which counts the time.
    bad = task("bad", failing("broken"), setup=(setup([], [looping]),), reports=(report("y = 1"),))

    with pytest.raises(TaskFailedError) as caught:
        harness.run(group(bad))

    session.close()
    assert [fault.code for fault in caught.value.faults] == ["E205"]


def test_numpy_warning_is_noted_once_per_step(harness):
    dividing = task("t", net("x = ones(2) / 0.0; y = zeros(2) / 0"), reports=())
    ran = group(dividing)

    harness.run(ran, 1)
    harness.run(ran, 2)

    texts = [event.text for event in harness.events if isinstance(event, Noted)]
    assert len(texts) == 2
    assert "e/t/steps[0]" in texts[0]
    assert "e/t/steps[1]" in texts[1]


def test_the_callers_way_with_floating_point_errors_comes_back(harness):
    before = np.geterr()

    harness.run(group(task("t", "x = 1")))

    assert np.geterr() == before


def test_context_of_a_short_run_does_not_reach_the_next(harness, monkeypatch):
    seen = []

    def leave(kind):
        seen.append(np.geterr()["under"])
        np.seterr(under="raise")

    monkeypatch.setattr("jobrun.runtime.execute_task.TaskEnded", lambda *_, **__: leave("task"))
    ran = group(task("t", "x = 1"))
    harness.run(ran, 1)
    harness.run(ran, 2)

    assert seen == ["ignore", "ignore"]


def test_a_short_run_that_was_cancelled_before_its_task_runs_nothing(harness):
    harness.init("x = 0", "x")
    ran = group(task("t", "x = 1", node_blobs="x"))
    plan = harness.session._plan(ran)
    run = harness.session._group_run(plan, 1, {}, None)
    run.body.cancel()

    with pytest.raises(GroupCancelledError):
        harness.session._run_alone(plan, run)

    assert harness.session.read("local", ("x",)) == {"x": 0}


def test_warning_in_two_threads_of_a_chain_is_noted_once_with_its_step(harness, monkeypatch):
    helped = []
    session = harness.session
    monkeypatch.setattr(
        session, "_start_beside", lambda *of: helped.append(1) or session._pool.start(*of)
    )

    harness.run(group(task("t", "x = ones(1000000); y = (x + x) / (x - x) * 2.0 + x")))

    texts = [event.text for event in harness.events if isinstance(event, Noted)]
    assert helped == [1]
    assert len(texts) == 1
    assert texts[0].startswith("divide by zero in e/t/steps[1]")


CHAIN = "y = (x + x) * 2.0 - x / 3.0 + x"


@pytest.mark.parametrize("instances", [1, 2])
def test_threads_that_have_work_of_their_own_get_no_help(harness, monkeypatch, instances):
    helped = []
    monkeypatch.setattr(harness.session, "_start_beside", lambda *of: helped.append(of))
    steps = "x = ones(1000000); " + CHAIN
    several = group(task("t", steps, instances=instances), task("u", "z = 1"))

    harness.run(several)

    assert helped == []


def test_partition_gets_no_helper_threads_and_replaces_no_node(harness, monkeypatch):
    harness.init("x = ones(1000000); y = zeros(1000000)", "x y")
    helped = []
    monkeypatch.setattr(harness.session, "_start_beside", lambda *of: helped.append(of))
    part = group(task("t", "y = y * 0.5 + x - 1.0", node_blobs="x y"))
    before = id(harness.session._workspaces["local"]["y"])

    harness.session.run_part(part, 1, ExternalDeps({}, harness.session.fetch))

    assert helped == []
    assert id(harness.session._workspaces["local"]["y"]) != before


@pytest.mark.parametrize("crew_is_full", [False, True])
def test_result_without_helper_threads_is_the_same(harness, monkeypatch, crew_is_full):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    harness.init("x = rng.normal(size=1000000); y = 0.0", "x y")
    harness.session._start_beside = refuse if crew_is_full else harness.session._pool.start
    harness.run(group(task("t", CHAIN, node_blobs="x y")))

    x = harness.value("x")
    assert same_bits(harness.value("y"), (x + x) * 2.0 - x / 3.0 + x)


def test_a_cancel_while_two_threads_compute_ends_the_run_at_the_next_step(harness):
    harness.init("x = ones(1000000); y = zeros(1000000); z = 0", "x y z")
    session = harness.session

    def start(work, done):
        session.request_stop()
        session._pool.start(work, done)

    session._start_beside = start
    with pytest.raises(GroupCancelledError):
        harness.run(
            group(
                task("t", Loop(Const(3), steps(CHAIN), path="e/t/l"), "z = 1", node_blobs="x y z")
            )
        )

    assert (harness.value("y")[0], harness.value("z")) == (2 * 2.0 - 1 / 3.0 + 1, 0)


def test_runs_in_one_process_are_independent(harness):
    harness.init("x = 0", "x")
    ran = group(task("t", "x = x + epoch", outputs={"seen": "x"}, node_blobs="x"))

    first = harness.run(ran, 1)
    second = harness.run(ran, 2, {ref("other", "seen"): np.ones(3)})

    assert [*first.values(), *second.values()] == [1, 3]
    assert harness.session._last[1].outputs == {}


def test_a_run_after_one_that_failed_or_was_ended_is_a_new_one(harness, monkeypatch):
    harness.init("x = 0", "x")
    ran = group(task("t", "x = x + 1; y = 6 // (epoch - 2)", node_blobs="x"))
    harness.run(ran, 1)
    stopping = harness.session.request_stop

    with pytest.raises(TaskFailedError):
        harness.run(ran, 2)
    assert harness.session._last == (None, None)
    harness.run(ran, 3)
    with monkeypatch.context() as patched:
        # Between two runs nobody is asked.
        patched.setattr(harness.session, "_running", harness.session._last[1])
        stopping()
    harness.run(ran, 4)

    assert harness.value("x") == 4


def test_failed_run_leaves_blobs_of_the_same_kind(harness):
    harness.init("x = ones(200000); y = ones(200000)", "x y")

    with pytest.raises(TaskFailedError):
        harness.run(group(task("t", "y = y * 0.5 + x - 1.0; z = nothing", node_blobs="x y")))

    assert same_bits(harness.value("y"), np.full(200000, 0.5))


@pytest.mark.parametrize(("processors", "is_helped"), [({0}, False), ({0, 5}, True)])
def test_chains_are_helped_where_there_is_another_processor(
    tmp_path, monkeypatch, processors, is_helped
):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: processors)
    session = ThreadsSession()
    SessionHarness(session, tmp_path)

    assert (session._start_beside is not None) is is_helped
    session.close()


def test_the_plan_of_a_group_is_made_once(harness, monkeypatch):
    planned = []
    monkeypatch.setattr(
        "jobrun.session.threads.session.plan_group",
        lambda ran, _: planned.append(ran) or _plan(ran),
    )
    from jobrun.runtime.group_plan import plan_group as _plan  # noqa: PLC0415

    ran = group(task("t", "x = 1"))
    for epoch in range(5):
        harness.run(ran, epoch)

    assert len(planned) == 1


def test_saving_groups_do_not_pile_up(harness):
    for epoch in range(30):
        harness.run(group(task(f"t{epoch}", "x = 1")), epoch)

    assert len(harness.session._plans) <= 8


def test_two_state_blobs_are_never_one_object(harness):
    harness.init("a = zeros(2); b = ones(2)", "a b")
    workspace = harness.session._workspaces["local"]
    workspace["b"] = workspace["a"]

    harness.session.settle({"local": ("a", "b")})

    assert workspace["a"] is not workspace["b"]


def test_unopened_session_raises(session):
    with pytest.raises(RuntimeError, match="not open"):
        session.run(group(task("t", "x = 1")), 0, {})


def test_defect_is_raised_unchanged(harness, monkeypatch):
    def broken(*args):
        raise AssertionError("a defect")

    monkeypatch.setattr("jobrun.runtime.execute_task.detach", broken)

    with pytest.raises(TaskFailedError, match="a defect"):
        harness.run(group(task("t", "x = zeros(2)", outputs={"x": "x"})))


def test_needs_of_a_task_that_is_not_there_are_refused(harness):
    with pytest.raises(TaskFailedError, match="not in its group"):
        harness.run(group(task("a", needs=("b",))))


def test_hogwild_instances_change_one_array(harness):
    harness.init("w = zeros(4)", "w")
    body = Loop(expr("50"), steps("w[instance] += 1"), "e/t/loop")

    harness.run(group(task("t", body, instances=4, node_blobs="w", hogwild=True)))

    assert harness.value("w").tolist() == [50] * 4


def test_modules_of_the_specs_folder_can_be_imported_while_it_is_open(harness, tmp_path):
    (tmp_path / "late_part.py").write_text("value = 5")
    (tmp_path / "late_user.py").write_text(
        "def f():\n    import late_part\n    return late_part.value\n"
    )

    outputs = harness.run(group(task("t", call("late_user:f", out="x"), outputs={"x": "x"})))

    assert list(outputs.values()) == [5]


def test_a_callable_that_outlives_the_limit_of_its_task_is_stuck(tmp_path):
    session = ThreadsSession(grace_s=0.01)
    harness = SessionHarness(session, tmp_path)
    waits = call("contract_library:wait_for", path=harness.flag("never"))

    with pytest.raises(TasksStuckError) as caught:
        harness.run(group(task("t", waits, timeout_s=0.01)))

    (tmp_path / "never").touch()
    session.close()
    assert [fault.code for fault in caught.value.faults] == ["E220", "E215"]


def test_stuck_task_with_on_error_warn_is_an_error_too(tmp_path):
    session = ThreadsSession(grace_s=0.01)
    harness = SessionHarness(session, tmp_path)
    waits = call("contract_library:wait_for", path=harness.flag("never"))

    with pytest.raises(TasksStuckError) as caught:
        harness.run(group(task("t", waits, timeout_s=0.01, on_error="warn")))

    (tmp_path / "never").touch()
    session.close()
    assert [fault.code for fault in caught.value.faults] == ["E220", "E215"]
