"""Nothing that broke out of other expression languages gets past the compiler here."""

from __future__ import annotations

import json
from itertools import chain

import pytest

from jobrun.compile.lowering.expressions import parse_text
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import Fault, SpecError
from jobrun.spec.load import load_spec
from tests.adversarial.escapes import EXPRESSIONS, TEXTS
from tests.support.expressions import ORIGIN, expression, statement
from tests.support.tables import each_case

HEAD = """\
jobrun: 1
name: escape
init: [{task: data, steps: ['x = arange(6.0)', 'y = x > 2', 'z = 0']}]
stop: [{epochs: 1}]
epoch:
  - task: attack
    steps:
"""
CASES = [
    pytest.param(text, id=f"{source}-{number}")
    for source, texts in EXPRESSIONS.items()
    for number, text in enumerate(texts)
]


def _faults(read, *arguments, **options) -> tuple[Fault, ...]:
    """The faults of a text; none when it is accepted."""
    try:
        read(*arguments, **options)
    except SpecError as error:
        return error.faults
    return ()


def _of_a_job(folder, step: str) -> tuple[Fault, ...]:
    path = folder / "escape.yaml"
    path.write_text(HEAD + f"      - {json.dumps(step)}\n")
    return _faults(lambda: compile_job(load_spec(str(path))))


def _told(faults: tuple[Fault, ...]) -> None:
    assert faults
    for fault in faults:
        assert fault.where is not None, fault
        assert fault.where.line > 0, fault
        assert fault.message, fault
        assert fault.mend, fault
        assert fault.code[0] == "E", fault


@each_case("text", CASES)
def test_escape_in_a_value_is_refused_with_its_position(text, tmp_path):
    _told(_faults(expression, text) or _of_a_job(tmp_path, f"w = {text}"))


@each_case("text", CASES)
def test_escape_in_a_statement_is_refused_with_its_position(text, tmp_path):
    _told(_faults(statement, text) or _of_a_job(tmp_path, text))


@each_case("text", TEXTS)
def test_escape_in_a_log_line_is_refused_with_its_position(text):
    _told(_faults(parse_text, text, ORIGIN, "epoch/t/steps[0]", {}, holes=True))


@pytest.mark.parametrize("text", ["9 ** 9 ** 9", "'%d' % 1", "x.__class__", "\uff45val('1')"])
def test_escape_in_a_condition_is_refused(text, tmp_path):
    path = tmp_path / "escape.yaml"
    path.write_text(HEAD + f"      - stop_if: {json.dumps(text)}\n")

    _told(_faults(lambda: compile_job(load_spec(str(path)))))


@pytest.mark.parametrize(
    "step",
    [
        {"op": "eval", "in": ["'1'"], "out": "w"},
        {"op": "__import__", "in": ["'os'"], "out": "w"},
        {"op": "numpy:load", "in": ["'evil.npy'"], "out": "w"},
        {"op": "add", "in": ["x", "x"], "out": "w", "where": "y"},
        {"op": "sum", "in": ["x"], "out": "__builtins__"},
        {"op": "zeros", "in": [3], "dtype": "object", "out": "w"},
        {"op": "sum", "in": ["x.__class__"], "out": "w"},
        {"net": "__class__"},
    ],
    ids=str,
)
def test_escape_in_the_long_form_is_refused(step, tmp_path):
    path = tmp_path / "escape.yaml"
    path.write_text(HEAD + f"      - {json.dumps(step)}\n")

    _told(_faults(lambda: compile_job(load_spec(str(path)))))


def test_no_text_is_there_twice():
    texts = list(chain.from_iterable(EXPRESSIONS.values()))
    assert sorted(texts) == sorted(set(texts))
