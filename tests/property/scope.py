"""What a step may do with names at its place, and what is noted of what it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tests.property.kinds import Type


@dataclass
class Touches:
    """What a task does with names."""

    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)
    counts: set[str] = field(default_factory=set)
    outputs: set[str] = field(default_factory=set)


@dataclass
class Scope:
    """What a list of steps may do with names.

    Attributes:
        names: What is surely there, and its type.
        types: The type of every name of the task, for good.
        fixed: Names that must not be written.
        words: Ints that can be read besides names.
        outputs: Outputs that can be read.
        blocks: Names of blocks around that a stop may say; None for one without a name.
        early: Per block around, the names that were there when a stop first left it.
        can_stop: Whether a step may leave the innermost block.
        nested: How deep in blocks it is.
        in_net: A net has names of its own, and knows none around it.
        is_alone: It is no branch of ``parallel``.
    """

    names: dict[str, Type]
    types: dict[str, Type]
    fixed: set[str] = field(default_factory=set)
    words: tuple[str, ...] = ("epoch",)
    outputs: Mapping[tuple[str, str], Type] = field(default_factory=dict)
    blocks: tuple[str | None, ...] = ()
    early: tuple[list[set[str]], ...] = ()
    nested: int = 0
    prefix: str = "t"
    in_net: bool = False
    is_alone: bool = True
    touches: Touches = field(default_factory=Touches)

    def inner(self, *, block: str | None = None, is_block: bool = True) -> Scope:
        """That of a list of steps inside one of these."""
        more: dict[str, Any] = {}
        if is_block:
            more = {"blocks": (*self.blocks, block), "early": (*self.early, [])}
        return replace(self, names=dict(self.names), nested=self.nested + 1, **more)


@dataclass
class MadeNet:
    """A net over the names around it: what must be there, what it counts in and binds."""

    needs: dict[str, Type]
    counts: set[str]
    binds: dict[str, Type]

    def fits(self, scope: Scope) -> bool:
        """Whether it can be used here."""
        return all(scope.names.get(blob) == kind for blob, kind in self.needs.items()) and all(
            blob not in scope.fixed
            and scope.types.get(blob, kind) == kind
            and (blob in scope.names or blob[0] == scope.prefix)
            for blob, kind in self.binds.items()
        )
