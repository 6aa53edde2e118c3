import pytest

from jobrun.core.errors import Origin
from jobrun.spec.yaml.parse import read_document
from jobrun.spec.yaml.source_map import SourceMap

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


def test_a_value_has_a_place(source):
    assert source.at(("epoch", 0, "steps", 0)) == Origin("job.yaml", 4, 9, 8, 9)


def test_a_key_has_a_place(source):
    assert source.key(("epoch", 0, "steps")) == Origin("job.yaml", 3, 5, 5, 5)


def test_an_item_of_a_list_is_its_own_key(source):
    assert source.key(("epoch", 0, "steps", 0)) == source.at(("epoch", 0, "steps", 0))


@pytest.mark.parametrize("rest", [("in",), ("in", 0), (7,), ("in", "a", 3)])
def test_what_is_not_there_has_the_place_of_what_is_around_it(source, rest):
    path = ("epoch", 0, "steps", 0)

    assert source.at((*path, *rest)) == source.at(path)
    assert source.key((*path, *rest)) == source.at(path)


def test_the_whole_has_a_place(source):
    assert source.at(()).line == 1
    assert source.key(()).line == 1


def test_columns_behind_a_reference_do_not_map(source):
    where = source.at(("epoch", 0, "steps", 1, "log"))

    assert (where.column, where.text_column) == (14, 0)
    assert where.inside(5) == where


def test_a_fault_inside_an_expression_has_its_column(source):
    assert source.at(("epoch", 0, "steps", 0)).inside(4).column == 13


def test_a_path_finds_what_stands_there(source):
    assert source.node(("epoch", 0, "task")).value == "t"
    assert source.node(("epoch", 1)) is None
