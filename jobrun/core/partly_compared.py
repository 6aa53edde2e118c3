"""Compare records by some of their fields, and not by where they are written in a spec."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import Any, ClassVar

from msgspec import Struct


class PartlyCompared(Struct, frozen=True):
    """A record of which some fields count neither for equality nor for the hash.

    Attributes:
        uncompared: The names of these fields.
    """

    uncompared: ClassVar[tuple[str, ...]] = ("at", "origin")

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        key = _key_of(type(self))
        return bool(key(self) == key(other))

    def __hash__(self) -> int:
        return hash(_key_of(type(self))(self))


@cache
def _key_of(kind: type[PartlyCompared]) -> attrgetter[Any]:
    return attrgetter(*(name for name in kind.__struct_fields__ if name not in kind.uncompared))
