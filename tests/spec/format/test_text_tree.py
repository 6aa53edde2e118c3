"""Places in a text."""

from __future__ import annotations

from jobrun.spec.format.text_tree import Entries, Items, tree_of


def test_each_key_and_value_knows_its_text():
    text = "a: 1\nb:\n  - x y\n  - {c: [d]}\n"
    tree = tree_of(text)

    assert isinstance(tree, Entries)
    assert [text[key.span.start : key.span.end] for key in tree.keys] == ["a", "b"]
    items = tree.values[1]
    assert isinstance(items, Items)
    assert [text[one.span.start : one.span.end] for one in items.items] == ["x y", "{c: [d]}"]
    assert (tree.span.last_line, items.span.line, items.span.column) == (3, 2, 2)


def test_an_anchor_does_not_move_where_a_block_begins():
    tree = tree_of("a: &x   # here\n  b: 1\nc: &y\n  - 1\n")

    assert [(value.span.line, value.span.column) for value in tree.values] == [(1, 2), (3, 2)]


def test_a_block_of_text_ends_with_its_last_line_unless_blank_lines_are_kept():
    assert tree_of("a: |\n  x\n\n\nb: 1\n").values[0].span.last_line == 1
    assert tree_of("a: |+\n  x\n\n\nb: 1\n").values[0].span.last_line == 3
