from __future__ import annotations

import numpy as np
import pytest

from jobrun.graph.expressions import Const
from jobrun.graph.query import ops
from jobrun.graph.steps import If, Loop
from jobrun.runtime.codegen import coercion, copy_elision
from jobrun.runtime.codegen.compiler import compile_block
from jobrun.runtime.codegen.control_flow import inlined_steps
from jobrun.runtime.codegen.copy_elision import NO_VIEWS, find_moves, find_views
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.testing.graphs import expr, steps
from tests.support.step_bench import Bench
from tests.support.tables import each_case


def names_of(body, outliving):
    usage = collect_usage(body)
    return BlockNames({}, frozenset(), frozenset(outliving.split()), frozenset(usage.changed))


def found_views(*parts, outliving="M N x"):
    body = steps(*parts)
    names, private = names_of(body, outliving), frozenset(collect_usage(body).used)
    move_plan = find_moves(body, private - frozenset(outliving.split()))
    inlined = frozenset(map(id, inlined_steps(body)))
    return body, find_views(body, "e/t", inlined, names, private, frozenset(), move_plan)


def shared(*parts, **more):
    body, views = found_views(*parts, **more)
    return [
        f"{target.name}{'' if views.gaps[id(op), number] else ' dense'}"
        for op in ops(body)
        for number, target in enumerate(getattr(op, "targets", ()))
        if (id(op), number) in views.gaps
    ]


@each_case(
    ("text", "expected"),
    [
        ("u = M[1:]; M[0] = u[0]", ["u"]),
        ("u = M[1:]; M[0] = 5; x = u * 2", []),
        ("u = M[1:]; x = u * 2; M[0] = 5", ["u"]),
        ("u = M[1:]; u += 1; M[0] = 5; x = u * 2", []),
        ("u = M[1:]; M = u * 2; M[0] = 5", ["u"]),
        ("u = M[1:]; M = N * 2; M[0] = 5; x = u * 2", ["u"]),
        ("u = M.T; M[0] = 5; u = N.T; x = u * 2; N[0] = 5", ["u", "u"]),
        ("u, v = M[0], M[1]; x = u * v; M[0] = x", ["u", "v"]),
        ("u, v = M[0], M[1]; u += 1; x = u * v; M[0] = 5", ["v"]),
        ("u, v = M; M += u; M += v", ["u"]),
        ("u = M[1:]; v = u[::2]; x = v * 2; M += 1", ["u"]),
        ("u = M[1:]; v = u[::2]; M += 1; x = v * 2", []),
        ("M[0], u = 5, M[1]; x = u * 2", []),
        ("u = M[0]; M[1], M[0] = 5, u", []),
        ("u = M[0]; M[[0, 1]] = u", []),
        ("u = M[0]; M[0:2] = u", ["u"]),
        ("u = M[0]; M @= u", []),
        ("u = M[0]; add_at(M, 0, u)", []),
        ("u = M[0]; x = sum(u); M[0] = 5", ["u dense"]),
        ("u = M[0]; x = u + exp(u * 2); M[0] = 5", ["u"]),
        ("u = M[0]; v = u[1:]; x = v @ v; M[0] = 5", ["u dense"]),
        ("u = reshape(M, -1); x = u + 1; M[0] = 5", ["u dense"]),
    ],
)  # fmt: skip
def test_a_view_is_bound_where_no_write_is_seen(text, expected):
    assert shared(text) == expected


def test_a_view_that_the_next_pass_reads_sees_no_write_of_this_one():
    assert shared("u = N[0]", Loop(Const(3), steps("x = u + 1; N[0] = x"))) == []
    assert shared(Loop(Const(3), steps("u = N[0]; x = u + 1; N[0] = x"))) == ["u"]


def test_a_write_in_a_branch_counts():
    branch = If(((expr("x > 0"), steps("M[0] = 5")),))

    assert shared("u = M[1]", branch, "x = u + 1") == []
    assert shared("u = M[1]; x = u + 1", branch) == ["u"]


def test_arrays_that_change_places_are_not_copied():
    passing = steps("n = zeros_like(M); n[0] = M[0] + N[0]; N, M = M, n")
    _, views = found_views(Loop(Const(3), passing))

    assert len(views.gaps) == 1
    assert views.at_end == {"M": (), "N": ()}


def test_a_blob_that_a_checkpoint_may_read_is_not_changed_through_another_name():
    # M's old array may be saved at this moment; that N is changed says nothing of it.
    assert shared("N = M; M = x * 2; N[0] = 5") == []


def test_a_block_too_large_to_analyse_copies(monkeypatch):
    monkeypatch.setattr(copy_elision, "_MOST_VISITS", 3)

    assert found_views("u = M[1:]; M[0] = u[0]")[1] == NO_VIEWS


def run(text, *, outliving, **blobs):
    body = steps(text)
    with Bench(**blobs) as bench:
        compile_block(body, "e/t", names_of(body, outliving), lambda step: None).run(bench.frame)
        return bench.blobs


@pytest.fixture
def looked_at(monkeypatch):
    """The values that are looked at one by one before they are bound as views."""
    collected, whole = [], coercion.as_view
    monkeypatch.setattr(
        coercion,
        "as_view",
        lambda value, *sources: collected.append(value) or whole(value, *sources),
    )
    return collected


def run_passes(*parts, outliving="M N x", passes=3, **blobs):
    body = (Loop(Const(passes), steps(*parts), "e/t/loop"),)
    with Bench(**blobs) as bench:
        compile_block(body, "e/t", names_of(body, outliving), lambda step: None).run(bench.frame)
        return bench.blobs


@pytest.mark.parametrize(
    ("text", "times"),
    [
        ("u = M[1:]; x = u * 2.0; M[0] = 5.0", 0),
        ("u, v = M[1:], M[:-1, 1:]; x = u[:, 1:] * v; M[0] = 5.0", 0),
        ("u = M[1:]; x = u * 2.0; M = N * 2.0; M[0] = 5.0", 3),
        ("u = M[1:]; x = u * 2.0; N, M = M, N; M[0] = 5.0", 3),
        ("u = M[1:]; x = u * 2.0; M += 1.0", 3),
    ],
)
def test_parts_of_an_array_that_no_pass_replaces_are_looked_at_before_the_loop(
    looked_at, text, times
):
    run_passes(text, M=np.ones((3, 4)), N=np.ones((3, 4)), x=0)

    assert sum(value.shape[0] == 2 for value in looked_at) == times


@pytest.mark.parametrize("kind", ["complex", "read-only", "list"])
def test_arrays_that_a_loop_replaces_are_checked_in_each_pass(looked_at, kind):
    array = np.arange(12.0).reshape(4, 3)
    source = {"complex": array * 1j, "read-only": array, "list": [1, 2, 3, 4]}[kind]
    if kind == "read-only":
        source.flags.writeable = False
    never = If(((expr("N > 0"), steps("M[0] = 5")),))
    part = "M[1:3]" if kind == "list" else "M[1:3, ::2]"

    blobs = run_passes(f"u = {part}; x = u[0] * 1.0", never, M=source, N=0)

    assert len(looked_at) == 3
    assert np.array_equal(blobs["x"], 2.0 if kind == "list" else source[1, ::2])


def test_a_name_need_not_exist_before_its_loop():
    with pytest.raises(UnboundLocalError):
        run_passes("u = M[1:]; x = u * 2.0; M[0] = 5.0")
    assert "x" not in run_passes("u = M[1:]; x = u * 2.0; M[0] = 5.0", passes=0)


def test_blobs_that_outlive_the_block_own_their_memory():
    whole = np.arange(12.0).reshape(3, 4).copy()
    blobs = run(
        "M *= 2; row = M[1]; turned = M.T; same = M; part = same[1:]",
        outliving="M row turned same part",
        M=whole,
    )

    assert blobs["M"] is whole
    for name in ("row", "turned", "same", "part"):
        assert blobs[name].base is None, name
        assert not np.may_share_memory(blobs[name], whole), name
    assert blobs["turned"].flags.f_contiguous
    assert blobs["part"].tolist() == (whole[1:]).tolist()


def test_blobs_that_outlive_a_failed_block_own_their_memory():
    with pytest.raises(IndexError):
        run("M *= 2; N = M; M = N[7:][0]", outliving="M N", M=np.ones(3))
    body = steps("M *= 2; N = M; M = N[7:][0]")
    with Bench(M=np.ones(3)) as bench, pytest.raises(IndexError):
        compile_block(body, "e/t", names_of(body, "M N"), lambda _: None).run(bench.frame)

    assert bench.blobs["N"].tolist() == [2, 2, 2]
    assert bench.blobs["N"] is not bench.blobs["M"]


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_a_view_with_gaps_is_bound_where_its_numbers_are_real(dtype):
    blobs = run(
        "u = M[:, 1:]; x = u * u; M[0, 0] = 5; n = len(u)",
        outliving="M x n",
        M=np.ones((3, 4), dtype),
        x=0.0,
    )

    assert blobs["x"].tolist() == np.ones((3, 3)).tolist()
    assert blobs["M"][0, 0] == 5


def test_an_array_in_a_container_is_copied():
    inside = np.zeros(2)
    blobs = run("u = P[0]; x = u + 1; P[0] += 5", outliving="P x", P=[inside, 1], x=0.0)

    assert blobs["P"][0].tolist() == [5, 5]
    assert blobs["x"].tolist() == [1, 1]


@pytest.mark.parametrize("use", ["sum(u)", "u.T @ u", "sum(cumsum(u))", "sum((u if s > 0 else u))"])
def test_operators_that_add_in_memory_order_get_a_copy(use):
    whole = np.random.default_rng(5).normal(size=(37, 29))
    expected = run(f"u = 1 * M[:, 1:]; x = {use}", outliving="M x s", M=whole, x=0.0, s=1)
    actual = run(
        f"u = M[:, 1:]; x = {use}; M[0] = 5", outliving="M x s", M=whole.copy(), x=0.0, s=1
    )

    assert np.array_equal(actual["x"], expected["x"])
