from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint

import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.text.names import BLOB_NAME
from jobrun.graph.expressions import BUILTINS, DTYPES
from jobrun.ops import operator_table
from jobrun.ops.declarations.creation import CREATION
from jobrun.ops.declarations.elementwise import ELEMENTWISE
from jobrun.ops.declarations.linear import LINEAR
from jobrun.ops.declarations.reduction import REDUCTION
from jobrun.ops.declarations.searching import SEARCHING
from jobrun.ops.declarations.segments_and_scatter import SEGMENTS_AND_SCATTER
from jobrun.ops.declarations.shaping import SHAPING
from jobrun.ops.declarations.signals import SIGNALS
from jobrun.ops.definition import OpDef
from jobrun.ops.numpy_implementations import segment_sum
from jobrun.ops.operator_table import (
    DRAWS,
    GROUP,
    OPERATORS,
    by_name,
    find_operator,
    implementation,
    load_operators,
)
from tests.support.expressions import expression, fault

# They run code, read files or memory, make what no blob holds, or are no function of anything.
NEVER = (
    "apply_along_axis apply_over_axes vectorize frompyfunc fromfunction fromiter piecewise "
    "fromstring frombuffer fromfile loadtxt genfromtxt load save savez savetxt memmap fromregex "
    "empty empty_like nditer getattr eval exec open asarray put place putmask copyto fill_diagonal "
    "shuffle busday_count datetime64 ndarray dtype object_ void errstate seterr set_printoptions"
)


def test_every_family_is_in_the_table():
    families = (
        ELEMENTWISE, REDUCTION, CREATION, SHAPING, LINEAR, SIGNALS, SEARCHING, SEGMENTS_AND_SCATTER
    )  # fmt: skip

    assert sum(map(len, families)) == len(OPERATORS)


def test_two_operators_of_one_name_are_an_error():
    operator = OpDef("f", "(x, /)", "m:f", "does f", "f(1)")

    assert by_name((operator,)) == {"f": operator}
    with pytest.raises(ValueError, match="'f'"):
        by_name((operator,), (operator,))


def test_what_reaches_further_than_values_is_left_out():
    assert not set(NEVER.split()) & {*OPERATORS, *DRAWS}


def test_names_are_names_and_collide_with_no_other_word():
    words = {*DTYPES, *BUILTINS, "rng", "iter", "node", "stop", "forever"}

    assert all(BLOB_NAME.fullmatch(name) for name in (*OPERATORS, *DRAWS))
    assert not words & OPERATORS.keys()


def test_what_version_one_promises_is_there():
    promised = "sum sqrt maximum argmin where len segment_sum counter count_up count_down add_at"
    assert set(promised.split()) <= OPERATORS.keys()
    assert OPERATORS["segment_sum"].results == 2
    assert {"choice", "normal", "permutation"} <= DRAWS.keys()


def test_only_counters_are_atomic():
    assert {name for name, operator in OPERATORS.items() if operator.atomic} == {
        "count_up",
        "count_down",
        "atomic_add",
        "atomic_max",
        "count_reset",
    }


def test_reading_the_table_imports_no_numpy():
    program = "import sys, jobrun.ops.operator_table; assert 'numpy' not in sys.modules"

    subprocess.run([sys.executable, "-c", program], check=True)


def test_each_operator_and_draw_has_a_rule():
    # Were there one of which nothing can be known, its name and the reason would stand here.
    unruled = [
        definition.name
        for definition in (*OPERATORS.values(), *DRAWS.values())
        if definition.rule is None
    ]

    assert unruled == []


def test_a_name_leads_to_its_function():
    assert implementation("exp") is np.exp
    assert implementation("segment_sum") is segment_sum
    assert implementation("len") is len


def test_the_function_is_the_same_each_time():
    assert implementation("where") is implementation("where")


def test_an_unknown_name_is_named_with_the_nearest():
    with pytest.raises(KeyError, match=r"'sqrroot'.*'sqrt'"):
        implementation("sqrroot")


def test_an_operator_whose_package_is_gone_says_so(monkeypatch):
    broken = OpDef("gone", "(x, /)", "no_such_package:gone", "does nothing", "gone(1)")
    monkeypatch.setattr(
        operator_table, "find_operator", lambda name: broken if name == "gone" else None
    )

    with pytest.raises(EnvironmentFaultError) as caught:
        implementation("gone")

    assert caught.value.faults[0].code == "E129"


def test_own_operators_are_imported_at_their_first_use():
    program = (
        "import sys; from jobrun.ops.operator_table import implementation;"
        "implementation('len');"
        "assert 'jobrun.ops.numpy_implementations' not in sys.modules;"
        "implementation('segment_sum');"
        "assert 'jobrun.ops.numpy_implementations' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


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
        monkeypatch.setattr(operator_table, "installed_points", lambda: points)
        operator_table._installed.cache_clear()

    yield install
    operator_table._installed.cache_clear()
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

    monkeypatch.setattr(operator_table, "installed_points", never)
    operator_table._installed.cache_clear()

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
def test_an_unusable_plug_in_is_refused(extra, name, attribute, part):
    with pytest.raises(EnvironmentFaultError) as caught:
        load_operators((extra(name, attribute),))

    (actual,) = caught.value.faults
    assert actual.code == "E128"
    assert part in actual.message
    assert GROUP in actual.mend


def test_two_packages_with_one_name_clash(extra):
    with pytest.raises(EnvironmentFaultError, match="already"):
        load_operators((extra("twice"), extra("twice")))
