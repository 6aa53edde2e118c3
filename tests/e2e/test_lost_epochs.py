"""No command takes an older epoch than the newest saved one without saying so and why."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import jobrun
from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.cli.run_command import invoke
from jobrun.core.errors import CheckpointError
from jobrun.core.text.object_url import parse_object_url
from jobrun.runner.rundir.journal import JOURNAL_NAME
from tests.support.thinning import thinned

NEWEST = 6
SPEC = """\
jobrun: 1
name: walk
init: [{task: start, steps: [x = 8.0]}]
epoch: [{task: step, steps: [x = x / 2]}]
metrics: {x: x}
stop: [epochs: 9]
checkpoint: {every: 1ep%s}
"""


def remove(root: Path, first: int, last: int = NEWEST) -> None:
    for epoch in range(first, last + 1):
        shutil.rmtree(root / f"epoch-{epoch:06d}")


def damage(root: Path, epoch: int) -> None:
    (file,) = (root / f"epoch-{epoch:06d}").glob("*.h5")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)


def remove_and_make(name: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        remove(root, NEWEST - 2)
        (root / name).mkdir()

    return change


def replace_by_file(root: Path) -> None:
    remove(root, NEWEST)
    (root / f"epoch-{NEWEST:06d}").write_text("no directory\n")


def replace_by_link(root: Path) -> None:
    remove(root, NEWEST)
    (root / f"epoch-{NEWEST:06d}").symlink_to(f"epoch-{NEWEST - 1:06d}")


def copy_as_later(root: Path) -> None:
    shutil.copytree(root / "epoch-000003", root / "epoch-000007")
    remove(root, NEWEST)


def damage_older_too(root: Path) -> None:
    remove(root, NEWEST)
    damage(root, NEWEST - 1)


def remove_journal_too(root: Path) -> None:
    remove(root, NEWEST)
    next(Path().glob(f"runs/walk/*-*/{JOURNAL_NAME}")).unlink()


def remove_between(root: Path) -> None:
    remove(root, NEWEST - 1, NEWEST - 1)
    damage(root, NEWEST)


LOSSES: dict[str, Callable[[Path], None]] = {
    "newest": lambda root: remove(root, NEWEST),
    "several": lambda root: remove(root, NEWEST - 2),
    "all": lambda root: remove(root, 0),
    "beside-an-empty-later-one": remove_and_make("epoch-000007"),
    "beside-a-far-later-one": remove_and_make("epoch-001000"),
    "beside-a-stage": remove_and_make(".tmp-epoch-000006-1-0"),
    "beside-a-removal": remove_and_make(".del-epoch-000006-1-0"),
    "beside-another-name": remove_and_make("epoch-6"),
    "file": replace_by_file,
    "link": replace_by_link,
    "older-copied-as-later": copy_as_later,
    "older-damaged": damage_older_too,
    "journal-too": remove_journal_too,
    "between-damaged": remove_between,
}


def empty(root: Path) -> None:
    for file in (root / f"epoch-{NEWEST:06d}").iterdir():
        file.unlink()


def cut_manifest(root: Path) -> None:
    file = root / f"epoch-{NEWEST:06d}" / "manifest.json"
    file.write_bytes(file.read_bytes()[:40])


def take_manifest_of_another(root: Path) -> None:
    shutil.copy(root / "epoch-000005" / "manifest.json", root / f"epoch-{NEWEST:06d}")


DAMAGES: dict[str, Callable[[Path], None]] = {
    "byte": lambda root: damage(root, NEWEST),
    "empty": empty,
    "manifest-cut": cut_manifest,
    "manifest-of-another": take_manifest_of_another,
    "later-empty": lambda root: (root / "epoch-000007").mkdir(),
}

# What loads an epoch of a run and goes on from it.
CONTINUING = {
    "resume": ["resume", "RUN"],
    "auto": ["run", "job.yaml", "--resume", "auto"],
    "must": ["run", "job.yaml", "--resume", "must"],
    "fork": ["fork", "RUN"],
    "fork-blobs": ["fork", "RUN", "--blobs", "x"],
}
# What reads one.
READING = {
    "inspect": ["inspect-checkpoint", "RUN"],
    "inspect-latest": ["inspect-checkpoint", "RUN@latest"],
    "export": ["ckpt", "export", "RUN", "--out", "out.npz"],
    "copy": ["ckpt", "copy", "RUN", "copied"],
    "verify-latest": ["ckpt", "verify", "RUN@latest"],
    "pin": ["ckpt", "pin", "RUN@latest"],
    "prune": ["ckpt", "prune", "RUN", "--last", "2"],
    "prune-dry": ["ckpt", "prune", "RUN", "--last", "2", "--dry-run"],
    "diff": ["diff", "RUN", "RUN@3"],
    "ckpt-diff": ["ckpt", "diff", "RUN@3", "RUN"],
    "dry-run": ["resume", "RUN", "--dry-run"],
}
# What shows all there is of a run.
SHOWING = {
    "verify": (8, ["ckpt", "verify", "RUN"]),
    "list": (0, ["ckpt", "list", "RUN"]),
    "list-json": (0, ["ckpt", "list", "RUN", "--json"]),
    "status": (0, ["status", "RUN"]),
    "status-json": (0, ["status", "RUN", "--json"]),
    "report": (0, ["report", "RUN", "--json"]),
}


@pytest.fixture(scope="module", params=["inside", "elsewhere"])
def template(request, tmp_path_factory):
    """A folder with an unfinished run of six epochs."""
    folder = tmp_path_factory.mktemp(request.param)
    where = ", dir: saved" if request.param == "elsewhere" else ""
    (folder / "job.yaml").write_text(SPEC % where)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert invoke(["run", "job.yaml", "--max-epochs", str(NEWEST), "--quiet"]) == 75
    return folder


@pytest.fixture
def folder(template, tmp_path, monkeypatch):
    shutil.copytree(template, tmp_path / "work", symlinks=True)
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "work"


def run_name(folder: Path) -> str:
    (record,) = folder.glob("runs/walk/*-*-*-*/run.json")
    return record.parent.name


def root_of(folder: Path) -> Path:
    (manifest,) = folder.glob("*/walk/*-*-*-*/**/epoch-000003/manifest.json")
    return manifest.parent.parent


def root_of_newest(folder: Path) -> Path:
    return max(folder.glob("*/walk/*-*-*-*/**/epoch-000008/manifest.json")).parent.parent


def run_command(capsys, folder: Path, words: list[str]) -> tuple[int, str]:
    name = run_name(folder)
    capsys.readouterr()
    code = invoke([word.replace("RUN", name) for word in words])
    output = capsys.readouterr()
    return code, " ".join((output.out + output.err).split())


def cases(commands, changes):
    return thinned(list(itertools.product(commands, changes)), 7)


LOADING = {**CONTINUING, **READING}
# The others end at the damage itself.
REFUSING = {*CONTINUING, "dry-run", "prune", "prune-dry"}


@pytest.mark.parametrize(("command", "loss"), cases(LOADING, LOSSES))
def test_nothing_older_than_a_lost_epoch_is_used(folder, capsys, command, loss):
    LOSSES[loss](root_of(folder))
    there = sorted(folder.rglob("epoch-*"))

    code, output = run_command(capsys, folder, LOADING[command])

    if (command, loss) == ("pin", "between-damaged"):
        # What is pinned is not read.
        assert code == 0
        return
    assert code in (4, 8) or "E421" in output, output
    if (command, loss) != ("ckpt-diff", "all") and (
        loss != "between-damaged" or command in REFUSING
    ):
        assert "error[E357]" in output
        assert "gone" in output
    assert sorted(folder.rglob("epoch-*")) == there


@pytest.mark.parametrize(
    ("command", "damaged"),
    cases({name: LOADING[name] for name in LOADING if name != "pin"}, DAMAGES),
)
def test_a_damaged_newest_epoch_is_named_where_an_older_one_is_taken(
    folder, capsys, command, damaged
):
    DAMAGES[damaged](root_of(folder))
    epoch = NEWEST + 1 if damaged == "later-empty" else NEWEST

    code, output = run_command(capsys, folder, LOADING[command])

    if command in CONTINUING:
        assert code == 0, output
        reason = "is damaged" if command.startswith("fork") else "is unusable"
        assert output.count(f"epoch {epoch} {reason}") == 1, output
    elif command == "dry-run":
        assert code == 0, output
        assert f"epoch {epoch}" in output
    elif command.startswith("prune"):
        assert code == 0, output
        assert output.count(f"epoch {epoch} is damaged") == 1, output
    else:
        assert code in (4, 8) or "E421" in output, output
        assert f"epoch {epoch}" in output or "E421" in output or f"epoch-{epoch:06d}" in output, (
            output
        )


@pytest.mark.parametrize(("command", "loss"), cases(SHOWING, LOSSES))
def test_commands_that_show_a_run_say_which_epochs_are_gone(folder, capsys, command, loss):
    LOSSES[loss](root_of(folder))
    expected, words = SHOWING[command]
    if (command, loss) == ("verify", "all"):
        expected = 4

    code, output = run_command(capsys, folder, words)

    assert code == expected, output
    assert "saved" in output
    assert "gone" in output


@pytest.mark.parametrize("loss", LOSSES)
def test_python_reads_nothing_older_than_a_lost_epoch(folder, loss):
    stored = jobrun.runs(folder / "runs")[0]
    assert stored.blobs()["x"] == 8 / 2**NEWEST
    LOSSES[loss](root_of(folder))

    with pytest.raises(CheckpointError):
        stored.blobs()
    if loss != "all":
        assert stored.blobs(3)["x"] == 1.0
    assert any("gone" in fault for fault in stored.status().faults)


@pytest.mark.parametrize("prune", [False, pytest.param(True, marks=pytest.mark.long)])
def test_what_retention_deleted_is_not_missed_beside_a_damaged_newest_epoch(folder, capsys, prune):
    keep = [] if prune else ["--set", "checkpoint.keep={last: 2}"]
    assert invoke(["resume", run_name(folder), "--max-epochs", "2", "--quiet", *keep]) == 75
    if prune:
        assert invoke(["ckpt", "prune", run_name(folder), "--last", "2"]) == 0
    root = root_of_newest(folder)
    assert [path.name[-1] for path in sorted(root.glob("epoch-*"))] == ["0", "7", "8"]
    damage(root, 8)

    code, output = run_command(capsys, folder, ["resume", "RUN"])

    assert code == 0, output
    assert output.count("epoch 8 is unusable") == 1
    assert "gone" not in output
    assert invoke(["ckpt", "verify", run_name(folder)]) == 0


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """A run of three epochs in an object store, in the memory of this process."""
    monkeypatch.chdir(tmp_path)
    url = f"memory://{tmp_path.name}/up"
    text = SPEC.replace("epochs: 9", "epochs: 3") % f", upload: {{to: '{url}', when: committed}}"
    (tmp_path / "job.yaml").write_text(text)
    assert invoke(["run", "job.yaml", "--quiet"]) == 0
    name = run_name(tmp_path)
    shutil.rmtree(tmp_path / "runs")
    return Bucket(parse_object_url(f"{url}/walk/{name}"))


REMOTE = {
    "resume": ["resume", "URL"],
    "dry-run": ["resume", "URL", "--dry-run"],
    "fork": ["fork", "URL", "--set", "stop=[epochs: 4]"],
    "inspect": ["inspect-checkpoint", "URL"],
    "verify": ["ckpt", "verify", "URL"],
}


def remove_objects(bucket: Bucket, *epochs: int) -> None:
    for epoch in epochs:
        bucket.delete(list(bucket.list(f"epoch-{epoch:06d}")))


def make_manifest(bucket: Bucket, epoch: int) -> None:
    bucket.put(f"epoch-{epoch:06d}/manifest.json", [b"{}"], 2)


REMOTE_LOSSES: dict[str, Callable[[Bucket], None]] = {
    "newest": lambda bucket: remove_objects(bucket, 3),
    "several": lambda bucket: remove_objects(bucket, 2, 3),
    "manifest": lambda bucket: bucket.delete(["epoch-000003/manifest.json"]),
    "beside-a-later-one": lambda bucket: (remove_objects(bucket, 3), make_manifest(bucket, 4)),
}


@pytest.mark.parametrize(("command", "loss"), list(itertools.product(REMOTE, REMOTE_LOSSES)))
def test_nothing_older_than_a_lost_object_is_used(bucket, tmp_path, capsys, command, loss):
    REMOTE_LOSSES[loss](bucket)

    code, output = remote_said(capsys, bucket, command)

    assert code == (8 if command == "verify" else 4), output
    assert "was uploaded" in output
    assert "is gone" in output
    assert not list(tmp_path.glob("runs/*/*/run.json"))


@pytest.mark.parametrize("command", REMOTE)
def test_a_damaged_newest_object_is_named_where_an_older_one_is_taken(bucket, capsys, command):
    (name,) = (name for name in bucket.list("epoch-000003") if name.endswith(".h5"))
    bucket.put(name, [b"no checkpoint"], 13)

    code, output = remote_said(capsys, bucket, command)

    if command in ("inspect", "verify"):
        assert code == (8 if command == "verify" else 4), output
    else:
        assert code == 0, output
        assert output.count("epoch 2 is taken, as a newer one is unusable: epoch 3") == 1
    assert "epoch 3" in output


def remote_said(capsys, bucket: Bucket, command: str) -> tuple[int, str]:
    capsys.readouterr()
    code = invoke([word.replace("URL", str(bucket.url)) for word in REMOTE[command]])
    output = capsys.readouterr()
    return code, " ".join((output.out + output.err).split())
