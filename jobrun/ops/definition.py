"""Define what declares an operator, ``OpDef``, and a method of ``rng``, ``DrawDef``."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import TypeVar

from jobrun.core.lazy_dataclass import dataclass
from jobrun.ops.arguments import Rule
from jobrun.ops.signatures import RESULTS, Signature, kind, parse_arguments, parse_signature

# ``OpDef.results`` of an operator that returns a tuple as long as its arguments say.
MANY = -1


@dataclass(frozen=True, slots=True)
class OpDef:
    """One operator, which is a function of that name in expressions.

    Attributes:
        name: As it is written in a spec.
        signature: ``(a, axis=None)``; a parameter after ``/`` may be passed by name.
        implementation: ``module:attribute`` of the function that computes it.
        doc: What it does, one line.
        example: One line that runs: statements joined by ``; ``, the last one calls it.
        shares_memory: Its result may be, or be a view of, one of its arguments.
        mutates: Positions of the arguments that it changes in place.
        atomic: It may change one argument from several threads at once.
        deterministic: Equal arguments give equal bits.
        results: How many values it returns; 0 for none, ``MANY`` where the arguments decide.
        since: The language version that first had it. Names of version 1 are reserved, a
            later one is hidden by a blob of its name.
        rule: Tells dtype and shape of the result from those of the arguments, or that no
            such call can succeed; None where that takes the values themselves.
    """

    name: str
    signature: str
    implementation: str
    doc: str
    example: str
    shares_memory: bool = False
    mutates: tuple[int, ...] = ()
    atomic: bool = False
    deterministic: bool = True
    results: int = 1
    since: int = 1
    rule: Rule | None = None

    @property
    def parameters(self) -> Signature:
        """The parsed signature of the defined operator."""
        return parse_signature(self.signature)

    @property
    def typed_signature(self) -> str:
        """The signature of the defined operator as text, with kinds of parameters."""
        given = RESULTS.get(self.name) or _RESULTS.get(self.results, "arrays")
        return f"{_typed(self.name, self.signature)} -> {given}"


@dataclass(frozen=True, slots=True)
class DrawDef:
    """One method of the random stream, written ``rng.NAME(…)``; numpy's by name and meaning.

    Attributes:
        name: As it is written behind ``rng.``.
        signature: As that of an operator.
        doc: What it draws, one line.
        example: One line that runs.
        since: The language version that first had it.
        rule: As that of an operator.
    """

    name: str
    signature: str
    doc: str
    example: str
    since: int = 1
    rule: Rule | None = None

    @property
    def parameters(self) -> Signature:
        """The parsed signature in the definition of a method of ``rng``."""
        return parse_signature(self.signature)

    @property
    def typed_signature(self) -> str:
        """The signature in the definition of a method of ``rng``, as text with kinds."""
        return f"{_typed(self.name, self.signature)} -> array"


_RESULTS = {0: "None", 1: "array", 2: "(array, array)", 3: "(array, array, array)"}
_Definition = TypeVar("_Definition", OpDef, DrawDef)


@cache
def _typed(function: str, text: str) -> str:
    arguments = parse_arguments(text)
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        one.annotation = ast.Name(kind(function, one.arg))
    return f"({ast.unparse(arguments)})"


def ruled(definitions: Iterable[_Definition], rules: Mapping[str, Rule]) -> tuple[_Definition, ...]:
    """Complete operator definitions (``OpDef``) by the type rules of their names, if any.

    Raises:
        ValueError: A rule is for none of them.
    """
    found = tuple(replace(one, rule=rules.get(one.name, one.rule)) for one in definitions)
    strays = set(rules) - {one.name for one in found}
    if strays:
        raise ValueError(f"rules for no operator: {', '.join(sorted(strays))}")
    return found


def by_name(*families: Iterable[OpDef]) -> dict[str, OpDef]:
    """Index operator definitions (``OpDef``) of families by name; refuse a name used twice.

    Raises:
        ValueError: Two have one name.
    """
    table: dict[str, OpDef] = {}
    for family in families:
        for operator in family:
            if operator.name in table:
                raise ValueError(f"two operators are named '{operator.name}'")
            table[operator.name] = operator
    return table
