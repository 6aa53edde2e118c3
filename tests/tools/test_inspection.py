"""What a checkpoint holds, as values."""

from __future__ import annotations

import hashlib
import shutil

import numpy as np
import pytest

from jobrun.core.errors import CheckpointError, EnvironmentFaultError, UsageError
from jobrun.core.events import CheckpointTimes, NodeTime
from jobrun.runner.rundir.run_json import RunRecord, write_record
from jobrun.tools import inspection
from jobrun.tools.inspection import (
    dtype_name,
    inspect,
    inspect_guarded,
    inspection_values,
    render_position,
    render_structure,
    saved_times,
    select_blobs,
    sort_objects_first,
    value_text,
)
from jobrun.values.object_state import ObjectState
from tests.support.mid_epoch_job import FailingAt, Stand
from tests.support.resumable_job import WalkJob
from tests.support.sample_events import written
from tests.support.saved_checkpoints import RUN_ID, SPEC_DIGEST, save

A = np.arange(3.0)
STATE = {
    "C": np.array([[1.0, np.nan], [3.0, 5.0]]),
    "count": 3,
    "name": "a text",
    "shift": np.float32(0.5),
}


@pytest.fixture
def run(tmp_path):
    """A run with epochs 0, 1 and 2 of two nodes."""
    path = tmp_path / "runs" / "job" / "20261121-0942-brisk-heron"
    for epoch in range(3):
        save(path / "checkpoints", epoch, {"left": {**STATE, "count": epoch}, "right": STATE})
    write_record(path, RunRecord(RUN_ID, "job", "2026-11-21T09:42:00.000000+00:00"))
    return path


@pytest.mark.parametrize("suffix", ["", "@2", "@latest"])
def test_a_run_is_its_newest_epoch_or_the_one_behind_the_at_sign(run, suffix):
    for name in (str(run), "brisk-heron", "job"):
        checkpoint = inspect(name + suffix, run.parent.parent)
        assert (checkpoint.epoch, checkpoint.run_id, checkpoint.spec_digest) == (
            2,
            RUN_ID,
            SPEC_DIGEST,
        )
        assert checkpoint.metrics == {"loss": 0.5 / 3}


def test_an_epoch_is_named_by_its_number_its_directory_or_a_file_of_it(run):
    epoch = run / "checkpoints" / "epoch-000001"
    for target in ("job@1", str(epoch), f"{epoch}/"):
        checkpoint = inspect(target, run.parent.parent)
        assert (checkpoint.epoch, len(checkpoint.files)) == (1, 2)
    checkpoint = inspect(str(epoch / "left.h5"), run.parent.parent)
    assert (checkpoint.epoch, len(checkpoint.files), checkpoint.spec_digest) == (1, 1, "")


def test_facts_of_blobs_are_those_of_their_numbers(run):
    (file, _) = inspect("job", run.parent.parent).files
    facts = {blob.name: blob for blob in file.blobs}
    c = facts["C"]
    assert (c.kind, dtype_name(c.dtype), c.shape, c.size_bytes) == ("array", "float64", (2, 2), 32)
    assert (c.minimum, c.mean, c.maximum, c.nans) == (1.0, 3.0, 5.0, 1)
    assert facts["count"].value == 2
    assert facts["name"].value == "a text"


def test_node_and_blob_choose(run):
    checkpoint = inspect("job", run.parent.parent)
    (file,) = select_blobs(checkpoint, "left", "C")
    assert (file.header.node, [blob.name for blob in file.blobs]) == ("left", ["C"])
    assert len(select_blobs(checkpoint, "", "C")) == 2
    with pytest.raises(UsageError, match=r"no node 'leff'.*did you mean 'left'"):
        select_blobs(checkpoint, "leff", "")
    with pytest.raises(UsageError, match=r"no blob 'coun'.*did you mean 'count'"):
        select_blobs(checkpoint, "", "coun")


def test_json_values_hold_all_with_and_without_the_numbers(run):
    checkpoint = inspect("job@1", run.parent.parent)
    files = select_blobs(checkpoint, "left", "")
    plain = inspection_values(checkpoint, files, values=False)
    assert plain["epoch"] == 1
    assert plain["metrics"] == {"loss": 0.25}
    (node,) = plain["nodes"]
    assert [blob["name"] for blob in node["blobs"]] == ["C", "count", "name", "shift"]
    assert "value" not in node["blobs"][0]
    (node,) = inspection_values(checkpoint, files, values=True)["nodes"]
    values = {blob["name"]: blob["value"] for blob in node["blobs"]}
    assert values["C"][1] == [3.0, 5.0]
    assert values["count"] == 1
    assert values["name"] == "a text"


@pytest.mark.parametrize("target", ["job@9", "job@-1", "job@two"])
def test_an_epoch_that_is_not_there_is_refused(run, target):
    kind = CheckpointError if target == "job@9" else UsageError
    with pytest.raises(kind, match=r"E408"):
        inspect(target, run.parent.parent)


def test_a_damaged_epoch_is_not_shown(run):
    file = run / "checkpoints" / "epoch-000002" / "left.h5"
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with pytest.raises(CheckpointError, match=r"E407.*left"):
        inspect("job", run.parent.parent)
    with pytest.raises(CheckpointError, match="checksum"):
        inspect(str(file), run.parent.parent)
    assert inspect("job@1", run.parent.parent).epoch == 1


def test_what_is_no_run_is_refused(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="not a jobrun run"):
        inspect(str(tmp_path / "folder"), tmp_path / "runs")
    (tmp_path / "text.h5").write_text("no checkpoint")
    with pytest.raises(CheckpointError, match="not a jobrun checkpoint"):
        inspect(str(tmp_path / "text.h5"), tmp_path / "runs")


def test_a_checkpoint_within_an_epoch_says_how_far_it_is(tmp_path, monkeypatch):
    stand = Stand(tmp_path / "cut")
    with monkeypatch.context() as patch:
        FailingAt(patch, 2)
        with pytest.raises(EnvironmentFaultError):
            stand.start()
    folder = stand.run.path / "checkpoints" / "epoch-000001.records-000004"

    within, whole = inspect(str(folder), stand.folder), inspect(str(stand.run.path), stand.folder)

    assert (within.epoch, within.records) == (1, 4)
    assert (whole.epoch, whole.records, whole.ahead) == (0, 0, 4)


def test_a_checkpoint_within_an_epoch_names_its_random_streams(tmp_path, monkeypatch):
    stand = Stand(tmp_path / "s")
    with monkeypatch.context() as patch:
        FailingAt(patch, 3)
        with pytest.raises(EnvironmentFaultError):
            stand.start()
    (folder,) = (stand.run.path / "checkpoints").glob("*.records-*")
    checkpoint = inspect(str(folder), tmp_path)

    assert checkpoint.streams["epoch/fit"] == "PCG64DXSM"
    assert inspection_values(checkpoint, checkpoint.files, values=False)["streams"] == dict(
        checkpoint.streams
    )


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([[0] * 7], "nothing read yet"),
        ([[2, 4, 40, 0, 0, 1, 100]], "pass 2, 4 records, 40 of 100 rows"),
        ([[1, 4, 40, 1, 0, 1, -1]], "pass 1, 4 records, 40 rows, all read"),
        (
            [[1, 3, 3, 0, 0, 2, 20], [1, 2, 2, 0, 1, 2, 20], [-1, 4, 9, 1, 1, 2, 20]],
            "share 1 of 2: pass 1, 3 records, 3 rows; share 2 of 2: pass 1, 2 records, 2 rows",
        ),
    ],
)
def test_a_position_is_described_and_its_columns_are_named(tmp_path, rows, words):
    path = tmp_path / "runs" / "job" / "20261121-0942-brisk-heron"
    save(path / "checkpoints", 1, {"left": {"readers/r": np.array(rows), "w": np.zeros((2, 7))}})
    write_record(path, RunRecord(RUN_ID, "job", "2026-11-21T09:42:00.000000+00:00"))
    checkpoint = inspect(str(path), tmp_path)
    (file,) = checkpoint.files
    position, other = file.blobs

    assert (render_position(position), render_position(other)) == (words, "")
    blobs = inspection_values(checkpoint, checkpoint.files, values=False)["nodes"][0]["blobs"]
    assert blobs[0]["columns"][:3] == ["passes", "records", "rows"]
    assert "columns" not in blobs[1]


def test_the_class_of_an_object_comes_before_its_parts(tmp_path):
    state = {"a": 1, "net": ObjectState("lib.Net", {"0.w": A, "b": {}}), "n": {"x": 2}, "z": 1}
    save(tmp_path / "checkpoints", 0, {"left": state})

    (file,) = inspect(str(tmp_path / "checkpoints" / "epoch-000000"), tmp_path).files
    blobs = sort_objects_first(file.blobs)

    names = ["a", "n/:structure", "n/x", "net/:structure", "net/0.w", "z"]
    assert [blob.name for blob in blobs] == names
    assert [render_structure(blob) for blob in blobs] == [
        "",
        "dict",
        "",
        "object of class lib.Net",
        "",
        "",
    ]


def test_an_object_is_asked_for_with_all_its_parts(tmp_path):
    save(tmp_path / "checkpoints", 0, {"left": {"net": {"w": 1, "v": 2}, "network": 3}})
    checkpoint = inspect(str(tmp_path / "checkpoints" / "epoch-000000"), tmp_path)

    (file,) = select_blobs(checkpoint, "", "net")

    assert [blob.name for blob in file.blobs] == ["net/:structure", "net/v", "net/w"]
    with pytest.raises(UsageError) as caught:
        select_blobs(checkpoint, "", "nett")
    assert "'net'" in caught.value.faults[0].mend


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    job = WalkJob(tmp_path_factory.mktemp("sandbox") / "a")
    job.start(max_epochs=1)
    return job.run.path / "checkpoints" / "epoch-000001" / "a.h5"


@pytest.fixture
def file(saved, tmp_path):
    return shutil.copy(saved, tmp_path / "from-elsewhere.h5")


@pytest.mark.long
def test_a_sound_file_is_read(file):
    facts = inspect_guarded(str(file))

    assert (facts.header.node, facts.header.epoch) == ("a", 1)
    assert [blob.name for blob in facts.blobs] == ["k", "loss", "w"]


@pytest.mark.long
def test_a_file_that_is_no_checkpoint_is_reported_as_usual(tmp_path):
    (tmp_path / "x.h5").write_text("text")
    with pytest.raises(CheckpointError) as raised:
        inspect_guarded(str(tmp_path / "x.h5"))

    assert raised.value.faults[0].code == "E301"
    with pytest.raises(CheckpointError):
        inspect_guarded(str(tmp_path / "missing.h5"))


def dying(monkeypatch, line):
    """Let the child do something bad as soon as it has its limits."""
    marker = "from jobrun.checkpoint.checkpoint_file"
    text = inspection._SANDBOX.replace(marker, f"{line}\n{marker}")
    monkeypatch.setattr(inspection, "_SANDBOX", text)


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "ended by SIGSEGV"),
        ("import os; os._exit(0)", "no word"),
        ("x = bytearray(1 << 40)", "MemoryError"),
        ("import os; os.write(os.memfd_create('x'), b'x')", "SIGXFSZ|File too large"),
    ],
)
def test_row_60_the_readers_death_is_not_ours(file, monkeypatch, line, word):
    dying(monkeypatch, line)

    with pytest.raises(CheckpointError, match=word) as raised:
        inspect_guarded(str(file))

    assert raised.value.faults[0].code == "E384"


@pytest.mark.long
def test_row_60_a_reader_that_does_not_end_is_ended(file, monkeypatch):
    dying(monkeypatch, "while True: pass")

    with pytest.raises(CheckpointError, match=r"takes longer than 0\.5 s"):
        inspect_guarded(str(file), timeout_s=0.5)


def test_row_60_a_file_that_changes_in_between_is_refused(file, monkeypatch):
    other = hashlib.sha256(b"other").hexdigest()
    monkeypatch.setattr(
        inspection, "_read_in_child", lambda path, timeout_s: {"digest": f"sha256:{other}"}
    )

    with pytest.raises(CheckpointError, match="it changes while it is read"):
        inspect_guarded(str(file))


def test_long_values_are_cut():
    assert value_text(np.float32(0.5)) == "0.5"
    assert value_text("a\nb") == "'a\\nb'"
    assert "..." in value_text(np.arange(1000))


NODES = (NodeTime("a", 10, 0.5, 0.0),)


def times(epoch, seconds=0.5, action="save"):
    return CheckpointTimes(action, epoch, 10, seconds, 0.0, "a", NODES)


def log(path, *entries):
    lines = [written(event, generation=generation) for event, generation in entries]
    (path / "events.jsonl").write_text("".join(lines) + '{"event": "CheckpointTimes", "ep')


def test_the_times_of_a_save_are_those_of_its_epoch_and_generation(tmp_path):
    log(tmp_path, (times(1), 0), (times(2, 0.7), 0), (times(2, 0.9), 1), (times(2, 5.0, "load"), 1))

    assert saved_times(tmp_path, 2, 0) == times(2, 0.7)
    assert saved_times(tmp_path, 2, 1) == times(2, 0.9)


def test_of_an_epoch_that_was_saved_again_the_last_counts(tmp_path):
    log(tmp_path, (times(1, 0.1), 0), (times(1, 0.2), 0))

    assert saved_times(tmp_path, 1, 0) == times(1, 0.2)


def test_without_a_log_or_an_entry_nothing_is_known(tmp_path):
    assert saved_times(tmp_path, 1, 0) is None
    log(tmp_path, (times(1), 0))
    assert saved_times(tmp_path, 3, 0) is None
