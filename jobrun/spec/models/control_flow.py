"""Define loops, branches and other steps about blocks of steps as pydantic models."""

# Without postponed annotations: pydantic would evaluate each text.

from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import Field

from jobrun.spec.models.base_types import BlobName, Expression, Maybe, Model, Name

if TYPE_CHECKING:
    # In full in steps, which knows these models.
    Steps: TypeAlias = tuple[Any, ...]
else:
    from jobrun.spec.models.step_forms import Steps


class LoopStep(Model):
    """Repeat a number of times; the count is read again at each pass."""

    loop: Expression = Field(description="the count, or 'forever'")
    steps: Steps = Field(description="the steps to repeat")
    index: Maybe[BlobName] = Field(None, alias="as", description="name of the iteration number")
    name: Maybe[Name] = Field(None, description="a name for 'stop'")


class WhileStep(Model):
    """Repeat while a condition holds."""

    condition: Expression = Field(
        alias="while", description="a bool, evaluated before each iteration"
    )
    steps: Steps = Field(description="the steps to repeat")
    index: Maybe[BlobName] = Field(None, alias="as", description="name of the iteration number")
    name: Maybe[Name] = Field(None, description="a name for 'stop'")


class ElifBranch(Model):
    """A further branch of an 'if'."""

    condition: Expression = Field(alias="if", description="a bool")
    then: Steps = Field(description="steps if it holds")


class IfStep(Model):
    """The first branch whose condition holds."""

    condition: Expression = Field(alias="if", description="a bool")
    then: Steps = Field(description="steps if it holds")
    elifs: tuple[ElifBranch, ...] = Field((), alias="elif")
    otherwise: Steps = Field((), alias="else", description="steps if no condition holds")


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
    steps: Steps = Field(description="the block")
    name: Maybe[Name] = Field(None, description="a name for 'stop'")


class ParallelStep(Model):
    """Branches that run at the same time."""

    parallel: tuple[Steps, ...] = Field(
        min_length=1, description="the branches, each a list of steps"
    )
