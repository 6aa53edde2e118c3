"""Define the spec as a pydantic model: job, params, nodes, groups, stop conditions, checkpoints."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Field, Tag, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from jobrun.core.errors import Fault
from jobrun.spec.models.base_types import (
    Before,
    BlobName,
    Bool,
    ByKind,
    Deferred,
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
from jobrun.spec.models.model_keys import require_one_key
from jobrun.spec.models.tasks import TaskSpec
from jobrun.spec.yaml.nodes import SourceMap, path_text

if TYPE_CHECKING:
    from jobrun.spec.models.optional_parts import (
        GroupSpec,
        NetSpec,
        NoImprovement,
        NotifySpec,
        OverNodes,
        PartitionSpec,
    )
    from jobrun.spec.models.readers import QueueSpec, ReaderSpec
    from jobrun.spec.models.retention import KeepSpec, UploadSpec
    from jobrun.spec.models.steps import Steps
else:
    from jobrun.spec.models.step_forms import Steps

    GroupSpec = Deferred("optional_parts", "GroupSpec")
    NetSpec = Deferred("optional_parts", "NetSpec")
    NoImprovement = Deferred("optional_parts", "NoImprovement")
    NotifySpec = Deferred("optional_parts", "NotifySpec")
    OverNodes = Deferred("optional_parts", "OverNodes")
    PartitionSpec = Deferred("optional_parts", "PartitionSpec")
    QueueSpec, ReaderSpec = Deferred("readers", "QueueSpec"), Deferred("readers", "ReaderSpec")
    KeepSpec, UploadSpec = Deferred("retention", "KeepSpec"), Deferred("retention", "UploadSpec")


class NodeSpec(Model):
    """A logical node, or with 'count' a family of them."""

    count: Maybe[Annotated[Int, Field(ge=1, le=100_000)]] = Field(
        None, description="number of nodes: NAME_0, NAME_1, …"
    )
    props: dict[Str, Any] = Field({}, description="any properties; they are shown in the plan")
    resources: dict[Str, Float] = Field({}, description="for sessions that place nodes")
    host: Maybe[Str] = Field(None, description="for sessions that place nodes")


Group = Annotated[
    Annotated[tuple[TaskSpec, ...], Tag("list")] | Annotated[GroupSpec, Tag("mapping")], ByKind
]
Net = Annotated[Annotated[Steps, Tag("list")] | Annotated[NetSpec, Tag("mapping")], ByKind]

ProbeSpec = Annotated[
    Annotated[Expression, Tag("text")]
    | Annotated[Expression, Tag("list")]
    | Annotated[OverNodes, Tag("mapping")],
    ByKind,
]


def _true(value: Any) -> Any:
    if value is not True:  # a literal takes whatever equals it, such as 1
        raise PydanticCustomError("literal_error", "expected true", {"expected": "'true'"})
    return value


class StopSpec(Model):
    """One condition to stop; exactly one key."""

    model_config = ConfigDict(json_schema_extra={"minProperties": 1, "maxProperties": 1})

    epochs: Maybe[Positive] = Field(None, description="the total number")
    when: Maybe[ProbeSpec] = Field(None, description="a bool over the state")
    data_finished: Maybe[Name] = Field(
        None, description="a reader with 'restart: never'; a job ends by its data only with this"
    )
    time: Maybe[Seconds] = Field(None, description="of the whole run")
    no_improvement: Maybe[NoImprovement] = None
    endless: Maybe[Annotated[Literal[True], Before(_true)]] = Field(
        None, description="the job has no end of its own"
    )

    @model_validator(mode="after")
    def _has_one_key(self) -> Self:
        require_one_key(self, tuple(type(self).model_fields))
        return self


# Equal to the names in core.compression; a test compares them.
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
    if isinstance(value, dict | Model):
        return value
    raise PydanticCustomError("scalar", "expected a single value or a mapping")


_AnyParam = bool | int | float | str | ParamSpec
Param = Annotated[ParamSpec, BeforeValidator(_param, json_schema_input_type=_AnyParam)]

StateSpec = Annotated[
    Annotated[Literal["replicated"], Tag("text")] | Annotated[PartitionSpec, Tag("mapping")], ByKind
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
    adapt: tuple[Str, ...] = Field(
        (),
        description="packages, modules and classes whose values are kept by their attributes or "
        "their own __reduce_ex__",
    )
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


MOST_NODES = 100_000


def check_nodes(spec: JobSpec, source: SourceMap) -> list[Fault]:
    """Check the names and the number of nodes of a spec's ``JobSpec``; return the errors.

    Names may not differ only in case: each node has files named after it.
    """
    total = sum(node.count or 1 for node in spec.nodes.values())
    if total > MOST_NODES:
        message = f"{total:,} nodes; a job has at most {MOST_NODES:,}"
        where = source.key(("nodes",))
        return [Fault("E033", message, "reduce the counts", where, "nodes")]
    return list(_collisions(spec, source))


def _collisions(spec: JobSpec, source: SourceMap) -> Iterator[Fault]:
    taken: dict[str, str] = {}
    for name, node in spec.nodes.items():
        count = node.count
        members = [name] if count is None else [f"{name}_{index}" for index in range(count)]
        for member in members:
            folded = unicodedata.normalize("NFC", member).casefold()
            other = taken.setdefault(folded, member)
            if other is not member:
                path = ("nodes", name)
                message = f"the names of node '{member}' and node '{other}' differ only in case"
                if other == member:
                    message = f"two nodes have the name '{member}'"
                mend = "rename one: each node has files named after it"
                yield Fault("E032", message, mend, source.key(path), path_text(path))
                break
