"""The workflow files for CI: they are what the services read, and what they run works."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.support.command import ROOT, bash, environment

CI = ROOT / "specs" / "ci"
GITHUB, GITLAB = CI / "github-actions.yml", CI / "gitlab-ci.yml"


@pytest.mark.long
@pytest.mark.parametrize(
    ("schema", "path"), [("vendor.github-workflows", GITHUB), ("vendor.gitlab-ci", GITLAB)]
)
def test_each_file_fits_the_schema_of_its_service(schema, path):
    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, str(path)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout


def _github():
    content = yaml.safe_load(GITHUB.read_text())
    steps = content["jobs"]["smoke"]["steps"]
    return content["env"], [step["run"] for step in steps if "run" in step]


def _gitlab():
    content = yaml.safe_load(GITLAB.read_text())
    lines = [line for name in ("validate", "smoke") for line in content[name]["script"]]
    return content["variables"], [*content[".jobrun"]["before_script"], *lines]


def _checkout(folder):
    """What a checkout of a project with these files has."""
    shutil.copytree(CI, folder / "specs" / "ci")
    return folder


def test_both_services_install_first_and_run_the_same_commands():
    github, gitlab = _github()[1], _gitlab()[1]

    assert github[0] == gitlab[0] == "python -m pip install jobrun"
    # Only one of them shows annotations.
    assert [line.replace(" --format github", "") for line in github] == gitlab


@pytest.mark.long
def test_the_workflow_fails_where_a_spec_is_wrong(tmp_path):
    spec = _checkout(tmp_path) / "specs" / "ci" / "smoke.yaml"
    spec.write_text(spec.read_text().replace("loss < 0.4", "loss < 0.0001"))
    variables, lines = _github()
    test = next(line for line in lines if " test " in line)

    code, out, _ = bash(test, tmp_path, environment(**variables))

    assert code == 9
    assert "::error file=specs/ci/smoke.yaml,line=" in out


@pytest.mark.long
@pytest.mark.parametrize("service", [_github, _gitlab])
def test_what_the_workflow_runs_works_in_a_checkout(tmp_path, service):
    variables, (_, *lines) = service()
    summary = tmp_path / "summary.md"
    env = environment(CI="true", GITHUB_STEP_SUMMARY=str(summary), **variables)

    for line in lines:
        code, out, err = bash(line, _here(tmp_path), env)
        assert code == 0, f"{line}\n{out}{err}"

    suite = ET.parse(tmp_path / "results.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("1", "0", "0")
    assert re.search(r"smoke.yaml.*passed", summary.read_text())


def _here(folder):
    return folder if (folder / "specs").exists() else _checkout(folder)
