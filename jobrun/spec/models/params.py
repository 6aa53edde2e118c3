"""Define the long form of a declared param as a pydantic model."""

# Without postponed annotations: pydantic would evaluate each of two hundred texts.

from typing import Literal

from pydantic import Field

from jobrun.spec.models.scalar_types import Bool, Float, Maybe, Model, SingleValue, Str


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
