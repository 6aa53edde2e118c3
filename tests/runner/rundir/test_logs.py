"""What a run writes down as it goes."""

from __future__ import annotations

import errno
import json
import math
import os

import pytest
from msgspec.structs import replace

from jobrun.core.events import (
    EpochEnded,
    GroupRetried,
    GroupStarted,
    Logged,
    Measured,
    NodeReplaced,
    Noted,
    TaskLimited,
)
from jobrun.core.files import json_files
from jobrun.graph.types import Cluster, Job, Node, Retry, Task, TaskGroup
from jobrun.runner.rundir import logs
from jobrun.runner.rundir.logs import LostLines, RunLogs, read_losses, trim_metrics
from jobrun.tools.report.run_history import read_history
from jobrun.tools.runs.metrics import read_last_epoch, read_last_metrics, read_metrics

JOB = Job(
    "j",
    Cluster((Node("a"), Node("b"))),
    TaskGroup("init", (Task("one", "a", ()),)),
    TaskGroup(
        "epoch",
        (Task("both", "a", ()), Task("both", "b", ()), Task("many", "a", (), instances=2)),
    ),
    TaskGroup("download"),
    TaskGroup("exit"),
)

RETRIED_JOB = replace(JOB, epoch=TaskGroup("epoch", (Task("one", "a", (), retry=Retry(2)),)))


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_when_a_limited_task_begins_nothing_is_written(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    run_logs(TaskLimited("one", "a", 3, "epoch/one", "", 0, 0, 5.0, 30.0, 1))
    run_logs.close()

    assert list(tmp_path.iterdir()) == []


def test_each_kind_of_event_has_its_file(tmp_path):
    run_logs = RunLogs(tmp_path, JOB, generation=2)

    run_logs(Measured("loss", 0.5, 3))
    run_logs(EpochEnded(3, 1.0, (("loss", 0.5),), ()))
    run_logs(Logged("hello", "one", "a", 0, 3, "epoch/one/steps[0]"))

    [metric] = lines(tmp_path / "metrics.jsonl")
    assert (metric["name"], metric["value"], metric["epoch"], metric["generation"]) == (
        "loss",
        0.5,
        3,
        2,
    )
    assert lines(tmp_path / "events.jsonl")[0]["event"] == "EpochEnded"
    assert (tmp_path / "logs" / "one.log").read_text() == "[3] hello\n"
    run_logs.close()


def test_log_lines_name_the_node_and_instances_have_their_own_files(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)

    run_logs(Logged("hello", "both", "b", 0, 1, ""))
    run_logs(Logged("hello", "many", "a", 1, 1, ""))
    run_logs.close()

    assert (tmp_path / "logs" / "both.log").read_text() == "[1 b] hello\n"
    assert (tmp_path / "logs" / "many.1.log").exists()


def test_lines_are_json_whatever_is_measured_and_printed(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)

    run_logs(Measured("loss", math.nan, 1))
    run_logs(Logged("\udcff\x00", "one", "a", 0, 1, ""))
    run_logs.close()

    assert lines(tmp_path / "metrics.jsonl")[0]["value"] == "nan"
    assert "\\udcff" in (tmp_path / "logs" / "one.log").read_text()


def test_write_errors_of_logs_are_counted_and_ignored(tmp_path):
    (tmp_path / "events.jsonl").mkdir()
    run_logs = RunLogs(tmp_path, JOB)

    run_logs(Noted("a"))

    run_logs.close()

    assert [losses.lines for losses in read_losses(tmp_path).values()] == [1]


def test_events_after_the_end_are_dropped(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    run_logs.close()
    run_logs.close()

    run_logs(Noted("late"))

    assert not (tmp_path / "events.jsonl").exists()


def test_row_72_a_talkative_task_does_not_fill_the_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_LIMIT_BYTES", 100)
    run_logs = RunLogs(tmp_path, JOB)

    for _ in range(100):
        run_logs(Logged("x" * 20, "one", "a", 0, 1, ""))
    run_logs.close()

    text = (tmp_path / "logs" / "one.log").read_text()
    assert len(text) < 200
    assert "full" in text


@pytest.mark.parametrize("tail", [b"", b'{"epoch": 1, "na'])
def test_metrics_of_lost_epochs_are_moved_not_doubled(tmp_path, tail):
    run_logs = RunLogs(tmp_path, JOB)
    for epoch in (1, 2, 3):
        run_logs(Measured("loss", 0.5, epoch))
    run_logs.close()
    with (tmp_path / "metrics.jsonl").open("ab") as file:
        file.write(tail)

    moved = trim_metrics(tmp_path, 1)

    assert moved == 2 + bool(tail)
    assert [line["epoch"] for line in lines(tmp_path / "metrics.jsonl")] == [1]
    superseded = (tmp_path / "superseded" / "metrics.jsonl").read_bytes()
    assert superseded.count(b"\n") == 2
    assert trim_metrics(tmp_path, 1) == 0


def test_trim_metrics_accepts_a_missing_file(tmp_path):
    assert trim_metrics(tmp_path, 1) == 0


def test_metrics_of_a_failed_attempt_are_set_aside(tmp_path):
    run_logs = RunLogs(tmp_path, RETRIED_JOB)
    run_logs(GroupStarted("epoch", 1, ()))
    run_logs(Measured("loss", 1.0, 1))
    run_logs(GroupStarted("epoch", 2, ()))
    for value in (2.0, 3.0):
        run_logs(Measured("loss", value, 2, "one"))
        run_logs(Measured("more", value, 2, "one"))
        run_logs(GroupRetried("epoch", 2, 1))
    run_logs(Measured("loss", 4.0, 2, "one"))
    run_logs.close()

    assert [line["value"] for line in lines(tmp_path / "metrics.jsonl")] == [1.0, 4.0]
    aside = lines(tmp_path / "superseded" / "metrics.jsonl")
    assert [line["value"] for line in aside] == [2.0, 2.0, 3.0, 3.0]
    events = [line["event"] for line in lines(tmp_path / "events.jsonl")]
    assert events.count("GroupRetried") == 2
    assert read_losses(tmp_path) == {}


def test_an_attempt_that_measured_nothing_leaves_nothing(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    run_logs(GroupStarted("epoch", 1, ()))
    run_logs(GroupRetried("epoch", 1, 1))
    run_logs.close()

    assert not (tmp_path / "superseded").exists()


def test_metrics_that_cannot_be_set_aside_are_counted(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    run_logs(GroupStarted("epoch", 1, ()))
    run_logs(Measured("loss", 1.0, 1))
    (tmp_path / "superseded").write_text("in the way")

    run_logs(GroupRetried("epoch", 1, 1))
    run_logs.close()

    assert list(read_losses(tmp_path)) == ["metrics.jsonl"]


def test_metrics_after_the_restart_epoch_are_set_aside(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    for epoch in (1, 2, 3):
        run_logs(Measured("loss", float(epoch), epoch))
    run_logs(NodeReplaced("one", 1))
    run_logs(Measured("loss", 9.0, 2))
    run_logs.close()

    assert [line["value"] for line in lines(tmp_path / "metrics.jsonl")] == [1.0, 9.0]
    aside = lines(tmp_path / "superseded" / "metrics.jsonl")
    assert [line["value"] for line in aside] == [2.0, 3.0]
    assert read_losses(tmp_path) == {}


def test_a_loss_that_goes_back_into_an_epoch_leaves_what_was_measured_in_it(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    run_logs(Measured("loss", 2.0, 2))
    run_logs(NodeReplaced("one", 1, records=5))
    run_logs.close()

    assert [line["value"] for line in lines(tmp_path / "metrics.jsonl")] == [2.0]


@pytest.mark.long
def test_metrics_and_events_have_no_size_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(logs, "LOG_LIMIT_BYTES", 100)
    run_logs = RunLogs(tmp_path, JOB)
    for epoch in range(1, 501):
        run_logs(Measured("loss", epoch / 2, epoch))
        run_logs(EpochEnded(epoch, 0.1, (("loss", epoch / 2),), ()))
        run_logs(Logged("hello", "one", "a", 0, epoch, ""))
    run_logs.close()

    metrics = read_metrics(tmp_path)
    assert [epoch for epoch, _ in metrics.rows] == list(range(1, 501))
    assert metrics.damaged == 0
    assert read_last_metrics(tmp_path) == {"loss": 250.0}
    assert read_last_epoch(tmp_path) == (500, {"loss": 250.0})
    assert len(read_history(tmp_path, live=False).epochs) == 500
    lost = read_losses(tmp_path)
    assert list(lost) == ["logs/one.log"]
    assert "full" in lost["logs/one.log"].why


def test_lost_line_is_reported_once_and_added_to_earlier_losses(tmp_path, monkeypatch):
    for _ in range(2):
        run_logs = RunLogs(tmp_path, JOB)
        run_logs(Measured("loss", 1.0, 1))
        with monkeypatch.context() as patch:
            patch.setattr(json_files, "write_all", _full)
            for _ in range(3):
                run_logs(Measured("loss", 2.0, 2))
        assert run_logs.take_losses() == [
            "lines of metrics.jsonl are lost from now on: No space left on device"
        ]
        assert run_logs.take_losses() == []
        run_logs(Measured("loss", 3.0, 3))
        run_logs.close()

    # The half of a line that fitted does not spoil the next one.
    assert [epoch for epoch, _ in read_metrics(tmp_path).rows] == [1, 3]
    assert read_losses(tmp_path) == {"metrics.jsonl": LostLines(6, "No space left on device")}


def _full(descriptor, data):
    os.write(descriptor, data[:10])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_line_after_a_torn_line_is_whole(tmp_path):
    (tmp_path / "events.jsonl").write_text('{"event": "EpochEn')
    run_logs = RunLogs(tmp_path, JOB)
    run_logs(EpochEnded(7, 0.1, (), ()))
    run_logs.close()

    assert read_last_epoch(tmp_path) == (7, {})
