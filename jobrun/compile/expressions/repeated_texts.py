"""Parse texts that differ in names only once: the tree of the first makes those of the others.

A large spec is written by a program: ten thousand of its statements are ``x7 = t - x7`` with
another number. A text is taken apart into words and what is between them; its shape says which of
its words are the same. From the tree of the first text of a shape, a function is made that builds
the tree of any other.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import accumulate, pairwise
from operator import itemgetter
from typing import Any

from msgspec import Struct, field

from jobrun.compile.expressions import limits
from jobrun.compile.expressions.parse import is_plain, parse_expression, parse_statement
from jobrun.compile.expressions.refusals import MEANINGFUL
from jobrun.compile.expressions.translate import Params
from jobrun.core.errors import Origin
from jobrun.core.text.patterns import lazy_pattern
from jobrun.graph.expressions import Const, Expr, Name, OutputRead
from jobrun.graph.steps import Delete, ItemTarget, NameTarget, Op

# A word that can name a blob: not an attribute, not the end of a number.
_WORD = lazy_pattern(r"(?<![\w.])((?!__)[A-Za-z_]\w{0,63})(?!\w)", re.ASCII)
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
# Texts that are equal after this translation have their words at the same offsets.
_FLAT = str.maketrans({**dict.fromkeys(_LETTERS, "a"), **dict.fromkeys("0123456789", "0")})
_NUMBER = lazy_pattern(r"[a0_]")
# With more words, a table is faster than tuple.index.
_FEW_WORDS = 20
_Words = tuple[str, ...]
# Builds a part of a tree from the words of a text, and the offset of each of them in it.
Make = Callable[[_Words, Sequence[int]], Any]
# The numbers in a text; then, for each word, the number of its first mention, or the word itself
# if it has a fixed meaning.
_Shape = tuple[str | int, ...]
# For each class of tree node, the field that holds a name from the text.
_NAMED: dict[type[Any], str] = {
    Name: "name", NameTarget: "name", ItemTarget: "name", OutputRead: "task",
}  # fmt: skip


class Constant(Struct, frozen=True):
    """A part that each tree of a shape has."""

    value: Any


class _Shapes(Struct):
    """What has been learnt of texts with the same signs between words and numbers, by shape.

    A text whose shape has None is parsed each time.
    """

    statements: dict[_Shape, tuple[Callable[..., Op], Make] | None] = field(default_factory=dict)
    expressions: dict[_Shape, Make | None] = field(default_factory=dict)


class Layout(Struct, frozen=True):
    """Where the words are in texts that are the same but for letters and digits.

    Attributes:
        words: Returns the words of such a text.
        offsets: Where they begin.
        numbers: Returns the rest that has letters or digits; None where there is none.
        shapes: What has been learnt of texts with the same signs between words and numbers.
        flat: What these texts have in common.
    """

    words: Callable[[str], _Words]
    offsets: tuple[int, ...]
    numbers: Callable[[str], _Words] | None
    shapes: _Shapes
    flat: str


class TextShapes:
    """Takes texts apart into words and numbers, and what is between them.

    Args:
        fixed: The words with a meaning; all others are names.
    """

    def __init__(self, fixed: frozenset[str]) -> None:
        self.fixed = fixed
        self._layouts: dict[str, Layout] = {}
        self._shapes: dict[tuple[str, ...], _Shapes] = {}

    def known(self, text: str) -> Layout | None:
        """Return where the words of a repeated text are; None for the first of its form."""
        return self._layouts.get(text.translate(_FLAT))

    def layout(self, text: str) -> Layout:
        """Find where the words are in every repeated text equal but for letters and digits."""
        flat = text.translate(_FLAT)
        parts = _WORD.split(text)
        starts = list(accumulate(map(len, parts), initial=0))
        spans = [slice(start, end) for start, end in pairwise(starts)]
        signs = tuple([flat[span] for span in spans[::2]])
        numbers = [span for span in spans[::2] if _NUMBER.search(flat[span])]
        layout = self._layouts[flat] = Layout(
            _getter(spans[1::2]),
            tuple(starts[1:-1:2]),
            _getter(numbers) if numbers else None,
            self._shapes.setdefault(signs, _Shapes()),
            flat,
        )
        return layout

    def shape(self, text: str, words: _Words, layout: Layout) -> _Shape:
        """Return a key that is equal for repeated texts: their trees differ in names only."""
        find: Callable[[str], int] = words.index
        if len(words) > _FEW_WORDS:
            first: dict[str, int] = {}
            for number, word in enumerate(words):
                first.setdefault(word, number)
            find = first.__getitem__
        shape: _Shape = tuple(map(find, words))
        fixed = self.fixed
        if not fixed.isdisjoint(words):
            shape = tuple([word if word in fixed else find(word) for word in words])
        return shape if layout.numbers is None else (*layout.numbers(text), *shape)


def _getter(spans: list[slice]) -> Callable[[str], _Words]:
    """Build the function that cuts the words out of a repeated text, at the given slices."""
    if len(spans) > 1:
        return itemgetter(*spans)
    return lambda text: tuple([text[span] for span in spans])


class RepeatedTexts:
    """Parses the statements and expressions of one job, and remembers their shapes.

    Args:
        params: The params, which are replaced by their values.
    """

    def __init__(self, params: Params) -> None:
        self._params = params
        self._texts = TextShapes(MEANINGFUL.union(params))
        self._equal: dict[str, Expr] = {}
        self._integers: dict[int, Expr] = {}

    def statement(self, text: str, origin: Origin, path: str) -> Op:
        """Parse a statement, or copy the tree of an earlier one that differs only in its names.

        Raises:
            SpecError: It is not valid; with all its faults.
        """
        layout = self._texts.known(text) or self._layout(text)
        if layout is None:
            return parse_statement(text, origin, path, self._params)
        words = layout.words(text)
        shape = self._texts.shape(text, words, layout)
        known = layout.shapes.statements.get(shape)
        if known is not None:
            kind, make = known
            return kind(*make(words, layout.offsets), path, origin)
        op = parse_statement(text, origin, path, self._params)
        if shape not in layout.shapes.statements:
            # skip=2: the last two fields are the path and the origin.
            learnt = self._learner(words, layout).learn(op, tuple_of, skip=2)
            layout.shapes.statements[shape] = (type(op), learnt) if learnt else None
        return op

    def known(self, value: Any) -> Expr | None:
        """Return the tree of a literal, or of an equal text parsed before; else None."""
        if type(value) is str:
            return self._equal.get(value)
        if type(value) is int and abs(value) < limits.MAX_INT:
            constant = self._integers.get(value)
            return constant or self._integers.setdefault(value, Const(value))
        return Const(value) if value is None or type(value) in (bool, float) else None

    def expression(self, value: Any, origin: Origin, path: str) -> Expr:
        """Parse an expression, or copy the tree of an earlier one that differs only in names.

        Raises:
            SpecError: It is not valid; with all its faults.
        """
        if not isinstance(value, str):
            return parse_expression(value, origin, path, self._params)
        tree = self._equal.get(value)
        if tree is not None:
            return tree
        layout = self._texts.known(value) or self._layout(value)
        if layout is None:
            return parse_expression(value, origin, path, self._params)
        tree = self._equal[value] = self._expression(value, layout, origin, path)
        return tree

    def _expression(self, text: str, layout: Layout, origin: Origin, path: str) -> Expr:
        words = layout.words(text)
        shape = self._texts.shape(text, words, layout)
        make = layout.shapes.expressions.get(shape)
        if make is not None:
            expr: Expr = make(words, layout.offsets)
            return expr
        expr = parse_expression(text, origin, path, self._params)
        if shape not in layout.shapes.expressions:
            layout.shapes.expressions[shape] = self._learner(words, layout).learn(expr, type(expr))
        return expr

    def _layout(self, text: str) -> Layout | None:
        """Find where the words of a repeated text are; None if the text is not plain enough.

        Which text is plain does not depend on its letters and digits.
        """
        return self._texts.layout(text) if is_plain(text) else None

    def _learner(self, words: _Words, layout: Layout) -> Learner:
        return Learner(words, layout.offsets, self._texts.fixed)


class Learner:
    """Makes, from the tree of a text, the functions that build the trees of texts of its shape."""

    def __init__(self, words: _Words, offsets: Sequence[int], fixed: Collection[str]) -> None:
        self._positions = {offset: number for number, offset in enumerate(offsets)}
        names = [word for word in words if word not in fixed]
        self._first = {name: words.index(name) for name in names}
        # How many mentions of each word have not been seen in the tree yet.
        self._unseen = Counter(names)
        self._is_exact = True

    def learn(self, tree: Op | Expr, kind: Callable[..., Any], skip: int = 0) -> Make | None:
        """Build the function that copies a tree for repeated texts; None if that is unsafe.

        Returns:
            None where not each word of the text is a name in the tree: one is a keyword, say.
        """
        make = self.node(tree, kind, skip)
        return make if self.is_whole and not isinstance(make, Constant) else None

    @property
    def is_whole(self) -> bool:
        """Return whether a repeated text's names are all in its tree: else no copy is made."""
        return self._is_exact and not any(self._unseen.values())

    def node(self, node: Any, kind: Callable[..., Any], skip: int = 0) -> Make | Constant:
        """Build the function that copies a tree node for a repeated text with other names."""
        # A fast path: most nodes are one of these.
        if type(node) is Name:
            return self.name(node)
        if type(node) is NameTarget:
            word = self.position(node.name)
            return lambda words, _: NameTarget(words[word])
        named = _NAMED.get(type(node))
        values: list[Make | Constant] = []
        for name in node.__struct_fields__[: -skip or None]:
            value = getattr(node, name)
            if name == named:
                values.append(self._word(value))
            elif name == "at":
                values.append(self.offset(value))
            elif isinstance(node, Delete):
                values.append(_build(tuple_of, list(map(self._word, value))))
            else:
                values.append(self._value(value))
        return _build(kind, values)

    def _value(self, value: Any) -> Make | Constant:
        if isinstance(value, tuple):
            return _build(tuple_of, [self._value(part) for part in value])
        return self.node(value, type(value)) if isinstance(value, Struct) else Constant(value)

    def name(self, node: Name) -> Make:
        """Build the function that copies a ``Name`` of the tree with a repeated text's name."""
        self.position(node.name)
        self.offset(node.at)
        position = self._positions.get(node.at, 0)
        return lambda words, offsets: Name(words[position], offsets[position])

    def _word(self, name: str) -> Make:
        position = self.position(name)
        return lambda words, _: words[position]

    def position(self, name: str) -> int:
        """Return the index of the first word of a repeated expression that is this name."""
        self._unseen[name] -= 1
        position = self._first.get(name, -1)
        self._is_exact = self._is_exact and position >= 0
        return position

    def offset(self, at: int) -> Make | Constant:
        """Build the function that returns the offset of a tree node in a repeated text."""
        position = self._positions.get(at, -1)
        self._is_exact = self._is_exact and position >= 0
        return lambda _, offsets: offsets[position]


def tuple_of(*values: Any) -> tuple[Any, ...]:
    """Build a tuple of the arguments, for tuples in the syntax tree of a repeated text."""
    return values


def _build(kind: Callable[..., Any], parts: Sequence[Make | Constant]) -> Make | Constant:
    """Build the function that copies a tree node of a repeated text, field by field."""
    values = [part.value if isinstance(part, Constant) else None for part in parts]
    moving = [(at, part) for at, part in enumerate(parts) if not isinstance(part, Constant)]
    if not moving:
        return Constant(kind(*values))

    if len(moving) == 1:
        ((only, maker),) = moving
        before, behind = values[:only], values[only + 1 :]
        if kind is tuple_of and len(parts) == 1:
            return lambda words, offsets: (maker(words, offsets),)
        return lambda words, offsets: kind(*before, maker(words, offsets), *behind)

    if len(moving) == len(values) == 2:
        first, second = (maker for _, maker in moving)
        if kind is tuple_of:
            return lambda words, offsets: (first(words, offsets), second(words, offsets))
        return lambda words, offsets: kind(first(words, offsets), second(words, offsets))

    def make(words: _Words, offsets: Sequence[int]) -> Any:
        arguments = values.copy()
        for at, maker in moving:
            arguments[at] = maker(words, offsets)
        return kind(*arguments)

    return make
