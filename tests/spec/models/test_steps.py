import pytest
from pydantic import TypeAdapter, ValidationError

from jobrun.spec.models import steps
from jobrun.spec.models.control_flow import StopIfStep, StopStep
from jobrun.spec.models.step_forms import FORMS, Step, step_form
from jobrun.spec.models.steps import OpStep
from tests.support.specs import STEPS
from tests.support.tables import each_case


def _step(value):
    return TypeAdapter(Step).validate_python(value)


def _kinds(value):
    with pytest.raises(ValidationError) as caught:
        _step(value)
    return [error["type"] for error in caught.value.errors()]


def test_each_form_has_an_example():
    assert tuple(STEPS) == FORMS


@each_case("form", FORMS)
def test_each_form_is_told_by_its_key(form):
    step = _step(STEPS[form])

    assert step_form(STEPS[form]) == form
    assert step_form(step) == form


@each_case("form", [form for form in FORMS if form != "op"])
def test_each_form_is_closed(form):
    assert _kinds(STEPS[form] | {"unknown": 1}) == ["extra_forbidden"]


@each_case("form", FORMS)
def test_each_form_says_in_yaml_what_it_was_read_from(form):
    step = _step(STEPS[form])

    again = step.model_dump(by_alias=True, mode="json", exclude_unset=True)

    assert _step(again) == step


def test_a_statement_is_text():
    assert _step("w -= lr * g") == "w -= lr * g"
    assert _kinds("") == ["string_too_short"]


@pytest.mark.parametrize("value", [None, 3, True, [], {}, {"lop": 3}])
def test_anything_else_is_no_step(value):
    assert _kinds(value) == ["union_tag_not_found"]


def test_the_arguments_of_an_operator_are_its_own():
    step = _step(STEPS["op"])

    assert isinstance(step, OpStep)
    assert step.model_extra == {"axis": 1, "where": None}


def test_stop_stands_alone_or_beside_stop_if():
    assert isinstance(_step({"stop": "a"}), StopStep)
    assert isinstance(_step({"stop": "a", "stop_if": "b"}), StopIfStep)


@pytest.mark.parametrize("name", ["math.sqrt", "math:", ":f", "a b:c", "os:system()", "3:a"])
def test_a_callable_has_a_module_and_a_name(name):
    assert _kinds({"call": name}) == ["string_pattern_mismatch"]


@pytest.mark.parametrize("form", ["load", "save", "metric", "pull"])
def test_an_empty_mapping_does_nothing_and_is_refused(form):
    assert _kinds({form: {}}) == ["too_short"]


def test_a_report_has_an_interval():
    assert steps.ReportSpec(steps=()).every == 1.0
