"""The run's own metadata handler, and how another one is asked beside it."""

from __future__ import annotations

import pytest

from jobrun.checkpoint.metadata_handler import Chosen
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.events import CheckpointTimes, Noted
from jobrun.runner.run_metadata_handler import (
    CheckedHandler,
    RunMetadata,
    build_choice_note,
    choose_epoch,
)
from jobrun.runner.rundir.journal import JOURNAL_NAME, read_journal
from jobrun.testing.metadata import MetadataContract
from jobrun.testing.stores import RUN_ID, write_epoch
from tests.support.metadata_handler import Remembering


class Bench:
    def __init__(self, path):
        self.path = path
        self.store = DirectoryStore(str(path / "checkpoints"))
        self.events = []
        self.run_metadata = RunMetadata(self.store, path, RUN_ID)

    def save(self, *epochs):
        with self.run_metadata.opened(self.events.append):
            for epoch in epochs:
                write_epoch(self.store, epoch)
                self.run_metadata.written(epoch, 0)

    def damage(self, epoch):
        path = self.path / "checkpoints" / f"epoch-{epoch:06d}" / "n.h5"
        path.write_bytes(b"short")


@pytest.fixture
def bench(tmp_path):
    return Bench(tmp_path)


class TestRunMetadata(MetadataContract):
    @pytest.fixture
    def handler(self, tmp_path):
        bench = Bench(tmp_path)
        with bench.run_metadata.opened(bench.events.append):
            yield bench.run_metadata

    def save_epoch(self, handler, epoch):
        write_epoch(handler._store, epoch)
        handler.written(epoch, 0)


def test_written_epoch_is_acknowledged_in_the_journal(bench):
    bench.save(0, 1)

    assert read_journal(bench.path, RUN_ID).epochs == (0, 1)


def test_times_go_to_the_listeners(bench):
    times = CheckpointTimes("save", 0, 1, 0.5, 0.0, "n", ())

    with bench.run_metadata.opened(bench.events.append):
        bench.run_metadata.report(times)

    assert bench.events == [times]


def test_choice_of_epoch_has_a_reason(bench):
    assert bench.run_metadata.last_epoch(None) == Chosen(-1, "no epoch has been saved yet")
    bench.save(0, 1, 2)
    assert bench.run_metadata.last_epoch(None) == Chosen(2, "the newest that is saved")
    assert bench.run_metadata.last_epoch(1) == Chosen(1, "it was asked for")
    bench.damage(2)
    assert bench.run_metadata.last_epoch(None) == Chosen(
        1, "the newest that can be used; 1 newer cannot"
    )
    assert not bench.run_metadata.accessible(2)


def test_damaged_journal_is_set_aside_only_for_a_requested_epoch(bench):
    bench.save(0, 1)
    (bench.path / JOURNAL_NAME).write_bytes(b"odd\nodd\n")
    with pytest.raises(CheckpointError):
        bench.run_metadata.last_epoch(None)

    assert bench.run_metadata.last_epoch(1).epoch == 1
    with bench.run_metadata.opened(bench.events.append):
        bench.run_metadata.recover(bench.events.append)

    assert read_journal(bench.path, RUN_ID).newest == 1


class Saying(Remembering):
    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def last_epoch(self, wanted):
        self.wanted = wanted
        return self.answer


def test_without_a_user_handler_the_run_decides(bench):
    bench.save(0, 1)

    assert choose_epoch(bench.run_metadata, None, None).epoch == 1
    assert choose_epoch(bench.run_metadata, CheckedHandler(Saying(None)), 0).epoch == 0


def test_handler_that_chooses_an_older_epoch_begins_a_new_generation(bench):
    bench.save(0, 1, 2)

    chosen = choose_epoch(bench.run_metadata, CheckedHandler(Saying(Chosen(1, "2 diverged"))), None)

    assert chosen == Chosen(1, "Saying says: 2 diverged")
    assert (bench.run_metadata.recovery.epoch, bench.run_metadata.recovery.generation) == (1, 1)
    assert build_choice_note(chosen) == Noted("continuing from epoch 1: Saying says: 2 diverged")


def test_handler_that_names_the_newest_epoch_begins_no_new_generation(bench):
    bench.save(0, 1)

    choose_epoch(bench.run_metadata, CheckedHandler(Saying(Chosen(1, "newest"))), None)

    assert (bench.run_metadata.recovery.generation, bench.run_metadata.recovery.superseded) == (
        0,
        (),
    )


def test_handler_overrides_the_user_and_receives_the_requested_epoch(bench):
    bench.save(0, 1, 2)
    other = Saying(Chosen(1, "because"))

    assert choose_epoch(bench.run_metadata, CheckedHandler(other), 0).epoch == 1
    assert other.wanted == 0


def test_handler_cannot_choose_an_unusable_epoch(bench):
    bench.save(0, 1)
    bench.damage(1)
    for epoch in (1, 7):
        with pytest.raises(CheckpointError):
            choose_epoch(bench.run_metadata, CheckedHandler(Saying(Chosen(epoch, ""))), None)


def test_a_named_epoch_makes_up_for_a_lost_one(bench):
    bench.save(0, 1)
    bench.store.remove((1,))

    assert (
        choose_epoch(
            bench.run_metadata, CheckedHandler(Saying(Chosen(0, "all there is"))), None
        ).epoch
        == 0
    )


def test_handler_cannot_restart_a_run_from_init(bench):
    begin = CheckedHandler(Saying(Chosen(-1, "anew")))
    assert choose_epoch(bench.run_metadata, begin, None).epoch == -1
    bench.save(0)

    with pytest.raises(CheckpointError, match="E323"):
        choose_epoch(bench.run_metadata, begin, None)


class Broken(Remembering):
    def last_epoch(self, wanted):
        return "the last"

    def accessible(self, epoch):
        return None

    def written(self, epoch, generation):
        raise KeyError(epoch)


@pytest.mark.parametrize(
    ("method", "arguments"), [("last_epoch", (None,)), ("accessible", (0,)), ("written", (0, 0))]
)
def test_failing_user_handler_is_named(method, arguments):
    with pytest.raises(EnvironmentFaultError) as caught:
        getattr(CheckedHandler(Broken()), method)(*arguments)

    (fault,) = caught.value.faults
    assert fault.code == "E322"
    assert "Broken" in fault.message
    assert method in fault.message
