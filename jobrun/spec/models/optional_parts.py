"""Define the parts that few specs have as pydantic models: long forms of groups and nets, news."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

from typing import Annotated, Literal

from pydantic import Field, Tag

from jobrun.core.notify_target import ALL_NEWS
from jobrun.spec.models.base_types import (
    BlobName,
    ByKind,
    Expression,
    Float,
    Maybe,
    Model,
    Name,
    Positive,
    Str,
)
from jobrun.spec.models.model_keys import no_items
from jobrun.spec.models.steps import ReportSpec, SetupSpec, Steps
from jobrun.spec.models.tasks import TaskSpec


class NetSpec(Model):
    """A net with parameters, results and temporaries of its own."""

    inputs: tuple[BlobName, ...] = Field((), alias="in", description="the names of its parameters")
    outputs: tuple[BlobName, ...] = Field((), alias="out", description="the names of its results")
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = no_items()
    steps: Steps = Field(description="over its parameters and temporaries of its own")


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


class OverNodes(Model):
    """An expression on several nodes, reduced to one value."""

    of: Expression = Field(description="an expression over the blobs of each node")
    nodes: Str = Field(description="a counted name, or a pattern such as trainer_*")
    reduce: Literal["max", "min", "mean", "sum", "any", "all"] = Field(
        description="how to combine the values"
    )


class NoImprovement(Model):
    """Patience, in epochs."""

    of: Name = Field(description="a metric")
    epochs: Positive = Field(alias="for", description="number of epochs without improvement")
    mode: Literal["min", "max"] = Field("min", description="direction of improvement")
    min_delta: Annotated[Float, Field(ge=0)] = Field(0.0, description="minimum improvement")


class NotifySpec(Model):
    """Who gets news of a run: a URL to which JSON is posted, or a command that reads it."""

    on: tuple[Literal["finished", "failed", "stopped", "no_progress", "node_lost"], ...] = Field(
        ALL_NEWS, min_length=1, description="which news [default: all]"
    )
    post: Maybe[Str] = Field(None, description="an http or https URL; ${env:NAME} keeps it secret")
    run: Maybe[tuple[Str, ...]] = Field(
        None, min_length=1, description="an argument list; the JSON is on standard input"
    )


class PartitionSpec(Model):
    """A state blob of which each node has a part; 'replicated' instead: all have the same."""

    partition: Literal["rows"] = Field(
        description="rows: along the first axis, in the order of the nodes"
    )
