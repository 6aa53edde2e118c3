"""``jobrun ckpt diff|export|copy``: what is said, and with which code it ends."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.cli.process.run_command import invoke
from tests.support.sample_runs import make_run


@pytest.fixture(autouse=True)
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def said(capsys, *words, code=0):
    assert invoke(["ckpt", *words]) == code
    return capsys.readouterr()


def test_two_epochs_differ_by_so_much(capsys):
    lines = said(capsys, "diff", "shrink@1", "shrink@2").out.splitlines()

    assert lines[0].startswith("first   epoch 1 in runs/shrink/")
    assert lines[2] == "  x  1 of 1 differ, max 2, relative norm 5.00e-01"


def test_with_check_the_exit_code_tells_and_with_all_equal_blobs_are_shown(capsys):
    out = said(capsys, "diff", "shrink@1", "shrink@1", "--check", "--all").out
    assert "  x  the same bits" in out
    said(capsys, "diff", "shrink@1", "shrink@2", "--check", code=8)


def test_a_diff_has_a_form_for_machines(capsys):
    form = json.loads(said(capsys, "diff", "shrink@1", "shrink@2", "--json").out)

    assert form["schema"] == "jobrun.ckpt-diff/1"
    assert (form["equal"], form["first"]["epoch"], form["second"]["epoch"]) == (False, 1, 2)
    assert (form["blobs"][0]["blob"], form["blobs"][0]["largest"]) == ("x", 2.0)


def test_the_name_of_the_file_tells_the_format(capsys, tmp_path):
    assert said(capsys, "export", "shrink@2", "-o", "x.npz").err.startswith("wrote x.npz: 1 blob,")
    with np.load(tmp_path / "x.npz") as found:
        assert found["x"] == 2.0
    assert "E403" in said(capsys, "export", "shrink@2", "-o", "x.txt", code=2).err
    assert "E434" in said(capsys, "export", "shrink@2", "-o", "x.npz", code=2).err


def test_a_copy_says_how_to_go_on(capsys):
    told = said(capsys, "copy", "shrink@2", "copy").err

    assert "copied epoch 2 of shrink/" in told
    assert told.endswith("next: jobrun resume copy\n")
    assert invoke(["resume", "copy", "--quiet"]) == 0
