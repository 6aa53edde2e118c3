"""A run continues with the spec that it recorded, and with no other."""

from __future__ import annotations

import json
import os

import pytest

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.rundir.spec_folder import install_spec, load_recorded_spec, stage_spec
from jobrun.spec.load import load_spec
from tests.support.stored_runs import epochs, only_run

SPEC = """\
# A comment at the top, so that lines are not those of resolved.yaml.
jobrun: 1
name: add
params: {by: 1.5}
init: [{task: start, steps: ["x = 0.0"]}]
epoch:

  - task: step
    steps:
      - x = x + by
      - {assert: "x < 100", message: too much}
stop: [{epochs: 6}]
"""


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """A run that was stopped after two of its six epochs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "add.yaml").write_text(SPEC)
    assert invoke(["run", "add.yaml", "--max-epochs", "2", "-q"]) == 75
    capsys.readouterr()
    return only_run(tmp_path / "runs")


def _contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _edit(run, old="x = x + by", new="x = x + by + 100"):
    path = run / "spec" / "resolved.yaml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    "command",
    [
        ["resume"], ["resume", "--strict"], ["resume", "--dry-run"], ["fork", "add"],
        ["resume", "--set", "description=more"], ["fork", "add", "--set", "description=more"],
        ["resume", "--epochs", "9"], ["resume", "--epoch", "1"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_an_edited_recorded_spec_is_refused_and_nothing_is_written(run, command, capsys):
    _edit(run)
    before = _contents(run.parent)

    assert invoke([*command]) == 5

    printed = capsys.readouterr().err
    assert "E441" in printed
    assert "resolved.yaml is not the spec that this run recorded" in printed
    assert "jobrun resume" in printed
    assert "--spec add.yaml" in printed
    assert _contents(run.parent) == before


def test_any_flipped_bit_of_the_recorded_spec_is_refused(run, capsys):
    path = run / "spec" / "resolved.yaml"
    good = path.read_bytes()
    codes = set()
    for offset in range(0, len(good), 7):
        bad = bytearray(good)
        bad[offset] ^= 1 << (offset % 7)
        path.write_bytes(bad)
        codes.add(invoke(["resume", "--strict", "-q"]))
    assert codes == {4, 5}
    path.write_bytes(good)
    assert invoke(["resume", "--strict", "-q"]) == 0


def test_a_recorded_spec_that_is_no_spec_any_more_is_damaged(run, capsys):
    path = run / "spec" / "resolved.yaml"
    path.write_bytes(path.read_bytes()[:40] + b"\0")

    assert invoke(["resume"]) == 4
    assert "E440" in capsys.readouterr().err


def test_the_unchanged_spec_continues_a_run_whose_record_was_edited(run, capsys):
    good = (run / "spec" / "resolved.yaml").read_bytes()
    _edit(run)

    assert invoke(["resume", "add", "--spec", "add.yaml", "--strict"]) == 0

    assert "not what this run recorded" in capsys.readouterr().err
    assert (run / "spec" / "resolved.yaml").read_bytes() == good
    assert b"100" in (run / "spec" / "resolved-1.yaml").read_bytes()
    assert max(epochs(run)) == 6


def test_another_spec_with_an_edited_record_is_drift(run, capsys):
    _edit(run)
    (run.parents[2] / "add.yaml").write_text(SPEC.replace("x + by", "x - by"))

    assert invoke(["resume", "add", "--spec", "add.yaml"]) == 5
    printed = capsys.readouterr().err
    assert "E369" in printed
    assert "--accept-drift spec" in printed
    assert invoke(["resume", "--spec", "add.yaml", "--accept-drift", "spec", "-q"]) == 0


def test_changed_spec_file_warns_with_the_command_that_uses_it(run, capsys):
    (run.parents[2] / "add.yaml").write_text(SPEC.replace("1.5", "2.5"))
    line = (
        "add.yaml has changed since this run started; continuing with the recorded spec "
        f"(to use the new one: jobrun resume add/{run.name} --spec add.yaml)"
    )

    assert invoke(["resume", "--dry-run"]) == 0
    assert "add.yaml has changed since this run started" in capsys.readouterr().err
    assert invoke(["fork", "add", "--max-epochs", "1"]) == 75
    assert "add.yaml has changed since this run started" in capsys.readouterr().err
    assert invoke(["resume", str(run)]) == 0
    assert line in capsys.readouterr().err


def test_only_a_changed_spec_file_gives_a_warning(run, capsys):
    assert invoke(["resume", "--dry-run"]) == 0
    unchanged = capsys.readouterr().err.splitlines()
    (run.parents[2] / "add.yaml").write_text(SPEC.replace("1.5", "2.5"))
    assert invoke(["resume", "--dry-run"]) == 0

    added = [line for line in capsys.readouterr().err.splitlines() if line not in unchanged]
    assert added
    assert all("add.yaml" in line or line.startswith(" ") for line in added)
    assert not any("add.yaml" in line for line in unchanged)


def test_a_fault_of_a_resumed_run_points_at_the_file_its_author_wrote(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    text = SPEC.replace("x < 100", "x < 4")
    (tmp_path / "add.yaml").write_text(text)
    assert invoke(["run", "add.yaml", "--max-epochs", "2", "-q"]) == 75
    capsys.readouterr()

    assert invoke(["resume"]) == 1
    printed = capsys.readouterr().err
    assert "add.yaml:11:" in printed
    assert '{assert: "x < 4"' in printed
    assert "resolved.yaml" not in printed

    (tmp_path / "add.yaml").write_text("\n\n" + text)
    assert invoke(["resume"]) == 1
    printed = capsys.readouterr().err
    copy_path = os.path.relpath(only_run(tmp_path / "runs") / "spec" / "add.yaml")
    assert f"{copy_path}:11:" in printed
    assert "add.yaml has changed since" in printed


def test_a_value_of_an_option_of_the_start_has_that_place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "add.yaml").write_text(SPEC)
    words = ["run", "add.yaml", "--max-epochs", "2", "-q"]
    assert invoke([*words, "--set", "params.by=2.5"]) == 75
    run = only_run(tmp_path / "runs")
    shown = "--set #1: params.by=2.5 (recorded)"

    assert str(load_recorded_spec(open_run(run)).source.at(("params", "by", "default"))) == shown
    # What is recorded again has the same places.
    assert invoke(["resume", "--set", "description=more", "--max-epochs", "1"]) == 75
    source = load_recorded_spec(open_run(run)).source
    assert str(source.at(("params", "by", "default"))) == shown
    assert str(source.at(("description",))) == "--set #1: description=more (recorded)"
    assert source.at(("init",)).line == 5


def test_places_of_included_files_survive(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "parts").mkdir()
    head, _, epochs = SPEC.partition("epoch:")
    tail = epochs.replace("x < 100", "x < 4").replace("x = x + by", "x = x + by # more")
    (tmp_path / "parts" / "rest.yaml").write_text(f"epoch:{tail}")
    (tmp_path / "add.yaml").write_text("include: [parts/rest.yaml]\n" + head)
    assert invoke(["run", "add.yaml", "--max-epochs", "2", "-q"]) == 75
    capsys.readouterr()
    monkeypatch.chdir(tmp_path / "parts")

    assert invoke(["resume", "--run-dir", "../runs"]) == 1
    assert " rest.yaml:6:" in capsys.readouterr().err


def test_a_kill_between_the_writing_of_a_changed_spec_and_of_run_json_loses_neither(run):
    before = open_run(run)
    old = (run / "spec" / "resolved.yaml").read_bytes()
    (run.parents[2] / "add.yaml").write_text(SPEC.replace("epochs: 6", "epochs: 5"))
    loaded = load_spec("add.yaml")

    from jobrun.runner.identity.recorded_job import compile_authored, digest_authored  # noqa: PLC0415

    digest = stage_spec(run, loaded, compile_authored(loaded))
    assert load_recorded_spec(before).spec.stop[0].epochs == 6
    after = before.write(spec_digest=digest_authored(loaded), resolved_digest=digest)
    assert (run / "spec" / "resolved.yaml").read_bytes() == old
    assert load_recorded_spec(after).spec.stop[0].epochs == 5
    install_spec(run)
    assert load_recorded_spec(after).spec.stop[0].epochs == 5


def test_run_json_has_no_absolute_path_and_neither_have_the_places(run):
    places = json.loads((run / "spec" / "origins.json").read_text())

    assert [file["path"] for file in places["files"]] == ["../../../add.yaml"]
    assert places["resolved"] == open_run(run).record.resolved_digest
