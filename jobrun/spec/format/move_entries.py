"""Move the entries of mappings in YAML text to their usual order, with their comments."""

from __future__ import annotations

from jobrun.core.errors import Origin, SpecError
from jobrun.core.lazy_dataclass import dataclass
from jobrun.spec.format.key_order import Kind
from jobrun.spec.format.text_tree import Entries, Items, Leaf, Span, Tree


@dataclass(frozen=True, slots=True)
class _Block:
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
        file: Its name, for places.
    """

    def __init__(self, text: str, file: str) -> None:
        self._text = text
        self._file = file
        self._lines = text.split("\n")

    def whole(self, tree: Tree, kind: Kind) -> str:
        """Move the entries of all mappings to their usual order; return the whole text.

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
        """Move the entries of a block mapping or list that ends before the line ``end``."""
        return (
            self._mapping(tree, kind, end)
            if isinstance(tree, Entries)
            else self._list(tree, kind, end)
        )

    def _mapping(self, tree: Entries, kind: Kind, end: int) -> _Block:
        keys = [key.value for key in tree.keys]
        order = kind.order(keys)
        starts = [key.span.line for key in tree.keys]
        ends = [
            self._tail(max(key.span.last_line, value.span.last_line), limit, tree.span.column)
            for key, value, limit in zip(tree.keys, tree.values, [*starts[1:], end], strict=True)
        ]
        bodies = [
            self._entry(key, value, kind.below(keys, key.value), behind)
            for key, value, behind in zip(tree.keys, tree.values, ends, strict=True)
        ]
        # Lines before an entry move with it; those before the first entry stay.
        before = [[], *(self._lines[a:b] for a, b in zip(ends, starts[1:], strict=False))]
        footer = self._lines[ends[-1] : end]
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
        # The blank lines that parted it from what was above part what takes its old place.
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
        """Move the entries within one entry of a mapping; return the lines of that entry."""
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
        """Move the entries within brackets; return their lines, with the text around them."""
        stop = sum(len(line) + 1 for line in self._lines[:end]) - 1
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
        """Move the entries within a list item; return its lines, with comments above it."""
        prefix = self._lines[item.span.line][: item.span.column]
        if isinstance(item, Leaf):
            return self._lines[item.span.line : end]
        if item.is_flow:
            first, *rest = self._around(item.span, item, kind, end)
            return [prefix + first, *rest]
        block = self._block(item, kind, end)
        own = [prefix + block.lines[0], *block.lines[1:]]
        if not block.above:
            return own
        if not prefix.strip():
            return [*(prefix + line for line in block.above), *own]
        if not before:
            # The list itself begins on this line: its parent knows what is above.
            hoisted += block.above
            return own
        return [*(" " * column + line for line in block.above), *own]

    def _inline(self, tree: Tree, kind: Kind) -> str:
        """Render a mapping or list in brackets with its entries moved to the usual order."""
        span = tree.span
        if isinstance(tree, Leaf):
            return self._text[span.start : span.end]
        if isinstance(tree, Items):
            below = kind.item()
            return self._pieces(span, [(one.span, self._inline(one, below)) for one in tree.items])
        keys = [key.value for key in tree.keys]
        order = kind.order(keys)
        pieces = []
        for key, value in zip(tree.keys, tree.values, strict=True):
            head = self._text[key.span.start : max(value.span.start, key.span.start)]
            inner = self._inline(value, kind.below(keys, key.value))
            if value.span.end <= key.span.end:
                head, inner = self._text[key.span.start : key.span.end], ""
            behind = max(value.span.end, key.span.end)
            place = Span(key.span.start, behind, key.span.line, key.span.column, key.span.line)
            pieces.append((place, head + inner))
        if order != sorted(order):
            self._expect_no_comment(tree)
        texts = [pieces[number][1] for number in order]
        return self._pieces(
            span, [(place, text) for (place, _), text in zip(pieces, texts, strict=True)]
        )

    def _pieces(self, span: Span, pieces: list[tuple[Span, str]]) -> str:
        """Replace spans of the text by moved entries, and keep what is between them."""
        out, at = "", span.start
        for place, text in pieces:
            out += self._text[at : place.start] + text
            at = place.end
        return out + self._text[at : span.end]

    def _tail(self, last: int, limit: int, column: int) -> int:
        """Return the line number at which an entry to be moved ends, behind its comments.

        Comments that are deeper than its key are about what is in it.
        """
        end = last + 1
        for number in range(last + 1, limit):
            line = self._lines[number]
            if line.lstrip().startswith("#") and len(line) - len(line.lstrip()) > column:
                end = number + 1
        return end

    def _dash_line(self, item: Tree) -> int:
        """Return the number of the line with a list item's dash, to move all of the item."""
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
