"""Each template is in order, runs as it stands, and ends the same when it is killed between."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobrun.cli.run_command import invoke
from jobrun.runner.rundir.run_directories import runs
from jobrun.spec.format_text import format_text
from jobrun.tools import templates
from jobrun.tools.diff import compare_stored
from jobrun.tools.lazy_blobs import find_stored_epoch
from jobrun.tools.templates import (
    COMPANIONS,
    REQUIREMENTS,
    TEMPLATES,
    template_files,
    template_text,
)
from tests.support.command import JOBRUN, environment, jobrun

each = pytest.mark.parametrize("name", TEMPLATES)


def test_each_file_is_listed_and_has_one_line():
    files = {path.stem for path in Path(templates.__file__).parent.glob("*.yaml")}

    assert files == set(TEMPLATES)
    companions = {path.stem for path in Path(templates.__file__).parent.glob("*.txt")}
    assert companions == {name for names in COMPANIONS.values() for name in names}
    assert all(len(f"{name}  {about}") < 80 for name, about in TEMPLATES.items())


@each
def test_it_is_in_order_and_short(name):
    text = template_text(name)

    assert format_text(text, name) == text
    assert len(text.splitlines()) < 70
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith("# ")
    assert f"jobrun run {name}.yaml" in text
    # Where a person begins to make it their own, at the top and as the last words of a run.
    assert "\n# To change next: " in text.partition("\njobrun: 1\n")[0]
    assert '- log: "to change next: ' in text


def test_the_spec_of_a_script_is_short_and_its_module_has_two_functions():
    spec = [line for line in template_text("script").splitlines() if not line.startswith("#")]
    defined = [
        node.name
        for node in ast.parse(template_files("script")["script.py"]).body
        if isinstance(node, ast.FunctionDef)
    ]

    assert len(spec) <= 14
    assert defined == ["init", "epoch"]


@each
def test_its_modules_are_formatted(name, tmp_path):
    _write(name, tmp_path)
    for check in (["check", "--select=E,F,I,B,D1", "--ignore=D103"], ["format", "--check"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *check, "--isolated", "--line-length=100", tmp_path],
            check=False, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout


@each
def test_it_is_exact_and_without_a_warning(name, tmp_path, capsys):
    _write(name, tmp_path)

    assert invoke(["validate", "--strict", str(tmp_path / f"{name}.yaml")]) == 0
    assert "exact" in capsys.readouterr().out


@pytest.mark.long
@each
def test_killed_and_resumed_it_ends_as_if_nothing_had_happened(name, tmp_path):
    if name in REQUIREMENTS:
        pytest.importorskip(REQUIREMENTS[name][0], reason="a package that CI installs")
    _write(name, tmp_path)
    whole = jobrun("run", f"{name}.yaml", "--run-dir", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    assert "result: to change next: " in whole.stdout + whole.stderr

    _kill_after_an_epoch(name, tmp_path)
    done = jobrun("resume", "--quiet", cwd=tmp_path)
    if done.returncode:
        # It was faster than the kill.
        assert "E360" in done.stderr

    first, second = (runs(tmp_path / folder, name)[-1] for folder in ("whole", "runs"))
    assert second.record.status == "finished"
    assert second.record.epoch == first.record.epoch
    sides = [find_stored_epoch(str(run.path), tmp_path) for run in (first, second)]
    assert [blob.name for blob in compare_stored(*sides) if not blob.apart.equal] == []


def _write(name, folder):
    for file, text in template_files(name).items():
        (folder / file).write_text(text)


def _kill_after_an_epoch(name, folder):
    process = subprocess.Popen(
        [*JOBRUN, "run", f"{name}.yaml", "--quiet"], cwd=folder, env=environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    while process.poll() is None:
        journals = list(folder.glob(f"runs/{name}/*/committed.jsonl"))
        if any(path.read_bytes().count(b"\n") > 1 for path in journals):
            process.kill()
        time.sleep(0.001)
    process.wait()
