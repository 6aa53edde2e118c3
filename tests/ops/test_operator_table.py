from __future__ import annotations

import subprocess
import sys

from jobrun.core.text.names import BLOB_NAME
from jobrun.graph.expressions import BUILTINS, DTYPES
from jobrun.ops.builtin_operators.creation import CREATION
from jobrun.ops.builtin_operators.elementwise import ELEMENTWISE
from jobrun.ops.builtin_operators.linear import LINEAR
from jobrun.ops.builtin_operators.reduction import REDUCTION
from jobrun.ops.builtin_operators.searching import SEARCHING
from jobrun.ops.builtin_operators.segments_and_scatter import SEGMENTS_AND_SCATTER
from jobrun.ops.builtin_operators.shaping import SHAPING
from jobrun.ops.operator_table import DRAWS, OPERATORS

# They run code, read files or memory, make what no blob holds, or are no function of anything.
NEVER = (
    "apply_along_axis apply_over_axes vectorize frompyfunc fromfunction fromiter piecewise "
    "fromstring frombuffer fromfile loadtxt genfromtxt load save savez savetxt memmap fromregex "
    "empty empty_like nditer getattr eval exec open asarray put place putmask copyto fill_diagonal "
    "shuffle busday_count datetime64 ndarray dtype object_ void errstate seterr set_printoptions"
)


def test_every_family_is_in_the_table():
    families = (ELEMENTWISE, REDUCTION, CREATION, SHAPING, LINEAR, SEARCHING, SEGMENTS_AND_SCATTER)

    assert sum(map(len, families)) == len(OPERATORS)


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
    assert {name for name, one in OPERATORS.items() if one.atomic} == {
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
    unruled = [one.name for one in (*OPERATORS.values(), *DRAWS.values()) if one.rule is None]

    assert unruled == []
