from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from jobrun.runner.rundir.lock import RunLock
from tests.support.sample_runs import make_run


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def print_metrics(capsys, *words):
    assert invoke(["metrics", *words]) == 0
    return capsys.readouterr().out


def test_the_table_has_a_line_per_epoch(capsys):
    lines = print_metrics(capsys).splitlines()

    assert [line.split() for line in lines] == [
        ["epoch", "x"],
        ["1", "4"],
        ["2", "2"],
        ["3", "1"],
        ["4", "0.5"],
    ]


def test_many_metrics_are_tables_below_each_other_that_fit_the_terminal(run, capsys, monkeypatch):
    line = (run.path / "metrics.jsonl").read_text().splitlines()[0]
    more = [json.loads(line) | {"name": f"metric-{at}-{'x' * 20}"} for at in range(5)]
    with (run.path / "metrics.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(record)}\n" for record in more)
    monkeypatch.setattr(Shell, "result_width", 80)

    lines = print_metrics(capsys).splitlines()

    assert max(map(len, lines)) <= 80
    heads = [line.split() for line in lines if "epoch" in line]
    assert len(heads) == 3
    assert [name for head in heads for name in head[1:]] == [
        "x",
        *(record["name"] for record in more),
    ]


def test_only_the_last_epochs(capsys):
    assert print_metrics(capsys, "latest", "--last", "1").split() == ["epoch", "x", "4", "0.5"]


def test_csv_and_json_are_for_programs(capsys):
    assert print_metrics(capsys, "latest", "x", "--csv").splitlines()[1] == "1,4.0"
    document = json.loads(print_metrics(capsys, "latest", "--json"))
    assert document["epochs"][-1] == {"epoch": 4, "x": 0.5}


def test_a_chart_is_drawn(capsys):
    lines = print_metrics(capsys, "latest", "--plot").splitlines()

    assert lines[0] == "x"
    assert lines[1].startswith("  4 ┤")
    assert lines[-1].split() == ["1", "4"]


def test_two_forms_at_once_are_an_error(capsys):
    assert invoke(["metrics", "latest", "--csv", "--plot"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_an_unknown_metric_is_an_error(capsys):
    assert invoke(["metrics", "latest", "y"]) == 2
    assert "E424" in capsys.readouterr().err


def test_further_epochs_of_a_live_run_are_printed_until_it_ends(run, capsys, monkeypatch):
    path = run.path / "metrics.jsonl"
    whole = [line for line in path.read_text().splitlines(keepends=True) if '"Measured"' in line]
    path.write_text("".join(whole[:2]))
    lock = RunLock.acquire(run.path)
    looks = iter([whole[2], "", None])

    def sleep(seconds):
        more = next(looks)
        if more is None:
            path.write_text("".join(whole))
            lock.release()
        else:
            with path.open("a") as file:
                file.write(more)

    monkeypatch.setattr("time.sleep", sleep)
    lines = print_metrics(capsys, "-f").splitlines()
    assert [line.split() for line in lines] == [
        ["epoch", "x"],
        ["1", "4"],
        ["2", "2"],
        ["3", "1"],
        ["4", "0.5"],
    ]


def test_a_run_that_has_ended_is_followed_as_it_is_printed(capsys):
    assert print_metrics(capsys, "latest", "x", "-f") == print_metrics(capsys, "latest", "x")
    assert print_metrics(capsys, "-f", "--csv", "--last", "2").splitlines() == [
        "epoch,x",
        "3,1.0",
        "4,0.5",
    ]
    assert invoke(["metrics", "latest", "y", "-f"]) == 2
    assert invoke(["metrics", "latest", "-f", "--plot"]) == 2
