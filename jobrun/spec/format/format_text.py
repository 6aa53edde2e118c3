"""Format the text of a spec: put its keys in the usual order, and check its meaning is kept.

Quotes, indentation and line breaks stay as they are, and every comment: one above a key moves
with it, as does one behind it, or deeper than it. What is above the first key of a file
is about the file, and stays. That meaning and comments are the same is looked at each time.
"""

from __future__ import annotations

import math
import re
from typing import Any

from jobrun.core.errors import Origin, SpecError
from jobrun.spec.format.key_order import WHOLE
from jobrun.spec.format.move_entries import EntryMover
from jobrun.spec.format.text_tree import Entries, Leaf, Tree, tree_of
from jobrun.spec.yaml.nodes import plain
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.spec_text import read_text

_MOST_BLANK_LINES = 2
_LEAVE = "the file is unchanged"


def format_file(path: str) -> tuple[str, str]:
    """Format the text of a spec file: return the present text, and the one with ordered keys.

    Raises:
        SpecError: It cannot be read, is not valid YAML, or E420.
    """
    text = read_text(path, path)
    return text, format_text(text, path)


def format_text(text: str, file: str) -> str:
    """Format the text of a spec by putting the keys of every mapping in the usual order.

    Args:
        text: Of the whole file, as ``files.read_text`` lets it through.
        file: Its name, for places.

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
            return next((hit for one in below if (hit := _late_alias(one, error))), None)


def _same(first: Any, second: Any) -> bool:
    """Return whether the formatted spec's tree equals the former, but for the order of keys."""
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
    found = []
    for begin, end in _gaps(text):
        found += [match[0].rstrip() for match in re.finditer(r"#[^\n]*", text[begin:end])]
    return sorted(found)


def _gaps(text: str) -> list[tuple[int, int]]:
    """List what is between scalars, to check that formatting a spec's text keeps its comments."""
    leaves = [leaf for leaf in _leaves(tree_of(text)) if leaf.span.end > leaf.span.start]
    ends = [0, *(leaf.span.end for leaf in leaves)]
    begins = [*(leaf.span.start for leaf in leaves), len(text)]
    return list(zip(ends, begins, strict=True))


def _leaves(tree: Tree) -> list[Leaf]:
    match tree:
        case Leaf():
            return [tree]
        case Entries():
            pairs = zip(tree.keys, tree.values, strict=True)
            return [leaf for pair in pairs for one in pair for leaf in _leaves(one)]
        case _:
            return [leaf for one in tree.items for leaf in _leaves(one)]


def _tidy(text: str) -> str:
    """Remove trailing spaces and repeated blank lines from formatted text; end with a line feed."""
    kept: set[int] = set()
    for leaf in _leaves(tree_of(text)):
        kept |= set(range(leaf.span.line + leaf.is_block, leaf.span.last_line + leaf.is_block))
    lines: list[str] = []
    blank, needed = _MOST_BLANK_LINES, 0
    for number, line in enumerate(text.split("\n")):
        shown = line if number in kept else line.rstrip(" \t")
        blank = 0 if shown or number in kept else blank + 1
        if blank <= _MOST_BLANK_LINES:
            lines.append(shown)
        if blank == 0:
            needed = len(lines)
    return "\n".join(lines[:needed]) + "\n"


def _refused(message: str, mend: str, where: Origin) -> SpecError:
    return SpecError.of("E420", message, mend, where=where)
