"""``jobrun ckpt``: what is said, and with which code it ends."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.cli.run_command import invoke
from jobrun.core.errors import EnvironmentFaultError
from tests.support.mid_epoch_job import FailingAt, Stand
from tests.support.sample_runs import make_run


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return make_run(tmp_path)


def said(capsys, *words, code=0):
    assert invoke(["ckpt", *words]) == code
    return capsys.readouterr()


def break_one(run, epoch):
    (file,) = (run.path / "checkpoints" / f"epoch-{epoch:06}").glob("*.h5")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def test_whole_checkpoints_are_good(run, capsys):
    assert said(capsys, "verify").out.splitlines() == [f"epoch {n}  good" for n in range(5)]
    assert said(capsys, "verify", "shrink@2").out == "epoch 2  good\n"


def test_checkpoints_are_listed_without_being_read(run, capsys):
    said(capsys, "pin", "shrink@2")
    break_one(run, 3)

    head, *rows = said(capsys, "list").out.splitlines()
    assert head.split() == ["epoch", "age", "size", "pinned", "x"]
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert ["pinned" in row for row in rows] == [False, False, True, False, False]
    assert [row.split()[-1] for row in rows] == ["-", "4", "2", "1", "0.5"]
    form = json.loads(said(capsys, "list", "shrink", "--json").out)["epochs"]
    files = (run.path / "checkpoints" / "epoch-000004").iterdir()
    assert form[4]["size_bytes"] == sum(path.stat().st_size for path in files)
    assert form[4]["metrics"] == {"x": 0.5}


def test_a_damaged_one_is_named_and_the_code_is_8(run, capsys):
    break_one(run, 3)

    lines = said(capsys, "verify", "shrink", code=8).out.splitlines()

    assert "epoch 3  damaged  node local:" in lines[3]
    assert lines[4] == "epoch 4  good"
    form = json.loads(said(capsys, "verify", "--json", code=8).out)
    assert form["schema"] == "jobrun.ckpt-verify/1"
    assert [one["good"] for one in form["epochs"]] == [True, True, True, False, True]


def test_pins_are_said_and_hold(run, capsys):
    assert "pinned epochs: 1" in said(capsys, "pin", "shrink@1").err
    assert "pinned epochs: 1, 4" in said(capsys, "pin", "shrink@latest").err
    assert "would delete epoch 2," in said(capsys, "prune", "--last", "2", "--dry-run").err
    deleted = said(capsys, "prune", "--last", "2").err
    assert deleted.startswith("deleted epoch 2, ")
    assert deleted.endswith("; epochs 0-1, 3-4 stay (epochs 1, 4 pinned)\n")
    assert said(capsys, "verify").out.splitlines() == [f"epoch {n}  good" for n in (0, 1, 3, 4)]
    assert "pinned epochs: 4" in said(capsys, "unpin", "shrink@1").err
    assert "pinned epochs: none" in said(capsys, "unpin", "shrink@4").err


def test_a_pin_of_an_epoch_that_is_gone_can_be_taken_off(run, capsys):
    (run.path / "pins.json").write_text('{"format": 1, "pinned": [77]}')

    assert "pinned epochs: none" in said(capsys, "unpin", "shrink@77").err
    assert "has no epoch 77" in said(capsys, "pin", "shrink@77", code=4).err


def test_without_a_rule_prune_asks_for_one(run, capsys):
    assert "--last N" in said(capsys, "prune", code=2).err


def test_where_nothing_goes_prune_says_what_stays(run, capsys):
    assert said(capsys, "prune", "--last", "9").err == "nothing to delete: epochs 0-4 stay\n"


def test_prune_says_what_is_damaged_and_leaves_it(run, capsys):
    break_one(run, 4)

    told = said(capsys, "prune", "--last", "2").err

    assert "warning: epoch 4 is damaged, and is kept: node local:" in told
    assert "deleted epoch 1, " in told


def test_prune_has_a_form_for_machines(run, capsys):
    form = json.loads(said(capsys, "prune", "--last", "2", "--dry-run", "--json").out)

    assert form["schema"] == "jobrun.ckpt-prune/1"
    assert (form["dry_run"], form["deleted"], form["kept"]) == (True, [1, 2], [0, 3, 4])


def test_verify_looks_at_what_is_saved_within_an_epoch_too(tmp_path, monkeypatch, capsys):
    stand = Stand(tmp_path / "s")
    with monkeypatch.context() as patch:
        FailingAt(patch, 3)
        with pytest.raises(EnvironmentFaultError):
            stand.start()
    words = ("verify", str(stand.run.path))
    (file,) = (stand.run.path / "checkpoints").glob("*.records-*/*.h5")

    assert "epoch 1 after 6 of its records  good" in said(capsys, *words).out
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert "epoch 1 after 6 of its records  damaged" in said(capsys, *words, code=8).out
    form = json.loads(said(capsys, *words, "--json", code=8).out)
    assert (form["good"], [one["good"] for one in form["within"]]) == (False, [False])


@pytest.mark.usefixtures("run")
def test_two_epochs_differ_by_so_much(capsys):
    lines = said(capsys, "diff", "shrink@1", "shrink@2").out.splitlines()

    assert lines[0].startswith("first   epoch 1 in runs/shrink/")
    assert lines[2] == "  x  1 of 1 differ, max 2, relative norm 5.00e-01"


@pytest.mark.usefixtures("run")
def test_with_check_the_exit_code_tells_and_with_all_equal_blobs_are_shown(capsys):
    out = said(capsys, "diff", "shrink@1", "shrink@1", "--check", "--all").out
    assert "  x  the same bits" in out
    said(capsys, "diff", "shrink@1", "shrink@2", "--check", code=8)


@pytest.mark.usefixtures("run")
def test_a_diff_has_a_form_for_machines(capsys):
    form = json.loads(said(capsys, "diff", "shrink@1", "shrink@2", "--json").out)

    assert form["schema"] == "jobrun.ckpt-diff/1"
    assert (form["equal"], form["first"]["epoch"], form["second"]["epoch"]) == (False, 1, 2)
    assert (form["blobs"][0]["blob"], form["blobs"][0]["largest"]) == ("x", 2.0)


@pytest.mark.usefixtures("run")
def test_the_name_of_the_file_tells_the_format(capsys, tmp_path):
    assert said(capsys, "export", "shrink@2", "-o", "x.npz").err.startswith("wrote x.npz: 1 blob,")
    with np.load(tmp_path / "x.npz") as found:
        assert found["x"] == 2.0
    assert "E403" in said(capsys, "export", "shrink@2", "-o", "x.txt", code=2).err
    assert "E434" in said(capsys, "export", "shrink@2", "-o", "x.npz", code=2).err


@pytest.mark.usefixtures("run")
def test_a_copy_says_how_to_go_on(capsys):
    told = said(capsys, "copy", "shrink@2", "copy").err

    assert "copied epoch 2 of shrink/" in told
    assert told.endswith("next: jobrun resume copy\n")
    assert invoke(["resume", "copy", "--quiet"]) == 0
