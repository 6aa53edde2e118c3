from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as nps
from msgspec.structs import replace

import jobrun
from jobrun.checkpoint.write.writer import write_state
from jobrun.core.errors import CheckpointError
from jobrun.tools.diff import (
    compare_run_with_spec,
    compare_runs,
    compare_states,
    compare_stored,
    compare_values,
)
from jobrun.tools.inspection import inspect
from jobrun.tools.lazy_blobs import find_stored_epoch
from jobrun.values.kinds.counter import Counter
from tests.support.sample_runs import make_run


def test_runs_of_one_spec_do_not_differ(tmp_path):
    difference = compare_runs(make_run(tmp_path), make_run(tmp_path))

    assert (difference.spec, difference.code, difference.environment) == ((), (), ())
    assert difference.state_is_equal
    assert difference.epochs == (4, 4)
    assert difference.metrics == (("x", 0.5, 0.5),)


def test_specs_states_and_metrics_of_others_do(tmp_path):
    difference = compare_runs(make_run(tmp_path), make_run(tmp_path, "other", limit=3.0))

    assert {change.field for change in difference.spec} >= {"name"}
    assert not difference.state_is_equal
    assert difference.epochs == (4, 1)
    assert difference.metrics == (("x", 0.5, 4.0),)


def test_named_epochs_are_compared(tmp_path):
    run = make_run(tmp_path)

    assert compare_runs(run, run, ("2", "2")).state_is_equal
    assert compare_runs(run, run, ("1", "2")).state[0].apart.largest == 2.0
    with pytest.raises(CheckpointError):
        compare_runs(run, run, ("1", "9"))


def test_a_run_is_compared_with_its_spec_as_it_is_now(tmp_path):
    run = make_run(tmp_path)
    spec = tmp_path / "shrink.yaml"
    assert compare_run_with_spec(run, jobrun.load(spec)).spec == ()
    spec.write_text(spec.read_text().replace("x / 2", "x / 3"))

    (change,) = compare_run_with_spec(run, jobrun.load(spec)).spec

    assert change.kind == "semantic"
    assert "x / 3" in change.after


def test_each_blob_of_either_is_compared(tmp_path):
    first, second = (inspect(f"{make_run(tmp_path).path}@{epoch}", tmp_path) for epoch in (1, 2))

    (blob,) = compare_states(first, second)

    assert (blob.node, blob.name) == ("local", "x")
    assert blob.apart.largest == 2.0


def test_a_blob_that_one_side_lacks_is_described(tmp_path):
    path = make_run(tmp_path).path
    whole, empty = inspect(str(path), tmp_path), inspect(str(path), tmp_path)
    empty = replace(empty, files=())

    assert compare_states(whole, empty)[0].apart.words == "Python float | not there"
    assert compare_states(empty, whole)[0].apart.words == "not there | Python float"


def stored(folder, name, **values):
    path = folder / f"{name}.h5"
    write_state(str(path), node="local", epoch=1, run_id="r", values=values)
    return find_stored_epoch(str(path), Path("runs"))


def differences(first, second):
    return {blob.name: blob for blob in compare_stored(first, second)}


def test_each_kind_of_difference_is_reported(tmp_path):
    first = stored(tmp_path, "a", same=np.arange(3), w=np.zeros(4), d=np.zeros(2), s=1.0, gone=1)
    second = stored(
        tmp_path, "b", same=np.arange(3), w=np.full(4, 0.5), d=np.zeros(2, "f4"), s=1, new="x"
    )

    by_name = differences(first, second)

    assert by_name["same"].apart.equal
    assert (by_name["w"].apart.count, by_name["w"].apart.largest) == (4, 0.5)
    assert "float32" in by_name["d"].apart.words
    assert by_name["s"].apart.words
    assert (by_name["gone"].only_in, by_name["new"].only_in) == ("first", "second")
    assert list(by_name)[-1] == "new"


def test_one_blob_is_in_memory_at_a_time(tmp_path):
    values = {f"b{n}": np.full(250_000, float(n)) for n in range(16)}
    first, second = stored(tmp_path, "a", **values), stored(tmp_path, "b", **values)

    tracemalloc.start()
    count = sum(blob.apart.equal for blob in compare_stored(first, second))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert count == 16
    # 32 MB on each side; a blob has two, and reading and comparing take a few times that.
    assert most < 20_000_000


def test_damage_is_an_error_not_a_difference(tmp_path):
    first = stored(tmp_path, "a", w=np.zeros(100_000))
    stored(tmp_path, "b", w=np.zeros(100_000))
    path = tmp_path / "b.h5"
    data = bytearray(path.read_bytes())
    data[500_000] ^= 1
    path.write_bytes(data)

    with pytest.raises(CheckpointError, match="E303"):
        differences(first, find_stored_epoch(str(path), Path("runs")))


def test_the_same_bits_are_equal():
    assert compare_values(np.array([1.0, math.nan]), np.array([1.0, math.nan])).equal


def test_floats_are_compared_by_count_distance_ulps_and_norm():
    first = np.array([3.0, 4.0, 0.0])
    second = first.copy()
    second[1] = np.nextafter(np.nextafter(4.0, 5.0), 5.0)

    difference = compare_values(first, second)

    assert (difference.count, difference.size, difference.ulps) == (1, 3, 2)
    assert difference.largest == second[1] - 4.0
    assert difference.relative == (second[1] - 4.0) / 5.0


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_ulps_are_counted_across_zero(dtype):
    tiny = np.nextafter(np.zeros(1, dtype), np.ones(1, dtype))

    # -tiny, -0.0, 0.0, tiny
    assert compare_values(-tiny, tiny).ulps == 3


def test_both_zeros_differ_by_one_place_and_by_nothing():
    difference = compare_values(np.array(0.0), np.array(-0.0))

    assert (difference.equal, difference.count, difference.ulps, difference.largest) == (
        False,
        1,
        1,
        0.0,
    )


def test_integers_at_both_ends_of_their_range_are_as_far_apart_as_they_are():
    difference = compare_values(np.array([-(2**63)]), np.array([2**63 - 1]))

    assert difference.largest == 2**64 - 1


def test_complex_numbers_and_bools_are_compared_too():
    difference = compare_values(np.array([1 + 1j]), np.array([1 + 2j]))
    assert (difference.largest, difference.count) == (1.0, 1)
    assert compare_values(np.array([True, False]), np.array([True, True])).largest == 1


def test_values_that_are_not_finite_count_but_have_no_distance():
    difference = compare_values(np.array([math.nan, 1.0]), np.array([0.0, 1.5]))

    assert (difference.count, difference.largest, difference.relative) == (2, 0.5, None)
    assert compare_values(np.array([math.inf]), np.array([0.0])).largest is None


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (1.0, 1, "Python float 1.0 | Python int 1"),
        (np.zeros(2), np.zeros(3), "float64 array of shape (2,) | float64 array of shape (3,)"),
        (np.zeros(1), np.zeros(1, ">f8"), "float64 array of shape (1,) | >f8 array of shape (1,)"),
        ("a", "b", "'a' | 'b'"),
        ("a" * 90, "b", "other values"),
        (np.array(["a"]), np.array(["b"]), "other values"),
    ],
)
def test_values_that_are_no_numbers_are_described(first, second, words):
    difference = compare_values(first, second)

    assert not difference.equal
    assert difference.words == words


def test_python_numbers_and_counters_have_distances():
    assert compare_values(1.0, 1.5).largest == 0.5
    assert compare_values(Counter(3), Counter(8)).largest == 5
    assert compare_values(np.float32(1), np.float32(2)).relative == 1.0


DTYPES = st.sampled_from(["f2", "f4", "f8", ">f4", "i1", "u2", "i8", "u8", "c8", "?"])


@given(DTYPES.flatmap(lambda dtype: st.tuples(*[nps.arrays(dtype, (4,))] * 2)))
def test_the_count_is_that_of_elements_with_other_bits(pair):
    first, second = pair

    difference = compare_values(first, second)

    expected = sum(a.tobytes() != b.tobytes() for a, b in zip(first, second, strict=True))
    assert difference.count == expected
    assert difference.equal == (expected == 0)
    assert difference.largest is None or difference.largest >= 0


def test_numbers_of_bfloat16_are_compared_as_numbers():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    first = np.array([1, 2, 3], ml_dtypes.bfloat16)

    difference = compare_values(first, np.array([1, 2, 3.5], ml_dtypes.bfloat16))

    assert (difference.count, difference.size, difference.largest, difference.ulps) == (
        1,
        3,
        0.5,
        None,
    )


@pytest.mark.parametrize(
    ("first", "second", "words"),
    [
        (0.0, np.float64(2.5), "Python float 0.0 | numpy float64 scalar 2.5"),
        (1, True, "Python int 1 | Python bool True"),
    ],
)
def test_numbers_of_other_kinds_are_shown(first, second, words):
    assert compare_values(first, second).words == words
