"""Job, TaskGroup, Task, Node, Cluster: the graph, as frozen values built by plain constructors.

The vocabulary is that of Caffe2's ``task.py``; unlike there, nothing is ambient and nothing
is used up: a function of a graph may be called any number of times.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from jobrun.core.origin import Origin
from jobrun.graph.expr import Expr
from jobrun.graph.steps import NOWHERE, Step

GroupName = Literal["init", "epoch", "download", "exit"]
GROUPS: tuple[GroupName, ...] = ("init", "epoch", "download", "exit")


class Scope(enum.Enum):
    """Which workspace of the chain holds a name, innermost first."""

    INSTANCE = "instance"
    TASK = "task"
    GROUP = "group"
    NODE = "node"


Scopes = tuple[tuple[str, Scope], ...]


@dataclass(frozen=True, slots=True)
class Node:
    """A logical node: its name, and its place among the nodes of one counted name.

    Attributes:
        family: The name as declared: ``trainer`` for ``trainer_2``.
        index: 0 … count-1 within the family.
        count: How many nodes the family has.
        props: Free properties, as pairs of name and value.
        resources: What the node asks of whoever places it, as pairs of name and amount.
        host: The machine it asks for; empty for any.
    """

    name: str
    family: str = ""
    index: int = 0
    count: int = 1
    props: tuple[tuple[str, object], ...] = ()
    resources: tuple[tuple[str, float], ...] = ()
    host: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class Cluster:
    """All nodes of a job, in the order of their declaration."""

    nodes: tuple[Node, ...]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def node(self, name: str) -> Node:
        """The node of that name.

        Raises:
            KeyError: If the cluster has none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


@dataclass(frozen=True, slots=True)
class SetupNets:
    """Steps to run once before and once after a scope; the exit part also after a failure.

    ``name`` is the spec path of the declaration. In the exit part the bool blob
    ``failed`` is readable.
    """

    init: tuple[Step, ...] = ()
    exit: tuple[Step, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """Steps that run every ``interval_s`` seconds beside a body, and once more after it."""

    interval_s: float
    steps: tuple[Step, ...]
    path: str = ""


@dataclass(frozen=True, slots=True)
class OutputRef:
    """The identity of a task's output."""

    task: str
    node: str
    output: str

    def __str__(self) -> str:
        return f"{self.task}.{self.output}"


@dataclass(frozen=True, slots=True)
class Output:
    """A named value taken when the task ends; with instances, a list in instance order."""

    name: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failure of a task may be answered by running its whole group again.

    Attributes:
        most: Retries for one run of the group, each counted for every task that failed.
        backoff_s: How long to wait before each of them.
    """

    most: int
    backoff_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Task:
    """Steps on one node. A task declared for several nodes is one ``Task`` per node.

    Attributes:
        name: Unique in the job; together with ``node`` the identity.
        needs: Names of tasks of the group that must have ended, on all their nodes.
        instances: How many copies of the body run at the same time; with more than one
            each has a workspace of its own.
        setup: Around the task, in the task's workspace (init in order, exit reversed).
        instance_setup: Around each instance.
        scopes: For every blob the task names anywhere, the workspace that holds it.
        hogwild: Races on shared blobs are wanted.
        rebuild: (init) Runs at every start; its blobs are constants, never stored.
        path: ``epoch/lloyd``: also the path of its body, as a block ``stop`` can leave.
        timeout_s: The task fails when it takes longer, all its instances and set-up counted;
            0 for no limit.
        retry: What may be done about its failure; None for nothing.
        on_error: ``warn``: its failure is told, and the group goes on.
    """

    name: str
    node: str
    steps: tuple[Step, ...]
    needs: tuple[str, ...] = ()
    instances: int = 1
    setup: tuple[SetupNets, ...] = ()
    instance_setup: tuple[SetupNets, ...] = ()
    reports: tuple[Report, ...] = ()
    outputs: tuple[Output, ...] = ()
    scopes: Scopes = ()
    hogwild: bool = False
    rebuild: bool = False
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)
    timeout_s: float = 0.0
    retry: Retry | None = None
    on_error: Literal["fail", "warn"] = "fail"

    @property
    def full_name(self) -> str:
        """``node/name``, unique in the job."""
        return f"{self.node}/{self.name}"


@dataclass(frozen=True, slots=True)
class NodeSetup:
    """Set-up around the whole group run on one node, in the group run's workspace."""

    node: str
    nets: SetupNets
    scopes: Scopes = ()


@dataclass(frozen=True, slots=True)
class NodeReport:
    """A report that runs as long as any task of the group runs on the node."""

    node: str
    report: Report
    scopes: Scopes = ()


@dataclass(frozen=True, slots=True)
class RemoteNet:
    """A net that is kept for a node and run by whoever lives there, never by the group itself.

    Attributes:
        name: The net's.
        props: Those of the node.
        setup: What the net and the nets it uses bring along.
        path: ``epoch/remote[0]``.
    """

    name: str
    node: str
    steps: tuple[Step, ...]
    props: tuple[tuple[str, object], ...] = ()
    setup: tuple[SetupNets, ...] = ()
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """Tasks that start together. Order of ``tasks``: spec order, then node order.

    ``remote`` is for the session, which may have a use for it.
    """

    name: str
    tasks: tuple[Task, ...] = ()
    setup: tuple[NodeSetup, ...] = ()
    reports: tuple[NodeReport, ...] = ()
    workspace: Literal["private", "global"] = "private"
    remote: tuple[RemoteNet, ...] = ()


@dataclass(frozen=True, slots=True)
class Probe:
    """A value over the state of one or several nodes, looked at by the runner.

    Attributes:
        text: As written, for messages.
        parts: One expression over ``NodeBlob`` and ``OutputRead`` leaves; with
            ``reduce`` one per node, in node order.
        reduce: How several parts become one value.
    """

    text: str
    parts: tuple[Expr, ...]
    reduce: Literal["", "max", "min", "mean", "sum", "any", "all"] = ""
    path: str = ""
    origin: Origin = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class StopAfterEpochs:
    """Stop when epoch ``epochs`` has run: a total, not additional."""

    epochs: int
    path: str = ""


@dataclass(frozen=True, slots=True)
class StopWhen:
    """Stop when the probe's value, which must be a bool, holds."""

    probe: Probe
    path: str = ""


@dataclass(frozen=True, slots=True)
class StopAfterTime:
    """Stop when the run, over all its invocations, has computed for ``seconds``."""

    seconds: float
    path: str = ""


@dataclass(frozen=True, slots=True)
class StopWithoutImprovement:
    """Stop when ``metric`` has not improved by ``min_delta`` for ``epochs`` epochs."""

    metric: str
    epochs: int
    mode: Literal["min", "max"] = "min"
    min_delta: float = 0.0
    path: str = ""


@dataclass(frozen=True, slots=True)
class Endless:
    """No end but the user's."""

    path: str = ""


StopCondition = StopAfterEpochs | StopWhen | StopAfterTime | StopWithoutImprovement | Endless


@dataclass(frozen=True, slots=True)
class UploadPolicy:
    """Where checkpoints are copied to, and which.

    Attributes:
        to: A directory, relative to the spec's folder, or absolute.
        when: ``end``: the last one, when the run has ended; ``committed``: each one.
        required: A failure fails the run; else it is told, counted, and told at the end.
    """

    to: str
    when: Literal["end", "committed"] = "end"
    required: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointPolicy:
    """When to checkpoint and what to keep.

    Attributes:
        enabled: False for ``checkpoint: none``.
        directory: Empty: inside the run.
        every_epochs: Save after each such number of epochs; 0 when ``every_s`` counts.
        every_s: Save when so many seconds have passed since the last save.
        keep_last: Keep this many of the newest. Epoch 0 is always kept. With no rule at all
            (0, 0, no metric) everything is kept; with another rule, the two newest.
        keep_every: Keep each epoch divisible by it; 0 for none.
        keep_best: Metric, mode, how many; empty metric for none.
        nodes: Whose state is saved.
        on_error: ``fail``, or ``warn`` (count, go on, and tell at the end).
        upload: None for no copies.
    """

    enabled: bool = True
    directory: str = ""
    every_epochs: int = 1
    every_s: float = 0.0
    keep_last: int = 0
    keep_every: int = 0
    keep_best: tuple[str, Literal["min", "max"], int] = ("", "min", 0)
    nodes: tuple[str, ...] = ()
    on_error: Literal["fail", "warn"] = "fail"
    upload: UploadPolicy | None = None


@dataclass(frozen=True, slots=True)
class Exactness:
    """Whether a resumed run equals an unbroken one bit for bit; if not, which places decide it."""

    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def exact(self) -> bool:
        """No place makes it inexact."""
        return not self.reasons


@dataclass(frozen=True, slots=True)
class Job:
    """The whole of a checked job.

    Attributes:
        state: Per node, the names that init makes at global level: what is checkpointed.
        constants: Per node, the names that ``rebuild`` tasks make: checked, never stored.
        metrics: Name and probe, looked at after every epoch.
        fail_if: Looked at after every epoch, before the save.
        expect: Looked at when the job has ended.
        params: Name and value, as used.
        folder: The spec's folder as the user wrote it; where relative paths start.
    """

    name: str
    cluster: Cluster
    init: TaskGroup
    epoch: TaskGroup
    download: TaskGroup = TaskGroup("download")
    exit: TaskGroup = TaskGroup("exit")
    seed: int = 0
    description: str = ""
    state: tuple[tuple[str, tuple[str, ...]], ...] = ()
    constants: tuple[tuple[str, tuple[str, ...]], ...] = ()
    stop: tuple[StopCondition, ...] = ()
    fail_if: tuple[Probe, ...] = ()
    metrics: tuple[tuple[str, Probe], ...] = ()
    expect: tuple[Probe, ...] = ()
    checkpoint: CheckpointPolicy = CheckpointPolicy()
    exactness: Exactness = Exactness()
    blas_threads: int = 1
    params: tuple[tuple[str, object], ...] = ()
    folder: str = "."

    @property
    def groups(self) -> tuple[TaskGroup, ...]:
        """init, epoch, download, exit."""
        return (self.init, self.epoch, self.download, self.exit)
