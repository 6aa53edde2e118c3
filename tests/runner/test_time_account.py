"""Where the time of a run goes: rows that add up, waits of tasks, records, advice."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from jobrun.core.events import (
    EpochEnded,
    GroupEnded,
    ProcessMeasured,
    TaskEnded,
    TaskWaited,
    UsageMeasured,
)
from jobrun.core.resource_usage import ProcessUse
from jobrun.core.time_use import TimeUse
from jobrun.graph.checkpoint_policy import CheckpointPolicy, UploadPolicy
from jobrun.graph.readers import CounterSource, Reader, ReadRecords
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from jobrun.runner.time_account import TimeAccount, UsageRecorder, advise


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def job(**changes):
    job_ = Job("j", Cluster((Node("a"),)), TaskGroup("init"), TaskGroup("epoch"))
    return replace(job_, **changes)


def ran(account, clock, seconds, *events):
    """Run a group of the events of its tasks, each ending at its seconds."""
    account.begin_group()
    start = clock.now
    for event in events:
        if isinstance(event, TaskEnded):
            clock.now = start + event.seconds
        account.see(event)
    clock.now = start + seconds
    account.end_group(seconds)


def ended(task, node, seconds):
    return TaskEnded(task, node, 1, seconds, failed=False)


def test_each_row_has_the_time_until_the_next_switch_and_they_add_up(clock):
    account = TimeAccount(clock.now - 2, clock)
    clock.now += 1
    assert account.switch("computing") == "startup"
    clock.now += 10
    before = account.switch("saves")
    clock.now += 4
    account.switch(before)
    clock.now += 1

    assert account.times() == TimeUse(computing=11, saves=4, startup=3)
    assert account.times().total_s == 18


def test_a_task_that_waits_for_its_reader_does_not_compute(clock):
    account = TimeAccount(clock.now, clock)
    account.switch("computing")

    ran(account, clock, 10, TaskWaited("t", "a", 1, data_s=4), ended("t", "a", 10))

    assert account.times() == TimeUse(computing=6, data=4)


def test_a_task_that_waits_for_another_of_its_node_does_not_count(clock):
    # One reads all the time, and the other waits for its records nearly all the time.
    account = TimeAccount(clock.now, clock)
    account.switch("computing")

    ran(
        account,
        clock,
        10,
        TaskWaited("read", "a", 1, data_s=9),
        ended("read", "a", 10),
        TaskWaited("use", "a", 1, queue_s=8),
        ended("use", "a", 10),
    )

    assert account.times().data == pytest.approx(10 * 9 / 12)


def test_instances_count_as_often_as_there_are_threads(clock):
    account = TimeAccount(clock.now, clock)
    account.switch("computing")

    ran(account, clock, 10, TaskWaited("t", "a", 4, data_s=20), ended("t", "a", 10))

    assert account.times() == TimeUse(computing=5, data=5)


def test_a_node_without_a_task_waits_for_the_others(clock):
    account = TimeAccount(clock.now, clock)
    account.switch("computing")

    ran(account, clock, 10, ended("t", "b", 2), ended("t", "a", 10))

    assert account.times() == TimeUse(computing=6, nodes=4)


def test_a_pull_waits_for_nodes(clock):
    account = TimeAccount(clock.now, clock)
    account.switch("computing")

    ran(
        account,
        clock,
        10,
        TaskWaited("t", "a", 1, nodes_s=5),
        ended("t", "a", 10),
        ended("t", "b", 10),
    )

    assert account.times() == TimeUse(computing=7.5, nodes=2.5)


def test_waits_of_a_rebuild_are_start_up(clock):
    account = TimeAccount(clock.now, clock)

    ran(account, clock, 10, TaskWaited("t", "a", 1, data_s=4), ended("t", "a", 10))

    assert account.times() == TimeUse(startup=10)


def test_waits_of_an_attempt_that_failed_do_not_count(clock):
    account = TimeAccount(clock.now, clock)
    account.switch("computing")
    account.begin_group()
    account.see(TaskWaited("t", "a", 1, data_s=4))

    ran(account, clock, 5, ended("t", "a", 5))

    assert account.times().data == 0


def test_a_record_is_made_after_init_and_at_the_end_and_starts_add_up():
    events = []
    recorder = UsageRecorder(events.append, TimeAccount(), None, job())
    recorder.listen(GroupEnded("init", 0, 1.0))
    recorder.close()
    again = UsageRecorder(events.append, TimeAccount(), events[-1], job())
    again.close()

    records = [event for event in events if isinstance(event, UsageMeasured)]
    assert [(event.epoch, event.starts) for event in records] == [(0, 1), (0, 1), (-1, 2)]
    assert records[2].before == records[1].times
    assert records[0].processes[0].peak_bytes > 0


def test_epochs_too_short_for_a_record_each_share_one():
    events = []
    recorder = UsageRecorder(events.append, TimeAccount(), None, job())
    for epoch in range(1, 200):
        recorder.listen(EpochEnded(epoch, 0.0, (), ()))
    recorder.close()

    records = [event.epoch for event in events if isinstance(event, UsageMeasured)]
    assert len(records) < 100
    assert (records[0], records[-1]) == (1, 199)


def test_usage_has_the_last_report_of_nodes_and_growth_immediately():
    events = []
    recorder = UsageRecorder(events.append, TimeAccount(), None, job())
    recorder.listen(EpochEnded(1, 0.0, (), ()))
    recorder.listen(ProcessMeasured(ProcessUse("a", 1)))
    recorder.listen(ProcessMeasured(ProcessUse("a", 2), grown=True))
    recorder.close()

    inside = [event for event in events if isinstance(event, UsageMeasured) and event.within]
    assert [(event.epoch, event.processes[1]) for event in inside] == [(1, ProcessUse("a", 2))]
    assert not [event for event in events if isinstance(event, ProcessMeasured)]


EACH = CheckpointPolicy(every_epochs=1)
SENT = CheckpointPolicy(upload=UploadPolicy(to="", when="committed", required=True))
READING = TaskGroup(
    "epoch",
    (Task("t", "a", (), read=ReadRecords(Reader("train", CounterSource(0, 9, 1), batch=8))),),
)


@pytest.mark.parametrize(
    ("times", "changes", "mend"),
    [
        (TimeUse(computing=5, saves=5), {"checkpoint": EACH}, "checkpoint: {every: auto}"),
        (TimeUse(computing=800, saves=200), {}, "checkpoint: {every: 1h}"),
        (TimeUse(computing=5, data=5), {"epoch": READING}, "readers: {train: {batch: 32}}"),
        (TimeUse(computing=5, nodes=5), {}, "divide the work more evenly"),
        (TimeUse(computing=5, upload=5), {"checkpoint": SENT}, "{upload: {when: end}}"),
        (TimeUse(computing=5, upload=5), {}, "{compression: deflate}"),
    ],
)
def test_more_than_a_tenth_lost_is_answered_by_a_line_to_write(times, changes, mend):
    assert mend in advise(times, job(**changes))


@pytest.mark.parametrize(
    "times", [TimeUse(computing=91, saves=9), TimeUse(saves=1.9), TimeUse(startup=60)]
)
def test_a_small_loss_gets_no_advice(times):
    assert advise(times, job(checkpoint=EACH)) == ""
