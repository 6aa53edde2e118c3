import pytest

from jobrun.core.errors import Origin
from jobrun.spec.yaml.nodes import (
    Mapping,
    Scalar,
    Sequence,
    child,
    origin_of,
    path_text,
    plain,
    short,
)

PLACE = ("job.yaml", 3, 5, 2, 6)
TREE = Mapping({"a": Sequence([Scalar(1, PLACE), Scalar("x", PLACE)], PLACE)}, {"a": PLACE}, PLACE)


def test_a_place_becomes_an_origin():
    assert origin_of(PLACE) == Origin("job.yaml", 3, 5, 2, 6)


def test_a_tree_becomes_plain_data():
    assert plain(TREE) == {"a": [1, "x"]}


def test_what_is_shared_becomes_separate():
    shared = Sequence([], PLACE)

    one, other = plain(Sequence([shared, shared], PLACE))

    assert one is not other


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
