"""Values as JSON and back, compared by kind, dtype, shape and bits."""

from __future__ import annotations

import json

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.runner.encode import LIMIT_BYTES, decode, encode

VALUES = [
    None, True, False, 0, -(2**80), 0.1, -0.0, float("inf"), float("-inf"), 1j, complex("nan"),
    "text", "ä\x00", [1, 2.5], (1, (True, "a")), [],
    np.float64(0.1), np.float32(0.1), np.int8(-3), np.bool_(True), np.complex64(1 + 2j),
    np.array(3.0), np.zeros((0, 4), np.int16), np.arange(6.0).reshape(2, 3).T,
    np.array([np.nan, -0.0]), np.array(["a", "bc"]), [np.float64(1), np.ones(2)],
]  # fmt: skip


def same(a, b):
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, np.ndarray | np.generic):
        return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    return repr(a) == repr(b)


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_value_comes_back_bit_for_bit(value):
    text = json.dumps(encode(value, "x"), allow_nan=False)

    assert same(decode(json.loads(text)), value)


@pytest.mark.parametrize(
    "value", [object(), {"a": 1}, np.array([object()]), np.zeros(LIMIT_BYTES + 1, np.uint8)]
)
def test_what_cannot_be_stored_is_refused_by_name(value):
    with pytest.raises(TaskFailedError, match="output big is read after") as raised:
        encode(value, "output big")

    assert raised.value.faults[0].code == "E368"


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match="kind"):
        decode({"kind": "pickle"})
