"""Definite assignment."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobrun.compile.job_draft.definite_assignment import FlowAnalysis, Status, meet
from jobrun.graph.expressions import Compare, Const, Name
from jobrun.graph.steps import (
    Assign,
    Delete,
    Guard,
    If,
    Loop,
    NameTarget,
    Net,
    Parallel,
    Perform,
    Step,
    Stop,
    While,
)
from tests.support.compiling import codes_of, compile_text, fault_of
from tests.support.thinning import examples

GOOD = {
    "in a row": "x = 1, y = x",
    "in both branches": "{if: w > 1, then: [x = 1], else: [x = 2]}, y = x",
    "in a loop with a pass": "{loop: 2, steps: [x = 1]}, y = x",
    "in an endless loop before its stop": (
        "{loop: forever, steps: [x = 1, {stop_if: w > 1}]}, y = x"
    ),
    "in every branch that continues": "{if: w > 1, then: [stop], else: [x = 2]}, y = x",
    "in a parallel branch": "{parallel: [[x = 1], [z = 1]]}, y = x + z",
    "in a guard before its stop": "{guard: g, steps: [x = 1, stop]}, y = x",
    "the flag of a guard": "{guard: g, steps: [{stop_if: w > 1}]}, y = g",
    "again after del": "x = 1, del x, x = 2, y = x",
    "an earlier pass is not needed": "{loop: 2, steps: [x = 1, y = x, del x]}",
    "before a stop of the task": "x = 1, {stop_if: w > 1}, y = x",
    "a name only deleted where it was made": "{if: w > 1, then: [x = 1, del x]}",
}
BAD = {
    "later": ("y = x, x = 1", "E181"),
    "in one branch": ("{if: w > 1, then: [x = 1]}, y = x", "E181"),
    "not in an elif": (
        "{if: w > 1, then: [x = 1], elif: [{if: w > 2, then: [z = 1]}], else: [x = 1]}, y = x",
        "E181",
    ),
    "in a loop of unknown count": ("{loop: w, steps: [x = 1]}, y = x", "E181"),
    "in a loop without a pass": ("{loop: 0, steps: [x = 1]}, y = x", "E181"),
    "in a while": ("{while: w > 1, steps: [x = 1, w = 0]}, y = x", "E181"),
    "behind a stop of the loop": (
        "{loop: forever, steps: [{stop_if: w > 1}, x = 1]}, y = x", "E181"),
    "behind a stop of the guard": ("{guard: g, steps: [{stop_if: w > 1}, x = 1]}, y = x", "E181"),
    "in the branch beside": ("{parallel: [[x = 1], [y = x]]}", "E181"),
    "a flag before its guard": ("y = g, {guard: g, steps: [x = 1]}", "E181"),
    "after del": ("x = 1, del x, y = x", "E188"),
    "after del on one way": ("x = 1, {if: w > 1, then: [del x]}, y = x", "E188"),
    "after del in an earlier pass": ("x = 1, {loop: 2, steps: [y = x, del x]}", "E188"),
    "in a while's condition after del": (
        "x = 2, {while: x > 1, steps: [del x]}", "E188"),
    "del of what was never made": ("del x, x = 1", "E181"),
    "in place, before it is made": ("x += 1", "E181"),
    "an item, before the array is made": ("'x[0] = 1', x = w", "E181"),
    "a stop in a later pass, after del": (
        "x = 1, {guard: g, steps: [{loop: 3, steps: [{stop_if: w > 1, stop: g}, x = 2, del x]}, "
        "x = 3]}, y = x", "E188"),
}  # fmt: skip


@pytest.mark.parametrize("case", GOOD)
def test_a_blob_may_be_read_when_every_way_makes_it(tmp_path, case):
    assert codes_of(tmp_path, f"epoch: [{{task: t, steps: [{GOOD[case]}]}}]") == []


@pytest.mark.parametrize("case", BAD)
def test_a_blob_may_not_be_read_when_a_way_does_not_make_it(tmp_path, case):
    steps, code = BAD[case]

    assert code in codes_of(tmp_path, f"epoch: [{{task: t, steps: [{steps}]}}]")


def test_the_fault_names_the_place_that_makes_it(tmp_path):
    text = "epoch: [{task: t, steps: [{if: w > 1, then: [x = 1]}, y = x]}]"
    fault = fault_of(tmp_path, text)

    assert fault.path == "epoch/t/steps[1]"
    assert "epoch/t/steps[0].then[0]" in fault.message


def test_a_loop_that_never_ends_is_a_fault(tmp_path):
    for loop in ("{loop: forever, steps: [x = 1]}", "{while: true, steps: [x = 1]}"):
        assert codes_of(tmp_path, f"epoch: [{{task: t, steps: [{loop}]}}]") == ["E189"]


def test_a_stop_of_an_inner_loop_does_not_end_the_outer_one(tmp_path):
    text = "epoch: [{task: t, steps: [{loop: forever, steps: [{loop: 2, steps: [stop]}]}]}]"

    assert codes_of(tmp_path, text) == ["E189"]


def test_a_stop_of_a_block_around_ends_a_loop(tmp_path):
    text = "epoch: [{task: t, steps: [{loop: forever, steps: [{stop_if: w > 1, stop: task}]}]}]"

    assert codes_of(tmp_path, text) == []


def test_a_step_that_is_never_reached_gets_a_warning(tmp_path):
    compiled = compile_text(tmp_path, "epoch: [{task: t, steps: [stop, x = 1, y = 2]}]")

    assert [(warning.code, warning.path) for warning in compiled.warnings] == [
        ("W131", "epoch/t/steps[1]")
    ]


@pytest.mark.parametrize(
    "branches",
    [
        "[x = 1], [x = 2]",
        "[w = 2], [x = w]",
        "[x = w], [w = 2]",
        "[count_up(c)], [n = count_value(c)]",
    ],
)
def test_branches_of_parallel_may_not_race(tmp_path, branches):
    text = f"""\
        init: [{{task: i, steps: [w = 1.0, c = counter(0)]}}]
        epoch: [{{task: t, steps: [{{parallel: [{branches}]}}]}}]
        """

    assert codes_of(tmp_path, text) == ["E185"]


@pytest.mark.parametrize("branches", ["[x = w], [y = w]", "[count_up(c)], [count_up(c)]"])
def test_branches_of_parallel_may_read_and_count_together(tmp_path, branches):
    text = f"""\
        init: [{{task: i, steps: [w = 1.0, c = counter(0)]}}]
        epoch: [{{task: t, steps: [{{parallel: [{branches}]}}]}}]
        """

    assert codes_of(tmp_path, text) == []


def test_ways_that_differ_leave_a_name_uncertain():
    assert meet({"a": Status.SET}, {"a": Status.SET}) == {"a": Status.SET}
    assert meet({"a": Status.SET}, {}) == {}
    assert meet({"a": Status.SET}, {"a": Status.GONE}) == {"a": Status.MAYBE}
    assert meet({}, {"a": Status.GONE}) == {"a": Status.MAYBE}


# A program is run by a small interpreter that takes the branches chosen for it. What
# the flow accepts must never read a name that is not set, whatever the branches.

_NAMES = st.sampled_from(["a", "b"])


class _UnsetError(Exception):
    """A name was read that holds nothing."""


class _LeftError(Exception):
    """A stop left a block."""

    def __init__(self, target: str) -> None:
        super().__init__(target)
        self.target = target


@st.composite
def _programs(draw, depth=3, blocks=("body",)):
    return tuple(draw(_a_step(depth, blocks)) for _ in range(draw(st.integers(1, 3))))


@st.composite
def _a_step(draw, depth, blocks):
    kinds = ["set", "set", "read", "del", "stop"]
    kinds += ["loop", "times", "while", "if", "guard", "forever"] if depth else []
    kind = draw(st.sampled_from(kinds))
    name = draw(_NAMES)
    path = f"p{draw(st.integers(0, 10**9))}"
    match kind:
        case "set":
            return Net((Assign((NameTarget(name),), Const(1), path),), path)
        case "read":
            return Net((Perform(Name(name), path),), path)
        case "del":
            return Net((Delete((name,), path),), path)
        case "stop":
            condition = draw(st.sampled_from([None, Compare(Name(name), (">",), (Const(0),))]))
            return Stop(condition, draw(st.sampled_from(blocks)), path)
        case "if":
            inner = draw(_programs(depth - 1, blocks))
            otherwise = draw(st.one_of(st.just(()), _programs(depth - 1, blocks)))
            return If(((Const(True), inner),), otherwise, path)
        case "guard":
            return Guard(name, draw(_programs(depth - 1, (*blocks, path))), path)
        case "while":
            return While(Name(name), draw(_programs(depth - 1, (*blocks, path))), path)
        case "forever":
            return Loop(None, draw(_programs(depth - 1, (*blocks, path))), path)
        case "times":
            return Loop(Const(2), draw(_programs(depth - 1, (*blocks, path))), path)
        case _:
            return Loop(Name(name), draw(_programs(depth - 1, (*blocks, path))), path)


class _Interpreter:
    def __init__(self, choices: list[bool]) -> None:
        self._choices = choices
        self.set: set[str] = set()

    def _choose(self) -> bool:
        return self._choices.pop() if self._choices else False

    def _read(self, *names: str) -> None:
        for name in names:
            if name not in self.set:
                raise _UnsetError(name)

    def block(self, steps, path: str) -> bool:
        try:
            self.run(steps)
        except _LeftError as stop:
            if stop.target != path:
                raise
            return True
        return False

    def run(self, steps) -> None:
        for step in steps:
            self._step(step)

    def _step(self, step: Step) -> None:
        match step:
            case Net(ops=(Assign(targets=(NameTarget(name=name),)),)):
                self.set.add(name)
            case Net(ops=(Perform(value=Name(name=name)),)):
                self._read(name)
            case Net(ops=(Delete(names=names),)):
                self._read(*names)
                self.set.difference_update(names)
            case Stop(condition=condition, target=target):
                if isinstance(condition, Compare) and isinstance(condition.left, Name):
                    self._read(condition.left.name)
                if condition is None or self._choose():
                    raise _LeftError(target)
            case If(branches=((_, then),), otherwise=otherwise):
                self.run(then if self._choose() else otherwise)
            case Guard(flag=flag, steps=inner, path=path):
                self.block(inner, path)
                self.set.add(flag)
            case Loop(count=count, steps=inner, path=path):
                self._loop(count, inner, path)
            case While(condition=Name(name=name), steps=inner, path=path):
                self._loop(Name(name), inner, path)
            case Parallel():
                raise AssertionError

    def _loop(self, count, inner, path: str) -> None:
        for number in range(4):
            if isinstance(count, Name):
                self._read(count.name)
                if not self._choose():
                    return
            if isinstance(count, Const) and number == count.value:
                return
            if self.block(inner, path):
                return
        # An endless loop is cut short here; what follows it is not run.
        raise _LeftError("body")


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(_programs(), st.lists(st.lists(st.booleans(), max_size=30), min_size=1, max_size=8))
def test_what_is_accepted_never_reads_a_name_that_is_not_set(program, runs):
    finder = FlowAnalysis()
    summary = finder.block(program, "body")
    if summary.needs or any(problem.kind == "deleted" for problem in finder.problems):
        return

    for choices in runs:
        interpreter = _Interpreter(list(choices))
        was_left = interpreter.block(program, "body")
        if not was_left:
            certain = {name for name, status in summary.end.items() if status is Status.SET}
            assert certain <= interpreter.set


@settings(max_examples=30, deadline=None)
@given(_programs(), st.lists(st.booleans(), max_size=30))
def test_what_is_needed_is_enough(program, choices):
    _expect_needs_to_be_enough(program, choices)


@pytest.mark.long
@settings(max_examples=examples(80), deadline=None)
@given(_programs(), st.lists(st.booleans(), max_size=30))
def test_what_is_needed_is_enough_for_many_programs(program, choices):
    _expect_needs_to_be_enough(program, choices)


def _expect_needs_to_be_enough(program, choices):
    finder = FlowAnalysis()
    summary = finder.block(program, "body")
    if any(problem.kind == "deleted" for problem in finder.problems):
        return
    interpreter = _Interpreter(choices)
    interpreter.set |= summary.needs.keys()

    interpreter.block(program, "body")
