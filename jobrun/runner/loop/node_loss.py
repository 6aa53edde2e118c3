"""Fail over when a node is lost: replace it and restart from a saved epoch, a few times.

The loop restarts from the point found here, as a resume does in a new process, so that the bits are
those of a run in which nothing was lost.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct

from jobrun.checkpoint.store_protocol import CheckpointStore
from jobrun.core.events import Listener, NodeReplaced, Noted
from jobrun.core.waiting import wait_until
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.saved_progress import Progress
from jobrun.runner.saving.saver import Saver
from jobrun.runner.stop_requests import StopRequests
from jobrun.session.base import NodeLostError, Session

if TYPE_CHECKING:
    from jobrun.runner.saving.mid_epoch_saver import MidEpochSaver

# Interval of the checks for a stop request while nothing runs.
_LONGEST_WAIT_S = 60.0


class RestartPoint(NamedTuple):
    """A save from which a run can restart after a lost node.

    Attributes:
        progress: At the end of an epoch.
        load: Brings the state into the session.
        records: It is the state after so many records of the next epoch; 0: at that end.
        unknown: Fields of constants of which it says nothing, as by ``restore_progress``.
    """

    progress: Progress
    load: TaskGroup
    records: int = 0
    unknown: tuple[str, ...] = ()


class SavedState(Struct, frozen=True):
    """What has been saved, and how it is loaded.

    Attributes:
        accept: Fields whose drift is accepted.
        midway: Has what was saved between two records; None where nothing is.
    """

    job: Job
    store: CheckpointStore
    saver: Saver
    accept: tuple[str, ...] = ()
    midway: MidEpochSaver | None = None

    def newest(self) -> RestartPoint | None:
        """Return the newest save, whole or mid-epoch, to restart from after a node is lost.

        Waits for a save that is under way; one that has lost its node is none.
        """
        if self.midway:
            self.midway.leave()
        with contextlib.suppress(NodeLostError):
            self.saver.settle(Progress())
        epoch = self.saver.saved
        if epoch < 0:
            return None
        within = self.midway.reenter(epoch) if self.midway else None
        if within is not None:
            return RestartPoint(*within)
        from jobrun.runner.resume.resize import restore_progress  # noqa: PLC0415 - seldom

        manifest, directory = self.store.manifest(epoch), self.store.path(epoch)
        # The epoch may have been saved with another number of nodes.
        progress, load, unknown = restore_progress(self.job, manifest, directory)
        return RestartPoint(progress, load, unknown=unknown)


class NodeFailover:
    """Counts lost nodes and replaces them.

    Args:
        session: Has lost a node.
        saves: What there is to go back to.
        requests: Requests to end, which cut the wait short.
        listen: Receives events.
        most: How many in a row, with nothing saved in between, are borne.
    """

    def __init__(
        self,
        session: Session,
        saves: SavedState,
        requests: StopRequests,
        listen: Listener,
        most: int,
    ) -> None:
        self.saves = saves
        self._session = session
        self._requests = requests
        self._listen = listen
        self._most = most
        self._count = 0
        self._saved = (-1, 0)

    def replace_lost_nodes(self, error: NodeLostError) -> RestartPoint | None:
        """Replace lost nodes by new ones; return the save to restart from, None to run init.

        Raises:
            NodeLostError: The one too many.
        """
        while True:
            newest = self._count_loss(error)
            try:
                nodes = self._session.renew()
            except NodeLostError as another:
                # Another node was lost during the replacement of the first.
                error = another
                continue
            for node in nodes:
                self._listen(NodeReplaced(node, *_position(newest)))
            return newest

    def _count_loss(self, error: NodeLostError) -> RestartPoint | None:
        """Count a lost node; raise if too many are lost, else pause, return the newest epoch."""
        newest = self.saves.newest()
        position = _position(newest)
        if position > self._saved:
            self._saved, self._count = position, 0
        self._count += 1
        if self._count > self._most:
            error.add_note(f"that is more than {self._most} losses with nothing saved in between")
            raise error
        self._tell(error, *position)
        self._pause()
        return newest

    def _tell(self, error: NodeLostError, epoch: int, records: int) -> None:
        messages = "; ".join(fault.message for fault in error.faults)
        where = f"from epoch {epoch}, the last that is saved" if epoch >= 0 else "from init"
        if records:
            where = f"in epoch {epoch + 1}, after {records} of its records"
        wait_s = self._wait_s()
        when = f" in {wait_s:g} s" if wait_s else ""
        count = f"loss {self._count} of {self._most} at most"
        self._listen(Noted(f"{messages}; the run continues{when} {where} ({count})", "warning"))

    def _wait_s(self) -> float:
        """Return the wait before a lost node is replaced: 0 s, then 1 s, 2 s, 4 s and so on."""
        if self._count <= 1:
            return 0.0
        return float(min(2.0 ** (self._count - 2), _LONGEST_WAIT_S))

    def _pause(self) -> None:
        wait_until(lambda: self._requests.reason, self._wait_s())


def _position(newest: RestartPoint | None) -> tuple[int, int]:
    """Return at which epoch, and how many records after it, a lost node's run restarts."""
    return (newest.progress.epoch, newest.records) if newest else (-1, 0)
