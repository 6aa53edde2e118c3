"""The code of a block does what a plain interpreter of the same values does."""

from __future__ import annotations

import operator
import traceback
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from jobrun.core.errors import Origin, TaskFailedError
from jobrun.graph import expressions as e
from jobrun.graph.expressions import Binary, Compare, Const, Name, NodeBlob, OutputRead
from jobrun.graph.steps import Assign, Augment, Loop, NameTarget, Net
from jobrun.graph.types import Scope
from jobrun.runtime.codegen.compiler import (
    compile_block,
    compile_expression,
    evaluate,
    make_function,
)
from jobrun.runtime.codegen.liveness import BlockNames, collect_usage
from jobrun.runtime.context.frame import MissingBlobError
from jobrun.testing.graphs import expr, net, op
from jobrun.values.compare import same_bits
from tests.support.step_bench import Bench

NAMES = ("a", "b", "c", "s")
_OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "<": operator.lt, ">=": operator.ge,
}  # fmt: skip
_IN_PLACE = {"+": operator.iadd, "-": operator.isub, "*": operator.imul}


def interpreted(op: Any, blobs: dict[str, Any]) -> None:
    """The meaning of an operator, one copy too many rather than one too few."""
    if isinstance(op, Augment):
        name, index = op.target.name, getattr(op.target, "index", None)
        right = value_of(op.value, blobs)
        if index is None:
            blobs[name] = _IN_PLACE[op.operator](blobs[name], right)
        else:
            blobs[name][value_of(index, blobs)] += right
        return
    if len(op.targets) == 1:
        values = [copied(value_of(op.value, blobs))]
    else:
        values = [copied(value) for value in value_of(op.value, blobs)]
    for target, value in zip(op.targets, values, strict=True):
        if isinstance(target, NameTarget):
            blobs[target.name] = value
        else:
            blobs[target.name][value_of(target.index, blobs)] = value


def copied(value: Any) -> Any:
    return value.copy(order="K") if isinstance(value, np.ndarray) else value


def value_of(tree: e.Expr, blobs: dict[str, Any]) -> Any:
    match tree:
        case e.Const():
            return tree.value
        case e.Name():
            return blobs[tree.name]
        case e.Binary():
            return _OPERATORS[tree.operator](
                value_of(tree.left, blobs), value_of(tree.right, blobs)
            )
        case e.Unary():
            return -value_of(tree.operand, blobs)
        case e.Conditional():
            chosen = tree.then if value_of(tree.condition, blobs) else tree.otherwise
            return value_of(chosen, blobs)
        case e.Compare():
            return _OPERATORS[tree.operators[0]](
                value_of(tree.left, blobs), value_of(tree.rest[0], blobs)
            )
        case e.Attribute():
            return value_of(tree.value, blobs).T
        case e.Index():
            return value_of(tree.value, blobs)[value_of(tree.index, blobs)]
        case e.Slice():
            bounds = (tree.start, tree.stop, tree.step)
            return slice(*(None if end is None else value_of(end, blobs) for end in bounds))
        case e.Sequence():
            return tuple(value_of(item, blobs) for item in tree.items)
        case e.Call():
            return np.reshape(value_of(tree.args[0], blobs), (3, 3))
    raise AssertionError(tree)


@st.composite
def programs(draw: Any) -> tuple[Any, ...]:
    """Statements over three 3x3 arrays and a scalar that keep these shapes."""
    arrays = st.sampled_from(("a", "b", "c"))

    def array(depth: int = 0) -> e.Expr:
        choice = draw(st.integers(0, 7 if depth < 2 else 1))
        match choice:
            case 0 | 1:
                return e.Name(draw(arrays))
            case 2:
                kind = draw(st.sampled_from("+-*"))
                return e.Binary(array(depth + 1), kind, array(depth + 1))
            case 3:
                return e.Attribute(array(depth + 1), "T")
            case 4:
                return e.Index(array(depth + 1), e.Slice(None, None, e.Const(-1)))
            case 5:
                flag = e.Compare(e.Name("s"), (draw(st.sampled_from(["<", ">="])),), (e.Const(3),))
                return e.Conditional(flag, array(depth + 1), array(depth + 1))
            case 6:
                return e.Call("reshape", (array(depth + 1), expr("(3, 3)")))
            case _:
                return e.Unary("-", array(depth + 1))

    def statement() -> Any:
        match draw(st.integers(0, 6)):
            case 0 | 1:
                return Assign((NameTarget(draw(arrays)),), array())
            case 2:
                return Augment(NameTarget(draw(arrays)), draw(st.sampled_from("+-*")), array())
            case 3:
                row, name = draw(st.integers(0, 2)), draw(arrays)
                return replace(op(f"{name}[{row}] = s"), value=e.Index(array(), e.Const(row)))
            case 4:
                first, second = draw(arrays), draw(arrays)
                pair = e.Sequence((array(), array()))
                if draw(st.booleans()):
                    pair = e.Sequence((e.Name(second), e.Name(first)))
                return Assign((NameTarget(first), NameTarget(second)), pair)
            case 5:
                return Augment(NameTarget("s"), "+", e.Const(draw(st.integers(-2, 2))))
            case _:
                return op(f"{draw(arrays)}[:, {draw(st.integers(0, 2))}] += s")

    return tuple(statement() for _ in range(draw(st.integers(1, 8))))


def fresh_blobs() -> dict[str, Any]:
    return {
        "a": np.arange(9).reshape(3, 3),
        "b": np.arange(9).reshape(3, 3) * 10,
        "c": np.asfortranarray(np.arange(9).reshape(3, 3) - 4),
        "s": 2,
    }


@settings(max_examples=120, deadline=None)
@given(programs(), st.sets(st.sampled_from(NAMES)), st.booleans(), st.sampled_from((0, 0, 1, 3)))
def test_code_agrees_with_an_interpreter(program, shared, lives_on, passes):
    expected = fresh_blobs()
    for statement in program * (passes or 1):
        interpreted(statement, expected)
    steps: tuple[Any, ...] = (Net(program),)
    if passes:
        steps = (Loop(e.Const(passes), steps, "e/t/loop"),)
    changed = frozenset(collect_usage(steps).changed)
    elsewhere = frozenset(NAMES) if lives_on else frozenset()

    with Bench(**fresh_blobs()) as bench:
        scopes = {} if lives_on else dict.fromkeys(NAMES, Scope.NODE)
        names = BlockNames(scopes, frozenset(shared), elsewhere, changed)
        bench.frame.n = bench.blobs
        compile_block(steps, "e/t", names, no_action).run(bench.frame)

    assert set(bench.blobs) == set(expected)
    for name, value in expected.items():
        assert same_bits(bench.blobs[name], value), name


def no_action(step: Any) -> Any:
    raise AssertionError(step)


def test_names_are_written_back_after_an_error():
    with Bench(x=1) as bench, pytest.raises(TaskFailedError):
        bench.do("x = 2; y = 3; z = x / 0; w = 4")

    assert dict(bench.blobs) == {"x": 2, "y": 3}


def test_an_error_before_a_binding_leaves_the_old_value():
    with Bench(x=1, y=5) as bench, pytest.raises(TaskFailedError):
        bench.do("z = 1 / 0; y = 6; del x")

    assert dict(bench.blobs) == {"x": 1, "y": 5}


def test_temporaries_leave_nothing_behind():
    steps = (net("t1 = x + 1; x = t1"),)
    with Bench(x=np.zeros(2)) as bench:
        names = BlockNames({}, frozenset(), frozenset({"x"}), frozenset())
        compile_block(steps, "e/t", names, no_action).run(bench.frame)

    assert set(bench.blobs) == {"x"}
    assert bench.blobs["x"].tolist() == [1, 1]


def test_a_traceback_shows_the_files_and_lines_of_the_spec():
    first = replace(op("x = 1"), origin=Origin("job.yaml", 11, 5))
    second = replace(op("y = x / 0", path="e/t/steps[1]"), origin=Origin("job.yaml", 14, 7))
    with Bench() as bench, pytest.raises(TaskFailedError) as caught:
        bench.do(Net((first, second)))

    frames = traceback.extract_tb(caught.value.__cause__.__traceback__)
    assert [(frame.filename, frame.lineno) for frame in frames if frame.filename == "job.yaml"] == [
        ("job.yaml", 14)
    ]
    fault = caught.value.faults[0]
    assert (str(fault.where), fault.path) == ("job.yaml:14:7", "e/t/steps[1]")


def test_generated_code_sees_no_builtins_but_what_numpy_needs_to_explain_itself():
    with Bench(a=np.zeros(2, "uint8")) as bench:
        block = bench.block("x = a + 300")
        with pytest.raises(TaskFailedError, match="300 out of bounds for uint8"):
            bench.do("x = a + 300")

    assert [*block.run.__globals__["__builtins__"]] == ["__import__"]


def test_an_expression_is_a_function_of_a_frame():
    with Bench(x=3) as bench:
        value = compile_expression(expr("x * 2 + epoch"), BlockNames())(bench.frame)

    assert value == 9


def test_keywords_and_strange_names_can_be_blobs():
    strange = "e/t/steps[1]:lambda"
    steps = (Net((Assign((NameTarget(strange),), e.Const(1)),
                  Augment(NameTarget(strange), "+", e.Name("class")))),)  # fmt: skip
    with Bench(**{"class": 4}) as bench:
        names = BlockNames({}, frozenset(), frozenset({strange, "class"}), frozenset())
        compile_block(steps, "e/t", names, no_action).run(bench.frame)

    assert bench.blobs[strange] == 5


def test_a_function_is_made_without_running_anything():
    import ast  # noqa: PLC0415

    function = make_function([ast.Return(ast.Constant(5))], {"__builtins__": {}}, Origin("x"))

    assert function(None) == 5


def test_a_block_without_steps_does_nothing():
    with Bench(x=1) as bench:
        assert dict(bench.do()) == {"x": 1}


SHIFT = NodeBlob("trainer", "shift")


def read(leaf):
    return {SHIFT: 0.5, OutputRead("t", "o", "trainer"): np.arange(3)}[leaf]


def test_leaves_are_read_by_the_caller():
    tree = Compare(SHIFT, ("<",), (expr("out('t', 'o', 'trainer')[2]"),))

    assert evaluate(tree, read)


def test_the_epoch_is_readable():
    assert evaluate(expr("epoch * 2"), read, epoch=4) == 8


def test_errors_are_the_callers():
    with pytest.raises(ZeroDivisionError):
        evaluate(Binary(SHIFT, "/", Const(0)), read)
    with pytest.raises((MissingBlobError, AttributeError)):
        evaluate(Name("x"), read)


def test_an_expression_that_gives_nan_does_not_warn():
    assert np.isnan(evaluate(expr("sum(zeros(1) / 0)"), read))


def test_equal_looking_constants_are_not_confused():
    values = [evaluate(Binary(SHIFT, "*", Const(value)), read) for value in (1, True, 1.0)]
    ints = [evaluate(Const(value), read) for value in (1, True, 1.0)]

    assert values == [0.5] * 3
    assert [type(number) for number in ints] == [int, bool, float]
