from __future__ import annotations

import numpy as np
import pytest
from msgspec.structs import replace

from jobrun.runtime.context.rng import StreamKey, make_stream, spawn_key

KEY = StreamKey("epoch", 3, "trainer_0", "sgd", 1, "epoch/sgd")


def test_streams_never_change():
    """Known answers: another number here means that old runs cannot be repeated any more."""
    assert spawn_key(KEY) == SPAWN_KEY
    drawn = make_stream(7, KEY)
    assert drawn.bit_generator.random_raw(3).tolist() == RAW
    assert [number.hex() for number in make_stream(7, KEY).random(2).tolist()] == UNIFORM
    assert [number.hex() for number in make_stream(7, KEY).normal(size=2).tolist()] == NORMAL
    assert make_stream(2**80, KEY).integers(0, 1000, 4).tolist() == LARGE_SEED


@pytest.mark.parametrize(
    "change",
    [
        {"group": "init"}, {"epoch": 4}, {"node": "trainer_1"}, {"task": "sgd2"},
        {"instance": 0}, {"block_path": "epoch/sgd/report[0]"},
    ],
    ids=str,
)  # fmt: skip
def test_each_part_of_the_key_makes_another_stream(change):
    other = replace(KEY, **change)

    assert make_stream(7, other).random() != make_stream(7, KEY).random()


def test_parts_do_not_run_into_each_other():
    first = replace(KEY, node="a,b", task="c")
    second = replace(KEY, node="a", task="b,c")

    assert spawn_key(first) != spawn_key(second)


def test_a_stream_does_not_depend_on_others_made_before():
    expected = make_stream(7, KEY).random(3)
    for epoch in range(5):
        make_stream(7, replace(KEY, epoch=epoch)).random()

    assert make_stream(7, KEY).random(3).tolist() == expected.tolist()


def test_the_generator_is_the_one_that_is_named():
    assert isinstance(make_stream(7, KEY).bit_generator, np.random.PCG64DXSM)


SPAWN_KEY = (
    2656887922,
    441440717,
    1055732636,
    125648620,
    2185166129,
    96530681,
    1475809957,
    3656258193,
)
RAW = [12580218275689227608, 5492789013980640540, 13206187164298997018]
UNIFORM = ["0x1.5d2bd3bcdeaacp-1", "0x1.30e93a0651efcp-2"]
NORMAL = ["-0x1.27878ed133a90p-1", "-0x1.323a66976e46bp-2"]
LARGE_SEED = [211, 497, 814, 533]
