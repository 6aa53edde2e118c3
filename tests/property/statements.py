"""Steps without steps inside, made at random: assignments of every kind, operators, calls."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tests.property.expressions import Expressions, Picker
from tests.property.kinds import COUNTER, DTYPES, INT, Type
from tests.property.scope import Scope
from tests.property.views import SELVES
from tests.support.expression_models import (
    Assign,
    Augment,
    Change,
    Delete,
    Target,
    Term,
    either,
    join,
    name,
    output,
)

_FUNCTIONS = "tests.property.functions"
_VECTOR = Type("array", "float64", (3,))


class Statements:
    """Makes simple steps.

    Args:
        pick: Where choices come from.
    """

    def __init__(self, pick: Picker) -> None:
        self._pick = pick
        self._count = 0
        self._budget = 0
        # Every name that the task knows or has bound so far.
        self._bound: set[str] = set()

    def begin(self, known: Iterable[str]) -> None:
        """Begin a further task, which knows these names: names and steps are counted from zero."""
        self._count = 0
        self._budget = 40
        self._bound = set(known)

    def expressions(self, scope: Scope) -> Expressions:
        return Expressions(self._pick, scope.names, scope.words, scope.outputs)

    def expression(self, scope: Scope, kind: Type, depth: int = 2) -> Term:
        return self._noted(scope, self.expressions(scope).of(kind, depth))

    def _noted(self, scope: Scope, term: Term) -> Term:
        scope.touches.reads |= term.reads
        scope.touches.outputs |= term.outputs
        return term

    def _condition(self, scope: Scope) -> Term:
        return self._noted(scope, self.expressions(scope).condition())

    def _fresh(self, scope: Scope, prefix: str = "") -> str:
        while True:
            self._count += 1
            blob = f"{prefix or scope.prefix}{self._count}"
            # Branches do not know each other's names.
            if blob not in scope.types and blob not in self._bound:
                return blob

    def _writable(self, scope: Scope, suits: Callable[[Type], bool] = lambda _: True) -> list[str]:
        return [
            blob for blob, kind in scope.names.items() if blob not in scope.fixed and suits(kind)
        ]

    def _arrays(self, scope: Scope) -> list[str]:
        return self._writable(scope, lambda kind: kind.kind == "array")

    def _bind(self, scope: Scope, blob: str, kind: Type) -> None:
        scope.names[blob] = scope.types[blob] = kind
        scope.touches.writes.add(blob)
        self._bound.add(blob)

    def _target(self, scope: Scope, *, new: int = 40) -> tuple[str, Type]:
        """A name to bind, and what it must become."""
        again = [
            candidate for candidate in self._writable(scope) if scope.names[candidate] != COUNTER
        ]
        # A name that other ways through the steps have made has its type already.
        again += [
            candidate
            for candidate in scope.types
            if candidate not in scope.names and candidate[0] == scope.prefix
        ]
        again = [candidate for candidate in again if candidate not in scope.fixed]
        if again and not self._pick.chance(new):
            blob = self._pick.choose(again)
            return blob, scope.types[blob]
        return self._fresh(scope), self._pick.a_type()

    def _assign(self, scope: Scope, _: set[str] | None) -> Any:
        blob, kind = self._target(scope)
        value = self.expression(scope, kind)
        self._bind(scope, blob, kind)
        return Assign((Target(blob),), (value,))

    def _alias(self, scope: Scope, local_names: set[str]) -> Any:
        """``b = a``, and mostly a change of one of them right behind it."""
        if scope.outputs and self._pick.chance(20):
            return self._taken(scope)
        # A counter that others count in too can only be counted in.
        sources = [
            candidate
            for candidate, kind in scope.names.items()
            if kind.kind == "array" or (kind == COUNTER and candidate not in scope.fixed)
        ]
        if not sources:
            return self._assign(scope, local_names)
        source = self._pick.choose(sources)
        kind = scope.names[source]
        others = [
            candidate for candidate in self._writable(scope, kind.__eq__) if candidate != source
        ]
        blob = self._pick.choose(others) if others and self._pick.chance(50) else self._fresh(scope)
        scope.touches.reads.add(source)
        value = self._seen_as(scope, source, kind)
        self._bind(scope, blob, kind)
        steps: list[Any] = [Assign((Target(blob),), (value,))]
        if kind.kind == "array" and self._pick.chance(70):
            changed = self._pick.choose(
                [candidate for candidate in (blob, source) if candidate not in scope.fixed]
            )
            steps.append(self._augmented(scope, changed))
        return steps

    def _taken(self, scope: Scope) -> Any:
        """``b = task.output``, and a change of it."""
        (task, blob), kind = self._pick.choose(scope.outputs.items())
        whole = output(task, blob)
        if kind.kind == "list":
            whole = join("{}[1]", lambda a: a[1], whole)
        kind = Type("array" if kind.shape else "numpy", kind.dtype, kind.shape)
        same = self._writable(scope, kind.__eq__)
        target = self._pick.choose([self._fresh(scope), *same])
        self._noted(scope, whole)
        self._bind(scope, target, kind)
        return [Assign((Target(target),), (whole,)), self._augmented(scope, target)]

    def _seen_as(self, scope: Scope, source: str, kind: Type) -> Term:
        """The blob itself, or something of its type that shares its memory."""
        whole = name(source)
        forms = SELVES if kind.kind == "array" else ()
        if kind.dtype.startswith("complex"):
            forms = [form_and_work for form_and_work in forms if "real" not in form_and_work[0]]
        choice = self._pick.upto(2 + len(forms))
        if choice < 2:
            return whole
        if choice == 2:
            others = [blob for blob, other in scope.names.items() if other == kind]
            other = self._pick.choose(
                [blob for blob in others if blob not in scope.fixed] or [source]
            )
            scope.touches.reads.add(other)
            condition = self._noted(scope, self.expressions(scope).condition())
            first, second = self._pick.choose(((source, other), (other, source)))
            return either(condition, name(first), name(second))
        text, work = forms[choice - 3]
        return join(text, work, whole)

    def _temporary(self, scope: Scope, local_names: set[str]) -> Any:
        """``t = expression; b = t``, after which ``t`` is never used, or used once more."""
        blob, kind = self._target(scope)
        if kind.kind != "array":
            return self._assign(scope, local_names)
        passing = self._fresh(scope)
        steps: list[Any] = [Assign((Target(passing),), (self.expression(scope, kind),))]
        self._bind(scope, passing, kind)
        if self._pick.chance(40):
            steps.append(self._augmented(scope, passing))
        steps.append(Assign((Target(blob),), (name(passing),)))
        self._bind(scope, blob, kind)
        if self._pick.chance(50):
            steps.append(self._augmented(scope, self._pick.choose((blob, passing))))
            last = self._pick.choose((blob, passing))
            other = self._fresh(scope)
            steps.append(Assign((Target(other),), (name(last),)))
            self._bind(scope, other, kind)
        del scope.names[passing], scope.types[passing]
        return steps

    def _augment(self, scope: Scope, local_names: set[str]) -> Any:
        suits = ("array", "numpy", "int", "float")
        names = self._writable(scope, lambda kind: kind.kind in suits)
        if not names:
            return self._assign(scope, local_names)
        return self._augmented(scope, self._pick.choose(names))

    def _augmented(self, scope: Scope, blob: str) -> Any:
        kind = scope.names[blob]
        scope.touches.reads.add(blob)
        scope.touches.writes.add(blob)
        if kind.kind in {"int", "float"}:
            divisor = 3 if kind.kind == "int" else 2.5
            return Augment(Target(blob), "%", Term(str(divisor), lambda _: divisor))
        return Augment(Target(blob), *self._change_of(scope, kind))

    def _change_of(self, scope: Scope, kind: Type) -> tuple[str, Term]:
        """An operator and a value with which an array may be changed in place."""
        if kind.dtype == "bool":
            return self._pick.choose("&|^"), self.expression(scope, kind, 1)
        if kind.dtype.startswith("complex") or self._pick.chance(30):
            sign = self._pick.choose("+-")
            return sign, self._noted(scope, self.expressions(scope).of(INT, 1))
        if self._pick.chance(30):
            return "%", Term("3", lambda _: 3)
        whole = self.expression(scope, kind, 1)
        return self._pick.choose("+-"), join("clip({}, 0, 3)", _clipped, whole)

    def _item(self, scope: Scope, local_names: set[str]) -> Any:
        names = self._arrays(scope)
        if not names:
            return self._assign(scope, local_names)
        target, kind = self._place(scope, self._pick.choose(names))
        value = self.expression(scope, kind, 1)
        return Assign((target,), (value,))

    def _item_augment(self, scope: Scope, local_names: set[str]) -> Any:
        names = self._arrays(scope)
        if not names:
            return self._assign(scope, local_names)
        target, kind = self._place(scope, self._pick.choose(names))
        return Augment(target, *self._change_of(scope, kind))

    def _place(self, scope: Scope, blob: str) -> tuple[Target, Type]:
        """A part of an array, and what fits into it."""
        kind = scope.names[blob]
        scope.touches.reads.add(blob)
        scope.touches.writes.add(blob)
        text, index, shape = self._pick.choose(_PARTS[kind.shape])
        part = Type("array", kind.dtype, shape) if shape else Type("numpy", kind.dtype)
        return Target(blob, Term(text, lambda _: index)), part

    def _swap(self, scope: Scope, local_names: set[str]) -> Any:
        """``a, b = b, a`` of names of one type, or of three."""
        names = self._arrays(scope)
        for first in names:
            same = [
                candidate for candidate in names if scope.names[candidate] == scope.names[first]
            ]
            if len(same) > 1:
                rotated = same[: self._pick.upto(3, 2)]
                scope.touches.reads |= set(rotated)
                scope.touches.writes |= set(rotated)
                turned = rotated[1:] + rotated[:1]
                return Assign(tuple(map(Target, rotated)), tuple(map(name, turned)))
        return self._assign(scope, local_names)

    def _unpack(self, scope: Scope, local_names: set[str]) -> Any:
        """``a, b = e, f``, or the rows of an array."""
        if self._pick.chance(50):
            rows = Type("array", self._pick.choose(DTYPES), (2, 3))
            value = self.expression(scope, rows, 1)
            names = [self._fresh(scope) for _ in range(2)]
            for candidate in names:
                self._bind(scope, candidate, Type("array", rows.dtype, (3,)))
            return Assign(tuple(map(Target, names)), (value,))
        targets, values = [], []
        for _ in range(2):
            blob, kind = self._target(scope)
            if blob not in targets:
                values.append((blob, kind, self.expression(scope, kind, 1)))
                targets.append(blob)
        for blob, kind, _ in values:
            self._bind(scope, blob, kind)
        return Assign(tuple(map(Target, targets)), tuple(value for _, _, value in values))

    def _delete(self, scope: Scope, local_names: set[str] | None) -> Any:
        mine = [
            candidate
            for candidate in sorted(local_names or ())
            if candidate in scope.names and candidate[0] == scope.prefix
        ]
        if not mine:
            return [self._assign(scope, local_names)]
        blob = self._pick.choose(mine)
        del scope.names[blob]
        scope.touches.reads.add(blob)
        scope.touches.writes.add(blob)
        return [Delete(blob)]

    def _change(self, scope: Scope, local_names: set[str]) -> Any:
        """An operator that changes its argument."""
        counters = [candidate for candidate, kind in scope.names.items() if kind == COUNTER]
        if counters and self._pick.chance(60):
            blob = self._pick.choose(counters)
            scope.touches.counts.add(blob)
            if self._pick.chance(50):
                return Change("count_up", blob, atomic=True)
            return Change("atomic_add", blob, (self.expression(scope, INT, 1),), atomic=True)
        vectors = self._writable(
            scope,
            lambda kind: (
                kind.kind == "array"
                and kind.shape == (3,)
                and kind.dtype in {"float64", "int64", "float32"}
            ),
        )
        if not vectors:
            return self._assign(scope, local_names)
        blob = self._pick.choose(vectors)
        scope.touches.reads.add(blob)
        scope.touches.writes.add(blob)
        index = Term("[0, 2, 0]", lambda _: [0, 2, 0])
        return Change("add_at", blob, (index, self.expression(scope, INT, 1)))

    def _long_form(self, scope: Scope, _: set[str]) -> Any:
        operator = self._pick.choose(("maximum", "add", "ravel", "transpose"))
        dtype = self._pick.choose(("float64", "int64", "int8"))
        if operator in {"maximum", "add"}:
            shape = self._pick.choose(((3,), (2, 3)))
            kind = Type("array", dtype, shape)
            arguments = [self.expression(scope, kind, 1), self.expression(scope, kind, 0)]
        else:
            kind = Type("array", dtype, (2, 3))
            arguments = [self.expression(scope, kind, 1)]
            kind = Type("array", dtype, (6,) if operator == "ravel" else (3, 2))
        if operator == "add":
            arguments = [join("clip({}, 0, 4)", _clipped_to_4, argument) for argument in arguments]
        out = self._fresh(scope)
        self._bind(scope, out, kind)
        return {"op": operator, "in": arguments, "out": out}

    def _observe(self, scope: Scope, local_names: set[str]) -> Any:
        """A step that looks at names, outside of the generated code."""
        names = [candidate for candidate, kind in scope.names.items() if kind.is_scalar]
        if not names:
            return self._assign(scope, local_names)
        blob = self._pick.choose(names)
        scope.touches.reads.add(blob)
        choice = self._pick.upto(2)
        if choice == 0:
            return {"log": f"it is {{{blob}}}"}
        if choice == 1 and not scope.names[blob].dtype.startswith("complex"):
            return {"metric": {"seen": name(blob)}}
        return {"assert": join("({0} == {0})", lambda a: a == a, name(blob)), "message": "odd"}

    def _call(self, scope: Scope, local_names: set[str]) -> Any:
        """A Python function, of which some change their argument."""
        vectors = self._writable(scope, lambda kind: kind == _VECTOR)
        if vectors and self._pick.chance(50):
            blob = self._pick.choose(vectors)
            scope.touches.reads.add(blob)
            scope.touches.writes.add(blob)
            amount = self.expression(scope, INT, 1)
            return {"call": f"{_FUNCTIONS}:grow", "with": {"x": name(blob), "by": amount},
                    "inout": [blob]}  # fmt: skip
        value = self.expression(scope, _VECTOR, 1)
        out = self._pick.choose([*vectors, self._fresh(scope)])
        self._bind(scope, out, _VECTOR)
        return {"call": f"{_FUNCTIONS}:turned", "with": {"x": value}, "out": out}


def _clipped(value: Any) -> Any:
    return value.clip(0, 3)


def _clipped_to_4(value: Any) -> Any:
    return value.clip(0, 4)


# Shape -> how a part is written, its index, and its shape.
_PARTS: dict[tuple[int, ...], list[tuple[str, Any, tuple[int, ...]]]] = {
    (3,): [("0", 0, ()), ("-1", -1, ()), ("::-1", slice(None, None, -1), (3,)),
           ("...", ..., (3,)), ("[0, 2, 0]", [0, 2, 0], (3,))],
    (2, 3): [("0", 0, (3,)), ("1, 2", (1, 2), ()), ("[1, 1]", [1, 1], (2, 3)),
             (":, ::-1", (slice(None), slice(None, None, -1)), (2, 3))],
    (3, 2): [("1, 0", (1, 0), ()), (":, 1", (slice(None), 1), (3,)), ("1:", slice(1, None), ())],
    (6,): [(":3", slice(None, 3), (3,)), ("::2", slice(None, None, 2), (3,)), ("4", 4, ())],
    (): [("...", ..., ())],
}  # fmt: skip
