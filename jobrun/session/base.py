"""What a place to run tasks must do: the Session protocol.

A session holds one global workspace per node of the job and runs one task group at a time.
Nodes live as long as the session is open. Whatever crosses a node boundary is copied, in
every session. Rules every session keeps (checked by the contract tests):

* ``run`` returns the outputs; nothing is filled in later.
* The first error stops all tasks of the group at their next step boundary and is raised as
  ``TaskFailedError`` (or what the error is) with the others as notes; nothing hangs.
* After a failed or cancelled group the workspaces hold no promise; the caller restores them
  from a snapshot or a checkpoint, or ends.
* A node that is lost, with all it held, is told by ``NodeLostError`` from whatever is asked next;
  ``renew`` gives it a new place. No node begins anew by itself.
* A failure of a task with ``on_error: warn`` is told as a warning and fails nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from jobrun.blobs.values import Value
from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.times import NodeSave
from jobrun.core.events import Listener, ignore
from jobrun.graph.types import Cluster, OutputRef, TaskGroup
from jobrun.runtime.lapping import Metering
from jobrun.runtime.midway import Points
from jobrun.session.nodefiles import NodeFiles

Outputs = Mapping[OutputRef, Value]
# What a session keeps of its nodes' workspaces; only the session that made it can read it.
Snapshot = Any


@dataclass(frozen=True, slots=True)
class RunContext:
    """What tasks may know of the run they are part of.

    Attributes:
        seed: The root of all random streams.
        run_dir: Absolute path of the run's directory, for ``${run.dir}``.
        folder: Absolute path of the spec's folder, for relative paths and callables.
        emit: Where events go; called from the tasks' threads.
        meter: Measures every step; None for code that has nothing of that.
        places: Nodes that are to be in the place of another one, where each has its own: by name
            the name of the other, which is in its own place.
        files: Where nodes write their files of epochs; of no account where all nodes are here.
    """

    seed: int
    run_dir: str
    folder: str
    emit: Listener = field(default=ignore, compare=False)
    meter: Metering | None = field(default=None, compare=False)
    places: Mapping[str, str] = field(default_factory=dict)
    files: NodeFiles = field(default_factory=NodeFiles)


class Session(Protocol):
    """A place to run task groups."""

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Make one empty global workspace per node."""

    def run(
        self, group: TaskGroup, epoch: int, outputs: Outputs, points: Points | None = None
    ) -> Outputs:
        """Run the group to its end and return the outputs of its tasks.

        A task that takes longer than its ``timeout_s`` fails (E220). The group's ``remote``
        nets are for sessions whose nodes answer requests; others leave them alone.

        Args:
            group: The tasks.
            epoch: 0 in init, then 1, …; keys the random streams and is readable in steps.
            outputs: Outputs of earlier groups, which tasks may read.
            points: What is done between two records of the group's only task, which reads a
                reader and has one instance; None for nothing.

        Raises:
            TaskFailedError: A step, an assert or a callable failed.
            EnvironmentFaultError: The disk, an import or a program's start failed.
            GroupCancelledError: ``request_stop`` ended it (``session.cancel``).
            TasksStuckError: Tasks did not end in time; the process has to.

        The error's ``tasks`` name those that failed, if each of them declares ``retry``.
        """

    def snapshot(self, group: TaskGroup) -> Snapshot:
        """Keep all that a run of the group may change in the nodes' global workspaces.

        Called right before the run. Takes memory for what the group changes in place.
        """

    def restore(self, snapshot: Snapshot) -> None:
        """Make the global workspaces what they were at the snapshot. Only between groups.

        Any number of times: each run that follows starts from the same bits.
        """

    def protect(self, tickets: Sequence[Ticket], groups: Sequence[TaskGroup]) -> None:
        """Let groups run while what the tickets stand for is written.

        The tickets are what running a ``checkpoint.plan.save_group`` has given out: at most
        one per node at a time. What the groups change in place is copied, in the background;
        whoever would change it meanwhile waits for that. Takes memory for these copies. Without
        this call the next group to run waits for what it needs. Only between groups.

        Args:
            tickets: Of one save.
            groups: One of these runs next.
        """

    def persist(self, tickets: Sequence[Ticket], directory: str) -> tuple[NodeSave, ...]:
        """Write what the tickets stand for into a directory, durably, all nodes at a time.

        Blocks; any thread, also while a group runs. It may be tried again elsewhere. The files
        have the values that the blobs had when the tickets were given out.

        Returns:
            In the order of the tickets.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: The disk says no.
        """

    def release(self, tickets: Sequence[Ticket]) -> None:
        """Let go of what the tickets stand for. Any thread, any number of times."""

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, Value]:
        """Copies of blobs of the node's global workspace. Only between groups.

        Of an object, which has no copy, there are the ``ObjectFacts``.

        Raises:
            KeyError: If the node has no such blob.
        """

    def names(self, node: str) -> tuple[str, ...]:
        """The names in the node's global workspace, sorted."""

    def settle(self, keep: Mapping[str, tuple[str, ...]]) -> None:
        """Bring each node's global workspace to boundary form.

        Afterwards it holds exactly the names in ``keep[node]``, each owning its memory, in
        C order, aligned and writable. Names not in ``keep`` end here.

        Raises:
            TaskFailedError: A name of ``keep`` is missing or holds what cannot be stored.
        """

    def renew(self) -> tuple[str, ...]:
        """Give nodes that were lost new places, and empty the workspaces of all.

        After a ``NodeLostError``, which any other method may raise.

        Returns:
            The names of the nodes that were lost; none in a session whose nodes cannot be.

        Raises:
            EnvironmentFaultError: There is no new place.
        """

    def request_stop(self) -> None:
        """Ask the running group to end at its tasks' next step boundary. Any thread, any time.

        Also from a signal handler. Exit blocks and last reports still run. Does nothing
        while no group runs, nor to the groups that follow.
        """

    def close(self) -> None:
        """End all nodes. May be called twice."""
