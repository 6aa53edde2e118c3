"""``jobrun validate``."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke
from tests.support.walk_spec import SPEC

WRONG = SPEC.replace("  - epochs: 4", "  - epoch: 4")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(SPEC)
    (tmp_path / "wrong.yaml").write_text(WRONG)
    return tmp_path


def test_a_valid_spec_is_summarised_in_one_line(folder, capsys):
    assert invoke(["validate", "good.yaml"]) == 0
    assert capsys.readouterr() == (
        "good.yaml: ok (exact; 1 node; 2 tasks; state total, x)\n",
        "",
    )
    assert sorted(path.name for path in folder.iterdir()) == ["good.yaml", "wrong.yaml"]


def test_all_specs_are_looked_at_and_one_wrong_is_exit_code_3(folder, capsys):
    assert invoke(["validate", "wrong.yaml", "good.yaml"]) == 3
    printed = capsys.readouterr()
    assert "wrong.yaml:17:5  stop[0].epoch: unknown key" in printed.err
    (line,) = printed.out.splitlines()
    assert line.startswith("good.yaml: ok (")


def test_json_has_each_fault_with_its_position(folder, capsys):
    assert invoke(["validate", "good.yaml", "wrong.yaml", "--format", "json"]) == 3
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["schema"] == "jobrun.validate/1"
    good, wrong = parsed["specs"]
    assert (good["ok"], good["exact"], good["faults"]) == (True, True, [])
    assert (wrong["ok"], wrong["exact"]) == (False, None)
    (fault,) = wrong["faults"]
    assert (fault["file"], fault["line"], fault["column"]) == ("wrong.yaml", 17, 5)


def test_github_gets_annotations(folder, capsys):
    assert invoke(["validate", "wrong.yaml", "--format", "github"]) == 3
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("::error file=wrong.yaml,line=17,col=5,")
    assert "unknown key" in line


def test_a_missing_data_file_is_a_warning_and_with_strict_a_failure(folder, capsys):
    text = SPEC.replace("      - total = 0.0", "      - total = 0.0\n      - load: {y: no.npy}")
    (folder / "good.yaml").write_text(text)
    assert invoke(["validate", "good.yaml"]) == 0
    assert "no data file no.npy" in capsys.readouterr().err
    assert invoke(["validate", "good.yaml", "--strict"]) == 3


def test_callables_are_imported_only_when_asked(folder, capsys):
    (folder / "tools.py").write_text("open('imported', 'w').close()\nraise ValueError('no')\n")
    call = '      - total = 0.0\n      - {call: "tools:bump", with: {x: x}}'
    (folder / "good.yaml").write_text(SPEC.replace("      - total = 0.0", call))
    invoke(["validate", "good.yaml"])
    assert not (folder / "imported").exists()
    capsys.readouterr()
    assert invoke(["validate", "good.yaml", "--imports", "--strict"]) == 3
    assert (folder / "imported").exists()
    assert "ValueError: no" in capsys.readouterr().err


def test_a_missing_spec_is_reported(folder, capsys):
    assert invoke(["validate", "gone.yaml"]) in (2, 3)
    assert "gone.yaml" in capsys.readouterr().err
