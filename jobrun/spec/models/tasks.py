"""Define a task of a spec as a pydantic model."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, Tag

from jobrun.spec.models.base_types import (
    BlobName,
    Bool,
    ByKind,
    Deferred,
    Expression,
    Int,
    Maybe,
    Model,
    Name,
    Seconds,
    Str,
)
from jobrun.spec.models.model_keys import no_items

if TYPE_CHECKING:
    from jobrun.spec.models.steps import ReportSpec, SetupSpec, Steps
else:
    from jobrun.spec.models.step_forms import Steps

    ReportSpec, SetupSpec = Deferred("steps", "ReportSpec"), Deferred("steps", "SetupSpec")


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
    setup: dict[Literal["node", "task", "instance"], SetupSpec] = no_items()
    steps: Steps = Field((), description="the steps; with read, run for each record")
    report: tuple[ReportSpec, ...] = ()
    outputs: tuple[Output, ...] = Field(
        (), description="blobs, or name: expression, read by others as task.name"
    )
    read: Maybe[Name] = Field(
        None, description="a reader or a queue; the steps run once per record"
    )
    write: dict[Name, tuple[BlobName, ...]] = no_items("queue: blobs to send")
    timeout: Maybe[Seconds] = Field(None, description="the task fails if it takes longer")
    retry: Maybe[RetrySpec] = Field(None, description="run the group again if the task fails")
    on_error: Literal["fail", "warn"] = Field(
        "fail", description="warn: report its failure and continue the group"
    )
