"""In the middle of which epoch a run goes on: what recovery makes of checkpoints within epochs."""

from __future__ import annotations

import pytest

from jobrun.checkpoint.stores.mid_epoch_store import MidEpochStore, list_mid_epochs
from jobrun.core.errors import CheckpointError
from jobrun.core.events import ignore
from jobrun.runner.resume.mid_epoch_recovery import apply_entry, plan_entry
from jobrun.runner.resume.recovery import RecoveryPlan
from jobrun.runner.rundir.journal import Journal, JournalContents, read_journal
from jobrun.testing.stores import RUN_ID, write_epoch


@pytest.fixture
def root(tmp_path):
    return str(tmp_path / "checkpoints")


def _save(root, *mid_epochs):
    for epoch, records in mid_epochs:
        write_epoch(MidEpochStore(root, records), epoch)


def _plan(root, recovery=None, journal=None, **more):
    more = {"allow_lost": False, **more}
    return plan_entry(
        root, recovery or RecoveryPlan(0), journal or JournalContents(), RUN_ID, **more
    )


def test_without_mid_epoch_checkpoints_the_epoch_starts_at_its_beginning(root):
    assert _plan(root).records == 0


def test_the_newest_of_the_next_epoch_is_chosen_and_older_ones_go(root):
    _save(root, (1, 2), (1, 4))

    plan = _plan(root)

    assert (plan.epoch, plan.records) == (1, 4)
    assert plan.over == ((1, 2),)


def test_unacknowledged_mid_epoch_checkpoint_is_acknowledged_on_recovery(root):
    _save(root, (1, 2))

    assert _plan(root).acknowledge
    assert not _plan(root, journal=JournalContents(within=(1, 2))).acknowledge


def test_mid_epoch_checkpoints_of_a_saved_epoch_are_removed(root):
    _save(root, (1, 2))

    assert _plan(root, RecoveryPlan(1)).over == ((1, 2),)


def test_rewind_sets_later_mid_epoch_checkpoints_aside(root):
    _save(root, (1, 2), (2, 4))

    plan = _plan(root, RecoveryPlan(0, 1, rewind=True))

    assert plan.records == 0
    assert plan.aside == ((1, 2), (2, 4))


def test_mid_epoch_checkpoint_of_another_generation_is_set_aside(root):
    _save(root, (1, 2))

    plan = _plan(root, RecoveryPlan(0, 7))

    assert (plan.records, plan.aside) == (0, ((1, 2),))


def test_missing_acknowledged_mid_epoch_checkpoint_is_refused(root):
    _save(root, (1, 2))

    with pytest.raises(CheckpointError, match="after 4 of its records"):
        _plan(root, journal=JournalContents(within=(1, 4)))


def test_allow_lost_accepts_an_older_mid_epoch_checkpoint(root):
    _save(root, (1, 2))

    plan = _plan(root, journal=JournalContents(within=(1, 4)), allow_lost=True)

    assert (plan.records, plan.lost) == (2, 4)


def test_accepted_loss_is_not_reported_again(root, tmp_path):
    _save(root, (1, 2))
    plan = _plan(root, journal=JournalContents(within=(1, 4)), allow_lost=True)
    journal = Journal.open(tmp_path, RUN_ID)
    journal.acknowledge_within(1, 4, 0)

    apply_entry(plan, root, journal, tmp_path, ignore)
    journal.close()

    assert read_journal(tmp_path, RUN_ID).within == (1, 2)
    assert list_mid_epochs(root) == ((1, 2),)


def test_whole_epoch_replaces_a_mid_epoch_acknowledgement(tmp_path):
    journal = Journal.open(tmp_path, RUN_ID)
    journal.acknowledge_within(1, 4, 0)
    journal.acknowledge(1, 0)
    journal.close()

    recorded = read_journal(tmp_path, RUN_ID)

    assert (recorded.within, recorded.epochs) == ((-1, 0), (1,))
