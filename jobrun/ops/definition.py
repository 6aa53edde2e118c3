"""What is known of an operator before anything runs. Not what it computes; imports no numpy."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeVar

from jobrun.ops.arguments import Rule
from jobrun.ops.kinds import RESULTS, kind

# ``OpDef.results`` of an operator that returns a tuple as long as its arguments say.
MANY = -1


@dataclass(frozen=True, slots=True)
class Signature:
    """The parameters of a function, as far as a call can be checked against them.

    Attributes:
        positional: Parameters that may be given by position, in order.
        unnamed: How many of them, from the first, cannot be given by name.
        named: Parameters that are given by name only.
        required: Those without a default.
        variadic: Further arguments by position are taken.
    """

    positional: tuple[str, ...]
    unnamed: int
    named: tuple[str, ...]
    required: frozenset[str]
    variadic: bool

    @property
    def keywords(self) -> tuple[str, ...]:
        """The parameters that may be given by name."""
        return self.positional[self.unnamed :] + self.named

    def too_many(self, count: int) -> bool:
        """Whether ``count`` arguments by position are more than it takes."""
        return not self.variadic and count > len(self.positional)

    def missing(self, count: int, keywords: Iterable[str]) -> tuple[str, ...]:
        """The required parameters that such a call does not give."""
        given = {*self.positional[:count], *keywords}
        return tuple(
            name for name in (*self.positional, *self.named)
            if name in self.required and name not in given
        )  # fmt: skip

    def parameter(self, position: int) -> str:
        """The name of the parameter that takes an argument by position; empty for a further one."""
        return self.positional[position] if position < len(self.positional) else ""


@cache
def parse_signature(text: str) -> Signature:
    """Read a signature such as ``(a, axis=None, *, keepdims=False)``.

    Raises:
        SyntaxError: The text is none.
    """
    return _signature(_arguments(text))


def _arguments(text: str) -> ast.arguments:
    function = ast.parse(f"lambda {text.strip()[1:-1]}: 0", mode="eval").body
    if isinstance(function, ast.Lambda):
        return function.args
    raise SyntaxError(text)


def _signature(arguments: ast.arguments) -> Signature:
    positional = [arg.arg for arg in (*arguments.posonlyargs, *arguments.args)]
    named = [arg.arg for arg in arguments.kwonlyargs]
    required = set(positional[: len(positional) - len(arguments.defaults)])
    pairs = zip(named, arguments.kw_defaults, strict=True)
    required |= {name for name, default in pairs if default is None}
    return Signature(
        tuple(positional),
        len(arguments.posonlyargs),
        tuple(named),
        frozenset(required),
        arguments.vararg is not None,
    )


@dataclass(frozen=True, slots=True)
class OpDef:
    """One operator, which is also the function of that name in expressions.

    Attributes:
        name: As it is written in a spec.
        signature: ``(a, axis=None)``; what stands behind ``/`` may be given by name.
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
        """The signature, read."""
        return parse_signature(self.signature)

    @property
    def typed_signature(self) -> str:
        """The signature with the kind of each parameter and of the result."""
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
        """The signature, read."""
        return parse_signature(self.signature)

    @property
    def typed_signature(self) -> str:
        """The signature with the kind of each parameter and of the result."""
        return f"{_typed(self.name, self.signature)} -> array"


_RESULTS = {0: "None", 1: "array", 2: "(array, array)", 3: "(array, array, array)"}
_Definition = TypeVar("_Definition", OpDef, DrawDef)


@cache
def _typed(function: str, text: str) -> str:
    arguments = _arguments(text)
    for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
        one.annotation = ast.Name(kind(function, one.arg))
    return f"({ast.unparse(arguments)})"


def ruled(definitions: Iterable[_Definition], rules: Mapping[str, Rule]) -> tuple[_Definition, ...]:
    """The definitions, each with the rule of its name, if there is one.

    Raises:
        ValueError: A rule is for none of them.
    """
    found = tuple(replace(one, rule=rules.get(one.name, one.rule)) for one in definitions)
    strays = set(rules) - {one.name for one in found}
    if strays:
        raise ValueError(f"rules for no operator: {', '.join(sorted(strays))}")
    return found


def by_name(*families: Iterable[OpDef]) -> dict[str, OpDef]:
    """The operators of all families by their names.

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
