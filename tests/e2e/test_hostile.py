"""Files that somebody has made to hurt, as the command line meets them: refused, in good order."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from tests.support.checkpoints import forged
from tests.support.faults import Ended, FaultLab
from tests.support.pace import thinned
from tests.support.stored import blobs, epochs, only_run
from tests.support.walk import SPEC

SECRET = "correct-horse-battery-staple"


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    with FaultLab(tmp_path_factory.mktemp("lab")) as lab:
        yield lab


@pytest.fixture(scope="module")
def finished(lab, tmp_path_factory) -> Path:
    """A folder with a finished run, which tests copy."""
    folder = tmp_path_factory.mktemp("finished")
    (folder / "walk.yaml").write_text(SPEC)
    assert lab.run("run", "walk.yaml", below=folder).code == 0
    return folder


@pytest.fixture
def folder(finished, tmp_path) -> Path:
    shutil.copytree(finished, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy"


def _external_link(file, secret: Path) -> None:
    del file["blobs/w"]
    file["blobs/w"] = h5py.ExternalLink(str(secret), "/")


def _external_storage(file, secret: Path) -> None:
    del file["blobs/w"]
    file["blobs"].create_dataset("w", (6,), "f8", external=[(str(secret), 0, 48)])


def _virtual_dataset(file, secret: Path) -> None:
    del file["blobs/w"]
    layout = h5py.VirtualLayout((6,), "f8")
    layout[:] = h5py.VirtualSource(str(secret), "x", (6,))
    file["blobs"].create_virtual_dataset("w", layout)


def _soft_link_loop(file, secret: Path) -> None:
    del file["blobs/w"]
    file["blobs/w"] = h5py.SoftLink("/blobs/v")
    file["blobs/v"] = h5py.SoftLink("/blobs/w")


def _group_cycle(file, secret: Path) -> None:
    file["blobs/w2"] = file["blobs"]


def _bomb(file, secret: Path) -> None:
    del file["blobs/w"]
    file["blobs"].create_dataset(
        "w", (1 << 28,), "f8", chunks=(1 << 22,), compression="gzip", fillvalue=1.0
    )


def _eight_tebibytes(file, secret: Path) -> None:
    del file["blobs/w"]
    file["blobs"].create_dataset("w", (1 << 40,), "f8", chunks=(1 << 20,))


def _variable_length(file, secret: Path) -> None:
    del file["blobs/w"]
    file["blobs"].create_dataset("w", data=["a" * 99], dtype=h5py.string_dtype())


def _references(file, secret: Path) -> None:
    del file["blobs/w"]
    file["blobs"].create_dataset("w", data=np.array([file.ref], h5py.ref_dtype))


def _escapes(file, secret: Path) -> None:
    file["blobs/\x1b]0;owned\x07"] = 1


ATTACKS = {
    "row 55: external link": _external_link,
    "row 55: external storage": _external_storage,
    "row 55: virtual dataset": _virtual_dataset,
    "row 56: soft link loop": _soft_link_loop,
    "row 56: group cycle": _group_cycle,
    "row 57: gzip bomb": _bomb,
    "row 57: eight tebibytes": _eight_tebibytes,
    "row 58: variable length": _variable_length,
    "row 58: references": _references,
    "row 61: control characters": _escapes,
}


def _refused(ended: Ended, *codes: int) -> str:
    """Its words; an error in good order, without what should not be seen."""
    said = ended.stdout + ended.stderr
    assert ended.code in (codes or (4,)), said
    assert "error[E" in ended.stderr
    assert "Traceback" not in said
    assert SECRET not in said
    assert "\x1b" not in said
    return ended.stderr


@pytest.mark.parametrize("name", thinned(ATTACKS, 3))
def test_rows_55_to_61_a_sealed_file_that_jobrun_never_writes_is_refused(lab, tmp_path, name):
    secret = tmp_path / "secret.bin"
    secret.write_text(SECRET * 9)
    path = forged(tmp_path, lambda file: ATTACKS[name](file, secret))

    _refused(lab.run("inspect-checkpoint", path, "--values", below=tmp_path))


@pytest.mark.parametrize("size", thinned([20_000, 0, 8, 4096], 4))
def test_row_51_bytes_of_any_kind_are_no_checkpoint(lab, tmp_path, size):
    signature = b"\x89HDF\r\n\x1a\n"
    (tmp_path / "x.h5").write_bytes((signature + os.urandom(size))[:size])

    _refused(lab.run("inspect-checkpoint", "x.h5", below=tmp_path))


def _file(folder: Path, epoch: int = 4) -> Path:
    return epochs(only_run(folder / "runs"))[epoch] / "local.h5"


def _symlink(path: Path, folder: Path) -> None:
    path.rename(folder / "elsewhere.h5")
    path.symlink_to(folder / "elsewhere.h5")


def _hard_link(path: Path, folder: Path) -> None:
    os.link(path, folder / "other-name.h5")


def _pipe(path: Path, folder: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _device(path: Path, folder: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def _directory(path: Path, folder: Path) -> None:
    path.unlink()
    path.mkdir()


def _missing(path: Path, folder: Path) -> None:
    path.unlink()


def _of_another_epoch(path: Path, folder: Path) -> None:
    shutil.copy(_file(folder, 3), path)


def _truncated(path: Path, folder: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def _padded(path: Path, folder: Path) -> None:
    path.write_bytes(path.read_bytes() + b"\0" * 100)


def _one_bit(path: Path, folder: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


DAMAGES = {
    "row 40: symlink": _symlink,
    "row 40: hard link": _hard_link,
    "row 40: pipe": _pipe,
    "row 40: device": _device,
    "row 40: directory": _directory,
    "row 52: truncated": _truncated,
    "row 52: padded": _padded,
    "row 53: one bit": _one_bit,
    "row 54: of another epoch": _of_another_epoch,
    "row 54: missing": _missing,
}


@pytest.mark.parametrize("name", thinned(DAMAGES, 2))
def test_rows_40_to_54_a_damaged_newest_epoch_is_told_and_the_one_before_is_used(lab, folder, name):
    run = only_run(folder / "runs")
    whole = {number: blobs(path) for number, path in epochs(run).items()}
    DAMAGES[name](_file(folder), folder)

    said = _refused(lab.run("inspect-checkpoint", run, below=folder, timeout_s=20))
    assert "epoch 4" in said
    finished = lab.run("resume", run, below=folder, timeout_s=20)
    assert (finished.code, "epoch 4, is damaged" in finished.stderr) == (0, True), finished.stderr
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))
    longer = lab.run("run", "walk.yaml", "--resume", "auto", below=folder, timeout_s=20)
    assert longer.code == 0, longer.stderr
    assert "epoch 4 is unusable" in longer.stderr
    assert "continuing from epoch 3" in longer.stderr
    found = {number: blobs(path) for number, path in epochs(run).items()}
    assert {number: found[number] for number in whole} == whole
    assert list(found) == [0, 1, 2, 3, 4, 5]
    # What was damaged was set aside, not deleted.
    assert (run / "superseded" / "damaged" / "epoch-000004").is_dir()


def test_row_46_what_lies_about_is_ignored(lab, folder):
    run = only_run(folder / "runs")
    for name in ("epoch-7", "epoch-00000007.bak", ".epoch-000009.swp", "lost+found"):
        (run / "checkpoints" / name).mkdir()
    (run / "checkpoints" / "epoch-000008").write_text("a file")
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))

    assert lab.run("run", "walk.yaml", "--resume", "auto", below=folder).code == 0
    assert (run / "checkpoints" / "epoch-00000007.bak").is_dir()


def test_row_50_the_journal_of_another_run_is_refused(lab, folder, finished, tmp_path):
    run = only_run(folder / "runs")
    other = tmp_path / "other"
    other.mkdir()
    (other / "walk.yaml").write_text(SPEC)
    assert lab.run("run", "walk.yaml", below=other).code == 0
    shutil.copy(only_run(other / "runs") / "committed.jsonl", run / "committed.jsonl")
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))

    said = _refused(lab.run("run", "walk.yaml", "--resume", "auto", below=folder))
    assert "another run's" in said


def test_row_54_the_checkpoints_of_another_run_are_refused(lab, folder, tmp_path):
    run = only_run(folder / "runs")
    other = tmp_path / "other"
    other.mkdir()
    (other / "walk.yaml").write_text(SPEC)
    assert lab.run("run", "walk.yaml", below=other).code == 0
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(only_run(other / "runs") / "checkpoints", run / "checkpoints")
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))

    said = _refused(lab.run("run", "walk.yaml", "--resume", "auto", below=folder))
    assert "belongs to another run" in said


def test_row_63_when_nothing_is_good_each_reason_is_given_and_nothing_starts_over(lab, folder):
    run = only_run(folder / "runs")
    for number in epochs(run):
        _one_bit(_file(folder, number), folder)
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))

    for policy in ("auto", "must"):
        said = _refused(lab.run("run", "walk.yaml", "--resume", policy, below=folder))
        assert all(f"epoch {number}:" in said for number in range(5))
    assert list(epochs(run)) == [0, 1, 2, 3, 4]
    assert only_run(folder / "runs") == run
