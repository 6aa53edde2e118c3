"""Steps are followed as a run would take them, and what cannot be computed has its place."""

from __future__ import annotations

import json

import pytest

import jobrun
from jobrun.compile.pipeline import compile_job
from jobrun.core.errors import SpecError, TaskFailedError
from jobrun.spec.load import load_spec

HEAD = "jobrun: 1\nname: t\nparams: {k: 4}\nstop: [{epochs: 2}]\n"
INIT = [
    "x = zeros(3)",
    "X = ones((5, 3))",
    "i = zeros(3, dtype=int64)",
    "m = x > 0",
    "n = 0",
    "f = 0.0",
]


@pytest.fixture
def find_faults(tmp_path):
    """Errors and warnings of steps of an epoch: code, and line with column."""

    def of(*steps, init=INIT):
        lines = [HEAD, "init:", "  - task: a", "    steps:"]
        lines += [f"      - {json.dumps(step)}" for step in init]
        lines += ["epoch:", "  - task: b", "    steps:"]
        lines += [f"      - {json.dumps(step)}" for step in steps]
        path = tmp_path / "t.yaml"
        path.write_text("\n".join(lines) + "\n")
        try:
            faults = compile_job(load_spec(str(path))).warnings
        except SpecError as error:
            faults = error.faults
        return [
            (fault.code, fault.message)
            for fault in faults
            if fault.code[1:3] == "29" or fault.code == "W138"
        ]

    return of


@pytest.mark.parametrize(
    ("step", "code", "part"),
    [
        ("y = X @ zeros(4)", "E290", "(5, 3) and (4,)"),
        ("x += X", "E290", "in place"),
        ("i += 0.5", "E291", "float64 result cannot be stored in place in an array of int64"),
        ("i /= 2", "E291", "in place"),
        ("X[0] = zeros(2)", "E290", "does not fit into (3,)"),
        ("X[7] = 0.0", "E292", "index 7"),
        ("X[:, 1] += ones(3)", "E290", "broadcast"),
        ("f[0] = 1.0", "E291", "cannot be indexed"),
        ("a, b = X[0]", "E290", "3 values cannot be assigned to 2"),
        ("u, s = svd(X)", "E290", "3 values"),
        ("add_at(x, i, ones(2))", "E290", "do not fit"),
        ({"if": "X > 0", "then": ["y = 1"]}, "E291", "a condition must be one bool"),
        ({"if": "n", "then": ["y = 1"]}, "E291", "int64"),
        ({"while": "f", "steps": ["f = 1.0"]}, "E291", "a condition"),
        ({"loop": "f", "steps": ["n += 1"]}, "E291", "count"),
        ({"stop_if": "x"}, "E291", "a condition"),
        ({"log": "{sum(x, axis=3)}"}, "E292", "no axis 3"),
        ({"metric": {"v": "x @ zeros(2)"}}, "E290", "3 is not 2"),
        ({"assert": "x[5] > 0", "message": "m"}, "E292", "index 5"),
        ({"loop": 3, "steps": ["y = x @ zeros(2)"]}, "E290", "3 is not 2"),
        ({"op": "matmul", "in": ["X", "X"], "out": "y"}, "E290", "3 is not 5"),
    ],
    ids=str,
)
def test_what_cannot_be_computed_is_an_error(find_faults, step, code, part):
    reported = find_faults(step)

    assert [fault[0] for fault in reported] == [code]
    assert part in reported[0][1]


@pytest.mark.parametrize(
    "steps",
    [
        ["x += 1", "i += 1", "i *= 2", "n += 0.5", "m &= x > 1", "x -= X[0]"],
        [{"if": "X.ndim == 1", "then": ["y = X @ X"]}],
        [{"if": "k > 5", "then": ["y = X @ X"], "else": ["y = X @ X.T"]}],
        [{"loop": 0, "steps": ["y = X @ X"]}],
        [{"while": "X.ndim == 1", "steps": ["y = X @ X"]}],
        ["stop", "y = X @ X"],
        [{"guard": "g", "steps": ["stop", "y = X @ X"]}],
        ["y = zeros(3)", {"if": "rng.random() > 0.5", "then": ["y = zeros(4)"]}, "z = y + x"],
        ["y = zeros(3)", {"loop": 3, "steps": ["y = concatenate([y, x])"]}, "z = y + zeros(9)"],
        [{"guard": "g", "steps": ["y = zeros(4)", {"stop_if": "rng.random() > 0.5"},
                                  "y = zeros(3)"]}, "z = y + x"],
        ["del x", "x = zeros(7)", "y = x @ zeros(7)"],
        ["y = zeros(1)", "x[:1] = x[x > 2][:, None]", "y[...] = x[x > 2][:, None, None]"],
    ],
    ids=str,
)  # fmt: skip
def test_what_may_be_computed_is_left_alone(find_faults, steps):
    assert find_faults(*steps) == []


@pytest.mark.parametrize(
    "step",
    [
        {"if": "rng.random() > 0.5", "then": ["y = X @ X"]},
        {"if": "rng.random() > 0.5", "then": ["y = 1"], "else": ["y = X @ X"]},
        {"while": "n < 3", "steps": ["y = X @ X", "n += 1"]},
    ],
    ids=str,
)
def test_a_misfit_behind_an_unknown_condition_is_a_warning(find_faults, step):
    (warning,) = find_faults(step)

    assert warning[0] == "W138"
    assert warning[1].endswith(", if this is reached")


def test_an_error_points_at_the_operand(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        HEAD + "init: [{task: a, steps: ['x = zeros(3)', 'y = 2 * (x @ ones(4))']}]\n"
        "epoch: [{task: b, steps: ['x = x']}]\n"
    )

    with pytest.raises(SpecError) as caught:
        compile_job(load_spec(str(path)))

    (fault,) = caught.value.faults
    line = path.read_text().splitlines()[fault.where.line - 1]
    assert line[fault.where.column - 1 :].startswith("x @ ones(4)")
    assert fault.path == "init/a/steps[1]"


ELIF = """
epoch:
  - task: b
    steps:
      - if: q > 5
        then: [y = 1]
        elif:
          - if: {condition}
            then: [y = 2]
"""


@pytest.mark.parametrize(("condition", "words"), [("x > 0", "E203"), ("1 // q > 0", "Zero")])
def test_an_error_in_the_condition_of_an_elif_is_shown_there(tmp_path, condition, words):
    path = tmp_path / "t.yaml"
    init = "init: [{task: a, steps: ['x = zeros(3)', 'q = 0']}]"
    path.write_text(HEAD + init + ELIF.replace("{condition}", condition))

    with pytest.raises((SpecError, TaskFailedError), match=words) as caught:
        jobrun.run(str(path), jobrun.RunOptions(run_dir=tmp_path / "runs"))

    (fault,) = caught.value.faults
    assert path.read_text().splitlines()[fault.where.line - 1].endswith(f"- if: {condition}")


def test_state_that_an_epoch_makes_larger_is_followed(find_faults):
    assert find_faults("y = x + ones(3)", "x = concatenate([x, x])") == []
    assert find_faults("x = concatenate([x, x])", "y = x + ones(6)") == []


def test_names_that_reports_bind_are_not_known(tmp_path):
    path = tmp_path / "t.yaml"
    path.write_text(
        HEAD + "init: [{task: a, steps: ['x = zeros(3)', 's = zeros(3)']}]\n"
        "epoch: [{task: b, steps: ['y = x + s'], "
        "report: [{every: 1s, steps: ['s = 1.0']}]}]\n"
    )

    try:
        warnings = compile_job(load_spec(str(path))).warnings
    except SpecError as error:
        warnings = error.faults
    assert not [warning for warning in warnings if warning.code == "E290"]
