"""Define the steps of a task but control flow as pydantic models, one per form."""

# Without postponed annotations: pydantic would evaluate each text. Those of Steps it must.

from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from annotated_types import Len
from pydantic import Field, Tag, create_model

from jobrun.graph.effects import DECLARED, REQUIRED, DeclaredEffect, KeyKind
from jobrun.spec.models.base_types import (
    BlobName,
    Bool,
    ByKind,
    ByteSize,
    Expression,
    FunctionName,
    Maybe,
    Model,
    Name,
    Seconds,
    Str,
)

if TYPE_CHECKING:
    from jobrun.spec.models.control_flow import (
        GuardStep,
        IfStep,
        LoopStep,
        ParallelStep,
        StopIfStep,
        StopStep,
        WhileStep,
    )

    # For type checkers: with the models, which step_forms only names.
    Step: TypeAlias = (
        "str | OpStep | NetStep | LoopStep | WhileStep | IfStep | StopIfStep | StopStep"
        " | GuardStep | ParallelStep | EffectStep"
    )
    Steps: TypeAlias = "tuple[Step, ...]"
else:
    from jobrun.spec.models.step_forms import Steps

Blobs = tuple[BlobName, ...]
Results = Annotated[Annotated[BlobName, Tag("text")] | Annotated[Blobs, Tag("list")], ByKind]
Command = Annotated[Annotated[Str, Tag("text")] | Annotated[tuple[Str, ...], Tag("list")], ByKind]


class EffectStep(Model):
    """A step that holds no other steps."""


class OpStep(Model):
    """A registered operator, the long form of a call in an expression.

    Keys besides these are the operator's own arguments.
    """

    model_config = {"extra": "allow", "frozen": True}

    op: Str = Field(description="the operator's name, as listed by 'jobrun ops'")
    inputs: tuple[Expression, ...] = Field((), alias="in", description="positional arguments")
    out: Maybe[Results] = Field(None, description="the blob or blobs that it makes")


class CallStep(EffectStep):
    """A Python callable."""

    call: FunctionName = Field(description="pkg.mod:function")
    arguments: dict[BlobName, Expression] = Field({}, alias="with", description="keyword arguments")
    out: Maybe[Results] = Field(None, description="the blob or blobs that it returns")
    inout: Blobs = Field((), description="blobs that it changes in place")
    deterministic: Bool = Field(True, description="false: equal inputs can give different results")


class StateDirectory(Model):
    """A directory of a program, with a limit."""

    name: Name = Field(description="its name, in the run's directory and in the state")
    max_size: Maybe[ByteSize] = Field(
        None, description="how much it may hold, such as 2GiB: more than that is an error"
    )


class RunStep(EffectStep):
    """A shell command."""

    run: Command = Field(
        description="an argument list, or a command for bash, in which ${…} is one word and "
        "${raw:…} is inserted as text. A value of 'with' is the variable "
        "JOBRUN_<NAME>: text as it is, numbers as text, lists and dicts as JSON, and an array as "
        "the path of an .npy file"
    )
    env: tuple[Str, ...] = Field((), description="environment variables to pass on")
    values: dict[BlobName, Expression] = Field(
        {},
        alias="with",
        description="values passed as JOBRUN_<NAME>: text as it is, numbers as text, lists and "
        "dicts as JSON, arrays as the path of an .npy file",
    )
    out: dict[BlobName, Str] = Field({}, description="blobs read back: 'file' or 'file::member'")
    state_dir: Maybe[
        Annotated[Annotated[Name, Tag("text")] | Annotated[StateDirectory, Tag("mapping")], ByKind]
    ] = Field(None, description="a directory of the program, which is part of the state")
    deterministic: Bool = Field(True, description="false: equal inputs can give different results")


class NetStep(Model):
    """A named net, at this place."""

    net: Name = Field(description="a net of 'nets'")
    inputs: dict[BlobName, Expression] = Field({}, alias="in", description="parameter: value")
    outputs: dict[BlobName, BlobName] = Field({}, alias="out", description="result: blob here")


class PullSource(Model):
    """Which blob of which nodes, and how several become one."""

    source: Str = Field(alias="from", description="a node, or a pattern such as trainer_*")
    blob: BlobName = Field(description="its name there")
    reduce: Literal["mean", "sum", "stack", "concat", "first"] = Field(
        "first", description="how to combine the values of several nodes, in the order of nodes"
    )


class PullStep(EffectStep):
    """Read other nodes' global blobs, one consistent copy each."""

    pull: dict[BlobName, PullSource] = Field(min_length=1)


class LoadStep(EffectStep):
    """Read data files: npy, npz, csv, HDF5."""

    load: dict[BlobName, Str] = Field(min_length=1, description="blob: 'path' or 'path::member'")


class SaveStep(EffectStep):
    """Write data files; each appears whole or not at all."""

    save: dict[BlobName, Str] = Field(min_length=1, description="blob: 'path' or 'path::member'")


# The type of a value in YAML, by the kind of a declared key.
_TYPE_OF: dict[KeyKind, Any] = {
    "text": Str,
    "condition": Expression,
    "numbers": Annotated[dict[BlobName, Expression], Len(1)],
    "duration": Seconds,
}


def _build_model(kind: type[DeclaredEffect]) -> type[EffectStep]:
    """Define the pydantic model of a step such as ``log`` by the keys that its class declares."""
    model_fields: dict[str, Any] = {}
    declared: Any = kind
    for field, key in declared.keys.items():
        default = ... if key.default is REQUIRED else key.default
        model_fields[field] = (
            _TYPE_OF[key.kind],
            Field(default, alias=key.name, description=key.description),
        )
    model: type[EffectStep] = create_model(
        f"{kind.__name__}Step", __base__=EffectStep, __doc__=kind.__doc__, **model_fields
    )
    return model


# The models of the declared kinds of steps, in the order of their table.
DECLARED_MODELS = {_build_model(kind): kind for kind in DECLARED.values()}
# Under the names by which step_forms finds them.
globals().update({model.__name__: model for model in DECLARED_MODELS})


class SetupSpec(Model):
    """Steps to run once before and once after a scope."""

    init: Steps = Field((), description="before it")
    exit: Steps = Field((), description="also runs after a failure; 'failed' is defined")


class ReportSpec(Model):
    """Steps that run at an interval beside a body, and once more after it."""

    every: Seconds = Field(1.0, description="time between runs")
    steps: Steps = Field(description="the steps; 'failed' is defined in the last run")
    node: Maybe[Name] = Field(None, description="on a group's report: the node")
