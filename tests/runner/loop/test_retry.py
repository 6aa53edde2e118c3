"""A failed group run is tried again from the same bits: over functions, and on real runs."""

from __future__ import annotations

import os
import signal
import subprocess
import time

import pytest
from msgspec.structs import replace

from jobrun.core.errors import EnvironmentFaultError, TaskFailedError
from jobrun.core.events import GroupRetried, Noted, TaskEnded
from jobrun.graph.conditions import StopAfterEpochs
from jobrun.graph.types import Cluster, Job, Node, RemoteNet, Retry, Task, TaskGroup
from jobrun.runner.loop.epoch_loop import JobRunner, RunLimits, run_with_retries
from jobrun.runner.saving.saver import NoSaver
from jobrun.runner.start_or_resume import start_run
from jobrun.runner.stop_requests import StopRequests
from jobrun.session.base import GroupCancelledError, TasksStuckError
from tests.support.resumable_job import ROOT, WalkJob
from tests.support.scripted_session import ScriptedSession

PLAIN = Task("plain", "n", ())
PATIENT = Task("patient", "n", (), retry=Retry(2))
LAZY = Task("lazy", "n", (), retry=Retry(1, backoff_s=0.01))


def failure(*tasks, kind=TaskFailedError):
    error = kind.of("E200", "it broke", path="epoch/patient/steps[0]")
    error.tasks = tasks
    return error


class Bench:
    """A session that fails with the given errors, one after the other, then ends well."""

    def __init__(self, *errors):
        self.errors = list(errors)
        self.session = ScriptedSession({"epoch": self._epoch})
        self.session.blobs["x"] = 1
        self.events = []
        self.started_with = []

    def _epoch(self, blobs, epoch):
        self.started_with.append(blobs["x"])
        blobs["x"] = "spoiled"
        blobs["new"] = 1
        if self.errors:
            raise self.errors.pop(0)
        return {"made": epoch}

    def run(self, *tasks, ask=False):
        group = TaskGroup("epoch", tasks)
        with StopRequests(self.session.request_stop, grace_s=1000) as requests:
            if ask:
                requests.ask("a test")
            return run_with_retries(self.session, group, 3, {}, requests, self.events.append)

    @property
    def warnings(self):
        return [event.text for event in self.events if isinstance(event, Noted)]


def test_no_snapshot_is_taken_without_retry():
    bench = Bench()

    assert bench.run(PLAIN) == {"made": 3}
    assert bench.session.calls == ["epoch 3"]


def test_a_retry_starts_with_the_bits_of_the_first_attempt():
    bench = Bench(failure("patient"), failure("patient"))

    assert bench.run(PATIENT, PLAIN) == {"made": 3}

    assert bench.started_with == [1, 1, 1]
    assert bench.session.calls == [
        "snapshot",
        "epoch 3",
        "restore",
        "epoch 3",
        "restore",
        "epoch 3",
    ]


def test_each_retry_is_reported_with_its_reason():
    bench = Bench(failure("patient"), failure("lazy"))

    bench.run(PATIENT, LAZY)

    why = "epoch/patient/steps[0]: it broke"
    assert bench.warnings == [
        f"attempt 1 of group 'epoch' failed: {why}; it runs again now, from where it started",
        f"attempt 2 of group 'epoch' failed: {why}; it runs again in 0.01 s, from where it started",
    ]
    assert all(event.level == "warning" for event in bench.events if isinstance(event, Noted))
    retried = [event for event in bench.events if isinstance(event, GroupRetried)]
    assert retried == [GroupRetried("epoch", 3, 1), GroupRetried("epoch", 3, 2)]


def test_last_failure_is_raised_when_no_retry_is_left():
    errors = [failure("patient") for _ in range(3)]
    bench = Bench(*errors)

    with pytest.raises(TaskFailedError) as caught:
        bench.run(PATIENT)

    assert caught.value is errors[2]
    assert len(bench.warnings) == 3
    assert bench.warnings[2].endswith("it broke; no retry is left")


def test_each_task_counts_its_own_failures():
    bench = Bench(failure("lazy"), failure("patient"), failure("patient"))

    assert bench.run(PATIENT, LAZY) == {"made": 3}


def test_task_without_retries_left_fails_the_group():
    bench = Bench(failure("lazy"), failure("lazy", "patient"))

    with pytest.raises(TaskFailedError):
        bench.run(PATIENT, LAZY)


def test_two_simultaneous_failures_wait_the_longer_backoff():
    bench = Bench(failure("lazy", "patient"))

    bench.run(PATIENT, LAZY)

    assert "again in 0.01 s" in bench.warnings[0]


@pytest.mark.parametrize(
    "error",
    [
        failure(),
        failure("plain"),
        TasksStuckError.of("E215", "stuck"),
        GroupCancelledError("epoch"),
        ValueError("a defect"),
    ],
)
def test_failures_of_other_tasks_are_not_retried(error):
    bench = Bench(error)

    with pytest.raises(type(error)) as caught:
        bench.run(PATIENT, PLAIN)

    assert caught.value is error
    assert bench.warnings == []


def test_a_stuck_task_is_never_tried_again_whatever_it_declares():
    stuck = failure("patient", kind=TasksStuckError)

    with pytest.raises(TasksStuckError):
        Bench(stuck).run(PATIENT)


def test_a_program_that_did_not_start_counts_as_a_failure_of_its_task():
    assert Bench(failure("patient", kind=EnvironmentFaultError)).run(PATIENT) == {"made": 3}


def test_a_request_to_end_is_obeyed_instead_of_a_retry():
    bench = Bench(failure("patient"))

    with pytest.raises(GroupCancelledError) as caught:
        bench.run(PATIENT, ask=True)

    assert isinstance(caught.value.__cause__, TaskFailedError)
    assert bench.session.calls == ["snapshot", "epoch 3"]


def test_retries_are_counted_per_run_of_the_group():
    bench = Bench(failure("lazy"))
    bench.run(LAZY)
    bench.session.blobs["x"] = 2
    bench.errors.append(failure("lazy"))

    assert bench.run(LAZY) == {"made": 3}
    assert bench.started_with == [1, 1, 2, 2]


# In the loop of a job.


def job(**changes):
    groups = {
        name: TaskGroup(name, (replace(PATIENT, name=name),))
        for name in ("init", "epoch", "download", "exit")
    }
    return Job(
        "j",
        Cluster((Node("n"),)),
        state=(("n", ("x",)),),
        stop=(StopAfterEpochs(1),),
        **groups | changes,
    )


def run_job(compiled, session):
    with StopRequests(session.request_stop, grace_s=1000) as requests:
        runner = JobRunner(compiled, session, NoSaver(), requests, lambda event: None, RunLimits())
        return runner.run()


@pytest.mark.parametrize("name", ["init", "epoch", "download", "exit"])
def test_every_group_is_tried_again_from_what_it_started_with(name):
    seen = []

    def act(group):
        def run(blobs, epoch):
            if group == name:
                seen.append(dict(blobs))
                blobs["half"] = 1
                if len(seen) == 1:
                    raise failure(name)
            blobs.pop("half", None)
            blobs["x"] = blobs.get("x", 0) + 1

        return run

    groups = ("init", "epoch", "download", "exit")
    session = ScriptedSession({group: act(group) for group in groups})

    run_job(job(), session)

    assert len(seen) == 2
    assert seen[0] == seen[1] == ({} if name == "init" else {"x": groups.index(name)})
    assert session.blobs == {"x": 4}


def test_a_group_of_remote_nets_alone_is_handed_to_the_session():
    download = TaskGroup("download", remote=(RemoteNet("f", "n", ()),))
    session = ScriptedSession({"init": lambda blobs, epoch: blobs.update(x=1)})

    run_job(job(download=download), session)

    assert "download 1" in session.calls


# On real runs.

FLAKY = (
    ("  - task: step\n    node: a\n", "  - task: step\n    node: a\n    retry: {max: 2}\n"),
    (
        "      - k = k + 1\n",
        """      - k = k + 1
      - {metric: {size: k}}
      - {call: "mine_retries:trouble", with: {epoch: epoch, left: left}}
""",
    ),
    ("nodes: {a: {}, b: {}}", "nodes: {a: {}, b: {}}\nparams:\n  left: {type: int, default: 0}"),
)
TROUBLE = """
import pathlib, time
def trouble(epoch, left):
    count = pathlib.Path(__file__).with_name(f"count-{epoch}")
    seen = int(count.read_text()) if count.exists() else 0
    count.write_text(str(seen + 1))
    if seen < left and epoch in (1, 3):
        raise OSError(f"no luck in epoch {epoch}, time {seen + 1}")
"""


def flaky(folder, *edits):
    walk = WalkJob(folder, *FLAKY, *edits)
    (folder / "mine_retries.py").write_text(TROUBLE)
    return walk


def start(walk, failures):
    loaded, compiled = walk.load((f"params.left={failures}",))
    return start_run(loaded, compiled, walk.options(), walk.events.append)


def test_a_run_with_retries_has_the_bits_of_an_undisturbed_one(tmp_path):
    calm, rough = flaky(tmp_path / "calm"), flaky(tmp_path / "rough")

    assert start(calm, 0).exit_code == start(rough, 2).exit_code == 0

    assert rough.outcome() == calm.outcome()
    texts = [e.text for e in rough.events if isinstance(e, Noted) and "attempt" in e.text]
    assert [text.partition(" of ")[0] for text in texts] == ["attempt 1", "attempt 2"] * 2
    assert "no luck in epoch 1, time 1" in texts[0]
    failed = [e for e in rough.events if isinstance(e, TaskEnded) and e.failed]
    assert {e.epoch for e in failed} == {1, 3}


def test_when_retries_are_spent_the_run_fails_and_can_be_resumed(tmp_path):
    calm, rough = flaky(tmp_path / "calm"), flaky(tmp_path / "rough")
    start(calm, 0)

    with pytest.raises(TaskFailedError, match="no luck in epoch 1, time 3"):
        start(rough, 3)

    texts = [e.text for e in rough.events if isinstance(e, Noted) and "attempt" in e.text]
    assert len(texts) == 3
    assert texts[2].endswith("no retry is left")
    assert rough.store.epochs() == (0,)
    # Epoch 1 has had its failures; those of epoch 3 cost one retry each.
    (rough.folder / "count-3").write_text("2")
    assert rough.resume().exit_code == 0
    assert rough.outcome() == calm.outcome()


@pytest.mark.long
def test_a_signal_ends_the_wait_for_a_retry(tmp_path):
    walk = flaky(
        tmp_path / "waiting", ("{max: 2}", "{max: 2, backoff: 1h}"), ("default: 0", "default: 1")
    )
    process = subprocess.Popen(
        walk.command("auto"), cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    events = tmp_path / "waiting/runs"
    while not any(
        "again in 3600 s" in path.read_text() for path in events.glob("*/*/events.jsonl")
    ):
        assert process.poll() is None
        time.sleep(0.02)

    os.kill(process.pid, signal.SIGTERM)
    output = process.communicate(timeout=60)

    assert process.returncode == 75, output
    assert walk.store.epochs() == (0,)
    assert "epoch 1 was dropped" in walk.run.record.reason


@pytest.mark.long
def test_a_task_that_takes_too_long_is_tried_again(tmp_path):
    limited = ("max: 2}", "max: 1}\n    timeout: 1s")
    calm, slow = flaky(tmp_path / "calm"), flaky(tmp_path / "slow", limited)
    (slow.folder / "mine_retries.py").write_text(
        TROUBLE.replace(
            'raise OSError(f"no luck in epoch {epoch}, time {seen + 1}")', "time.sleep(1.2)"
        )
    )
    start(calm, 0)

    assert start(slow, 1).exit_code == 0

    assert slow.outcome() == calm.outcome()
    texts = [e.text for e in slow.events if isinstance(e, Noted) and "attempt 1" in e.text]
    assert len(texts) >= 2
    assert "limit of 1 s (task step, node a, epoch 1); it was in epoch/step/steps[3]" in texts[0]


@pytest.mark.long
def test_without_a_retry_it_drops_the_epoch_and_a_longer_limit_is_no_drift(tmp_path):
    limited = ("    node: a\n    retry: {max: 2}\n", "    node: a\n    timeout: 1s\n")
    walk = flaky(tmp_path / "slow", limited)
    (walk.folder / "mine_retries.py").write_text(
        "import time\ndef trouble(epoch, left):\n    time.sleep(1.2 if epoch == 2 else 0)\n"
    )

    with pytest.raises(TaskFailedError) as caught:
        walk.start()

    assert [fault.code for fault in caught.value.faults] == ["E220"]
    assert caught.value.exit_code == 1
    assert walk.store.epochs()[-1] == 1
    walk.edit(*FLAKY, limited, ("timeout: 1s", "timeout: 1h"))
    assert walk.resume(walk.load()[0]).exit_code == 0
    assert walk.run.record.status == "finished"


def test_warned_failure_does_not_change_the_result(tmp_path):
    walk = flaky(
        tmp_path / "told",
        (
            "exit:\n",
            "exit:\n  - {task: mail, node: b, on_error: warn, steps: [{run: [no-mail]}]}\n",
        ),
    )

    assert walk.start().exit_code == 0

    texts = [e.text for e in walk.events if isinstance(e, Noted)]
    assert any("task 'mail' failed on node b" in text and "no-mail" in text for text in texts)
    assert "best.npy" in walk.artifacts()
