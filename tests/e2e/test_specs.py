"""Every spec that is shipped is valid, compiles, and runs to its end."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.invoke import invoke
from tests.support.command import ROOT, SPECS, jobrun

ALL = sorted(path.name for path in SPECS.glob("*.yaml"))
# What these show cannot be the same twice: instances that learn without locks.
NOT_EXACT = {"word-vectors.yaml"}


def test_there_are_specs():
    assert len(ALL) >= 3


@pytest.mark.parametrize("name", ALL)
def test_a_shipped_spec_names_the_schema_and_says_what_it_shows(name):
    lines = (SPECS / name).read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=../schemas/job.schema.json"
    assert (ROOT / "schemas" / "job.schema.json").is_file()
    assert any(line.startswith("# Shows: ") for line in lines[:6])


@pytest.mark.parametrize("name", ALL)
def test_a_shipped_spec_is_valid_and_without_warnings_and_exact_where_it_says_so(name, capsys):
    assert invoke(["validate", str(SPECS / name), "--strict", "--format", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["specs"]
    assert (found["ok"], found["exact"], found["faults"]) == (True, name not in NOT_EXACT, [])


@pytest.mark.parametrize("name", ALL)
def test_a_shipped_spec_runs_to_its_end_from_any_folder(name, tmp_path):
    done = jobrun("run", SPECS / name, cwd=tmp_path, started=True)
    assert done.returncode == 0, done.stderr
    (record,) = (tmp_path / "runs").glob(f"{name.removesuffix('.yaml')}/2*/run.json")
    found = json.loads(record.read_text())
    assert (found["status"], found["exit_code"]) == ("finished", 0)
    assert sorted((record.parent / "artifacts").iterdir())
