"""What a run does about a lost node: how often, how soon, and from which epoch it goes on.

The loop is told where to begin anew; it does there what a resume would do in a new process, so
that the bits are those of a run in which nothing was lost.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import NamedTuple

from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.events import Listener, NodeReplaced, Noted
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.midway import MidwaySaver
from jobrun.runner.progress import Progress
from jobrun.runner.repartition import stood
from jobrun.runner.saver import Saver
from jobrun.runner.signals import StopRequests
from jobrun.session.base import Session
from jobrun.session.lost import NodeLostError

# How soon a request to end is seen while nothing runs.
_POLL_S = 0.05
_LONGEST_WAIT_S = 60.0


class Newest(NamedTuple):
    """Where a run can go on.

    Attributes:
        progress: How the run stood at the end of an epoch.
        load: Brings the state into the session.
        records: It is the state after so many records of the next epoch; 0: at that end.
        unknown: Fields of constants of which it says nothing, as by ``stood``.
    """

    progress: Progress
    load: TaskGroup
    records: int = 0
    unknown: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Saves:
    """What has been saved, and how it is loaded.

    Attributes:
        accept: Fields whose drift is accepted.
        midway: Has what was saved between two records; None where nothing is.
    """

    job: Job
    store: CheckpointStore
    saver: Saver
    accept: tuple[str, ...] = ()
    midway: MidwaySaver | None = None

    def newest(self) -> Newest | None:
        """How the run stood at its newest durable save, and the group that loads it.

        Waits for a save that is under way; one that has lost its node is none.
        """
        if self.midway:
            self.midway.leave()
        with contextlib.suppress(NodeLostError):
            self.saver.settle(Progress())
        epoch = self.saver.saved
        if epoch < 0:
            return None
        within = self.midway.go_back(epoch) if self.midway else None
        if within is not None:
            return Newest(*within)
        manifest, place = self.store.manifest(epoch), self.store.path(epoch)
        # It may have been saved on another number of nodes.
        progress, load, unknown = stood(self.job, manifest, place)
        return Newest(progress, load, unknown=unknown)


class Losses:
    """Counts losses, and makes good for them.

    Args:
        session: Has lost a node.
        saves: What there is to go back to.
        requests: Of somebody who asks to end.
        listen: Is told.
        most: How many in a row, with nothing saved in between, are borne.
    """

    def __init__(
        self, session: Session, saves: Saves, requests: StopRequests, listen: Listener, most: int
    ) -> None:
        self.saves = saves
        self._session = session
        self._requests = requests
        self._listen = listen
        self._most = most
        self._count = 0
        self._saved = (-1, 0)

    def make_good(self, error: NodeLostError) -> Newest | None:
        """Give lost nodes new places, and empty all workspaces; where to go on, None for init.

        Raises:
            NodeLostError: The one too many.
        """
        while True:
            newest = self._counted(error)
            try:
                nodes = self._session.renew()
            except NodeLostError as another:
                # Lost while the first one was replaced.
                error = another
                continue
            for node in nodes:
                self._listen(NodeReplaced(node, *_place(newest)))
            return newest

    def _counted(self, error: NodeLostError) -> Newest | None:
        """Count the loss, tell of it, and wait; where to go on."""
        newest = self.saves.newest()
        place = _place(newest)
        if place > self._saved:
            self._saved, self._count = place, 0
        self._count += 1
        if self._count > self._most:
            error.add_note(f"that is more than {self._most} losses with nothing saved in between")
            raise error
        self._tell(error, *place)
        self._pause()
        return newest

    def _tell(self, error: NodeLostError, epoch: int, records: int) -> None:
        said = "; ".join(fault.message for fault in error.faults)
        where = f"from epoch {epoch}, the last that is saved" if epoch >= 0 else "from init"
        if records:
            where = f"in epoch {epoch + 1}, after {records} of its records"
        wait_s = self._wait_s()
        when = f" in {wait_s:g} s" if wait_s else ""
        count = f"loss {self._count} of {self._most} at most"
        self._listen(Noted(f"{said}; the run goes on{when} {where} ({count})", "warning"))

    def _wait_s(self) -> float:
        """None after the first loss; then 1 s, 2 s, 4 s …, as whatever did it may last."""
        if self._count <= 1:
            return 0.0
        return float(min(2.0 ** (self._count - 2), _LONGEST_WAIT_S))

    def _pause(self) -> None:
        end = time.monotonic() + self._wait_s()
        while not self._requests.reason and (left_s := end - time.monotonic()) > 0:
            time.sleep(min(left_s, _POLL_S))


def _place(newest: Newest | None) -> tuple[int, int]:
    """The last whole epoch, -1 for none, and the records of the next."""
    return (newest.progress.epoch, newest.records) if newest else (-1, 0)
