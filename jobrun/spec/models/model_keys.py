"""Define and list the keys and fields of a pydantic model, with the types of their annotations."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Field
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError
from typing_extensions import TypeAliasType

from jobrun.spec.models.base_types import Deferred, Model


def fields_of(model: type[BaseModel]) -> Iterable[tuple[str, FieldInfo]]:
    """List the fields of a pydantic model with their annotations resolved."""
    # In a model that was built only as a part of another, names of later classes are still texts.
    model.model_rebuild()
    return model.model_fields.items()


def keys_of(model: type[Model]) -> tuple[str, ...]:
    """List the YAML keys of a pydantic model, in alphabetical order."""
    return tuple(sorted(field.alias or name for name, field in fields_of(model)))


def field_of(model: type[Model], key: str) -> FieldInfo | None:
    """Return the pydantic field of a model that a YAML key sets, or None."""
    for name, field in fields_of(model):
        if (field.alias or name) == key:
            return field
    return None


def is_model(annotation: Any) -> bool:
    """Return whether a key's annotation is a model (a ``Model``), which has keys of its own."""
    return isinstance(annotation, type) and issubclass(annotation, Model)


def strip_annotation(annotation: Any) -> Any:
    """Strip ``Annotated`` and an optional ``None`` from the type of a model's key."""
    while True:
        if isinstance(annotation, TypeAliasType):
            annotation = annotation.__value__
        elif get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, Deferred):
            annotation = annotation.model
        elif is_union(annotation):
            members = [item for item in get_args(annotation) if item is not type(None)]
            if len(members) != 1:
                return annotation
            annotation = members[0]
        else:
            return annotation


def is_union(annotation: Any) -> bool:
    """Return whether the annotation of a model's field is a union of several types."""
    return get_origin(annotation) in {Union, types.UnionType}


def require_one_key(model: Model, keys: tuple[str, ...]) -> None:
    """Raise a pydantic error unless exactly one of the given keys of a model is set."""
    present = [key for key in keys if key in model.model_fields_set]
    if len(present) != 1:
        context = {"given": ", ".join(present), "keys": ", ".join(sorted(keys))}
        raise PydanticCustomError("one_key", "exactly one key", context)


def no_items(description: str | None = None) -> Any:
    """Define a key of a model whose value is an empty mapping by default."""
    shown: dict[str, Any] = {"default": {}}
    return Field(default_factory=dict, description=description, json_schema_extra=shown)
