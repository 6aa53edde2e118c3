from __future__ import annotations

import math

import pytest

from jobrun.core.errors import UsageError
from jobrun.core.events import CheckpointTimes, EpochEnded, Measured, TaskEnded
from jobrun.runner.rundir import logs
from jobrun.runner.rundir.logs import metric_name, parse_event, read_values
from jobrun.tools.runs.metrics import (
    Metrics,
    read_last_epoch,
    read_last_metrics,
    read_metrics,
    render_csv,
    select_metrics,
)
from tests.support.sample_events import written


def entry(name, value, epoch, **more):
    return written(Measured(name, value, epoch, **more))


@pytest.fixture
def run(tmp_path):
    lines = [
        entry("loss", 0.5, 1),
        entry("size", 3, 1, task="grow", instance=2),
        entry("loss", math.nan, 2),
        entry("loss", 0.1, 3),
        entry("loss", 0.25, 3),
        entry("word", "good", 3),
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(lines) + '{"name": "lo')
    return tmp_path


def test_the_table_has_a_row_per_epoch_and_the_last_value_of_each(run):
    metrics = read_metrics(run)

    assert metrics.names == ("loss", "grow.2.size", "word")
    assert [epoch for epoch, _ in metrics.rows] == [1, 2, 3]
    assert metrics.rows[0][1] == (0.5, 3, None)
    assert math.isnan(metrics.rows[1][1][0])
    assert metrics.rows[2][1] == (0.25, None, "good")


def test_a_column_holds_the_finite_numbers(run):
    assert read_metrics(run).column("loss") == [(1, 0.5), (3, 0.25)]
    assert read_metrics(run).column("word") == []


def test_without_a_file_nothing_was_measured(tmp_path):
    assert read_metrics(tmp_path) == Metrics((), ())


def test_metrics_are_chosen_by_name_in_the_order_asked_for(run):
    chosen = select_metrics(read_metrics(run), ["word", "loss"])

    assert chosen.names == ("word", "loss")
    assert chosen.rows[2] == (3, ("good", 0.25))


def test_a_misspelt_metric_is_an_error_that_knows_the_right_one(run):
    with pytest.raises(UsageError, match=r"E424.*did you mean 'loss'"):
        select_metrics(read_metrics(run), ["los"])


def test_csv_keeps_every_digit(run):
    assert render_csv(read_metrics(run)).splitlines() == [
        "epoch,loss,grow.2.size,word",
        "1,0.5,3,",
        "2,nan,,",
        "3,0.25,,good",
    ]


def write(path, *events, tail=""):
    path.write_text("".join(map(written, events)) + tail)


def test_the_last_value_of_each_metric_of_the_job_counts(tmp_path):
    write(
        tmp_path / "metrics.jsonl",
        Measured("x", 1.0, 1),
        Measured("x", 5.0, 1, "step"),
        CheckpointTimes("save", 1, 1, 1.0, 1.0, "a", ()),
        Measured("y", math.nan, 1),
        Measured("x", 2.0, 2),
        tail='{"name": "x", "val',
    )

    last = read_last_metrics(tmp_path)

    assert last["x"] == 2.0
    assert last["y"] != last["y"]


def test_the_newest_epoch_is_found_in_the_tail_of_a_long_file(tmp_path):
    filler = [TaskEnded("x" * 200, "a", 1, 0.1, failed=False) for _ in range(1000)]
    ended = EpochEnded(7, 0.1, (("x", 1.5),), ())
    write(tmp_path / "events.jsonl", *filler, ended, *filler[:5])

    assert read_last_epoch(tmp_path) == (7, {"x": 1.5})


def test_files_that_are_not_there_say_nothing(tmp_path):
    assert read_last_metrics(tmp_path) == {}
    assert read_last_epoch(tmp_path) == (-1, {})


def test_lines_of_metrics_read_the_same_fast_as_parsed_one_by_one():
    values = [0, -7, 0.1, -0.0, 1e-300, 1.5e300, 10**17, 10**18, 10**4100, True, math.nan, "hi"]
    lines = [
        entry(name, value, epoch, **more).encode()
        for name, more in (("a", {}), ("å b", {"task": "t", "instance": 2}), ('q"', {"node": "n"}))
        for epoch, value in enumerate(values)
    ]
    # Each is met when its name is known already.
    (line,) = [
        candidate for candidate in lines if b'"value": 0.1, ' in candidate and b'"a"' in candidate
    ]
    for old, new in [
        (b"0.1", b"1e999"), (b"0.1", b"01"), (b"0.1", b"0.1e+2"), (b"0.1", b"-"), (b"0.1", b"."),
        (b'"epoch": 2', b'"epoch": 99999999999999999999'), (b'"epoch": 2', b'"epoch": -2'),
        (b'"epoch": 2', b'"epoch": 2.0'), (b'"instance": 0}', b'"instance": 0} x'),
        (b'"instance": 0}\n', b'"instance": 0'), (b'"a"', b'"\xff"'), (b'"a"', b'"\t"'),
        (b"+00:00", b""), (b'"generation": 0, ', b""), (b'"node": ""', b'"node": 3'),
    ]:  # fmt: skip
        assert old in line
        lines.append(line.replace(old, new))
    expected, damaged = [], [0, 0]
    for encoded in lines:
        try:
            event = parse_event(encoded).event
        except ValueError:
            damaged[0] += 1
        else:
            expected.append((metric_name(event), event.epoch, repr(event.value)))
    values_read = read_values(lines, lambda: damaged.append(None))

    assert [(name, epoch, repr(value)) for name, epoch, value in values_read] == expected
    assert len(damaged) - 2 == damaged[0] > 5


def test_of_many_lines_of_one_metric_only_the_first_is_parsed_as_any_json(run, monkeypatch):
    lines = [entry("loss", at * 0.3, at) for at in range(50)]
    (run / "metrics.jsonl").write_text("".join(lines))
    parsed = []
    monkeypatch.setattr(logs, "parse_event", lambda line: parsed.append(line) or parse_event(line))

    assert len(read_metrics(run).rows) == 50
    assert len(parsed) == 1
