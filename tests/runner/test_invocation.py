"""Kills, signals and full disks, on real runs: each resumed one must equal the unbroken one."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import time

import numpy as np
import pytest

from jobrun.checkpoint.write.reusable_file import open_over_removed
from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import GroupStarted
from jobrun.core.failpoints import POINTS
from jobrun.runner.rundir import run_json as record
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.start_or_resume import start_run
from tests.support.resumable_job import ROOT, WalkJob
from tests.support.thinning import thinned

RETENTION = (
    "stop:",
    "checkpoint: {every: 1ep, keep: {last: 2}, upload: {to: copies, required: true}}\nstop:",
)
# These are met only when a run goes back to an epoch.
GOING_BACK = {point for point in POINTS if "set-aside" in point} | {"runner.rewound"}
RECOVERING = GOING_BACK | {"runner.recovered"}
# Without a run, and without retention's work, there is nothing yet to resume or to remove.
# Only of nodes that write elsewhere.
COLLECTING = {point for point in POINTS if point.startswith("collect.")}
FORWARD = [point for point in POINTS if point not in RECOVERING | COLLECTING]


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory):
    walk = WalkJob(tmp_path_factory.mktemp("unbroken"), RETENTION)
    walk.start()
    return walk


@pytest.fixture
def walk(tmp_path):
    return WalkJob(tmp_path, RETENTION)


@pytest.mark.parametrize("point", thinned(FORWARD, 6))
def test_row_80_run_killed_at_any_point_resumes_to_the_same_result(walk, unbroken, point):
    assert walk.process("auto", crash=point).returncode == -signal.SIGKILL

    assert walk.policy("auto").exit_code == 0

    assert walk.outcome() == unbroken.outcome()


@pytest.mark.long
@pytest.mark.parametrize("occurrence", [2, 4])
@pytest.mark.parametrize("point", FORWARD)
def test_row_80_killed_at_any_later_point_too(walk, unbroken, point, occurrence):
    killed = walk.process("auto", crash=f"{point}:{occurrence}").returncode

    assert killed in {0, -signal.SIGKILL}
    assert walk.policy("auto").exit_code == 0
    assert walk.outcome() == unbroken.outcome()


# Small files are not worth it.
LARGE = (("arange(12.0)", "arange(300000.0)"), ("normal(size=12)", "normal(size=300000)"),
         ("normal(size=3)", "normal(size=300000)"), RETENTION)  # fmt: skip
INTO_USED_FILES = [
    "checkpoint.file-opened", "checkpoint.file-half-written", "checkpoint.file-written",
    "checkpoint.file-synced", "checkpoint.manifest-written", "checkpoint.renamed",
]  # fmt: skip


def test_the_files_that_retention_frees_are_used_again(tmp_path, monkeypatch):
    used = []

    def see(path):
        opened = open_over_removed(path)
        used.append(opened[1])
        return opened

    monkeypatch.setattr("jobrun.checkpoint.write.writer.open_over_removed", see)
    WalkJob(tmp_path, *LARGE).start()

    # Of two nodes, init and four epochs; what epoch 3 frees becomes epoch 4.
    assert used == [False] * 8 + [True] * 2


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    walk = WalkJob(tmp_path_factory.mktemp("large"), *LARGE)
    walk.start()
    return walk.outcome()


@pytest.mark.long
@pytest.mark.parametrize("point", thinned(INTO_USED_FILES, 6))
@pytest.mark.parametrize("node", [0, 1])
def test_row_80_killed_while_it_writes_into_a_used_file_no_epoch_that_is_kept_is_touched(
    tmp_path, large, point, node
):
    walk = WalkJob(tmp_path, *LARGE)
    per_epoch = 2 if "file-" in point else 1
    occurrence = 4 * per_epoch + 1 + (node if per_epoch == 2 else 0)
    killed = walk.process("auto", crash=f"{point}:{occurrence}").returncode

    assert killed == -signal.SIGKILL
    whole = [epoch for epoch in walk.store.epochs() if walk.store.verify(epoch) is None]
    assert set(whole) >= {0, 2, 3}
    assert walk.policy("auto").exit_code == 0
    assert walk.outcome() == large


@pytest.mark.parametrize("point", ["runner.acknowledged:5", "checkpoint.removal-renamed:2"])
def test_row_80_killed_while_it_makes_room_after_the_last_save_the_resume_makes_it(
    walk, unbroken, point
):
    assert walk.process("auto", crash=point).returncode == -signal.SIGKILL

    assert walk.policy("auto").exit_code == 0

    assert walk.outcome() == unbroken.outcome()


@pytest.mark.long
def test_row_80_killed_again_and_again_it_still_ends_the_same(walk, unbroken):
    for point in ("checkpoint.renamed:2", "runner.epoch-ended", "runner.saved", "runner.recovered"):
        assert walk.process("auto", crash=point).returncode == -signal.SIGKILL

    assert walk.policy("auto").exit_code == 0
    assert walk.outcome() == unbroken.outcome()


@pytest.mark.parametrize("point", sorted(RECOVERING))
def test_rewind_interrupted_by_a_kill_is_completed_by_the_next_resume(tmp_path, point):
    whole, walk = WalkJob(tmp_path / "whole"), WalkJob(tmp_path / "part")
    whole.start()
    walk.start()

    killed = walk.process("", "1", crash=point)

    assert killed.returncode == -signal.SIGKILL, killed.stderr
    if walk.run.record.status == "finished":
        # It had not begun to run again, so the word to go back has to be said again.
        assert walk.resume(epoch=1).exit_code == 0
    else:
        assert walk.resume().exit_code == 0
    assert walk.outcome() == whole.outcome()


def test_acknowledged_epoch_exists_after_any_kill(walk):
    """What the process said it had saved is there, whoever else may have crashed since."""
    for count in (1, 2, 1):
        process = walk.process("auto", crash=f"runner.acknowledged:{count}")
        assert process.returncode == -signal.SIGKILL
        promised = read_journal(walk.run.path, walk.run.record.run_id).newest
        assert walk.store.epochs()[-1] == promised
        assert walk.store.verify(promised) is None


# Signals.

SIGNALLING = (
    (
        'steps: ["v = v * 0.5 + rng.normal(size=3)"]',
        """steps:
      - v = v * 0.5 + rng.normal(size=3)
      - if: epoch == 2 and number > 0
        then: [{call: "mine_signals:send", with: {number: number, times: times}}]
      - if: epoch == 2 and stay
        then: [{loop: 1000000000, steps: ["z = 1"]}]""",
    ),
    (
        "nodes: {a: {}, b: {}}",
        """nodes: {a: {}, b: {}}
params:
  number: {type: int, default: 15, drift: safe}
  times: {type: int, default: 1, drift: safe}
  stay: {type: bool, default: false, drift: safe}""",
    ),
)
CALLABLE = """
import os, time
def send(number, times):
    for _ in range(times):
        os.kill(os.getpid(), int(number))
        time.sleep(0.05)
"""


@pytest.fixture
def signalling(tmp_path):
    walk = WalkJob(tmp_path, *SIGNALLING)
    (tmp_path / "mine_signals.py").write_text(CALLABLE)
    return walk


@pytest.fixture(scope="module")
def silent(tmp_path_factory):
    walk = WalkJob(tmp_path_factory.mktemp("silent"), *SIGNALLING)
    (walk.folder / "mine_signals.py").write_text(CALLABLE)
    start(walk, "params.number=0")
    return walk


def start(walk, *overrides, **options):
    loaded, job = walk.load(overrides)
    return start_run(loaded, job, walk.options(**options), walk.events.append)


def go_on(walk):
    return walk.resume(walk.load(["params.number=0", "params.stay=false"])[0])


@pytest.mark.parametrize(
    ("number", "code", "status"),
    [
        (signal.SIGTERM, 75, "stopped"),
        (signal.SIGHUP, 75, "stopped"),
        (signal.SIGUSR1, 75, "stopped"),
        (signal.SIGINT, 130, "interrupted"),
    ],
)
def test_row_82_the_first_signal_lets_the_epoch_end_and_saves_it(
    signalling, silent, number, code, status
):
    result = start(signalling, f"params.number={int(number)}")

    assert (result.exit_code, result.epoch) == (code, 2)
    assert signalling.run.record.status == status
    assert ("exit", 2) not in [
        (e.group, e.epoch) for e in signalling.events if isinstance(e, GroupStarted)
    ]
    assert go_on(signalling).exit_code == 0
    assert signalling.outcome() == silent.outcome()


def test_row_82_second_signal_drops_the_epoch_immediately(signalling, silent):
    result = start(signalling, "params.times=2", "params.stay=true", grace_s=1000)

    assert (result.exit_code, result.epoch) == (75, 1)
    assert "epoch 2 was dropped, epoch 1 is saved" in result.reason
    assert go_on(signalling).exit_code == 0
    assert signalling.outcome() == silent.outcome()


def test_row_82_an_epoch_that_outlasts_the_grace_is_dropped(signalling, silent):
    result = start(signalling, "params.stay=true", grace_s=0.2)

    assert (result.exit_code, result.epoch) == (75, 1)
    assert go_on(signalling).exit_code == 0
    assert signalling.outcome() == silent.outcome()


@pytest.mark.long
def test_a_time_limit_drops_what_outlasts_the_grace(signalling):
    result = start(signalling, "params.number=0", "params.stay=true", grace_s=0.1, time_s=1.0)

    assert result.exit_code == 75
    assert "time limit" in result.reason


def test_row_82_a_signal_from_outside_ends_a_process_in_good_order(signalling):
    signalling.edit(
        *SIGNALLING,
        ("number: {type: int, default: 15", "number: {type: int, default: 0"),
        ("stay: {type: bool, default: false", "stay: {type: bool, default: true"),
    )
    process = subprocess.Popen(signalling.command("auto"), cwd=ROOT)
    while not signalling.runs or 1 not in signalling.store.epochs():
        time.sleep(0.01)
    # Two kinds, since two pending signals of one kind arrive as one.
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGHUP)

    assert process.wait() == 75
    assert signalling.run.record.status == "stopped"
    assert signalling.run.record.epoch == 1


# Disks.


def test_row_43_a_disk_that_is_full_ends_with_7_and_keeps_what_was_saved(
    walk, unbroken, monkeypatch
):
    write = os.write

    def full(descriptor, data):
        # A pipe has no disk.
        regular = stat.S_ISREG(os.fstat(descriptor).st_mode)
        if regular and len(walk.store.epochs() if walk.runs else ()) >= 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(EnvironmentFaultError, match="No space left") as raised:
        walk.start()
    monkeypatch.undo()

    assert raised.value.exit_code == 7
    assert walk.store.epochs() == (0, 1)
    assert walk.policy("auto").exit_code == 0
    assert walk.outcome() == unbroken.outcome()


def test_row_44_a_disk_that_fails_to_sync_loses_nothing_that_was_promised(
    walk, unbroken, monkeypatch
):
    sync = os.fsync

    def fail(descriptor):
        if len(walk.store.epochs() if walk.runs else ()) >= 2:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(EnvironmentFaultError):
        walk.start()
    monkeypatch.undo()

    assert walk.policy("auto").exit_code == 0
    assert walk.outcome() == unbroken.outcome()


def test_failure_to_record_the_end_is_raised(walk, monkeypatch):
    write = record.write_json

    def refuse(path, content, **options):
        if content["status"] == "finished":
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        write(path, content, **options)

    monkeypatch.setattr(record, "write_json", refuse)
    with pytest.raises(EnvironmentFaultError, match=r"write run\.json"):
        walk.start()
    monkeypatch.undo()

    assert walk.run.record.status == "running"
    assert walk.resume().exit_code == 0


def test_a_defect_is_written_down_too(walk, monkeypatch):
    def defect(*arguments):
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr("jobrun.runner.loop.epoch_loop.digest_constants", defect)
    with pytest.raises(ZeroDivisionError):
        walk.start()

    assert (walk.run.record.status, walk.run.record.exit_code) == ("failed", 70)
    assert "a defect" in walk.run.record.reason


def test_checkpoints_in_another_directory_are_kept_by_run_name(tmp_path):
    walk = WalkJob(tmp_path, ("stop:", "checkpoint: {dir: ckpt}\nstop:"))
    walk.start(max_epochs=1)
    walk.policy("never", max_epochs=1)

    names = sorted(path.name for path in (tmp_path / "ckpt" / "walk").iterdir())

    assert names == sorted(run.path.name for run in walk.runs)
    assert walk.resume().exit_code == 0
    assert np.load(walk.run.path / "artifacts" / "w.npy").shape == (12,)


# Saves beside the run.

DYING = (
    (
        'steps: ["v = v * 0.5 + rng.normal(size=3)"]',
        """steps:
      - v = v * 0.5 + rng.normal(size=3)
      - if: epoch == 2 and die
        then: [{call: "mine_dying:die"}]""",
    ),
    (
        'steps: ["v = rng.normal(size=3)"]',
        'steps: ["v = rng.normal(size=3)", {if: die, then: [{call: "mine_dying:slow_down"}]}]',
    ),
    (
        "nodes: {a: {}, b: {}}",
        "nodes: {a: {}, b: {}}\nparams: {die: {default: false, drift: safe}}",
    ),
)
LIBRARY = """
import os
import time

from jobrun.checkpoint.write.writer import NodeWriter


def slow_down():
    write = NodeWriter.write

    def slowly(self, path, **more):
        time.sleep(0.3)
        return write(self, path, **more)

    NodeWriter.write = slowly


def die():
    os.kill(os.getpid(), 9)
"""


@pytest.mark.long
def test_kill_during_a_save_resumes_from_the_acknowledged_epoch(tmp_path):
    whole = WalkJob(tmp_path / "whole", *DYING)
    walk = WalkJob(tmp_path / "part", *DYING, ("default: false", "default: true"))
    for job in (whole, walk):
        (job.folder / "mine_dying.py").write_text(LIBRARY)
    whole.start()

    assert walk.process("auto").returncode == -signal.SIGKILL

    assert read_journal(walk.run.path, walk.run.record.run_id).epochs == (0,)
    walk.edit(*DYING)
    assert walk.policy("auto").exit_code == 0
    assert walk.outcome() == whole.outcome()


@pytest.mark.long
def test_background_and_blocking_saves_give_the_same_bits(tmp_path):
    walks = [
        WalkJob(
            tmp_path / is_asynchronous,
            ("stop:", f"checkpoint: {{async: {is_asynchronous}}}\nstop:"),
        )
        for is_asynchronous in ("true", "false")
    ]
    for walk in walks:
        walk.start()
        for epoch in (1, 3):
            walk.resume(epoch=epoch)

    asynchronous, synchronous = (walk.outcome() for walk in walks)
    assert asynchronous == synchronous


def test_a_failed_epoch_does_not_take_the_one_before_with_it(tmp_path):
    failing = ('steps: ["v = v * 0.5 + rng.normal(size=3)"]', FAILING)
    walk = WalkJob(tmp_path, failing, ("stop:", "checkpoint: {async: true}\nstop:"))

    with pytest.raises(TaskFailedError):
        walk.start()

    assert walk.run.record.epoch == 2
    assert read_journal(walk.run.path, walk.run.record.run_id).epochs == (0, 1, 2)


FAILING = 'steps: ["v = v * 0.5 + rng.normal(size=3)", {assert: "epoch < 3"}]'


def test_the_last_of_max_epochs_is_durable_when_the_invocation_ends(tmp_path):
    walk = WalkJob(tmp_path, ("stop:", "checkpoint: {async: true}\nstop:"))

    result = walk.start(max_epochs=2)

    assert (result.exit_code, result.epoch) == (75, 2)
    assert walk.store.epochs() == (0, 1, 2)
