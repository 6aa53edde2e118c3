"""Files that somebody has made to hurt, as the command line meets them: refused, in good order."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.checkpoints import resealed, write
from tests.support.faults import Ended, FaultLab
from tests.support.stored_runs import blobs, epochs, only_run
from tests.support.thinning import thinned
from tests.support.walk_spec import SPEC


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


def _retype(data, fields, old: bytes, new: bytes) -> None:
    begin = fields["parts"]["index"]
    end = begin + fields["parts"]["layout_bytes"]
    assert old in data[begin:end]
    data[begin:end] = bytes(data[begin:end]).replace(old, new)


def _eight_tebibytes(data, fields) -> None:
    _retype(data, fields, b"[6]", b"9e9")


def _references(data, fields) -> None:
    _retype(data, fields, b"<f8", b"|O8")


def _pickles(data, fields) -> None:
    _retype(data, fields, b"array", b"pickl")


def _escapes(data, fields) -> None:
    begin = fields["parts"]["index"] + -(-fields["parts"]["layout_bytes"] // 8) * 8
    assert bytes(data[begin : begin + 3]) == b"k\nw"
    data[begin] = 0x1B


ATTACKS = {
    "row 57: eight tebibytes": _eight_tebibytes,
    "row 58: references": _references,
    "row 58: pickles": _pickles,
}


def _refused(ended: Ended, *codes: int) -> str:
    """Its words; an error in good order, without what should not be seen."""
    output = ended.stdout + ended.stderr
    assert ended.code in (codes or (4,)), output
    assert "error[E" in ended.stderr
    assert "Traceback" not in output
    assert "\x1b" not in output
    return ended.stderr


@pytest.mark.long
@pytest.mark.parametrize("name", thinned(ATTACKS, 3))
def test_rows_57_and_58_a_sealed_file_that_jobrun_never_writes_is_refused(lab, tmp_path, name):
    path = tmp_path / write(tmp_path).name
    resealed(path, ATTACKS[name])

    _refused(lab.run("inspect-checkpoint", path, "--values", below=tmp_path))


@pytest.mark.long
def test_row_61_control_characters_in_a_name_do_not_reach_the_terminal(lab, tmp_path):
    path = tmp_path / write(tmp_path).name
    resealed(path, _escapes)

    ended = lab.run("inspect-checkpoint", path, "--values", below=tmp_path)

    assert ended.code == 0
    assert "\x1b" not in ended.stdout + ended.stderr


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
def test_rows_40_to_54_a_damaged_newest_epoch_is_reported_and_the_one_before_is_used(
    lab, folder, name
):
    run = only_run(folder / "runs")
    whole = {number: blobs(path) for number, path in epochs(run).items()}
    DAMAGES[name](_file(folder), folder)

    output = _refused(lab.run("inspect-checkpoint", run, below=folder, timeout_s=20))
    assert "epoch 4" in output
    finished = lab.run("resume", run, below=folder, timeout_s=20)
    assert (finished.code, "epoch 4, is damaged" in finished.stderr) == (0, True), finished.stderr
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))
    longer = lab.run("run", "walk.yaml", "--resume", "auto", below=folder, timeout_s=20)
    assert longer.code == 0, longer.stderr
    assert "epoch 4 is unusable" in longer.stderr
    assert "continuing from epoch 3" in longer.stderr
    actual = {number: blobs(path) for number, path in epochs(run).items()}
    assert {number: actual[number] for number in whole} == whole
    assert list(actual) == [0, 1, 2, 3, 4, 5]
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

    output = _refused(lab.run("run", "walk.yaml", "--resume", "auto", below=folder))
    assert "another run's" in output


def test_row_54_the_checkpoints_of_another_run_are_refused(lab, folder, tmp_path):
    run = only_run(folder / "runs")
    other = tmp_path / "other"
    other.mkdir()
    (other / "walk.yaml").write_text(SPEC)
    assert lab.run("run", "walk.yaml", below=other).code == 0
    shutil.rmtree(run / "checkpoints")
    shutil.copytree(only_run(other / "runs") / "checkpoints", run / "checkpoints")
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))

    output = _refused(lab.run("run", "walk.yaml", "--resume", "auto", below=folder))
    assert "belongs to another run" in output


def test_row_63_when_nothing_is_good_each_reason_is_given_and_nothing_starts_over(lab, folder):
    run = only_run(folder / "runs")
    for number in epochs(run):
        _one_bit(_file(folder, number), folder)
    (folder / "walk.yaml").write_text(SPEC.replace("epochs: 4", "epochs: 5"))

    for policy in ("auto", "must"):
        output = _refused(lab.run("run", "walk.yaml", "--resume", policy, below=folder))
        assert all(f"epoch {number}:" in output for number in range(5))
    assert list(epochs(run)) == [0, 1, 2, 3, 4]
    assert only_run(folder / "runs") == run
