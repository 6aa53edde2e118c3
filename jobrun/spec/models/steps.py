"""Define the steps of a task as pydantic models, one per form, distinguished by their key."""

# Without postponed annotations: pydantic would evaluate each text. Those of "Steps" it must.

from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args

from annotated_types import Len
from pydantic import Discriminator, Field, Tag, WithJsonSchema, create_model
from pydantic.types import StringConstraints
from typing_extensions import TypeAliasType

from jobrun.graph.effects.effect import REQUIRED, DeclaredEffect, KeyKind, declared_keys
from jobrun.graph.effects.table import DECLARED
from jobrun.spec.models.scalar_types import (
    BlobName,
    Bool,
    ByKind,
    Expression,
    FunctionName,
    Maybe,
    Model,
    Name,
    Seconds,
    Str,
)

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
    state_dir: Maybe[Name] = Field(
        None, description="a directory of the program, which is part of the state"
    )
    deterministic: Bool = Field(True, description="false: equal inputs can give different results")


class NetStep(Model):
    """A named net, at this place."""

    net: Name = Field(description="a net of 'nets'")
    inputs: dict[BlobName, Expression] = Field({}, alias="in", description="parameter: value")
    outputs: dict[BlobName, BlobName] = Field({}, alias="out", description="result: blob here")


class LoopStep(Model):
    """Repeat a number of times; the count is read again at each pass."""

    loop: Expression = Field(description="the count, or 'forever'")
    steps: "Steps" = Field(description="the steps to repeat")
    index: Maybe[BlobName] = Field(None, alias="as", description="name of the iteration number")
    name: Maybe[Name] = Field(None, description="a name for 'stop'")


class WhileStep(Model):
    """Repeat while a condition holds."""

    condition: Expression = Field(
        alias="while", description="a bool, evaluated before each iteration"
    )
    steps: "Steps" = Field(description="the steps to repeat")
    index: Maybe[BlobName] = Field(None, alias="as", description="name of the iteration number")
    name: Maybe[Name] = Field(None, description="a name for 'stop'")


class ElifBranch(Model):
    """A further branch of an 'if'."""

    condition: Expression = Field(alias="if", description="a bool")
    then: "Steps" = Field(description="steps if it holds")


class IfStep(Model):
    """The first branch whose condition holds."""

    condition: Expression = Field(alias="if", description="a bool")
    then: "Steps" = Field(description="steps if it holds")
    elifs: tuple[ElifBranch, ...] = Field((), alias="elif")
    otherwise: "Steps" = Field((), alias="else", description="steps if no condition holds")


class StopIfStep(Model):
    """Leave the innermost block, or the named one, if a condition holds."""

    stop_if: Expression = Field(description="a bool")
    block: Maybe[Name] = Field(None, alias="stop", description="the block to leave")


class StopStep(Model):
    """Leave the named block; 'task' is the task's body."""

    stop: Name = Field(description="the block to leave")


class GuardStep(Model):
    """A block; afterwards the bool blob of its name says whether a stop left it."""

    guard: BlobName = Field(description="set to true if the block was stopped, else false")
    steps: "Steps" = Field(description="the block")
    name: Maybe[Name] = Field(None, description="a name for 'stop'")


class ParallelStep(Model):
    """Branches that run at the same time."""

    parallel: "tuple[Steps, ...]" = Field(
        min_length=1, description="the branches, each a list of steps"
    )


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
    """Build the pydantic model of a step that ``graph/effects`` declares, from its keys."""
    given: dict[str, Any] = {}
    declared: Any = kind
    for field, key in declared_keys(declared).items():
        default = ... if key.default is REQUIRED else key.default
        given[field] = (
            _TYPE_OF[key.kind],
            Field(default, alias=key.name, description=key.description),
        )
    model: type[EffectStep] = create_model(
        f"{kind.__name__}Step", __base__=EffectStep, __doc__=kind.__doc__, **given
    )
    return model


# The models of the declared kinds of steps, in the order of their table.
DECLARED_MODELS = {_build_model(kind): kind for kind in DECLARED}
_Declared = EffectStep
if not TYPE_CHECKING:
    _Declared = Union[  # noqa: UP007 - as many members as the table has
        tuple(
            Annotated[model, Tag(next(iter(declared_keys(kind).values())).name)]
            for model, kind in DECLARED_MODELS.items()
        )
    ]


def step_form(value: Any) -> str | None:
    """Return the key that decides the model of a step, such as ``call``; ``text`` for a string."""
    if isinstance(value, str):
        return "text"
    if isinstance(value, dict):
        return next((form for form in FORMS if form in value), None)
    if isinstance(value, Model):
        return _FORM_OF.get(type(value))
    return None


Statement = Annotated[
    str,
    StringConstraints(strict=True, min_length=1),
    WithJsonSchema({"type": "string", "description": "a statement, such as 'w -= lr * g'"}),
]

_AnyStep = Annotated[
    Annotated[Statement, Tag("text")]
    | Annotated[OpStep, Tag("op")]
    | Annotated[CallStep, Tag("call")]
    | Annotated[RunStep, Tag("run")]
    | Annotated[NetStep, Tag("net")]
    | Annotated[LoopStep, Tag("loop")]
    | Annotated[WhileStep, Tag("while")]
    | Annotated[IfStep, Tag("if")]
    | Annotated[StopIfStep, Tag("stop_if")]
    | Annotated[StopStep, Tag("stop")]
    | Annotated[GuardStep, Tag("guard")]
    | Annotated[ParallelStep, Tag("parallel")]
    | Annotated[PullStep, Tag("pull")]
    | Annotated[LoadStep, Tag("load")]
    | Annotated[SaveStep, Tag("save")]
    | _Declared,
    Discriminator(step_form),
]
# An alias is built once; the bare type would be for each place where a model has steps.
Step = TypeAliasType("Step", _AnyStep)
Steps = tuple[Step, ...]

# The models and their tags, as the union lists them.
_FORM_OF: dict[type, str] = {
    get_args(member)[0]: get_args(member)[1].tag
    for member in get_args(get_args(_AnyStep)[0])
    if isinstance(get_args(member)[0], type) and issubclass(get_args(member)[0], Model)
}
# The key that identifies a form, in the order of search: 'stop_if' may be used with 'stop'.
FORMS: tuple[str, ...] = tuple(_FORM_OF.values())


class SetupSpec(Model):
    """Steps to run once before and once after a scope."""

    init: Steps = Field((), description="before it")
    exit: Steps = Field((), description="also runs after a failure; 'failed' is defined")


class ReportSpec(Model):
    """Steps that run at an interval beside a body, and once more after it."""

    every: Seconds = Field(1.0, description="time between runs")
    steps: Steps = Field(description="the steps; 'failed' is defined in the last run")
    node: Maybe[Name] = Field(None, description="on a group's report: the node")
