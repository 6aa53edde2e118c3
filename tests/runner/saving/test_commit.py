"""How an epoch becomes durable, and what a failure after that means."""

from __future__ import annotations

import time

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_times import SavePause
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.checkpoint.task_groups import save_group
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import CheckpointCommitted, CheckpointTimes, Noted
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.types import Cluster, Job, Node, TaskGroup
from jobrun.runner.run_metadata_handler import CheckedHandler, RunMetadata
from jobrun.runner.rundir.journal import write_pins
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.saved_progress import Progress, to_json
from jobrun.runner.saving.background_thread import AbandonedError, Permit
from jobrun.runner.saving.commit import CheckpointTarget, Committer, RunIdentity, SaveRequest
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession

JOB = Job(
    "j",
    Cluster((Node("n"),)),
    *(TaskGroup(name) for name in ("init", "epoch", "download", "exit")),
    state=(("n", ("x",)),),
    checkpoint=CheckpointPolicy(nodes=("n",)),
)


class Raising:
    """A handler that fails where it is told to."""

    def __init__(self, where):
        self.where = where

    def accessible(self, epoch):
        return True

    def written(self, epoch, generation):
        if self.where == "written":
            raise OSError("the registry is away")

    def report(self, times):
        if self.where == "report":
            raise OSError("the registry is away")


class Bench:
    """Commits with what they need, and what they told."""

    def __init__(self, path, session, lock):
        self.path, self.session, self.lock = path, session, lock
        self.events = []
        self.store = DirectoryStore(str(path / "checkpoints"))
        self.run_metadata = RunMetadata(self.store, path, "id-1")

    def commits(self, other=None, **policy):
        job = replace(JOB, checkpoint=replace(JOB.checkpoint, **policy))
        handlers = (self.run_metadata, CheckedHandler(other)) if other else (self.run_metadata,)
        target = CheckpointTarget(self.store, handlers, self.lock, run=self.path)
        return Committer(job, self.session, target, RunIdentity("id-1"), self.events.append)

    def order(self, epoch, **progress):
        progress = Progress(epoch=epoch, **progress)
        tickets = tuple(self.session.run(save_group(JOB, "id-1"), epoch, {}).values())
        pause = SavePause(0.25, 0.5, in_background=True)
        return SaveRequest(progress, to_json(progress), tickets, time.monotonic(), pause)


@pytest.fixture
def bench(tmp_path):
    session = ThreadsSession()
    session.open(JOB.cluster, RunContext(0, str(tmp_path), str(tmp_path)))
    session._workspaces["n"]["x"] = np.arange(3)
    with RunLock.acquire(tmp_path) as lock:
        bench = Bench(tmp_path, session, lock)
        with bench.run_metadata.opened(bench.events.append):
            yield bench
    session.close()


def test_durable_epoch_is_reported_with_its_times(bench):
    commits = bench.commits()

    commits.commit_epoch(bench.order(3), Permit())

    assert commits.saved == 3
    committed, times = bench.events
    assert isinstance(committed, CheckpointCommitted)
    assert isinstance(times, CheckpointTimes)
    assert (times.hold_s, times.wait_s, times.beside) == (0.25, 0.5, True)
    assert times.commit_s > 0
    assert times.stall_s == pytest.approx(0.75)


def test_tickets_are_released_after_a_failure_too(bench):
    (bench.path / "run.lock").unlink()

    with pytest.raises(EnvironmentFaultError):
        bench.commits().commit_epoch(bench.order(1), Permit())

    assert bench.session._savings._held == {}


def test_abandoned_save_never_becomes_an_epoch(bench):
    permit = Permit()
    permit.give_up()

    with pytest.raises(AbandonedError):
        bench.commits().commit_epoch(bench.order(1), permit)

    assert list((bench.path / "checkpoints").iterdir()) == []
    assert bench.events == []


@pytest.mark.parametrize("where", ["written", "report"])
def test_with_on_error_warn_a_handler_that_raises_makes_no_saved_epoch_a_failed_one(bench, where):
    commits = bench.commits(Raising(where), on_error="warn")

    commits.commit_epoch(bench.order(1), Permit())

    assert commits.saved == 1
    events = [event for event in bench.events if not isinstance(event, CheckpointTimes)]
    assert [type(event) for event in events] == [CheckpointCommitted, Noted]
    assert events[1].text.startswith("epoch 1 is saved, but the metadata handler Raising failed at")


def test_without_on_error_warn_a_failing_handler_fails_the_run_but_not_the_epoch(bench):
    commits = bench.commits(Raising("written"))

    with pytest.raises(EnvironmentFaultError, match="the registry is away"):
        commits.commit_epoch(bench.order(1), Permit())

    assert commits.saved == 1
    assert bench.store.verify(1) is None


def test_pinned_epochs_stay(bench):
    commits = bench.commits(keep_last=2)
    write_pins(bench.path, {1, 99})

    for epoch in range(6):
        commits.commit_epoch(bench.order(epoch), Permit())

    assert bench.store.epochs() == (0, 1, 4, 5)


def test_epochs_are_not_deleted_while_a_reader_holds_them(bench):
    commits = bench.commits(keep_last=2)
    commits.held = lambda: frozenset({1})
    for epoch in range(4):
        commits.commit_epoch(bench.order(epoch), Permit())
    assert bench.store.epochs() == (0, 1, 2, 3)

    commits.held = frozenset
    commits.commit_epoch(bench.order(4), Permit())

    assert bench.store.epochs() == (0, 3, 4)


def test_nothing_is_deleted_while_the_pins_cannot_be_read(bench):
    commits = bench.commits(keep_last=2, on_error="warn")
    (bench.path / "pins.json").write_text("oops")

    for epoch in range(4):
        commits.commit_epoch(bench.order(epoch), Permit())

    assert bench.store.epochs() == (0, 1, 2, 3)
    assert "pins.json cannot be read" in bench.events[-1].text
