"""Expressions of a wanted type, made at random of names whose types are known.

The type of anything is found by working it out on samples, so whatever is made is valid;
numbers are kept small, so that no step overflows, divides by zero or rounds in two ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.property.kinds import (
    BOOL,
    DTYPES,
    FLOAT,
    INT,
    SHAPES,
    TEXT,
    Samples,
    Type,
    typed,
)
from tests.property.views import VIEWS
from tests.support.expression_models import (
    Term,
    both,
    const,
    draw,
    either,
    join,
    name,
    one_of,
    output,
    word,
)
from tests.support.reference import Count

_FLOATS = ("0.5", "1.5", "-2.0", "0.25", "3.0")


@dataclass
class Picker:
    """Choices, which hypothesis can make smaller."""

    draw: st.DrawFn

    def choose(self, options: Iterable[Any]) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def upto(self, most: int, least: int = 0) -> int:
        return self.draw(st.integers(least, most))

    def chance(self, percent: int) -> bool:
        return self.draw(st.integers(0, 99)) >= 100 - percent

    def some(self, options: Iterable[Any], percent: int) -> list[Any]:
        return [option for option in options if self.chance(percent)]

    def a_type(self) -> Type:
        choice = self.upto(9)
        if choice < 2:
            return (INT, FLOAT)[choice]
        if choice == 2:
            return BOOL
        if choice == 3:
            return Type("numpy", self.choose(DTYPES))
        return Type("array", self.choose(DTYPES), self.choose(SHAPES))


class Expressions:
    """Makes expressions over names and outputs.

    Args:
        pick: Where choices come from.
        names: What can be read, and its type.
        words: Ints that are always there: ``epoch``, pass numbers …
        outputs: Outputs that can be read.
    """

    def __init__(
        self,
        pick: Picker,
        names: Mapping[str, Type],
        words: Iterable[str],
        outputs: Mapping[tuple[str, str], Type],
    ) -> None:
        self._pick = pick
        self._names = names
        self._words = tuple(words)
        self._outputs = outputs
        self._samples = Samples(names, outputs)

    def of(self, wanted: Type, depth: int = 2) -> Term:
        """An expression that gives exactly this type."""
        same = [blob for blob, kind in self._names.items() if kind == wanted]
        if same and self._pick.chance(30):
            return name(self._pick.choose(same))
        match wanted.kind:
            case "int":
                return self._int(depth)
            case "float":
                return self._float(depth)
            case "bool":
                return self._bool(depth)
            case "text":
                options = [const(f"'{text}'", text) for text in ("no", "1e-4", "x y")]
                return either(
                    self.condition(), self._pick.choose(options), self._pick.choose(options)
                )
            case "counter":
                start = self._pick.upto(3)
                return join("counter({})", Count, const(str(start), start))
            case "grow":
                parts = [self.of(Type("array", "float64", (3,)), 0) for _ in range(2)]
                return join("concatenate([{}, {}])", lambda a, b: np.concatenate([a, b]), *parts)
            case "numpy":
                return self._as(wanted, self._scalar(depth))
        return self._as(wanted, self._array(wanted, depth))

    def condition(self) -> Term:
        """One bool: Python's, numpy's, or an array of one."""
        names = [
            blob for blob, kind in self._names.items() if kind.dtype == "bool" and not kind.shape
        ]
        choice = self._pick.upto(5)
        if choice == 0 and names:
            return name(self._pick.choose(names))
        if choice == 1:
            vector = self.any_of(lambda kind: kind.kind == "array" and kind.dtype[0] in "fiu")
            if vector is not None:
                return join("(max({}) > 1)", lambda a: np.max(a) > 1, vector)
        if choice == 2:
            return join("(not {})", lambda a: not a, self._bool(1))
        return self._bool(1)

    def any_of(self, suits: Callable[[Type], bool]) -> Term | None:
        """A name whose type suits."""
        names = [blob for blob, kind in self._names.items() if suits(kind)]
        return name(self._pick.choose(names)) if names else None

    def _word(self) -> Term:
        return join("({} % 5)", lambda a: a % 5, word(self._pick.choose(self._words)))

    def _int(self, depth: int) -> Term:
        """A Python int in 0 … 4."""
        choice = self._pick.upto(6) if depth else self._pick.upto(1)
        if choice == 1:
            return self._word()
        if choice in (2, 3):
            sign = self._pick.choose("+-*")
            parts = [self.of(INT, depth - 1) for _ in range(2)]
            work = {
                "+": lambda a, b: (a + b) % 5,
                "-": lambda a, b: (a - b) % 5,
                "*": lambda a, b: (a * b) % 5,
            }[sign]
            return join(f"(({{}} {sign} {{}}) % 5)", work, *parts)
        if choice == 4:
            whole = self.any_of(lambda kind: kind.kind == "array" and kind.dtype[:3] in "int uint")
            if whole is not None:
                return join("(int(max({})) % 5)", lambda a: int(np.max(a)) % 5, whole)
        if choice == 5:
            long = self.any_of(lambda kind: kind.kind == "grow")
            if long is not None:
                return join("({}.size % 5)", lambda a: a.size % 5, long)
        if choice == 6:
            return either(self._bool(depth - 1), self.of(INT, 0), self.of(INT, 0))
        value = self._pick.upto(4)
        return const(str(value), value)

    def _float(self, depth: int) -> Term:
        choice = self._pick.upto(4) if depth else 0
        if choice == 1:
            sign = self._pick.choose("+-*")
            parts = [self.of(FLOAT, depth - 1) for _ in range(2)]
            work = {
                "+": lambda a, b: (a + b) % 7.5,
                "-": lambda a, b: (a - b) % 7.5,
                "*": lambda a, b: (a * b) % 7.5,
            }[sign]
            return join(f"(({{}} {sign} {{}}) % 7.5)", work, *parts)
        if choice == 2:
            return join("({} * 0.5)", lambda a: a * 0.5, self.of(INT, 0))
        if choice == 3:
            real = self._pick.choose(("float64", "float32", "int8"))
            return join("float({})", float, self.of(Type("numpy", real), depth - 1))
        text = self._pick.choose(_FLOATS)
        return const(text, float(text)) if text[0] != "-" else const(f"({text})", float(text))

    def _bool(self, depth: int) -> Term:
        choice = self._pick.upto(4) if depth else self._pick.upto(1)
        if choice == 1:
            sides = [self.of(INT, 0) for _ in range(2)]
            return join("({} < {})", lambda a, b: a < b, *sides)
        if choice == 2:
            return both(self.of(BOOL, 0), self.of(BOOL, 0))
        if choice == 3:
            return one_of(self.of(BOOL, 0), self.of(BOOL, 0))
        if choice == 4:
            text = self.any_of(lambda kind: kind == TEXT)
            if text is not None:
                return join("({} == 'no')", lambda a: a == "no", text)
        value = self._pick.chance(50)
        return const(str(value), value)

    def _scalar(self, depth: int) -> Term:
        """A scalar of any kind."""
        array = self.any_of(lambda kind: kind.kind == "array" and kind.shape != ())
        choice = self._pick.upto(4) if depth else 0
        if choice == 1 and array is not None:
            shape = self._names[array.text].shape
            where = tuple(self._pick.upto(length - 1) for length in shape)
            return join(f"{{}}[{', '.join(map(str, where))}]", lambda a: a[where], array)
        if choice == 2 and array is not None:
            return join("max({})", np.max, array)
        if choice == 3:
            return self._draw(())
        if choice == 4:
            return self._binary((), depth)
        named = self.any_of(lambda kind: kind.is_scalar)
        return named if named is not None and self._pick.chance(70) else self.of(INT, 0)

    def _array(self, wanted: Type, depth: int) -> Term:
        """Something of the shape, or that can be brought to it."""
        shape = wanted.shape
        choice = self._pick.upto(8) if depth else self._pick.upto(3)
        if choice in (1, 2):
            same_shape = self.any_of(lambda kind: kind.kind == "array" and kind.shape == shape)
            if same_shape is not None:
                return same_shape
        if choice == 3:
            return self._draw(shape)
        if choice in (4, 5, 6):
            view = self._view(shape, depth)
            if view is not None:
                return view
        if choice == 7:
            return self._binary(shape, depth)
        if choice == 8:
            kind = Type("array", wanted.dtype, shape)
            parts = [self.of(kind, depth - 1) for _ in range(2)]
            if self._pick.chance(50):
                return either(self.condition(), *parts)
            return join("where({}, {}, {})", np.where, self.condition(), *parts)
        return self._new(wanted)

    def _new(self, wanted: Type) -> Term:
        shape, dtype = wanted.shape, wanted.dtype
        choice = self._pick.upto(3)
        lists = [
            (task_and_output, kind)
            for task_and_output, kind in self._outputs.items()
            if kind.kind in {"list", "array", "numpy"} and kind.shape in ((), shape, shape[-1:])
        ]
        if choice and lists:
            (task, output_name), kind = self._pick.choose(lists)
            term = output(task, output_name)
            if kind.kind != "list":
                return term
            if choice == 1:
                return join("stack({})[0]", lambda a: np.stack(a)[0], term)
            return join("{}[1]", lambda a: a[1], term)
        fill = self._pick.upto(3)
        text = f"full({_shown(shape)}, {fill}, {'bool_' if dtype == 'bool' else dtype})"
        return Term(text, lambda _: np.full(shape, fill, dtype))

    def _draw(self, shape: tuple[int, ...]) -> Term:
        choice = self._pick.upto(2)
        size = f"size={_shown(shape)}" if shape else ""
        size_or_none = shape or None
        if choice == 0:
            return draw(f"random({size})", lambda rng: rng.random(size=size_or_none))
        more = f", {size}" if size else ""
        if choice == 1:
            return draw(f"integers(0, 5{more})", lambda rng: rng.integers(0, 5, size=size_or_none))
        return draw(f"choice(4{more})", lambda rng: rng.choice(4, size=size_or_none))

    def _binary(self, shape: tuple[int, ...], depth: int) -> Term:
        """Two things of one dtype, or a thing and a Python number; complex ones grow slowly."""
        dtype = self._pick.choose(DTYPES)
        kind = Type("array", dtype, shape) if shape else Type("numpy", dtype)
        first = self.of(kind, depth - 1)
        if dtype == "bool":
            signs = {"&": np.bitwise_and, "|": np.bitwise_or, "^": np.bitwise_xor}
            sign = self._pick.choose(signs)
            return join(f"({{}} {sign} {{}})", signs[sign], first, self.of(kind, depth - 1))
        if dtype.startswith("complex"):
            return join("(-{} + 1)", lambda a: -a + 1, first)
        choice = self._pick.upto(4)
        if choice == 0:
            return join("(clip({}, 0, 4) // 2)", lambda a: np.clip(a, 0, 4) // 2, first)
        second = self.of(kind if self._pick.chance(50) else INT, depth - 1)
        if choice == 1:
            return join("maximum({}, {})", np.maximum, first, second)
        if choice == 2:
            return join("({} < {})", lambda a, b: a < b, first, second)
        sign, work = (
            ("+", lambda a, b: np.clip(a + b, 0, 9)),
            ("*", lambda a, b: np.clip(a * b, 0, 9)),
        )[choice - 3]
        return join(f"clip({{}} {sign} {{}}, 0, 9)", work, first, second)

    def _view(self, shape: tuple[int, ...], depth: int) -> Term | None:
        """Part of another array, or its items in another shape: a view, as a rule."""
        ways = VIEWS.get(shape)
        if ways is None:
            return None
        source, choice, work = self._pick.choose(ways)
        source_term = self.any_of(lambda kind: kind.kind == "array" and kind.shape == source)
        if source_term is None or self._pick.chance(20):
            source_term = self.of(Type("array", self._pick.choose(DTYPES), source), depth - 1)
        return join(choice, work, *[source_term] * choice.count("{}"))

    def _as(self, wanted: Type, term: Term) -> Term:
        """The term, brought to the wanted type where it has another."""
        for _ in range(4):
            actual = typed(self.sample_of(term))
            if actual == wanted:
                return term
            term = _nearer(actual, wanted, term)
        raise AssertionError(f"{term} does not become {wanted}")

    def sample_of(self, term: Term) -> Any:
        with np.errstate(all="ignore"):
            return term.of(self._samples)


def _nearer(actual: Type, wanted: Type, term: Term) -> Term:
    """One step from one type towards another; numbers are cut to what every dtype can hold."""
    if wanted.kind == "array" and actual.shape != wanted.shape:
        shape = wanted.shape
        return join(
            f"broadcast_to({{}}, {_shown(shape)})", lambda a: np.broadcast_to(a, shape), term
        )
    dtype = "bool_" if wanted.dtype == "bool" else wanted.dtype
    if actual.dtype != wanted.dtype:
        if actual.dtype.startswith("complex"):
            if not wanted.dtype.startswith("complex"):
                return join("real({})", np.real, term)
            return join(f"{dtype}({{}})", lambda a: _cast(a, wanted.dtype), term)
        if actual.dtype.startswith("float") and wanted.dtype[:3] in "int uint":
            return join(
                f"{dtype}(clip({{}}, 0, 9))", lambda a: _cast(np.clip(a, 0, 9), wanted.dtype), term
            )
        return join(f"{dtype}({{}})", lambda a: _cast(a, wanted.dtype), term)
    if wanted.kind == "array":
        shape = wanted.shape
        return join(
            f"broadcast_to({{}}, {_shown(shape)})", lambda a: np.broadcast_to(a, shape), term
        )
    return join("max({})", np.max, term)


def _cast(value: Any, dtype: str) -> Any:
    if isinstance(value, np.ndarray):
        return value.astype(dtype, order="K")
    return np.asarray(value).astype(dtype)[()]


def _shown(shape: tuple[int, ...]) -> str:
    return f"({shape[0]},)" if len(shape) == 1 else f"({', '.join(map(str, shape))})"
