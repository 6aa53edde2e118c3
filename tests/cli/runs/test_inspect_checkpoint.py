"""``jobrun inspect-checkpoint``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.cli.run_command import invoke
from jobrun.cli.runs.inspect_checkpoint import draw_blobs, draw_histogram, draw_picture
from jobrun.cli.terminal import Shell
from jobrun.core.text.terminal_text import terminal_line
from jobrun.runner.rundir.run_json import RunRecord, write_record
from jobrun.tools.report.blob_pictures import Histogram, picture, tiles
from tests.support.reports import make_report
from tests.support.saved_checkpoints import RUN_ID, save

STATE = {"C": np.arange(6.0).reshape(2, 3), "shift": 0.25, "title": "a\x1b[2Jb"}


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "runs" / "job" / "20261121-0942-brisk-heron"
    for epoch in range(2):
        save(path / "checkpoints", epoch, {"trainer": STATE})
    write_record(path, RunRecord(RUN_ID, "job", "2026-11-21T09:42:00.000000+00:00"))
    return path


def test_a_checkpoint_is_shown_as_a_table_per_node(run, capsys):
    assert invoke(["inspect-checkpoint", "job"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("epoch  1, saved ")
    assert "path   runs/job/20261121-0942-brisk-heron/checkpoints/epoch-000001" in lines
    assert "loss   0.25" in lines
    assert any(line.startswith("trainer   trainer.h5, ") for line in lines)
    rows = {line.split()[0]: " ".join(line.split()[1:]) for line in lines[-3:]}
    assert rows["C"] == "float64 2 x 3 48 bytes min 0 mean 2.5 max 5"
    assert rows["shift"].endswith("- 8 bytes 0.25")
    assert "\x1b" not in rows["title"]
    assert max(map(len, lines)) <= 100


def test_one_blob_with_its_values(run, capsys):
    assert invoke(["inspect-checkpoint", "job@0", "--blob", "C", "--values"]) == 0
    out = capsys.readouterr().out
    assert "[[0. 1. 2.]" in out
    assert "shift" not in out


def test_json_has_a_schema_and_all_numbers(run, capsys):
    assert invoke(["inspect-checkpoint", "job", "--json", "--values", "--node", "trainer"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["schema"] == "jobrun.checkpoint/1"
    assert parsed["epoch"] == 1
    (node,) = parsed["nodes"]
    assert node["blobs"][0]["value"] == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_a_missing_name_is_reported_with_those_that_exist(run, capsys):
    assert invoke(["inspect-checkpoint", "job@7"]) == 4
    assert "there are 0, 1" in capsys.readouterr().err
    assert invoke(["inspect-checkpoint", "job", "--blob", "D"]) == 2
    assert invoke(["inspect-checkpoint", "jbo"]) == 2
    assert "did you mean 'job'?" in capsys.readouterr().err


def test_blobs_are_drawn_when_asked_for(run, capsys):
    assert invoke(["inspect-checkpoint", "job", "--plot"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "C" in lines
    assert any("█" in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_a_page_of_it_is_written(run, tmp_path, capsys):
    assert invoke(["inspect-checkpoint", "job", "--blob", "C", "--out", "c.html"]) == 0
    assert 'aria-label="blob C"' in (tmp_path / "c.html").read_text()
    assert "wrote c.html" in capsys.readouterr().err


def test_two_forms_at_once_are_an_error(run, capsys):
    assert invoke(["inspect-checkpoint", "job", "--plot", "--json"]) == 2
    assert "exclude each other" in capsys.readouterr().err


def test_a_checkpoint_of_a_run_fits_a_terminal_of_80_columns(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(Shell, "result_width", 80)
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: job\n"
        "init:\n  - task: a\n    steps:\n"
        "      - quite_a_long_name = ones((20, 30)) / 3\n"
        "      - text = 'words which one line of a terminal cannot hold beside the rest'\n"
        "epoch: [{task: b, steps: [quite_a_long_name *= -3.3]}]\nstop: [{epochs: 2}]\n"
    )
    assert invoke(["run", "job.yaml"]) == 0
    capsys.readouterr()

    assert invoke(["inspect-checkpoint", "job"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any(line.startswith("spec ") for line in lines)
    assert any(line.startswith("made of ") for line in lines)


def test_the_highest_bar_reaches_the_top_and_the_lowest_is_seen():
    lines = draw_histogram(Histogram((1000, 1, 0), 0.0, 1.0), 60)

    assert lines[0] == "████"
    assert lines[-2] == "████▁▁▁▁"
    assert lines[-1] == "0          1"


def test_bins_are_pooled_where_the_terminal_is_narrow():
    lines = draw_histogram(Histogram((1,) * 40, 0.0, 1.0), 20)

    assert lines[0] == "█" * 20


def test_without_colours_a_picture_is_made_of_shades():
    lines = draw_picture(picture(np.array([[0.0, 1.0], [np.nan, 0.5]])), colours=False)

    assert lines == [" █", "?▒"]


def test_with_colours_a_character_shows_two_rows():
    lines = draw_picture(picture(np.array([[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])), colours=True)

    lines = list(map(terminal_line, lines))
    assert lines[0] == "\x1b[38;5;232;48;5;255m▀\x1b[38;5;255;48;5;232m▀\x1b[0m"
    assert lines[1].startswith("\x1b[38;5;232;49m▀")


def test_between_tiles_there_is_nothing():
    lines = draw_picture(tiles(np.arange(32.0).reshape(2, 16)), colours=False)

    assert [line[4] for line in lines] == [" "] * 4


def test_drawings_fit_the_terminal(tmp_path):
    newest = make_report(tmp_path).stored.newest
    for columns in (30, 80):
        lines = draw_blobs(newest, (), (columns, 20), colours=False)
        assert "w" in lines
        assert max(map(len, lines)) <= columns


def test_a_checkpoint_of_single_values_says_that_there_is_nothing_to_draw(tmp_path):
    newest = make_report(tmp_path).stored.newest
    files = tuple(type(file)(file.path, file.size_bytes, file.header, ()) for file in newest.files)

    assert "nothing to plot" in draw_blobs(newest, files, (80, 20), colours=False)[-1]
