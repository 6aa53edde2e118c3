from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from jobrun.core.errors import EnvironmentFaultError
from jobrun.ops import load_implementation as load
from jobrun.ops.definition import OpDef
from jobrun.ops.implementations.segments import segment_sum
from jobrun.ops.load_implementation import implementation


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
    monkeypatch.setattr(load, "find_operator", lambda name: broken if name == "gone" else None)

    with pytest.raises(EnvironmentFaultError) as caught:
        implementation("gone")

    assert caught.value.faults[0].code == "E129"


def test_own_operators_are_imported_at_their_first_use():
    program = (
        "import sys; from jobrun.ops.load_implementation import implementation;"
        "implementation('len');"
        "assert 'jobrun.ops.implementations.segments' not in sys.modules;"
        "implementation('segment_sum');"
        "assert 'jobrun.ops.implementations.segments' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", program], check=True)
