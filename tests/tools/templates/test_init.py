"""Each template is in order, runs as it stands, and ends the same when it is killed between."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from jobrun.cli.invoke import invoke
from jobrun.runner.rundir import runs
from jobrun.spec.format import format_text
from jobrun.tools import templates
from jobrun.tools.comparing.checkpoints import stored_apart
from jobrun.tools.stored import find_stored
from jobrun.tools.templates import COMPANIONS, TEMPLATES, files_of, text_of
from tests.support.command import JOBRUN, environment, jobrun

each = pytest.mark.parametrize("name", TEMPLATES)


def test_each_file_is_listed_and_has_one_line():
    files = {path.stem for path in Path(templates.__file__).parent.glob("*.yaml")}

    assert files == set(TEMPLATES)
    beside = {path.stem for path in Path(templates.__file__).parent.glob("*.txt")}
    assert beside == {name for names in COMPANIONS.values() for name in names}
    assert all(len(f"{name}  {about}") < 80 for name, about in TEMPLATES.items())


@each
def test_it_is_in_order_and_short(name):
    text = text_of(name)

    assert format_text(text, name) == text
    assert len(text.splitlines()) < 70
    assert max(map(len, text.splitlines())) <= 100
    assert text.startswith("# ")
    assert f"jobrun run {name}.yaml" in text


@each
def test_it_is_exact_and_without_a_warning(name, tmp_path, capsys):
    _write(name, tmp_path)

    assert invoke(["validate", "--strict", str(tmp_path / f"{name}.yaml")]) == 0
    assert "exact" in capsys.readouterr().out


@pytest.mark.long
@each
def test_killed_and_resumed_it_ends_as_if_nothing_had_happened(name, tmp_path):
    if name == "torch":
        pytest.importorskip("torch", reason="a package of its own, which CI installs")
    _write(name, tmp_path)
    whole = jobrun("run", f"{name}.yaml", "--quiet", "--run-dir", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr

    _kill_after_an_epoch(name, tmp_path)
    done = jobrun("resume", "--quiet", cwd=tmp_path)
    if done.returncode:
        # It was faster than the kill.
        assert "E360" in done.stderr

    first, second = (runs(tmp_path / folder, name)[-1] for folder in ("whole", "runs"))
    assert second.record.status == "finished"
    assert second.record.epoch == first.record.epoch
    sides = [find_stored(str(run.path), tmp_path) for run in (first, second)]
    assert [blob.name for blob in stored_apart(*sides) if not blob.apart.equal] == []


def _write(name, folder):
    for file, text in files_of(name).items():
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
