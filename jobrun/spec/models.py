"""What a user may write in a spec, as a whole. Shape only; meaning is the compiler's."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from jobrun.spec.declared import Param, StateSpec
from jobrun.spec.steps import ReportSpec, SetupSpec, Steps
from jobrun.spec.values import (
    BlobName,
    Bool,
    ByKind,
    EveryValue,
    Expression,
    Float,
    Int,
    Maybe,
    Model,
    Name,
    Seconds,
    Str,
)


class NodeSpec(Model):
    """A logical node, or with 'count' a family of them."""

    count: Maybe[Annotated[Int, Field(ge=1, le=100_000)]] = Field(
        None, description="so many nodes: NAME_0, NAME_1, …"
    )
    props: dict[Str, Any] = Field({}, description="anything, for whoever reads the plan")
    resources: dict[Str, Float] = Field({}, description="for sessions that place nodes")
    host: Maybe[Str] = Field(None, description="for sessions that place nodes")


class NetSpec(Model):
    """A net with parameters, results and temporaries of its own."""

    inputs: tuple[BlobName, ...] = Field((), alias="in", description="the names of its parameters")
    outputs: tuple[BlobName, ...] = Field((), alias="out", description="the names of its results")
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = {}
    steps: Steps = Field(description="over its parameters and temporaries of its own")


class RetrySpec(Model):
    """How often a failed group run is tried again, from where it started."""

    max: Annotated[Int, Field(ge=0, description="in one run of the group")]
    backoff: Seconds = Field(0.0, description="the wait before each retry")


Output = Annotated[
    Annotated[BlobName, Tag("text")] | Annotated[dict[BlobName, Expression], Tag("mapping")], ByKind
]


class TaskSpec(Model):
    """Steps on a node."""

    task: Name = Field(description="unique in the job")
    node: Maybe[Str] = Field(None, description="a node, a counted name, or a pattern such as a_*")
    needs: tuple[Name, ...] = Field((), description="tasks of the group that must have ended")
    instances: Annotated[Int, Field(ge=1, le=100_000)] = Field(
        1, description="copies of the task that run at the same time"
    )
    workspace: Maybe[Literal["private", "global"]] = Field(
        None, description="where the names that it makes live; else as the group's"
    )
    hogwild: Bool = Field(False, description="races on shared blobs are wanted")
    rebuild: Bool = Field(False, description="init only: runs at every start, never stored")
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = {}
    steps: Steps = Field((), description="what it does; with read, for each record")
    report: tuple[ReportSpec, ...] = ()
    outputs: tuple[Output, ...] = Field(
        (), description="blobs, or name: expression, read by others as task.name"
    )
    read: Maybe[Name] = Field(None, description="a reader or a queue: the steps run per record")
    write: dict[Name, tuple[BlobName, ...]] = Field({}, description="queue: blobs sent on")
    timeout: Maybe[Seconds] = Field(None, description="the task fails when it takes longer")
    retry: Maybe[RetrySpec] = Field(None, description="a failure of it runs the group again")
    on_error: Literal["fail", "warn"] = Field(
        "fail", description="warn: its failure is told, and the group goes on"
    )


class RemoteNet(Model):
    """A net kept for another place: the group does not run it, the session may."""

    net: Name = Field(description="a net of nets")
    node: Name = Field(description="where it is to run")


class NodeSetupSpec(SetupSpec):
    """Set-up around the group run on each node, or on one."""

    node: Maybe[Name] = Field(None, description="on that node; without it on each")


class GroupSpec(Model):
    """A task group, long form."""

    workspace: Maybe[Literal["private", "global"]] = Field(
        None, description="global: names that its tasks make are there for the groups after it"
    )
    tasks: tuple[TaskSpec, ...] = ()
    setup: Annotated[
        Annotated[NodeSetupSpec, Tag("mapping")]
        | Annotated[tuple[NodeSetupSpec, ...], Tag("list")],
        ByKind,
    ] = Field((), description="around the group's tasks, on each of its nodes")
    report: tuple[ReportSpec, ...] = ()
    remote: tuple[RemoteNet, ...] = ()


Group = Annotated[
    Annotated[tuple[TaskSpec, ...], Tag("list")] | Annotated[GroupSpec, Tag("mapping")],
    ByKind,
]
Net = Annotated[
    Annotated[Steps, Tag("list")] | Annotated[NetSpec, Tag("mapping")],
    ByKind,
]


# What a reader may read from; a reader has exactly one of them.
READER_SOURCES: tuple[str, ...] = (
    "npy", "npz", "hdf5", "csv", "parquet", "blobs", "counter", "call", "zip",
)  # fmt: skip


def _one_of_keys(keys: tuple[str, ...]) -> dict[str, Any]:
    return {"oneOf": [{"required": [key]} for key in keys]}


def _only_key(model: Model, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if key in model.model_fields_set]
    if len(given) != 1:
        context = {"given": ", ".join(given), "keys": ", ".join(sorted(keys))}
        raise PydanticCustomError("one_key", "exactly one key", context)


class ReaderSpec(Model):
    """A source of records; exactly one key says of which kind."""

    model_config = ConfigDict(json_schema_extra=_one_of_keys(READER_SOURCES))

    npy: Maybe[Str] = Field(None, description="a file of one array: fields: [x]")
    npz: Maybe[Str] = Field(None, description="a file of arrays of one length")
    hdf5: Maybe[Str] = Field(None, description="a file of datasets of one length")
    csv: Maybe[Str] = Field(None, description="a table, .csv or .tsv")
    parquet: Maybe[Str] = Field(None, description="needs jobrun[parquet]")
    blobs: Maybe[dict[BlobName, Expression]] = Field(
        None, description="arrays of the node, as they are when the task begins"
    )
    counter: Maybe[dict[Literal["start", "stop", "step"], Int]] = Field(
        None, description="numbers; without stop it never ends"
    )
    call: Maybe[Str] = Field(None, description="module:Class, iterated over, or with read(n)")
    zip: Maybe[tuple[Name, ...]] = Field(None, description="readers, side by side")
    arguments: dict[BlobName, Expression] = Field(
        {}, alias="with", description="what the class of 'call' is made with"
    )
    fields: Annotated[
        Annotated[dict[BlobName, Str], Tag("mapping")]
        | Annotated[tuple[BlobName, ...], Tag("list")],
        ByKind,
    ] = Field((), description="what each record binds: names, or name: member of the source")
    batch: Maybe[Annotated[Int, Field(ge=1)]] = Field(
        None, description="rows of a record, along a first axis; without it one, and no such axis"
    )
    drop_last: Bool = Field(False, description="a last batch that is not full is left out")
    shuffle: Bool = Field(False, description="an order that depends on seed and pass alone")
    restart: Literal["epoch", "never"] = Field(
        "epoch", description="never: go on where the last epoch ended"
    )
    limit: Maybe[Annotated[Int, Field(ge=0)]] = Field(
        None, description="records of an epoch, on each node, over all instances"
    )
    time_limit: Maybe[Seconds] = Field(None, description="after it no record is begun")
    delay: Maybe[Seconds] = Field(None, description="a wait before each record, for tests")
    shard: Maybe[Literal["node", "instance", "none"]] = Field(
        None, description="who gets a part of the rows for himself; none without it"
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        _only_key(self, READER_SOURCES)
        return self


class QueueSpec(Model):
    """A bounded queue between tasks."""

    capacity: Annotated[Int, Field(ge=1)] = Field(
        100, description="records that may wait in it; writers wait when it is full"
    )
    shared: Bool = Field(False, description="one queue for all nodes; else each node has its own")
    ordered: Bool = Field(False, description="readers get records in the order of what was read")
    batch: Maybe[Annotated[Int, Field(ge=1)]] = Field(
        None, description="so many records are read as one, joined along their first axis"
    )


class OverNodes(Model):
    """An expression on several nodes, reduced to one value."""

    of: Expression = Field(description="an expression over each node's own blobs")
    nodes: Str = Field(description="a counted name, or a pattern such as trainer_*")
    reduce: Literal["max", "min", "mean", "sum", "any", "all"] = Field(
        description="how the values become one"
    )


ProbeSpec = Annotated[
    Annotated[Expression, Tag("text")]
    | Annotated[Expression, Tag("list")]
    | Annotated[OverNodes, Tag("mapping")],
    ByKind,
]


class NoImprovement(Model):
    """Patience, in epochs."""

    of: Name = Field(description="a metric")
    epochs: Annotated[Int, Field(ge=1)] = Field(
        alias="for", description="so many epochs without a better value"
    )
    mode: Literal["min", "max"] = Field("min", description="which way is better")
    min_delta: Annotated[Float, Field(ge=0)] = Field(0.0, description="what counts as better")


def _true(value: Any) -> Any:
    if value is not True:  # a literal takes whatever equals it, such as 1
        raise PydanticCustomError("literal_error", "expected true", {"expected": "'true'"})
    return value


class StopSpec(Model):
    """One condition to stop; exactly one key."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    epochs: Maybe[Annotated[Int, Field(ge=1)]] = Field(None, description="the total number")
    when: Maybe[ProbeSpec] = Field(None, description="a bool over the state")
    data_finished: Maybe[Name] = Field(None, description="a reader with 'restart: never'")
    time: Maybe[Seconds] = Field(None, description="of the whole run")
    no_improvement: Maybe[NoImprovement] = None
    endless: Maybe[Annotated[Literal[True], BeforeValidator(_true)]] = Field(
        None, description="it never ends by itself, and says so"
    )

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        _only_key(self, tuple(type(self).model_fields))
        return self


class KeepSpec(Model):
    """Which checkpoints stay; without it, all."""

    last: Maybe[Annotated[Int, Field(ge=2)]] = Field(None, description="so many of the newest")
    every: Maybe[EveryValue] = Field(None, description="each of that distance, such as 10ep")
    best: Maybe[BestSpec] = None


class BestSpec(Model):
    """Those with the best value of a metric."""

    metric: Name = Field(description="a metric of metrics")
    mode: Literal["min", "max"] = Field("min", description="which values are best")
    n: Annotated[Int, Field(ge=1)] = Field(1, description="how many")


class UploadSpec(Model):
    """Where committed checkpoints are copied to."""

    to: Str = Field(description="a directory, or the URL of an object store: s3://bucket/…")
    when: Literal["end", "committed"] = Field(
        "end", description="the last one when the run has ended, or each one when it is saved"
    )
    required: Bool = Field(False, description="a failure fails the run")


# Those of core.compression, which a test compares.
Codec = Literal["none", "deflate", "zstd", "lz4", "blosc2", "bitshuffle"]


class CheckpointSpec(Model):
    """When to checkpoint, where to, and what to keep."""

    dir: Maybe[Str] = Field(None, description="where to; without it, into the run")
    every: Maybe[EveryValue] = Field(
        None, description="how often, such as 5ep, 10m or 50 records; each epoch without it"
    )
    keep: Maybe[KeepSpec] = None
    nodes: Maybe[tuple[Name, ...]] = Field(
        None, description="whose state is saved; else all that hold some"
    )
    compression: Maybe[
        Annotated[
            Annotated[Codec, Tag("text")] | Annotated[dict[Str, Codec], Tag("mapping")], ByKind
        ]
    ] = Field(None, description="of all blobs, or by patterns of names; the first that fits counts")
    on_error: Literal["fail", "warn"] = Field(
        "fail", description="warn: a save that fails is counted and told, and the run goes on"
    )
    asynchronous: Maybe[Bool] = Field(
        None, alias="async", description="save beside the run; without it, where memory allows"
    )
    upload: Maybe[UploadSpec] = None
    node_dir: Maybe[Str] = Field(
        None, description="where nodes that do not see 'dir' write their files first; absolute"
    )
    collect: Maybe[Str] = Field(
        None,
        description="who gets the files of 'node_dir' before an epoch counts: master, or the URL "
        "of an object store",
    )


Checkpoint = Annotated[
    Annotated[Literal["none"], Tag("text")] | Annotated[CheckpointSpec, Tag("mapping")], ByKind
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
    description: Str = Field("", description="one line about the job")
    seed: Annotated[Int, Field(ge=0)] = Field(0, description="the root of all random streams")
    blas_threads: Annotated[Int, Field(ge=1)] = Field(
        1, description="threads of a matrix product, per process"
    )
    params: dict[BlobName, Param] = Field({}, description="name: default, or the long form")
    nodes: dict[Name, NodeSpec] = Field({}, description="without it, one node: local")
    state: dict[BlobName, StateSpec] = Field(
        {}, description="what of the state may be resumed on another number of nodes"
    )
    nets: dict[Name, Net] = Field(
        {}, description="steps with a name, to be used any number of times"
    )
    readers: dict[Name, ReaderSpec] = Field({}, description="where records come from")
    queues: dict[Name, QueueSpec] = Field(
        {}, description="between a task that writes and one that reads"
    )
    init: Group = Field((), description="tasks that make the state, once")
    epoch: Group = Field((), description="tasks of one epoch, again and again")
    download: Group = Field(
        (), description="tasks that bring scattered results together, once after the last epoch"
    )
    exit: Group = Field((), description="tasks at the end, after download")
    metrics: dict[BlobName, ProbeSpec] = Field(
        {}, description="name: what is written down after each epoch"
    )
    stop: tuple[StopSpec, ...] = Field((), description="any of these, looked at after each epoch")
    fail_if: tuple[ProbeSpec, ...] = Field(
        (), description="the run fails when one holds, before the save"
    )
    deadline: Maybe[Str] = Field(
        None, description="auto (of the batch system) or a time: all is saved before it"
    )
    margin: Maybe[Seconds] = Field(None, description="how long before the deadline; 60s without it")
    checkpoint: Checkpoint = CheckpointSpec()
    expect: tuple[ProbeSpec, ...] = Field(
        (), description="at the end each must hold; else the exit code is 9"
    )


KeepSpec.model_rebuild()
