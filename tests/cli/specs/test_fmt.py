"""``jobrun fmt``: what is written, what is said, and with which code it ends."""

from __future__ import annotations

import json

import pytest

from jobrun.cli.run_command import invoke

MIXED = "name: x  # its name\njobrun: 1\n"
ORDERED = "jobrun: 1\nname: x  # its name\n"


@pytest.fixture
def spec(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.yaml"
    path.write_text(MIXED)
    return path


def test_a_file_is_put_in_order_once(spec, capsys):
    spec.chmod(0o640)

    assert invoke(["fmt", "x.yaml"]) == 0
    assert "formatted: x.yaml" in capsys.readouterr().err
    assert (spec.read_text(), spec.stat().st_mode & 0o777) == (ORDERED, 0o640)
    assert invoke(["fmt", "x.yaml"]) == 0
    assert capsys.readouterr().err == "x.yaml is formatted\n"


def test_with_check_nothing_is_written_and_the_exit_code_says_so(spec, capsys):
    assert invoke(["fmt", "--check", "x.yaml"]) == 8
    assert spec.read_text() == MIXED
    assert capsys.readouterr().err == "would change: x.yaml\n"
    spec.write_text(ORDERED)
    assert invoke(["fmt", "--check", "x.yaml"]) == 0


def test_with_diff_the_change_is_shown_and_not_made(spec, capsys):
    assert invoke(["fmt", "--diff", "x.yaml"]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "+jobrun: 1",
        " name: x  # its name",
        "-jobrun: 1",
    ]
    assert spec.read_text() == MIXED


def test_a_form_for_machines(spec, capsys):
    assert invoke(["fmt", "--check", "--json", "x.yaml"]) == 8
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "jobrun.fmt/1"
    assert document["files"] == [{"path": "x.yaml", "changed": True}]


def test_a_file_that_cannot_be_read_does_not_keep_others_from_order(spec, capsys):
    (spec.parent / "bad.yaml").write_text("a: [1\n")

    assert invoke(["fmt", "bad.yaml", "x.yaml"]) == 3
    assert "E005" in capsys.readouterr().err
    assert spec.read_text() == ORDERED


def test_what_cannot_be_ordered_is_left_alone(spec, capsys):
    text = "epoch:\n  - {steps: [a],  # these\n     task: t}\n"
    spec.write_text(text)

    assert invoke(["fmt", "x.yaml"]) == 3
    assert "error[E420] x.yaml:2:5" in capsys.readouterr().err
    assert spec.read_text() == text
