"""The value rules: whatever is assigned, no two blobs ever observably share memory."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from jobrun.core.errors import TaskFailedError
from jobrun.graph.types import OutputRef
from jobrun.runtime.codegen import coercion
from jobrun.values.compare import same_bits
from jobrun.values.kinds.counter import Counter
from tests.support.step_bench import Bench

RECORD = np.dtype([("a", "<i4"), ("b", "<f8")])


@pytest.fixture(params=[None, ""], ids=["shared names", "private names"])
def shared(request):
    return request.param


@pytest.fixture
def bench():
    with Bench(
        a=np.arange(4.0), b=np.arange(4.0) + 10, M=np.arange(6.0).reshape(2, 3)
    ) as step_bench:
        yield step_bench


# Each: a binding, and a change of one of the two that must not show in the other.
ALIASES = [
    "c = a", "c = a[:]", "c = a[1:3]", "c = a[::-1]", "c = M[0]", "c = M[0, :]", "c = M[...]",
    "c = M[:, None]", "c = M.T", "c = M.T[0]", "c = reshape(M, (3, 2))", "c = ravel(M)",
    "c = a if 1 < 2 else b", "c = b if 1 > 2 else a[1:]", "c = (1 > 2) or a", "c = (1 < 2) and a",
    "c = transpose(M)[0]", "c = squeeze(a)", "d = a; c = d", "d = M[0]; c = d[1:]",
    "c = a; d = c", "c = (a, a)[0]", "c, d = a, a", "c, d = M",
    "c, d = (a, b) if 1 < 2 else (b, a)",
    "c = M[0]; a = b", "d = a; a = a + 1; c = d",
]  # fmt: skip


@pytest.mark.parametrize("text", ALIASES)
def test_a_change_of_the_new_name_does_not_show_in_the_old_ones(bench, shared, text):
    before = {name: bench.blobs[name].copy() for name in ("a", "b", "M")}
    rebound = {part.strip()[0] for part in text.split(";")} & set(before)

    bench.do(f"{text}; c[...] = -1.0", shared=shared)

    for name in set(before) - rebound:
        assert same_bits(bench.blobs[name], before[name]), name
    assert (bench.blobs["c"] == -1).all()


@pytest.mark.parametrize("text", ALIASES)
def test_a_change_of_the_old_names_does_not_show_in_the_new_one(bench, shared, text):
    bench.do(f"{text}; e = c + 0; a[...] = -1.0; b[...] = -1.0; M += 1", shared=shared)

    assert same_bits(bench.blobs["c"], bench.blobs["e"])
    assert not any(
        np.shares_memory(bench.blobs["c"], bench.blobs[name]) for name in ("a", "b", "M")
    )


def test_a_value_assigned_before_a_change_keeps_its_items(bench, shared):
    blobs = bench.do("c = a; row = M[1]; T = M.T; a[0] = 99; M[1, 0] = 98", shared=shared)

    assert blobs["c"].tolist() == [0, 1, 2, 3]
    assert blobs["row"].tolist() == [3, 4, 5]
    assert blobs["T"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_a_view_is_not_copied_if_it_is_never_changed(bench):
    blobs = bench.do("row = M[1]")

    assert np.shares_memory(blobs["row"], blobs["M"])


@pytest.mark.parametrize("change", ["M[0] = 1.0", "M += 1.0", "row += 1.0", "add_at(M, 0, 1.0)",
                                    "add_at(M[0], 0, 1.0)"])  # fmt: skip
def test_a_view_is_copied_when_anybody_changes_either(bench, change):
    blobs = bench.do(f"row = M[1]; {change}")

    assert not np.shares_memory(blobs["row"], blobs["M"])


def test_a_swap_moves_the_arrays(bench, shared):
    a, b = bench.blobs["a"], bench.blobs["b"]

    blobs = bench.do("a, b = b, a; a += 1", shared=shared)

    assert blobs["a"] is b
    assert blobs["b"] is a
    assert blobs["b"].tolist() == [0, 1, 2, 3]
    assert blobs["a"].tolist() == [11, 12, 13, 14]


def test_a_view_of_a_swapped_and_changed_array_keeps_its_values(bench, shared):
    blobs = bench.do("x = a; a, b = b, a; b += 1", shared=shared)

    assert blobs["x"].tolist() == [0, 1, 2, 3]
    assert blobs["b"].tolist() == [1, 2, 3, 4]


def test_a_rotation_of_three_with_a_repeat_copies(bench, shared):
    blobs = bench.do("a, b, c = b, a, a; b[0] = 7", shared=shared)

    assert blobs["c"].tolist() == [0, 1, 2, 3]
    assert blobs["b"].tolist() == [7, 1, 2, 3]


def test_unpacking_an_array_gives_rows_of_their_own(bench, shared):
    blobs = bench.do("M, r = M; M[0] = 50", shared=shared)

    assert blobs["M"].tolist() == [50, 1, 2]
    assert blobs["r"].tolist() == [3, 4, 5]
    assert not np.shares_memory(blobs["M"], blobs["r"])


def test_targets_may_be_items(bench, shared):
    blobs = bench.do("a[0], M[1, 1] = M[1, 2], a[3]", shared=shared)

    assert blobs["a"][0] == 5
    assert blobs["M"][1, 1] == 3


def test_a_record_is_a_copy(bench, shared):
    bench.blobs["table"] = np.zeros(2, RECORD)

    blobs = bench.do("row = table[0]; table['a'] = 5", shared=shared)

    assert blobs["row"]["a"] == 0


def test_a_counter_bound_again_counts_by_itself(bench, shared):
    bench.blobs["n"] = Counter(1)

    blobs = bench.do("m = n; old = count_up(n)", shared=shared)

    assert (blobs["n"].value, blobs["m"].value, blobs["old"]) == (2, 1, 1)


def test_an_output_is_copied_when_bound(bench, shared):
    snapshot = np.zeros(2)
    bench.run.outputs[OutputRef("u", "local", "o")] = snapshot

    blobs = bench.do("c = out('u', 'o'); c += 1", shared=shared)

    assert snapshot.tolist() == [0, 0]
    assert blobs["c"].tolist() == [1, 1]


@pytest.mark.parametrize("part", ["[1]", "[1][::-1]"])
def test_an_item_of_an_output_of_several_instances_is_copied_when_bound(bench, shared, part):
    snapshot = [np.zeros(2), np.ones(2)]
    bench.run.outputs[OutputRef("u", "local", "o")] = snapshot

    blobs = bench.do(f"c = out('u', 'o'){part}; c += 1", shared=shared)

    assert snapshot[1].tolist() == [1, 1]
    assert blobs["c"].tolist() == [2, 2]


def test_a_read_only_result_becomes_writable(bench, shared):
    blobs = bench.do("c = broadcast_to(a + 1, (2, 4)); c[0, 0] = 7", shared=shared)

    assert blobs["c"][1, 0] == 1


def test_an_array_is_changed_in_place(bench, shared):
    a = bench.blobs["a"]

    blobs = bench.do(
        "a += 1; a *= 2; a[0] -= 1; a[1:] **= 2; a **= 1; a @= diag(ones(4))", shared=shared
    )

    assert blobs["a"] is a
    assert a.tolist() == [1, 16, 36, 64]


def test_repeated_indices_count_once_with_augmented_items(bench, shared):
    blobs = bench.do("a[[0, 0, 1]] += 1", shared=shared)

    assert blobs["a"].tolist() == [1, 2, 2, 3]


def test_overlapping_assignment_behaves_as_if_copied(bench, shared):
    blobs = bench.do("a[1:] = a[:-1]", shared=shared)

    assert blobs["a"].tolist() == [0, 0, 1, 2]


def test_in_place_changes_cast_as_numpy_does(bench, shared):
    bench.blobs["i"] = np.arange(3)
    bench.blobs["f"] = np.ones(2, np.float32)

    blobs = bench.do("f += 0.1", shared=shared)
    with pytest.raises(TaskFailedError, match="UFunc"):
        bench.do("i += 0.5", shared=shared)

    assert blobs["f"].dtype == np.float32
    assert bench.blobs["i"].tolist() == [0, 1, 2]


def test_python_scalars_stay_weak_and_numpy_ones_stay_strong(bench, shared):
    bench.blobs["x"] = np.ones(2, np.float32)

    blobs = bench.do(
        "lr = 0.1; half = lr / 2; y = x * half; s = sum(a); z = x * s; k = 3; k += 1",
        shared=shared,
    )

    assert type(blobs["half"]) is float
    assert blobs["y"].dtype == np.float32
    assert type(blobs["s"]) is np.float64
    assert blobs["z"].dtype == np.float64
    assert (type(blobs["k"]), blobs["k"]) == (int, 4)


def test_an_array_of_shape_nothing_stays_an_array(bench, shared):
    bench.blobs["p"] = np.array(2.0)

    blobs = bench.do("q = p; p += 1", shared=shared)

    assert type(blobs["p"]) is np.ndarray
    assert type(blobs["q"]) is np.ndarray
    assert (blobs["p"], blobs["q"]) == (3.0, 2.0)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("c = (1, 2)", (1, 2)),
        ("c = [1.0, 2.0]", [1.0, 2.0]),
        ("c = []", []),
        ("c = M.shape", (2, 3)),
        ("c = M.shape + (1,)", (2, 3, 1)),
        ("c = [a[0], a[1]]", [np.float64(0.0), np.float64(1.0)]),
        ("c = [a, b]", [np.array([0.0, 1, 2, 3]), np.array([10.0, 11, 12, 13])]),
        ("c = [a, 1, None]", [np.array([0.0, 1, 2, 3]), 1, None]),
        ("c = array([a, b])", np.array([[0.0, 1, 2, 3], [10, 11, 12, 13]])),
        ("c = ()", ()),
        ("c = None", None),
    ],
)
def test_a_sequence_stays_what_it_is(bench, shared, text, expected):
    assert same_bits(bench.do(text, shared=shared)["c"], expected)


@pytest.mark.parametrize("text", ["c = float32", "c = a.dtype"])
def test_an_object_that_is_no_value_is_refused(bench, shared, text):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(text, shared=shared)

    assert caught.value.faults[0].code == "E202"
    assert caught.value.faults[0].path == "e/t/steps[0]"


def test_a_deleted_name_is_gone(bench, shared):
    blobs = bench.do("del a, b", shared=shared)

    assert set(blobs) == {"M"}


@pytest.mark.parametrize("text", ["del x", "c = x", "x += 1", "x[0] = 1", "del a; c = a"])
def test_a_missing_blob_is_named(bench, shared, text):
    with pytest.raises(TaskFailedError) as caught:
        bench.do(text, shared=shared)

    fault = caught.value.faults[0]
    assert fault.code == "E201"
    assert f"'{'a' if 'del a' in text else 'x'}'" in fault.message


def test_attributes_of_scalars(bench, shared):
    bench.blobs["v"] = np.array([1.0, 0.5], np.float32)
    blobs = bench.do(
        "x = sum(v); s = x.size; n = x.ndim; t = x.T; z = zeros(2, dtype=x.dtype)", shared=shared
    )

    assert (blobs["s"], blobs["n"], blobs["t"]) == (1, 0, 1.5)
    assert blobs["z"].dtype == np.float32


@pytest.mark.parametrize("value", [True, 3, 1.5, 2j, "text", None, [1, 2], (1, 2), {"a": 1}, b"b"])
@pytest.mark.parametrize("name", ["T", "shape", "size", "ndim", "dtype"])
def test_an_attribute_that_a_value_lacks_in_python_is_refused(shared, value, name):
    for text in (f"y = x.{name}", f"y = (x if 1 < 2 else 0).{name}"):
        with Bench(x=value) as bench, pytest.raises(TaskFailedError) as caught:
            bench.do(text, shared=shared)

        assert [fault.code for fault in caught.value.faults] == ["E225"]
        assert caught.value.faults[0].path == "e/t/steps[0]"


@pytest.mark.parametrize("statement", ["e[:-1] = a", "e[0:2] = a[::-1]", "b, e[:1] = 1, (a,)",
                                       "e[:] = [a, 1]", "e[:1] = e"])  # fmt: skip
def test_a_slice_assignment_to_a_list_refuses_shared_items(shared, statement):
    with Bench(e=[np.zeros(2), 1], a=np.ones((2, 3))) as bench:
        with pytest.raises(TaskFailedError) as caught:
            bench.do(statement, shared=shared)

        assert caught.value.faults[0].code == "E226"
        assert same_bits(bench.blobs["e"], [np.zeros(2), 1])


@pytest.mark.parametrize("value", ["[1, 'a']", "(1, (2, None))", "v", "'ab'", "[]"])
def test_a_slice_of_a_list_takes_numbers_and_text(shared, value):
    vector = np.array([1.5, 2.5])
    expected = [0, 1, 2]
    expected[1:] = eval(value, {"v": vector})

    with Bench(e=[0, 1, 2], v=vector) as bench:
        blobs = bench.do(f"e[1:] = {value}", shared=shared)

        assert same_bits(blobs["e"], expected)


def test_a_huge_integer_power_is_refused(bench, shared):
    for text in ("x = 9; y = x ** (9 ** 9)", "x = 9; x **= 387420489", "y = 1 << 100000000"):
        with pytest.raises(TaskFailedError, match="bits"):
            bench.do(text, shared=shared)


def test_a_shared_name_is_read_once_per_statement(bench):
    class Tricky(dict):
        reads = 0

        def __getitem__(self, name):
            self.reads += 1
            return np.full(1, self.reads)

    bench.frame.t = Tricky()

    bench.do("c = x - x + x * x", shared=None)

    assert dict(bench.frame.t)["c"].tolist() == [1]


TEXT = "x += y; z = x * y; z = z + x; z *= y"
CHECKING = coercion.__name__


def _checks(bench: Bench, x: object, y: object) -> list[str]:
    """Return the functions of this package that the block of ``TEXT`` calls."""
    seen: list[str] = []

    def note(frame, event, _):
        if event == "call" and frame.f_globals.get("__name__") == CHECKING:
            seen.append(frame.f_code.co_name)

    bench.blobs.update(x=x, y=y)
    sys.setprofile(note)
    try:
        bench.do(TEXT, shared="")
    finally:
        sys.setprofile(None)
    return seen


def test_results_computed_from_floats_are_not_checked(bench):
    assert _checks(bench, 1.5, 2.0) == []
    assert "require_bounded" in _checks(bench, 3, 2)


@pytest.mark.parametrize(
    ("x", "y"),
    [(1.5, 2), (1.5, np.arange(3.0)), (1.5, np.float64(2.0)), (3, 2), (np.arange(3), 1.5)],
    ids=str,
)
def test_numbers_of_all_kinds_are_those_of_plain_python(bench, x, y):
    plain = {"x": x if isinstance(x, float | int) else x * 1.0, "y": y}
    exec(TEXT, plain)

    bench.blobs.update(x=x if isinstance(x, float | int) else x * 1.0, y=y)
    bench.do(TEXT, shared="")

    for name in "xyz":
        assert same_bits(bench.blobs[name], plain[name]), name
        assert type(bench.blobs[name]) is type(plain[name])


@pytest.mark.parametrize("text", ["c = x + y", "x += y", "c = x * 2", "x *= 2"])
def test_a_list_is_refused_where_a_float_is_not_checked(bench, text):
    bench.blobs.update(x=[1.0], y=[2.0])

    with pytest.raises(TaskFailedError) as caught:
        bench.do(text, shared="")

    assert caught.value.faults[0].code == "E248"


@pytest.mark.parametrize(
    "text",
    [
        "a += M[0]",
        "a *= M[1, :2] * 3",
        "a = a * 2",
        "a += M[0, 1] * M[1]",
        "a = M[0] + M[1] * M[0]",
    ],
)
def test_an_array_needs_no_check_for_lists_and_long_integers(monkeypatch, text):
    checked = []
    for name in ("as_operand", "require_bounded"):
        whole = getattr(coercion, name)
        monkeypatch.setattr(
            coercion, name, lambda value, whole=whole: checked.append(value) or whole(value)
        )

    with Bench(a=np.arange(2.0), M=np.ones((2, 2))) as bench:
        bench.do(text, shared="")
        assert not any(isinstance(value, np.ndarray) for value in checked)
