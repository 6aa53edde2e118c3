from __future__ import annotations

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest

from jobrun.core.errors import UsageError
from jobrun.tools.runs.filter_and_sort_runs import (
    filter_runs,
    find_column,
    group_runs,
    parse_condition,
    render_csv,
    sort_runs,
)
from jobrun.tools.runs.summarise_runs import RunSummary

NOW = datetime(2026, 11, 23, tzinfo=UTC)


def run(number: int, job: str = "walk", **changes: object) -> RunSummary:
    born = (NOW - timedelta(hours=number)).isoformat()
    values = {
        "path": f"{job}/20261121-000{number}-run-{number}", "job": job, "created": born,
        "order": number, "status": "finished", "epoch": number, "exit_code": 0, "reason": "",
        "resumable": True, "run_id": f"id-{job}-{number}", "parent": "", "parent_id": "",
        "parent_epoch": -1, "seed": 0, "params": {}, "metrics": {}, "tags": (), "faults": (),
    }  # fmt: skip
    return RunSummary(**(values | changes))


THREE = [
    run(1, params={"rate": 0.5, "label": "a b", "on": True}, metrics={"loss": 3.0}),
    run(2, params={"rate": 1, "label": "c", "on": False}, metrics={"loss": float("nan")}),
    run(3, params={"rate": 2.0, "label": "d", "on": True}, metrics={}),
]


@pytest.mark.parametrize(
    ("text", "orders"),
    [
        ("rate<1", [1]), ("rate <= 1", [1, 2]), ("rate=1.0", [2]), ("params.rate!=1", [1, 3]),
        ("loss>0", [1]), ("label='a b'", [1]), ("label!=c", [1, 3]), ("on=true", [1, 3]),
        ("epoch>=2", [2, 3]), ("age>90m", [2, 3]), ("age<1.5h", [1]), ("job=walk", [1, 2, 3]),
        ("rate=text", []), ("rate!=text", [1, 2, 3]), ("seed=0", [1, 2, 3]),
    ],
)  # fmt: skip
def test_runs_are_filtered(text, orders):
    filtered = filter_runs(THREE, [parse_condition(text)], NOW)

    assert [run_.order for run_ in filtered] == orders


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("rate", "is no condition"), ("rate<", "is no condition"), ("<3", "is no condition"),
        ("rat<3", "did you mean 'rate'?"), ("label<3", "is text, which has no order"),
        ("age>7", "no duration"),
    ],
)  # fmt: skip
def test_a_condition_that_cannot_be_is_refused(text, words):
    with pytest.raises(UsageError) as caught:
        filter_runs(THREE, [parse_condition(text)], NOW)

    fault = caught.value.faults[0]
    assert fault.code == "E449"
    assert words in f"{fault.message}; {fault.mend}"


def test_a_name_of_both_a_param_and_a_metric_is_ambiguous():
    both = [run(1, params={"x": 1}, metrics={"x": 2})]

    with pytest.raises(UsageError, match="is a param and a metric"):
        find_column("x", both)
    assert find_column("metrics.x", both) == "metrics.x"


@pytest.mark.parametrize(
    ("text", "order"),
    [("rate", [1, 2, 3]), ("-rate", [3, 2, 1]), ("-loss", [1, 2, 3]), ("age", [1, 2, 3])],
)
def test_runs_are_sorted_with_those_without_a_value_last(text, order):
    assert [run_.order for run_ in sort_runs(THREE, text, NOW)] == order


def test_params_that_differ_are_columns_and_others_only_if_wanted():
    runs = [run(1, params={"a": 1, "b": 2}), run(2, params={"a": 1, "b": 3, "c": 0}, seed=7)]

    assert group_runs(runs)[0].params == ("b", "c", "seed")
    assert group_runs(runs, always=["params.a"])[0].params == ("a", "b", "c", "seed")


def test_a_fork_follows_its_parent_and_points_of_a_sweep_are_together():
    runs = [
        run(1), run(2), run(3, parent_id="id-walk-1"), run(4, parent_id="id-walk-3"),
        run(5, job="p1", tags=("sweep=lr",)), run(6, job="p2", tags=("sweep=lr",)),
    ]  # fmt: skip

    walk, sweep = group_runs(runs)
    assert [summary.order for summary in walk.runs] == [1, 3, 4, 2]
    assert walk.depths == (0, 1, 2, 0)
    assert (sweep.title, [summary.order for summary in sweep.runs]) == ("sweep lr", [5, 6])


def test_runs_that_are_forks_of_each_other_are_shown_all_the_same():
    runs = [run(1, parent_id="id-walk-2"), run(2, parent_id="id-walk-1")]

    assert {summary.order for summary in group_runs(runs)[0].runs} == {1, 2}


def test_csv_has_all_columns_and_digits():
    rows = list(csv.DictReader(io.StringIO(render_csv(THREE))))

    assert [row["params.rate"] for row in rows] == ["0.5", "1", "2.0"]
    assert [row["metrics.loss"] for row in rows] == ["3.0", "nan", ""]
    assert rows[0]["run"] == THREE[0].path
