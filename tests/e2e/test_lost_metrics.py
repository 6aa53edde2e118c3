"""What ``metrics.jsonl`` has lost is noticed, restored from checkpoints, and shown."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import jobrun
from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.journal import read_journal

SPEC = """\
jobrun: 1
name: walk
init: [{task: start, steps: [x = 8.0]}]
epoch: [{task: step, steps: [x = x / 2, {metric: {half: x}}]}]
exit: [{task: last, steps: [{metric: {end: x}}]}]
metrics: {x: x, big: x > 1}
stop: [epochs: 12]
checkpoint: {every: EVERY}
"""
LINES = 3
SAVED = 8


def write(path: Path, lines: list[bytes]) -> None:
    path.write_bytes(b"".join(lines))


def change_value(path: Path, lines: list[bytes]) -> None:
    lines[10] = lines[10].replace(b'"value": 0.5', b'"value": 0.7')
    write(path, lines)


CHANGES: dict[str, Callable[[Path, list[bytes]], object]] = {
    "emptied": lambda path, lines: write(path, []),
    "removed": lambda path, lines: path.unlink(),
    "cut": lambda path, lines: write(path, [*lines[:7], lines[7][:20]]),
    "beginning": lambda path, lines: write(path, lines[6:]),
    "middle": lambda path, lines: write(path, lines[:5] + lines[9:]),
    "one": lambda path, lines: write(path, lines[:10] + lines[11:]),
    "garbage": lambda path, lines: write(path, [*lines[:4], b"\x00" * 80 + b"\n", *lines[5:]]),
    "value": change_value,
    "doubled-and-removed": lambda path, lines: write(path, lines[:5] + lines[4:8] + lines[9:]),
}


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """By ``every``: a folder with a run of eight epochs that is not finished."""
    created = {}
    with pytest.MonkeyPatch.context() as patch:
        for every in ("1ep", "2ep"):
            created[every] = folder = tmp_path_factory.mktemp(every)
            (folder / "job.yaml").write_text(SPEC.replace("EVERY", every))
            patch.chdir(folder)
            assert invoke(["run", "job.yaml", "--max-epochs", str(SAVED), "--quiet"]) == 75
    return created


@pytest.fixture
def run(templates, tmp_path, monkeypatch, request):
    every = getattr(request, "param", "1ep")
    shutil.copytree(templates[every], tmp_path / "work", symlinks=True)
    monkeypatch.chdir(tmp_path / "work")
    return jobrun.runs("runs")[0]


def change(run, name: str) -> None:
    path = run.path / "metrics.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    assert len(lines) == SAVED * LINES
    CHANGES[name](path, lines)


def run_command(capsys, *words: str) -> tuple[str, str]:
    capsys.readouterr()
    assert invoke(list(words)) == 0
    return capsys.readouterr()


def warnings_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if "metrics.jsonl" in line and "warning" in line]


@pytest.mark.parametrize("name", CHANGES)
def test_files_that_checkpoints_have_are_written_again_and_reported_once(run, capsys, name):
    change(run, name)

    err = resume(capsys, 1)
    assert len(warnings_of(err)) == 1, err
    assert "written again from checkpoints" in err
    assert warnings_of(resume(capsys, 9)) == []

    table = run.metrics()
    expected = {epoch: 8 / 2**epoch for epoch in range(1, 13)}
    assert dict(zip(table.epochs.tolist(), table["x"].tolist(), strict=True)) == expected
    assert table["big"].tolist() == [value > 1 for value in expected.values()]
    rows = [
        json.loads(line)["epoch"] for line in (run.path / "metrics.jsonl").read_text().splitlines()
    ]
    assert rows == sorted(rows)


def resume(capsys, epochs: int) -> str:
    capsys.readouterr()
    assert invoke(["resume", "latest", "--max-epochs", str(epochs)]) in (0, 75)
    return capsys.readouterr().err


@pytest.mark.parametrize("name", CHANGES)
def test_commands_show_what_is_lost_before_and_after_a_resume(run, capsys, name):
    change(run, name)
    assert any("metrics.jsonl" in fault for fault in run.status().faults)
    with pytest.warns(RuntimeWarning, match=r"metrics\.jsonl"):
        run.metrics()
    out, err = run_command(capsys, "metrics", "latest", "--json")
    assert "lost: " in err
    (gap,) = merged(json.loads(out)["gaps"])
    assert 1 <= gap["first"] <= gap["last"] <= SAVED
    assert any(
        "metrics.jsonl" in fault
        for fault in json.loads(run_command(capsys, "status", "latest", "--json")[0])["faults"]
    )

    resume(capsys, 1)

    assert json.loads(run_command(capsys, "metrics", "latest", "--json")[0])["gaps"] == []
    lost = json.loads(run_command(capsys, "status", "latest", "--json")[0])["lost"]
    # What a step measured is in no checkpoint.
    expected = {"emptied": 8, "removed": 8, "cut": 5, "beginning": 2, "middle": 1}
    if name in expected:
        assert lost["metrics.jsonl"]["lines"] == expected[name]


def merged(gaps):
    assert gaps
    return [{"first": gaps[0]["first"], "last": gaps[-1]["last"]}]


@pytest.mark.parametrize("run", ["2ep"], indirect=True)
def test_epochs_that_were_not_saved_are_counted_as_lost(run, capsys):
    change(run, "emptied")

    err = resume(capsys, 1)

    assert "24 of the 24 lines of epochs 1-8" in err
    # x and big of every second epoch.
    assert "8 values were written again from checkpoints, 16 are lost" in err
    assert run.metrics().epochs.tolist() == [2, 4, 6, 8, 9]


def test_what_exit_measures_is_no_gap(run, capsys):
    assert warnings_of(resume(capsys, 9)) == []

    assert invoke(["status", "latest", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["faults"] == []
    assert "last.end" in run.metrics()


@pytest.mark.parametrize("session", ["threads", "processes"])
def test_a_whole_run_with_retries_and_failures_has_no_gap(tmp_path, monkeypatch, capsys, session):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flaky.py").write_text(
        "import os\n"
        "def fail_once(epoch, run_dir):\n"
        "    mark = f'{run_dir}/artifacts/{epoch}'\n"
        "    if epoch % 2 and not os.path.exists(mark):\n"
        "        open(mark, 'w').close()\n"
        "        raise ValueError('once')\n"
    )
    (tmp_path / "job.yaml").write_text(
        "jobrun: 1\nname: walk\n"
        "init: [{task: start, steps: [x = 8.0, {metric: {begin: x}}]}]\n"
        "epoch:\n"
        "  - task: step\n"
        "    retry: {max: 2}\n"
        "    steps: [x = x / 2, {metric: {half: x}}, {call: 'flaky:fail_once'}, {metric: {h: x}}]\n"
        "metrics: {x: x}\nstop: [epochs: 6]\ncheckpoint: {every: 2ep}\n"
    )
    for epochs in (1, 2, 9):
        words = ["run", "job.yaml", "--resume", "auto", "--max-epochs", str(epochs)]
        assert invoke([*words, "--session", session]) in (0, 75)
        assert warnings_of(capsys.readouterr().err) == []

        assert json.loads(run_command(capsys, "metrics", "latest", "--json")[0])["gaps"] == []
    spans = read_journal(latest(tmp_path), run_id(tmp_path)).metrics
    assert sum(span.lines for span in spans) == 1 + 3 * 6


def latest(folder: Path) -> Path:
    return jobrun.runs(folder / "runs")[0].path


def run_id(folder: Path) -> str:
    return str(json.loads((latest(folder) / "run.json").read_text())["run_id"])
