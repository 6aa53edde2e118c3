"""What is declared by name at the top of a spec: params, and how state is laid out on nodes."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, Tag
from pydantic_core import PydanticCustomError

from jobrun.spec.values import ByKind, Float, Maybe, Model, SingleValue, Str


class ParamSpec(Model):
    """A declared parameter, long form."""

    type: Maybe[Literal["int", "float", "bool", "text"]] = Field(
        None, description="else the default's"
    )
    default: SingleValue = Field(None, description="without one, the value must be given")
    min: Maybe[Float] = Field(None, description="the least value")
    max: Maybe[Float] = Field(None, description="the greatest value")
    choices: tuple[SingleValue, ...] = Field((), description="the only values")
    help: Str = Field("", description="what it is, shown by plan and report")
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
