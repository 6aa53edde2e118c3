"""Jobs made at random in which names share memory: parts of parts, and changes of any of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.property.expressions import Picker
from tests.support.expression_models import (
    Assign,
    Augment,
    Change,
    Delete,
    Target,
    Term,
    const,
    either,
    join,
    name,
    output,
    word,
)

Shape = tuple[int, ...]
_Form = tuple[Shape, str, Callable[..., Any]]
_FUNCTIONS = "tests.property.functions"
STATE: dict[str, Shape] = {
    "A": (4, 6), "B": (4, 6), "C": (6, 4), "D": (6,), "E": (6,), "F": (4,), "G": (2, 3),
}  # fmt: skip
# What the second task keeps of an output of the first.
KEPT: dict[str, Shape] = {"K": (6,), "L": (2, 3)}

# Shape: where a view of it comes from, how it is written, and what it is.
_VIEWS: dict[Shape, list[_Form]] = {
    (4, 6): [
        ((6, 4), "{}.T", lambda a: a.T),
        ((4, 6), "{}[::-1]", lambda a: a[::-1]),
        ((4, 6), "{}[:, ::-1]", lambda a: a[:, ::-1]),
        ((4, 6), "{}[...]", lambda a: a[...]),
        ((6, 4), "reshape({}, (4, 6))", lambda a: np.reshape(a, (4, 6))),
    ],
    (6, 4): [((4, 6), "{}.T", lambda a: a.T), ((4, 6), "transpose({})", np.transpose),
             ((6, 4), "{}[::-1, ::-1]", lambda a: a[::-1, ::-1])],
    (6,): [
        ((4, 6), "{}[0]", lambda a: a[0]),
        ((4, 6), "{}[-1]", lambda a: a[-1]),
        ((6, 4), "{}[:, 1]", lambda a: a[:, 1]),
        ((6, 4), "{}.T[2]", lambda a: a.T[2]),
        ((6,), "{}[::-1]", lambda a: a[::-1]),
        ((2, 3), "reshape({}, 6)", lambda a: np.reshape(a, 6)),
        ((2, 3), "ravel({})", np.ravel),
    ],
    (4,): [
        ((4, 6), "{}[:, 2]", lambda a: a[:, 2]),
        ((6, 4), "{}[3]", lambda a: a[3]),
        ((6,), "{}[1:5]", lambda a: a[1:5]),
        ((6,), "{}[[0, 2, 2, 5]]", lambda a: a[[0, 2, 2, 5]]),
    ],
    (2, 3): [
        ((4, 6), "{}[::2, ::2]", lambda a: a[::2, ::2]),
        ((4, 6), "{}[1:3, 1:4]", lambda a: a[1:3, 1:4]),
        ((6, 4), "{}[::3, 1:]", lambda a: a[::3, 1:]),
        ((6,), "reshape({}, (2, 3))", lambda a: np.reshape(a, (2, 3))),
        ((2, 3), "flip({})", np.flip),
    ],
}  # fmt: skip
# Shape: a part that is given other items, its index, and its shape.
_PARTS: dict[Shape, list[tuple[str, Any, Shape]]] = {
    (4, 6): [("0", 0, (6,)), (":, 1", np.s_[:, 1], (4,)), ("1:3, 2:5", np.s_[1:3, 2:5], (2, 3)),
             ("::-1", np.s_[::-1], (4, 6))],
    (6, 4): [("2", 2, (4,)), (":, 3", np.s_[:, 3], (6,)), ("::3, 1:", np.s_[::3, 1:], (2, 3))],
    (6,): [("1:5", np.s_[1:5], (4,)), ("::-1", np.s_[::-1], (6,)),
           ("[0, 2, 0, 5]", [0, 2, 0, 5], (4,))],
    (4,): [("::-1", np.s_[::-1], (4,)), ("[3, 1, 1, 0]", [3, 1, 1, 0], (4,))],
    (2, 3): [("::-1", np.s_[::-1], (2, 3)), (":, :", np.s_[:, :], (2, 3))],
}  # fmt: skip
# Shapes of operands, the text, and what it computes; sums and products see how items lie in memory.
_SUMS: dict[Shape, list[tuple[tuple[Shape, ...], str, Callable[..., Any]]]] = {
    (4,): [(((4, 6),), "mean({}, axis=1)", lambda a: np.mean(a, axis=1)),
           (((4, 6), (6,)), "0.1 * ({} @ {})", lambda a, b: 0.1 * (a @ b))],
    (6,): [(((4, 6),), "mean({}, axis=0)", lambda a: np.mean(a, axis=0)),
           (((6, 4), (4,)), "0.1 * ({} @ {})", lambda a, b: 0.1 * (a @ b)),
           (((6,),), "0.1 * cumsum({})", lambda a: 0.1 * np.cumsum(a))],
}  # fmt: skip


@dataclass
class _Names:
    """The names that are surely bound at a place, and those that this list of steps has bound."""

    known: dict[str, Shape]
    local: set[str] = field(default_factory=set)


class ViewPrograms:
    """Makes jobs.

    Args:
        pick: Where choices come from.
    """

    def __init__(self, pick: Picker) -> None:
        self._pick = pick
        self._dtype = pick.choose(("float64", "float64", "float64", "float32", "complex128"))
        self._count = 0
        self._budget = 0

    def spec(self) -> dict[str, Any]:
        """One job: a task that computes, and mostly one that takes its outputs."""
        self._budget = self._pick.upto(16, 4)
        names = _Names(dict(STATE))
        steps = self._steps(names, 3)
        work: dict[str, Any] = {"task": "work", "steps": steps}
        late = []
        if self._pick.chance(60):
            work["outputs"] = [
                {f"o{blob}": self._view(names, shape)} for blob, shape in KEPT.items()
            ]
            late.append(
                {
                    "task": "late",
                    "needs": ["work"],
                    "steps": [self._bind(blob, output("work", f"o{blob}")) for blob in KEPT],
                }
            )
        return {
            "jobrun": 1,
            "name": "views",
            "seed": self._pick.upto(999),
            "init": {"tasks": [{"task": "start", "steps": list(map(self._start, STATE | KEPT))}]},
            "epoch": {"tasks": [work, *late]},
            "stop": [{"epochs": 2}],
        }

    def _start(self, blob: str) -> Assign:
        shape = (STATE | KEPT)[blob]
        is_turned = len(shape) > 1 and self._pick.chance(30)
        size = shape[::-1] if is_turned else shape
        text = f"rng.normal(size={size if len(size) > 1 else size[0]})"
        term = Term(text, lambda view: view.rng.normal(size=size))
        if is_turned:
            # In Fortran's order.
            term = join("(1.0 * {}.T)", lambda a: 1.0 * a.T, term)
        if self._dtype == "complex128":
            term = join("({} + 1j * {})", lambda a, b: a + 1j * b, term, term)
        elif self._dtype == "float32":
            term = join("float32({})", np.float32, term)
        return self._bind(blob, term)

    def _bind(self, blob: str, value: Term) -> Assign:
        return Assign((Target(blob),), (value,))

    def _steps(self, names: _Names, depth: int) -> list[Any]:
        steps: list[Any] = []
        for _ in range(self._pick.upto(9, 2)):
            self._budget -= 1
            if self._budget > 0:
                steps += self._step(names, depth)
        return steps or [self._change(names)]

    def _step(self, names: _Names, depth: int) -> list[Any]:
        simple = [self._take, self._take, self._take, self._pair, self._renew, self._change,
                  self._change, self._put, self._put, self._compute, self._swap, self._delete,
                  self._at, self._hand_over]  # fmt: skip
        nested = [self._loop, self._while, self._if] if depth else []
        way = self._pick.choose([*simple, *nested])
        if way in nested:
            return way(names, depth - 1)
        drawn = way(names)
        return drawn if isinstance(drawn, list) else [drawn]

    def _inner(self, names: _Names) -> _Names:
        return _Names(dict(names.known))

    def _loop(self, names: _Names, depth: int) -> list[Any]:
        self._budget += 3
        steps = self._steps(self._inner(names), depth)
        if self._pick.chance(20):
            steps.insert(self._pick.upto(len(steps)), {"stop_if": self._condition(names)})
        return [{"loop": const("3", 3), "steps": steps}]

    def _while(self, names: _Names, depth: int) -> list[Any]:
        self._budget += 3
        self._count += 1
        counter = f"w{self._count}"
        steps = self._steps(self._inner(names), depth)
        steps.append(Augment(Target(counter), "-", const("1", 1)))
        begin = self._bind(counter, const("2", 2))
        return [begin, {"while": join("({} > 0)", lambda a: a > 0, name(counter)), "steps": steps}]

    def _if(self, names: _Names, depth: int) -> list[Any]:
        self._budget += 2
        step: dict[str, Any] = {
            "if": self._condition(names), "then": self._steps(self._inner(names), depth)
        }  # fmt: skip
        if self._pick.chance(50):
            step["else"] = self._steps(self._inner(names), depth)
        return [step]

    def _condition(self, names: _Names) -> Term:
        if self._dtype == "complex128" or self._pick.chance(30):
            return join("({} % 2 == 1)", lambda a: a % 2 == 1, word("epoch"))
        vector = self._pick.choose([blob for blob, shape in names.known.items() if len(shape) == 1])
        return join("({}[1] > 0)", lambda a: a[1] > 0, name(vector))

    def _fresh(self, shape: Shape) -> str:
        # Few names a shape, so that they are bound again.
        letter = "pqrst"[[(4, 6), (6, 4), (6,), (4,), (2, 3)].index(shape)]
        return f"{letter}{self._pick.upto(2)}"

    def _target(self, names: _Names, shape: Shape) -> str:
        again = [blob for blob, other in names.known.items() if other == shape]
        if again and self._pick.chance(35):
            return self._pick.choose(again)
        return self._fresh(shape)

    def _note(self, names: _Names, blob: str, shape: Shape) -> None:
        if blob not in names.known:
            names.local.add(blob)
        names.known[blob] = shape

    def _shape(self) -> Shape:
        return self._pick.choose(_VIEWS)

    def _named(self, names: _Names, shape: Shape) -> Term:
        return name(
            self._pick.choose([blob for blob, other in names.known.items() if other == shape])
        )

    def _view(self, names: _Names, shape: Shape, depth: int = 2) -> Term:
        """The name itself, or a part of something."""
        choice = self._pick.upto(5)
        if choice == 0 or not depth:
            return self._named(names, shape)
        if choice == 1:
            return either(self._condition(names), *(self._view(names, shape, 0) for _ in range(2)))
        source, text, work = self._pick.choose(_VIEWS[shape])
        return join(text, work, self._view(names, source, depth - 1 if choice == 2 else 0))

    def _value(self, names: _Names, shape: Shape) -> Term:
        """A new array, or a view."""
        choice = self._pick.upto(8)
        first, second = (self._view(names, shape) for _ in range(2))
        if choice == 0 and shape in _SUMS:
            shapes, text, work = self._pick.choose(_SUMS[shape])
            return join(
                text, work, *(self._view(names, operand_shape, 1) for operand_shape in shapes)
            )
        if choice == 1:
            other = self._view(names, self._shape())
            return join("({} + 0.01 * sum({}))", lambda a, b: a + 0.01 * np.sum(b), first, other)
        if choice == 2:
            return join("sin({})", np.sin, first)
        if choice == 3:
            return join("(0.5 * ({} * {}) / 3)", lambda a, b: 0.5 * (a * b) / 3, first, second)
        if choice == 4 and self._dtype != "complex128":
            return join(
                "where({0} > 0, {0}, {1})", lambda a, b: np.where(a > 0, a, b), first, second
            )
        if choice == 5:
            return join("zeros_like({})", np.zeros_like, first)
        if choice == 6:
            return join("abs({})", np.abs, first) if self._dtype != "complex128" else first
        if choice == 7:
            return first
        return join("(0.5 * {} - 0.25 * {})", lambda a, b: 0.5 * a - 0.25 * b, first, second)

    def _take(self, names: _Names) -> Assign:
        shape = self._shape()
        value, blob = self._view(names, shape), self._target(names, shape)
        self._note(names, blob, shape)
        return self._bind(blob, value)

    def _pair(self, names: _Names) -> Assign:
        shapes = [self._shape() for _ in range(2)]
        values = tuple(self._view(names, shape) for shape in shapes)
        blobs = [self._target(names, shape) for shape in shapes]
        if blobs[0] == blobs[1]:
            return self._bind(blobs[0], values[0])
        for blob, shape in zip(blobs, shapes, strict=True):
            self._note(names, blob, shape)
        return Assign(tuple(map(Target, blobs)), values)

    def _renew(self, names: _Names) -> Assign:
        shape = self._shape()
        value, blob = self._value(names, shape), self._target(names, shape)
        self._note(names, blob, shape)
        return self._bind(blob, value)

    def _compute(self, names: _Names) -> Assign:
        return self._bind_to_known(names, self._value)

    def _bind_to_known(self, names: _Names, make: Callable[[_Names, Shape], Term]) -> Assign:
        blob = self._pick.choose(names.known)
        if blob[0] == "w":
            blob = "A"
        return self._bind(blob, make(names, names.known[blob]))

    def _change(self, names: _Names) -> Augment:
        blob = self._pick.choose(names.known)
        shape = names.known[blob]
        sign = self._pick.choose("+-*")
        if sign == "*":
            return Augment(Target(blob), "*", const("0.75", 0.75))
        value = join("0.5 * {}", lambda a: 0.5 * a, self._value(names, shape))
        return Augment(
            Target(blob), sign, self._view(names, shape) if self._pick.chance(40) else value
        )

    def _part_of(self, names: _Names) -> tuple[Target, Shape]:
        blob = self._pick.choose(names.known)
        text, index, shape = self._pick.choose(_PARTS[names.known[blob]])
        return Target(blob, Term(text, lambda _: index)), shape

    def _put(self, names: _Names) -> Any:
        target, shape = self._part_of(names)
        choice = self._pick.upto(4)
        if choice == 0:
            return Augment(target, self._pick.choose("+-"), self._value(names, shape))
        if choice == 1:
            other, second = self._part_of(names)
            return Assign((target, other), (self._view(names, shape), self._view(names, second)))
        if choice == 2:
            blob = self._target(names, self._shape())
            if blob in names.known and blob != target.name:
                value = self._view(names, names.known[blob])
                return Assign((target, Target(blob)), (self._view(names, shape), value))
        return Assign((target,), (self._view(names, shape),))

    def _swap(self, names: _Names) -> Any:
        shape = self._shape()
        same = [blob for blob, other in names.known.items() if other == shape]
        if len(same) < 2:
            return self._change(names)
        start = self._pick.upto(len(same) - 2)
        rotated = same[start : start + self._pick.upto(3, 2)]
        return Assign(tuple(map(Target, rotated)), tuple(map(name, rotated[1:] + rotated[:1])))

    def _delete(self, names: _Names) -> Any:
        if not names.local:
            return self._take(names)
        blob = self._pick.choose(sorted(names.local))
        names.local.discard(blob)
        del names.known[blob]
        return Delete(blob)

    def _at(self, names: _Names) -> Change:
        blob = self._named(names, (6,)).text
        index = Term("[0, 2, 0, 5]", lambda _: [0, 2, 0, 5])
        return Change("add_at", blob, (index, self._view(names, (4,))))

    def _hand_over(self, names: _Names) -> Any:
        """A function that changes its argument, or makes something of it."""
        choice = self._pick.upto(2)
        if choice == 0:
            blob = self._pick.choose(
                [candidate for candidate, shape in names.known.items() if shape]
            )
            return {"call": f"{_FUNCTIONS}:grow", "with": {"x": name(blob), "by": const("1", 1)},
                    "inout": [blob]}  # fmt: skip
        if choice == 1:
            shape = self._shape()
            value, blob = self._view(names, shape), self._target(names, shape)
            self._note(names, blob, shape)
            return {"call": f"{_FUNCTIONS}:turned", "with": {"x": value}, "out": blob}
        blob = self._named(names, (6,)).text
        return {"log": f"it is {{{blob}[0]}}"}


@st.composite
def view_programs(draw: st.DrawFn) -> dict[str, Any]:
    """Specs, with expressions and statements that carry their meaning."""
    return ViewPrograms(Picker(draw)).spec()
