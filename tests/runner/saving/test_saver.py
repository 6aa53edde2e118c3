"""Saving an epoch: what happens in which order, and what when the disk says no."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import CheckpointCommitted, CheckpointFailed, CheckpointTimes, Noted
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.expressions import Call, Const
from jobrun.graph.steps import Assign, Augment, NameTarget, Net
from jobrun.graph.types import Cluster, Job, Node, OutputRef, Scope, Task, TaskGroup
from jobrun.runner.run_metadata_handler import RunMetadata
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.saved_progress import Progress, from_json
from jobrun.runner.saving import saver as saver_module
from jobrun.runner.saving.commit import CheckpointTarget, RunIdentity
from jobrun.runner.saving.saver import CheckpointSaver, NoSaver
from jobrun.session.base import RunContext
from jobrun.session.threads.session import ThreadsSession

MAKE = Task(
    "make",
    "n",
    (Net((Assign((NameTarget("x"),), Call("arange", (Const(3),))),)),),
    scopes=(("x", Scope.NODE),),
    path="init/make",
)
JOB = Job(
    "j",
    Cluster((Node("n"),)),
    TaskGroup("init", (MAKE,), workspace="global"),
    *(TaskGroup(name) for name in ("epoch", "download", "exit")),
    state=(("n", ("x",)),),
    checkpoint=CheckpointPolicy(nodes=("n",), asynchronous=False),
)


class FailingStore(DirectoryStore):
    """Says no the next ``fail`` times it is asked to make a stage, or to commit."""

    fail = 0
    fail_after_commit = False

    def stage(self, epoch):
        if self.fail:
            self.fail -= 1
            raise EnvironmentFaultError.of("E313", "no space")
        return super().stage(epoch)

    def commit(self, staged, manifest):
        path = super().commit(staged, manifest)
        if self.fail_after_commit:
            raise EnvironmentFaultError.of("E316", "not known whether it survives")
        return path


@pytest.fixture
def bench(tmp_path):
    session = ThreadsSession()
    session.open(JOB.cluster, RunContext(0, str(tmp_path), str(tmp_path)))
    session.run(JOB.init, 0, {})
    with RunLock.acquire(tmp_path) as lock:
        bench = Bench(tmp_path, session, lock)
        with bench.run_metadata.opened(bench.events.append):
            yield bench
    session.close()


class Bench:
    """A saver with what it needs, and what it told."""

    def __init__(self, path, session, lock):
        self.path = path
        self.events = []
        self.store = FailingStore(str(path / "checkpoints"))
        self.run_metadata = RunMetadata(self.store, path, "id-1")
        self.target = CheckpointTarget(self.store, (self.run_metadata,), lock, run=path)
        self.session = session
        self.listen = self.events.append
        self.late = False

    def saver(self, **policy):
        job = replace(JOB, checkpoint=replace(JOB.checkpoint, **policy))
        identity = RunIdentity("id-1", 2, "sha256:" + "a" * 64, {"numpy": "2"})
        return CheckpointSaver(
            job, self.session, self.target, identity, self.listen, is_late=lambda: self.late
        )

    @property
    def promised(self):
        return read_journal(self.path, "id-1").epochs


def test_saved_epoch_is_stored_acknowledged_and_reported(bench):
    saver = bench.saver()
    progress = Progress(epoch=3, elapsed_s=1.5, metrics=(("loss", 0.5),))

    assert saver.save(progress) == progress

    assert bench.store.epochs() == bench.promised == (3,)
    assert bench.store.verify(3) is None
    assert saver.saved == 3
    assert saver.seconds > 0
    event, times = bench.events
    assert (event.epoch, event.path) == (3, bench.store.path(3))
    assert event.size_bytes == bench.store.manifest(3).files[0].size_bytes
    assert (times.action, times.epoch, times.size_bytes) == ("save", 3, event.size_bytes)
    assert (times.slowest, times.nodes[0].node) == ("n", "n")
    assert 0 < times.seconds <= event.seconds


def test_manifest_records_the_run_and_its_progress(bench):
    progress = Progress(epoch=3, outputs={OutputRef("t", "n", "o"): 0.1})

    bench.saver().save(progress)

    manifest = bench.store.manifest(3)
    assert (manifest.run_id, manifest.generation) == ("id-1", 2)
    assert manifest.environment == {"numpy": "2"}
    assert from_json(manifest.runner) == progress


def test_save_is_reported_only_after_its_acknowledgement(bench):
    promised = []
    bench.listen = lambda event: promised.append(bench.promised)

    bench.saver().save(Progress(epoch=0))

    assert promised == [(0,)]


def test_old_epochs_go_only_after_the_new_one_is_promised(bench, monkeypatch):
    promised = []
    monkeypatch.setattr(
        bench.store, "remove", lambda epochs, **_: promised.append((epochs, bench.promised))
    )
    saver = bench.saver(keep_last=2)

    for epoch in range(4):
        saver.save(Progress(epoch=epoch))

    assert promised == [((1,), (0, 1, 2, 3))]


def test_the_best_epochs_are_kept_by_their_scores(bench):
    saver = bench.saver(keep_last=2, keep_best=("loss", "min", 1))
    scores = ()
    for epoch, value in enumerate([9.0, 1.0, 5.0, 4.0, 3.0]):
        scores = (*scores, (epoch, value))
        saver.save(Progress(epoch=epoch, scores=scores))

    assert bench.store.epochs() == (0, 1, 3, 4)


def test_a_save_that_fails_is_tried_once_more_in_a_new_stage(bench):
    bench.store.fail = 1

    bench.saver().save(Progress(epoch=0))

    assert bench.promised == (0,)


def test_a_save_that_fails_twice_fails_the_run(bench):
    bench.store.fail = 2

    with pytest.raises(EnvironmentFaultError, match="no space"):
        bench.saver().save(Progress(epoch=0))

    assert bench.promised == ()
    assert bench.events == []


def test_on_error_warn_counts_and_reports_a_failed_save_and_continues(bench):
    bench.store.fail = 2

    progress = bench.saver(on_error="warn").save(Progress(epoch=0))

    assert progress.failed_saves == 1
    assert bench.events == [CheckpointFailed(0, "error[E313] no space")]
    assert bench.saver().save(replace(progress, epoch=1)).failed_saves == 1


def test_an_epoch_that_exists_already_is_never_written_again(bench):
    bench.store.fail_after_commit = True

    with pytest.raises(EnvironmentFaultError, match="not known whether"):
        bench.saver().save(Progress(epoch=0))

    assert bench.store.epochs() == (0,)
    assert bench.promised == ()


def test_an_output_that_cannot_be_stored_leaves_no_stage_behind(bench):
    progress = Progress(epoch=0, outputs={OutputRef("t", "n", "o"): object()})

    with pytest.raises(TaskFailedError, match=r"output t\.o"):
        bench.saver().save(progress)

    assert not (bench.path / "checkpoints").exists()


def test_nothing_is_committed_when_the_lock_is_gone(bench):
    (bench.path / "run.lock").unlink()

    with pytest.raises(EnvironmentFaultError, match="removed or replaced"):
        bench.saver().save(Progress(epoch=0))

    assert not (bench.path / "checkpoints").exists()


def test_saves_are_due_by_epochs_or_by_time(bench):
    by_epochs = bench.saver(every_epochs=3)
    seldom, always = (bench.saver(every_epochs=0, every_s=s) for s in (1e9, 0.0))

    assert [e for e in range(7) if by_epochs.is_due(Progress(epoch=e))] == [0, 3, 6]
    assert seldom.is_due(Progress(epoch=0))
    assert not seldom.is_due(Progress(epoch=1))
    assert always.is_due(Progress(epoch=1))


def test_without_checkpoints_nothing_is_saved_and_nothing_due():
    saver = NoSaver()

    assert not saver.is_due(Progress(epoch=0))
    assert saver.save(Progress(epoch=1)) == Progress(epoch=1)
    assert saver.saved == -1


def test_a_committed_event_is_what_listeners_wait_for(bench):
    bench.saver().save(Progress(epoch=0))

    assert isinstance(bench.events[0], CheckpointCommitted)


# Beside the run.


class SlowStore(FailingStore):
    """Commits when it is let to, and says when it is about to."""

    def __init__(self, root):
        super().__init__(root)
        self.staged, self.go_on = threading.Event(), threading.Event()

    def stage(self, epoch):
        self.staged.set()
        self.go_on.wait(100)
        return super().stage(epoch)


@pytest.fixture
def slow_bench(bench):
    bench.store = SlowStore(str(bench.path / "checkpoints"))
    bench.target = replace(bench.target, store=bench.store)
    yield bench
    bench.store.go_on.set()


def test_background_save_returns_before_it_is_durable(slow_bench):
    saver = slow_bench.saver(asynchronous=True)

    saver.save(Progress(epoch=0))

    assert (saver.saved, slow_bench.promised, slow_bench.events) == (-1, (), [])
    slow_bench.store.go_on.set()
    saver.settle(Progress(epoch=0))
    assert (saver.saved, slow_bench.promised) == (0, (0,))
    assert saver.seconds > 0
    saver.close()


def test_background_save_is_acknowledged_before_the_next_boundary(slow_bench):
    committed = threading.Event()
    slow_bench.listen = lambda event: (
        committed.set() if isinstance(event, CheckpointCommitted) else None
    )
    saver = slow_bench.saver(asynchronous=True)

    saver.save(Progress(epoch=0))
    slow_bench.store.go_on.set()

    assert committed.wait(100)
    assert slow_bench.promised == (0,)
    saver.close()


def test_only_one_save_runs_at_a_time_and_the_wait_is_reported(slow_bench):
    saver = slow_bench.saver(asynchronous=True)
    saver.save(Progress(epoch=0))
    threading.Timer(0.05, slow_bench.store.go_on.set).start()

    saver.save(Progress(epoch=1))

    assert saver.saved == 0
    saver.settle(Progress(epoch=1))
    assert saver.saved == 1
    first, second = (event for event in slow_bench.events if isinstance(event, CheckpointTimes))
    assert first.beside
    assert first.wait_s < second.wait_s < second.stall_s
    saver.close()


def test_file_has_the_values_of_the_epoch_boundary(slow_bench):
    saver = slow_bench.saver(asynchronous=True)
    saver.save(Progress(epoch=0))
    changing = replace(MAKE, steps=(Net((Augment(NameTarget("x"), "+", Const(7)),)),))
    slow_bench.store.go_on.set()

    slow_bench.session.run(TaskGroup("epoch", (changing,)), 1, {})
    saver.settle(Progress(epoch=0))

    (file,) = slow_bench.store.manifest(0).files
    path = str(Path(slow_bench.store.path(0), file.name))
    read = read_state(path, node="n", epoch=0, run_id="id-1", digest=file.digest, names=("x",))
    assert read["x"].tolist() == [0, 1, 2]
    assert slow_bench.session.read("n", ("x",))["x"].tolist() == [7, 8, 9]
    saver.close()


def test_background_save_that_fails_twice_fails_the_run_at_the_next_boundary(slow_bench):
    slow_bench.store.fail = 2
    slow_bench.store.go_on.set()
    saver = slow_bench.saver(asynchronous=True)

    saver.save(Progress(epoch=0))
    with pytest.raises(EnvironmentFaultError, match="no space"):
        saver.save(Progress(epoch=1))

    assert slow_bench.promised == ()
    saver.close()
    assert slow_bench.events == []


def test_a_save_whose_thread_dies_is_never_reported_as_saved(slow_bench, monkeypatch):
    saver = slow_bench.saver(asynchronous=True)
    monkeypatch.setattr(type(saver), "_carry_out", lambda *arguments: None)

    saver.save(Progress(epoch=0))
    with pytest.raises(EnvironmentFaultError, match="ended before its work"):
        saver.save(Progress(epoch=1))

    assert slow_bench.promised == ()
    saver.close()


def test_it_is_tried_once_more_with_the_same_values(slow_bench):
    slow_bench.store.fail = 1
    slow_bench.store.go_on.set()
    saver = slow_bench.saver(asynchronous=True)

    saver.settle(saver.save(Progress(epoch=0)))

    assert slow_bench.promised == (0,)
    saver.close()


def test_with_on_error_warn_it_is_counted_at_the_next_boundary_and_is_no_best_one(slow_bench):
    slow_bench.store.fail = 2
    slow_bench.store.go_on.set()
    saver = slow_bench.saver(asynchronous=True, on_error="warn")

    progress = saver.settle(saver.save(Progress(epoch=1, scores=((0, 2.0), (1, 1.0)))))

    assert (progress.failed_saves, progress.scores) == (1, ((0, 2.0),))
    assert slow_bench.events == [CheckpointFailed(1, "error[E313] no space")]
    assert saver.handle_outcome(progress) == progress
    saver.close()


def test_close_waits_and_reports_but_never_raises(slow_bench):
    slow_bench.store.fail = 2
    saver = slow_bench.saver(asynchronous=True)
    saver.save(Progress(epoch=0))
    threading.Timer(0.05, slow_bench.store.go_on.set).start()

    saver.close()

    assert slow_bench.events == [CheckpointFailed(0, "error[E313] no space")]


def test_a_save_that_never_began_is_not_reported_at_the_end(slow_bench, monkeypatch):
    saver = slow_bench.saver(asynchronous=True)

    def refuse(*arguments):
        raise TaskFailedError.of("E242", "no state", "rebuild it")

    monkeypatch.setattr(type(saver), "_build_request", refuse)
    with pytest.raises(TaskFailedError):
        saver.save(Progress(epoch=0))
    saver.close()

    assert slow_bench.events == []


def test_abandoned_save_leaves_no_files(slow_bench):
    saver = slow_bench.saver(asynchronous=True)
    saver.save(Progress(epoch=0))
    slow_bench.store.staged.wait(100)
    slow_bench.late = True

    progress = saver.settle(Progress(epoch=0))
    saver.close()
    slow_bench.store.go_on.set()
    for thread in threading.enumerate():
        if thread.name == "jobrun-save":
            thread.join(100)

    assert (progress, saver.saved) == (Progress(epoch=0), -1)
    assert (slow_bench.store.epochs(), slow_bench.promised, slow_bench.events) == ((), (), [])
    assert list((slow_bench.path / "checkpoints").iterdir()) == []


def test_without_memory_for_a_copy_the_run_waits_and_notes_it_once(bench, monkeypatch):
    monkeypatch.setattr(saver_module, "free_memory_bytes", lambda: 1 << 20)
    saver = bench.saver(asynchronous=None)

    for epoch in range(2):
        saver.save(Progress(epoch=epoch))
        assert saver.saved == epoch

    notes = [event.text for event in bench.events if isinstance(event, Noted)]
    assert len(notes) == 1
    assert "waits while an epoch is saved" in notes[0]


def test_with_memory_for_a_copy_a_save_runs_in_the_background(slow_bench, monkeypatch):
    monkeypatch.setattr(saver_module, "free_memory_bytes", lambda: 1 << 30)
    saver = slow_bench.saver(asynchronous=None)

    saver.save(Progress(epoch=0))

    assert saver.saved == -1
    slow_bench.store.go_on.set()
    saver.close()
    assert saver.saved == 0
