"""The runner's own state, to JSON and back."""

from __future__ import annotations

import json
from collections import OrderedDict

import numpy as np
import pytest

from jobrun.core.errors import CheckpointError, TaskFailedError
from jobrun.graph.types import OutputRef
from jobrun.runner.saved_progress import (
    LIMIT_BYTES,
    Patience,
    Progress,
    decode_json,
    encode_json,
    from_json,
    to_json,
)
from tests.support.tables import each_case

FULL = Progress(
    epoch=7,
    elapsed_s=1.5,
    epoch_s=0.1,
    patience=(Patience("loss", 0.25, 2), Patience("other")),
    metrics=(("loss", float("inf")), ("n", 3), ("ok", True)),
    scores=((3, 0.5), (7, 0.25)),
    outputs={OutputRef("t", "local", "x"): np.float32(0.1)},
    stopping=("3 epochs have run",),
    constants={"local.X": "sha256:00"},
    failed_saves=1,
)


def test_progress_round_trips_through_json():
    text = json.dumps(to_json(FULL), allow_nan=False)

    back = from_json(json.loads(text))

    assert back == FULL
    assert type(back.outputs[OutputRef("t", "local", "x")]) is np.float32


def test_the_form_does_not_depend_on_the_order_of_outputs():
    refs = [OutputRef("t", "local", name) for name in "ab"]
    progress = Progress(outputs=dict.fromkeys(refs, 1))
    other = Progress(outputs=dict.fromkeys(reversed(refs), 1))

    assert json.dumps(to_json(progress)) == json.dumps(to_json(other))


@pytest.mark.parametrize("content", [{}, {**to_json(FULL), "outputs": [1]}])
def test_a_form_of_another_make_is_a_checkpoint_error(content):
    with pytest.raises(CheckpointError, match="no valid progress of the run"):
        from_json(content)


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


@each_case("value", VALUES)
def test_value_round_trips_bit_for_bit(value):
    text = json.dumps(encode_json(value, "x"), allow_nan=False)

    assert same(decode_json(json.loads(text)), value)


@pytest.mark.parametrize(
    "value",
    [object(), {"a": memoryview(b"")}, np.array([object()]), np.zeros(LIMIT_BYTES + 1, np.uint8)],
)
def test_unstorable_value_is_refused_by_name(value):
    with pytest.raises(TaskFailedError, match="output big is read after") as raised:
        encode_json(value, "output big")

    assert raised.value.faults[0].code == "E368"


def test_an_unknown_form_is_an_error():
    with pytest.raises(ValueError, match="kind"):
        decode_json({"kind": "pickle"})


def test_containers_keep_their_types_and_what_is_shared_in_them():
    array = np.zeros(2)
    value = {"a": [array, array], "b": (1, None), "c": OrderedDict(x=b"raw")}

    again = decode_json(json.loads(json.dumps(encode_json(value, "output o"))))

    assert type(again["c"]) is OrderedDict
    assert (again["b"], again["c"]["x"]) == ((1, None), b"raw")
    assert again["a"][0] is again["a"][1]
