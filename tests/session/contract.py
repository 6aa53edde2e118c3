"""What every session must do: subclass ``SessionContract`` and supply the fixture ``session``."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobrun.blobs.values import same_bits
from jobrun.checkpoint.hdf5 import read_state
from jobrun.checkpoint.plan import load_group, save_group
from jobrun.checkpoint.store import Manifest, StoredFile
from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.core.events import Event, Logged, Measured, Noted, TaskEnded
from jobrun.graph.conditions import CheckpointPolicy
from jobrun.graph.data import (
    CounterSource,
    Field,
    Queue,
    Reader,
    ReadQueue,
    ReadRecords,
    WriteQueue,
)
from jobrun.graph.expr import Const
from jobrun.graph.pulled import PulledBlob
from jobrun.graph.steps import (
    Assert,
    Loop,
    Parallel,
    Pull,
    Record,
    RunProgram,
    Step,
    Stop,
)
from jobrun.graph.types import Job, NodeReport, NodeSetup, RemoteNet, Retry, Scope, TaskGroup
from jobrun.session.base import RunContext, Session
from jobrun.session.cancel import GroupCancelledError
from jobrun.session.nodefiles import NodeFiles
from jobrun.session.threads import ThreadsSession
from tests.support.graphs import (
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
    """A loop that only a cancel ends."""
    return Loop(None, steps(*parts or ("spin = 1",)), "e/t/forever")


def _job(state: tuple[tuple[str, tuple[str, ...]], ...]) -> Job:
    policy = CheckpointPolicy(nodes=tuple(dict(state)))
    groups = [TaskGroup(name) for name in ("init", "epoch", "download", "exit")]
    return Job("j", cluster(*dict(state)), *groups, state=state, checkpoint=policy)


def _saving(state: tuple[tuple[str, tuple[str, ...]], ...]) -> TaskGroup:
    """The group that begins to save these blobs."""
    return save_group(_job(state), "r")


def _stored(folder: Path, file: StoredFile, state: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    return read_state(
        str(folder / file.name), node=file.node, epoch=4, run_id="r", digest=file.digest,
        names=state[file.node],
    )  # fmt: skip


def failing(said: str) -> Assert:
    """A step that fails."""
    return Assert(Const(False), text(said), "", f"e/{said}")


class Room:
    """An open session, its events, and a folder with a library of callables."""

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
        return self.session.run(ran, epoch, outputs or {})

    def init(self, statements: str, names: str, node: str = "local") -> None:
        """Make blobs of a node's global workspace."""
        made = task(f"init_{node}", statements, node=node, node_blobs=names)
        self.run(group(made, name="init", workspace="global"), 0)

    def value(self, name: str, node: str = "local") -> Any:
        return self.session.read(node, (name,))[name]

    def said(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Logged)]

    def flag(self, name: str) -> str:
        """An expression: the path of a file with which tasks meet."""
        return repr(str(self.folder / name))

    def wait_for(self, name: str) -> Step:
        return call("contract_library:wait_for", path=self.flag(name))

    def touch(self, name: str) -> Step:
        return call("contract_library:touch", path=self.flag(name))


class SessionContract:
    """The tests. The fixture ``session`` gives an unopened session, and closes it."""

    @pytest.fixture
    def room(self, session: Session, tmp_path: Path) -> Room:
        return Room(session, tmp_path)

    @pytest.fixture
    def rooms(self, session: Session, tmp_path: Path) -> Callable[..., Room]:
        return lambda *nodes: Room(session, tmp_path, *nodes)

    # Order

    def test_inits_run_from_the_node_inwards_and_exits_back(self, room):
        around_node = NodeSetup("local", setup([log("node in")], [log("node out")]))
        one = task(
            "t",
            log("body"),
            setup=(
                setup([log("task in 1")], [log("task out 1")], "s1"),
                setup([log("task in 2")], [log("task out 2")], "s2"),
            ),
            instance_setup=(setup([log("instance in")], [log("instance out")], "i"),),
            reports=(report(log("report")),),
        )

        room.run(group(one, setup=(around_node,)))

        assert room.said() == [
            "node in", "task in 1", "task in 2", "instance in", "body", "report",
            "instance out", "task out 2", "task out 1", "node out",
        ]  # fmt: skip

    def test_task_setup_runs_once_and_instance_setup_once_per_instance(self, room):
        one = task(
            "t",
            log("body"),
            instances=3,
            setup=(setup([log("in")], [log("out")]),),
            instance_setup=(setup([log("instance in")], [log("instance out")], "i"),),
        )

        room.run(group(one))

        said = room.said()
        assert (said[0], said[-1]) == ("in", "out")
        assert sorted(said[1:-1]) == ["body"] * 3 + ["instance in"] * 3 + ["instance out"] * 3

    def test_exits_see_the_final_values(self, room):
        one = task("t", "x = 1", "x += 1", setup=(setup([], [log("x is ", ("x", ""))]),))

        room.run(group(one))

        assert room.said() == ["x is 2"]

    def test_tasks_without_needs_overlap(self, room):
        first = task("a", room.touch("a"), room.wait_for("b"))
        second = task("b", room.touch("b"), room.wait_for("a"))

        room.run(group(first, second))

    def test_instances_overlap(self, room):
        meet = [
            "other = 'other' if instance else 'one'; own = 'one' if instance else 'other'",
            call("contract_library:touch", path=f"{room.flag('')} + '/' + own"),
            call("contract_library:wait_for", path=f"{room.flag('')} + '/' + other"),
        ]

        room.run(group(task("t", *meet, instances=2, instance_blobs="own other")))

    def test_parallel_branches_overlap(self, room):
        branches = (
            steps(room.touch("a"), room.wait_for("b")),
            steps(room.touch("b"), room.wait_for("a")),
        )

        room.run(group(task("t", Parallel(branches, "e/t/parallel"))))

    def test_needs_wait_for_the_task_on_all_its_nodes(self, rooms):
        room = rooms("a", "b")
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

        room.run(group(second, *first))

        assert room.said() == ["first", "first", "second"]

    def test_needs_that_form_a_circle_are_refused(self, room):
        with pytest.raises(TaskFailedError, match="wait for each other"):
            room.run(group(task("a", needs=("b",)), task("b", needs=("a",))))

    # Visibility

    def test_each_node_has_its_own_global_workspace(self, rooms):
        room = rooms("a", "b")
        room.init("x = 1", "x", "a")
        room.init("x = 2", "x", "b")

        room.run(group(*(task(n, "x += 10", node=n, node_blobs="x") for n in ("a", "b"))))

        assert (room.value("x", "a"), room.value("x", "b")) == (11, 12)

    def test_private_tasks_do_not_see_each_others_blobs(self, room):
        first = task("a", "x = 10", outputs={"x": "x"})
        second = task("b", "x = 20", outputs={"x": "x"})

        outputs = room.run(group(first, second))

        assert (outputs[ref("a", "x")], outputs[ref("b", "x")]) == (10, 20)
        assert room.session.names("local") == ()

    def test_a_write_goes_out_to_the_workspace_that_has_the_name(self, room):
        room.init("x = zeros(2)", "x")

        room.run(group(task("t", "x = x + 1", node_blobs="x")))

        assert room.value("x").tolist() == [1, 1]

    def test_names_of_node_setup_are_seen_by_all_tasks_and_end_with_the_run(self, room):
        scopes = (("g", Scope.GROUP),)
        around_node = NodeSetup("local", setup(["g = 5"], [log("g ", ("g", ""))]), scopes)
        tasks = [task(n, f"x = g + {i}", group_blobs="g", outputs={"x": "x"})
                 for i, n in enumerate("ab")]  # fmt: skip

        outputs = room.run(group(*tasks, setup=(around_node,)))

        assert [outputs[ref(n, "x")] for n in "ab"] == [5, 6]
        assert room.said() == ["g 5"]
        assert room.session.names("local") == ()

    def test_a_global_group_leaves_its_blobs_on_the_node(self, room):
        room.init("b = 1; a = 2", "a b")

        assert room.session.names("local") == ("a", "b")

    def test_task_blobs_start_afresh_in_each_run(self, room):
        counting = task("t", log("epoch ", ("epoch", "")), "x = epoch", outputs={"x": "x"})
        ran = group(counting)

        assert [room.run(ran, epoch)[ref("t", "x")] for epoch in (1, 2)] == [1, 2]

    def test_instances_have_workspaces_of_their_own(self, room):
        one = task("t", "x = instance * 10", instances=3, instance_blobs="x", outputs={"x": "x"})

        assert room.run(group(one))[ref("t", "x")] == [0, 10, 20]

    def test_task_blobs_are_shared_by_its_instances(self, room):
        body = Loop(Const(100), steps("old = count_up(n)"), "e/t/loop")
        one = task(
            "t", body, instances=4, instance_blobs="old",
            setup=(setup(["n = counter(0)"], ["total = count_value(n)"]),),
            outputs={"total": "total"},
        )  # fmt: skip

        assert room.run(group(one))[ref("t", "total")] == [400] * 4

    def test_builtins(self, rooms):
        room = rooms("trainer")
        told = log(*((name, "") for name in ("node.name", "node.count", "epoch", "instances")))
        one = task("t", told, node="trainer")

        room.run(group(one), 4)

        assert room.said() == ["trainer141"]

    # Outputs

    def test_outputs_are_snapshots(self, room):
        room.init("w = zeros(2)", "w")
        reading = group(task("r", "w += 1", node_blobs="w", outputs={"w": "w"}))

        first = room.run(reading)
        room.run(reading)

        assert first[ref("r", "w")].tolist() == [1, 1]
        assert room.value("w").tolist() == [2, 2]

    def test_an_output_is_taken_after_the_exits(self, room):
        one = task("t", "x = 1", setup=(setup([], ["x += 1"]),), outputs={"x": "x"})

        assert room.run(group(one))[ref("t", "x")] == 2

    def test_later_tasks_and_groups_read_outputs(self, rooms):
        room = rooms("a", "b")
        first = task("one", "x = arange(3)", node="a", outputs={"x": "x"})
        later = task("two", "y = out('one', 'x', 'a'); y += 1", node="b", needs=("one",),
                     outputs={"y": "y"})  # fmt: skip

        outputs = room.run(group(first, later))
        third = task("three", "z = out('two', 'y', 'b') * 2", node="a", outputs={"z": "z"})
        more = room.run(group(third, name="exit"), 1, outputs)

        assert outputs[ref("one", "x", "a")].tolist() == [0, 1, 2]
        assert outputs[ref("two", "y", "b")].tolist() == [1, 2, 3]
        assert more[ref("three", "z", "a")].tolist() == [2, 4, 6]
        assert set(more) == {ref("three", "z", "a")}

    def test_values_keep_kind_dtype_and_bits(self, room):
        made = {
            "a": "1.5", "b": "arange(3, dtype=float32)[::-1]", "c": "'text'", "d": "True",
            "e": "sum(arange(3, dtype=float32))", "f": "-0.0", "g": "nan",
        }  # fmt: skip
        body = "; ".join(f"{name} = {value}" for name, value in made.items())

        outputs = room.run(group(task("t", body, outputs={name: name for name in made})))

        expected = {
            "a": 1.5, "b": np.arange(3, dtype=np.float32)[::-1], "c": "text", "d": True,
            "e": np.float32(3), "f": -0.0, "g": float("nan"),
        }  # fmt: skip
        assert all(same_bits(outputs[ref("t", n)], value) for n, value in expected.items())

    def test_reading_an_output_too_early_says_so(self, room):
        one = task("a", "x = out('b', 'y')")

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(one))

        assert caught.value.faults[0].code == "E218"

    # Failure

    def test_a_failure_names_task_node_epoch_and_place(self, rooms):
        room = rooms("trainer")

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(task("t", "x = 1; y = zeros(2) @ zeros(3)", node="trainer")), 5)

        fault = caught.value.faults[0]
        assert (fault.code, fault.path) == ("E200", "e/t/steps[1]")
        assert all(part in fault.message for part in ("task t", "node trainer", "epoch 5"))
        assert caught.value.exit_code == 1

    def test_a_failure_ends_the_other_tasks(self, rooms):
        room = rooms("a", "b")
        others = [task("loop", forever(), node=node) for node in ("a", "b")]

        with pytest.raises(TaskFailedError, match="broken"):
            room.run(group(*others, task("bad", failing("broken"), node="a")))

    def test_a_failure_ends_the_other_instances(self, room):
        body = [
            "x = 1 / (instance - 1) if instance < 2 else 0.0",
            forever(),
        ]

        with pytest.raises(TaskFailedError, match="ZeroDivisionError"):
            room.run(group(task("t", *body, instances=3, instance_blobs="x spin")))

    def test_a_failure_ends_the_other_branches(self, room):
        branches = (steps(forever()), steps(failing("broken")))

        with pytest.raises(TaskFailedError, match="broken"):
            room.run(group(task("t", Parallel(branches, "e/t/parallel"))))

    def test_exits_run_after_a_failure_and_see_the_flag(self, room):
        said = log("failed ", ("failed", ""))
        bad = task(
            "t", failing("broken"),
            setup=(setup([], [said], "s"),), instance_setup=(setup([], [said], "i"),),
        )  # fmt: skip

        with pytest.raises(TaskFailedError, match="broken"):
            room.run(group(bad, setup=(NodeSetup("local", setup([], [said])),)))

        assert room.said() == ["failed True"] * 3

    def test_exits_of_a_success_see_that_nothing_failed(self, room):
        good = task("t", "x = 1", setup=(setup([], [log("failed ", ("failed", ""))]),))

        room.run(group(good))

        assert room.said() == ["failed False"]

    def test_exits_of_cancelled_tasks_run_to_their_end(self, room):
        inits = ["n = 0"]
        exits = [Loop(Const(50), steps("n += 1"), "e/x/loop"), log("n ", ("n", ""))]
        other = task("other", room.touch("up"), forever(), setup=(setup(inits, exits),))
        bad = task("bad", room.wait_for("up"), failing("broken"))

        with pytest.raises(TaskFailedError):
            room.run(group(other, bad))

        assert room.said() == ["n 50"]

    def test_a_failed_init_runs_the_exits_of_those_before_it_only(self, room):
        bad = task(
            "t", log("body"),
            setup=(
                setup([log("in 1")], [log("out 1")], "s1"),
                setup([failing("broken")], [log("out 2")], "s2"),
                setup([log("in 3")], [log("out 3")], "s3"),
            ),
        )  # fmt: skip

        with pytest.raises(TaskFailedError, match="broken"):
            room.run(group(bad))

        assert room.said() == ["in 1", "out 1"]

    def test_tasks_that_need_a_failed_one_do_not_start(self, room):
        after = task("after", log("after"), needs=("bad",))

        with pytest.raises(TaskFailedError):
            room.run(group(after, task("bad", failing("broken"))))

        assert room.said() == []

    def test_all_errors_are_reported_the_first_one_first(self, room):
        exit_too = setup([], [failing("exit broke too")])
        first = task("first", failing("first"), setup=(exit_too,))
        second = task("second", forever(), setup=(setup([], [failing("second exit")], "s"),))

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(second, first))

        messages = [fault.message for fault in caught.value.faults]
        assert "first" in messages[0]
        assert sum("exit broke too" in one for one in messages) == 1
        assert len(messages) <= 3

    def test_what_is_missing_because_of_a_failure_is_no_error_of_its_own(self, room):
        bad = task("t", failing("broken"), "x = 1", setup=(setup([], [log(("x", ""))]),),
                   reports=(report(log(("x", ""))),))  # fmt: skip

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(bad))

        assert [fault.code for fault in caught.value.faults] == ["E205"]

    def test_the_session_can_run_again_after_a_failure(self, room):
        with pytest.raises(TaskFailedError):
            room.run(group(task("t", failing("broken"))))

        assert room.run(group(task("t", "x = 1", outputs={"x": "x"})))[ref("t", "x")] == 1

    def test_the_end_of_each_task_is_told(self, room):
        with pytest.raises(TaskFailedError):
            room.run(group(task("good", "x = 1"), task("bad", failing("b"), needs=("good",))), 2)

        ends = [event for event in room.events if isinstance(event, TaskEnded)]
        assert [(e.task, e.node, e.epoch, e.failed) for e in ends] == [
            ("good", "local", 2, False),
            ("bad", "local", 2, True),
        ]

    # Stop

    def test_a_stop_request_cancels_at_a_step_boundary(self, room):
        one = task("t", room.touch("up"), forever(), setup=(setup([], [log("out")]),))

        with pytest.raises(GroupCancelledError):
            self.run_and_stop(room, group(one))

        assert room.said() == ["out"]

    def test_a_stop_request_ends_loops_of_expressions_in_the_callers_thread(self, room):
        waiting = task("up", room.touch("up"))
        one = task("t", forever(), needs=("up",))

        with pytest.raises(GroupCancelledError):
            self.run_and_stop(room, group(waiting, one))

    def test_a_stop_request_without_a_running_group_does_nothing(self, room):
        room.session.request_stop()

        assert room.run(group(task("t", "x = 1", outputs={"x": "x"})))

    def run_and_stop(self, room: Room, ran: TaskGroup) -> None:
        """Run, and request a stop once the file ``up`` is there."""
        up = room.folder / "up"

        def stop() -> None:
            while not up.exists():
                threading.Event().wait(0.002)
            room.session.request_stop()

        stopper = threading.Thread(target=stop)
        stopper.start()
        try:
            room.run(ran)
        finally:
            stopper.join()

    # Reports

    def test_a_report_never_runs_at_time_0_and_once_after_the_body(self, room):
        one = task("t", log("body"), reports=(report(log("r"), interval_s=FOREVER_S),))

        room.run(group(one))

        assert room.said() == ["body", "r"]

    def test_a_report_runs_at_intervals_and_sees_what_the_body_does(self, room):
        room.init("n = 0; enough = False", "n enough")
        body = [
            Loop(None, steps("n += 1", Stop(expr("enough"), "e/t/loop", "s")), "e/t/loop"),
            log("body ends"),
        ]
        watching = report("enough = n > 3", log("report"), interval_s=0.001)
        one = task("t", *body, node_blobs="n enough", reports=(watching,))

        room.run(group(one))

        said = room.said()
        assert said.count("report") >= 2
        assert said[-1] == "report"
        assert said.index("body ends") == len(said) - 2 or "report" in said[-2:]

    def test_the_last_report_runs_after_a_failure_and_before_the_exits(self, room):
        bad = task("t", failing("broken"), reports=(report(log("report")),),
                   setup=(setup([], [log("out")]),))  # fmt: skip

        with pytest.raises(TaskFailedError, match="broken"):
            room.run(group(bad))

        assert room.said() == ["report", "out"]

    def test_each_instance_has_its_own_reports(self, room):
        one = task("t", "x = instance", instances=3, instance_blobs="x",
                   reports=(report(log(("x", ""))),))  # fmt: skip

        room.run(group(one))

        assert sorted(room.said()) == ["0", "1", "2"]

    def test_a_node_report_runs_once_after_all_tasks_of_the_node(self, rooms):
        room = rooms("a", "b")
        beside = NodeReport("a", report(log("report")))
        around_node = NodeSetup("a", setup([log("in")], [log("out")]))
        tasks = [task(f"t{i}", log("task"), node=n) for i, n in enumerate("aab")]

        room.run(group(*tasks, setup=(around_node,), reports=(beside,)))

        on_a = [e.text for e in room.events if isinstance(e, Logged) and e.node == "a"]
        assert on_a == ["in", "task", "task", "report", "out"]

    def test_a_failed_report_fails_the_group(self, room):
        bad = report(failing("report broke"), interval_s=0.001)

        with pytest.raises(TaskFailedError, match="report broke"):
            room.run(group(task("t", forever(), reports=(bad,))))

    # Randomness

    def test_streams_depend_on_names_alone(self, rooms):
        room = rooms("a", "b")
        draw = "x = rng.random(2)"
        one = task("one", draw, node="a", outputs={"x": "x"})
        both = group(one, task("two", draw, node="a", outputs={"x": "x"}),
                     task("three", draw, node="b", outputs={"x": "x"}))  # fmt: skip

        together = room.run(both, 3)
        alone = room.run(group(one), 3)
        later = room.run(group(one), 4)

        drawn = [together[ref(n, "x", w)].tolist() for n, w in (("one", "a"), ("two", "a"), ("three", "b"))]  # fmt: skip  # noqa: E501
        assert len({tuple(one) for one in drawn}) == 3
        assert alone[ref("one", "x", "a")].tolist() == drawn[0]
        assert later[ref("one", "x", "a")].tolist() != drawn[0]

    def test_branches_and_instances_draw_from_streams_of_their_own(self, room):
        branches = (steps("x = rng.random()"), steps("y = rng.random()"))
        body = [
            Loop(Const(2), (Parallel(branches, "e/t/parallel"),), "e/t/loop"),
            "z = rng.random()",
        ]
        one = task("t", *body, instances=2, instance_blobs="x y z",
                   outputs={name: name for name in "xyz"})  # fmt: skip

        outputs = room.run(group(one))

        drawn = {value for name in "xyz" for value in outputs[ref("t", name)]}
        assert len(drawn) == 6
        assert room.run(group(one)) == outputs

    # Callables

    def test_callables_get_what_their_signature_names(self, room):
        one = task("t", call("contract_library:facts", out="x"), outputs={"x": "x"})

        assert room.run(group(one), 2)[ref("t", "x")] == "(2, 'local', 0, 'run')"

    def test_what_a_callable_keeps_cannot_change_a_blob(self, room):
        room.init("a = zeros(2)", "a")
        one = task(
            "t", call("contract_library:keep", x="a + 1", out="b"),
            call("contract_library:keep", x="a", inout="x", out="c"),
            call("contract_library:change_kept"),
            node_blobs="a", outputs={"b": "b", "c": "c", "a": "a"},
        )  # fmt: skip

        outputs = room.run(group(one))

        assert [outputs[ref("t", n)].tolist() for n in "abc"] == [[0, 0], [1, 1], [0, 0]]

    def test_a_callable_changes_what_is_inout(self, room):
        room.init("a = zeros(2)", "a")
        one = task(
            "t", call("contract_library:add", x="a", amount="2.5", inout="x"), node_blobs="a"
        )

        room.run(group(one))

        assert room.value("a").tolist() == [2.5, 2.5]

    def test_a_callable_cannot_change_what_is_not_inout(self, room):
        room.init("a = zeros(2)", "a")
        one = task("t", call("contract_library:add", x="a", amount="2.5"), node_blobs="a")

        with pytest.raises(TaskFailedError, match="read-only"):
            room.run(group(one))

    def test_a_callables_error_shows_the_users_frames(self, room):
        one = task("t", call("contract_library:fail", text="'no good'"))

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(one))

        assert "ValueError: no good, at contract_library.py:" in caught.value.faults[0].message
        assert any("in fail" in note for note in caught.value.__notes__)

    # Limits, retries and failures that are only told

    def test_a_task_that_takes_too_long_fails_with_the_step_it_was_in(self, rooms):
        room = rooms("a", "b")
        slow = task(
            "slow", "x = 1", forever(), node="a", timeout_s=0.02,
            setup=(setup([], [log("out ", ("failed", ""))]),),
        )  # fmt: skip

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(slow, task("other", forever(), node="b")), 4)

        fault = caught.value.faults[0]
        assert fault.code == "E220"
        assert "limit of 0.02 s (task slow, node a, epoch 4); it was in e/t/" in fault.message
        assert room.said() == ["out True"]

    def test_the_limit_is_for_all_instances_together(self, room):
        slow = task("t", forever(), instances=3, instance_blobs="spin", timeout_s=0.02)

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(slow))

        assert [fault.code for fault in caught.value.faults] == ["E220"]

    def test_a_program_is_killed_when_the_time_of_its_task_is_over(self, room):
        waiting = RunProgram((text("trap '' TERM; sleep 1000 & wait"),), True, path="e/t/run")

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(task("t", waiting, timeout_s=0.1)))

        assert "it was in e/t/run" in caught.value.faults[0].message

    def test_a_task_within_its_limit_is_like_any_other(self, room):
        one = task("t", "x = rng.random()", outputs={"x": "x"})

        limited = room.run(group(replace(one, timeout_s=FOREVER_S, retry=Retry(1))))

        assert limited == room.run(group(one))

    def test_a_failure_that_is_only_told_leaves_the_group_alone(self, room):
        room.init("w = 1", "w")
        bad = task("bad", failing("broken"), on_error="warn", setup=(setup([], [log("out")]),))
        good = task("good", room.wait_for("up"), "w = w + 1", node_blobs="w", outputs={"w": "w"})
        last = task("last", room.touch("up"))

        outputs = room.run(group(bad, good, last))

        assert outputs == {ref("good", "w"): 2}
        assert room.said() == ["out"]
        (warning,) = (event for event in room.events if isinstance(event, Noted))
        assert (warning.level, "'bad' failed" in warning.text) == ("warning", True)
        assert "broken" in warning.text
        failed = {e.task: e.failed for e in room.events if isinstance(e, TaskEnded)}
        assert failed == {"init_local": False, "bad": True, "good": False, "last": False}

    def test_a_failure_that_is_only_told_ends_the_tasks_own_instances(self, room):
        body = ["x = 1 / (instance - 1) if instance < 2 else 0.0", forever()]
        bad = task("t", *body, instances=3, instance_blobs="x spin", on_error="warn")

        assert room.run(group(bad)) == {}

    def test_a_tolerant_task_ends_with_the_others(self, room):
        tolerant = task("t", room.touch("up"), forever(), on_error="warn")

        with pytest.raises(TaskFailedError, match="broken"):
            room.run(group(tolerant, task("bad", room.wait_for("up"), failing("broken"))))

        assert not any(isinstance(event, Noted) for event in room.events)

    def test_an_error_names_the_tasks_that_failed_if_all_of_them_declare_retry(self, room):
        first = task("b", failing("one"), retry=Retry(1))
        plain = task("a", failing("one"))

        with pytest.raises(TaskFailedError) as retryable:
            room.run(group(first, replace(first, name="loop", steps=(forever(),))))
        with pytest.raises(TaskFailedError) as mixed:
            room.run(group(plain))

        assert retryable.value.tasks == ("b",)
        assert mixed.value.tasks == ()

    def test_set_up_of_the_node_is_of_no_task(self, room):
        around_node = NodeSetup("local", setup([failing("broken")], []))
        one = task("t", "x = 1", retry=Retry(1))

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(one, setup=(around_node,)))

        assert caught.value.tasks == ()

    def test_a_snapshot_brings_back_what_the_group_changed(self, rooms):
        room = rooms("a", "b")
        room.init("w = arange(3.0); k = 1; c = counter(5); still = ones(2)", "w k c still", "a")
        room.init("v = zeros(2)", "v", "b")
        changing = group(
            task("one", "w += 1; w[0] = 9", "k = k + 1; old = count_up(c)", "new = 1", "del still",
                 node="a", node_blobs="w k c new still"),
            task("two", "v += rng.random(2)", node="b", node_blobs="v"),
        )  # fmt: skip
        kept = room.session.snapshot(changing)
        seen = []
        for _ in range(3):
            room.run(changing)
            seen.append((room.value("w", "a"), room.value("k", "a"), room.value("v", "b")))
            room.session.restore(kept)

            assert room.session.names("a") == ("c", "k", "still", "w")
            assert same_bits(room.value("w", "a"), np.arange(3.0))
            assert room.value("k", "a") == 1
            assert room.value("c", "a").value == 5
            assert same_bits(room.value("v", "b"), np.zeros(2))
        assert all(same_bits(list(one), list(seen[0])) for one in seen)

    def test_a_state_is_written_as_it_was_held_while_a_group_changes_it(self, rooms, tmp_path):
        room, session = (one := rooms("a", "b")), one.session
        room.init("w = arange(3.0); k = 1; c = counter(5)", "w k c", "a")
        room.init("w = zeros(2)", "w", "b")
        state = (("a", ("c", "k", "w")), ("b", ("w",)))
        changing = group(
            task("one", "w += 1; k = k + 1; old = count_up(c)", node="a", node_blobs="w k c"),
            task("two", "w[0] = 9", node="b", node_blobs="w"),
        )
        tickets = tuple(room.run(_saving(state), 4).values())
        session.protect(tickets, [changing])
        room.run(changing, 5)

        saves = session.persist(tickets, str(tmp_path))
        session.release(tickets)
        session.release(tickets)

        assert [(one.node, one.epoch) for one in tickets] == [("a", 4), ("b", 4)]
        assert [one.file.node for one in saves] == ["a", "b"]
        read = {one.file.node: _stored(tmp_path, one.file, dict(state)) for one in saves}
        assert same_bits(read["a"]["w"], np.arange(3.0))
        assert (read["a"]["k"], read["a"]["c"].value) == (1, 5)
        assert same_bits(read["b"]["w"], np.zeros(2))
        assert same_bits(room.value("w", "a"), np.arange(1.0, 4.0))

    def test_a_state_that_nobody_protected_is_safe_too(self, room, tmp_path):
        room.init("w = zeros(2)", "w")
        state = (("local", ("w",)),)
        tickets = tuple(room.run(_saving(state), 4).values())
        room.run(group(task("t", "w += 1", node_blobs="w")))

        (save,) = room.session.persist(tickets, str(tmp_path))

        assert same_bits(_stored(tmp_path, save.file, dict(state))["w"], np.zeros(2))

    def test_a_state_can_be_written_again_elsewhere(self, room, tmp_path):
        room.init("w = zeros(2)", "w")
        tickets = tuple(room.run(_saving((("local", ("w",)),)), 4).values())
        with pytest.raises(JobrunError):
            room.session.persist(tickets, str(tmp_path / "missing"))

        (save,) = room.session.persist(tickets, str(tmp_path))

        assert (tmp_path / save.file.name).stat().st_size == save.file.size_bytes

    def test_collected_files_have_the_same_bytes_and_are_loaded(self, session, tmp_path):
        state = (("a", ("w",)), ("b", ("k", "w")))
        folders = [tmp_path / name for name in ("here", "collected")]
        files = NodeFiles(("a", "b"), node_dir=str(tmp_path / "own" / "jobrun-r"))
        saved = {}
        for folder, one in zip(folders, (ThreadsSession(), session), strict=True):
            folder.mkdir()
            room = Room(one, folder, "a", "b", files=files)
            # Of several pieces, and of a single small one.
            room.init("w = arange(1300000.0) / 7", "w", "a")
            room.init("w = arange(5.0)\nk = 3", "w k", "b")
            tickets = tuple(room.run(_saving(state), 4).values())
            staged = folder / "staged"
            staged.mkdir()
            saved[folder] = tuple(save.file for save in one.persist(tickets, str(staged)))
            one.release(tickets)
            if one is not session:
                one.close()
        here, there = folders
        assert saved[there] == saved[here]
        for file in saved[here]:
            found = (there / "staged" / file.name).read_bytes()
            assert found == (here / "staged" / file.name).read_bytes()

        session.settle({})
        room.run(load_group(_job(state), Manifest(4, "r", 0, saved[there], ""),
                            str(there / "staged")))  # fmt: skip

        assert same_bits(room.value("w", "a"), np.arange(1300000.0) / 7)
        assert room.value("k", "b") == 3
        assert list((tmp_path / "own").rglob("*.h5")) == []

    def test_remote_nets_do_not_run_by_themselves(self, room):
        kept = RemoteNet("f", "local", (failing("broken"),))

        assert room.run(group(remote=(kept,))) == {}
        assert room.run(group(task("t", "x = 1", outputs={"x": "x"}), remote=(kept,)))

    # Between nodes

    def test_a_pull_brings_copies_from_all_nodes_in_their_order(self, rooms):
        room = rooms("a", "b", "c")
        for number, node in enumerate("abc"):
            room.init(f"w = full(3, {number}.0); k = {number}; s = '{node}'", "w k s", node)
        pulled = (
            PulledBlob("mean", ("a", "b", "c"), "w", "mean"),
            PulledBlob("total", ("a", "b", "c"), "k", "sum"),
            PulledBlob("rows", ("c", "a"), "w", "stack"),
            PulledBlob("all", ("b", "c"), "w", "concat"),
            PulledBlob("text", ("b", "c"), "s", "first"),
        )
        names = {one.blob: one.blob for one in pulled}
        one = task("t", Pull(pulled, "e/t/pull"), "rows += 1; mean += 1", node="a", outputs=names)

        outputs = room.run(group(one))

        expected = {
            "mean": np.full(3, 2.0), "total": 3, "rows": np.array([[3.0] * 3, [1.0] * 3]),
            "all": np.array([1.0] * 3 + [2.0] * 3), "text": "b",
        }  # fmt: skip
        assert all(same_bits(outputs[ref("t", n, "a")], v) for n, v in expected.items())
        assert [room.value("w", node).tolist() for node in "abc"] == [
            [0.0] * 3,
            [1.0] * 3,
            [2.0] * 3,
        ]

    def test_a_pull_keeps_kind_dtype_and_bits(self, rooms):
        room = rooms("a", "b")
        made = {"x": "1.5", "y": "transpose(reshape(arange(6, dtype=float32), (2, 3)))",
                "z": "sum(arange(3, dtype=float32))", "n": "nan", "c": "counter(3)"}  # fmt: skip
        room.init("; ".join(f"{k} = {v}" for k, v in made.items()), " ".join(made), "b")
        step = Pull(tuple(PulledBlob(name, ("b",), name) for name in made), "e/t/pull")
        one = task("t", step, node="a", outputs={name: name for name in made if name != "c"})

        outputs = room.run(group(one))

        expected = {"x": 1.5, "y": np.arange(6, dtype=np.float32).reshape(2, 3).T,
                    "z": np.float32(3), "n": float("nan")}  # fmt: skip
        for name, value in expected.items():
            assert same_bits(outputs[ref("t", name, "a")], value)
        assert outputs[ref("t", "y", "a")].flags.f_contiguous

    def test_a_pull_sees_what_a_task_it_needs_has_made(self, rooms):
        room = rooms("a", "b")
        room.init("w = 1", "w", "b")
        first = task("first", "w = w + 1", node="b", node_blobs="w")
        step = Pull((PulledBlob("v", ("b",), "w"),), "e/t/pull")
        second = task("second", step, node="a", needs=("first",), outputs={"v": "v"})

        assert room.run(group(second, first))[ref("second", "v", "a")] == 2

    def test_a_pull_of_what_is_not_there_names_the_node(self, rooms):
        room = rooms("a", "b")
        step = Pull((PulledBlob("v", ("b",), "w"),), "e/t/pull")

        with pytest.raises(TaskFailedError) as caught:
            room.run(group(task("t", step, node="a")))

        fault = caught.value.faults[0]
        assert (fault.code, fault.path) == ("E270", "e/t/pull")
        assert "node 'b' has no global blob 'w'" in fault.message

    @pytest.mark.parametrize("readers", [("c",), ("a",), ("b", "c")])
    def test_a_shared_queue_brings_every_record_to_some_node_once(self, rooms, readers):
        room = rooms("a", "b", "c")
        queue = Queue("q", capacity=3, shared=True)
        numbers = Reader("numbers", CounterSource(0, 40), (Field("x", ""),))
        writers = [
            replace(task("w", node=node), read=ReadRecords(numbers),
                    write=(WriteQueue(queue, ("x",)),), scopes=(("x", Scope.TASK),))
            for node in ("a", "b")
        ]  # fmt: skip
        for node in readers:
            room.init("total = counter(0); n = counter(0)", "total n", node)
        adding = "old = atomic_add(total, x); seen = count_up(n)"
        taking = [
            replace(
                task("r", adding, node=node, node_blobs="total n"), read=ReadQueue(queue, ("x",))
            )
            for node in readers
        ]

        room.run(group(*writers, *taking))

        assert sum(room.value("n", node).value for node in readers) == 80
        assert sum(room.value("total", node).value for node in readers) == 2 * sum(range(40))

    def test_what_goes_through_a_shared_queue_is_copied(self, rooms):
        room = rooms("a", "b")
        queue = Queue("q", shared=True)
        room.init("w = zeros(3)", "w", "a")
        writer = replace(
            task("w", "w += 1", node="a", node_blobs="w"), write=(WriteQueue(queue, ("w",)),)
        )
        reader = replace(
            task("r", "x += 10; seen = x + 0", node="b", outputs={"seen": "seen"}),
            read=ReadQueue(queue, ("x",)),
        )

        outputs = room.run(group(writer, reader))

        assert outputs[ref("r", "seen", "b")].tolist() == [11.0] * 3
        assert room.value("w", "a").tolist() == [1.0] * 3

    def test_a_failure_wakes_those_who_wait_at_a_shared_queue(self, rooms):
        room = rooms("a", "b")
        queue = Queue("q", capacity=1, shared=True)
        writer = replace(
            task("w", room.wait_for("up"), failing("broken"), node="a"),
            write=(WriteQueue(queue, ("x",)),), scopes=(("x", Scope.TASK),),
        )  # fmt: skip
        reader = replace(task("r", "y = x", node="b"), read=ReadQueue(queue, ("x",)))

        with pytest.raises(TaskFailedError, match="broken"):
            room.run(group(writer, reader, task("go", room.touch("up"), node="b")))

    def test_renew_leaves_all_workspaces_empty(self, rooms):
        room = rooms("a", "b")
        room.init("w = 1", "w", "a")

        assert room.session.renew() == ()

        assert (room.session.names("a"), room.session.names("b")) == ((), ())
        room.init("w = 2", "w", "b")
        assert room.value("w", "b") == 2

    # Boundary

    def test_settle_keeps_the_state_in_boundary_form_and_ends_the_rest(self, room):
        room.init("a = transpose(ones((2, 3))); b = 1.5; c = zeros(3)[::2]; d = 4", "a b c d")

        room.session.settle({"local": ("c", "a", "b")})

        assert room.session.names("local") == ("a", "b", "c")
        again = task("t", "a[0, 0] = 7; c += 1", node_blobs="a c")
        room.run(group(again))
        assert room.value("a").flags.c_contiguous
        assert room.value("c").tolist() == [1, 1]

    def test_settle_names_state_that_is_missing(self, room):
        room.init("a = 1", "a")

        with pytest.raises(TaskFailedError) as caught:
            room.session.settle({"local": ("a", "b")})

        assert caught.value.faults[0].code == "E216"
        assert "'b'" in caught.value.faults[0].message

    def test_read_gives_copies(self, room):
        room.init("a = zeros(2)", "a")

        room.value("a")[0] = 5

        assert room.value("a").tolist() == [0, 0]
        with pytest.raises(KeyError):
            room.session.read("local", ("nothing",))

    # Observation

    def test_metrics_are_numbers(self, room):
        measured = Record((("loss", expr("sum(x)")), ("n", expr("len(x)"))), "e/t/metric")

        room.run(group(task("t", "x = ones(3)", measured)))

        found = [event for event in room.events if isinstance(event, Measured)]
        assert [(one.name, one.value, type(one.value)) for one in found] == [
            ("loss", 3.0, float),
            ("n", 3, int),
        ]

    def test_an_empty_group_does_nothing(self, room):
        assert room.run(group()) == {}

    def test_no_error_is_an_exception_without_a_place(self, room):
        with pytest.raises(JobrunError) as caught:
            room.run(group(task("t", net("x = missing"))))

        assert caught.value.faults[0].path == "e/t/steps[0]"
