"""Make expressions and statements that carry their meaning: each has a text and a function.

Nothing of jobrun is used: what the text means is said a second time here, with numpy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

IN_PLACE: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.iadd, "-": operator.isub, "*": operator.imul, "//": operator.ifloordiv,
    "%": operator.imod, "&": operator.iand, "|": operator.ior, "^": operator.ixor,
}  # fmt: skip


class View:
    """The names that an expression sees; the interpreter gives one for each place."""

    def read(self, name: str) -> Any:
        raise LookupError(name)

    def output(self, task: str, name: str) -> Any:
        raise LookupError(f"{task}.{name}")

    def word(self, name: str) -> Any:
        raise LookupError(name)

    @property
    def rng(self) -> np.random.Generator:
        raise LookupError("rng")


@dataclass(frozen=True)
class Term:
    """An expression: its text, its function, and the names that it reads."""

    text: str
    of: Callable[[View], Any]
    reads: frozenset[str] = frozenset()
    outputs: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return self.text


def name(text: str) -> Term:
    return Term(text, lambda view: view.read(text), frozenset((text,)))


def output(task: str, text: str) -> Term:
    return Term(f"{task}.{text}", lambda view: view.output(task, text), outputs=frozenset((task,)))


def word(text: str) -> Term:
    """Make a term of ``epoch``, ``iter``, ``node.index`` …, or of a loop's pass number."""
    return Term(text, lambda view: view.word(text))


def const(text: str, value: Any) -> Term:
    return Term(text, lambda _: value)


def join(template: str, work: Callable[..., Any], *parts: Term) -> Term:
    """Make a term of a template with the parts' texts in it, and of ``work`` on their values."""
    return Term(
        template.format(*parts),
        lambda view: work(*[part.of(view) for part in parts]),
        _union(part.reads for part in parts),
        _union(part.outputs for part in parts),
    )


def lazily(template: str, work: Callable[..., Any], *parts: Term) -> Term:
    """Make a term as ``join``; ``work`` gets the view and the parts, and evaluates what it uses."""
    whole = join(template, work, *parts)
    return Term(whole.text, lambda view: work(view, *parts), whole.reads, whole.outputs)


def either(condition: Term, then: Term, otherwise: Term) -> Term:
    def work(view: View, a: Term, b: Term, c: Term) -> Any:
        return a.of(view) if b.of(view) else c.of(view)

    return lazily("({0} if {1} else {2})", work, then, condition, otherwise)


def both(lhs: Term, rhs: Term) -> Term:
    return lazily("({} and {})", lambda view, a, b: a.of(view) and b.of(view), lhs, rhs)


def one_of(lhs: Term, rhs: Term) -> Term:
    return lazily("({} or {})", lambda view, a, b: a.of(view) or b.of(view), lhs, rhs)


def draw(text: str, work: Callable[[np.random.Generator], Any]) -> Term:
    return Term(f"rng.{text}", lambda view: work(view.rng))


@dataclass(frozen=True)
class Target:
    """``name``, or ``name[index]``."""

    name: str
    index: Term | None = None

    def __str__(self) -> str:
        return self.name if self.index is None else f"{self.name}[{self.index}]"


@dataclass(frozen=True)
class Assign:
    """``targets = values``; one value for several targets is taken apart."""

    targets: tuple[Target, ...]
    values: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.targets))} = {', '.join(map(str, self.values))}"


@dataclass(frozen=True)
class Augment:
    """``target op= value``."""

    target: Target
    operator: str
    value: Term

    def __str__(self) -> str:
        return f"{self.target} {self.operator}= {self.value}"


@dataclass(frozen=True)
class Change:
    """``function(name, arguments)``: changes what the name holds."""

    function: str
    target: str
    arguments: tuple[Term, ...] = ()
    atomic: bool = False

    def __str__(self) -> str:
        return f"{self.function}({', '.join((self.target, *map(str, self.arguments)))})"


@dataclass(frozen=True)
class Delete:
    """``del name``."""

    name: str

    def __str__(self) -> str:
        return f"del {self.name}"


Statement = Assign | Augment | Change | Delete


def rendered(tree: Any) -> Any:
    """Render the tree of a spec with every expression and statement as its text."""
    if isinstance(tree, dict):
        return {key: rendered(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [rendered(value) for value in tree]
    return str(tree) if isinstance(tree, Term | Statement) else tree


def _union(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
