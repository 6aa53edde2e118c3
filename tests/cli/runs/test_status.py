from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from jobrun.cli.run_command import invoke
from jobrun.cli.runs import status
from jobrun.cli.terminal import Shell
from jobrun.runner.rundir import run_json
from jobrun.runner.rundir.lock import RunLock
from jobrun.runner.rundir.run_json import read_record, write_record
from jobrun.tools.runs.status import read_status
from tests.support.sample_runs import make_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def test_the_newest_run_is_shown_with_all_that_matters(run, capsys):
    assert invoke(["status"]) == 0

    output = capsys.readouterr().out
    for words in (
        "shrink/",
        "finished   4 epochs",
        "4 of at most 4",
        "0.5",
        "epoch 4, ",
        "x is 0.5",
        f", begun {run.record.created[:16].replace('T', ' ')} UTC",
    ):
        assert words in output


def test_a_failed_run_shows_the_command_that_continues_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    make_run(tmp_path, limit=3.0)

    assert invoke(["status", "shrink", "--watch"]) == 0

    assert "next: jobrun resume runs/shrink/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        (
            "stopped (signal SIGTERM): epoch 4 is saved",
            "stopped   signal SIGTERM: epoch 4 is saved",
        ),
        ("stopped (a (b) c): epoch 4", "stopped   a (b) c: epoch 4"),
        ("the disk is full", "stopped   the disk is full"),
    ],
)
def test_the_reason_of_an_end_is_shown_without_the_status(run, capsys, reason, shown):
    write_record(run.path, replace(read_record(run.path), status="stopped", reason=reason))

    assert invoke(["status"]) == 0

    assert shown in capsys.readouterr().out


def test_the_same_as_json(run, capsys):
    assert invoke(["status", "latest", "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "jobrun.status/1"
    assert (document["status"], document["epoch"], document["metrics"]) == (
        "finished",
        4,
        {"x": 0.5},
    )


def test_an_unknown_run_is_an_error(run, capsys):
    assert invoke(["status", "shirnk"]) == 2
    assert "did you mean 'shrink'" in capsys.readouterr().err


def test_a_long_line_of_a_log_is_cut_to_the_terminal(run, capsys, monkeypatch):
    (log,) = (run.path / "logs").glob("*.log")
    log.write_text("[4] " + "x" * 200 + "\n")
    monkeypatch.setattr(Shell, "result_width", 80)

    assert invoke(["status"]) == 0

    cut = next(line for line in capsys.readouterr().out.splitlines() if "xxx" in line)
    assert len(cut) == 80
    assert cut.endswith("…")


def test_a_long_row_continues_below_itself_and_breaks_no_word(run, capsys, monkeypatch):
    reason = "stopped early " + "because of something " * 8
    write_record(run.path, replace(read_record(run.path), reason=reason))
    monkeypatch.setattr(Shell, "result_width", 80)

    assert invoke(["status"]) == 0

    _, first, second, *_ = capsys.readouterr().out.splitlines()
    assert max(len(first), len(second)) <= 80
    column = first.index("finished")
    assert second[:column].isspace()
    assert f"{first[column:]} {second[column:]}".startswith(f"finished   {reason[:60]}")


def test_watching_draws_over_the_screen_before(run, capsys, monkeypatch):
    monkeypatch.setattr(Shell, "on_terminal", True)
    monkeypatch.setattr(status, "_LOOK_EVERY_S", 0.0)
    lock = RunLock.acquire(run.path)
    looks = []

    def look(found_run):
        looks.append(found_run)
        if len(looks) == 2:
            lock.release()
        return read_status(found_run)

    monkeypatch.setattr(status, "read_status", look)

    assert invoke(["status", "--watch"]) == 0

    output = capsys.readouterr().out
    assert output.count("\x1b[2J") == 1
    assert output.count("\x1b[H") == 2


def test_each_node_shows_its_tasks_while_epochs_last_long_enough(run, capsys, monkeypatch):
    tasks = (("a", "read", "ended"), ("a", "fit", "running"), ("b", "read", "failed"))
    monkeypatch.setattr(
        status,
        "read_status",
        lambda found_run: replace(read_status(found_run), tasks=tasks, epoch_s=20.0),
    )
    assert invoke(["status"]) == 0
    output = capsys.readouterr().out
    assert "a       ✓ read   ▸ fit" in output
    assert "b       ✗ read" in output

    monkeypatch.setattr(
        status,
        "read_status",
        lambda found_run: replace(read_status(found_run), tasks=tasks, epoch_s=0.01),
    )
    assert invoke(["status"]) == 0
    assert "▸" not in capsys.readouterr().out


def test_lines_of_metrics_that_cannot_be_read_are_counted(run, capsys):
    path = run.path / "metrics.jsonl"
    path.write_text("rubbish\n" + path.read_text())

    assert invoke(["status"]) == 0

    output = capsys.readouterr().out
    assert "damaged  lines of metrics.jsonl that cannot be read and are left out: 1" in output
    assert "0.5" in output


def test_a_run_without_read_permission_is_reported(run, capsys, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(run_json, "read_json", refuse)

    assert invoke(["status", run.path.name]) != 0

    assert "run.json: Permission denied" in capsys.readouterr().err


def test_a_run_that_cannot_be_read_is_reported(run, capsys):
    (run.path / "run.json").write_text("{")

    assert invoke(["status", run.path.name]) != 0

    errors = capsys.readouterr().err
    assert "run.json is damaged" in errors
    assert "did you mean" not in errors
