from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from jobrun.cli.run_command import invoke
from jobrun.cli.terminal import Shell
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_json import read_record, write_record
from jobrun.tools.runs.summarise_runs import RunSummary
from tests.support.sample_runs import make_run


@pytest.fixture
def two(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path, "good"), make_run(tmp_path, "bad", limit=3.0)


def run_command(capsys, *words):
    assert invoke(list(words)) == 0
    return capsys.readouterr()


def test_the_table_shows_the_status_of_each_run(two, capsys):
    head, good, empty, _, bad = run_command(capsys, "runs").out.splitlines()

    assert head.split() == ["good", "x", "status", "epoch", "age", "note"]
    assert (good.split()[1:4], empty) == (["0.5", "finished", "4"], "")
    assert bad.split()[1:4] == ["4", "failed", "1"]
    assert "4 epochs have run" in good
    assert two[0].path.name.endswith(good.split()[0])


def test_equal_values_of_different_types_look_different_in_the_table(two, capsys):
    for run, value in zip(two, (1, True), strict=True):
        record = replace(read_record(run.path), job="same", params={"x": value})
        write_record(run.path, record)

    _, *rows = run_command(capsys, "runs", "--sort", "params.x").out.splitlines()
    assert {row.split()[1] for row in rows} == {"1", "True"}


@pytest.mark.parametrize(
    ("words", "jobs"),
    [
        (["good"], ["good"]),
        (["--status", "failed"], ["bad"]),
        (["--limit", "1"], ["bad"]),
        (["list"], ["good", "bad"]),
        (["--tag", "best"], ["good"]),
        (["--status", "running"], []),
    ],
)
def test_runs_are_chosen(two, capsys, words, jobs):
    run_command(capsys, "runs", "tag", "good", "best")

    document = json.loads(run_command(capsys, "runs", *words, "--json").out)

    assert document["schema"] == "jobrun.runs/1"
    assert [run["job"] for run in document["runs"]] == jobs


def test_without_runs_the_directory_above_is_named(two, tmp_path, capsys, monkeypatch):
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")

    assert (
        "no runs in runs; there is ../runs: add --run-dir ../runs"
        in run_command(capsys, "runs").err
    )


def test_the_name_of_a_sweep_chooses_its_points(two, capsys):
    for run, point in zip(two, ("good.rate1", "good.rate2"), strict=True):
        run.path.parent.rename(run.path.parent.with_name(point))
        record = replace(read_record(run.path.parent.with_name(point) / run.path.name), job=point)
        write_record(run.path.parent.with_name(point) / run.path.name, record)
        run_command(capsys, "runs", "tag", point, "sweep=good")

    document = json.loads(run_command(capsys, "runs", "good", "--json").out)
    assert [run["job"] for run in document["runs"]] == ["good.rate1", "good.rate2"]
    assert invoke(["runs", "goood"]) == 2
    assert "did you mean 'good'?" in capsys.readouterr().err


def test_a_long_name_of_a_job_takes_no_room_of_metrics(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path, "a-name-that-fills-most-of-a-line-of-eighty-columns-by-itself")
    monkeypatch.setattr(Shell, "result_width", 80)

    title, head, row = run_command(capsys, "runs").out.splitlines()

    assert title == "a-name-that-fills-most-of-a-line-of-eighty-columns-by-itself"
    assert head.split() == ["run", "x", "status", "epoch", "age", "note"]
    assert row.split()[1:4] == ["0.5", "finished", "4"]


def test_an_unknown_job_is_an_error(two, capsys):
    assert invoke(["runs", "goood"]) == 2
    assert "did you mean 'good'" in capsys.readouterr().err


def test_tags_are_shown_and_taken_off(two, capsys):
    assert "#a #b" in run_command(capsys, "runs", "tag", "good", "b", "a").err
    assert "#a #b" in run_command(capsys, "runs").out
    assert "no tags" in run_command(capsys, "runs", "tag", "good", "a", "b", "--remove").err


def test_a_run_is_removed_only_with_a_yes(two, capsys):
    good, _ = two

    assert invoke(["runs", "remove", "good"]) == 2
    assert "E427" in capsys.readouterr().err
    assert good.path.exists()
    assert "removed good/" in run_command(capsys, "runs", "remove", "good", "--yes").err
    assert not good.path.exists()


def test_a_resumable_run_is_not_removed_by_accident(two, capsys):
    assert invoke(["runs", "remove", "bad", "--yes"]) == 2
    assert "E423" in capsys.readouterr().err
    run_command(capsys, "runs", "remove", "bad", "--yes", "--unfinished")


def test_the_path_is_all_that_is_printed(two, capsys):
    assert run_command(capsys, "runs", "path", "good").out == f"{two[0].path}\n"


def renamed(two):
    """The runs under names whose length is known."""
    for run, words in zip(two, ("calm-heron", "brisk-otter"), strict=True):
        run.path.rename(run.path.with_name(f"20261121-0942-{words}"))


@pytest.mark.parametrize(
    ("width", "cells"),
    [
        (30, "brisk-otter 4 failed 1"),
        (40, "brisk-otter 4 failed 1 9 s"),
        (60, "brisk-otter 4 failed 1 9 s the assertion 'x >…"),
        (80, "brisk-otter 4 failed 1 9 s the assertion 'x > 3.0' does not hold…"),
    ],
)
def test_the_table_fits_the_terminal_and_breaks_no_word(two, capsys, monkeypatch, width, cells):
    renamed(two)
    monkeypatch.setattr(Shell, "result_width", width)
    monkeypatch.setattr(RunSummary, "age_s", lambda run, now: 9.4)
    lines = run_command(capsys, "runs").out.splitlines()

    assert max(map(len, lines)) <= width
    assert lines[-1].split() == cells.replace("9 s", "9.4 s").split()


def test_columns_without_room_are_named_unless_they_were_asked_for(two, capsys, monkeypatch):
    renamed(two)
    monkeypatch.setattr(Shell, "result_width", 30)

    assert "no room for: x, age" in run_command(capsys, "runs", "good").err
    done = run_command(capsys, "runs", "good", "--sort", "x")
    assert "x" in done.out.splitlines()[0].split()
    assert "no room for: epoch, age" in done.err


def test_runs_are_filtered_sorted_and_printed_as_csv(two, capsys):
    done = run_command(capsys, "runs", "--where", "x<100", "--sort", "-x", "--csv").out.splitlines()

    assert [line.split(",")[1] for line in done] == ["job", "bad", "good"]
    assert [line.split(",")[-1] for line in done] == ["metrics.x", "4.0", "0.5"]
    assert invoke(["runs", "--csv", "--json"]) == 2


def test_the_best_metrics_are_those_of_the_best_epoch(two, capsys):
    best_runs = json.loads(run_command(capsys, "runs", "--best", "max:x", "--json").out)["runs"]
    assert [(run["job"], run["metrics"], run["best_epoch"]) for run in best_runs] == [
        ("good", {"x": 4.0}, 1),
        ("bad", {"x": 4.0}, 1),
    ]
    assert "best at" in run_command(capsys, "runs", "--best", "x").out
    assert invoke(["runs", "--best", "y"]) == 2


def test_unreadable_runs_are_reported_and_the_others_shown(two, capsys):
    with (two[0].path / "metrics.jsonl").open("a") as file:
        file.write("rubbish\n")
    (two[1].path / "run.json").write_text("{")

    done = run_command(capsys, "runs")
    assert done.out.splitlines()[1].split()[1] == "0.5"
    assert "1 line of metrics.jsonl cannot be read" in done.err
    assert "run.json is damaged" in done.err
    assert len(json.loads(run_command(capsys, "runs", "--json").out)["faults"]) == 2


def test_old_runs_are_removed_by_status_and_age(two, capsys):
    good, bad = two

    done = run_command(capsys, "runs", "remove", "--older-than", "1h", "--dry-run")
    assert ("no such run" in done.err, done.out) == (True, "")
    done = run_command(capsys, "runs", "remove", "--status", "finished", "--dry-run")
    assert [line.split()[0] for line in done.out.splitlines()] == [good.name]
    assert "1 run, " in done.err
    assert good.path.exists()
    run_command(capsys, "runs", "remove", "--status", "finished", "--yes")
    assert not good.path.exists()
    assert (
        "1 run unfinished, and kept"
        in run_command(capsys, "runs", "remove", "--status", "failed").err
    )
    run_command(capsys, "runs", "remove", "--status", "failed", "--unfinished", "--yes")
    assert not bad.path.exists()


def test_live_runs_are_never_removed_by_age(two, capsys, monkeypatch):
    record = two[0].path / "run.json"
    record.write_text(record.read_text().replace('"finished"', '"running"'))
    monkeypatch.setattr(RunSummary, "age_s", lambda run, now: 9e9)

    with RunLock.acquire(two[0].path):
        done = run_command(
            capsys, "runs", "remove", "--older-than", "1d", "--unfinished", "--dry-run"
        )
    assert [line.split()[0] for line in done.out.splitlines()] == [two[1].name]


@pytest.mark.parametrize(
    "words", [[], ["good", "--older-than", "1d"], ["good", "--status", "failed"]]
)
def test_runs_to_remove_are_named_or_chosen(two, capsys, words):
    assert invoke(["runs", "remove", *words, "--yes"]) == 2
    assert "E404" in capsys.readouterr().err
