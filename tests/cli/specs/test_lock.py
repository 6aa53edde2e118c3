"""``jobrun lock``."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.cli.run_command import invoke

SPEC = """\
jobrun: 1
name: reads
init:
  - {task: once, steps: [{load: {A: a.npy}}, w = sum(A)]}
epoch: [{task: again, steps: [w = w * 2]}]
stop: [{epochs: 1}]
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.arange(3.0))
    np.save("b.npy", np.arange(4.0))
    (tmp_path / "reads.yaml").write_text(SPEC)
    return tmp_path


def test_it_writes_a_lock_beside_the_spec_and_says_what_is_pinned(folder, capsys):
    assert invoke(["lock", "reads.yaml"]) == 0
    printed = capsys.readouterr().out

    assert printed.startswith("a.npy: 152 bytes, sha256:")
    assert printed.endswith("1 data file pinned in reads.lock.json\n")
    assert list(json.loads((folder / "reads.lock.json").read_text())["files"]) == ["a.npy"]


def test_check_compares_and_writes_nothing(folder, capsys):
    invoke(["lock", "reads.yaml"])
    assert invoke(["lock", "reads.yaml", "--check"]) == 0
    np.save("a.npy", np.arange(3.0) + 1)
    before = (folder / "reads.lock.json").read_bytes()

    assert invoke(["lock", "reads.yaml", "--check"]) == 8
    assert "error[E265] reads.yaml:4:" in capsys.readouterr().err
    assert (folder / "reads.lock.json").read_bytes() == before


def test_check_reports_what_is_not_pinned(folder, capsys):
    assert invoke(["lock", "reads.yaml", "--check"]) == 8
    assert "error[E267] reads.yaml:4:" in capsys.readouterr().err


def test_values_may_change_which_files_are_read(folder, capsys):
    spec = SPEC.replace("load: {A: a.npy}", 'load: {A: "${which}.npy"}')
    (folder / "reads.yaml").write_text(spec.replace("init:", "params: {which: a}\ninit:"))

    assert invoke(["lock", "reads.yaml", "--set", "params.which=b", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["schema"], list(shown["files"])) == ("jobrun.lock/1", ["b.npy"])


def test_a_spec_without_data_files_is_reported(folder, capsys):
    (folder / "none.yaml").write_text(SPEC.replace("{load: {A: a.npy}}, w = sum(A)", "w = 1.0"))

    assert invoke(["lock", "none.yaml"]) == 0
    assert "reads no data file" in capsys.readouterr().out
