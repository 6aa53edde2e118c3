"""Steps that hold no other steps."""

from __future__ import annotations

import pytest

from jobrun.compile.lowering.steps import _LOWERING
from jobrun.graph.effects import Assert, Log, Metric
from jobrun.graph.expressions import Call, Const, Name
from jobrun.graph.steps import (
    Assign,
    CallPython,
    DataFile,
    Load,
    NameTarget,
    Net,
    Perform,
    RunProgram,
    Save,
)
from jobrun.spec.models.steps import DECLARED_MODELS, EffectStep
from tests.support.compiling import codes_of, fault_of, job_of, task_of


def test_each_form_of_an_effect_can_be_lowered():
    kinds = {*_LOWERING, *(model.__name__ for model in DECLARED_MODELS)}

    assert kinds == {model.__name__ for model in EffectStep.__subclasses__()}


def _step(folder, step, init="w = 1.0"):
    text = f"init: [{{task: i, steps: ['{init}']}}]\nepoch: [{{task: t, steps: [{step}]}}]"
    return task_of(job_of(folder, text), "t").steps[0]


def test_the_long_form_of_an_operator_is_its_call(tmp_path):
    step = _step(tmp_path, "{op: sum, in: [w], out: s, axis: null, keepdims: true}")

    assert isinstance(step, Net)
    assert step.ops == (
        Assign(
            (NameTarget("s"),),
            Call("sum", (Name("w"),), (("axis", Const(None)), ("keepdims", Const(True)))),
            "epoch/t/steps[0]",
        ),
    )


def test_an_operator_for_its_effect_needs_no_out(tmp_path):
    step = _step(tmp_path, "{op: count_up, in: [c]}", init="c = counter(0)")

    assert isinstance(step, Net)
    assert isinstance(step.ops[0], Perform)


@pytest.mark.parametrize(
    ("step", "code"),
    [
        ("{op: summ, in: [w], out: s}", "E158"),
        ("{op: sum, in: [w]}", "E159"),
        ("{op: segment_sum, in: [w, w, 3], out: s}", "E159"),
        ("{op: sum, in: [w], out: [a, b]}", "E159"),
        ("{op: sum, in: [w], out: s, axes: 1}", "E105"),
        ("{call: 'm:f', with: {w: w + 1}, inout: [w]}", "E160"),
        ("{run: []}", "E161"),
        ("{save: {w: 'a.npz::x${epoch}'}}", "E162"),
    ],
)
def test_what_is_wrong_with_a_step_is_reported(tmp_path, step, code):
    assert fault_of(tmp_path, f"epoch: [{{task: t, steps: [{step}]}}]").code == code


def test_a_misspelt_operator_gets_the_nearest_name(tmp_path):
    fault = fault_of(tmp_path, "epoch: [{task: t, steps: [{op: argmn, in: [w], out: s}]}]")

    assert fault.mend == "did you mean 'argmin'?"


def test_inout_names_the_argument_that_may_be_changed(tmp_path):
    step = _step(tmp_path, "{call: 'm:f', with: {weights: w}, inout: [w], out: z}")

    assert isinstance(step, CallPython)
    assert step.arguments == (("weights", Name("w")),)
    assert step.writable == ("weights",)
    assert step.outputs == ("z",)


def test_inout_alone_hands_the_blob_over_under_its_name(tmp_path):
    step = _step(tmp_path, "{call: 'm:f', inout: [w]}")

    assert isinstance(step, CallPython)
    assert step.arguments == (("w", Name("w")),)
    assert step.writable == ("w",)


def test_a_line_is_for_the_shell_and_a_list_is_not(tmp_path):
    line = _step(tmp_path, "{run: 'sort a | uniq', env: [HOME], with: {n: w}}")
    words = _step(tmp_path, "{run: [sort, a], out: {y: 'b.npz::m'}, deterministic: false}")

    assert isinstance(line, RunProgram)
    assert isinstance(words, RunProgram)
    assert (line.shell, len(line.command), line.env) == (True, 1, ("HOME",))
    assert line.values == (("n", Name("w")),)
    assert (words.shell, len(words.command), words.deterministic) == (False, 2, False)
    assert [(blob, member) for blob, _, member in words.results] == [("y", "m")]


def test_a_file_is_split_from_its_member(tmp_path):
    load = _step(tmp_path, "{load: {x: 'a.h5::/group/x', y: b.npy}}")
    save = _step(tmp_path, "{save: {w: 'c.npz::w'}}")

    assert isinstance(load, Load)
    assert isinstance(save, Save)
    assert [(file.blob, file.member) for file in load.files] == [("x", "/group/x"), ("y", "")]
    assert isinstance(save.files[0], DataFile)
    assert save.files[0].member == "w"


def test_observations_keep_their_expressions(tmp_path):
    log = _step(tmp_path, "{log: 'w is {w:.3f}'}")
    record = _step(tmp_path, "{metric: {loss: w * 2}}")
    check = _step(tmp_path, "{assert: w > 0, message: 'w is {w}'}")

    assert isinstance(log, Log)
    assert isinstance(record, Metric)
    assert isinstance(check, Assert)
    assert record.values[0][0] == "loss"
    assert check.written == "w > 0"


def test_all_faults_of_a_task_are_reported_together(tmp_path):
    steps = "{op: summ, in: [w], out: s}, {run: []}, {save: {nope: a.npy}}"

    assert codes_of(tmp_path, f"epoch: [{{task: t, steps: [{steps}]}}]") == ["E158", "E161", "E180"]
