from __future__ import annotations

import sys
from importlib.metadata import EntryPoint

import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.ops import plugins
from jobrun.ops.load_implementation import implementation
from jobrun.ops.operator_table import OPERATORS
from jobrun.ops.plugins import GROUP, find_operator, load_operators
from tests.support.expressions import expression, fault

MODULE = """
from jobrun.ops.definition import OpDef

twice = OpDef("twice", "(x, /)", "jobrun_extra:double", "x + x", "twice(2)")
other_name = OpDef("other", "(x, /)", "jobrun_extra:double", "x + x", "other(2)")
in_place = OpDef("in_place", "(x, /)", "jobrun_extra:double", "x", "in_place(2)", mutates=(0,))
no_definition = 3


def double(x):
    return x + x
"""


@pytest.fixture
def extra(tmp_path, monkeypatch):
    """Entry points of a package, as if it were installed."""
    (tmp_path / "jobrun_extra.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield lambda name, attribute=None: EntryPoint(name, f"jobrun_extra:{attribute or name}", GROUP)
    sys.modules.pop("jobrun_extra", None)


@pytest.fixture
def installed(monkeypatch):
    """Sets which entry points there are."""

    def install(*points):
        monkeypatch.setattr(plugins, "installed_points", lambda: points)
        plugins._installed.cache_clear()

    yield install
    plugins._installed.cache_clear()
    implementation.cache_clear()


def test_an_operator_of_a_package_is_used_like_any_other(extra, installed):
    installed(extra("twice"))

    assert find_operator("twice").doc == "x + x"
    assert implementation("twice")(4) == 8
    assert expression("twice(x)").function == "twice"
    assert fault(expression, "twice(x, y)")[0] == "E105"


def test_packages_are_looked_at_only_for_a_name_that_is_not_built_in(monkeypatch):
    def never():
        raise AssertionError

    monkeypatch.setattr(plugins, "installed_points", never)
    plugins._installed.cache_clear()

    assert find_operator("sum") is OPERATORS["sum"]


def test_there_is_no_operator_of_another_name(installed):
    installed()

    assert find_operator("twice") is None


@pytest.mark.parametrize(
    ("name", "attribute", "part"),
    [
        ("sum", "twice", "already"),
        ("twice", "other_name", "not an OpDef of that name"),
        ("no_definition", None, "not an OpDef"),
        ("in_place", None, "in place"),
        ("missing", None, "cannot be imported"),
    ],
)
def test_what_cannot_be_used_is_said_to_be_so(extra, name, attribute, part):
    with pytest.raises(EnvironmentFaultError) as caught:
        load_operators((extra(name, attribute),))

    (found,) = caught.value.faults
    assert found.code == "E128"
    assert part in found.message
    assert GROUP in found.mend


def test_two_packages_with_one_name_clash(extra):
    with pytest.raises(EnvironmentFaultError, match="already"):
        load_operators((extra("twice"), extra("twice")))
