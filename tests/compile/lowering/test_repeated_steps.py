"""Lists of steps that differ in names only."""

from __future__ import annotations

import random

import pytest

from jobrun.compile.job_draft.definite_assignment import FlowAnalysis
from jobrun.compile.lowering import steps
from jobrun.compile.lowering.expressions import ExpressionLowering
from jobrun.compile.lowering.repeated_steps import RepeatedSteps
from jobrun.core.errors import SpecError
from tests.support.compiling import compile_text

HEAD = """\
jobrun: 1
name: many
stop: [epochs: 2]
params: {{k: 3}}
init:
- task: start
  steps: [{}]
epoch:
"""
# What the tasks do; {i} is the number of the task, {j} that of another.
STEPS = (
    "t = x{i} * 2 + 1",
    "x{i} = t - x{i}",
    "x{i} += x{j}",
    "x{i} = k * x{i}",
    "z{i} = zeros({i})",
    "z{i}[0] = x{i}",
    "a{i}, b{i} = x{i}, x{j}",
    "x{i} = x{j} if x{i} > 0 else t{j}",
    "iter{i} = x{i}",
    "del t",
    "t = 'x{i}'",
    "t = x{i}.size",
    "t = epoch + x{i}",
    "{{op: maximum, in: [x{i}, 0], out: t}}",
    "{{op: minimum, in: [x{i}, 0], out: t}}",
    "{{op: maximum, in: ['x{i} + x{j}', 1.5], out: [x{i}]}}",
    "{{op: add_at, in: [z{i}, 0, x{i}]}}",
    "{{op: zeros, in: [3], dtype: float32, out: z{i}}}",
    "stop",
    "log: 'x{i}'",
    # With faults.
    "{{op: maximum, in: [x{i}], out: t}}",
    "{{op: nothing, in: [x{i}], out: t}}",
    "{{op: maximum, in: [x{i}, 0], out: k}}",
    "x{i} = t +",
    "x{i} = iter",
    "epoch = x{i}",
)
SOUND = 18


@pytest.fixture(autouse=True)
def _of_any_number(monkeypatch):
    monkeypatch.setattr(steps, "_MANY_TASKS", 0)


def _spec(bodies, tasks=12):
    lines = [HEAD.format(", ".join(f"x{number} = 0.0" for number in range(tasks)))]
    for number in range(tasks):
        lines.append(f"- task: w{number}\n  steps:\n")
        other = number // 2
        lines += [
            f"  - {step.format(i=number, j=other)}\n" for step in bodies[number % len(bodies)]
        ]
    return "".join(lines)


def _outcome(folder, text):
    try:
        return repr(compile_text(folder, text))
    except SpecError as error:
        return error.faults


def _expect_as_one_by_one(folder, text, monkeypatch):
    expected = _outcome(folder, text)
    with monkeypatch.context() as patch:
        patch.setattr(RepeatedSteps, "text", lambda *_: None)
        assert expected == _outcome(folder, text), text


@pytest.mark.parametrize("step", STEPS)
def test_a_repeated_step_becomes_what_it_would_alone(tmp_path, monkeypatch, step):
    _expect_as_one_by_one(tmp_path, _spec([[step]]), monkeypatch)
    _expect_as_one_by_one(tmp_path, _spec([["t = x{i}", step]]), monkeypatch)


@pytest.mark.parametrize("seed", range(16))
def test_repeated_lists_of_steps_become_what_they_would_one_by_one(tmp_path, monkeypatch, seed):
    rng = random.Random(seed)
    known = STEPS[: SOUND if seed % 2 else len(STEPS)]
    bodies = [rng.sample(known, rng.randrange(1, 5)) for _ in range(2)]
    _expect_as_one_by_one(tmp_path, _spec(bodies, 8), monkeypatch)


def test_equal_names_are_not_taken_for_different_ones(tmp_path, monkeypatch):
    sums = ["a = x{i} + x{j}", "x{i} = a", "del a"]
    # Of the first two tasks, i and j are the same.
    _expect_as_one_by_one(tmp_path, _spec([sums]), monkeypatch)
    _expect_as_one_by_one(tmp_path, _spec([["del x{i}", "x{j} = 1.0"]]), monkeypatch)


def test_steps_of_a_known_shape_are_neither_parsed_nor_analysed(tmp_path, monkeypatch):
    seen = []

    def counted(kind, name):
        original = getattr(kind, name)

        def call(*arguments, **named):
            seen.append(name)
            return original(*arguments, **named)

        monkeypatch.setattr(kind, name, call)

    counted(ExpressionLowering, "statement")
    counted(FlowAnalysis, "body")
    compile_text(tmp_path, _spec([["t = x{i} + 1", "x{i} = t"]], tasks=9))

    # Those of init, and of the first two tasks; their flow, and that of the third.
    assert seen.count("statement") == 9 + 2 * 2
    assert seen.count("body") == 1 + 3


def test_each_of_many_tasks_with_the_same_fault_reports_it(tmp_path):
    faults = _outcome(tmp_path, _spec([["t = x{i} + nothing{i}", "x{i} = t +"]], tasks=9))

    assert [fault.path for fault in faults if fault.code == "E100"] == [
        f"epoch/w{number}/steps[1]" for number in range(9)
    ]
