"""Determine the usual order of a spec's keys: that of the fields of the models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args, get_origin

from msgspec import Struct
from pydantic import BaseModel

from jobrun.spec.models.job import JobSpec
from jobrun.spec.models.model_keys import fields_of, is_model, tagged_members
from jobrun.spec.models.step_forms import step_form

# Keys that describe a body come before it, whatever the order of the models.
_BODIES = ("setup", "steps")
_BEFORE_BODIES = ("as", "name", "node")
# ``read`` comes directly after ``needs``.
_BEHIND = {"read": "needs"}
_FIRST = ("<<",)
_NOTES = "x-"
# Keys that identify the file come before the notes.
_HEAD = ("jobrun", "include", "name", "description")


class Kind(Struct, frozen=True):
    """The kind of value that a key of a spec may hold: a type of the models, or None."""

    annotation: Any = None

    def model(self, keys: Sequence[str]) -> type[BaseModel] | None:
        """Return the model whose fields determine the order of a mapping's keys, or None."""
        models = [member for member in tagged_members(self.annotation) if is_model(member[1])]
        tag_of_step = step_form(dict.fromkeys(keys))
        for tag, member in models:
            if len(models) == 1 or tag == tag_of_step:
                model: type[BaseModel] = member
                return model
        return None

    def values(self, keys: Sequence[str]) -> list[Kind]:
        """Return the ``Kind`` of each key's value, which decides the order of keys inside it."""
        model = self.model(keys)
        if model is not None:
            kinds = {
                field.alias or name: Kind(field.annotation) for name, field in fields_of(model)
            }
            return [kinds.get(key, Kind()) for key in keys]
        for _, member in tagged_members(self.annotation):
            if get_origin(member) is dict:
                return [Kind(get_args(member)[1])] * len(keys)
        return [Kind()] * len(keys)

    def item(self) -> Kind:
        """Return the ``Kind`` of a list's items, which decides the order of keys in them."""
        for _, member in tagged_members(self.annotation):
            if get_origin(member) is tuple:
                return Kind(get_args(member)[0])
        return Kind()

    def order(self, keys: Sequence[str]) -> list[int]:
        """Return the indices that put a mapping's keys into the usual order for its kind.

        Keys that the model does not name keep their order, behind all others.
        """
        model = self.model(keys)
        if model is None:
            return list(range(len(keys)))
        rank = {key: number for number, key in enumerate(_canonical(model))}
        behind = len(rank)

        def rank_of(number: int) -> tuple[int, int]:
            key = keys[number]
            if model is JobSpec and key.startswith(_NOTES):
                key = _NOTES
            return (rank.get(key, behind), number)

        return sorted(range(len(keys)), key=rank_of)


WHOLE = Kind(JobSpec)


def _canonical(model: type[BaseModel]) -> list[str]:
    keys = [field.alias or name for name, field in fields_of(model)]
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
