"""Cases about the metadata handler of checkpoints, uploads and failing disks."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobrun.checkpoint.metadata_handler import Chosen
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.events import CheckpointCommitted, CheckpointFailed, GroupStarted, Noted
from jobrun.runner.saving.upload_to_directory import DirectoryUpload
from tests.support.conformance import Trial

_COUNTING = """
init: [{task: start, steps: [n = 0, {log: init}]}]
epoch: [{task: t, steps: [n += 1, {log: epoch}]}]
stop: [{epochs: TOTAL}]
"""


def _counting(total: int, more: str = "") -> str:
    return _COUNTING.replace("TOTAL", str(total)) + more


class Handler:
    """Records its calls; one of its methods may fail, another may choose an epoch."""

    def __init__(self, failing: str = "", *, open_: bool = True, epoch: int | None = None) -> None:
        self.calls: list[str] = []
        self._failing = failing
        self._open = open_
        self._epoch = epoch

    def last_epoch(self, wanted):
        self._reach("last_epoch")
        return None if self._epoch is None else Chosen(self._epoch, "it is the best")

    def accessible(self, epoch):
        self._reach("accessible")
        return self._open

    def written(self, epoch, generation):
        self._reach("written")
        self.calls.append(f"w{epoch}")

    def report(self, times):
        self._reach("report")
        self.calls.append("r")

    def _reach(self, method: str) -> None:
        if method == self._failing:
            raise OSError(f"{method} failed")


def _saves_and_epochs(job: Trial) -> str:
    """What happened, in order: e an epoch, w its save, x a save that failed."""
    letters = []
    for event in job.events:
        if isinstance(event, GroupStarted) and event.group == "epoch":
            letters.append("e")
        elif isinstance(event, CheckpointCommitted):
            letters.append(f"w{event.epoch}")
        elif isinstance(event, CheckpointFailed):
            letters.append(f"x{event.epoch}")
    return " ".join(letters)


def test_case_073_metadata_handler_failures(trial):
    """Same: where nothing fails, each epoch is saved and reported before the next one runs."""
    job, handler = trial(_counting(2, "checkpoint: {async: false}\n")), Handler()

    assert job.start(metadata=handler).epoch == 2

    assert _saves_and_epochs(job) == "w0 e w1 e w2"
    assert handler.calls == ["w0", "r", "w1", "r", "w2", "r"]
    assert job.store.epochs() == (0, 1, 2)


# A handler that fails a save, the calls that it gets nevertheless, and the saved epochs.
_FAILURES = {
    "not accessible": (Handler, {"open_": False}, [], ()),
    "accessible raises": (Handler, {"failing": "accessible"}, [], ()),
    "written raises": (Handler, {"failing": "written"}, [], (0, 1, 2)),
    "report raises": (Handler, {"failing": "report"}, ["w0", "w1", "w2"], (0, 1, 2)),
}


@pytest.mark.parametrize("which", _FAILURES)
def test_case_073_metadata_handler_failures_passed_over(trial, which):
    """By rule 14: with ``on_error: warn`` a failed save is counted, and reported at the end."""
    make, options, calls, epochs = _FAILURES[which]
    policy = "checkpoint: {on_error: warn, async: false}\n"
    job, handler = trial(_counting(2, policy)), make(**options)

    job.start(metadata=handler)

    assert job.messages == ["init", "epoch", "epoch"]
    assert handler.calls == calls
    assert job.store.epochs() == epochs
    # An epoch that is saved is none that could not be, whatever the handler says to it.
    assert _noted(job, "3 checkpoints could not be saved") is not bool(epochs)
    assert _noted(job, "epoch 2 is saved, but the metadata handler") is bool(epochs)


@pytest.mark.parametrize("which", _FAILURES)
def test_case_073_metadata_handler_failures_that_fail_the_run(trial, which):
    """By rule 14: without it, the run ends with the first save that fails."""
    make, options, _, _ = _FAILURES[which]
    job = trial(_counting(2, "checkpoint: {async: false}\n"))

    with pytest.raises(EnvironmentFaultError):
        job.start(metadata=make(**options))

    assert job.messages == ["init"]


def test_case_073_metadata_handler_failures_when_it_is_asked_for_an_epoch(trial):
    """Same: a handler that cannot say which epoch is an error, before anything runs."""
    job = trial(_counting(2))
    job.start()
    job.forget()

    with pytest.raises(EnvironmentFaultError, match="last_epoch failed"):
        job.resume(1, metadata=Handler("last_epoch"))

    assert job.groups == []
    assert job.store.epochs() == (0, 1, 2)


@pytest.mark.parametrize(("policy", "happened"), [("warn", "x0 e x1 e x2"), ("fail", "")])
def test_case_073_metadata_handler_failures_and_a_full_disk(trial, monkeypatch, policy, happened):
    """By rule 14: what the disk refuses is treated alike."""

    def commit(*_):
        raise EnvironmentFaultError.of("E313", "the disk is full", "make room")

    monkeypatch.setattr(DirectoryStore, "commit", commit)
    job = trial(_counting(2, f"checkpoint: {{on_error: {policy}, async: false}}\n"))

    if policy == "fail":
        with pytest.raises(EnvironmentFaultError, match="the disk is full"):
            job.start()
    else:
        job.start()

    assert _saves_and_epochs(job) == happened
    assert job.store.epochs() == ()


@pytest.mark.parametrize(
    ("user", "handler", "begins"), [(None, 2, 2), (3, 1, 1), (2, None, 2), (3, None, 3)]
)
def test_case_081_metadata_last_epoch_decides(trial, user, handler, begins):
    """By rule 18: the chosen epoch is reported, and who chose it; init does not run.

    A handler's epoch counts before the user's; one without an opinion leaves it to the user,
    and does not start over.
    """
    job = trial(_counting(4))
    job.start()
    job.forget()

    result = job.resume(user, metadata=Handler(epoch=handler))

    assert (result.epoch, job.epochs_run()) == (4, 4 - begins)
    assert "init" not in job.messages
    who = "Handler says: it is the best" if handler else "it was asked for"
    assert _noted(job, f"continuing from epoch {begins}: {who}")


def test_case_081_metadata_last_epoch_decides_nothing_without_one(trial):
    """Same: without a handler and a wish, a finished run has nothing left to do."""
    job = trial(_counting(4))
    job.start()
    job.forget()

    assert job.resume().epoch == 4
    assert job.groups == []


def _noted(job: Trial, text: str) -> bool:
    return any(text in event.text for event in job.events if isinstance(event, Noted))


class Noting:
    """Uploads as the spec's own builder does, and notes the epochs it was asked for."""

    def __init__(self, root: Path) -> None:
        self.epochs: list[int] = []
        self._builder = DirectoryUpload(str(root), "trainer_0")

    def build(self, epoch, store):
        self.epochs.append(epoch)
        return self._builder.build(epoch, store)


_UPLOADED = """
nodes: {trainer: {count: 1}}
download: [{task: gather, steps: [g = 1]}]
"""


def _check_uploaded(job: Trial, root: Path) -> None:
    files = list(root.rglob("*.h5"))
    assert [path.stem for path in files] == ["trainer_0"]
    assert files[0].read_bytes() == (Path(job.store.path(4)) / "trainer_0.h5").read_bytes()
    assert job.groups == ["init", "epoch", "epoch", "epoch", "epoch", "upload", "download"]


def test_case_084_upload_group(trial, tmp_path):
    """Same: a builder is asked once, for the last epoch, and its group runs before download."""
    job, builder = trial(_counting(4, _UPLOADED)), Noting(tmp_path / "there")

    assert job.start(upload=builder).epoch == 4

    assert builder.epochs == [4]
    _check_uploaded(job, tmp_path / "there")


def test_case_084_upload_group_of_a_spec(trial):
    """Same: what the spec says is such a builder."""
    job = trial(_counting(4, _UPLOADED + "checkpoint: {upload: {to: there}}\n"))

    assert job.start().epoch == 4

    _check_uploaded(job, job.folder / "there")


class Remembering(Handler):
    """Remembers the epochs that it was given, as its contract says."""

    def accessible(self, epoch):
        self.calls.append("a" if epoch is None else f"a{epoch}")
        return epoch is None or f"w{epoch}" in self.calls

    def last_epoch(self, wanted):
        self.calls.append("l")


def test_metadata_handler_is_called_at_each_start_and_once_per_epoch(trial):
    job, handler = trial(_counting(4, "checkpoint: {async: false}\n")), Remembering()

    job.start(metadata=handler)
    assert handler.calls[0] == "l"
    handler.calls.remove("w4")
    for _ in range(2):
        job.resume(4, metadata=handler)
    job.resume(2, metadata=handler)

    assert handler.calls.count("l") == 4
    written = [call for call in handler.calls if call.startswith("w")]
    # An epoch not reported before a kill is reported at the resume; 3 and 4 were computed again.
    assert written == ["w0", "w1", "w2", "w3", "w4", "w3", "w4"]


def test_metadata_handler_that_names_an_epoch_of_a_new_run_is_refused(trial):
    job = trial(_counting(2))

    with pytest.raises(CheckpointError, match="a new run has none"):
        job.start(metadata=Handler(epoch=3))

    assert job.groups == []
