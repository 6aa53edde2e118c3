from __future__ import annotations

import json
import math

import pytest

from jobrun.core.errors import UsageError
from jobrun.tools.runs.series import Metrics, as_csv, read_metrics, selected


def entry(name, value, epoch, **more):
    return json.dumps({"event": "Measured", "name": name, "value": value, "epoch": epoch, **more})


@pytest.fixture
def run(tmp_path):
    lines = [
        entry("loss", 0.5, 1),
        entry("size", 3, 1, task="grow", instance=2),
        entry("loss", "nan", 2),
        entry("loss", 0.1, 3),
        entry("loss", 0.25, 3),
        entry("word", "good", 3),
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"name": "lo')
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
    chosen = selected(read_metrics(run), ["word", "loss"])

    assert chosen.names == ("word", "loss")
    assert chosen.rows[2] == (3, ("good", 0.25))


def test_a_misspelt_metric_is_an_error_that_knows_the_right_one(run):
    with pytest.raises(UsageError, match=r"E424.*did you mean 'loss'"):
        selected(read_metrics(run), ["los"])


def test_csv_keeps_every_digit(run):
    assert as_csv(read_metrics(run)).splitlines() == [
        "epoch,loss,grow.2.size,word", "1,0.5,3,", "2,nan,,", "3,0.25,,good",
    ]  # fmt: skip
