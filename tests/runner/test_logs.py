"""What a run writes down as it goes."""

from __future__ import annotations

import json
import math

import pytest

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
from jobrun.graph.types import Cluster, Job, Node, Task, TaskGroup
from jobrun.runner import logs
from jobrun.runner.logs import RunLogs, trim_metrics

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
        "loss", 0.5, 3, 2,
    )  # fmt: skip
    assert lines(tmp_path / "events.jsonl")[0]["event"] == "EpochEnded"
    assert (tmp_path / "logs" / "one.log").read_text() == "[3] hello\n"
    run_logs.close()


def test_a_task_on_several_nodes_says_which_and_instances_have_files_of_their_own(tmp_path):
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


def test_a_disk_that_says_no_is_counted_and_fails_nothing(tmp_path):
    (tmp_path / "events.jsonl").mkdir()
    run_logs = RunLogs(tmp_path, JOB)

    run_logs(Noted("a"))

    assert run_logs.failed_writes == 1


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
    kept = (tmp_path / "superseded" / "metrics.jsonl").read_bytes()
    assert kept.count(b"\n") == 2
    assert trim_metrics(tmp_path, 1) == 0


def test_there_may_be_no_metrics(tmp_path):
    assert trim_metrics(tmp_path, 1) == 0


def test_what_a_failed_attempt_measured_is_set_aside(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
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
    told = [line["event"] for line in lines(tmp_path / "events.jsonl")]
    assert told.count("GroupRetried") == 2
    assert run_logs.failed_writes == 0


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

    assert run_logs.failed_writes == 1


def test_what_was_measured_after_the_epoch_that_a_loss_goes_back_to_is_set_aside(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    for epoch in (1, 2, 3):
        run_logs(Measured("loss", float(epoch), epoch))
    run_logs(NodeReplaced("one", 1))
    run_logs(Measured("loss", 9.0, 2))
    run_logs.close()

    assert [line["value"] for line in lines(tmp_path / "metrics.jsonl")] == [1.0, 9.0]
    aside = lines(tmp_path / "superseded" / "metrics.jsonl")
    assert [line["value"] for line in aside] == [2.0, 3.0]
    assert run_logs.failed_writes == 0


def test_a_loss_that_goes_back_into_an_epoch_leaves_what_was_measured_in_it(tmp_path):
    run_logs = RunLogs(tmp_path, JOB)
    run_logs(Measured("loss", 2.0, 2))
    run_logs(NodeReplaced("one", 1, records=5))
    run_logs.close()

    assert [line["value"] for line in lines(tmp_path / "metrics.jsonl")] == [2.0]
