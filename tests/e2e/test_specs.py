"""Every spec that is shipped is valid, compiles, and runs to its end."""

from __future__ import annotations

import json
import re
from xml.etree import ElementTree

import pytest

from jobrun.cli.app import COMMANDS
from jobrun.cli.run_command import invoke
from tests.support.command import ROOT, SPECS, jobrun
from tests.support.drawing import differs
from tests.support.gallery import PICTURES, drawn
from tests.support.tables import each_case

ALL = sorted(path.name for path in SPECS.glob("*.yaml"))
# What these show cannot be the same twice: instances that learn without locks.
NOT_EXACT = {"word-vectors.yaml"}
# Another processor rounds otherwise, and the lines of a picture are a little elsewhere.
TOLERANCE = 0.03
# The others with the long tests; of those, torch is what only CI is sure to have.
QUICK = {"two-nodes.yaml"}
RUNS = [pytest.param(name, marks=[pytest.mark.long] * (name not in QUICK)) for name in ALL]


def test_there_are_specs():
    assert len(ALL) >= 3


@each_case("name", ALL)
def test_a_shipped_spec_names_the_schema_and_says_what_it_shows(name):
    lines = (SPECS / name).read_text().splitlines()
    assert lines[0] == "# yaml-language-server: $schema=../schemas/job.schema.json"
    assert (ROOT / "schemas" / "job.schema.json").is_file()
    assert any(line.startswith("# Shows: ") for line in lines[:6])


@pytest.mark.parametrize("name", ALL)
def test_a_shipped_spec_is_valid_and_without_warnings_and_exact_where_it_says_so(name, capsys):
    assert invoke(["validate", str(SPECS / name), "--strict", "--format", "json"]) == 0
    (actual,) = json.loads(capsys.readouterr().out)["specs"]
    assert (actual["ok"], actual["exact"], actual["faults"]) == (True, name not in NOT_EXACT, [])


@pytest.mark.long
@pytest.mark.parametrize("name", RUNS)
def test_a_shipped_spec_runs_to_its_end_from_any_folder_and_gives_its_picture(name, tmp_path):
    done = jobrun("run", SPECS / name, cwd=tmp_path, started=True)
    assert done.returncode == 0, done.stderr
    stem = name.removesuffix(".yaml")
    (record,) = (tmp_path / "runs").glob(f"{stem}/2*/run.json")
    actual = json.loads(record.read_text())
    assert (actual["status"], actual["exit_code"]) == ("finished", 0)
    assert sorted((record.parent / "artifacts").iterdir())
    picture = drawn(stem, record.parent)
    if name not in NOT_EXACT:
        assert differs((PICTURES / f"{stem}.svg").read_text(), picture, TOLERANCE) == ""


def test_shipped_specs_are_in_the_usual_order(capsys):
    files = [*SPECS.glob("*.yaml"), SPECS / "ci" / "smoke.yaml"]
    assert invoke(["fmt", "--check", *map(str, files)]) == 0, capsys.readouterr().out


def test_the_gallery_shows_each_spec_once_with_a_picture_of_its_result():
    parts = (SPECS / "README.md").read_text().split("\n## ")[1:]
    shown = [part.partition("\n")[0] for part in parts]
    assert sorted(shown) == [name.removesuffix(".yaml") for name in ALL]
    for name, part in zip(shown, parts, strict=True):
        assert f"](pictures/{name}.svg)" in part, name
        assert 6 <= len(part.strip().splitlines()) <= 18, name
        for command in re.findall(r"^    jobrun ([\w-]+)", part, re.MULTILINE):
            assert command in COMMANDS, name


def test_every_picture_is_shown_in_the_gallery_and_can_be_read_as_xml():
    text = (SPECS / "README.md").read_text()
    for path in PICTURES.iterdir():
        assert f"](pictures/{path.name})" in text
        assert ElementTree.parse(path).getroot().tag == "{http://www.w3.org/2000/svg}svg"
