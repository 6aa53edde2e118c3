"""Save mid-epoch checkpoints, between two records of a reader, and continue an epoch there.

::

    safe point:   wait until the epoch before is durable
                  write the node's state, and all else that lives; commit; acknowledge
                  delete the one before
                  end the run there, if someone asked for that

The state is as it is then; beside it, under ``scratch/``, is what an epoch boundary would not
keep. Streams and the reader's place are in the manifest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path, PurePath
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.checkpoint.store_protocol import Manifest
from jobrun.checkpoint.stores.manifest import SETTINGS
from jobrun.checkpoint.stores.mid_epoch_store import (
    MidEpochStore,
    list_mid_epochs,
    remove_mid_epochs,
)
from jobrun.checkpoint.task_groups import file_name, load_group
from jobrun.checkpoint.write.writer import NodeWriter
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import CheckpointWithin, Listener, Noted
from jobrun.graph.query import checkpointed_blobs, kept_names
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.resume.mid_epoch_recovery import (
    read_midpoint,
    require_supported,
    scratch_path,
)
from jobrun.runner.rundir.lock import RunLostError
from jobrun.runner.rundir.logs import cut_metrics
from jobrun.runner.rundir.run_directories import METRICS_NAME
from jobrun.runner.saved_progress import Progress, from_json, to_json
from jobrun.runner.saving.commit import CheckpointTarget, RunIdentity
from jobrun.runner.saving.saver import Saver
from jobrun.runner.stop_requests import StopRequests
from jobrun.runner.time_account import TimeAccount
from jobrun.runtime.context.safe_point import SafePoint, SafePointHooks

Acknowledge = Callable[[int, int, int], None]


class MidEpochHooks(Struct, frozen=True):
    """The callbacks of a mid-epoch save.

    Attributes:
        saver: Saves whole epochs.
        acknowledge: Promises epoch, records and generation to the user, durably.
        requests: To end the run.
        listen: Receives events.
        account: Where the time of the run goes: here to saves.
    """

    saver: Saver
    acknowledge: Acknowledge
    requests: StopRequests
    listen: Listener
    account: TimeAccount = field(default_factory=TimeAccount)


class MidEpochSaver:
    """Saves mid-epoch checkpoints, as the job's policy says.

    Args:
        job: What is run.
        place: Where epochs are kept.
        identity: What every manifest says.
        hooks: The callbacks.
        entry: Where the first epoch is entered; None for its beginning.

    Attributes:
        left: After how many records the last epoch was left, saved; 0 when it was not.

    Raises:
        SpecError: E190, the job cannot be saved there. Of a graph built in Python, or of a changed
            spec: one that asks for it does not compile.
    """

    def __init__(
        self,
        job: Job,
        target: CheckpointTarget,
        identity: RunIdentity,
        hooks: MidEpochHooks,
        entry: SafePoint | None,
    ) -> None:
        require_supported(job)
        self._job = job
        self._target = target
        self._identity = identity
        self._hooks = hooks
        self._entry = entry
        self._root = str(Path(target.store.path(0)).parent)
        self._node = job.epoch.tasks[0].node
        self._kept = frozenset(kept_names(job)[self._node])
        compression = job.checkpoint.compression
        self._writer = NodeWriter(self._node, compression)
        self._began = time.monotonic()
        # One safe point at a time; safe points of an earlier visit of an epoch are ignored.
        self._reaching = threading.Lock()
        self._visit = 0
        self.stopped_at = 0

    @property
    def is_entering(self) -> bool:
        """Return whether the next epoch starts from what this mid-epoch saver has saved."""
        return self._entry is not None

    def points(self, before: Progress) -> SafePointHooks:
        """Return the callbacks by which a running epoch makes its mid-epoch saves."""
        entry, self._entry = self._entry, None
        self._began, self.stopped_at = time.monotonic(), 0
        self.clear()
        visit = self._visit
        return SafePointHooks(
            self._job.checkpoint.every_records,
            lambda point: self._reached(visit, before, point),
            entry,
        )

    def clear(self) -> None:
        """Delete the mid-epoch saver's checkpoints of epochs that are now saved as a whole."""
        saved = self._hooks.saver.saved
        remove_mid_epochs(
            self._root,
            tuple(mid_epoch for mid_epoch in list_mid_epochs(self._root) if mid_epoch[0] <= saved),
        )

    def leave(self) -> None:
        """Wait for a mid-epoch save in progress, as the run leaves the epoch."""
        with self._reaching:
            self._visit += 1
        self._entry = None

    def reenter(self, epoch: int) -> tuple[Progress, TaskGroup, int] | None:
        """Return the progress, load tasks and records of the newest mid-epoch save, or None.

        Metrics that were measured later do not count any more.

        Returns:
            The progress before that epoch, what loads the state, and after how many records
            it is entered; None where nothing is saved within the epoch.

        Raises:
            CheckpointError: It cannot be read.
        """
        records = max(
            (
                mid_epoch[1]
                for mid_epoch in list_mid_epochs(self._root)
                if mid_epoch[0] == epoch + 1
            ),
            default=0,
        )
        if not records:
            return None
        store = MidEpochStore(self._root, records)
        manifest, directory = store.manifest(epoch + 1), store.path(epoch + 1)
        self._entry, metrics_bytes = read_midpoint(self._job, manifest, directory)
        cut_metrics(self._target.run, metrics_bytes)
        return from_json(manifest.runner), load_group(self._job, manifest, directory), records

    def _reached(self, visit: int, before: Progress, point: SafePoint) -> bool:
        with self._reaching:
            if visit != self._visit:
                return False
            # Saving here is safe: the only task waits here, and the loop's thread waits for the
            # task.
            row = self._hooks.account.switch("saves")
            try:
                return self._save_at(before, point)
            finally:
                self._hooks.account.switch(row)

    def _save_at(self, before: Progress, point: SafePoint) -> bool:
        """Save a mid-epoch checkpoint at a safe point; return whether the epoch continues."""
        hooks = self._hooks
        before = hooks.saver.settle(before)
        # A save within an epoch needs the whole epoch before it.
        if hooks.saver.saved == before.epoch:
            elapsed_s = before.elapsed_s + time.monotonic() - self._began
            is_saved = self._saved(replace(before, elapsed_s=elapsed_s), point)
            if is_saved and hooks.requests.reason:
                self.stopped_at = point.records
                return False
        return True

    def _saved(self, before: Progress, point: SafePoint) -> bool:
        """Save a mid-epoch checkpoint, with a second try; return whether that succeeded."""
        try:
            try:
                self._commit(before, point)
            except RunLostError:
                raise
            except EnvironmentFaultError:
                here = (before.epoch + 1, point.records)
                if here in list_mid_epochs(self._root):
                    raise
                self._commit(before, point)
        except EnvironmentFaultError as error:
            if isinstance(error, RunLostError) or self._job.checkpoint.on_error != "warn":
                raise
            subject = f"epoch {before.epoch + 1} was not saved after {point.records} records"
            self._hooks.listen(Noted(f"{subject}: {error}", "warning"))
            return False
        return True

    def _commit(self, before: Progress, point: SafePoint) -> None:
        epoch, identity = before.epoch + 1, self._identity
        began = time.monotonic()
        self._target.check()
        store = MidEpochStore(self._root, point.records)
        staged = store.stage(epoch)
        try:
            scratch = self._scratch(point)
            state = {n: point.blobs["n"][n] for n in checkpointed_blobs(self._job)[self._node]}
            file = self._writer.write(
                str(PurePath(staged, file_name(self._node))),
                epoch=epoch,
                run_id=identity.run_id,
                values={**state, **{scratch_path(*key): value for key, value in scratch.items()}},
            )
            content = {**to_json(before), "midway": self._midpoint_json(point, list(scratch))}
            if point.settings:
                content[SETTINGS] = {self._node: dict(point.settings)}
            manifest = Manifest(
                epoch,
                identity.run_id,
                identity.generation,
                (file,),
                identity.spec_digest,
                content,
                identity.environment,
            )
            self._target.check()
            store.commit(staged, manifest)
        except BaseException:
            store.discard(staged)
            raise
        self._hooks.acknowledge(epoch, point.records, identity.generation)
        self._hooks.listen(
            CheckpointWithin(
                epoch, point.records, file.size_bytes, time.monotonic() - began, store.path(epoch)
            )
        )
        others = (
            mid_epoch
            for mid_epoch in list_mid_epochs(self._root)
            if mid_epoch != (epoch, point.records)
        )
        remove_mid_epochs(self._root, tuple(others))

    def _scratch(self, point: SafePoint) -> dict[tuple[str, str], Any]:
        """Return the blobs that a mid-epoch save has in addition to those of a whole epoch."""
        return {
            (letter, name): value
            for letter, blobs in point.blobs.items()
            for name, value in blobs.items()
            if letter != "n" or name not in self._kept
        }

    def _midpoint_json(self, point: SafePoint, scratch: list[tuple[str, str]]) -> dict[str, Any]:
        try:
            metrics_bytes = (self._target.run / METRICS_NAME).stat().st_size
        except OSError:
            metrics_bytes = 0
        return {
            "records": point.records,
            "cursors": [list(cursor) for cursor in point.cursors],
            "streams": {block_path: dict(state) for block_path, state in point.streams.items()},
            "scratch": [list(key) for key in scratch],
            "metrics_bytes": metrics_bytes,
        }
