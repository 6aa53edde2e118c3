"""Define an invocation's options and result, and parse ``--map``, which needs the nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NoReturn

from msgspec import Struct, field

from jobrun.core.errors import Fault, UsageError
from jobrun.core.notify_target import NotifyTarget
from jobrun.core.partly_compared import PartlyCompared
from jobrun.core.text.names import did_you_mean

if TYPE_CHECKING:
    from jobrun.checkpoint.metadata_handler import MetadataHandler
    from jobrun.checkpoint.task_groups import UploadBuilder
    from jobrun.graph.types import Cluster
    from jobrun.runtime.codegen.meter_protocol import StepProfiler
else:
    # ``help(RunOptions)`` evaluates the types of its fields.
    MetadataHandler = UploadBuilder = Cluster = StepProfiler = Any

# Receives the targets of notifications, the run's directory, and why it makes no progress.
Announce = Callable[[tuple[NotifyTarget, ...], str, str], None]
Resume = Literal["auto", "must", "never", ""]


class RunOptions(PartlyCompared, frozen=True):
    """Options of ``run`` and ``resume``.

    Attributes:
        run_dir: Where runs live.
        session: The kind of session.
        epochs: A stop item added to this run (a total); 0 for none, or as recorded.
        max_epochs: How many epochs this invocation may run; 0 for no limit.
        time_s: How long this invocation may take; 0 for no limit.
        grace_s: How long an epoch may still take after a request to end.
        epoch: (resume) Continue from exactly this epoch; None for the newest good one.
        strict: (resume) Refuse other numerics instead of warning.
        accept: (resume) Fields whose drift is accepted; a field includes those below it.
        given: (resume) The words of the command line that say what is run, for messages, such as
            ``--spec kmeans.yaml``.
        allow_lost: (resume) Continue from an older epoch when the newest that was saved is gone.
        trust: Work in a run although others may write into it.
        imports: Import callables before the start, not only look for their files.
        upload: Uploads epochs, in place of what ``checkpoint.upload`` means; when, and
            what a failure means, stays as it says (without it: at the end, required).
        metadata: A handler that is asked about the run's checkpoints and notified of them,
            beside the run's own journal.
        max_failures: How many losses of nodes in a row, with nothing saved between, are tolerated.
        places: ``NODE=OTHER`` each: the node runs in the process of the other one, where each would
            have its own.
        restart: Starts the process again with the hash seed that a run was begun with, and does
            not return; None where that cannot be done, as in a program of the user.
        notify: Where news of the run is sent, beside what the job says.
        announce: Is given all such targets when the run starts, its directory, and a text if it
            makes no progress; the caller sends the news.
        listeners: Names of what gets the run's metrics, live, beside those of the job.
        keep: Is given the number of each process that may outlive this one for a while, as it
            writes what it has got.
        profiler: Gives what measures the steps; None for code without any of that.
        started: When the command began, on the clock of ``time.monotonic``: the time until init
            counts as start-up.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("started",)

    run_dir: Path = field(default_factory=lambda: Path("runs"))
    session: str = "threads"
    epochs: int = 0
    max_epochs: int = 0
    time_s: float = 0.0
    grace_s: float = 25.0
    epoch: int | None = None
    strict: bool = False
    accept: tuple[str, ...] = ()
    given: tuple[str, ...] = ()
    allow_lost: bool = False
    trust: bool = False
    imports: bool = False
    upload: UploadBuilder | None = None
    metadata: MetadataHandler | None = None
    profiler: StepProfiler | None = None
    max_failures: int = 3
    places: tuple[str, ...] = ()
    restart: Callable[[str], NoReturn] | None = None
    notify: tuple[NotifyTarget, ...] = ()
    announce: Announce | None = None
    listeners: tuple[str, ...] = ()
    keep: Callable[[int], None] | None = None
    started: float = field(default_factory=time.monotonic)


class RunResult(Struct, frozen=True):
    """How an invocation ended, when it ended in good order.

    Attributes:
        exit_code: 0 finished · 9 finished, but an ``expect`` does not hold · 75 stopped on
            request · 130 interrupted. Everything else is raised.
        run_path: The run's directory, absolute.
        epoch: The last epoch that is saved (that ran, with ``checkpoint: none``).
        reason: Why it ended, in words.
        faults: With 9, each ``expect`` that does not hold; with 75 and 130, what to do next.
    """

    exit_code: int
    run_path: str
    epoch: int
    reason: str
    faults: tuple[Fault, ...] = ()


def parse_node_map(cluster: Cluster, texts: Sequence[str]) -> dict[str, str]:
    """Parse ``--map A=B`` options, by which node A runs in node B's process, into a dict.

    The nodes stay what they are, with their names, counts, random streams and files; only where
    they run changes, which changes no bit.

    Args:
        cluster: The nodes of the job.
        texts: ``trainer_1=trainer_0`` each.

    Raises:
        UsageError: E403, one of them is not two nodes, or they contradict each other.
    """
    names = [node.name for node in cluster]
    node_map: dict[str, str] = {}
    for text in texts:
        node, equals, host = text.partition("=")
        if not equals:
            raise _map_error(text, "it is not NODE=NODE", f"write --map {names[-1]}={names[0]}")
        for name in (node, host):
            if name not in names:
                raise _map_error(text, f"there is no node '{name}'", did_you_mean(name, names))
        if node == host:
            raise _map_error(text, "a node is in its own place already", "leave it out")
        if node_map.setdefault(node, host) != host:
            raise _map_error(text, f"'{node}' is in the place of '{node_map[node]}'", "choose one")
    for node, host in node_map.items():
        if host in node_map:
            further = node_map[host]
            mend = f"write --map {node}={further}" if further != node else "leave one of them out"
            why = f"'{host}' is itself in the place of '{further}'"
            raise _map_error(f"{node}={host}", why, mend)
    return node_map


def _map_error(text: str, why: str, mend: str) -> UsageError:
    return UsageError.of("E403", f"--map cannot be '{text}': {why}", mend)
