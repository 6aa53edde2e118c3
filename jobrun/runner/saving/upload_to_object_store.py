"""Upload epochs and the run's record to an object store, in a thread beside the run.

Each epoch that is saved gets into a queue; a thread takes one after the other. The outcome is
reported at the next boundary, in the loop's thread. Only an upload that is required is waited for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_times import build_times
from jobrun.checkpoint.store_protocol import CheckpointStore, Manifest, StoredFile
from jobrun.checkpoint.stores.object_references import delete_fetched, write_reference
from jobrun.checkpoint.stores.object_store import ObjectStore, UploadCancelledError, upload_file
from jobrun.core.errors import EnvironmentFaultError, JobrunError
from jobrun.core.events import CheckpointTimes, Listener, Noted
from jobrun.core.failpoints import reach
from jobrun.core.files.disk import disk_faults
from jobrun.core.text.object_url import ObjectUrl
from jobrun.graph.checkpoint_policy import UploadPolicy
from jobrun.runner.rundir.object_store_run import RunLease, record_newest
from jobrun.session.base import GroupCancelledError

_POLL_S = 0.05
# How long close waits for a thread that is blocked in a system call.
_LAST_WAIT_S = 3.0


def _never() -> bool:
    return False


class ObjectUpload:
    """The place in an object store to which the epochs and the record of a run are uploaded.

    Args:
        url: Of the run, where nothing else is.
        upload_record: Uploads again what a run is made of.
        is_over: Whether the run is to end at once.
        holding: The right to save there, where no epoch is elsewhere.
    """

    def __init__(
        self,
        url: ObjectUrl,
        upload_record: Callable[[ObjectUrl], None],
        is_over: Callable[[], bool] = _never,
        holding: RunLease | None = None,
    ) -> None:
        self.url = url
        self.is_over = is_over
        self._bring_record = upload_record
        self._holding = holding
        self._stores: dict[int, ObjectStore] = {}

    def take(self, staged: str, epoch: int, generation: int, files: Iterable[StoredFile]) -> None:
        """Upload an epoch's files to the object store before the commit, unless they are there.

        Args:
            staged: Where they are, or where it is said where they are.
            epoch: Its number.
            generation: The run's.
            files: All of the epoch.

        Raises:
            EnvironmentFaultError: Another directory continues the run, or the store refuses.
        """
        if self._holding is not None:
            self._holding.require_lease()
        # Files that a resume has downloaded are no longer needed.
        delete_fetched()
        url = generation_url(self.url, generation)
        for file in files:
            path = Path(staged, file.name)
            if path.exists():
                reference = upload_file(url, epoch, file, str(path))
                with disk_faults("E313", f"write {path}"):
                    write_reference(path, reference)
                    path.unlink()

    def send(self, directory: str, manifest: Manifest, is_wanted: Callable[[], bool]) -> bool:
        """Upload a saved epoch to the object store; return False if it was there already."""
        generation = manifest.generation
        if not self._stores:
            self._bring_record(self.url)
        if generation not in self._stores:
            self._stores[generation] = ObjectStore(generation_url(self.url, generation))
        is_new = self._stores[generation].upload(directory, manifest, is_wanted)
        # Even if the epoch was there: a kill may have come between the two writes.
        record_newest(self.url, manifest.epoch, generation)
        return is_new


def generation_url(url: ObjectUrl, generation: int) -> ObjectUrl:
    """Return the URL to upload to: ``url``, or ``url/g2`` after two uses of ``resume --epoch``.

    What is computed again after going back never gets among those from before.
    """
    return url / f"g{generation}" if generation else url


class _Outcome(Struct, frozen=True):
    """The outcome of an upload to the object store."""

    epoch: int
    error: Exception | None = None
    files: tuple[StoredFile, ...] = ()
    is_gone: bool = False


class BackgroundUploader:
    """Uploads the epochs that its policy names to an object store, in a thread.

    Args:
        upload: Where to.
        policy: Which epochs, and what a failure means.
        store: Where the epochs are.
        listen: Receives events.
        report: Is given the times of each upload.
    """

    def __init__(
        self,
        upload: ObjectUpload,
        policy: UploadPolicy,
        store: CheckpointStore,
        listen: Listener,
        report: Callable[[CheckpointTimes], None],
    ) -> None:
        self._upload = upload
        self._policy = policy
        self._store = store
        self._listen = listen
        self._report = report
        self._failed: set[int] = set()
        self._reasons: set[tuple[str, str]] = set()
        self._done: set[int] = set()
        self._has_reported_gone = False
        self._queue: deque[int] = deque()
        self._outcomes: deque[_Outcome] = deque()
        self._change = threading.Condition()
        self._busy_with = -1
        self._closed = False
        self._thread: threading.Thread | None = None

    def held(self) -> frozenset[int]:
        """Return the epochs being uploaded to the object store, which must not be deleted."""
        with self._change:
            return frozenset({self._busy_with} - {-1})

    def committed(self, epoch: int) -> None:
        """Queue a committed epoch for upload to the object store, if the policy uploads each.

        Raises:
            EnvironmentFaultError: An upload failed, and is required.
        """
        self._tell()
        if self._policy.when == "committed":
            self._begin((epoch,))
            if self._policy.required:
                self._await()

    def finish(self, epoch: int) -> None:
        """Upload what the object store lacks after the last epoch, and wait for it.

        Args:
            epoch: The newest that is durable; -1 for none.

        Raises:
            EnvironmentFaultError: It failed, and is required.
            GroupCancelledError: The run is to end at once.
        """
        if epoch < 0:
            self._fail(epoch, "no epoch is saved, so there is nothing to upload", None)
        self._await()
        missing = self._store.epochs() if self._policy.when == "committed" else (epoch,)
        self._begin(tuple(due for due in missing if due >= 0 and due not in self._done))
        self._await()
        reach("runner.uploaded")
        if self._failed:
            many = f"{len(self._failed)} uploads" if len(self._failed) > 1 else "1 upload"
            self._listen(Noted(f"{many} failed; the checkpoints themselves are saved", "warning"))

    def close(self) -> None:
        """Stop the upload thread, warning of errors; a resume continues the uploads."""
        with self._change:
            if self._closed:
                return
            self._closed = True
            waiting = len(self._queue) + (self._busy_with >= 0)
            self._change.notify_all()
        if self._thread is not None:
            self._thread.join(_LAST_WAIT_S)
            self._thread = None
        with contextlib.suppress(EnvironmentFaultError):
            self._tell()
        if waiting:
            many = f"{waiting} epochs are" if waiting > 1 else "1 epoch is"
            self._listen(Noted(f"{many} not uploaded yet; a resume continues with that", "warning"))

    def _begin(self, epochs: tuple[int, ...]) -> None:
        if self._thread is None and epochs:
            # Started before anything is queued: if no thread can be started, nothing waits for one.
            thread = threading.Thread(target=self._live, name="jobrun-upload", daemon=True)
            thread.start()
            self._thread = thread
        with self._change:
            self._queue.extend(
                epoch for epoch in epochs if epoch not in self._queue and epoch != self._busy_with
            )
            self._change.notify_all()

    def _await(self) -> None:
        """Wait until no upload to the object store is in progress; report outcomes."""
        with self._change:
            while self._queue or self._busy_with >= 0:
                if self._upload.is_over():
                    raise GroupCancelledError
                self._change.wait(_POLL_S)
        self._tell()

    def _live(self) -> None:
        while True:
            with self._change:
                while not (self._queue or self._closed):
                    self._change.wait()
                if self._closed:
                    return
                epoch = self._busy_with = self._queue.popleft()
            try:
                outcome = self._sent(epoch)
            except UploadCancelledError:
                return
            except Exception as error:  # noqa: BLE001 - reported, or raised, by the loop
                outcome = _Outcome(epoch, error)
            with self._change:
                self._outcomes.append(outcome)
                self._busy_with = -1
                self._change.notify_all()

    def _sent(self, epoch: int) -> _Outcome:
        started = time.perf_counter()
        if not self._policy.required and epoch not in self._store.epochs():
            return _Outcome(epoch, is_gone=True)
        manifest = self._store.manifest(epoch)
        is_new = self._upload.send(self._store.path(epoch), manifest, lambda: not self._closed)
        seconds = time.perf_counter() - started
        # Files are uploaded one after the other: share the time in proportion.
        files = tuple(replace(file, seconds=seconds) for file in manifest.files if is_new)
        return _Outcome(epoch, files=files)

    def _tell(self) -> None:
        while True:
            with self._change:
                if not self._outcomes:
                    return
                outcome = self._outcomes.popleft()
            if outcome.is_gone:
                self._report_gone(outcome.epoch)
            elif outcome.error is None:
                self._done.add(outcome.epoch)
                self._failed.discard(outcome.epoch)
                if outcome.files:
                    self._report(build_times("upload", outcome.epoch, outcome.files))
            else:
                words = _describe_failure(outcome.epoch, outcome.error)
                self._fail(outcome.epoch, words, outcome.error)

    def _report_gone(self, epoch: int) -> None:
        """Warn, once, that retention has deleted an epoch before its upload could begin."""
        if not self._has_reported_gone:
            self._has_reported_gone = True
            self._listen(
                Noted(
                    f"epoch {epoch} is not uploaded: checkpoint.keep has deleted it before its "
                    "turn came. Uploads take longer than epochs: save less often "
                    "(checkpoint.every), or let the run wait for them (upload.required: true)",
                    "warning",
                )
            )

    def _fail(self, epoch: int, message: str, cause: Exception | None) -> None:
        if self._policy.required:
            mends = [fault.mend for fault in getattr(cause, "faults", ()) if fault.mend]
            raise EnvironmentFaultError.of(
                "E321", message, mends[0] if mends else "fix the cause, then resume"
            ) from cause
        self._failed.add(epoch)
        # A store that refuses one epoch refuses the others: the same text is reported once, and
        # their number at the end.
        reason = type(cause).__name__, message.rpartition(": ")[2]
        if reason not in self._reasons:
            self._reasons.add(reason)
            self._listen(Noted(message, "warning"))


def _describe_failure(epoch: int, error: Exception) -> str:
    reason = f"{type(error).__name__}: {error}"
    if isinstance(error, JobrunError):
        reason = "; ".join(fault.message for fault in error.faults)
    return f"epoch {epoch} could not be uploaded: {' '.join(reason.split())}"
