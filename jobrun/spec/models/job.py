"""Define the spec as a pydantic model: job, nodes, groups, tasks, readers, checkpoints."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from jobrun.core.file_formats import FILE_FORMATS
from jobrun.core.notify_target import ALL_NEWS
from jobrun.spec.models.scalar_types import (
    Before,
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
    NotNegative,
    Positive,
    Seconds,
    SingleValue,
    Str,
)
from jobrun.spec.models.steps import ReportSpec, SetupSpec, Steps


def _no_items(description: str | None = None) -> Any:
    """Declare a field of the job's spec models whose default is an empty mapping."""
    shown: dict[str, Any] = {"default": {}}
    return Field(default_factory=dict, description=description, json_schema_extra=shown)


class NodeSpec(Model):
    """A logical node, or with 'count' a family of them."""

    count: Maybe[Annotated[Int, Field(ge=1, le=100_000)]] = Field(
        None, description="number of nodes: NAME_0, NAME_1, …"
    )
    props: dict[Str, Any] = Field({}, description="any properties; they are shown in the plan")
    resources: dict[Str, Float] = Field({}, description="for sessions that place nodes")
    host: Maybe[Str] = Field(None, description="for sessions that place nodes")


class NetSpec(Model):
    """A net with parameters, results and temporaries of its own."""

    inputs: tuple[BlobName, ...] = Field((), alias="in", description="the names of its parameters")
    outputs: tuple[BlobName, ...] = Field((), alias="out", description="the names of its results")
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = _no_items()
    steps: Steps = Field(description="over its parameters and temporaries of its own")


class RetrySpec(Model):
    """How often a failed group run is tried again, from where it started."""

    max: Annotated[Int, Field(ge=0, description="in one run of the group")]
    backoff: Seconds = Field(0.0, description="delay before each retry")


Output = Annotated[
    Annotated[BlobName, Tag("text")] | Annotated[dict[BlobName, Expression], Tag("mapping")], ByKind
]


class TaskSpec(Model):
    """Steps on a node."""

    task: Name = Field(description="unique in the job")
    node: Maybe[Str] = Field(None, description="a node, a counted name, or a pattern such as a_*")
    needs: tuple[Name, ...] = Field((), description="tasks of the group that must end first")
    instances: Annotated[Int, Field(ge=1, le=100_000)] = Field(
        1, description="copies of the task that run concurrently"
    )
    workspace: Maybe[Literal["private", "global"]] = Field(
        None, description="scope of the blobs it makes [default: the group's]"
    )
    hogwild: Bool = Field(False, description="allow data races on shared blobs")
    rebuild: Bool = Field(False, description="init only: runs at every start, never stored")
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = _no_items()
    steps: Steps = Field((), description="the steps; with read, run for each record")
    report: tuple[ReportSpec, ...] = ()
    outputs: tuple[Output, ...] = Field(
        (), description="blobs, or name: expression, read by others as task.name"
    )
    read: Maybe[Name] = Field(
        None, description="a reader or a queue; the steps run once per record"
    )
    write: dict[Name, tuple[BlobName, ...]] = _no_items("queue: blobs to send")
    timeout: Maybe[Seconds] = Field(None, description="the task fails if it takes longer")
    retry: Maybe[RetrySpec] = Field(None, description="run the group again if the task fails")
    on_error: Literal["fail", "warn"] = Field(
        "fail", description="warn: report its failure and continue the group"
    )


class RemoteNet(Model):
    """A net kept for another place: the group does not run it, the session may."""

    net: Name = Field(description="a net of nets")
    node: Name = Field(description="the node it runs on")


class NodeSetupSpec(SetupSpec):
    """Set-up around the group run on each node, or on one."""

    node: Maybe[Name] = Field(None, description="the node [default: every node]")


class GroupSpec(Model):
    """A task group, long form."""

    workspace: Maybe[Literal["private", "global"]] = Field(
        None, description="global: blobs that its tasks make are visible to later groups"
    )
    tasks: tuple[TaskSpec, ...] = ()
    setup: Annotated[
        Annotated[NodeSetupSpec, Tag("mapping")]
        | Annotated[tuple[NodeSetupSpec, ...], Tag("list")],
        ByKind,
    ] = Field((), description="steps around the tasks of the group, on each of its nodes")
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
READER_SOURCES: tuple[str, ...] = (*FILE_FORMATS, "blobs", "counter", "call", "zip")


def _one_of_keys(keys: tuple[str, ...]) -> dict[str, Any]:
    return {"oneOf": [{"required": [key]} for key in keys]}


def _only_key(model: Model, keys: tuple[str, ...]) -> None:
    given = [key for key in keys if key in model.model_fields_set]
    if len(given) != 1:
        context = {"given": ", ".join(given), "keys": ", ".join(sorted(keys))}
        raise PydanticCustomError("one_key", "exactly one key", context)


class RaggedField(Model):
    """A field whose records differ in length: each is a part of one array of values."""

    values: Str = Field(description="the values of all records, concatenated")
    lengths: Str = Field(description="the number of values of each record: one integer per record")


FieldSource = Annotated[
    Annotated[Str, Tag("text")] | Annotated[RaggedField, Tag("mapping")], ByKind
]


class ReaderSpec(Model):
    """A source of records; exactly one key says of which kind."""

    model_config = ConfigDict(json_schema_extra=_one_of_keys(READER_SOURCES))

    npy: Maybe[Str] = Field(None, description="a file of one array: fields: [x]")
    npz: Maybe[Str] = Field(None, description="a file of arrays of one length; or ragged")
    hdf5: Maybe[Str] = Field(None, description="a file of datasets of one length; or ragged")
    csv: Maybe[Str] = Field(None, description="a table, .csv or .tsv")
    parquet: Maybe[Str] = Field(None, description="needs jobrun[parquet]")
    blobs: Maybe[dict[BlobName, Expression]] = Field(
        None, description="arrays of the node, as at the start of the task"
    )
    counter: Maybe[dict[Literal["start", "stop", "step"], Int]] = Field(
        None, description="consecutive numbers; endless without stop"
    )
    call: Maybe[Str] = Field(None, description="module:Class, iterated over, or with read(n)")
    zip: Maybe[tuple[Name, ...]] = Field(None, description="readers, row by row in parallel")
    arguments: dict[BlobName, Expression] = Field(
        {}, alias="with", description="arguments of the class of 'call'"
    )
    fields: Annotated[
        Annotated[dict[BlobName, FieldSource], Tag("mapping")]
        | Annotated[tuple[BlobName, ...], Tag("list")],
        ByKind,
    ] = Field(
        (),
        description="blobs of each record: names, or name: member of the source, or "
        "name: {values: member, lengths: member}",
    )
    batch: Maybe[Positive] = Field(
        None,
        description="rows per record, along a first axis (values of ragged fields: concatenated) "
        "[default: one row, without that axis]",
    )
    drop_last: Bool = Field(False, description="drop the last batch if it is not full")
    shuffle: Bool = Field(
        False, description="random order that depends only on the seed and the pass"
    )
    restart: Literal["epoch", "never"] = Field(
        "epoch", description="never: continue where the last epoch ended"
    )
    limit: Maybe[NotNegative] = Field(
        None, description="records of an epoch, on each node, over all instances"
    )
    time_limit: Maybe[Seconds] = Field(None, description="start no more records after this time")
    delay: Maybe[Seconds] = Field(None, description="delay before each record, for tests")
    shard: Maybe[Literal["node", "instance", "none"]] = Field(
        None, description="how rows are divided among nodes or instances"
    )

    @model_validator(mode="after")
    def _has_one_source(self) -> Self:
        _only_key(self, READER_SOURCES)
        return self


class QueueSpec(Model):
    """A bounded queue between tasks."""

    capacity: Positive = Field(
        100, description="capacity in records; writers block when it is full"
    )
    shared: Bool = Field(False, description="one queue for all nodes [default: one per node]")
    ordered: Bool = Field(False, description="deliver records in the order in which they were read")
    batch: Maybe[Positive] = Field(
        None, description="number of records concatenated into one, along the first axis"
    )


class OverNodes(Model):
    """An expression on several nodes, reduced to one value."""

    of: Expression = Field(description="an expression over the blobs of each node")
    nodes: Str = Field(description="a counted name, or a pattern such as trainer_*")
    reduce: Literal["max", "min", "mean", "sum", "any", "all"] = Field(
        description="how to combine the values"
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
    epochs: Positive = Field(alias="for", description="number of epochs without improvement")
    mode: Literal["min", "max"] = Field("min", description="direction of improvement")
    min_delta: Annotated[Float, Field(ge=0)] = Field(0.0, description="minimum improvement")


def _true(value: Any) -> Any:
    if value is not True:  # a literal takes whatever equals it, such as 1
        raise PydanticCustomError("literal_error", "expected true", {"expected": "'true'"})
    return value


class StopSpec(Model):
    """One condition to stop; exactly one key."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    epochs: Maybe[Positive] = Field(None, description="the total number")
    when: Maybe[ProbeSpec] = Field(None, description="a bool over the state")
    data_finished: Maybe[Name] = Field(None, description="a reader with 'restart: never'")
    time: Maybe[Seconds] = Field(None, description="of the whole run")
    no_improvement: Maybe[NoImprovement] = None
    endless: Maybe[Annotated[Literal[True], Before(_true)]] = Field(
        None, description="the job has no end of its own"
    )

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        _only_key(self, tuple(type(self).model_fields))
        return self


class BestSpec(Model):
    """Those with the best value of a metric."""

    metric: Name = Field(description="the name of a metric")
    mode: Literal["min", "max"] = Field("min", description="which values are best")
    n: Positive = Field(1, description="how many")


class KeepSpec(Model):
    """Which checkpoints stay; without it, all."""

    last: Maybe[Annotated[Int, Field(ge=2)]] = Field(None, description="number of newest epochs")
    every: Maybe[EveryValue] = Field(None, description="every N-th epoch, such as 10ep")
    best: Maybe[BestSpec] = None


class UploadSpec(Model):
    """Where committed checkpoints are copied to."""

    to: Str = Field(description="a directory, or the URL of an object store: s3://bucket/…")
    when: Literal["end", "committed"] = Field(
        "end", description="the last epoch at the end of the run, or each one when it is saved"
    )
    required: Bool = Field(False, description="the run fails if an upload fails")


# Those of core.compression, which a test compares.
Codec = Literal["none", "deflate", "zstd", "lz4", "blosc2", "bitshuffle"]


class CheckpointSpec(Model):
    """When to checkpoint, where to, and what to keep."""

    dir: Maybe[Str] = Field(None, description="directory [default: in the run]")
    every: Maybe[EveryValue] = Field(
        None,
        description="auto: each epoch, as long as saves cost at most 5 % of the time; or an "
        "interval, such as 1ep (each epoch), 10m or 50 records [default: auto]",
    )
    keep: Maybe[KeepSpec] = None
    nodes: Maybe[tuple[Name, ...]] = Field(
        None, description="nodes whose state is saved [default: all that have any]"
    )
    compression: Maybe[
        Annotated[
            Annotated[Codec, Tag("text")] | Annotated[dict[Str, Codec], Tag("mapping")], ByKind
        ]
    ] = Field(None, description="for all blobs, or by patterns of names; the first match applies")
    on_error: Literal["fail", "warn"] = Field(
        "fail", description="warn: count and report a save that fails, and continue the run"
    )
    asynchronous: Maybe[Bool] = Field(
        None,
        alias="async",
        description="save in the background [default: if there is enough memory]",
    )
    upload: Maybe[UploadSpec] = None
    node_dir: Maybe[Str] = Field(
        None, description="absolute path where nodes without access to 'dir' write their files"
    )
    collect: Maybe[Str] = Field(
        None,
        description="where files of 'node_dir' are sent before an epoch is committed: master, "
        "or the URL of an object store",
    )


Checkpoint = Annotated[
    Annotated[Literal["none"], Tag("text")] | Annotated[CheckpointSpec, Tag("mapping")], ByKind
]


class NotifySpec(Model):
    """Who gets news of a run: a URL to which JSON is posted, or a command that reads it."""

    on: tuple[Literal["finished", "failed", "stopped", "no_progress", "node_lost"], ...] = Field(
        ALL_NEWS, min_length=1, description="which news [default: all]"
    )
    post: Maybe[Str] = Field(None, description="an http or https URL; ${env:NAME} keeps it secret")
    run: Maybe[tuple[Str, ...]] = Field(
        None, min_length=1, description="an argument list; the JSON is on standard input"
    )


Notify = Annotated[
    Annotated[NotifySpec, Tag("mapping")] | Annotated[tuple[NotifySpec, ...], Tag("list")], ByKind
]


class ParamSpec(Model):
    """A declared parameter, long form."""

    type: Maybe[Literal["int", "float", "bool", "text"]] = Field(
        None, description="else the default's"
    )
    default: SingleValue = Field(None, description="without one, the value must be given")
    min: Maybe[Float] = Field(None, description="the least value")
    max: Maybe[Float] = Field(None, description="the greatest value")
    choices: tuple[SingleValue, ...] = Field((), description="the only values")
    help: Str = Field("", description="description, shown by plan and report")
    secret: Bool = Field(False, description="true: only a digest of the value is recorded")
    drift: Maybe[Literal["safe"]] = Field(None, description="safe: may change on resume")


def _param(value: Any) -> Any:
    if isinstance(value, bool | int | float | str):
        return {"default": value}
    if isinstance(value, dict | ParamSpec):
        return value
    raise PydanticCustomError("scalar", "expected a single value or a mapping")


Param = Annotated[
    ParamSpec,
    BeforeValidator(_param, json_schema_input_type=bool | int | float | str | ParamSpec),
]


class PartitionSpec(Model):
    """A state blob of which each node has a part; 'replicated' instead: all have the same."""

    partition: Literal["rows"] = Field(
        description="rows: along the first axis, in the order of the nodes"
    )


StateSpec = Annotated[
    Annotated[Literal["replicated"], Tag("text")] | Annotated[PartitionSpec, Tag("mapping")],
    ByKind,
]


def _version(value: Any) -> Any:
    if value != 1 or isinstance(value, bool):
        raise PydanticCustomError("version", "this jobrun reads spec version 1")
    return value


class JobSpec(Model):
    """A job: init once, epochs until a stop condition holds, download once, exit once."""

    jobrun: Annotated[Int, Before(_version), WithJsonSchema({"const": 1, "type": "integer"})] = (
        Field(description="the version of the spec language")
    )
    name: Name = Field(description="name of the job and of the directory of its runs")
    description: Str = Field("", description="one-line description of the job")
    seed: NotNegative = Field(0, description="seed of all random streams")
    blas_threads: Positive = Field(1, description="threads of a matrix product, per process")
    params: dict[BlobName, Param] = Field({}, description="name: default, or the long form")
    nodes: dict[Name, NodeSpec] = Field({}, description="the nodes [default: one, named local]")
    state: dict[BlobName, StateSpec] = Field(
        {}, description="state that can be resumed on another number of nodes"
    )
    nets: dict[Name, Net] = Field({}, description="named, reusable lists of steps")
    readers: dict[Name, ReaderSpec] = Field({}, description="sources of records")
    queues: dict[Name, QueueSpec] = Field({}, description="queues between tasks")
    init: Group = Field((), description="tasks that make the state; run once")
    epoch: Group = Field((), description="tasks of one epoch; repeated")
    download: Group = Field(
        (), description="tasks that collect distributed results; run once after the last epoch"
    )
    exit: Group = Field((), description="tasks at the end, after 'download'")
    metrics: dict[BlobName, ProbeSpec] = Field(
        {}, description="name: expression recorded after each epoch"
    )
    stop: tuple[StopSpec, ...] = Field(
        (), description="stop conditions, evaluated after each epoch; any of them stops the job"
    )
    fail_if: tuple[ProbeSpec, ...] = Field(
        (), description="the run fails if one holds, before the save"
    )
    deadline: Maybe[Str] = Field(
        None, description="auto (from the batch system) or a time: the run saves before it"
    )
    margin: Maybe[Seconds] = Field(None, description="how long before the deadline [default: 60s]")
    # Not by a call: its validator would be built for that alone.
    checkpoint: Checkpoint = CheckpointSpec.model_construct()
    expect: tuple[ProbeSpec, ...] = Field(
        (), description="must hold at the end; otherwise the exit code is 9"
    )
    notify: Notify = Field((), description="who gets news of a run; never decides its exit code")
    listeners: tuple[Str, ...] = Field(
        (), description="who gets its metrics live: tensorboard, mlflow, wandb, or of a package"
    )
