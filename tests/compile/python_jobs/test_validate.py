from __future__ import annotations

import pytest

from jobrun.compile.faults import Faults, Place
from jobrun.compile.python_jobs.validate import (
    check_file_name,
    check_report,
    check_steps,
    check_stop,
    check_task,
)
from jobrun.core.errors import SpecError
from jobrun.graph.conditions import StopAfterEpochs, StopAfterTime, StopWithoutImprovement
from jobrun.graph.effects import NOWHERE
from jobrun.graph.expressions import Builtin, Call, Const, Draw, Dtype, Name
from jobrun.graph.steps import Assign, NameTarget, Net
from jobrun.graph.types import Report, Task


def _assign(name, value=Const(1)):  # noqa: B008 - a frozen value
    return (Net((Assign((NameTarget(name),), value),)),)


def _code(vet, *arguments):
    faults = Faults()
    vet(*arguments, faults)
    try:
        faults.raise_if_any()
    except SpecError as error:
        return error.faults[0].code
    return None


@pytest.mark.parametrize("name", ["", "../a", ".a", "-a", "a/b", "a b", "a" * 65])
def test_a_name_that_cannot_be_a_files_is_refused(name):
    assert _code(check_file_name, name, "task", Place("x", NOWHERE)) == "E196"


def test_a_plain_name_is_a_name():
    assert _code(check_file_name, "trainer_0", "node", Place("x", NOWHERE)) is None


@pytest.mark.parametrize(
    "value", [Call("nothing"), Draw("nothing"), Builtin("nothing"), Dtype("nothing")]
)
def test_words_that_mean_nothing_are_refused(value):
    assert _code(check_steps, _assign("x", value), {}) == "E199"


@pytest.mark.parametrize(
    "value",
    [Call("sqrt"), Call("sum", (Const(1),), (("axs", Const(0)),)), Draw("normal", (Const(1),) * 9)],
)
def test_a_call_takes_what_its_signature_says(value):
    assert _code(check_steps, _assign("x", value), {}) == "E105"


@pytest.mark.parametrize(
    ("name", "code"), [("k", "E150"), ("sum", "E151"), ("a-b", "E151"), ("ok", None),
                       ("epoch/t/steps[0]:own", None)],
)  # fmt: skip
def test_names_of_blobs_are_those_of_the_language(name, code):
    assert _code(check_steps, _assign(name), {"k": 3}) == code


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (Task("t", "n", (), instances=0), "E198"),
        (Task("t", "n", (), reports=(Report(0.0, ()),)), "E163"),
        (Task("t", "n", _assign("x", Name("y"))), None),
    ],
)
def test_a_task_is_vetted_as_a_whole(task, code):
    assert _code(check_task, task, {}) == code


@pytest.mark.parametrize("interval_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_report_needs_an_interval_that_passes(interval_s):
    report = Report(interval_s, _assign("x"))
    assert _code(check_report, report, Place("x", NOWHERE), {}) == "E163"


@pytest.mark.parametrize(
    "condition",
    [
        StopAfterEpochs(0),
        StopAfterEpochs(-1),
        StopAfterEpochs(2.5),
        StopWithoutImprovement("m", 0),
        StopAfterTime(0.0),
        StopAfterTime(float("nan")),
        StopAfterTime(float("inf")),
    ],
)
def test_an_end_that_cannot_be_meant_is_refused(condition):
    assert _code(check_stop, condition, "stop[0]") == "E198"


@pytest.mark.parametrize(
    "condition", [StopAfterEpochs(1), StopAfterTime(0.5), StopWithoutImprovement("m", 3)]
)
def test_an_end_that_can_be_meant_is_not(condition):
    assert _code(check_stop, condition, "stop[0]") is None
