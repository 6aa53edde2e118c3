"""Killed between two records and resumed, a run ends with the bits of an unbroken one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.events import CheckpointWithin
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.saving.mid_epoch_saver import MidEpochSaver
from jobrun.spec.load import load_spec
from tests.support.command import JOBRUN, environment, jobrun
from tests.support.mid_epoch_job import FailingAt, Stand
from tests.support.thinning import thinned

READERS = {
    "rows": "batch: 1",
    "short last batch": "batch: 3, shuffle: true",
    "dropped last batch": "batch: 3, drop_last: true",
    "limit": "batch: 2, limit: 7, shuffle: true",
    "limit, going on": "batch: 2, limit: 9, shuffle: true, restart: never",
    "going on over the end": "batch: 2, limit: 20, restart: never",
}


@pytest.mark.long
@pytest.mark.parametrize("reader", thinned(READERS.values(), 2), ids=READERS)
@pytest.mark.parametrize("at", thinned([3, 1, 5], 3))
def test_a_run_cut_short_at_a_safe_point_ends_with_the_same_bits(tmp_path, monkeypatch, reader, at):
    whole, cut = Stand(tmp_path / "whole", reader), Stand(tmp_path / "cut", reader)
    whole.start()
    with monkeypatch.context() as patch:
        FailingAt(patch, at)
        with pytest.raises(EnvironmentFaultError):
            cut.start()

    cut.resume()

    assert cut.outcome() == whole.outcome()
    assert cut.measured == whole.measured


def test_mid_epoch_save_is_reported_with_epoch_and_records(tmp_path):
    stand = Stand(tmp_path / "s", every="10 records")
    stand.start(max_epochs=1)

    saves = [event for event in stand.events if isinstance(event, CheckpointWithin)]
    assert [(event.epoch, event.records) for event in saves] == [(1, 10)]
    assert saves[0].size_bytes > 0
    assert saves[0].path.endswith("epoch-000001.records-000010")


def test_zipped_readers_both_continue(tmp_path, monkeypatch):
    whole, cut = Stand(tmp_path / "whole"), Stand(tmp_path / "cut")
    for stand in (whole, cut):
        text = stand.spec.read_text()
        old = "train: {npy: data.npy, fields: [x], batch: 3, shuffle: true}"
        assert old in text
        parts = (
            "  a: {npy: data.npy, fields: [x], batch: 3}\n  b: {counter: {stop: 9}, fields: [i]}"
        )
        zipped = text.replace(old, "train: {zip: [a, b]}\n" + parts)
        stand.spec.write_text(zipped.replace("tanh(w[0]", "tanh(i + w[0]"))
    whole.start()
    with monkeypatch.context() as patch:
        FailingAt(patch, 3)
        with pytest.raises(EnvironmentFaultError):
            cut.start()

    cut.resume()

    assert cut.outcome() == whole.outcome()


@pytest.mark.long
@pytest.mark.parametrize("reader", ["batch: 2, shuffle: true", "restart: never, limit: 7"])
def test_ragged_field_continues_in_mid_epoch(tmp_path, monkeypatch, reader):
    whole, cut = Stand(tmp_path / "whole"), Stand(tmp_path / "cut")
    for stand in (whole, cut):
        lengths = np.random.default_rng(1).integers(1, 5, 20)
        values = np.random.default_rng(2).normal(size=(int(lengths.sum()), 4))
        np.savez(stand.folder / "data.npz", v=values, n=lengths)
        text = stand.spec.read_text()
        old = "{npy: data.npy, fields: [x], batch: 3, shuffle: true}"
        assert old in text
        new = f"{{npz: data.npz, fields: {{x: {{values: v, lengths: n}}}}, {reader}}}"
        stand.spec.write_text(text.replace(old, new))
    whole.start()
    with monkeypatch.context() as patch:
        FailingAt(patch, 3)
        with pytest.raises(EnvironmentFaultError):
            cut.start()

    cut.resume()

    assert cut.outcome() == whole.outcome()
    assert cut.measured == whole.measured


@pytest.mark.long
def test_a_kill_at_any_time_loses_nothing(tmp_path):
    whole = Stand(tmp_path / "whole")
    whole.start()
    for number, point in enumerate(
        (
            "checkpoint.renamed:3",
            "checkpoint.committed:4",
            "checkpoint.removal-renamed:2",
            "checkpoint.file-written:5",
            "checkpoint.committed:10",
        )
    ):
        cut = Stand(tmp_path / f"cut-{number}")
        killed = jobrun(
            "run",
            cut.spec,
            "--run-dir",
            cut.folder / "runs",
            env=environment(JOBRUN_CRASHPOINT=point),
        )
        assert killed.returncode == -signal.SIGKILL

        cut.resume()

        assert cut.outcome() == whole.outcome(), point
        # The line that tells of a save is written after it.
        assert cut.measured == whole.measured, point


@pytest.mark.long
def test_a_run_cut_again_and_again_ends_with_the_same_bits(tmp_path, monkeypatch):
    whole, cut = Stand(tmp_path / "whole"), Stand(tmp_path / "cut")
    whole.start()
    for number in range(4):
        with monkeypatch.context() as patch:
            FailingAt(patch, 2)
            with pytest.raises(EnvironmentFaultError):
                cut.resume() if number else cut.start()

    cut.resume()

    assert cut.outcome() == whole.outcome()
    assert cut.measured == whole.measured


@pytest.fixture
def cut(tmp_path, monkeypatch):
    """A run that was cut short after the first four records of its first epoch."""
    stand = Stand(tmp_path / "cut")
    with monkeypatch.context() as patch:
        FailingAt(patch, 2)
        with pytest.raises(EnvironmentFaultError):
            stand.start()
    return stand


def test_the_newest_one_only_is_kept(cut):
    assert cut.names == ["epoch-000000", "epoch-000001.records-000004"]


def test_it_is_promised_in_the_journal(cut):
    assert read_journal(cut.run.path, cut.run.record.run_id).within == (1, 4)


def test_no_mid_epoch_checkpoint_remains_after_whole_saves(cut):
    cut.resume()

    assert not [name for name in cut.names if "records" in name]


def test_missing_acknowledged_epoch_is_reported(cut):
    shutil.rmtree(cut.run.path / "checkpoints" / "epoch-000001.records-000004")

    with pytest.raises(CheckpointError) as caught:
        cut.resume()

    assert caught.value.faults[0].code == "E357"
    assert "after 4 of its records" in caught.value.faults[0].message


@pytest.mark.long
def test_resume_from_a_named_epoch_restarts_the_next_epoch(cut, tmp_path):
    whole = Stand(tmp_path / "whole")
    whole.start()

    cut.resume(epoch=0)

    assert cut.outcome() == whole.outcome()
    assert (cut.run.path / "superseded" / "records-000004-1").is_dir()


@pytest.mark.long
def test_damaged_mid_epoch_checkpoint_is_set_aside_and_the_epoch_restarts(cut, tmp_path):
    whole = Stand(tmp_path / "whole")
    whole.start()
    file = cut.run.path / "checkpoints" / "epoch-000001.records-000004" / "local.h5"
    file.write_bytes(file.read_bytes()[:-1])

    cut.resume()

    assert cut.outcome() == whole.outcome()
    assert any("cannot be used" in getattr(event, "text", "") for event in cut.events)


def test_another_policy_may_take_over(cut):
    cut.spec.write_text(cut.spec.read_text().replace("2 records", "1ep"))
    loaded = load_spec(str(cut.spec))
    assert compile_job(loaded).job.checkpoint.every_records == 0

    cut.resume(loaded)

    assert cut.names == [f"epoch-{epoch:06d}" for epoch in range(4)]
    assert sum('"s"' in line for line in cut.measured) == 3 * 16


@pytest.mark.long
def test_a_request_to_end_ends_the_epoch_at_its_next_safe_point(tmp_path):
    stand, whole = Stand(tmp_path / "a", "batch: 3, delay: 40ms"), Stand(tmp_path / "b", "batch: 3")
    whole.start()
    process = subprocess.Popen(
        [*JOBRUN, "run", str(stand.spec), "--run-dir", str(stand.folder / "runs")],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path,
    )  # fmt: skip
    until = time.monotonic() + 60
    while time.monotonic() < until and not list(stand.folder.glob("runs/*/2*/checkpoints/*.rec*")):
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output = process.communicate(timeout=60)[0].decode()

    assert process.returncode == 75, output
    assert "of its records" in output
    assert any("records" in name for name in stand.names)
    stand.resume()
    assert stand.outcome() == whole.outcome()


def test_failed_mid_epoch_save_is_skipped_with_on_error_warn(tmp_path, monkeypatch):
    stand = Stand(tmp_path / "a", every="2 records, on_error: warn")

    def fail(*_given):
        raise EnvironmentFaultError.of("E313", "the disk is gone", "bring it back")

    monkeypatch.setattr(MidEpochSaver, "_commit", fail)
    stand.start()

    assert any("was not saved after 2 records" in getattr(e, "text", "") for e in stand.events)
