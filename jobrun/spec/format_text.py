"""Format the text of a spec: put its keys in the usual order, and check its meaning is kept.

Quotes, indentation and line breaks stay as they are, and every comment: one above a key moves
with it, as does one behind it, or deeper than it. What is above the first key of a file
is about the file, and stays. That meaning and comments are the same is looked at each time.
The text is parsed to a tree of spans (lines and columns), which are moved as text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from msgspec import Struct, field

from jobrun.core.errors import Origin, SpecError
from jobrun.spec.key_order import WHOLE, Kind
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.pyyaml import parser_events, yaml
from jobrun.spec.yaml.spec_text import read_text

_MOST_BLANK_LINES = 2
_LEAVE = "the file is unchanged"

_End = yaml.events.CollectionEndEvent


def format_file(path: str) -> tuple[str, str]:
    """Format the text of a spec file by ordering its keys; return the old text and the new one.

    Raises:
        SpecError: It cannot be read, is not valid YAML, or E420.
    """
    text = read_text(path, path)
    return text, format_text(text, path)


def format_text(text: str, file: str) -> str:
    """Format the text of a spec by putting the keys of every mapping in the usual order.

    Args:
        text: Of the whole file, as ``spec_text.read_text`` lets it through.
        file: Its name, for positions.

    Raises:
        SpecError: The text is not valid YAML; or E420, it cannot be put in order.
    """
    unix = text.replace("\r\n", "\n")
    before = _read(unix, file)
    mover = EntryMover(unix, file)
    moved = _tidy(mover.whole(tree_of(unix), WHOLE))
    _expect_same(before, moved, unix, file)
    return moved


def _read(text: str, file: str) -> Any:
    document = read_document(text, file)
    if document.faults:
        raise SpecError(*document.faults)
    return plain(document.root)


def _expect_same(before: Any, moved: str, text: str, file: str) -> None:
    """Check that a formatted spec means the same as before and has the same comments.

    Raises:
        SpecError: E420, it does not.
    """
    where = Origin(file, 1, 1)
    try:
        after = _read(moved, file)
    except SpecError as error:
        late = _late_alias(tree_of(text), error)
        if late is not None:
            where = Origin(file, late.span.line + 1, late.span.column + 1)
            message = f"in the usual order '*{late.value}' would come before its anchor"
            mend = f"define '&{late.value}' under a key 'x-…' at the top; {_LEAVE}"
            raise _refused(message, mend, where) from error
        raise _refused("its keys cannot be moved safely", _LEAVE, where) from error
    if not _same(before, after) or comments(text) != comments(moved):
        raise _refused("its keys cannot be moved safely", _LEAVE, where)


def _late_alias(tree: Tree, error: SpecError) -> Leaf | None:
    """Find an alias before its anchor in a spec's formatted text, to explain the error."""
    words = " ".join(fault.message for fault in error.faults)
    match tree:
        case Leaf():
            return tree if tree.is_alias and f"'&{tree.value}'" in words else None
        case _:
            below = tree.values if isinstance(tree, Entries) else tree.items
            return next((hit for child in below if (hit := _late_alias(child, error))), None)


def _same(first: Any, second: Any) -> bool:
    """Return whether a spec's values are the same before and after formatting its text."""
    if type(first) is not type(second):
        return False
    match first:
        case dict():
            return first.keys() == second.keys() and all(
                _same(value, second[key]) for key, value in first.items()
            )
        case list():
            return len(first) == len(second) and all(map(_same, first, second))
        case float():
            alike = first == second and math.copysign(1, first) == math.copysign(1, second)
            return alike or (math.isnan(first) and math.isnan(second))
        case _:
            return bool(first == second)


def comments(text: str) -> list[str]:
    """List the comments in a spec's text, sorted, to compare them after reordering."""
    texts = []
    for begin, end in _gaps(text):
        texts += [match[0].rstrip() for match in re.finditer(r"#[^\n]*", text[begin:end])]
    return sorted(texts)


def _gaps(text: str) -> list[tuple[int, int]]:
    """List the spans of a spec's text between its scalars, in which are all its comments."""
    leaves = [leaf for leaf in _leaves(tree_of(text)) if leaf.span.end > leaf.span.start]
    gap_starts = [0, *(leaf.span.end for leaf in leaves)]
    gap_ends = [*(leaf.span.start for leaf in leaves), len(text)]
    return list(zip(gap_starts, gap_ends, strict=True))


def _leaves(tree: Tree) -> list[Leaf]:
    match tree:
        case Leaf():
            return [tree]
        case Entries():
            pairs = zip(tree.keys, tree.values, strict=True)
            return [leaf for pair in pairs for part in pair for leaf in _leaves(part)]
        case _:
            return [leaf for item in tree.items for leaf in _leaves(item)]


def _tidy(text: str) -> str:
    """Remove trailing spaces and repeated blank lines from formatted text; end with a line feed."""
    untouched: set[int] = set()
    for leaf in _leaves(tree_of(text)):
        untouched |= set(range(leaf.span.line + leaf.is_block, leaf.span.last_line + leaf.is_block))
    lines: list[str] = []
    blank, needed = _MOST_BLANK_LINES, 0
    for number, line in enumerate(text.split("\n")):
        shown = line if number in untouched else line.rstrip(" \t")
        blank = 0 if shown or number in untouched else blank + 1
        if blank <= _MOST_BLANK_LINES:
            lines.append(shown)
        if blank == 0:
            needed = len(lines)
    return "\n".join(lines[:needed]) + "\n"


def _refused(message: str, mend: str, where: Origin) -> SpecError:
    return SpecError.of("E420", message, mend, where=where)


class _Block(Struct, frozen=True):
    """A YAML block as lines of text.

    Attributes:
        above: Comments that belong above its first line, without indentation.
        lines: From its first character on; all but the first with their indentation.
    """

    above: list[str]
    lines: list[str]


class EntryMover:
    """Moves the entries of mappings in one YAML text.

    Args:
        text: The text, lines ended by line feeds.
        file: Its name, for positions.
    """

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._lines = text.split("\n")
        # Character offsets behind the line feed of each line.
        self._line_ends = list(accumulate(len(line) + 1 for line in self._lines))

    def whole(self, tree: Tree, kind: Kind) -> str:
        """Format the whole text of a spec: put the entries of all mappings in their usual order.

        Raises:
            SpecError: E420, an entry that has to move cannot.
        """
        span = tree.span
        if isinstance(tree, Leaf) or tree.is_flow:
            return self._text[: span.start] + self._inline(tree, kind) + self._text[span.end :]
        block = self._block(tree, kind, len(self._lines))
        head = self._lines[: span.line]
        prefix = self._lines[span.line][: span.column]
        above = [prefix + line if line else "" for line in block.above]
        return "\n".join([*head, *above, prefix + block.lines[0], *block.lines[1:]])

    def _block(self, tree: Items | Entries, kind: Kind, end: int) -> _Block:
        """Format a YAML mapping or list in block style; return its lines with keys in order."""
        return (
            self._mapping(tree, kind, end)
            if isinstance(tree, Entries)
            else self._list(tree, kind, end)
        )

    def _mapping(self, tree: Entries, kind: Kind, end: int) -> _Block:
        keys = [key.value for key in tree.keys]
        order = kind.order(keys)
        starts = [key.span.line for key in tree.keys]
        entry_ends = [
            self._tail(max(key.span.last_line, value.span.last_line), limit, tree.span.column)
            for key, value, limit in zip(tree.keys, tree.values, [*starts[1:], end], strict=True)
        ]
        bodies = [
            self._entry(key, value, value_kind, behind)
            for key, value, value_kind, behind in zip(
                tree.keys, tree.values, kind.values(keys), entry_ends, strict=True
            )
        ]
        # Lines before an entry move with it; those before the first entry stay.
        before = [[], *(self._lines[a:b] for a, b in zip(entry_ends, starts[1:], strict=False))]
        footer = self._lines[entry_ends[-1] : end]
        if order == sorted(order):
            lines = [bodies[0][0], *bodies[0][1:]]
            for lead, body, key in zip(before[1:], bodies[1:], tree.keys[1:], strict=True):
                lines += [*lead, self._prefix(key.span) + body[0], *body[1:]]
            return _Block([], [*lines, *footer])
        self._expect_movable(tree)
        return self._reordered(tree, order, before, bodies, footer)

    def _reordered(
        self,
        tree: Entries,
        order: list[int],
        before: list[list[str]],
        bodies: list[list[str]],
        footer: list[str],
    ) -> _Block:
        indent = " " * tree.span.column
        first = order[0]
        # Blank lines above a moved entry stay: they separate the entry that takes its old place.
        blank = [line for line in before[first] if not line.strip()]
        above = [line.strip() for line in before[first] if line.strip()]
        if first:
            before[0] = blank[:1]
        lines = list(bodies[first])
        for number in order[1:]:
            body = bodies[number]
            lines += [*before[number], indent + body[0], *body[1:]]
        return _Block(above if first else [], [*lines, *footer])

    def _entry(self, key: Leaf, value: Tree, kind: Kind, end: int) -> list[str]:
        """Format one entry of a mapping; return its lines, with the keys in its value in order."""
        line, column = key.span.line, key.span.column
        if isinstance(value, Leaf):
            lines = self._lines[line:end]
            return [lines[0][column:], *lines[1:]]
        if value.is_flow:
            return self._around(key.span, value, kind, end)
        between = self._lines[line : value.span.line]
        block = self._block(value, kind, end)
        prefix = self._prefix(value.span)
        above = [prefix + text for text in block.above]
        if not between:
            # Only with the anchor of an explicit key could it stand on the line of its key.
            raise self._refused(key.span, "its value starts on the line of its key")
        return [
            between[0][column:],
            *between[1:],
            *above,
            prefix + block.lines[0],
            *block.lines[1:],
        ]

    def _around(self, start: Span, value: Items | Entries, kind: Kind, end: int) -> list[str]:
        """Format a value in YAML flow style (``{}``, ``[]``); return the lines of its entry."""
        stop = self._line_ends[end - 1] - 1
        span = value.span
        text = self._text[start.start : span.start] + self._inline(value, kind)
        return (text + self._text[span.end : max(stop, span.end)]).split("\n")

    def _list(self, tree: Items, kind: Kind, end: int) -> _Block:
        item_kind = kind.item()
        column = tree.span.column
        lines: list[str] = []
        hoisted: list[str] = []
        at = tree.span.line
        limits = [*(self._dash_line(item) for item in tree.items[1:]), end]
        for item, limit in zip(tree.items, limits, strict=True):
            tail = self._tail(item.span.last_line, limit, column)
            lines += self._lines[at : item.span.line]
            lines += self._item(item, item_kind, tail, column, lines, hoisted)
            at = tail
        lines += self._lines[at:end]
        lines[0] = lines[0][column:]
        return _Block(hoisted, lines)

    def _item(
        self, item: Tree, kind: Kind, end: int, column: int, before: list[str], hoisted: list[str]
    ) -> list[str]:
        """Format one item of a YAML list; return its lines, with the keys in the usual order."""
        prefix = self._lines[item.span.line][: item.span.column]
        if isinstance(item, Leaf):
            return self._lines[item.span.line : end]
        if item.is_flow:
            first, *following = self._around(item.span, item, kind, end)
            return [prefix + first, *following]
        block = self._block(item, kind, end)
        lines = [prefix + block.lines[0], *block.lines[1:]]
        if not block.above:
            return lines
        if not prefix.strip():
            return [*(prefix + line for line in block.above), *lines]
        if not before:
            # The list itself begins on this line, so the parent places what is above.
            hoisted += block.above
            return lines
        return [*(" " * column + line for line in block.above), *lines]

    def _inline(self, tree: Tree, kind: Kind) -> str:
        """Format a mapping or list in brackets: return its text with keys in the usual order."""
        span = tree.span
        if isinstance(tree, Leaf):
            return self._text[span.start : span.end]
        if isinstance(tree, Items):
            below = kind.item()
            return self._pieces(
                span, [(item.span, self._inline(item, below)) for item in tree.items]
            )
        keys = [key.value for key in tree.keys]
        order = kind.order(keys)
        pieces = []
        for key, value, value_kind in zip(tree.keys, tree.values, kind.values(keys), strict=True):
            head = self._text[key.span.start : max(value.span.start, key.span.start)]
            inner = self._inline(value, value_kind)
            if value.span.end <= key.span.end:
                head, inner = self._text[key.span.start : key.span.end], ""
            behind = max(value.span.end, key.span.end)
            piece_span = Span(key.span.start, behind, key.span.line, key.span.column, key.span.line)
            pieces.append((piece_span, head + inner))
        if order != sorted(order):
            self._expect_no_comment(tree)
        texts = [pieces[number][1] for number in order]
        return self._pieces(
            span, [(piece_span, text) for (piece_span, _), text in zip(pieces, texts, strict=True)]
        )

    def _pieces(self, span: Span, pieces: list[tuple[Span, str]]) -> str:
        """Return a span of a spec's text in which each piece is replaced by its formatted text."""
        out, at = "", span.start
        for piece_span, text in pieces:
            out += self._text[at : piece_span.start] + text
            at = piece_span.end
        return out + self._text[at : span.end]

    def _tail(self, last: int, limit: int, column: int) -> int:
        """Return the line where an entry ends in the text to format, including comments below it.

        Comments that are deeper than its key are about what is in it.
        """
        end = last + 1
        for number in range(last + 1, limit):
            line = self._lines[number]
            if line.lstrip().startswith("#") and len(line) - len(line.lstrip()) > column:
                end = number + 1
        return end

    def _dash_line(self, item: Tree) -> int:
        """Return the number of the line where a list item to format begins: that of its dash."""
        at = item.span.start
        if self._lines[item.span.line][: item.span.column].strip():
            return item.span.line
        return self._text.count("\n", 0, self._text.rfind("-", 0, at))

    def _prefix(self, span: Span) -> str:
        return self._lines[span.line][: span.column]

    def _expect_movable(self, tree: Entries) -> None:
        for number, key in enumerate(tree.keys):
            before = self._prefix(key.span)
            if before.strip(" -" if number == 0 else " "):
                raise self._refused(key.span, "there is something before its key on the line")

    def _expect_no_comment(self, tree: Entries) -> None:
        span = tree.span
        if "\n" in self._text[span.start : span.end] and "#" in self._text[span.start : span.end]:
            raise self._refused(span, "there is a comment inside the brackets around it")

    def _refused(self, span: Span, why: str) -> SpecError:
        return SpecError.of(
            "E420",
            f"this cannot be formatted: {why}",
            "write it in block style, one key per line, or in the usual order; the file is "
            "unchanged",
            where=Origin(self._file, span.line + 1, span.column + 1),
        )


class Span(Struct):
    """The span of a YAML node in the text: where it starts and ends.

    Attributes:
        start: Index of its first character; of a block collection that of its first key or dash.
        end: Index behind its last.
        line: The line of ``start``, from 0.
        column: Its column, from 0.
        last_line: The last line that has something of it.
    """

    start: int
    end: int
    line: int
    column: int
    last_line: int


class Leaf(Struct):
    """A YAML scalar or alias, with its span."""

    span: Span
    is_alias: bool = False
    value: str = ""
    is_block: bool = False


class Items(Struct):
    """A YAML sequence, with its span."""

    span: Span
    is_flow: bool
    items: list[Tree] = field(default_factory=list)


class Entries(Struct):
    """A YAML mapping with its span: each key and its value."""

    span: Span
    is_flow: bool
    keys: list[Leaf] = field(default_factory=list)
    values: list[Tree] = field(default_factory=list)


Tree = Leaf | Items | Entries


def tree_of(text: str) -> Tree:
    """Parse YAML text into nested spans of text, so that formatting can move the spans."""
    stream = (
        event for event in parser_events(text) if isinstance(event, yaml.events.NodeEvent | _End)
    )
    return _node(next(stream), stream, text)


def _node(event: Any, stream: Iterator[Any], text: str) -> Tree:
    match event:
        case yaml.events.MappingStartEvent():
            mapping = Entries(_span(event), bool(event.flow_style))
            while not isinstance(following := next(stream), _End):
                key = _node(following, stream, text)
                mapping.keys.append(key if isinstance(key, Leaf) else Leaf(key.span))
                mapping.values.append(_node(next(stream), stream, text))
            _close(mapping, following, mapping.keys, mapping.values)
            return mapping
        case yaml.events.SequenceStartEvent():
            listed = Items(_span(event), bool(event.flow_style))
            while not isinstance(following := next(stream), _End):
                listed.items.append(_node(following, stream, text))
            if event.anchor is not None and not listed.is_flow and listed.items:
                _move_to_dash(listed, text)
            _close(listed, following, (), listed.items)
            return listed
        case yaml.events.AliasEvent():
            return Leaf(_span(event), is_alias=True, value=event.anchor or "")
        case _:
            return _scalar(event, text)


def _close(node: Items | Entries, event: Any, keys: Any, values: list[Tree]) -> None:
    """Set where a mapping or list to format ends: at its bracket, or at its last entry."""
    span = node.span
    if node.is_flow:
        span.end, span.last_line = event.end_mark.index, event.end_mark.line
    elif values:
        # With an anchor, the event begins at the anchor, not at the part that can be moved.
        if keys:
            first = keys[0].span
            span.start, span.line, span.column = first.start, first.line, first.column
        last = values[-1].span
        if keys and keys[-1].span.end > last.end:
            last = keys[-1].span
        span.end, span.last_line = last.end, last.last_line


def _move_to_dash(listed: Items, text: str) -> None:
    at = text.rfind("-", 0, listed.items[0].span.start)
    begin = text.rfind("\n", 0, at) + 1
    span = listed.span
    span.start, span.line, span.column = at, text.count("\n", 0, at), at - begin


def _scalar(event: Any, text: str) -> Leaf:
    span = _span(event)
    is_block = event.style in {"|", ">"}
    if is_block:
        keeps = "+" in text[span.start : text.find("\n", span.start)].partition("#")[0]
        # A block of text ends where the next node begins; blank lines count only if it keeps them.
        body = text[span.start : span.end]
        body = body.removesuffix("\n") if keeps else body.rstrip("\n\t ")
        span.end = span.start + len(body)
        span.last_line = span.line + body.count("\n")
    return Leaf(span, value=event.value, is_block=is_block)


def _span(event: Any) -> Span:
    start, end = event.start_mark, event.end_mark
    return Span(start.index, end.index, start.line, start.column, end.line)
