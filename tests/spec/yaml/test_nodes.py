from __future__ import annotations

import pytest

from jobrun.core.errors import Origin
from jobrun.spec.yaml.nodes import (
    Mapping,
    Scalar,
    Sequence,
    SourceMap,
    child,
    origin_of,
    path_text,
    plain,
    short,
)
from jobrun.spec.yaml.parse import read_document

PLACE = ("job.yaml", 3, 5, 2, 6)
TREE = Mapping({"a": Sequence([Scalar(1, PLACE), Scalar("x", PLACE)], PLACE)}, {"a": PLACE}, PLACE)


def test_a_place_becomes_an_origin():
    assert origin_of(PLACE) == Origin("job.yaml", 3, 5, 2, 6)


def test_a_tree_becomes_plain_data():
    assert plain(TREE) == {"a": [1, "x"]}


def test_shared_nodes_become_separate_data():
    shared = Sequence([], PLACE)

    first, second = plain(Sequence([shared, shared], PLACE))

    assert first is not second


def test_children_are_found_by_key_and_index():
    assert child(child(TREE, "a"), 1) == Scalar("x", PLACE)


@pytest.mark.parametrize(
    ("node", "segment"),
    [(TREE, "b"), (TREE, 0), (TREE.values["a"], 2), (TREE.values["a"], -1), (TREE.values["a"], "a"),
     (Scalar(1, PLACE), "a")],
)  # fmt: skip
def test_a_child_that_is_not_there_is_none(node, segment):
    assert child(node, segment) is None


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), ""),
        (("stop",), "stop"),
        (("stop", 0, "when"), "stop[0].when"),
        ((0, 1, "a"), "[0][1].a"),
    ],
)
def test_paths_read_as_people_write_them(path, text):
    assert path_text(path) == text


def test_a_long_key_is_cut_in_messages():
    assert short("a" * 60) == "a" * 60
    assert short("a" * 61) == "a" * 59 + "…"
    assert path_text(("a" * 1000, 0)) == "a" * 59 + "…[0]"


TEXT = """\
epoch:
  - task: t
    steps:
      - x = f(a)
      - log: "${run.dir} {x}"
"""


@pytest.fixture
def source():
    return SourceMap(read_document(TEXT, "job.yaml").root)


def test_a_value_has_a_position(source):
    assert source.at(("epoch", 0, "steps", 0)) == Origin("job.yaml", 4, 9, 8, 9)


def test_a_key_has_a_position(source):
    assert source.key(("epoch", 0, "steps")) == Origin("job.yaml", 3, 5, 5, 5)


def test_an_item_of_a_list_is_its_own_key(source):
    assert source.key(("epoch", 0, "steps", 0)) == source.at(("epoch", 0, "steps", 0))


@pytest.mark.parametrize("missing", [("in",), ("in", 0), (7,), ("in", "a", 3)])
def test_a_missing_node_has_the_position_of_its_parent(source, missing):
    path = ("epoch", 0, "steps", 0)

    assert source.at((*path, *missing)) == source.at(path)
    assert source.key((*path, *missing)) == source.at(path)


def test_the_root_has_a_position(source):
    assert source.at(()).line == 1
    assert source.key(()).line == 1


def test_columns_behind_a_reference_do_not_map(source):
    where = source.at(("epoch", 0, "steps", 1, "log"))

    assert (where.column, where.text_column) == (14, 0)
    assert where.inside(5) == where


def test_a_fault_inside_an_expression_has_its_column(source):
    assert source.at(("epoch", 0, "steps", 0)).inside(4).column == 13


def test_a_path_finds_its_node(source):
    assert source.node(("epoch", 0, "task")).value == "t"
    assert source.node(("epoch", 1)) is None
