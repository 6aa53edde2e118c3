"""``jobrun plan``."""

from __future__ import annotations

import json

from jobrun.cli.invoke import invoke
from tests.support.command import SPECS
from tests.support.walk import SPEC

KMEANS = str(SPECS / "digits-kmeans.yaml")


def test_the_plan_tells_groups_state_sizes_and_exactness(capsys):
    assert invoke(["plan", KMEANS, "--set", "params.k=12"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    out = printed.out
    groups = [out.index(f"\n{group} (") for group in ("init", "epoch", "exit")]
    assert groups == sorted(groups)
    assert "C float64 12x64" in out
    assert "X float64 1797x64" in out
    assert "equals an unbroken one bit for bit" in out


def test_the_plan_is_there_as_json(capsys):
    assert invoke(["plan", KMEANS, "--json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["schema"] == "jobrun.plan/1"
    assert [group["name"] for group in parsed["groups"]] == ["init", "epoch", "download", "exit"]


def test_numbers_that_json_does_not_know_are_text(tmp_path, capsys):
    spec = SPEC.replace("params: {rate: 0.5}", "params: {rate: 0.5, most: .inf}")
    (tmp_path / "walk.yaml").write_text(spec)
    assert invoke(["plan", str(tmp_path / "walk.yaml"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["params"]["most"] == "inf"


def test_without_its_data_a_job_has_a_plan_too(tmp_path, capsys):
    (tmp_path / "alone.yaml").write_text((SPECS / "digits-kmeans.yaml").read_text())
    assert invoke(["plan", str(tmp_path / "alone.yaml")]) == 0
    assert "state" in capsys.readouterr().out
    assert not (tmp_path / "runs").exists()
