"""The steps of a task, as they are written: one model per form, told apart by their key."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, WithJsonSchema
from pydantic.types import StringConstraints

from jobrun.spec.values import (
    BlobName,
    Bool,
    ByKind,
    Expression,
    Maybe,
    Model,
    Name,
    Seconds,
    Str,
)

Blobs = tuple[BlobName, ...]
Results = Annotated[Annotated[BlobName, Tag("text")] | Annotated[Blobs, Tag("list")], ByKind]
Command = Annotated[Annotated[Str, Tag("text")] | Annotated[tuple[Str, ...], Tag("list")], ByKind]


class OpStep(Model):
    """A registered operator, the long form of a call in an expression.

    Keys besides these are the operator's own arguments.
    """

    model_config = {"extra": "allow", "frozen": True}

    op: Str = Field(description="the operator's name, as listed by 'jobrun ops'")
    inputs: tuple[Expression, ...] = Field((), alias="in", description="positional arguments")
    out: Maybe[Results] = Field(None, description="the blob, or blobs, that it makes")


class CallStep(Model):
    """A Python callable."""

    call: Str = Field(pattern=r"^[A-Za-z_][\w.]*:[A-Za-z_][\w.]*$", description="pkg.mod:function")
    arguments: dict[BlobName, Expression] = Field({}, alias="with", description="keyword arguments")
    out: Maybe[Results] = Field(None, description="the blob, or blobs, that it returns")
    inout: Blobs = Field((), description="blobs it may change in place")
    deterministic: Bool = Field(True, description="false: equal inputs may give other results")


class RunStep(Model):
    """A shell command."""

    run: Command = Field(description="an argument list, or one line for bash")
    env: tuple[Str, ...] = Field((), description="environment variables passed on")
    values: dict[BlobName, Expression] = Field(
        {}, alias="with", description="values passed as JOBRUN_<NAME>"
    )
    out: dict[BlobName, Str] = Field({}, description="blobs read back: 'file' or 'file::member'")
    state_dir: Maybe[Name] = Field(None, description="the program's own folder, which is state")
    deterministic: Bool = Field(True, description="false: equal inputs may give other results")


class NetStep(Model):
    """A named net, at this place."""

    net: Name = Field(description="a net of 'nets'")
    inputs: dict[BlobName, Expression] = Field({}, alias="in", description="parameter: value")
    outputs: dict[BlobName, BlobName] = Field({}, alias="out", description="result: blob here")


class LoopStep(Model):
    """Repeat a number of times; the count is read again at each pass."""

    loop: Expression = Field(description="the count, or 'forever'")
    steps: Steps = Field(description="what is repeated")
    index: Maybe[BlobName] = Field(None, alias="as", description="names the pass number")
    name: Maybe[Name] = Field(None, description="a name that 'stop' can say")


class WhileStep(Model):
    """Repeat while a condition holds."""

    condition: Expression = Field(alias="while", description="a bool, looked at before each pass")
    steps: Steps = Field(description="what is repeated")
    index: Maybe[BlobName] = Field(None, alias="as", description="names the pass number")
    name: Maybe[Name] = Field(None, description="a name that 'stop' can say")


class ElifBranch(Model):
    """A further branch of an 'if'."""

    condition: Expression = Field(alias="if", description="a bool")
    then: Steps = Field(description="what is done if it holds")


class IfStep(Model):
    """The first branch whose condition holds."""

    condition: Expression = Field(alias="if", description="a bool")
    then: Steps = Field(description="what is done if it holds")
    elifs: tuple[ElifBranch, ...] = Field((), alias="elif")
    otherwise: Steps = Field((), alias="else", description="what is done if no condition holds")


class StopIfStep(Model):
    """Leave the innermost block, or the named one, if a condition holds."""

    stop_if: Expression = Field(description="a bool")
    block: Maybe[Name] = Field(None, alias="stop", description="the block to leave")


class StopStep(Model):
    """Leave the named block; 'task' is the task's body."""

    stop: Name = Field(description="the block to leave")


class GuardStep(Model):
    """A block; afterwards the bool blob of its name tells whether it was stopped."""

    guard: BlobName = Field(description="becomes true if the block was stopped, else false")
    steps: Steps = Field(description="the block")
    name: Maybe[Name] = Field(None, description="a name that 'stop' can say")


class ParallelStep(Model):
    """Branches that run at the same time."""

    parallel: tuple[Steps, ...] = Field(
        min_length=1, description="the branches, each a list of steps"
    )


class PullSource(Model):
    """Which blob of which nodes, and how several become one."""

    source: Str = Field(alias="from", description="a node, or a pattern such as trainer_*")
    blob: BlobName = Field(description="its name there")
    reduce: Literal["mean", "sum", "stack", "concat", "first"] = Field(
        "first", description="how the values of several nodes become one, in the order of nodes"
    )


class PullStep(Model):
    """Read other nodes' global blobs, one consistent copy each."""

    pull: dict[BlobName, PullSource] = Field(min_length=1)


class LoadStep(Model):
    """Read data files: npy, npz, csv, HDF5."""

    load: dict[BlobName, Str] = Field(min_length=1, description="blob: 'path' or 'path::member'")


class SaveStep(Model):
    """Write data files; each appears whole or not at all."""

    save: dict[BlobName, Str] = Field(min_length=1, description="blob: 'path' or 'path::member'")


class LogStep(Model):
    """A line for the reader of the run; '{expr:format}' is filled in."""

    log: Str = Field(description="the line")


class MetricStep(Model):
    """Named numbers for the run's metrics."""

    metric: dict[BlobName, Expression] = Field(min_length=1, description="name: a number")


class AssertStep(Model):
    """Fail the task unless a condition holds."""

    condition: Expression = Field(alias="assert", description="a bool")
    message: Str = Field("", description="what to say then; '{expr:format}' is filled in")


# The key that tells a form, in the order of looking: 'stop_if' may stand beside 'stop'.
FORMS: tuple[str, ...] = (
    "op", "call", "run", "net", "loop", "while", "if", "stop_if", "stop", "guard",
    "parallel", "pull", "load", "save", "log", "metric", "assert",
)  # fmt: skip


def step_form(value: Any) -> str | None:
    """The tag of a step's form: 'text' for a string, else the key that names it, or None."""
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

Step = Annotated[
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
    | Annotated[LogStep, Tag("log")]
    | Annotated[MetricStep, Tag("metric")]
    | Annotated[AssertStep, Tag("assert")],
    Discriminator(step_form),
]
Steps = tuple[Step, ...]

_FORM_OF: dict[type, str] = {
    OpStep: "op", CallStep: "call", RunStep: "run", NetStep: "net", LoopStep: "loop",
    WhileStep: "while", IfStep: "if", StopIfStep: "stop_if", StopStep: "stop",
    GuardStep: "guard", ParallelStep: "parallel", PullStep: "pull", LoadStep: "load",
    SaveStep: "save", LogStep: "log", MetricStep: "metric", AssertStep: "assert",
}  # fmt: skip


class SetupSpec(Model):
    """Steps to run once before and once after a scope."""

    init: Steps = Field((), description="before it")
    exit: Steps = Field((), description="runs also after a failure, with 'failed' readable")


class ReportSpec(Model):
    """Steps that run at an interval beside a body, and once more after it."""

    every: Seconds = Field(1.0, description="the time from one run to the next")
    steps: Steps = Field(description="what is done then")
    node: Maybe[Name] = Field(None, description="on a group's report: the node")


for _model in (LoopStep, WhileStep, ElifBranch, IfStep, GuardStep, ParallelStep):
    _model.model_rebuild()
