"""Saves between two records: what of a group run is kept where, and how it is entered again.

::

    safe point:   wait until the epoch before is durable
                  write the node's state, and all else that lives; commit; acknowledge
                  delete the one before
                  end the run there, if someone asked for that

The state is as it is then; beside it, under ``scratch/``, stands what an epoch boundary would not
keep. Streams and the reader's place are in the manifest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

from jobrun.checkpoint.hdf5 import read_state
from jobrun.checkpoint.midway import MidwayStore, midways
from jobrun.checkpoint.plan import checkpointed_blobs, file_name, load_group
from jobrun.checkpoint.store import CheckpointStore, Manifest
from jobrun.checkpoint.writer import NodeWriter
from jobrun.compile.midway import obstacles
from jobrun.core.errors import CheckpointError, EnvironmentFaultError, SpecError
from jobrun.core.events import CheckpointWithin, Listener, Noted
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.commit import Identity, Place
from jobrun.runner.entering import remove_midways
from jobrun.runner.logs import cut_metrics
from jobrun.runner.parts import kept_names
from jobrun.runner.progress import Progress, from_json, to_json
from jobrun.runner.rundir import METRICS_NAME
from jobrun.runner.saver import Saver
from jobrun.runner.signals import StopRequests
from jobrun.runtime.midway import Midpoint, Points

Acknowledge = Callable[[int, int, int], None]


@dataclass(frozen=True, slots=True)
class Hooks:
    """Whom a save between two records asks and tells.

    Attributes:
        saver: Saves whole epochs.
        acknowledge: Promises epoch, records and generation to the user, durably.
        requests: To end the run.
        listen: Is told.
    """

    saver: Saver
    acknowledge: Acknowledge
    requests: StopRequests
    listen: Listener


class MidwaySaver:
    """Saves a job's epochs between two records, as its policy says.

    Args:
        job: What is run.
        place: Where epochs are kept.
        identity: What every manifest says.
        hooks: Whom to ask and tell.
        entry: Where the first epoch is entered; None for its beginning.

    Attributes:
        left: After how many records the last epoch was left, saved; 0 when it was not.

    Raises:
        SpecError: E190, the job cannot be saved there. Of a graph built in Python, or of a changed
            spec: one that asks for it does not compile.
    """

    def __init__(
        self, job: Job, place: Place, identity: Identity, hooks: Hooks, entry: Midpoint | None
    ) -> None:
        _expect_possible(job)
        self._job = job
        self._place = place
        self._identity = identity
        self._hooks = hooks
        self._entry = entry
        self._root = str(Path(place.store.path(0)).parent)
        self._node = job.epoch.tasks[0].node
        self._kept = frozenset(kept_names(job)[self._node])
        compression = job.checkpoint.compression
        self._writer = NodeWriter(self._node, compression)
        self._began = time.monotonic()
        # One safe point at a time; those of an earlier visit of an epoch are of no use any more.
        self._reaching = threading.Lock()
        self._visit = 0
        self.left = 0

    @property
    def is_entering(self) -> bool:
        """Whether the next epoch is entered between two records."""
        return self._entry is not None

    def points(self, before: Progress) -> Points:
        """The safe points of the epoch that follows."""
        entry, self._entry = self._entry, None
        self._began, self.left = time.monotonic(), 0
        self.clear()
        visit = self._visit
        return Points(
            self._job.checkpoint.every_records,
            lambda point: self._reached(visit, before, point),
            entry,
        )

    def clear(self) -> None:
        """Delete what is within epochs that are saved as a whole."""
        saved = self._hooks.saver.saved
        remove_midways(self._root, tuple(one for one in midways(self._root) if one[0] <= saved))

    def leave(self) -> None:
        """The epoch is left, though a safe point may be under way: that is waited for."""
        with self._reaching:
            self._visit += 1
        self._entry = None

    def go_back(self, epoch: int) -> tuple[Progress, TaskGroup, int] | None:
        """Let the epoch after that one be entered where it was saved last; only after ``leave``.

        Metrics that were measured later do not count any more.

        Returns:
            How the run stood before that epoch, what loads the state, and after how many records
            it is entered; None where nothing is saved within the epoch.

        Raises:
            CheckpointError: It cannot be read.
        """
        records = max((one[1] for one in midways(self._root) if one[0] == epoch + 1), default=0)
        if not records:
            return None
        store = MidwayStore(self._root, records)
        manifest, place = store.manifest(epoch + 1), store.path(epoch + 1)
        self._entry, metrics_bytes = read_midpoint(self._job, manifest, place)
        cut_metrics(self._place.run, metrics_bytes)
        return from_json(manifest.runner), load_group(self._job, manifest, place), records

    def _reached(self, visit: int, before: Progress, point: Midpoint) -> bool:
        with self._reaching:
            return visit == self._visit and self._saved_at(before, point)

    def _saved_at(self, before: Progress, point: Midpoint) -> bool:
        """Whether the epoch goes on after a safe point."""
        hooks = self._hooks
        before = hooks.saver.settle(before)
        # Where the epoch before could not be saved, there is nothing to go on from.
        if hooks.saver.saved == before.epoch:
            elapsed_s = before.elapsed_s + time.monotonic() - self._began
            is_saved = self._saved(replace(before, elapsed_s=elapsed_s), point)
            if is_saved and hooks.requests.reason:
                self.left = point.records
                return False
        return True

    def _saved(self, before: Progress, point: Midpoint) -> bool:
        """Whether it could be saved, at the second try if not at the first."""
        try:
            try:
                self._commit(before, point)
            except EnvironmentFaultError:
                here = (before.epoch + 1, point.records)
                if here in midways(self._root):
                    raise
                self._commit(before, point)
        except EnvironmentFaultError as error:
            if self._job.checkpoint.on_error != "warn":
                raise
            what = f"epoch {before.epoch + 1} was not saved after {point.records} records"
            self._hooks.listen(Noted(f"{what}: {error}", "warning"))
            return False
        return True

    def _commit(self, before: Progress, point: Midpoint) -> None:
        epoch, identity = before.epoch + 1, self._identity
        began = time.monotonic()
        store = MidwayStore(self._root, point.records)
        staged = store.stage(epoch)
        try:
            scratch = self._scratch(point)
            state = {n: point.blobs["n"][n] for n in checkpointed_blobs(self._job)[self._node]}
            file = self._writer.write(
                str(PurePath(staged, file_name(self._node))),
                epoch=epoch,
                run_id=identity.run_id,
                values={**state, **{_path(*key): value for key, value in scratch.items()}},
            )
            form = {**to_json(before), "midway": self._form(point, list(scratch))}
            manifest = Manifest(
                epoch, identity.run_id, identity.generation, (file,), identity.spec_digest,
                form, identity.environment,
            )  # fmt: skip
            self._place.lock.check()
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
        others = (one for one in midways(self._root) if one != (epoch, point.records))
        remove_midways(self._root, tuple(others))

    def _scratch(self, point: Midpoint) -> dict[tuple[str, str], Any]:
        """By workspace and name, what lives and is neither state nor a constant."""
        return {
            (letter, name): value
            for letter, blobs in point.blobs.items()
            for name, value in blobs.items()
            if letter != "n" or name not in self._kept
        }

    def _form(self, point: Midpoint, scratch: list[tuple[str, str]]) -> dict[str, Any]:
        try:
            metrics_bytes = (self._place.run / METRICS_NAME).stat().st_size
        except OSError:
            metrics_bytes = 0
        return {
            "records": point.records,
            "cursors": [list(one) for one in point.cursors],
            "streams": {place: dict(state) for place, state in point.streams.items()},
            "scratch": [list(one) for one in scratch],
            "metrics_bytes": metrics_bytes,
        }


def midway_store(store: CheckpointStore, records: int) -> MidwayStore:
    """Where a run's checkpoints after so many records of an epoch are; ``store`` has the others."""
    return MidwayStore(str(Path(store.path(0)).parent), records)


def read_midpoint(job: Job, manifest: Manifest, directory: str) -> tuple[Midpoint, int]:
    """Where an epoch is entered, and how long its run's metrics were then.

    The node's state is not in it: that is loaded as that of a whole epoch.

    Raises:
        CheckpointError: The files are damaged, or of another make.
        SpecError: E190, the job as it is now cannot be entered there.
    """
    _expect_possible(job)
    form = manifest.runner.get("midway")
    file = next((one for one in manifest.files if one.node == job.epoch.tasks[0].node), None)
    if not isinstance(form, Mapping) or file is None:
        raise _odd(manifest.epoch)
    try:
        keys = [(letter, name) for letter, name in form["scratch"]]
        cursors = tuple((given, rows) for given, rows in form["cursors"])
        records, streams, size = form["records"], form["streams"], form["metrics_bytes"]
    except (KeyError, TypeError, ValueError) as error:
        raise _odd(manifest.epoch) from error
    values = read_state(
        str(PurePath(directory, file.name)),
        node=file.node,
        epoch=manifest.epoch,
        run_id=manifest.run_id,
        digest=file.digest,
        names=[_path(*key) for key in keys],
    )
    blobs: dict[str, dict[str, Any]] = {"t": {}, "g": {}, "n": {}}
    for letter, name in keys:
        blobs[letter][name] = values[_path(letter, name)]
    return Midpoint(records, cursors, blobs, streams), size


def _expect_possible(job: Job) -> None:
    for message, mend in obstacles(job):
        text = f"checkpoints within an epoch are not carried out yet {message}"
        raise SpecError.of("E190", text, f"{mend}; or go on from a whole epoch with --epoch N")


def _path(letter: str, name: str) -> str:
    return f"scratch/{letter}/{name}"


def _odd(epoch: int) -> CheckpointError:
    return CheckpointError.of(
        "E358",
        f"the checkpoint within epoch {epoch} does not say how the epoch stood",
        f"use the jobrun that wrote it, or the whole epoch before with --epoch {epoch - 1}",
    )
