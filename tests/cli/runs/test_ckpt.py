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


def ckpt(capsys, *words, code=0):
    assert invoke(["ckpt", *words]) == code
    return capsys.readouterr()


def break_one(run, epoch):
    (file,) = (run.path / "checkpoints" / f"epoch-{epoch:06}").glob("*.h5")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def test_whole_checkpoints_are_good(run, capsys):
    assert ckpt(capsys, "verify").out.splitlines() == [f"epoch {n}  good" for n in range(5)]
    assert ckpt(capsys, "verify", "shrink@2").out == "epoch 2  good\n"


def test_checkpoints_are_listed_without_being_read(run, capsys):
    ckpt(capsys, "pin", "shrink@2")
    break_one(run, 3)

    head, *rows = ckpt(capsys, "list").out.splitlines()
    assert head.split() == ["epoch", "age", "size", "pinned", "x"]
    assert [row.split()[0] for row in rows] == ["0", "1", "2", "3", "4"]
    assert ["pinned" in row for row in rows] == [False, False, True, False, False]
    assert [row.split()[-1] for row in rows] == ["-", "4", "2", "1", "0.5"]
    document = json.loads(ckpt(capsys, "list", "shrink", "--json").out)["epochs"]
    files = (run.path / "checkpoints" / "epoch-000004").iterdir()
    assert document[4]["size_bytes"] == sum(path.stat().st_size for path in files)
    assert document[4]["metrics"] == {"x": 0.5}


def test_a_damaged_one_is_named_and_the_code_is_8(run, capsys):
    break_one(run, 3)

    lines = ckpt(capsys, "verify", "shrink", code=8).out.splitlines()

    assert "epoch 3  damaged  node local:" in lines[3]
    assert lines[4] == "epoch 4  good"
    document = json.loads(ckpt(capsys, "verify", "--json", code=8).out)
    assert document["schema"] == "jobrun.ckpt-verify/1"
    assert [entry["good"] for entry in document["epochs"]] == [True, True, True, False, True]


def test_pins_are_printed_and_respected(run, capsys):
    assert "pinned epochs: 1" in ckpt(capsys, "pin", "shrink@1").err
    assert "pinned epochs: 1, 4" in ckpt(capsys, "pin", "shrink@latest").err
    assert "would delete epoch 2," in ckpt(capsys, "prune", "--last", "2", "--dry-run").err
    deleted = ckpt(capsys, "prune", "--last", "2").err
    assert deleted.startswith("deleted epoch 2, ")
    assert deleted.endswith("; epochs 0-1, 3-4 stay (epochs 1, 4 pinned)\n")
    assert ckpt(capsys, "verify").out.splitlines() == [f"epoch {n}  good" for n in (0, 1, 3, 4)]
    assert "pinned epochs: 4" in ckpt(capsys, "unpin", "shrink@1").err
    assert "pinned epochs: none" in ckpt(capsys, "unpin", "shrink@4").err


def test_a_pin_of_an_epoch_that_is_gone_can_be_taken_off(run, capsys):
    (run.path / "pins.json").write_text('{"format": 1, "pinned": [77]}')

    assert "pinned epochs: none" in ckpt(capsys, "unpin", "shrink@77").err
    assert "has no epoch 77" in ckpt(capsys, "pin", "shrink@77", code=4).err


def test_without_a_rule_prune_asks_for_one(run, capsys):
    assert "--last N" in ckpt(capsys, "prune", code=2).err


def test_where_nothing_goes_prune_says_what_stays(run, capsys):
    assert ckpt(capsys, "prune", "--last", "9").err == "nothing to delete: epochs 0-4 stay\n"


def test_prune_says_what_is_damaged_and_leaves_it(run, capsys):
    break_one(run, 4)

    errors = ckpt(capsys, "prune", "--last", "2").err

    assert "warning: epoch 4 is damaged, and is kept: node local:" in errors
    assert "deleted epoch 1, " in errors


def test_prune_has_a_form_for_machines(run, capsys):
    document = json.loads(ckpt(capsys, "prune", "--last", "2", "--dry-run", "--json").out)

    assert document["schema"] == "jobrun.ckpt-prune/1"
    assert (document["dry_run"], document["deleted"], document["kept"]) == (True, [1, 2], [0, 3, 4])


def test_verify_looks_at_what_is_saved_within_an_epoch_too(tmp_path, monkeypatch, capsys):
    stand = Stand(tmp_path / "s")
    with monkeypatch.context() as patch:
        FailingAt(patch, 3)
        with pytest.raises(EnvironmentFaultError):
            stand.start()
    words = ("verify", str(stand.run.path))
    (file,) = (stand.run.path / "checkpoints").glob("*.records-*/*.h5")

    assert "epoch 1 after 6 of its records  good" in ckpt(capsys, *words).out
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    assert "epoch 1 after 6 of its records  damaged" in ckpt(capsys, *words, code=8).out
    document = json.loads(ckpt(capsys, *words, "--json", code=8).out)
    assert (document["good"], [entry["good"] for entry in document["within"]]) == (False, [False])


@pytest.mark.usefixtures("run")
def test_two_epochs_differ_by_so_much(capsys):
    lines = ckpt(capsys, "diff", "shrink@1", "shrink@2").out.splitlines()

    assert lines[0].startswith("first   epoch 1 in runs/shrink/")
    assert lines[2] == "  x  1 of 1 differ, max 2, relative norm 5.00e-01"


@pytest.mark.usefixtures("run")
def test_check_sets_the_exit_code_and_all_shows_equal_blobs(capsys):
    out = ckpt(capsys, "diff", "shrink@1", "shrink@1", "--check", "--all").out
    assert "  x  the same bits" in out
    ckpt(capsys, "diff", "shrink@1", "shrink@2", "--check", code=8)


@pytest.mark.usefixtures("run")
def test_a_diff_has_a_form_for_machines(capsys):
    document = json.loads(ckpt(capsys, "diff", "shrink@1", "shrink@2", "--json").out)

    assert document["schema"] == "jobrun.ckpt-diff/1"
    assert (document["equal"], document["first"]["epoch"], document["second"]["epoch"]) == (
        False,
        1,
        2,
    )
    assert (document["blobs"][0]["blob"], document["blobs"][0]["largest"]) == ("x", 2.0)


@pytest.mark.usefixtures("run")
def test_the_name_of_the_file_decides_the_format(capsys, tmp_path):
    assert ckpt(capsys, "export", "shrink@2", "-o", "x.npz").err.startswith("wrote x.npz: 1 blob,")
    with np.load(tmp_path / "x.npz") as arrays:
        assert arrays["x"] == 2.0
    assert "E403" in ckpt(capsys, "export", "shrink@2", "-o", "x.txt", code=2).err
    assert "E434" in ckpt(capsys, "export", "shrink@2", "-o", "x.npz", code=2).err


@pytest.mark.usefixtures("run")
def test_a_copy_says_how_to_continue(capsys):
    errors = ckpt(capsys, "copy", "shrink@2", "copy").err

    assert "copied epoch 2 of shrink/" in errors
    assert errors.endswith("next: jobrun resume copy\n")
    assert invoke(["resume", "copy", "--quiet"]) == 0
