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


def test_without_any_the_next_epoch_begins_at_its_beginning(root):
    assert _plan(root).records == 0


def test_the_newest_of_the_next_epoch_is_chosen_and_older_ones_go(root):
    _save(root, (1, 2), (1, 4))

    plan = _plan(root)

    assert (plan.epoch, plan.records) == (1, 4)
    assert plan.over == ((1, 2),)


def test_one_whose_promise_a_crash_cut_off_is_promised_now(root):
    _save(root, (1, 2))

    assert _plan(root).acknowledge
    assert not _plan(root, said=JournalContents(within=(1, 2))).acknowledge


def test_those_of_an_epoch_that_is_saved_go(root):
    _save(root, (1, 2))

    assert _plan(root, RecoveryPlan(1)).over == ((1, 2),)


def test_a_step_back_puts_later_ones_aside(root):
    _save(root, (1, 2), (2, 4))

    plan = _plan(root, RecoveryPlan(0, 1, rewind=True))

    assert plan.records == 0
    assert plan.aside == ((1, 2), (2, 4))


def test_one_of_another_generation_is_put_aside(root):
    _save(root, (1, 2))

    plan = _plan(root, RecoveryPlan(0, 7))

    assert (plan.records, plan.aside) == (0, ((1, 2),))


def test_one_that_was_promised_and_is_gone_is_refused(root):
    _save(root, (1, 2))

    with pytest.raises(CheckpointError, match="after 4 of its records"):
        _plan(root, said=JournalContents(within=(1, 4)))


def test_an_older_one_will_do_where_that_is_allowed(root):
    _save(root, (1, 2))

    plan = _plan(root, said=JournalContents(within=(1, 4)), allow_lost=True)

    assert (plan.records, plan.lost) == (2, 4)


def test_what_is_lost_is_not_missed_again(root, tmp_path):
    _save(root, (1, 2))
    plan = _plan(root, said=JournalContents(within=(1, 4)), allow_lost=True)
    journal = Journal.open(tmp_path, RUN_ID)
    journal.acknowledge_within(1, 4, 0)

    apply_entry(plan, root, journal, tmp_path, ignore)
    journal.close()

    assert read_journal(tmp_path, RUN_ID).within == (1, 2)
    assert list_mid_epochs(root) == ((1, 2),)


def test_a_whole_epoch_takes_the_place_of_what_was_promised_within(tmp_path):
    journal = Journal.open(tmp_path, RUN_ID)
    journal.acknowledge_within(1, 4, 0)
    journal.acknowledge(1, 0)
    journal.close()

    recorded = read_journal(tmp_path, RUN_ID)

    assert (recorded.within, recorded.epochs) == ((-1, 0), (1,))
