from __future__ import annotations

import json

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import NodeReplaced, Noted
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from jobrun.runner.loop.epoch_loop import JobRunner, RunLimits
from jobrun.runner.loop.node_loss import NodeFailover, SavedState
from jobrun.runner.saved_progress import Progress, to_json
from jobrun.runner.saving.saver import NoSaver
from jobrun.runner.stop_requests import StopRequests
from jobrun.session.base import NodeLostError
from tests.support.scripted_session import ScriptedSession

EPOCH = TaskGroup("epoch", (Task("t", "n", ()),))


def lost(node="n"):
    return NodeLostError.of_node(node, "was ended by SIGKILL")


class Bench:
    """A session that loses its node in the given epochs, once for each time they are named."""

    def __init__(self, *epochs, most=3, renewals=()):
        self.unrecovered = list(epochs)
        self.renewals = list(renewals)
        self.events = []
        self.session = ScriptedSession({"init": self._init, "epoch": self._epoch})
        self.session.renew = self._renew
        self.most = most
        self.waits = []

    def _init(self, blobs, epoch):
        blobs["x"] = 0

    def _epoch(self, blobs, epoch):
        if epoch in self.unrecovered:
            self.unrecovered.remove(epoch)
            blobs["x"] = "spoiled"
            raise lost()
        blobs["x"] += epoch

    def _renew(self):
        self.session.calls.append("renew")
        self.session.blobs.clear()
        if self.renewals:
            raise self.renewals.pop(0)
        return ("n",)

    def run(self, epochs=3):
        init = TaskGroup("init", (Task("t", "n", ()),))
        stop = (StopAfterEpochs(epochs, "stop[0]"),)
        job = Job("j", Cluster((Node("n"),)), init, EPOCH, stop=stop)
        saver = NoSaver()
        with StopRequests(self.session.request_stop, grace_s=1000) as requests:
            losses = NodeFailover(
                self.session, SavedState(job, None, saver), requests, self.events.append, self.most
            )
            limits = RunLimits(losses=losses)
            return JobRunner(job, self.session, saver, requests, self.events.append, limits).run()

    @property
    def warnings(self):
        return [event.text for event in self.events if isinstance(event, Noted)]


@pytest.fixture(autouse=True)
def no_waits(monkeypatch):
    monkeypatch.setattr(NodeFailover, "_pause", lambda self: None)


def test_run_without_saves_restarts_from_init_with_the_same_result():
    bench = Bench(2)

    progress = bench.run()

    assert (progress.epoch, bench.session.blobs["x"]) == (3, 6)
    assert [call for call in bench.session.calls if call != "settle"] == [
        "init 0",
        "epoch 1",
        "epoch 2",
        "renew",
        "init 0",
        "epoch 1",
        "epoch 2",
        "epoch 3",
    ]
    assert [event for event in bench.events if isinstance(event, NodeReplaced)] == [
        NodeReplaced("n", -1)
    ]
    assert "node 'n' is lost" in bench.warnings[0]
    assert "the run continues from init (loss 1 of 3 at most)" in bench.warnings[0]


def test_too_many_losses_without_a_new_epoch_are_an_error():
    bench = Bench(1, 1, 1, most=2)

    with pytest.raises(EnvironmentFaultError) as caught:
        bench.run()

    assert caught.value.exit_code == 7
    assert "more than 2 losses" in caught.value.__notes__[0]
    assert bench.session.calls.count("renew") == 2


def test_loss_during_a_replacement_counts_too():
    bench = Bench(1, renewals=[lost("other")])

    progress = bench.run()

    assert progress.epoch == 3
    assert ["'other'" in text for text in bench.warnings] == [False, True]
    assert "loss 2 of 3" in bench.warnings[1]


def test_further_losses_are_waited_for_longer():
    bench = Bench(1, 1, 1, 1, most=5)

    bench.run()

    waits = [text.partition("continues")[2].partition(" from")[0] for text in bench.warnings]
    assert waits == ["", " in 1 s", " in 2 s", " in 4 s"]


def test_without_max_failures_the_first_loss_ends_the_run():
    bench = Bench(1)
    job = Job("j", Cluster((Node("n"),)), TaskGroup("init"), EPOCH, stop=(StopAfterEpochs(1, ""),))
    bench.session.blobs["x"] = 0
    with (
        StopRequests(bench.session.request_stop, grace_s=1000) as requests,
        pytest.raises(NodeLostError),
    ):
        JobRunner(job, bench.session, NoSaver(), requests, bench.events.append, RunLimits()).run()


def test_a_request_to_end_is_obeyed_instead():
    bench = Bench(1)
    job = Job("j", Cluster((Node("n"),)), TaskGroup("init"), EPOCH, stop=(StopAfterEpochs(1, ""),))
    with StopRequests(bench.session.request_stop, grace_s=1000) as requests:
        losses = NodeFailover(
            bench.session, SavedState(job, None, NoSaver()), requests, bench.events.append, 3
        )
        runner = JobRunner(
            job, bench.session, NoSaver(), requests, bench.events.append, RunLimits(losses=losses)
        )
        requests.ask("a test")

        with pytest.raises(Exception, match=r"stopped \(a test\)") as caught:
            runner._recover_from_loss(lost(), None)

    assert caught.value.exit_code == 75


def test_run_continues_from_the_newest_saved_epoch(tmp_path):
    class Saver(NoSaver):
        saved = 4

        def settle(self, progress):
            raise lost()

    class Store:
        def manifest(self, epoch):
            runner = json.loads(json.dumps(to_json(Progress(epoch=epoch))))
            return type("M", (), {"runner": runner, "epoch": epoch, "run_id": "r", "files": ()})()

        def path(self, epoch):
            return str(tmp_path)

    job = Job("j", Cluster((Node("n"),)), TaskGroup("init"), EPOCH)

    newest = SavedState(job, Store(), Saver()).newest()

    assert newest.progress.epoch == 4
    assert (newest.load.tasks, newest.records, newest.unknown) == ((), 0, ())
