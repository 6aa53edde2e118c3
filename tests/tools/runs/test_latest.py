from __future__ import annotations

import json

from jobrun.tools.runs.latest import last_epoch, last_metrics


def write(path, *entries, tail=""):
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries) + tail)


def test_the_last_value_of_each_metric_of_the_job_counts(tmp_path):
    write(
        tmp_path / "metrics.jsonl",
        {"name": "x", "value": 1.0, "epoch": 1, "task": ""},
        {"name": "x", "value": 5.0, "epoch": 1, "task": "step"},
        {"event": "CheckpointTimes", "epoch": 1},
        {"name": "y", "value": "nan", "epoch": 1, "task": ""},
        {"name": "x", "value": 2.0, "epoch": 2, "task": ""},
        tail='{"name": "x", "val',
    )

    found = last_metrics(tmp_path)

    assert found["x"] == 2.0
    assert found["y"] != found["y"]


def test_the_newest_epoch_is_found_in_the_tail_of_a_long_file(tmp_path):
    filler = [{"event": "TaskEnded", "text": "x" * 200} for _ in range(1000)]
    ended = {"event": "EpochEnded", "epoch": 7, "metrics": [["x", 1.5]]}
    write(tmp_path / "events.jsonl", *filler, ended, *filler[:5])

    assert last_epoch(tmp_path) == (7, {"x": 1.5})


def test_files_that_are_not_there_say_nothing(tmp_path):
    assert last_metrics(tmp_path) == {}
    assert last_epoch(tmp_path) == (-1, {})
