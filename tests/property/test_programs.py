"""What a drawn program computes with jobrun is what plain Python computes, or it is refused."""

from __future__ import annotations

import os
import secrets
from typing import Any

import pytest

from tests.property.drawing import Program, drawn
from tests.property.verdicts import is_wrong, judge, shown, smaller

NAMES = ["a", "b", "c"]


def _program(
    init: list[str], returned_by_init: list[str], steps: list[str], returned: list[str]
) -> Program:
    """Makes ``a``, ``b`` and ``c``; each epoch changes ``b`` and makes some of the others."""
    arguments = {f"p{n}": name for n, name in enumerate(NAMES)}
    look = {"with": arguments, "inout": [], "out": [], "looks": True}
    values = ", ".join(f"{name!r}: {param}" for param, name in arguments.items())
    functions = {
        f"look_{moment}": {
            "params": [*arguments, "epoch", "run_dir"],
            "returns": [],
            "lines": [f"look({moment!r}, epoch, run_dir, {{{values}}})"],
        }
        for moment in ("start", "end", "exit")
    }
    functions["f0"] = {"params": [], "lines": init, "returns": returned_by_init}
    functions["f1"] = {"params": [*arguments], "lines": steps, "returns": returned}
    start = {"call": "f0", "with": {}, "inout": [], "out": NAMES}
    work = {"call": "f1", "with": arguments, "inout": ["b"], "out": ["a", "c"][: len(returned)]}
    return {
        "functions": functions, "init": [{"task": "start", "steps": [start]}], "epochs": 3,
        "epoch": [look | {"call": "look_start"}, work, look | {"call": "look_end"}],
        "exit": [look | {"call": "look_exit"}],
    }  # fmt: skip


ARRAYS = _program(
    ["v0 = array('f8', (3, 4), 'C', 1)", "v1 = {'x': array('f4', (5,), 'C', 2), 'n': [1, None]}"],
    ["v0", "v1", "0.5"],
    ["change(p1, 0)", "v0 = clone(p0)", "change(v0, 5)", "v1 = use(p1)"],
    ["v0", "v1"],
)


@pytest.mark.parametrize("session", ["threads", pytest.param("processes", marks=pytest.mark.long)])
def test_what_is_stopped_in_every_epoch_is_what_plain_python_computes(session):
    verdict = judge(ARRAYS, session=session)

    assert verdict.kind == "equal", verdict.text


@pytest.mark.long
@pytest.mark.parametrize("started", [False, True])
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_what_is_killed_in_every_epoch_is_what_plain_python_computes(session, started):
    verdict = judge(ARRAYS, session=session, started=started, kills=True)

    assert verdict.kind == "equal", verdict.text
    assert (verdict.kills, verdict.loaded) == (3, 2)


def test_what_is_refused_names_its_blob():
    program = _program(["v0 = np.ma.array([1, 2])"], ["v0", "1", "2"], ["v0 = 1"], [])

    verdict = judge(program)

    assert (verdict.kind, verdict.code) == ("refused", "E202")
    assert "'a'" in verdict.text


@pytest.mark.parametrize(
    ("returned_by_init", "steps", "returned", "path"),
    [
        (["v0", "v0", "1"], ["change(p1, 0)"], [], "'b'"),
        (["v0", "[v0]", "1"], ["change(p1, 0)"], [], "'b/0'"),
        (["v0", "clone(v0)", "1"], ["change(p1, 0)"], ["p1"], "'b'"),
        (["v0", "clone(v0)", "1"], ["change(p1, 0)"], ["view(p1, 0)"], "'b'"),
        (["v0", "[1]", "1"], ["put(p1, p0, 0)"], [], "'b/1'"),
    ],
)
def test_what_a_callable_shares_between_blobs_is_refused_if_one_is_changed(
    returned_by_init, steps, returned, path
):
    verdict = judge(_program(["v0 = array('f8', (3, 4))"], returned_by_init, steps, returned))

    assert (verdict.kind, verdict.code) == ("refused", "E258"), verdict.text
    assert path in verdict.text
    assert "'a'" in verdict.text


@pytest.mark.long
def test_what_a_callable_shares_between_blobs_that_never_change_is_one_value():
    returned_by_init = ["v0", "[1]", "v0"]

    verdict = judge(
        _program(["v0 = array('f8', (3, 4))"], returned_by_init, ["change(p1, 0)"], ["p2"])
    )

    assert verdict.kind == "equal", verdict.text


def test_a_difference_is_seen():
    # The process that computes plainly and the one of the run have other numbers here.
    program = _program(["import sys", "v0 = len(sys.argv)"], ["v0", "{}", "0"], ["v0 = 1"], [])

    verdict = judge(program)

    assert verdict.kind == "differs"
    assert "a.value: plain Python has" in verdict.text


# The same programs every time, unless new ones are looked for; ``verdicts`` draws thousands.
_FIRST = secrets.randbelow(10**9) if "JOBRUN_HUNT" in os.environ else 0


def _check(
    seed: int, *, plain: bool = False, rich: bool = False, tensors: bool = False, **options: Any
) -> None:
    program = drawn(_FIRST + seed, plain=plain, rich=rich, tensors=tensors)
    verdict = judge(program, **options)
    if is_wrong(verdict, plain=plain):
        less = smaller(
            program, lambda smaller_program: judge(smaller_program, **options).kind == verdict.kind
        )
        pytest.fail(f"seed {_FIRST + seed}\n{shown(less, judge(less, **options))}")


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_an_ordinary_program_gives_what_plain_python_gives(seed):
    _check(seed, plain=True)


@pytest.mark.parametrize("seed", range(2))
def test_a_program_of_tasks_and_nodes_gives_what_plain_python_gives_or_is_refused(seed):
    _check(seed, rich=True)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 103))
def test_any_program_of_tasks_and_nodes_gives_what_plain_python_gives_or_is_refused(seed):
    _check(seed, rich=True)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(200, 202))
@pytest.mark.parametrize("session", ["threads", "processes"])
def test_any_program_of_tasks_and_nodes_that_are_killed_gives_the_same(seed, session):
    _check(seed, rich=True, plain=True, kills=True, session=session)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(301, 303))
def test_any_program_with_tensors_gives_what_plain_python_gives_or_is_refused(seed):
    pytest.importorskip("torch")
    _check(seed, rich=seed % 2 == 0, tensors=True)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 106))
def test_any_program_gives_what_plain_python_gives_or_is_refused(seed):
    _check(seed)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(100, 103))
def test_any_ordinary_program_that_is_killed_in_every_epoch_gives_the_same(seed):
    _check(seed, plain=True, kills=True)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(200, 202))
def test_any_program_on_nodes_in_processes_that_are_killed_gives_the_same(seed):
    _check(seed, session="processes", kills=True)
