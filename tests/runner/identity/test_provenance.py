"""What a run was started by and from is recorded and shown."""

from __future__ import annotations

import json
import subprocess

import pytest

from jobrun.cli.run_command import invoke
from jobrun.graph.types import Cluster, Job, TaskGroup
from jobrun.runner.identity.provenance import collect_provenance, iter_code_rows
from jobrun.runner.identity.recorded_job import PythonJob
from jobrun.runner.rundir.run_directories import open_run
from jobrun.runner.rundir.run_json import RunRecord
from tests.support.stored_runs import only_run

SPEC = """\
jobrun: 1
name: add
init: [{task: start, steps: ["x = 0.0"]}]
epoch: [{task: step, steps: ["x = x + 1"]}]
stop: [{epochs: 2}]
"""


def _git(folder, *words):
    who = ("-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def _in(folder):
    """Something to run, with that folder."""
    return PythonJob(Job("j", Cluster(()), TaskGroup("init"), TaskGroup("epoch")), str(folder))


@pytest.fixture
def repository(tmp_path):
    """A repository with the spec in a folder of it, all committed."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "add.yaml").write_text(SPEC)
    (tmp_path / "uv.lock").write_text("version = 1\n")
    _git(tmp_path, "init", "-q")
    _git(tmp_path, "add", ".")
    _git(tmp_path, "commit", "-qm", "first")
    return tmp_path


def test_commit_changes_and_lock_files_are_recorded(repository):
    folder = repository / "jobs"
    (folder / "requirements.txt").write_text("numpy\n")
    clean = collect_provenance(_in(folder))
    assert len(clean["git"]["commit"]) == 40
    assert clean["git"]["dirty"] is False
    assert "diff" not in clean["git"]
    assert sorted(clean["lock_files"]) == ["../uv.lock", "requirements.txt"]

    (folder / "add.yaml").write_text(SPEC + "# more\n")
    dirty = collect_provenance(_in(folder))["git"]
    (folder / "add.yaml").write_text(SPEC + "# others\n")
    other = collect_provenance(_in(folder))["git"]

    assert dirty["dirty"] is other["dirty"] is True
    assert dirty["commit"] == clean["git"]["commit"]
    assert dirty["diff"] != other["diff"]


def test_no_git_facts_without_git(tmp_path, monkeypatch):
    assert "git" not in collect_provenance(_in(tmp_path))
    (tmp_path / ".git").write_text("gitdir: /nowhere\n")
    assert "git" not in collect_provenance(_in(tmp_path))
    (tmp_path / ".git").unlink()
    _git(tmp_path, "init", "-q")
    assert "git" not in collect_provenance(_in(tmp_path))
    monkeypatch.setenv("PATH", "/nowhere")
    assert "git" not in collect_provenance(_in(tmp_path))


def test_git_runs_no_program_of_the_repository(repository):
    _git(repository, "config", "core.fsmonitor", f"touch {repository}/ran; true")
    _git(repository, "config", "diff.external", f"touch {repository}/ran; true")
    (repository / "jobs" / "add.yaml").write_text(SPEC + "# more\n")
    assert collect_provenance(_in(repository / "jobs"))["git"]["dirty"] is True
    assert not (repository / "ran").exists()


def test_status_and_report_show_it(repository, monkeypatch, capsys):
    monkeypatch.chdir(repository / "jobs")
    monkeypatch.setattr("sys.argv", ["/usr/bin/jobrun", "run", "add.yaml", "--max-epochs", "1"])
    assert invoke(["run", "add.yaml", "--max-epochs", "1", "-q"]) == 75
    commit = open_run(only_run(repository / "jobs" / "runs")).record.provenance["git"]["commit"]
    capsys.readouterr()

    assert invoke(["status", "add", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["command"] == ["jobrun", "run", "add.yaml", "--max-epochs", "1"]
    assert printed["git"]["commit"] == commit
    assert list(printed["lock_files"]) == ["../uv.lock"]
    assert printed["packages"] == {}
    assert invoke(["status", "add"]) == 0
    printed = capsys.readouterr().out
    assert "jobrun run add.yaml --max-epochs 1" in printed
    assert f"commit {commit[:12]}, ../uv.lock" in printed
    assert invoke(["report", "add", "--out", "report.html"]) == 0
    assert commit[:12] in (repository / "jobs" / "report.html").read_text()


def test_a_module_that_is_run_is_recorded_as_the_program(tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["/somewhere/jobrun/__main__.py", "run", "add.yaml"])

    assert collect_provenance(_in(tmp_path))["command"] == ["jobrun", "run", "add.yaml"]


def test_rows_say_what_is_there_and_nothing_else():
    assert list(iter_code_rows(RunRecord("id", "j", "now"))) == []
    facts = {
        "command": ["jobrun", "run", "a b.yaml"],
        "git": {"commit": "a" * 40, "dirty": True, "diff": f"sha256:{'b' * 64}"},
        "lock_files": {"uv.lock": "sha256:"},
    }
    record = RunRecord("id", "j", "now", packages={"torch": "2.1"}, provenance=facts)
    assert dict(iter_code_rows(record)) == {
        "start": "jobrun run 'a b.yaml'",
        "code": f"commit {'a' * 12} with changes ({'b' * 12}), 1 package, uv.lock",
    }
