"""Parse YAML list items that differ only in letters and digits just once, in a large text.

A large spec is written by a program: ten thousand of its items are the same lines with other names
of the same lengths. The scanner of YAML treats letters, digits and ``_`` alike, so all tokens of
such items are at the same columns. Of each shape the first item is parsed; a mark replaces the
others, and where the parser finds one, the item is made from its lines and the tree of the first.

Nothing here decides whether a text is valid: wherever a tree could differ from the parser's,
``DifferentItemError`` is raised, and the whole text is parsed.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from msgspec import Struct

from jobrun.core.text.patterns import lazy_pattern
from jobrun.spec.yaml.nodes import Mapping, Node, Position, Scalar, Sequence
from jobrun.spec.yaml.pyyaml import parser_events, yaml
from jobrun.spec.yaml.scalars import NumberRangeError, is_text, resolve
from jobrun.spec.yaml.syntax_errors import DEEPEST
from jobrun.spec.yaml.tree_builder import Builder, StopReadingError

# Replaces an item: a character that a spec may have, but hardly any has.
MARK = "\ue000"
# Parsing fewer repeated items takes no longer than replacing them.
_FEWEST_ITEMS = 100

# Limit of the text in shapes, in multiples of the file: nested items are in several shapes.
_MOST_KEPT = 4

_FLAT = str.maketrans(dict.fromkeys(string.ascii_letters + string.digits + "_", "w"))
# An item of a list in block style that is more than a scalar, with its lines: those that are
# indented further than its hyphen, empty ones and comments.
_ITEM = lazy_pattern(
    r"(?m)^( *)- +(?:[\[{].*\n|[^ #\n].*\n(?=\1 ))(?:(?:\1 .*|[ ]*(?:#.*)?)(?:\n|\Z))*+"
)
# Looks like an anchor, an alias or a block of text, whose meaning depends on its words.
_UNLIKELY = lazy_pattern(r"[\s\[{,][&*][w-]|[|>][-+w]*\n")

# A character that neither a number nor a word such as ``true`` or ``null`` contains.
_NEVER_VALUE = lazy_pattern(r"[^\w.+~-]")

# Makes a named tuple from a tuple of its values.
_new: Any = tuple.__new__
# Makes a node from the text of an item and the number of its first line.
_Make = Callable[[str, int], Any]


class DifferentItemError(Exception):
    """An item of a YAML list may not be what the tree of the first of its shape says."""


class Shape(Struct):
    """Items of YAML lists whose lines are the same but for letters and digits.

    Attributes:
        text: The lines of the first item.
        line: The number of its first line, from 1.
        column: That of what follows the hyphen of each item, from 1.
        make: Makes an item; None until the first is parsed.
        weight: How many values an item has.
        height: How deep they are nested.
    """

    text: str
    line: int
    column: int
    make: _Make | None = None
    weight: int = 0
    height: int = 0

    @property
    def last_line(self) -> int:
        """Return the number of the last line of the first of several repeated YAML items."""
        return self.line + self.text.count("\n") - 1

    def learn(self, node: Node, weight: int, height: int) -> None:
        """Build the function that makes the repeated items, from the YAML node of the first item.

        Raises:
            DifferentItemError: Its tree has more than the words of its lines.
        """
        self.make = _Learner(self.text, self.line).node(node)
        self.weight, self.height = weight, height


class RepeatedItems(Struct, frozen=True):
    """A YAML text in which marks replace the items that have the shape of an earlier one.

    Attributes:
        text: The text to parse, which has as many lines.
        firsts: The shapes that are repeated, by the line and the column of the first item.
        marked: The shapes and the lines of the items that were replaced, by their first line.
        mark: What replaces them.
    """

    text: str
    firsts: dict[tuple[int, int], Shape]
    marked: dict[int, tuple[Shape, str]]
    mark: str = MARK


def find_repeated_items(text: str) -> RepeatedItems | None:
    """Replace repeated YAML list items by marks in the text; return None if there are few."""
    if MARK in text or "\r" in text:
        return None
    flat = text.translate(_FLAT)
    search = _ITEM.search
    shapes: dict[str, Shape | None] = {}
    firsts: dict[tuple[int, int], Shape] = {}
    marked: dict[int, tuple[Shape, str]] = {}
    pieces: list[str] = []
    # The offsets up to which the text was searched and copied, and its lines counted.
    searched = copied = counted = shape_chars = 0
    line = 1
    while match := search(flat, searched):
        start, end = match.span()
        line += flat.count("\n", counted, start)
        counted = start
        key = match[0]
        if key not in shapes:
            hyphen = match.end(1) - start
            behind = key[hyphen + 1 :]
            column = hyphen + 2 + len(behind) - len(behind.lstrip(" "))
            shape = None if _UNLIKELY.search(key) else Shape(text[start:end], line, column)
            shapes[key] = shape
            shape_chars += len(key)
            if shape_chars > _MOST_KEPT * len(text):
                return None
        elif (shape := shapes[key]) is not None:
            firsts[shape.line, shape.column] = shape
            marked[line] = (shape, text[start:end])
            pieces += (text[copied : start + shape.column - 1], MARK, "\n" * key.count("\n"))
            searched = copied = end
            continue
        # Its own items may be repeated: the steps of a single task, say.
        searched = flat.index("\n", start) + 1
    if len(marked) < _FEWEST_ITEMS:
        return None
    return RepeatedItems("".join((*pieces, text[copied:])), firsts, marked)


class _Learner:
    """Makes, from the tree of the first item of a shape, the functions that make the others."""

    def __init__(self, text: str, line: int) -> None:
        self._text = text
        self._line = line
        self._starts = [0]
        for line_text in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line_text))

    def node(self, node: Node, key_position: Position | None = None) -> _Make:
        """Build the function that makes a copy of this YAML node for each repeated list item."""
        if isinstance(node, Scalar):
            return self._scalar(node, key_position)
        file, down, column, length, text_column = self._relative_position(node.position)
        if isinstance(node, Sequence):
            items = [self.node(item) for item in node.items]
            return lambda text, line: _new(
                Sequence,
                ([make(text, line) for make in items], (file, line + down, column, length, 0)),
            )
        entries = [self._entry(key, node.keys[key], value) for key, value in node.values.items()]

        def mapping(text: str, line: int) -> Any:
            values: dict[str, Node] = {}
            keys: dict[str, Position] = {}
            for usual, at, end, down_, column_, length_, text_column_, make in entries:
                key = usual if text.startswith(usual, at) else _other_key(text[at:end])
                values[key] = make(text, line)
                keys[key] = (file, line + down_, column_, length_, text_column_)
            if len(values) < len(entries):
                raise DifferentItemError
            return _new(Mapping, (values, keys, (file, line + down, column, length, text_column)))

        return mapping

    def _entry(self, key: str, position: Position, value: Node) -> tuple[Any, ...]:
        _, down, column, length, text_column = self._relative_position(position)
        at = self._at(position)
        if self._text[at : at + len(key)] != key:
            raise DifferentItemError
        make = self.node(value, position)
        return (key, at, at + len(key), down, column, length, text_column, make)

    def _scalar(self, node: Scalar, key_position: Position | None) -> _Make:
        value, position, plain = node
        file, down, column, length, text_column = self._relative_position(position)
        if value is None and position is key_position:
            # The value is absent in the text.
            return lambda _, line: _new(
                Scalar, (None, (file, line + down, column, length, text_column), plain)
            )
        at = self._at(position)
        end = at + length - 2 * (text_column - column)
        text = self._text[at:end]
        same = _resolved(text) if plain else text
        if type(same) is not type(value) or repr(same) != repr(value):
            raise DifferentItemError
        if not plain or _NEVER_VALUE.search(text):
            # Text, whatever its words are, like most statements.
            return lambda text, line: _new(
                Scalar, (text[at:end], (file, line + down, column, length, text_column), plain)
            )

        def scalar(text: str, line: int) -> Any:
            value: Any = text[at:end]
            if not is_text(value):
                value = _resolved(value)
            return _new(Scalar, (value, (file, line + down, column, length, text_column), True))

        return scalar

    def _relative_position(self, position: Position) -> Position:
        """Return a node's position in a repeated YAML item, with lines counted from its start."""
        file, line, column, length, text_column = position
        if not 0 <= line - self._line < len(self._starts) - 1:
            raise DifferentItemError
        return (file, line - self._line, column, length, text_column)

    def _at(self, position: Position) -> int:
        """Return the offset of a scalar in the text of the first of the repeated list items."""
        _, line, column, _, text_column = position
        # The scalar has several lines or escapes, or is behind an anchor.
        if text_column - column not in (0, 1):
            raise DifferentItemError
        return self._starts[line - self._line] + text_column - 1


def _other_key(key: str) -> str:
    """Return a repeated YAML item's key if it is text; raise ``DifferentItemError`` otherwise."""
    if not is_text(key):
        raise DifferentItemError
    return key


@lru_cache
def _resolved(text: str) -> Any:
    """Resolve a plain YAML scalar of a repeated list item to its value, and cache that."""
    try:
        return resolve(text)
    except NumberRangeError as error:
        raise DifferentItemError from error


class _RepeatingBuilder(Builder):
    """Builds the YAML tree of a text with marks in place of repeated items.

    It is given up at the first thing that is not certainly as in the whole text.
    """

    def __init__(self, file: str, repeated: RepeatedItems) -> None:
        super().__init__(file, repeated.text)
        self._repeated = repeated
        self._mark = repeated.mark
        # The line of the last token, and the last line with an anchor or an alias.
        self._last_line = self._last_reference = 0
        self._actions |= {
            yaml.events.ScalarEvent: self._scalar_or_mark,
            yaml.events.SequenceStartEvent: self._open_any,
            yaml.events.MappingStartEvent: self._open_any,
            yaml.events.SequenceEndEvent: self._close_any,
            yaml.events.MappingEndEvent: self._close_any,
            yaml.events.AliasEvent: self._alias_of_any,
        }

    def _scalar_or_mark(self, event: Any) -> None:
        if event.value == self._mark:
            self._repeat(event)
            return
        self._scalar(event)
        self._last_line = event.end_mark.line + 1
        if event.anchor is not None:
            self._last_reference = self._last_line

    def _open_any(self, event: Any) -> None:
        if event.anchor is not None:
            self._last_reference = event.start_mark.line + 1
        self._open(event)

    def _alias_of_any(self, event: Any) -> None:
        self._last_reference = event.start_mark.line + 1
        self._alias(event)

    def _close_any(self, event: Any) -> None:
        frame = self._stack[-1]
        if frame.flow:
            self._last_line = event.end_mark.line + 1
        if frame.merges:
            self._last_reference = self._last_line
        self._close(event)
        outer = self._stack[-1] if self._stack else None
        if outer is None or outer.items is None or outer.flow:
            return
        shape = self._repeated.firsts.get(frame.position[1:3])
        if shape is not None and self._last_reference < shape.line:
            if self._last_line > shape.last_line or shape.make is not None:
                raise StopReadingError
            shape.learn(outer.items[-1], self._values - frame.started, frame.height)

    def _repeat(self, event: Any) -> None:
        """Add a repeated list item to the YAML tree as a copy of the first, without parsing it."""
        line = event.start_mark.line + 1
        shape, text = self._repeated.marked.pop(line, (None, ""))
        frame = self._stack[-1] if self._stack else None
        is_item = frame is not None and frame.items is not None and not frame.flow
        is_bare = event.anchor is None and event.tag is None and not event.style
        if shape is None or shape.make is None or not (is_item and is_bare):
            raise StopReadingError
        if event.start_mark.column + 1 != shape.column:
            raise StopReadingError
        if len(self._stack) + shape.height > DEEPEST:
            raise StopReadingError
        self._last_line = line + text.count("\n") - 1
        self._add(shape.make(text, line), shape.weight, shape.height, counted=False)


def read_repeated(text: str, file: str) -> Node | None:
    """Parse a large YAML text, each repeated list item once; return None if that is unsafe."""
    repeated = find_repeated_items(text)
    if repeated is None:
        return None
    builder = _RepeatingBuilder(file, repeated)
    try:
        builder.read(parser_events(repeated.text))
    except (yaml.YAMLError, StopReadingError, DifferentItemError):
        return None
    return None if builder.faults or repeated.marked else builder.root
