from __future__ import annotations

import json

from jobrun.cli.run_command import invoke
from jobrun.cli.runs import doctor
from jobrun.tools.doctor import Finding


def test_what_was_found_is_a_table(tmp_path, capsys):
    assert invoke(["doctor", "--run-dir", str(tmp_path)]) == 0

    output = capsys.readouterr().out
    assert "ok    jobrun" in output
    assert "fsync" in output


def test_the_same_as_json(tmp_path, capsys):
    assert invoke(["doctor", "--run-dir", str(tmp_path), "--json"]) == 0

    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "jobrun.doctor/1"
    assert {"topic", "text", "verdict", "mend"} == set(document["findings"][0])


def test_something_bad_is_the_exit_code_of_the_environment(monkeypatch, capsys):
    bad = (Finding("lock", "not seen", "bad", "choose another directory"),)
    monkeypatch.setattr(doctor, "examine", lambda run_dir: bad)

    assert invoke(["doctor"]) == 7

    assert capsys.readouterr().out == "BAD   lock  not seen\n            choose another directory\n"
