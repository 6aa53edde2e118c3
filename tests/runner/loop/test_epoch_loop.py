"""The order of things in a run, over a session whose groups are Python functions."""

from __future__ import annotations

from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from jobrun.core.errors import (
    DriftError,
    ExpectationError,
    InterruptedRunError,
    StoppedEarlyError,
    TaskFailedError,
)
from jobrun.core.events import EpochEnded, GroupStarted, Measured, Noted
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import Probe, StopAfterEpochs, StopWhen, StopWithoutImprovement
from jobrun.graph.expressions import Compare, Const, NodeBlob, OutputRead
from jobrun.graph.types import Cluster, Job, Node, Output, OutputRef, Task, TaskGroup
from jobrun.runner.loop.epoch_loop import JobRunner, ResumePoint, RunLimits
from jobrun.runner.saved_progress import Progress
from jobrun.runner.stop_requests import StopRequests
from jobrun.session.base import GroupCancelledError
from tests.support.scripted_session import ScriptedSession

X = NodeBlob("n", "x")
TASK = Task("t", "n", ())
LOAD = TaskGroup("load", (TASK,))


def probe(text, expr):
    return Probe(text, (expr,))


def above(number):
    return probe(f"x > {number}", Compare(X, (">",), (Const(number),)))


def job(**changes):
    groups = {
        name: TaskGroup(name, (replace(TASK, name=name),))
        for name in ("init", "epoch", "download", "exit")
    }
    fields = {
        "name": "j",
        "cluster": Cluster((Node("n"),)),
        "state": (("n", ("x",)),),
        "stop": (StopAfterEpochs(2),),
        **groups,
        **changes,
    }
    return Job(**fields)


class RecordingSaver:
    """Saves nothing, but says when."""

    def __init__(self, calls, every=1):
        self.calls = calls
        self.every = every
        self.seconds = 0.0
        self.saved = -1
        self.saved_progress = {}

    def is_due(self, progress):
        return progress.epoch % self.every == 0

    def save(self, progress):
        self.calls.append(f"save {progress.epoch}")
        self.saved = progress.epoch
        self.saved_progress[progress.epoch] = progress
        return progress

    def handle_outcome(self, progress):
        return progress

    def settle(self, progress):
        return progress

    def close(self):
        pass

    def handle_load(self, progress, outputs):
        self.calls.append(f"loaded {progress.epoch}")

    def finish(self):
        self.calls.append("finish")


class Bench:
    """A job runner with everything it needs, and what happened."""

    def __init__(self, job, every=1, resumed=None, ask_at=None, limits=None, **script):
        self.session = ScriptedSession({"init": self._init, "epoch": self._epoch, **script})
        self.calls = self.session.calls
        self.saver = RecordingSaver(self.calls, every)
        self.events = []
        self.ask_at = ask_at
        self.job = job
        self.limits = limits or RunLimits()
        self.resumed = resumed

    def _init(self, blobs, epoch):
        blobs["x"] = 0

    def _epoch(self, blobs, epoch):
        blobs["x"] += 1
        if epoch == self.ask_at:
            self.requests.ask("a test")

    @contextmanager
    def runner(self):
        with StopRequests(self.session.request_stop, grace_s=1000) as self.requests:
            yield JobRunner(
                self.job,
                self.session,
                self.saver,
                self.requests,
                self.events.append,
                self.limits,
            )

    def run(self):
        with self.runner() as runner:
            return runner.run(self.resumed)


def test_a_new_run_happens_in_this_order():
    bench = Bench(job())

    progress = bench.run()

    assert bench.calls == [
        "init 0",
        "settle",
        "save 0",
        "epoch 1",
        "settle",
        "save 1",
        "epoch 2",
        "settle",
        "save 2",
        "finish",
        "download 2",
        "exit 2",
    ]
    assert progress.epoch == 2
    assert progress.stopping == ("2 epochs have run",)


def test_the_session_learns_before_the_last_save_that_no_epoch_follows():
    bench = Bench(job())

    bench.run()

    assert bench.calls[: bench.session.settled_before][-2:] == ["epoch 2", "settle"]


def test_a_request_to_end_that_cuts_the_upload_short_drops_no_epoch():
    bench = Bench(job())

    def finish():
        raise GroupCancelledError

    bench.saver.finish = finish
    with pytest.raises(
        StoppedEarlyError, match="what runs after epoch 2 was cut short, epoch 2 is"
    ):
        bench.run()


def test_a_resumed_run_loads_and_runs_only_what_is_rebuilt():
    init = TaskGroup("init", (replace(TASK, name="a"), replace(TASK, name="b", rebuild=True)))
    bench = Bench(job(init=init), resumed=ResumePoint(Progress(epoch=1), LOAD))

    bench.run()

    assert bench.calls == [
        "init 0",
        "load 1",
        "loaded 1",
        "settle",
        "epoch 2",
        "settle",
        "save 2",
        "finish",
        "download 2",
        "exit 2",
    ]
    assert bench.events[0] == GroupStarted("init", 0, ("b",))


def test_resumed_after_the_last_epoch_it_runs_download_and_exit_and_no_epoch():
    resumed = ResumePoint(Progress(epoch=2, stopping=("2 epochs have run",)), LOAD)
    bench = Bench(job(), resumed=resumed)

    bench.run()

    assert bench.calls == ["load 2", "loaded 2", "settle", "finish", "download 2", "exit 2"]


def test_resumed_finished_run_runs_nothing():
    bench = Bench(job(), resumed=ResumePoint(Progress(epoch=2), LOAD, ended=True))

    progress = bench.run()

    assert bench.calls == ["load 2", "loaded 2", "settle"]
    assert progress.stopping


def test_finished_run_with_a_raised_limit_continues():
    bench = Bench(
        job(stop=(StopAfterEpochs(3),)), resumed=ResumePoint(Progress(2), LOAD, ended=True)
    )
    bench.session.blobs["x"] = 2

    bench.run()

    assert bench.calls[3:] == [
        "epoch 3",
        "settle",
        "save 3",
        "finish",
        "download 3",
        "exit 3",
    ]


def test_a_lowered_limit_stops_before_any_epoch():
    resumed = ResumePoint(Progress(epoch=5), LOAD)

    bench = Bench(job(stop=(StopAfterEpochs(3),)), resumed=resumed)

    assert bench.run().epoch == 5
    assert "epoch 6" not in bench.calls


def test_stored_reasons_to_stop_do_not_count_but_present_ones_do():
    resumed = ResumePoint(Progress(epoch=1, stopping=("an old reason",)), LOAD)
    bench = Bench(job(), resumed=resumed)
    bench.session.blobs["x"] = 1

    assert bench.run().epoch == 2


def test_a_condition_that_holds_after_init_does_not_stop_a_run_killed_there():
    stop = (StopWhen(above(-1)),)
    fresh = Bench(job(stop=stop))
    resumed = Bench(job(stop=stop), resumed=ResumePoint(Progress(epoch=0), LOAD))
    resumed.session.blobs["x"] = 0

    assert fresh.run().epoch == resumed.run().epoch == 1


def test_the_stopping_epoch_is_saved_whatever_the_policy():
    bench = Bench(job(stop=(StopAfterEpochs(5),)), every=3)

    bench.run()

    assert [call for call in bench.calls if call.startswith("save")] == [
        "save 0",
        "save 3",
        "save 5",
    ]


def test_fail_if_is_looked_at_on_settled_state_before_the_save():
    bench = Bench(job(fail_if=(above(0),)))

    with pytest.raises(TaskFailedError, match="'x > 0' holds") as raised:
        bench.run()

    assert raised.value.faults[0].code == "E365"
    assert bench.calls == ["init 0", "settle", "save 0", "epoch 1", "settle"]


def test_a_failed_epoch_is_not_saved_and_nothing_runs_after_it():
    def fail(blobs, epoch):
        raise TaskFailedError.of("E200", "it broke")

    bench = Bench(job(), epoch=fail)

    with pytest.raises(TaskFailedError, match="it broke"):
        bench.run()

    assert bench.calls == ["init 0", "settle", "save 0", "epoch 1"]


def test_condition_must_be_a_bool():
    with pytest.raises(TaskFailedError, match="must be true or false, and is 1") as raised:
        Bench(job(stop=(StopWhen(probe("x", X)),))).run()

    assert raised.value.faults[0].code == "E366"


def test_metrics_are_measured_and_reported_after_every_epoch():
    bench = Bench(job(metrics=(("x", probe("x", X)),)))

    bench.run()

    assert [e for e in bench.events if isinstance(e, Measured)] == [
        Measured("x", 1, 1),
        Measured("x", 2, 2),
    ]
    ended = [e for e in bench.events if isinstance(e, EpochEnded)]
    assert ended[1].metrics == (("x", 2),)
    assert ended[1].stopping == ("2 epochs have run",)


def test_an_expectation_is_looked_at_after_exit():
    bench = Bench(job(expect=(above(1), above(2), above(3))))

    with pytest.raises(ExpectationError) as raised:
        bench.run()

    assert bench.calls[-1] == "exit 2"
    assert [fault.message for fault in raised.value.faults] == [
        "'x > 2' does not hold",
        "'x > 3' does not hold",
    ]


def test_a_request_lets_the_epoch_end_saves_it_and_leaves():
    bench = Bench(job(), ask_at=1)

    with pytest.raises(StoppedEarlyError, match=r"a test.*epoch 1 is saved"):
        bench.run()

    assert bench.calls[-3:] == ["epoch 1", "settle", "save 1"]


def test_a_request_saves_an_epoch_that_the_policy_would_not():
    bench = Bench(job(stop=(StopAfterEpochs(9),)), ask_at=4, every=3)

    with pytest.raises(StoppedEarlyError):
        bench.run()

    assert bench.calls[-3:] == ["epoch 4", "settle", "save 4"]


def test_a_request_during_the_last_epoch_leaves_download_and_exit_to_the_resume():
    bench = Bench(job(), ask_at=2)

    with pytest.raises(StoppedEarlyError):
        bench.run()

    assert bench.calls[-1] == "save 2"


def test_a_dropped_epoch_is_not_saved():
    def drop(blobs, epoch):
        bench.requests.ask("a test")
        bench.requests.ask("again")
        bench.session.cancelled = True

    bench = Bench(job(), epoch=drop)

    with pytest.raises(StoppedEarlyError, match="epoch 1 was dropped, epoch 0 is saved"):
        bench.run()

    assert bench.calls[-1] == "epoch 1"


def test_interrupt_raises_its_own_error():
    def interrupt(blobs, epoch):
        blobs["x"] += 1
        bench.requests._note("signal SIGINT", interrupted=True)

    bench = Bench(job(), epoch=interrupt)

    with pytest.raises(InterruptedRunError):
        bench.run()

    assert bench.saver.saved == 1


def test_no_more_epochs_than_this_invocation_may_run():
    bench = Bench(job(), limits=RunLimits(max_epochs=1))

    with pytest.raises(StoppedEarlyError, match="--max-epochs 1"):
        bench.run()

    assert bench.calls[-1] == "save 1"


def test_run_ending_at_a_safe_point_has_ended():
    assert Bench(job(), limits=RunLimits(max_epochs=2)).run().epoch == 2


def test_an_added_stop_condition_ends_the_run_in_good_order():
    bench = Bench(job(), limits=RunLimits(stop=(StopAfterEpochs(1),)))

    assert bench.run().epoch == 1
    assert bench.calls[-1] == "exit 1"


def test_patience_survives_a_resume():
    stop = (StopWithoutImprovement("x", 3),)
    values = [5, 4, 4, 4, 4, 4, 4]

    def epoch(blobs, number):
        blobs["x"] = values[number - 1]

    whole = Bench(job(stop=stop, metrics=(("x", probe("x", X)),)), epoch=epoch)
    last = whole.run().epoch
    assert last == 5
    for number, progress in list(whole.saver.saved_progress.items()):
        part = Bench(whole.job, epoch=epoch, resumed=ResumePoint(progress, LOAD))
        part.session.blobs["x"] = values[max(0, number - 1)]

        assert part.run().epoch == last


def outputs_job():
    outputs = (Output("o", Const(1)), Output("unread", Const(1)))
    return job(
        init=TaskGroup("init", (replace(TASK, name="i", outputs=outputs),)),
        epoch=TaskGroup("epoch", (replace(TASK, name="e", outputs=outputs),)),
        stop=(StopWhen(probe("e.o", OutputRead("e", "o", "n"))),),
        expect=(probe("i.o", OutputRead("i", "o", "n")),),
    )


def test_outputs_that_are_read_later_are_part_of_what_is_saved():
    def init(blobs, epoch):
        return {OutputRef("i", "n", "o"): True, OutputRef("i", "n", "unread"): object()}

    def epoch(blobs, number):
        return {OutputRef("e", "n", "o"): number == 2, OutputRef("e", "n", "unread"): object()}

    bench = Bench(outputs_job(), init=init, epoch=epoch)

    assert bench.run().epoch == 2
    assert bench.saver.saved_progress[1].outputs == {
        OutputRef("i", "n", "o"): True,
        OutputRef("e", "n", "o"): False,
    }
    assert set(bench.session.seen["epoch"]) == {OutputRef("i", "n", "o")}
    again = Bench(
        outputs_job(), epoch=epoch, resumed=ResumePoint(bench.saver.saved_progress[2], LOAD)
    )
    assert again.run().epoch == 2


def test_a_constant_that_comes_out_differently_is_drift():
    init = TaskGroup("init", (replace(TASK, name="b", rebuild=True),))
    changed = job(init=init, constants=(("n", ("x",)),), state=())
    resumed = ResumePoint(Progress(epoch=1, constants={"n.x": "sha256:other"}), LOAD)

    with pytest.raises(DriftError, match=r"constants\.n\.x"):
        Bench(changed, resumed=resumed).run()

    Bench(changed, resumed=replace(resumed, accept=("constants",))).run()


def test_failed_saves_are_reported_at_the_end():
    bench = Bench(job(), resumed=ResumePoint(Progress(epoch=2, failed_saves=3), LOAD))

    bench.run()

    no_epoch = "no epoch is saved, so there is nothing to resume from"
    assert Noted(f"3 checkpoints could not be saved; {no_epoch}", "warning") in bench.events


def test_scores_are_those_of_saved_epochs_and_of_the_best():
    values = {1: 0.1, 2: 5.0, 3: 0.2, 4: 3.0, 6: 4.0}

    def epoch(blobs, number):
        blobs["x"] = values.get(number, float("nan"))

    policy = CheckpointPolicy(every_epochs=2, keep_best=("x", "max", 2), nodes=("n",))
    bench = Bench(
        job(checkpoint=policy, metrics=(("x", probe("x", X)),), stop=(StopAfterEpochs(6),)),
        every=2,
        epoch=epoch,
    )

    assert bench.run().scores == ((2, 5.0), (6, 4.0))
