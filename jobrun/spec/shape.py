"""Follows the location of a validation error through the models, to the keys of the YAML.

A location has segments that are in no file (the tag of a union's member, a mark for "the
key, not its value"). The models' types say which ones those are.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import Tag
from pydantic.fields import FieldInfo

from jobrun.spec.nodes import Path
from jobrun.spec.values import Model

_KEY_MARK = "[key]"


@dataclass(frozen=True, slots=True)
class Located:
    """Where an error is.

    Attributes:
        path: The way there, in the keys of the YAML.
        is_key: The error is about the last key, not its value.
        model: The model whose key ends the path, or None.
    """

    path: Path
    is_key: bool
    model: type[Model] | None


def locate(root: type[Model], location: tuple[str | int, ...]) -> Located:
    """Translate an error's location.

    Args:
        root: The model that was validated.
        location: The error's ``loc``.
    """
    path: list[str | int] = []
    holder: type[Model] | None = None
    annotation: Any = root
    for segment in location:
        if segment == _KEY_MARK:
            return Located(tuple(path), True, None)
        annotation = _bare(annotation)
        members = dict(_tagged(annotation))
        if members:
            annotation = members.get(str(segment), Any)
        else:
            holder = annotation if _is_model(annotation) else None
            path.append(segment)
            annotation = _below(annotation, segment)
    return Located(tuple(path), False, holder)


def keys_of(model: type[Model]) -> tuple[str, ...]:
    """The keys that a mapping of this model may have, as written, in order."""
    return tuple(sorted(field.alias or name for name, field in model.model_fields.items()))


def field_of(model: type[Model], key: str) -> FieldInfo | None:
    """The field behind a key as written."""
    for name, field in model.model_fields.items():
        if (field.alias or name) == key:
            return field
    return None


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Model)


def _bare(annotation: Any) -> Any:
    """Without metadata, and without the None of a key that may be left out."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif _is_union(annotation):
            members = [item for item in get_args(annotation) if item is not type(None)]
            if len(members) != 1:
                return annotation
            annotation = members[0]
        else:
            return annotation


def _is_union(annotation: Any) -> bool:
    return get_origin(annotation) in {Union, types.UnionType}


def _tagged(annotation: Any) -> Iterator[tuple[str, Any]]:
    if not _is_union(annotation):
        return
    for member in get_args(annotation):
        for item in get_args(member)[1:] if get_origin(member) is Annotated else ():
            if isinstance(item, Tag):
                yield item.tag, member


def _below(annotation: Any, segment: str | int) -> Any:
    origin = get_origin(annotation)
    if origin in {tuple, dict}:
        return get_args(annotation)[0 if origin is tuple else 1]
    if _is_model(annotation):
        field = field_of(annotation, str(segment))
        return field.annotation if field is not None else Any
    return Any
