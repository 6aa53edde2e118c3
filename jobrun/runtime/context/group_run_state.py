"""Hold the state of one run of a task group: its errors, outputs, queues and threads.

A ``GroupRun`` is shared by all that runs in one group run, and starts its threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import SimpleQueue
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.core.events import Listener
from jobrun.graph.types import OutputRef
from jobrun.runtime.context.bounded_queue import RecordQueue
from jobrun.runtime.context.cancel import CancelScope
from jobrun.runtime.context.child_processes import ChildReaper
from jobrun.runtime.context.library_settings import LibrarySettings
from jobrun.runtime.context.safe_point import SafePointHooks
from jobrun.runtime.snapshots.snapshot import Snapshot, Snapshots
from jobrun.values.blob_kinds import Value

# Yields copies of a blob from the global workspaces of nodes, in the order of the nodes.
Fetch = Callable[[Sequence[str], str, CancelScope], Iterator[Value]]
# A context manager for the local path of a committed epoch's file.
FetchFile = Callable[[str], AbstractContextManager[str]]
# What a task waits for: records of a reader, another node, another task of its node.
Waited = Literal["data", "nodes", "queue"]
# Runs ``work`` in another thread, then calls ``done`` there; the thread is free before that.
Start = Callable[[Callable[[], None], Callable[[], None]], None]
Work = Callable[[], None]


class GroupRun(Struct):
    """The state of one run of one group.

    Attributes:
        outputs: Outputs of earlier groups, and of the tasks of this one that have ended.
        start: Runs work in another thread.
        reaper: Ends programs that would outlive this process.
        body: Cancelled by the first error or a stop request.
        cleanup: The scope of exit blocks and last reports, which run after that too;
            cancelled only when the time for them is over.
        errors: What went wrong, in the order of its happening.
        failed: For each error the task that declares ``retry`` and failed with it, or "".
        interrupted: Something did not run to its end because the run was cancelled.
        queues: The group's queues, by name and node; without a node where all nodes share one.
        grace_s: How long tasks may take to their end once they were asked to.
        task: In what ``apart`` gives: the task's name, if it declares ``retry``.
        whole: In what ``apart`` gives: the run to which a failure matters.
        savings: What the nodes hold for saves.
        gates: By node, what blocks have to pass before they change a blob that is being saved.
        points: What is done between two records of its only task; None for nothing.
        fetch: Gives copies of what lives on other nodes, and here.
        bring: Makes files of epochs readable here.
        beside: As ``start``, raising ``RuntimeError`` when no processor is idle; None for never.
        is_alone: Nothing else runs in any process, and no other thread reads a workspace meanwhile.
        waits: By task and node what its threads waited for, and how many seconds; see
            ``TaskWaited``.
        settings: Those of libraries that callables make.
    """

    group: str
    epoch: int
    seed: int
    run_dir: str
    folder: str
    emit: Listener
    outputs: dict[OutputRef, Value]
    start: Start
    reaper: ChildReaper
    queues: Mapping[tuple[str, str], RecordQueue] = field(default_factory=dict)
    body: CancelScope = field(default_factory=CancelScope)
    cleanup: CancelScope = field(default_factory=CancelScope)
    errors: list[BaseException] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    interrupted: bool = False
    grace_s: float = 30.0
    task: str = ""
    parent: GroupRun | None = None
    snapshots: Snapshots = field(default_factory=Snapshots)
    gates: Mapping[str, Snapshot] = field(default_factory=dict)
    points: SafePointHooks | None = None
    fetch: Fetch = field(default=lambda nodes, name, _: _nowhere(nodes, name))
    fetch_file: FetchFile = nullcontext
    start_thread: Start | None = None
    is_alone: bool = False
    waits: dict[tuple[str, str], list[tuple[Waited, float]]] = field(default_factory=dict)
    settings: LibrarySettings = field(default_factory=LibrarySettings)

    def fail(self, error: BaseException, task: str = "") -> None:
        """Record an error in the state of a group run, and cancel the run."""
        if not any(error is recorded for recorded in self.errors):
            self.errors.append(error)
            self.failed.append(task)
        self.body.cancel()
        if self.parent is not None:
            self.parent.fail(error, self.task)

    def note_wait(self, task: str, node: str, waited: Waited, seconds: float) -> None:
        """Record in a group run's state how long a task's thread waited, and for what."""
        if seconds:
            self.waits.setdefault((task, node), []).append((waited, seconds))

    def for_task(self, task: str, whole: GroupRun | None) -> GroupRun:
        """Return a copy of a group run's state for one task, which can be cancelled alone."""
        return replace(
            self,
            body=CancelScope(),
            errors=[],
            failed=[],
            interrupted=False,
            task=task,
            parent=whole,
        )


def _nowhere(nodes: Sequence[str], name: str) -> Iterator[Value]:
    raise RuntimeError(f"this session cannot fetch '{name}' from {nodes}")


def run_all(start: Start, works: Sequence[Work]) -> list[BaseException | None]:
    """Run functions in threads of a group run; return each one's exception, or None.

    The calling thread runs the first.
    """
    outcomes: list[BaseException | None] = [None] * len(works)
    ended: SimpleQueue[None] = SimpleQueue()

    def guarded(index: int, work: Work) -> Work:
        def run() -> None:
            outcomes[index] = _outcome(work)

        return run

    for index, work in enumerate(works[1:], start=1):
        start(guarded(index, work), lambda: ended.put(None))
    if works:
        outcomes[0] = _outcome(works[0])
    for _ in works[1:]:
        ended.get()
    return outcomes


def _outcome(work: Work) -> BaseException | None:
    try:
        work()
    except BaseException as error:  # noqa: BLE001 - returned to the caller, never dropped
        return error
    return None
