"""Which epoch a run continues from: the plan from values, then the moves on a real disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.checkpoint.store_protocol import Damage, Manifest
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError
from jobrun.core.events import CheckpointSkipped
from jobrun.runner.resume.recovery import (
    FROM_INIT,
    RecoveryPlan,
    apply_recovery,
    epoch_inspector,
    generation_reader,
    plan_recovery,
)
from jobrun.runner.rundir.journal import Journal, JournalContents, read_journal


def plan(existing, journal_epochs=(), bad=(), generations=(), wanted=None, generation=0, **journal):
    return plan_recovery(
        tuple(existing),
        JournalContents(tuple(journal_epochs), **journal),
        lambda epoch: Damage(epoch, "checksum") if epoch in bad else None,
        lambda epoch: dict(generations).get(epoch, 0),
        generation,
        wanted,
    )


def test_the_newest_good_epoch_is_taken():
    assert plan([0, 1, 2], [0, 1, 2]) == RecoveryPlan(2)


def test_nothing_saved_and_nothing_promised_starts_with_init():
    assert plan([]) == RecoveryPlan(FROM_INIT)


def test_an_epoch_whose_acknowledgement_a_crash_cut_off_counts_and_is_acknowledged():
    assert plan([0, 1], [0]) == RecoveryPlan(1, acknowledge=True)


def test_epochs_that_retention_removed_are_not_missed():
    assert plan([0, 8, 9], range(10)) == RecoveryPlan(9)


def test_row_64_a_damaged_newest_falls_back_to_the_last_good_one():
    recovery = plan([0, 1, 2, 3], [0, 1, 2, 3], bad=[2, 3])

    assert recovery.epoch == 1
    assert recovery.skipped == (Damage(3, "checksum"), Damage(2, "checksum"))
    assert recovery.rewind


def test_row_63_all_damaged_is_refused_with_each_reason():
    with pytest.raises(CheckpointError, match=r"epoch 1: checksum; epoch 0: checksum") as raised:
        plan([0, 1], [0, 1], bad=[0, 1])

    assert raised.value.faults[0].code == "E358"


@pytest.mark.parametrize(
    ("existing", "bad", "message"),
    [
        ([], [], "epochs 0-2 were saved and are gone; there are no epochs"),
        ([0, 1], [], "epoch 2 was saved and is gone; there are epochs 0-1"),
        ([0], [], "epochs 1-2 were saved and are gone"),
        # A directory of a later epoch does not replace them.
        ([0, 1, 3], [3], "epoch 2 was saved and is gone"),
        # A damaged newest epoch neither.
        ([0, 2], [2], "epoch 1 was saved and is gone"),
        ([2], [2], "epochs 0-1 were saved and are gone"),
    ],
)
def test_row_65_a_promised_epoch_that_is_gone_is_refused(existing, bad, message):
    with pytest.raises(CheckpointError, match=message) as raised:
        plan(existing, [0, 1, 2], bad)

    assert raised.value.faults[0].code == "E357"


def test_epochs_deleted_by_retention_are_not_missed():
    recovery = plan([0, 2], [0, 1, 2], [2], deleted=frozenset({1}))

    assert recovery.epoch == 0
    assert [damage.epoch for damage in recovery.skipped] == [2]


def test_epochs_of_a_version_that_did_not_record_deletions_may_be_absent_except_the_newest():
    assert plan([0, 2], [0, 1, 2], [2], unrecorded=2).epoch == 0
    with pytest.raises(CheckpointError, match="epoch 2 was saved and is gone"):
        plan([0], [0, 1, 2], unrecorded=2)


def test_the_wanted_epoch_opens_a_new_generation_and_the_later_ones_are_over():
    recovery = plan([0, 1, 2, 3], [0, 1, 2, 3], wanted=1, generation=4, generations={2: 4, 3: 3})

    assert recovery == RecoveryPlan(
        1, 5, superseded=((2, 4), (3, 3)), acknowledge=True, rewind=True
    )


def test_row_26_a_wanted_epoch_that_is_not_there_lists_those_that_are():
    with pytest.raises(CheckpointError, match="epoch 99 is not there") as raised:
        plan([0, 3, 4, 5, 9], [9], wanted=99)

    assert raised.value.faults[0].mend == "there are epochs 0, 3-5, 9"


def test_a_wanted_epoch_that_is_damaged_is_not_replaced_by_another():
    with pytest.raises(CheckpointError, match="epoch 1 cannot be used: checksum"):
        plan([0, 1, 2], [2], bad=[1], wanted=1)


def test_interrupted_rewind_is_completed():
    recovery = plan_recovery(
        (0, 1, 2, 3),
        JournalContents((0, 1), rewound_to=1, generation=1),
        lambda epoch: None,
        lambda epoch: 0,
        0,
    )

    assert recovery == RecoveryPlan(1, 1, superseded=((2, 0), (3, 0)))


def test_epochs_saved_after_a_rewind_count():
    recovery = plan_recovery(
        (0, 1, 2),
        JournalContents((0, 1, 2), rewound_to=1, generation=1),
        lambda epoch: None,
        lambda epoch: 1 if epoch == 2 else 0,
        1,
    )

    assert recovery == RecoveryPlan(2, 1)


def test_damaged_manifest_after_a_rewind_is_damage_and_no_loss():
    recovery = plan_recovery(
        (0, 1, 2),
        JournalContents((0, 1, 2), rewound_to=0, generation=1),
        lambda epoch: Damage(2, "manifest") if epoch == 2 else None,
        lambda epoch: None if epoch == 2 else 1,
        1,
    )

    assert recovery.epoch == 1
    assert recovery.skipped == (Damage(2, "manifest"),)


@pytest.fixture
def store(tmp_path):
    (tmp_path / "checkpoints").mkdir()
    store = DirectoryStore(str(tmp_path / "checkpoints"))
    for epoch in range(4):
        store.commit(store.stage(epoch), Manifest(epoch, "id-1", 0, (), "sha256:" + "0" * 64))
    return store


@pytest.fixture
def journal(tmp_path):
    journal = Journal.open(tmp_path, "id-1")
    for epoch in range(4):
        journal.acknowledge(epoch, 0)
    yield journal
    journal.close()


def test_damaged_epochs_are_reported_and_set_aside(tmp_path, store, journal):
    events = []
    recovery = RecoveryPlan(1, 0, (Damage(3, "bad"), Damage(2, "worse")), rewind=True)

    apply_recovery(recovery, store, journal, tmp_path, events.append)

    assert store.epochs() == (0, 1)
    # Each once.
    assert events == [CheckpointSkipped(3, "bad"), CheckpointSkipped(2, "worse")]
    assert len(list((tmp_path / "superseded" / "damaged").iterdir())) == 2
    assert read_journal(tmp_path, "id-1").epochs == (0, 1)


def test_superseded_epochs_go_by_their_generation_and_never_over_others(tmp_path, store, journal):
    (tmp_path / "superseded" / "g0").mkdir(parents=True)
    recovery = RecoveryPlan(1, 1, superseded=((2, 0), (3, 0)), acknowledge=True, rewind=True)

    apply_recovery(recovery, store, journal, tmp_path, lambda event: None)

    assert store.epochs() == (0, 1)
    assert len(list((tmp_path / "superseded" / "g0-2").iterdir())) == 2
    assert read_journal(tmp_path, "id-1").generation == 1


def test_an_epoch_of_another_run_is_unusable(store):
    assert epoch_inspector(store, "id-1")(3) is None
    assert "another run" in epoch_inspector(store, "id-2")(3).reason


def test_a_damaged_manifest_has_no_generation(store):
    assert generation_reader(store)(2) == 0
    with Path(store.path(2), "manifest.json").open("ab") as file:
        file.write(b"x")

    assert generation_reader(store)(2) is None


def test_row_65_allow_lost_takes_an_older_epoch():
    recovery = plan_recovery(
        (0, 1), JournalContents((0, 1, 2)), lambda epoch: None, lambda epoch: 0, 0, allow_lost=True
    )

    assert recovery == RecoveryPlan(1, rewind=True, lost=(2,))


def test_row_65_nothing_makes_a_run_start_over_by_itself():
    with pytest.raises(CheckpointError, match="epochs 0-2 were saved and are gone"):
        plan_recovery(
            (), JournalContents((0, 1, 2)), lambda epoch: None, lambda epoch: 0, 0, allow_lost=True
        )


def test_row_65_lost_epochs_are_reported_and_the_journal_rewound(tmp_path, store, journal):
    journal.acknowledge(4, 0)
    events = []

    apply_recovery(RecoveryPlan(3, rewind=True, lost=(4,)), store, journal, tmp_path, events.append)

    assert events[0].text.startswith("LOST: epoch 4 was saved and is gone; continuing from epoch 3")
    assert read_journal(tmp_path, "id-1").epochs == (0, 1, 2, 3)


def test_unfinished_artifacts_of_a_killed_process_are_removed(tmp_path, store, journal):
    unfinished = tmp_path / "artifacts" / "tables" / ".rank.npy.0123456789abcdef"
    unfinished.parent.mkdir(parents=True)
    unfinished.touch()

    apply_recovery(RecoveryPlan(2, 0), store, journal, tmp_path, lambda _: None)

    assert not unfinished.exists()
