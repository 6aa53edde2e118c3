"""What a user may write in a spec, as a whole. Shape only; meaning is the compiler's."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from jobrun.spec.steps import ReportSpec, SetupSpec, Steps
from jobrun.spec.values import (
    BlobName,
    Bool,
    EveryValue,
    Expression,
    Float,
    Int,
    Model,
    Name,
    Seconds,
    Str,
)


class ParamSpec(Model):
    """A declared parameter, long form."""

    type: Literal["int", "float", "bool", "text"] | None = Field(
        None, description="else the default's"
    )
    default: Any = Field(None, description="without one, the value must be given")
    min: Float | None = None
    max: Float | None = None
    choices: tuple[Any, ...] = ()
    help: Str = ""
    drift: Literal["safe"] | None = Field(None, description="safe: may change on resume")


class NodeSpec(Model):
    """A logical node, or with 'count' a family of them."""

    count: Annotated[Int, Field(ge=1, le=100_000)] | None = None
    props: dict[Str, Any] = {}
    resources: dict[Str, Float] = {}
    host: Str | None = None


class NetSpec(Model):
    """A net with parameters, results and temporaries of its own."""

    inputs: tuple[BlobName, ...] = Field((), alias="in")
    outputs: tuple[BlobName, ...] = Field((), alias="out")
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = {}
    steps: Steps


def _list_or_mapping(value: Any) -> str | None:
    if isinstance(value, list | tuple):
        return "list"
    return "mapping" if isinstance(value, dict | Model) else None


class RetrySpec(Model):
    """How often a failed group run is tried again."""

    max: Annotated[Int, Field(ge=0)]
    backoff: Seconds = 0.0


class TaskSpec(Model):
    """Steps on a node."""

    task: Name = Field(description="unique in the job")
    node: Str | None = Field(None, description="a node, a counted name, or a pattern such as a_*")
    needs: tuple[Name, ...] = Field((), description="tasks of the group that must have ended")
    instances: Annotated[Int, Field(ge=1, le=100_000)] = 1
    workspace: Literal["private", "global"] | None = None
    hogwild: Bool = Field(False, description="races on shared blobs are wanted")
    rebuild: Bool = Field(False, description="init only: runs at every start, never stored")
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = {}
    steps: Steps = ()
    report: tuple[ReportSpec, ...] = ()
    outputs: tuple[BlobName | dict[BlobName, Expression], ...] = ()
    read: Name | None = Field(None, description="a reader or a queue: the steps run per record")
    write: dict[Name, tuple[BlobName, ...]] = Field({}, description="queue: blobs sent on")
    timeout: Seconds | None = None
    retry: RetrySpec | None = None
    on_error: Literal["fail", "warn"] = "fail"


class RemoteNet(Model):
    """A net kept for another place."""

    net: Name
    node: Name


class NodeSetupSpec(SetupSpec):
    """Set-up around the group run on each node, or on one."""

    node: Name | None = None


class GroupSpec(Model):
    """A task group, long form."""

    workspace: Literal["private", "global"] | None = None
    tasks: tuple[TaskSpec, ...] = ()
    setup: NodeSetupSpec | tuple[NodeSetupSpec, ...] = ()
    report: tuple[ReportSpec, ...] = ()
    remote: tuple[RemoteNet, ...] = ()


Group = Annotated[
    Annotated[tuple[TaskSpec, ...], Tag("list")] | Annotated[GroupSpec, Tag("mapping")],
    Discriminator(_list_or_mapping),
]
Net = Annotated[
    Annotated[Steps, Tag("list")] | Annotated[NetSpec, Tag("mapping")],
    Discriminator(_list_or_mapping),
]


class ReaderSpec(Model):
    """A source of records."""

    npy: Str | None = None
    npz: Str | None = None
    hdf5: Str | None = None
    csv: Str | None = None
    parquet: Str | None = None
    blobs: dict[BlobName, Expression] | None = None
    counter: dict[Literal["start", "stop", "step"], Int] | None = None
    call: Str | None = None
    zip: tuple[Name, ...] | None = None
    arguments: dict[BlobName, Expression] = Field({}, alias="with")
    fields: dict[BlobName, Str] | tuple[BlobName, ...] = ()
    batch: Annotated[Int, Field(ge=1)] | None = None
    drop_last: Bool = False
    shuffle: Bool = False
    restart: Literal["epoch", "never"] = "epoch"
    limit: Annotated[Int, Field(ge=0)] | None = None
    time_limit: Seconds | None = None
    delay: Seconds | None = None
    shard: Literal["node", "instance", "none"] | None = None


class QueueSpec(Model):
    """A bounded queue between tasks."""

    capacity: Annotated[Int, Field(ge=1)] = 100
    shared: Bool = False
    ordered: Bool = False


class OverNodes(Model):
    """An expression on several nodes, reduced to one value."""

    of: Expression
    nodes: Str
    reduce: Literal["max", "min", "mean", "sum", "any", "all"]


ProbeSpec = Annotated[
    Annotated[Expression, Tag("expression")] | Annotated[OverNodes, Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | Model) else "expression"),
]


class NoImprovement(Model):
    """Patience, in epochs."""

    of: Name = Field(description="a metric")
    epochs: Annotated[Int, Field(ge=1)] = Field(alias="for")
    mode: Literal["min", "max"] = "min"
    min_delta: Annotated[Float, Field(ge=0)] = 0.0


_STOP_KEYS = ("data_finished", "endless", "epochs", "no_improvement", "time", "when")


class StopSpec(Model):
    """One condition to stop; exactly one key."""

    epochs: Annotated[Int, Field(ge=1)] | None = Field(None, description="the total number")
    when: ProbeSpec | None = Field(None, description="a bool over the state")
    data_finished: Name | None = Field(None, description="a reader with 'restart: never'")
    time: Seconds | None = Field(None, description="of the whole run")
    no_improvement: NoImprovement | None = None
    endless: Literal[True] | None = None


class KeepSpec(Model):
    """Which checkpoints stay; without it, all."""

    last: Annotated[Int, Field(ge=2)] | None = None
    every: EveryValue | None = None
    best: BestSpec | None = None


class BestSpec(Model):
    """Those with the best value of a metric."""

    metric: Name
    mode: Literal["min", "max"] = "min"
    n: Annotated[Int, Field(ge=1)] = 1


class UploadSpec(Model):
    """Where committed checkpoints are copied to."""

    to: Str
    when: Literal["end", "committed"] = "end"
    required: Bool = False


class CheckpointSpec(Model):
    """When to checkpoint, where to, and what to keep."""

    dir: Str | None = None
    every: EveryValue | None = None
    keep: KeepSpec | None = None
    nodes: tuple[Name, ...] | None = None
    compression: Str | dict[Str, Str] | None = None
    on_error: Literal["fail", "warn"] = "fail"
    asynchronous: Bool | None = Field(None, alias="async")
    upload: UploadSpec | None = None


Checkpoint = Annotated[
    Annotated[Literal["none"], Tag("none")] | Annotated[CheckpointSpec, Tag("mapping")],
    Discriminator(lambda value: "mapping" if isinstance(value, dict | Model) else "none"),
]


def _version(value: Any) -> Any:
    if value != 1 or isinstance(value, bool):
        raise PydanticCustomError("version", "this jobrun reads spec version 1")
    return value


class JobSpec(Model):
    """A job: init once, epochs until a stop condition holds, download once, exit once."""

    jobrun: Annotated[
        Int, BeforeValidator(_version), WithJsonSchema({"const": 1, "type": "integer"})
    ] = Field(description="the version of the spec language")
    name: Name = Field(description="names the job, and the folder of its runs")
    description: Str = ""
    seed: Annotated[Int, Field(ge=0)] = Field(0, description="the root of all random streams")
    blas_threads: Annotated[Int, Field(ge=1)] = 1
    params: dict[BlobName, Any] = Field({}, description="name: default, or the long form")
    nodes: dict[Name, NodeSpec] = Field({}, description="without it, one node: local")
    nets: dict[Name, Net] = {}
    readers: dict[Name, ReaderSpec] = {}
    queues: dict[Name, QueueSpec] = {}
    init: Group = ()
    epoch: Group = ()
    download: Group = ()
    exit: Group = ()
    metrics: dict[BlobName, ProbeSpec] = {}
    stop: tuple[StopSpec, ...] = ()
    fail_if: tuple[ProbeSpec, ...] = ()
    deadline: Str | None = None
    margin: Seconds | None = None
    checkpoint: Checkpoint = CheckpointSpec()
    expect: tuple[ProbeSpec, ...] = ()


KeepSpec.model_rebuild()
