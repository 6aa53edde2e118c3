"""Define and list the keys and fields of a pydantic model, with the types of their annotations."""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Field, Tag
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
    """Return whether a key's annotation is a pydantic model, which has keys of its own."""
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def strip_annotation(annotation: Any) -> Any:
    """Return the single type that the annotation of a model's key allows, or the annotation."""
    members = [member for _, member in tagged_members(annotation) if member is not type(None)]
    return members[0] if len(members) == 1 else annotation


def tagged_members(annotation: Any, tag: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each type that a model's key may have, with its pydantic ``Tag``, or "" for none."""
    origin = get_origin(annotation)
    if isinstance(annotation, TypeAliasType):
        yield from tagged_members(annotation.__value__, tag)
    elif isinstance(annotation, Deferred):
        yield tag, annotation.model
    elif origin is Annotated:
        inner, *notes = get_args(annotation)
        tags = [note.tag for note in notes if isinstance(note, Tag)]
        yield from tagged_members(inner, tags[0] if tags else tag)
    elif origin in {Union, types.UnionType}:
        for member in get_args(annotation):
            yield from tagged_members(member, tag)
    else:
        yield tag, annotation


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
