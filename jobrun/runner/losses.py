"""What a run does about a lost node: how often, how soon, and from which epoch it goes on.

The loop is told where to begin anew; it does there what a resume would do in a new process, so
that the bits are those of a run in which nothing was lost.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass

from jobrun.checkpoint.plan import load_group
from jobrun.checkpoint.store import CheckpointStore
from jobrun.core.events import Listener, NodeReplaced, Noted
from jobrun.graph.types import Job, TaskGroup
from jobrun.runner.progress import Progress, from_json
from jobrun.runner.saver import Saver
from jobrun.runner.signals import StopRequests
from jobrun.session.base import Session
from jobrun.session.lost import NodeLostError

# How soon a request to end is seen while nothing runs.
_POLL_S = 0.05
_LONGEST_WAIT_S = 60.0


@dataclass(frozen=True, slots=True)
class Saves:
    """What has been saved, and how it is loaded.

    Attributes:
        accept: Fields whose drift is accepted.
    """

    job: Job
    store: CheckpointStore
    saver: Saver
    accept: tuple[str, ...] = ()

    def newest(self) -> tuple[Progress, TaskGroup] | None:
        """How the run stood at its newest durable epoch, and the group that loads it.

        Waits for a save that is under way; one that has lost its node is none.
        """
        with contextlib.suppress(NodeLostError):
            self.saver.settle(Progress())
        epoch = self.saver.saved
        if epoch < 0:
            return None
        manifest = self.store.manifest(epoch)
        return (
            from_json(manifest.runner),
            load_group(self.job, manifest, self.store.path(epoch)),
        )


class Losses:
    """Counts losses, and makes good for them.

    Args:
        session: Has lost a node.
        saves: What there is to go back to.
        requests: Of somebody who asks to end.
        listen: Is told.
        most: How many in a row, with no epoch saved in between, are borne.
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
        self._saved = -1

    def make_good(self, error: NodeLostError) -> tuple[Progress, TaskGroup] | None:
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
                self._listen(NodeReplaced(node, newest[0].epoch if newest else -1))
            return newest

    def _counted(self, error: NodeLostError) -> tuple[Progress, TaskGroup] | None:
        """Count the loss, tell of it, and wait; where to go on."""
        newest = self.saves.newest()
        epoch = newest[0].epoch if newest else -1
        if epoch > self._saved:
            self._saved, self._count = epoch, 0
        self._count += 1
        if self._count > self._most:
            error.add_note(f"that is more than {self._most} losses with no epoch saved in between")
            raise error
        self._tell(error, epoch)
        self._pause()
        return newest

    def _tell(self, error: NodeLostError, epoch: int) -> None:
        said = "; ".join(fault.message for fault in error.faults)
        where = f"from epoch {epoch}, the last that is saved" if epoch >= 0 else "from init"
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
