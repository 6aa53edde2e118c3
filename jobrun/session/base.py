"""Define the Session protocol: what anything that runs task groups must do; open one by name.

A session holds one global workspace per node of the job and runs one task group at a time.
Nodes live as long as the session is open. Whatever crosses a node boundary is copied, in
every session. Rules every session keeps (checked by the contract tests):

* ``run`` returns the outputs; nothing is filled in later.
* The first error stops all tasks of the group at their next step boundary and is raised as
  ``TaskFailedError`` (or what the error is) with the others as notes; nothing hangs.
* After a failed or cancelled group the workspaces are undefined; the caller restores them
  from a snapshot or a checkpoint, or ends.
* A node that is lost, with all it held, is reported by a ``NodeLostError`` from the next call;
  ``renew`` replaces it. No node restarts by itself.
* A failure of a task with ``on_error: warn`` is emitted as a warning and fails nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from msgspec import Struct, field

from jobrun.checkpoint.checkpoint_times import NodeSave
from jobrun.checkpoint.task_groups import Ticket
from jobrun.core.errors import (
    EnvironmentFaultError,
    Fault,
    JobrunError,
    TaskFailedError,
    UsageError,
)
from jobrun.core.events import Listener, ignore
from jobrun.core.partly_compared import PartlyCompared
from jobrun.core.text.names import did_you_mean
from jobrun.graph.types import Cluster, OutputRef, TaskGroup
from jobrun.runtime.codegen.meter_protocol import Instrumenter
from jobrun.runtime.context.safe_point import SafePointHooks
from jobrun.values.blob_kinds import Value

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

Outputs = Mapping[OutputRef, Value]
# What a session keeps of its nodes' workspaces; only the session that made it can read it.
Snapshot = Any

# The group of entry points by which installed packages add sessions.
GROUP = "jobrun.sessions"
# As text: a session's own imports are made only when it is used.
BUILT_IN: dict[str, str] = {
    "threads": "jobrun.session.threads.session:ThreadsSession",
    "processes": "jobrun.session.processes.session:ProcessesSession",
    "ray": "jobrun.session.ray.session:RaySession",
}
# Sessions whose name may have an address (``ray:auto``), and the package that each needs.
_ADDRESSED = {"ray": "jobrun[ray]"}


class NodeFiles(Struct, frozen=True):
    """Where nodes write their files of epochs, as a run wants it.

    Attributes:
        nodes: Those that write such files, and read them.
        epochs_dir: Absolute path of the directory of all epochs, which each of these nodes has to
            see. Empty where they need not: nothing is saved, or it is collected.
        node_dir: Absolute path of a directory of each node's machine, in which there is nothing
            else, and from which files are collected; empty for none.
        objects: URL of the place in an object store to which nodes bring the files that they have
            written there; empty where the master gets them.
    """

    nodes: tuple[str, ...] = ()
    epochs_dir: str = ""
    node_dir: str = ""
    objects: str = ""


class RunContext(PartlyCompared, frozen=True):
    """Facts about the run that tasks may use.

    Attributes:
        seed: The root of all random streams.
        run_dir: Absolute path of the run's directory, for ``${run.dir}``.
        folder: Absolute path of the spec's folder, for relative paths and callables.
        emit: Receives events; called from the tasks' threads.
        meter: Measures every step; None to compile code without timers.
        placement: By node, the node whose process it shares, where each has its own; the other
            one runs in its own process.
        files: Where nodes write their files of epochs; unused where all nodes are this process.
        code: Digests of the job's modules by the real path of their files: an import of another
            source is refused, in each process. None to compare nothing.
        adapt: Packages, modules and classes whose values are kept by their attributes; every
            process of the run imports and admits them before it loads a value.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("emit", "meter")

    seed: int
    run_dir: str
    folder: str
    emit: Listener = ignore
    meter: Instrumenter | None = None
    placement: Mapping[str, str] = field(default_factory=dict)
    files: NodeFiles = field(default_factory=NodeFiles)
    code: Mapping[str, str] | None = None
    adapt: tuple[str, ...] = ()


class Session(Protocol):
    """A place to run task groups."""

    def open(self, cluster: Cluster, context: RunContext) -> None:
        """Start any kind of session, with an empty workspace of blobs for each node."""

    def run(
        self, group: TaskGroup, epoch: int, outputs: Outputs, points: SafePointHooks | None = None
    ) -> Outputs:
        """Run a task group in any kind of session, and return its tasks' outputs.

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
            GroupCancelledError: ``request_stop`` ended it.
            TasksStuckError: Tasks did not end in time; the process has to.

        The error's ``tasks`` name those that failed, if each of them declares ``retry``.
        """

    def snapshot(self, group: TaskGroup) -> Snapshot:
        """Copy the blobs that the next group run may change, in any kind of session, for a retry.

        Called right before the run. Takes memory for what the group changes in place.
        """

    def restore(self, snapshot: Snapshot) -> None:
        """Restore all blobs of any kind of session from a snapshot, to retry a group run.

        Any number of times: each run that follows starts from the same bits.
        """

    def protect(self, tickets: Sequence[Ticket], groups: Sequence[TaskGroup]) -> None:
        """Copy blobs still being saved before other groups change them, in any kind of session.

        The tickets are what running a ``checkpoint.plan.save_group`` has given out: at most
        one per node at a time. What the groups change in place is copied, in the background;
        a step that would change it meanwhile waits for the copy. Takes memory for these copies.
        Without this call the next group to run waits for what it needs. Only between groups.

        Args:
            tickets: Of one save.
            groups: One of these runs next.
        """

    def persist(self, tickets: Sequence[Ticket], directory: str) -> tuple[NodeSave, ...]:
        """Write the snapshots of a pending save to files, in any kind of session.

        Blocks; any thread, also while a group runs. It may be tried again elsewhere. The files
        have the values that the blobs had when the tickets were given out.

        Returns:
            In the order of the tickets.

        Raises:
            TaskFailedError: A blob holds what cannot be stored.
            EnvironmentFaultError: The files cannot be written (such as ``ENOSPC``, ``EIO``).
        """

    def release(self, tickets: Sequence[Ticket]) -> None:
        """Free the memory of the snapshots that a save made, in any kind of session."""

    def read(self, node: str, names: tuple[str, ...]) -> dict[str, Value]:
        """Return copies of named blobs of one node, in any kind of session, between group runs.

        Of an object, which has no copy, there are the ``ObjectFacts``.

        Raises:
            KeyError: If the node has no such blob.
        """

    def names(self, node: str) -> tuple[str, ...]:
        """Return the sorted names of one node's blobs, in any kind of session."""

    def settle(self, keep: Mapping[str, tuple[str, ...]], *, final: bool = False) -> None:
        """Delete all but the named blobs of each node, in any kind of session.

        Afterwards it holds exactly the names in ``keep[node]``, each owning its memory, in
        C order, aligned and writable. Names not in ``keep`` end here. ``final`` says that no epoch
        follows: everything that callables keep of the blobs is compared with what it was.

        Raises:
            TaskFailedError: A name of ``keep`` is missing or holds what cannot be stored.
        """

    def renew(self) -> tuple[str, ...]:
        """Replace lost nodes, and delete the blobs of all nodes, in any kind of session.

        After a ``NodeLostError``, which any other method may raise.

        Returns:
            The names of the nodes that were lost; none in a session whose nodes cannot be.

        Raises:
            EnvironmentFaultError: No process can be started for it.
        """

    def request_stop(self) -> None:
        """Request that the running group end at its next step, in any kind of session.

        Also from a signal handler. Exit blocks and last reports still run. Does nothing
        while no group runs, nor to the groups that follow.
        """

    def close(self) -> None:
        """Shut down all nodes of any kind of session; may be called twice."""


def session_names() -> tuple[str, ...]:
    """List the names of all kinds of sessions, built-in or installed, sorted."""
    return tuple(sorted({*BUILT_IN, *_entry_points().names}))


def open_session(name: str) -> Session:
    """Create a session of the named kind, to be started by its method ``open``.

    Args:
        name: Its name; with an address behind a colon where it has one: ``ray:auto``.

    Raises:
        UsageError: E217, there is no such kind.
        EnvironmentFaultError: E217, the package that has it cannot be imported.
    """
    kind, _, address = name.partition(":")
    if kind in _ADDRESSED:
        return _open_addressed(kind, address)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        built_in: Session = getattr(import_module(module), attribute)()
        return built_in
    entry_points = tuple(_entry_points().select(name=name))
    if not entry_points:
        raise UsageError.of(
            "E217", f"there is no session '{name}'", did_you_mean(name, session_names())
        )
    try:
        other: Session = entry_points[0].load()()
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E217",
            f"the session '{name}' cannot be imported: {error}",
            "install the package it needs",
        ) from error
    return other


def _entry_points() -> EntryPoints:
    # Lazy: the module imports email, zipfile and socket, and few users have such a session.
    from importlib.metadata import entry_points  # noqa: PLC0415

    return entry_points(group=GROUP)


def _open_addressed(kind: str, address: str) -> Session:
    module, _, attribute = BUILT_IN[kind].partition(":")
    try:
        session: Session = getattr(import_module(module), attribute)(address)
    except ImportError as error:
        raise EnvironmentFaultError.of(
            "E217",
            f"the session '{kind}' needs a package that is not installed: {error}",
            f"pip install '{_ADDRESSED[kind]}'",
        ) from error
    return session


class NodeLostError(EnvironmentFaultError):
    """The process of a node has ended. The other nodes live; their workspaces are undefined.

    Attributes:
        node: Its name.
    """

    node: str = ""

    @classmethod
    def of_node(cls, node: str, ending: str) -> NodeLostError:
        """Build error E395 of any kind of session: the process of a node has ended."""
        error = cls.of(
            "E395",
            f"node '{node}' is lost: its process {ending}",
            "see what ended it: lack of memory (dmesg | grep -i oom), a limit (ulimit -t), a "
            "crash, or kill; resume continues from the last saved epoch",
        )
        error.node = node
        return error


class GroupCancelledError(Exception):
    """``request_stop`` ended the group. Not a failure: the caller who asked for it handles it."""


class TasksStuckError(TaskFailedError):
    """Tasks did not end within the time allowed after a failure or a stop request.

    Their threads may still run, so nothing that they can reach may be used or saved any
    more: the caller has to end the process.
    """


def merge_errors(errors: Sequence[BaseException], tasks: Sequence[str] = ()) -> BaseException:
    """Merge the errors of a group run into one, of the first error's class and with all faults.

    The first decides the class, and thereby the exit code. The others follow in an order
    that does not depend on threads. An error that is no ``JobrunError`` is a defect, or an
    interrupt, and goes before all others.

    Args:
        errors: At least one, in the order of their happening.
        tasks: For each error the task it is of, if that may be tried again, else "".
    """
    whole = _merge(errors)
    if isinstance(whole, JobrunError):
        whole.tasks = tuple(sorted(set(tasks))) if all(tasks) else ()
    return whole


def _merge(errors: Sequence[BaseException]) -> BaseException:
    first = next((error for error in errors if not isinstance(error, JobrunError)), errors[0])
    others = sorted((error for error in errors if error is not first), key=str)
    if not isinstance(first, JobrunError):
        for other in others:
            first.add_note(f"also: {other}")
        return first
    if not others:
        return first
    faults: dict[Fault, None] = dict.fromkeys(first.faults)
    for other in others:
        faults.update(dict.fromkeys(getattr(other, "faults", ())))
    whole: JobrunError = type(first)(*faults)
    whole.__cause__ = first.__cause__ or first
    for error in (first, *others):
        for note in getattr(error, "__notes__", ()):
            whole.add_note(note)
    return whole
