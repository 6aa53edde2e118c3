"""In which order the keys of a spec are written: that of the models. Moves no text."""

from __future__ import annotations

import types
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, Tag

from jobrun.spec.models import JobSpec
from jobrun.spec.steps import step_form

# What a body is about stands before it, however the models list it.
_BODIES = ("setup", "steps")
_BEFORE_BODIES = ("as", "name", "node")
# What a task reads is said beside where it stands in the job.
_BEHIND = {"read": "needs"}
_FIRST = ("<<",)
_NOTES = "x-"
# Before the notes stands what says which file this is.
_HEAD = ("jobrun", "include", "name", "description")


@dataclass(frozen=True, slots=True)
class Kind:
    """What a place of a spec may hold; ``annotation`` is a type of the models, or None."""

    annotation: Any = None

    def model(self, keys: Sequence[str]) -> type[BaseModel] | None:
        """The model of a mapping with these keys; None where it has none."""
        found = [one for one in _members(self.annotation, "") if _is_model(one[1])]
        form = step_form(dict.fromkeys(keys))
        for tag, member in found:
            if len(found) == 1 or tag == form:
                model: type[BaseModel] = member
                return model
        return None

    def below(self, keys: Sequence[str], key: str) -> Kind:
        """What may stand under a key of such a mapping."""
        model = self.model(keys)
        if model is not None:
            for name, field in model.model_fields.items():
                if key == (field.alias or name):
                    return Kind(field.annotation)
            return Kind()
        for _, member in _members(self.annotation, ""):
            if get_origin(member) is dict:
                return Kind(get_args(member)[1])
        return Kind()

    def item(self) -> Kind:
        """What may stand in a list here."""
        for _, member in _members(self.annotation, ""):
            if get_origin(member) is tuple:
                return Kind(get_args(member)[0])
        return Kind()

    def order(self, keys: Sequence[str]) -> list[int]:
        """The places of the keys, in the order in which they are to be written.

        Keys that the model does not name keep their order, behind all others.
        """
        model = self.model(keys)
        if model is None:
            return list(range(len(keys)))
        rank = {key: number for number, key in enumerate(_canonical(model))}
        behind = len(rank)

        def place(number: int) -> tuple[int, int]:
            key = keys[number]
            if model is JobSpec and key.startswith(_NOTES):
                key = _NOTES
            return (rank.get(key, behind), number)

        return sorted(range(len(keys)), key=place)


WHOLE = Kind(JobSpec)


def _canonical(model: type[BaseModel]) -> list[str]:
    keys = [field.alias or name for name, field in model.model_fields.items()]
    if model is JobSpec:
        keys = [*_HEAD, _NOTES, *(key for key in keys if key not in _HEAD)]
        return [*_FIRST, *keys]
    for key, other in _BEHIND.items():
        if key in keys and other in keys:
            keys.remove(key)
            keys.insert(keys.index(other) + 1, key)
    if _BODIES[-1] in keys:
        at = min(keys.index(body) for body in _BODIES if body in keys)
        late = [key for key in _BEFORE_BODIES if key in keys[at:]]
        before = [key for key in keys[:at] if key not in late]
        keys = [*before, *late, *(key for key in keys[at:] if key not in late)]
    return [*_FIRST, *keys]


def _members(annotation: Any, tag: str) -> Iterator[tuple[str, Any]]:
    """The types that an annotation allows, each with its tag."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *notes = get_args(annotation)
        tags = [note.tag for note in notes if isinstance(note, Tag)]
        yield from _members(inner, tags[0] if tags else tag)
    elif origin in {Union, types.UnionType}:
        for member in get_args(annotation):
            yield from _members(member, tag)
    else:
        yield tag, annotation


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)
