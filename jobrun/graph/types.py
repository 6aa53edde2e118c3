"""Define the types of a graph as frozen values: Job, TaskGroup, Task, Node, Cluster.

The vocabulary is that of Caffe2's ``task.py``; unlike there, no value is global or consumed: a
graph may be used any number of times.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal

from msgspec import Struct, field

from jobrun.core.errors import Origin
from jobrun.core.notify_target import NotifyTarget
from jobrun.core.partly_compared import PartlyCompared
from jobrun.graph.checkpoint_policy import CheckpointPolicy
from jobrun.graph.conditions import Deadline, Probe, StopCondition
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import Expr
from jobrun.graph.readers import Queue, ReadQueue, ReadRecords, WriteQueue
from jobrun.graph.steps import Step

GroupName = Literal["init", "epoch", "download", "exit"]
GROUPS: tuple[GroupName, ...] = ("init", "epoch", "download", "exit")


class Scope(enum.Enum):
    """The workspace that holds a name, innermost first."""

    INSTANCE = "instance"
    TASK = "task"
    GROUP = "group"
    NODE = "node"


Scopes = tuple[tuple[str, Scope], ...]
Layout = Literal["rows", "replicated"]
# Paths of ``call`` steps, each with two blobs that must not share memory after it.
Apart = tuple[tuple[str, str, str], ...]


class Node(PartlyCompared, frozen=True):
    """A logical node: its name, and its number among the nodes of its family.

    Attributes:
        family: The name as declared: ``trainer`` for ``trainer_2``.
        index: 0 … count-1 within the family.
        count: How many nodes the family has.
        props: Free properties, as pairs of name and value.
        resources: The resources that the node requests, as pairs of name and amount.
        host: The machine that it requests; empty for any.
    """

    name: str
    family: str = ""
    index: int = 0
    count: int = 1
    props: tuple[tuple[str, object], ...] = ()
    resources: tuple[tuple[str, float], ...] = ()
    host: str = ""
    origin: Origin = NOWHERE


class Cluster(Struct, frozen=True):
    """All nodes of a job, in the order of their declaration."""

    nodes: tuple[Node, ...]

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    def node(self, name: str) -> Node:
        """Return the ``Node`` that this ``Cluster`` has under a name, or raise ``KeyError``.

        Raises:
            KeyError: If the cluster has none.
        """
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)


class StateLayout(PartlyCompared, frozen=True):
    """The declared layout of the blobs of one name: divided by rows, or the same on all nodes.

    On another number of nodes such state can be merged and divided again; any other state belongs
    to its node.

    Attributes:
        layout: ``rows``: the nodes have parts of one array, along its first axis, in their order;
            of ``n`` rows part ``k`` of ``m`` is ``k * n // m`` to ``(k + 1) * n // m``.
            ``replicated``: all nodes have the same bits.
        path: ``state.U``.
    """

    name: str
    layout: Layout
    path: str = ""
    origin: Origin = NOWHERE


class SetupNets(Struct, frozen=True):
    """Steps to run once before and once after a scope; the exit part also after a failure.

    ``name`` is the spec path of the declaration. In the exit part the bool blob
    ``failed`` is readable.
    """

    init: tuple[Step, ...] = ()
    exit: tuple[Step, ...] = ()
    name: str = ""


class Report(Struct, frozen=True):
    """Steps that run every ``interval_s`` seconds beside a body, and once more after it."""

    interval_s: float
    steps: tuple[Step, ...]
    path: str = ""


def step_lists_around(
    setups: Iterable[SetupNets], reports: Iterable[Report]
) -> Iterator[tuple[Step, ...]]:
    """Yield the lists of steps of set-ups and reports, those around a task or a group."""
    for setup in setups:
        yield setup.init
        yield setup.exit
    for report in reports:
        yield report.steps


class OutputRef(Struct, frozen=True):
    """The identity of a task's output."""

    task: str
    node: str
    output: str

    def __str__(self) -> str:
        return f"{self.task}.{self.output}"


class Output(Struct, frozen=True):
    """A named value taken when the task ends; with instances, a list in instance order."""

    name: str
    value: Expr


class Retry(Struct, frozen=True):
    """How often a failed task is retried by running its whole group again.

    Attributes:
        most: The number of retries in one run of the group, counted for each failed task.
        backoff_s: The time to wait before each of them.
    """

    most: int
    backoff_s: float = 0.0


class Task(PartlyCompared, frozen=True):
    """Steps on one node. A task declared for several nodes is one ``Task`` per node.

    Attributes:
        name: Unique in the job; together with ``node`` the identity.
        needs: Names of tasks of the group that must have ended, on all their nodes.
        instances: How many copies of the body run at the same time; with more than one
            each has a workspace of its own.
        setup: Around the task, in the task's workspace (init in order, exit reversed).
        instance_setup: Around each instance.
        scopes: For every blob the task names anywhere, the workspace that holds it.
        hogwild: Races on shared blobs are allowed.
        rebuild: (init) Runs at every start; its blobs are constants, never stored.
        path: ``epoch/lloyd``: also the path of its body, as a block ``stop`` can leave.
        timeout_s: The task fails when it takes longer, all its instances and set-up counted;
            0 for no limit.
        retry: How its failure is retried; None for no retry.
        on_error: ``warn``: its failure is reported, and the group continues.
        read: Where its records come from: the steps run once for each; None: they run once.
        write: Queues that get a record after each run of the steps.
        objects: Constants that callables here may change; they must be objects.
        apart: Paths of ``call`` steps, each with two blobs that must not share memory after it.
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
    origin: Origin = NOWHERE
    timeout_s: float = 0.0
    retry: Retry | None = None
    on_error: Literal["fail", "warn"] = "fail"
    read: ReadRecords | ReadQueue | None = None
    write: tuple[WriteQueue, ...] = ()
    objects: tuple[str, ...] = ()
    apart: Apart = ()

    def step_lists(self) -> tuple[tuple[Step, ...], ...]:
        """Return all lists of steps of a ``Task``: its own, and those of set-up and reports."""
        setups = (*self.setup, *self.instance_setup)
        return (self.steps, *step_lists_around(setups, self.reports))

    @property
    def full_name(self) -> str:
        """Return the name of this ``Task`` behind that of its ``Node``: ``node/name``."""
        return f"{self.node}/{self.name}"


class NodeSetup(Struct, frozen=True):
    """Set-up around the whole group run on one node, in the group run's workspace.

    ``scopes`` and ``apart`` are as in ``Task``.
    """

    node: str
    nets: SetupNets
    scopes: Scopes = ()
    apart: Apart = ()


class NodeReport(Struct, frozen=True):
    """A report that runs while any task of the group runs on the node.

    ``scopes`` and ``apart`` are as in ``Task``.
    """

    node: str
    report: Report
    scopes: Scopes = ()
    apart: Apart = ()


class RemoteNet(PartlyCompared, frozen=True):
    """A net that the session keeps for a node and runs on request; the group never runs it.

    Attributes:
        name: The name of the net.
        props: The properties of the node.
        setup: The set-up of the net and of the nets that it uses.
        path: ``epoch/remote[0]``.
    """

    name: str
    node: str
    steps: tuple[Step, ...]
    props: tuple[tuple[str, object], ...] = ()
    setup: tuple[SetupNets, ...] = ()
    path: str = ""
    origin: Origin = NOWHERE


class TaskGroup(Struct, frozen=True):
    """Tasks that start together, in spec order, then node order.

    ``remote`` is for sessions that keep nets on nodes.
    """

    name: str
    tasks: tuple[Task, ...] = ()
    setup: tuple[NodeSetup, ...] = ()
    reports: tuple[NodeReport, ...] = ()
    workspace: Literal["private", "global"] = "private"
    remote: tuple[RemoteNet, ...] = ()

    def step_lists(self) -> Iterator[tuple[Step, ...]]:
        """Yield the lists of steps that a group runs: bodies, set-up and reports."""
        for task in self.tasks:
            yield from task.step_lists()
        setups = (setup.nets for setup in self.setup)
        yield from step_lists_around(setups, (report.report for report in self.reports))


class Exactness(Struct, frozen=True):
    """Whether a resumed run equals an uninterrupted one bit for bit, and where not."""

    reasons: tuple[tuple[str, str], ...] = ()

    @property
    def exact(self) -> bool:
        """Return whether a ``Job`` is exact: a resumed run equals an unbroken one in bits."""
        return not self.reasons


class Job(PartlyCompared, frozen=True):
    """A checked job: its nodes, task groups, state and policies.

    Attributes:
        state: Per node, the names that init makes at global level: what is checkpointed.
        constants: Per node, the names that ``rebuild`` tasks make: checked, never stored.
        metrics: Name and probe, evaluated after every epoch.
        fail_if: Evaluated after every epoch, before the save.
        expect: Evaluated when the job has ended.
        params: Name and value, as used.
        folder: The spec's folder as the user wrote it; where relative paths start.
        deadline: The time at which an invocation must be over; None for never.
        layouts: How state is distributed over nodes, for a resume on another number of them.
        notify: Where news of the run is sent.
        listeners: Names of what gets the run's metrics, live.
        adapt: Packages, modules and classes (``optuna.trial``, ``optuna.trial:FrozenTrial``) whose
            values are kept by their attributes.
        adapt_at: The places of these names in the spec.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("adapt_at",)

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
    checkpoint: CheckpointPolicy = field(default_factory=CheckpointPolicy)
    exactness: Exactness = field(default_factory=Exactness)
    blas_threads: int = 1
    params: tuple[tuple[str, object], ...] = ()
    folder: str = "."
    queues: tuple[Queue, ...] = ()
    deadline: Deadline | None = None
    layouts: tuple[StateLayout, ...] = ()
    notify: tuple[NotifyTarget, ...] = ()
    listeners: tuple[str, ...] = ()
    adapt: tuple[str, ...] = ()
    adapt_at: tuple[Origin, ...] = ()

    @property
    def groups(self) -> tuple[TaskGroup, ...]:
        """Return all four ``TaskGroup`` values of this ``Job``: init, epoch, download, exit."""
        return (self.init, self.epoch, self.download, self.exit)
