"""Digests of constants."""

from __future__ import annotations

import numpy as np
import pytest

from jobrun.core.errors import DriftError
from jobrun.runner.identity.constant_digests import digest_value, require_same_constants
from jobrun.values.object_state import ObjectFacts
from tests.support.tables import each_case

A = np.arange(6.0)


@each_case(
    "other",
    [
        A.reshape(2, 3), A.astype(np.float32), A.view(np.int64), np.append(A[:-1], 6), A[:5],
        A.tolist(), 0.0, np.array(0.0), np.float64(0.0), 0, "0", None,
    ],
)  # fmt: skip
def test_another_kind_dtype_shape_or_value_is_another_digest(other):
    assert digest_value(other) != digest_value(A)
    assert digest_value(other).startswith("sha256:")


def test_the_layout_in_memory_does_not_count():
    matrix = np.arange(6.0).reshape(2, 3)

    assert digest_value(np.asfortranarray(matrix)) == digest_value(matrix)
    assert digest_value(np.zeros((0, 3))) != digest_value(np.zeros((3, 0)))


def test_python_and_numpy_scalars_differ():
    assert (
        len({digest_value(v) for v in (1, 1.0, True, np.int64(1), np.float64(1), np.array(1))}) == 6
    )


def test_objects_have_no_digest():
    assert digest_value(object()) == ""
    assert digest_value(np.array([object()])) == ""


def test_an_object_is_known_by_its_class_and_a_container_by_all_of_it():
    assert digest_value(ObjectFacts("lib.Model")) == "class lib.Model"
    container = {"a": [1, A], "b": None}
    assert digest_value(container) == digest_value({"a": [1, A.copy()], "b": None})
    assert (
        len({digest_value(v) for v in (container, {"a": [1, A]}, {"a": [2, A], "b": None}, {})})
        == 4
    )


def test_another_constant_is_refused_and_may_be_accepted():
    with pytest.raises(DriftError, match=r"constants\.local\.X") as raised:
        require_same_constants({"local.X": "sha256:1"}, {"local.X": "sha256:2"})

    assert raised.value.faults[0].code == "E371"
    require_same_constants({"local.X": "sha256:1"}, {"local.X": "sha256:2"}, ("constants.local.X",))
