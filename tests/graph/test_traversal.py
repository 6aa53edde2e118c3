from __future__ import annotations

from hypothesis import given
from msgspec import Struct
from msgspec.structs import replace

from jobrun.graph.expressions import Builtin, Const, Expr, Hole, LoopIndex, Name, Text
from jobrun.graph.traversal import children, map_expr, walk_expr
from tests.support.expressions import expression, trees


def _all_parts(value):
    """Every expression inside a value, found by looking at all fields."""
    if isinstance(value, tuple):
        return [part for item in value for part in _all_parts(item)]
    if isinstance(value, Hole):
        return _all_parts(value.value)
    if not isinstance(value, Struct):
        return []
    parts = [] if isinstance(value, Hole) else [value]
    if isinstance(value, Text):
        return parts + [
            part for item in value.parts if isinstance(item, Hole) for part in _all_parts(item)
        ]
    return parts + [
        part for name in value.__struct_fields__ for part in _all_parts(getattr(value, name))
    ]


@given(trees())
def test_every_part_is_met_exactly_once(tree):
    walked = sorted(map(repr, walk_expr(tree)))

    assert walked == sorted(map(repr, _all_parts(tree)))


def test_parts_come_in_the_order_of_the_text():
    tree = expression("a + f1.b if c < d else sum(e, axis=f)[g:h]")

    names = [part.name for part in walk_expr(tree) if isinstance(part, Name)]

    assert names == ["a", "c", "d", "e", "f", "g", "h"]


def test_the_values_filled_into_a_text_are_parts_of_it():
    text = Text(("a ", Hole(Name("x")), Builtin("epoch")))

    assert children(text) == (Name("x"),)


@given(trees())
def test_a_tree_in_which_nothing_changes_stays_the_same(tree):
    assert map_expr(tree, lambda part: part) == tree


def test_a_part_without_change_stays_the_same_object():
    tree = expression("sum(a, axis=1) + (b if c else d) * x[1, 2] @ [y, (z, w)]")

    assert map_expr(tree, lambda part: part) is tree


@given(trees())
def test_a_change_reaches_every_name(tree):
    def renamed(part: Expr) -> Expr:
        return replace(part, name=f"new_{part.name}") if isinstance(part, Name) else part

    changed = map_expr(tree, renamed)

    assert all(
        part.name.startswith("new_") for part in walk_expr(changed) if isinstance(part, Name)
    )


def test_inner_parts_change_before_outer_ones():
    met: list[str] = []

    def note(part: Expr) -> Expr:
        met.append(type(part).__name__)
        return part

    map_expr(expression("-(a + 1)"), note)

    assert met == ["Name", "Const", "Binary", "Unary"]


def test_a_leaf_can_be_replaced_in_a_text():
    text = Text((Hole(Name("i"), "d"), Builtin("epoch")))

    changed = map_expr(text, lambda part: LoopIndex("l") if part == Name("i") else part)

    assert changed == Text((Hole(LoopIndex("l"), "d"), Builtin("epoch")))
    assert map_expr(Const(1), lambda _: Const(2)) == Const(2)
