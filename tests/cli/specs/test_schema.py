"""``jobrun schema``."""

from __future__ import annotations

import json

from jobrun.cli.run_command import invoke
from tests.support.command import ROOT


def test_the_schema_is_printed_and_is_the_one_of_the_repository(capsys):
    assert invoke(["schema"]) == 0
    printed = capsys.readouterr().out
    assert json.loads(printed)["$schema"].startswith("https://json-schema.org/")
    assert printed == (ROOT / "schemas" / "job.schema.json").read_text()


def test_the_schema_is_written_whole(tmp_path, capsys):
    out = tmp_path / "job.schema.json"
    out.write_text("old")
    assert invoke(["schema", "--out", str(out)]) == 0
    assert capsys.readouterr().out == ""
    assert out.read_text() == (ROOT / "schemas" / "job.schema.json").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["job.schema.json"]
