"""Test that a session keeps the promises of ``jobrun.session.base.Session``.

Subclass ``SessionContract``, and supply a fixture ``session`` that returns an unopened session and
closes it afterwards::

    class TestMine(SessionContract):
        @pytest.fixture
        def session(self):
            with contextlib.closing(MySession()) as session:
                yield session
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.store_protocol import Manifest, StoredFile
from jobrun.checkpoint.task_groups import load_group, save_group
from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.core.events import Event, Logged, Measured, Noted, TaskEnded
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.effects import Assert, Metric
from jobrun.graph.expressions import Const
from jobrun.graph.readers import (
    CounterSource,
    Field,
    Queue,
    Reader,
    ReadQueue,
    ReadRecords,
    WriteQueue,
)
from jobrun.graph.steps import Loop, Parallel, Pull, PulledBlob, RunProgram, Step, Stop
from jobrun.graph.types import Job, NodeReport, NodeSetup, RemoteNet, Retry, Scope, TaskGroup
from jobrun.session.base import GroupCancelledError, NodeFiles, RunContext, Session
from jobrun.session.threads.session import ThreadsSession
from jobrun.testing.graphs import (
    call,
    cluster,
    expr,
    group,
    log,
    net,
    ref,
    report,
    setup,
    steps,
    task,
    text,
)
from jobrun.values.compare import same_bits

FOREVER_S = 3600.0
NO_FILES = NodeFiles()
LIBRARY = '''
"""A user's module: what the tests' tasks call."""

import pathlib
import time

import numpy as np

kept = []


def wait_for(path):
    while not pathlib.Path(path).exists():
        time.sleep(0.002)


def touch_and_wait_for(path, other):
    touch(path)
    wait_for(other)


def touch(path):
    pathlib.Path(path).touch()


def fail(text):
    raise ValueError(text)


def keep(x):
    kept.append(x)
    return x


def change_kept():
    for one in kept:
        one.flags.writeable = True
        one[...] = -1


def add(x, amount):
    x += amount


def facts(rng, epoch, node, instance, run_dir):
    return str((epoch, node, instance, run_dir.rsplit("/", 1)[-1]))
'''


def forever(*parts: str | Step) -> Loop:
    """Build a task that loops without end, which the contract tests of sessions cancel."""
    return Loop(None, steps(*parts or ("spin = 1",)), "e/t/forever")


def _job(state: tuple[tuple[str, tuple[str, ...]], ...]) -> Job:
    policy = CheckpointPolicy(nodes=tuple(dict(state)))
    init, epoch, download, exit_ = map(TaskGroup, ("init", "epoch", "download", "exit"))
    nodes = cluster(*dict(state))
    return Job("j", nodes, init, epoch, download, exit_, state=state, checkpoint=policy)


def saving_group(state: tuple[tuple[str, tuple[str, ...]], ...]) -> TaskGroup:
    """Build the tasks, one per node, with which a session under test saves the given blobs."""
    return save_group(_job(state), "r")


def read_saved(folder: Path, file: StoredFile, state: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Read a checkpoint file that the tested session has saved in epoch 4 of run ``r``."""
    return read_state(
        str(folder / file.name),
        node=file.node,
        epoch=4,
        run_id="r",
        digest=file.digest,
        names=state[file.node],
    )


def failing(message: str) -> Assert:
    """Build a step, for the contract tests of sessions, that fails with a known message."""
    return Assert(Const(False), text(message), "", path=f"e/{message}")


class SessionHarness:
    """An open session, the events that it emits, and a folder with a library of callables."""

    def __init__(
        self, session: Session, folder: Path, *nodes: str, files: NodeFiles = NO_FILES
    ) -> None:
        self.session = session
        self.folder = folder
        self.events: list[Event] = []
        self._lock = threading.Lock()
        (folder / "contract_library.py").write_text(LIBRARY)
        (folder / "run").mkdir()
        context = RunContext(7, str(folder / "run"), str(folder), self._emit, files=files)
        session.open(cluster(*nodes), context)

    def _emit(self, event: Event) -> None:
        with self._lock:
            self.events.append(event)

    def run(self, ran: TaskGroup, epoch: int = 1, outputs: Any = None) -> Any:
        """Run a group in the tested session, and return its outputs."""
        return self.session.run(ran, epoch, outputs or {})

    def init(self, statements: str, names: str, node: str = "local") -> None:
        """Create blobs in a node's global workspace of the tested session."""
        init_task = task(f"init_{node}", statements, node=node, node_blobs=names)
        self.run(group(init_task, name="init", workspace="global"), 0)

    def value(self, name: str, node: str = "local") -> Any:
        """Return a copy of one blob of a node of the tested session."""
        return self.session.read(node, (name,))[name]

    def log_lines(self) -> list[str]:
        """Return the lines that steps logged in the tested session, in their order."""
        return [event.text for event in self.events if isinstance(event, Logged)]

    def flag(self, name: str) -> str:
        """Return a string literal of the path of a file for which a session's test waits."""
        return repr(str(self.folder / name))

    def wait_for(self, name: str) -> Step:
        """Build a step for a session's test that waits until the file called ``name`` exists."""
        return call("contract_library:wait_for", path=self.flag(name))

    def touch(self, name: str) -> Step:
        """Build a step for a session's test that creates the file called ``name``."""
        return call("contract_library:touch", path=self.flag(name))


Harnesses = Callable[..., SessionHarness]


class SessionContract:
    """Tests that a session of your own passes; subclass it.

    Further tests of a session may use the fixtures ``harness``, on one node ``local``, and
    ``harnesses``, which takes the names of nodes.
    """

    @pytest.fixture
    def harness(self, session: Session, tmp_path: Path) -> SessionHarness:
        """Open the session to test with one node, ``local``."""
        return SessionHarness(session, tmp_path)

    @pytest.fixture
    def harnesses(self, session: Session, tmp_path: Path) -> Harnesses:
        """Return a function that opens the session under test on nodes of given names."""
        return lambda *nodes: SessionHarness(session, tmp_path, *nodes)

    # Order

    def test_inits_run_from_the_node_inwards_and_exits_back(self, harness: SessionHarness) -> None:
        around_node = NodeSetup("local", setup([log("node in")], [log("node out")]))
        only_task = task(
            "t",
            log("body"),
            setup=(
                setup([log("task in 1")], [log("task out 1")], "s1"),
                setup([log("task in 2")], [log("task out 2")], "s2"),
            ),
            instance_setup=(setup([log("instance in")], [log("instance out")], "i"),),
            reports=(report(log("report")),),
        )

        harness.run(group(only_task, setup=(around_node,)))

        assert harness.log_lines() == [
            "node in",
            "task in 1",
            "task in 2",
            "instance in",
            "body",
            "report",
            "instance out",
            "task out 2",
            "task out 1",
            "node out",
        ]

    def test_task_setup_runs_once_and_instance_setup_once_per_instance(
        self, harness: SessionHarness
    ) -> None:
        only_task = task(
            "t",
            log("body"),
            instances=3,
            setup=(setup([log("in")], [log("out")]),),
            instance_setup=(setup([log("instance in")], [log("instance out")], "i"),),
        )

        harness.run(group(only_task))

        lines = harness.log_lines()
        assert (lines[0], lines[-1]) == ("in", "out")
        assert sorted(lines[1:-1]) == ["body"] * 3 + ["instance in"] * 3 + ["instance out"] * 3

    def test_exits_see_the_final_values(self, harness: SessionHarness) -> None:
        only_task = task("t", "x = 1", "x += 1", setup=(setup([], [log("x is ", ("x", ""))]),))

        harness.run(group(only_task))

        assert harness.log_lines() == ["x is 2"]

    def test_tasks_without_needs_overlap(self, harness: SessionHarness) -> None:
        first = task("a", harness.touch("a"), harness.wait_for("b"))
        second = task("b", harness.touch("b"), harness.wait_for("a"))

        harness.run(group(first, second))

    def test_instances_overlap(self, harness: SessionHarness) -> None:
        meet: list[str | Step] = [
            "other = 'other' if instance else 'one'; own = 'one' if instance else 'other'",
            call("contract_library:touch", path=f"{harness.flag('')} + '/' + own"),
            call("contract_library:wait_for", path=f"{harness.flag('')} + '/' + other"),
        ]

        harness.run(group(task("t", *meet, instances=2, instance_blobs="own other")))

    def test_parallel_branches_overlap(self, harness: SessionHarness) -> None:
        branches = (
            steps(harness.touch("a"), harness.wait_for("b")),
            steps(harness.touch("b"), harness.wait_for("a")),
        )

        harness.run(group(task("t", Parallel(branches, "e/t/parallel"))))

    def test_needs_wait_for_the_task_on_all_its_nodes(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        first = [
            task(
                "first",
                "spin = 0",
                Loop(Const(200 * i), steps("spin += 1"), "l"),
                log("first"),
                node=node,
            )
            for i, node in enumerate(("a", "b"))
        ]
        second = task("second", log("second"), needs=("first",), node="a")

        harness.run(group(second, *first))

        assert harness.log_lines() == ["first", "first", "second"]

    def test_needs_that_form_a_circle_are_refused(self, harness: SessionHarness) -> None:
        with pytest.raises(TaskFailedError, match="wait for each other"):
            harness.run(group(task("a", needs=("b",)), task("b", needs=("a",))))

    # Visibility

    def test_each_node_has_its_own_global_workspace(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        harness.init("x = 1", "x", "a")
        harness.init("x = 2", "x", "b")

        harness.run(group(*(task(n, "x += 10", node=n, node_blobs="x") for n in ("a", "b"))))

        assert (harness.value("x", "a"), harness.value("x", "b")) == (11, 12)

    def test_private_tasks_do_not_see_each_others_blobs(self, harness: SessionHarness) -> None:
        first = task("a", "x = 10", outputs={"x": "x"})
        second = task("b", "x = 20", outputs={"x": "x"})

        outputs = harness.run(group(first, second))

        assert (outputs[ref("a", "x")], outputs[ref("b", "x")]) == (10, 20)
        assert harness.session.names("local") == ()

    def test_a_write_goes_out_to_the_workspace_that_has_the_name(
        self, harness: SessionHarness
    ) -> None:
        harness.init("x = zeros(2)", "x")

        harness.run(group(task("t", "x = x + 1", node_blobs="x")))

        assert harness.value("x").tolist() == [1, 1]

    def test_names_of_node_setup_are_seen_by_all_tasks_and_end_with_the_run(
        self, harness: SessionHarness
    ) -> None:
        scopes = (("g", Scope.GROUP),)
        around_node = NodeSetup("local", setup(["g = 5"], [log("g ", ("g", ""))]), scopes)
        tasks = [
            task(n, f"x = g + {i}", group_blobs="g", outputs={"x": "x"}) for i, n in enumerate("ab")
        ]

        outputs = harness.run(group(*tasks, setup=(around_node,)))

        assert [outputs[ref(n, "x")] for n in "ab"] == [5, 6]
        assert harness.log_lines() == ["g 5"]
        assert harness.session.names("local") == ()

    def test_a_global_group_leaves_its_blobs_on_the_node(self, harness: SessionHarness) -> None:
        harness.init("b = 1; a = 2", "a b")

        assert harness.session.names("local") == ("a", "b")

    def test_task_blobs_start_afresh_in_each_run(self, harness: SessionHarness) -> None:
        counting = task("t", log("epoch ", ("epoch", "")), "x = epoch", outputs={"x": "x"})
        ran = group(counting)

        assert [harness.run(ran, epoch)[ref("t", "x")] for epoch in (1, 2)] == [1, 2]

    def test_instances_have_workspaces_of_their_own(self, harness: SessionHarness) -> None:
        only_task = task(
            "t", "x = instance * 10", instances=3, instance_blobs="x", outputs={"x": "x"}
        )

        assert harness.run(group(only_task))[ref("t", "x")] == [0, 10, 20]

    def test_task_blobs_are_shared_by_its_instances(self, harness: SessionHarness) -> None:
        body = Loop(Const(100), steps("old = count_up(n)"), "e/t/loop")
        only_task = task(
            "t",
            body,
            instances=4,
            instance_blobs="old",
            setup=(setup(["n = counter(0)"], ["total = count_value(n)"]),),
            outputs={"total": "total"},
        )

        assert harness.run(group(only_task))[ref("t", "total")] == [400] * 4

    def test_builtins(self, harnesses: Harnesses) -> None:
        harness = harnesses("trainer")
        line = log(*((name, "") for name in ("node.name", "node.count", "epoch", "instances")))
        only_task = task("t", line, node="trainer")

        harness.run(group(only_task), 4)

        assert harness.log_lines() == ["trainer141"]

    # Outputs

    def test_outputs_are_snapshots(self, harness: SessionHarness) -> None:
        harness.init("w = zeros(2)", "w")
        reading = group(task("r", "w += 1", node_blobs="w", outputs={"w": "w"}))

        first = harness.run(reading)
        harness.run(reading)

        assert first[ref("r", "w")].tolist() == [1, 1]
        assert harness.value("w").tolist() == [2, 2]

    def test_an_output_is_taken_after_the_exits(self, harness: SessionHarness) -> None:
        only_task = task("t", "x = 1", setup=(setup([], ["x += 1"]),), outputs={"x": "x"})

        assert harness.run(group(only_task))[ref("t", "x")] == 2

    def test_later_tasks_and_groups_read_outputs(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        first = task("one", "x = arange(3)", node="a", outputs={"x": "x"})
        later = task(
            "two", "y = out('one', 'x', 'a'); y += 1", node="b", needs=("one",), outputs={"y": "y"}
        )

        outputs = harness.run(group(first, later))
        third = task("three", "z = out('two', 'y', 'b') * 2", node="a", outputs={"z": "z"})
        more = harness.run(group(third, name="exit"), 1, outputs)

        assert outputs[ref("one", "x", "a")].tolist() == [0, 1, 2]
        assert outputs[ref("two", "y", "b")].tolist() == [1, 2, 3]
        assert more[ref("three", "z", "a")].tolist() == [2, 4, 6]
        assert set(more) == {ref("three", "z", "a")}

    def test_values_keep_kind_dtype_and_bits(self, harness: SessionHarness) -> None:
        expressions = {
            "a": "1.5", "b": "arange(3, dtype=float32)[::-1]", "c": "'text'", "d": "True",
            "e": "sum(arange(3, dtype=float32))", "f": "-0.0", "g": "nan",
        }  # fmt: skip
        body = "; ".join(f"{name} = {value}" for name, value in expressions.items())

        outputs = harness.run(group(task("t", body, outputs={name: name for name in expressions})))

        expected = {
            "a": 1.5, "b": np.arange(3, dtype=np.float32)[::-1], "c": "text", "d": True,
            "e": np.float32(3), "f": -0.0, "g": float("nan"),
        }  # fmt: skip
        assert all(same_bits(outputs[ref("t", n)], value) for n, value in expected.items())

    def test_reading_an_output_too_early_says_so(self, harness: SessionHarness) -> None:
        only_task = task("a", "x = out('b', 'y')")

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(only_task))

        assert caught.value.faults[0].code == "E218"

    # Failure

    def test_a_failure_names_task_node_epoch_and_place(self, harnesses: Harnesses) -> None:
        harness = harnesses("trainer")

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(task("t", "x = 1; y = zeros(2) @ zeros(3)", node="trainer")), 5)

        fault = caught.value.faults[0]
        assert (fault.code, fault.path) == ("E200", "e/t/steps[1]")
        assert all(part in fault.message for part in ("task t", "node trainer", "epoch 5"))
        assert caught.value.exit_code == 1

    def test_a_failure_ends_the_other_tasks(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        others = [task("loop", forever(), node=node) for node in ("a", "b")]

        with pytest.raises(TaskFailedError, match="broken"):
            harness.run(group(*others, task("bad", failing("broken"), node="a")))

    def test_a_failure_ends_the_other_instances(self, harness: SessionHarness) -> None:
        body: list[str | Step] = [
            "x = 1 / (instance - 1) if instance < 2 else 0.0",
            forever(),
        ]

        with pytest.raises(TaskFailedError, match="ZeroDivisionError"):
            harness.run(group(task("t", *body, instances=3, instance_blobs="x spin")))

    def test_a_failure_ends_the_other_branches(self, harness: SessionHarness) -> None:
        branches = (steps(forever()), steps(failing("broken")))

        with pytest.raises(TaskFailedError, match="broken"):
            harness.run(group(task("t", Parallel(branches, "e/t/parallel"))))

    def test_exits_run_after_a_failure_and_see_the_flag(self, harness: SessionHarness) -> None:
        flag_log = log("failed ", ("failed", ""))
        bad = task(
            "t",
            failing("broken"),
            setup=(setup([], [flag_log], "s"),),
            instance_setup=(setup([], [flag_log], "i"),),
        )

        with pytest.raises(TaskFailedError, match="broken"):
            harness.run(group(bad, setup=(NodeSetup("local", setup([], [flag_log])),)))

        assert harness.log_lines() == ["failed True"] * 3

    def test_exits_of_a_success_see_that_nothing_failed(self, harness: SessionHarness) -> None:
        good = task("t", "x = 1", setup=(setup([], [log("failed ", ("failed", ""))]),))

        harness.run(group(good))

        assert harness.log_lines() == ["failed False"]

    def test_exits_of_cancelled_tasks_run_to_their_end(self, harness: SessionHarness) -> None:
        inits = ["n = 0"]
        exits = [Loop(Const(50), steps("n += 1"), "e/x/loop"), log("n ", ("n", ""))]
        other = task("other", harness.touch("up"), forever(), setup=(setup(inits, exits),))
        bad = task("bad", harness.wait_for("up"), failing("broken"))

        with pytest.raises(TaskFailedError):
            harness.run(group(other, bad))

        assert harness.log_lines() == ["n 50"]

    def test_a_failed_init_runs_the_exits_of_those_before_it_only(
        self, harness: SessionHarness
    ) -> None:
        bad = task(
            "t",
            log("body"),
            setup=(
                setup([log("in 1")], [log("out 1")], "s1"),
                setup([failing("broken")], [log("out 2")], "s2"),
                setup([log("in 3")], [log("out 3")], "s3"),
            ),
        )

        with pytest.raises(TaskFailedError, match="broken"):
            harness.run(group(bad))

        assert harness.log_lines() == ["in 1", "out 1"]

    def test_tasks_that_need_a_failed_one_do_not_start(self, harness: SessionHarness) -> None:
        after = task("after", log("after"), needs=("bad",))

        with pytest.raises(TaskFailedError):
            harness.run(group(after, task("bad", failing("broken"))))

        assert harness.log_lines() == []

    def test_all_errors_are_reported_the_first_one_first(self, harness: SessionHarness) -> None:
        exit_too = setup([], [failing("exit broke too")])
        first = task("first", failing("first"), setup=(exit_too,))
        second = task("second", forever(), setup=(setup([], [failing("second exit")], "s"),))

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(second, first))

        messages = [fault.message for fault in caught.value.faults]
        assert "first" in messages[0]
        assert sum("exit broke too" in message for message in messages) == 1
        assert len(messages) <= 3

    def test_what_is_missing_because_of_a_failure_is_no_error_of_its_own(
        self, harness: SessionHarness
    ) -> None:
        bad = task(
            "t",
            failing("broken"),
            "x = 1",
            setup=(setup([], [log(("x", ""))]),),
            reports=(report(log(("x", ""))),),
        )

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(bad))

        assert [fault.code for fault in caught.value.faults] == ["E205"]

    def test_the_session_can_run_again_after_a_failure(self, harness: SessionHarness) -> None:
        with pytest.raises(TaskFailedError):
            harness.run(group(task("t", failing("broken"))))

        assert harness.run(group(task("t", "x = 1", outputs={"x": "x"})))[ref("t", "x")] == 1

    def test_the_end_of_each_task_is_an_event(self, harness: SessionHarness) -> None:
        with pytest.raises(TaskFailedError):
            harness.run(group(task("good", "x = 1"), task("bad", failing("b"), needs=("good",))), 2)

        task_ends = [event for event in harness.events if isinstance(event, TaskEnded)]
        assert [(e.task, e.node, e.epoch, e.failed) for e in task_ends] == [
            ("good", "local", 2, False),
            ("bad", "local", 2, True),
        ]

    # Stop

    def test_a_stop_request_cancels_at_a_step_boundary(self, harness: SessionHarness) -> None:
        only_task = task("t", harness.touch("up"), forever(), setup=(setup([], [log("out")]),))

        with pytest.raises(GroupCancelledError):
            self.run_and_stop(harness, group(only_task))

        assert harness.log_lines() == ["out"]

    def test_a_stop_request_ends_loops_of_expressions_in_the_callers_thread(
        self, harness: SessionHarness
    ) -> None:
        waiting = task("up", harness.touch("up"))
        only_task = task("t", forever(), needs=("up",))

        with pytest.raises(GroupCancelledError):
            self.run_and_stop(harness, group(waiting, only_task))

    def test_a_stop_request_without_a_running_group_does_nothing(
        self, harness: SessionHarness
    ) -> None:
        harness.session.request_stop()

        assert harness.run(group(task("t", "x = 1", outputs={"x": "x"})))

    def run_and_stop(self, harness: SessionHarness, ran: TaskGroup) -> None:
        """Run a group in the tested session; request a stop once its tasks have created a file."""
        up = harness.folder / "up"

        def stop() -> None:
            while not up.exists():
                threading.Event().wait(0.002)
            harness.session.request_stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        try:
            harness.run(ran)
        finally:
            stopper.join()

    # Reports

    def test_a_report_never_runs_at_time_0_and_once_after_the_body(
        self, harness: SessionHarness
    ) -> None:
        only_task = task("t", log("body"), reports=(report(log("r"), interval_s=FOREVER_S),))

        harness.run(group(only_task))

        assert harness.log_lines() == ["body", "r"]

    def test_a_report_runs_at_intervals_and_sees_what_the_body_does(
        self, harness: SessionHarness
    ) -> None:
        harness.init("n = 0; enough = False", "n enough")
        body: list[str | Step] = [
            Loop(None, steps("n += 1", Stop(expr("enough"), "e/t/loop", "s")), "e/t/loop"),
            log("body ends"),
        ]
        watching = report("enough = n > 3", log("report"), interval_s=0.001)
        only_task = task("t", *body, node_blobs="n enough", reports=(watching,))

        harness.run(group(only_task))

        lines = harness.log_lines()
        assert lines.count("report") >= 2
        assert lines[-1] == "report"
        assert lines.index("body ends") == len(lines) - 2 or "report" in lines[-2:]

    def test_the_last_report_runs_after_a_failure_and_before_the_exits(
        self, harness: SessionHarness
    ) -> None:
        bad = task(
            "t",
            failing("broken"),
            reports=(report(log("report")),),
            setup=(setup([], [log("out")]),),
        )

        with pytest.raises(TaskFailedError, match="broken"):
            harness.run(group(bad))

        assert harness.log_lines() == ["report", "out"]

    def test_each_instance_has_its_own_reports(self, harness: SessionHarness) -> None:
        only_task = task(
            "t", "x = instance", instances=3, instance_blobs="x", reports=(report(log(("x", ""))),)
        )

        harness.run(group(only_task))

        assert sorted(harness.log_lines()) == ["0", "1", "2"]

    def test_a_node_report_runs_once_after_all_tasks_of_the_node(
        self, harnesses: Harnesses
    ) -> None:
        harness = harnesses("a", "b")
        node_report = NodeReport("a", report(log("report")))
        around_node = NodeSetup("a", setup([log("in")], [log("out")]))
        tasks = [task(f"t{i}", log("task"), node=n) for i, n in enumerate("aab")]

        harness.run(group(*tasks, setup=(around_node,), reports=(node_report,)))

        on_a = [e.text for e in harness.events if isinstance(e, Logged) and e.node == "a"]
        assert on_a == ["in", "task", "task", "report", "out"]

    def test_a_failed_report_fails_the_group(self, harness: SessionHarness) -> None:
        bad = report(failing("report broke"), interval_s=0.001)

        with pytest.raises(TaskFailedError, match="report broke"):
            harness.run(group(task("t", forever(), reports=(bad,))))

    # Randomness

    def test_streams_depend_on_names_alone(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        draw = "x = rng.random(2)"
        only_task = task("one", draw, node="a", outputs={"x": "x"})
        both = group(
            only_task,
            task("two", draw, node="a", outputs={"x": "x"}),
            task("three", draw, node="b", outputs={"x": "x"}),
        )

        together = harness.run(both, 3)
        alone = harness.run(group(only_task), 3)
        later = harness.run(group(only_task), 4)

        drawn = [
            together[ref(n, "x", w)].tolist()
            for n, w in (("one", "a"), ("two", "a"), ("three", "b"))
        ]
        assert len({tuple(numbers) for numbers in drawn}) == 3
        assert alone[ref("one", "x", "a")].tolist() == drawn[0]
        assert later[ref("one", "x", "a")].tolist() != drawn[0]

    def test_branches_and_instances_draw_from_streams_of_their_own(
        self, harness: SessionHarness
    ) -> None:
        branches = (steps("x = rng.random()"), steps("y = rng.random()"))
        body: list[str | Step] = [
            Loop(Const(2), (Parallel(branches, "e/t/parallel"),), "e/t/loop"),
            "z = rng.random()",
        ]
        only_task = task(
            "t", *body, instances=2, instance_blobs="x y z", outputs={name: name for name in "xyz"}
        )

        outputs = harness.run(group(only_task))

        drawn = {value for name in "xyz" for value in outputs[ref("t", name)]}
        assert len(drawn) == 6
        assert harness.run(group(only_task)) == outputs

    # Callables

    def test_callables_get_what_their_signature_names(self, harness: SessionHarness) -> None:
        only_task = task("t", call("contract_library:facts", out="x"), outputs={"x": "x"})

        assert harness.run(group(only_task), 2)[ref("t", "x")] == "(2, 'local', 0, 'run')"

    def test_a_change_of_what_a_callable_keeps_is_refused(self, harness: SessionHarness) -> None:
        harness.init("a = zeros(2)", "a")
        only_task = task(
            "t",
            call("contract_library:keep", x="a + 1", out="b"),
            call("contract_library:keep", x="a", inout="x", out="c"),
            call("contract_library:change_kept"),
            node_blobs="a",
            outputs={"b": "b", "c": "c", "a": "a"},
        )

        with pytest.raises(TaskFailedError, match="and kept, was changed by 'contract_library"):
            harness.run(group(only_task))

    def test_a_callable_changes_what_is_inout(self, harness: SessionHarness) -> None:
        harness.init("a = zeros(2)", "a")
        only_task = task(
            "t", call("contract_library:add", x="a", amount="2.5", inout="x"), node_blobs="a"
        )

        harness.run(group(only_task))

        assert harness.value("a").tolist() == [2.5, 2.5]

    def test_a_callable_cannot_change_what_is_not_inout(self, harness: SessionHarness) -> None:
        harness.init("a = zeros(2)", "a")
        only_task = task("t", call("contract_library:add", x="a", amount="2.5"), node_blobs="a")

        with pytest.raises(TaskFailedError, match="read-only"):
            harness.run(group(only_task))

    def test_a_callables_error_shows_the_users_frames(self, harness: SessionHarness) -> None:
        only_task = task("t", call("contract_library:fail", text="'no good'"))

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(only_task))

        assert "ValueError: no good, at contract_library.py:" in caught.value.faults[0].message
        assert any("in fail" in note for note in caught.value.__notes__)

    # Limits, retries and failures that only warn

    def test_a_task_that_takes_too_long_fails_with_the_step_it_was_in(
        self, harnesses: Harnesses
    ) -> None:
        harness = harnesses("a", "b")
        slow = task(
            "slow",
            "x = 1",
            forever(),
            node="a",
            timeout_s=0.02,
            setup=(setup([], [log("out ", ("failed", ""))]),),
        )

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(slow, task("other", forever(), node="b")), 4)

        fault = caught.value.faults[0]
        assert fault.code == "E220"
        assert "limit of 0.02 s (task slow, node a, epoch 4); it was in e/t/" in fault.message
        assert harness.log_lines() == ["out True"]

    def test_the_limit_is_for_all_instances_together(self, harness: SessionHarness) -> None:
        slow = task("t", forever(), instances=3, instance_blobs="spin", timeout_s=0.02)

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(slow))

        assert [fault.code for fault in caught.value.faults] == ["E220"]

    def test_a_program_is_killed_when_the_time_of_its_task_is_over(
        self, harness: SessionHarness
    ) -> None:
        waiting = RunProgram((text("trap '' TERM; sleep 1000 & wait"),), True, path="e/t/run")

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(task("t", waiting, timeout_s=0.1)))

        assert "it was in e/t/run" in caught.value.faults[0].message

    def test_a_task_within_its_limit_is_like_any_other(self, harness: SessionHarness) -> None:
        only_task = task("t", "x = rng.random()", outputs={"x": "x"})

        limited = harness.run(group(replace(only_task, timeout_s=FOREVER_S, retry=Retry(1))))

        assert limited == harness.run(group(only_task))

    def test_a_failure_that_only_warns_leaves_the_group_alone(
        self, harness: SessionHarness
    ) -> None:
        harness.init("w = 1", "w")
        bad = task("bad", failing("broken"), on_error="warn", setup=(setup([], [log("out")]),))
        good = task("good", harness.wait_for("up"), "w = w + 1", node_blobs="w", outputs={"w": "w"})
        last = task("last", harness.touch("up"))

        outputs = harness.run(group(bad, good, last))

        assert outputs == {ref("good", "w"): 2}
        assert harness.log_lines() == ["out"]
        (warning,) = (event for event in harness.events if isinstance(event, Noted))
        assert (warning.level, "'bad' failed" in warning.text) == ("warning", True)
        assert "broken" in warning.text
        failed = {e.task: e.failed for e in harness.events if isinstance(e, TaskEnded)}
        assert failed == {"init_local": False, "bad": True, "good": False, "last": False}

    def test_a_failure_that_only_warns_ends_the_tasks_own_instances(
        self, harness: SessionHarness
    ) -> None:
        body: list[str | Step] = ["x = 1 / (instance - 1) if instance < 2 else 0.0", forever()]
        bad = task("t", *body, instances=3, instance_blobs="x spin", on_error="warn")

        assert harness.run(group(bad)) == {}

    def test_a_tolerant_task_ends_with_the_others(self, harness: SessionHarness) -> None:
        tolerant = task("t", harness.touch("up"), forever(), on_error="warn")

        with pytest.raises(TaskFailedError, match="broken"):
            harness.run(group(tolerant, task("bad", harness.wait_for("up"), failing("broken"))))

        assert not any(isinstance(event, Noted) for event in harness.events)

    def test_an_error_names_the_tasks_that_failed_if_all_of_them_declare_retry(
        self, harness: SessionHarness
    ) -> None:
        first = task("b", failing("one"), retry=Retry(1))
        plain = task("a", failing("one"))

        with pytest.raises(TaskFailedError) as retryable:
            harness.run(group(first, replace(first, name="loop", steps=(forever(),))))
        with pytest.raises(TaskFailedError) as mixed:
            harness.run(group(plain))

        assert retryable.value.tasks == ("b",)
        assert mixed.value.tasks == ()

    def test_set_up_of_the_node_is_of_no_task(self, harness: SessionHarness) -> None:
        around_node = NodeSetup("local", setup([failing("broken")], []))
        only_task = task("t", "x = 1", retry=Retry(1))

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(only_task, setup=(around_node,)))

        assert caught.value.tasks == ()

    def test_a_snapshot_brings_back_what_the_group_changed(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        harness.init("w = arange(3.0); k = 1; c = counter(5); still = ones(2)", "w k c still", "a")
        harness.init("v = zeros(2)", "v", "b")
        changing = group(
            task(
                "one",
                "w += 1; w[0] = 9",
                "k = k + 1; old = count_up(c)",
                "new = 1",
                "del still",
                node="a",
                node_blobs="w k c new still",
            ),
            task("two", "v += rng.random(2)", node="b", node_blobs="v"),
        )
        snapshot = harness.session.snapshot(changing)
        seen = []
        for _ in range(3):
            harness.run(changing)
            seen.append((harness.value("w", "a"), harness.value("k", "a"), harness.value("v", "b")))
            harness.session.restore(snapshot)

            assert harness.session.names("a") == ("c", "k", "still", "w")
            assert same_bits(harness.value("w", "a"), np.arange(3.0))
            assert harness.value("k", "a") == 1
            assert harness.value("c", "a").value == 5
            assert same_bits(harness.value("v", "b"), np.zeros(2))
        assert all(same_bits(list(values), list(seen[0])) for values in seen)

    def test_a_state_is_written_as_it_was_held_while_a_group_changes_it(
        self, harnesses: Harnesses, tmp_path: Path
    ) -> None:
        harness = harnesses("a", "b")
        session = harness.session
        harness.init("w = arange(3.0); k = 1; c = counter(5)", "w k c", "a")
        harness.init("w = zeros(2)", "w", "b")
        state = (("a", ("c", "k", "w")), ("b", ("w",)))
        changing = group(
            task("one", "w += 1; k = k + 1; old = count_up(c)", node="a", node_blobs="w k c"),
            task("two", "w[0] = 9", node="b", node_blobs="w"),
        )
        tickets = tuple(harness.run(saving_group(state), 4).values())
        session.protect(tickets, [changing])
        harness.run(changing, 5)

        saves = session.persist(tickets, str(tmp_path))
        session.release(tickets)
        session.release(tickets)

        assert [(ticket.node, ticket.epoch) for ticket in tickets] == [("a", 4), ("b", 4)]
        assert [save.file.node for save in saves] == ["a", "b"]
        read = {save.file.node: read_saved(tmp_path, save.file, dict(state)) for save in saves}
        assert same_bits(read["a"]["w"], np.arange(3.0))
        assert (read["a"]["k"], read["a"]["c"].value) == (1, 5)
        assert same_bits(read["b"]["w"], np.zeros(2))
        assert same_bits(harness.value("w", "a"), np.arange(1.0, 4.0))

    def test_a_state_without_protection_is_safe_too(
        self, harness: SessionHarness, tmp_path: Path
    ) -> None:
        harness.init("w = zeros(2)", "w")
        state = (("local", ("w",)),)
        tickets = tuple(harness.run(saving_group(state), 4).values())
        harness.run(group(task("t", "w += 1", node_blobs="w")))

        (save,) = harness.session.persist(tickets, str(tmp_path))

        assert same_bits(read_saved(tmp_path, save.file, dict(state))["w"], np.zeros(2))

    def test_a_state_can_be_written_again_elsewhere(
        self, harness: SessionHarness, tmp_path: Path
    ) -> None:
        harness.init("w = zeros(2)", "w")
        tickets = tuple(harness.run(saving_group((("local", ("w",)),)), 4).values())
        with pytest.raises(JobrunError):
            harness.session.persist(tickets, str(tmp_path / "missing"))

        (save,) = harness.session.persist(tickets, str(tmp_path))

        assert (tmp_path / save.file.name).stat().st_size == save.file.size_bytes

    def test_collected_files_have_the_same_bytes_and_are_loaded(
        self, session: Session, tmp_path: Path
    ) -> None:
        state = (("a", ("w",)), ("b", ("k", "w")))
        folders = [tmp_path / name for name in ("here", "collected")]
        files = NodeFiles(("a", "b"), node_dir=str(tmp_path / "own" / "jobrun-r"))
        saved = {}
        for folder, writer in zip(folders, (ThreadsSession(), session), strict=True):
            folder.mkdir()
            harness = SessionHarness(writer, folder, "a", "b", files=files)
            # One file of several pieces, and a small one of a single piece.
            harness.init("w = arange(1300000.0) / 7", "w", "a")
            harness.init("w = arange(5.0)\nk = 3", "w k", "b")
            tickets = tuple(harness.run(saving_group(state), 4).values())
            staged = folder / "staged"
            staged.mkdir()
            saved[folder] = tuple(save.file for save in writer.persist(tickets, str(staged)))
            writer.release(tickets)
            if writer is not session:
                writer.close()
        here, there = folders
        assert saved[there] == saved[here]
        for file in saved[here]:
            collected = (there / "staged" / file.name).read_bytes()
            assert collected == (here / "staged" / file.name).read_bytes()

        session.settle({})
        manifest = Manifest(4, "r", 0, saved[there], "")
        session.run(load_group(_job(state), manifest, str(there / "staged")), 1, {})

        assert same_bits(session.read("a", ("w",))["w"], np.arange(1300000.0) / 7)
        assert session.read("b", ("k",))["k"] == 3
        assert list((tmp_path / "own").rglob("*.h5")) == []

    def test_remote_nets_do_not_run_by_themselves(self, harness: SessionHarness) -> None:
        remote_net = RemoteNet("f", "local", (failing("broken"),))

        assert harness.run(group(remote=(remote_net,))) == {}
        assert harness.run(group(task("t", "x = 1", outputs={"x": "x"}), remote=(remote_net,)))

    # Between nodes

    def test_a_pull_brings_copies_from_all_nodes_in_their_order(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b", "c")
        for number, node in enumerate("abc"):
            harness.init(f"w = full(3, {number}.0); k = {number}; s = '{node}'", "w k s", node)
        pulled = (
            PulledBlob("mean", ("a", "b", "c"), "w", "mean"),
            PulledBlob("total", ("a", "b", "c"), "k", "sum"),
            PulledBlob("rows", ("c", "a"), "w", "stack"),
            PulledBlob("all", ("b", "c"), "w", "concat"),
            PulledBlob("text", ("b", "c"), "s", "first"),
        )
        names = {blob.blob: blob.blob for blob in pulled}
        only_task = task(
            "t", Pull(pulled, "e/t/pull"), "rows += 1; mean += 1", node="a", outputs=names
        )

        outputs = harness.run(group(only_task))

        expected = {
            "mean": np.full(3, 2.0), "total": 3, "rows": np.array([[3.0] * 3, [1.0] * 3]),
            "all": np.array([1.0] * 3 + [2.0] * 3), "text": "b",
        }  # fmt: skip
        assert all(same_bits(outputs[ref("t", n, "a")], v) for n, v in expected.items())
        assert [harness.value("w", node).tolist() for node in "abc"] == [
            [0.0] * 3,
            [1.0] * 3,
            [2.0] * 3,
        ]

    def test_a_pull_keeps_kind_dtype_and_bits(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        expressions = {
            "x": "1.5",
            "y": "transpose(reshape(arange(6, dtype=float32), (2, 3)))",
            "z": "sum(arange(3, dtype=float32))",
            "n": "nan",
            "c": "counter(3)",
        }
        harness.init(
            "; ".join(f"{k} = {v}" for k, v in expressions.items()), " ".join(expressions), "b"
        )
        step = Pull(tuple(PulledBlob(name, ("b",), name) for name in expressions), "e/t/pull")
        only_task = task(
            "t", step, node="a", outputs={name: name for name in expressions if name != "c"}
        )

        outputs = harness.run(group(only_task))

        expected = {
            "x": 1.5,
            "y": np.arange(6, dtype=np.float32).reshape(2, 3).T,
            "z": np.float32(3),
            "n": float("nan"),
        }
        for name, value in expected.items():
            assert same_bits(outputs[ref("t", name, "a")], value)
        assert outputs[ref("t", "y", "a")].flags.f_contiguous

    def test_a_pull_sees_what_a_task_it_needs_has_made(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        harness.init("w = 1", "w", "b")
        first = task("first", "w = w + 1", node="b", node_blobs="w")
        step = Pull((PulledBlob("v", ("b",), "w"),), "e/t/pull")
        second = task("second", step, node="a", needs=("first",), outputs={"v": "v"})

        assert harness.run(group(second, first))[ref("second", "v", "a")] == 2

    def test_a_pull_of_what_is_not_there_names_the_node(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        step = Pull((PulledBlob("v", ("b",), "w"),), "e/t/pull")

        with pytest.raises(TaskFailedError) as caught:
            harness.run(group(task("t", step, node="a")))

        fault = caught.value.faults[0]
        assert (fault.code, fault.path) == ("E270", "e/t/pull")
        assert "node 'b' has no global blob 'w'" in fault.message

    @pytest.mark.parametrize("readers", [("c",), ("a",), ("b", "c")])
    def test_a_shared_queue_brings_every_record_to_some_node_once(
        self, harnesses: Harnesses, readers: tuple[str, ...]
    ) -> None:
        harness = harnesses("a", "b", "c")
        queue = Queue("q", capacity=3, shared=True)
        numbers = Reader("numbers", CounterSource(0, 40), (Field("x", ""),))
        writers = [
            replace(
                task("w", node=node),
                read=ReadRecords(numbers),
                write=(WriteQueue(queue, ("x",)),),
                scopes=(("x", Scope.TASK),),
            )
            for node in ("a", "b")
        ]
        for node in readers:
            harness.init("total = counter(0); n = counter(0)", "total n", node)
        adding = "old = atomic_add(total, x); seen = count_up(n)"
        taking = [
            replace(
                task("r", adding, node=node, node_blobs="total n"), read=ReadQueue(queue, ("x",))
            )
            for node in readers
        ]

        harness.run(group(*writers, *taking))

        assert sum(harness.value("n", node).value for node in readers) == 80
        assert sum(harness.value("total", node).value for node in readers) == 2 * sum(range(40))

    def test_what_goes_through_a_shared_queue_is_copied(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        queue = Queue("q", shared=True)
        harness.init("w = zeros(3)", "w", "a")
        writer = replace(
            task("w", "w += 1", node="a", node_blobs="w"), write=(WriteQueue(queue, ("w",)),)
        )
        reader = replace(
            task("r", "x += 10; seen = x + 0", node="b", outputs={"seen": "seen"}),
            read=ReadQueue(queue, ("x",)),
        )

        outputs = harness.run(group(writer, reader))

        assert outputs[ref("r", "seen", "b")].tolist() == [11.0] * 3
        assert harness.value("w", "a").tolist() == [1.0] * 3

    def test_a_failure_wakes_those_who_wait_at_a_shared_queue(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        queue = Queue("q", capacity=1, shared=True)
        writer = replace(
            task("w", harness.wait_for("up"), failing("broken"), node="a"),
            write=(WriteQueue(queue, ("x",)),),
            scopes=(("x", Scope.TASK),),
        )
        reader = replace(task("r", "y = x", node="b"), read=ReadQueue(queue, ("x",)))

        with pytest.raises(TaskFailedError, match="broken"):
            harness.run(group(writer, reader, task("go", harness.touch("up"), node="b")))

    def test_renew_leaves_all_workspaces_empty(self, harnesses: Harnesses) -> None:
        harness = harnesses("a", "b")
        harness.init("w = 1", "w", "a")

        assert harness.session.renew() == ()

        assert (harness.session.names("a"), harness.session.names("b")) == ((), ())
        harness.init("w = 2", "w", "b")
        assert harness.value("w", "b") == 2

    # Boundary

    def test_settle_keeps_the_state_in_boundary_form_and_ends_the_rest(
        self, harness: SessionHarness
    ) -> None:
        harness.init("a = transpose(ones((2, 3))); b = 1.5; c = zeros(3)[::2]; d = 4", "a b c d")

        harness.session.settle({"local": ("c", "a", "b")})

        assert harness.session.names("local") == ("a", "b", "c")
        again = task("t", "a[0, 0] = 7; c += 1", node_blobs="a c")
        harness.run(group(again))
        assert harness.value("a").flags.f_contiguous
        assert harness.value("c").tolist() == [1, 1]

    def test_settle_names_state_that_is_missing(self, harness: SessionHarness) -> None:
        harness.init("a = 1", "a")

        with pytest.raises(TaskFailedError) as caught:
            harness.session.settle({"local": ("a", "b")})

        assert caught.value.faults[0].code == "E216"
        assert "'b'" in caught.value.faults[0].message

    def test_read_gives_copies(self, harness: SessionHarness) -> None:
        harness.init("a = zeros(2)", "a")

        harness.value("a")[0] = 5

        assert harness.value("a").tolist() == [0, 0]
        with pytest.raises(KeyError):
            harness.session.read("local", ("nothing",))

    # Observation

    def test_metrics_are_numbers(self, harness: SessionHarness) -> None:
        measured = Metric((("loss", expr("sum(x)")), ("n", expr("len(x)"))), path="e/t/metric")

        harness.run(group(task("t", "x = ones(3)", measured)))

        measured_events = [event for event in harness.events if isinstance(event, Measured)]
        assert [
            (only_task.name, only_task.value, type(only_task.value))
            for only_task in measured_events
        ] == [
            ("loss", 3.0, float),
            ("n", 3, int),
        ]

    def test_an_empty_group_does_nothing(self, harness: SessionHarness) -> None:
        assert harness.run(group()) == {}

    def test_no_error_is_an_exception_without_a_place(self, harness: SessionHarness) -> None:
        with pytest.raises(JobrunError) as caught:
            harness.run(group(task("t", net("x = missing"))))

        assert caught.value.faults[0].path == "e/t/steps[0]"
