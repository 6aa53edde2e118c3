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


@each_case("key", FORMS)
def test_each_step_kind_is_recognised_by_its_key(key):
    step = _step(STEPS[key])

    assert step_form(STEPS[key]) == key
    assert step_form(step) == key


@each_case("key", [key for key in FORMS if key != "op"])
def test_each_step_kind_refuses_unknown_keys(key):
    assert _kinds(STEPS[key] | {"unknown": 1}) == ["extra_forbidden"]


@each_case("key", FORMS)
def test_each_step_kind_is_dumped_as_it_was_read(key):
    step = _step(STEPS[key])

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


def test_stop_is_alone_or_with_stop_if():
    assert isinstance(_step({"stop": "a"}), StopStep)
    assert isinstance(_step({"stop": "a", "stop_if": "b"}), StopIfStep)


@pytest.mark.parametrize("name", ["math.sqrt", "math:", ":f", "a b:c", "os:system()", "3:a"])
def test_a_callable_has_a_module_and_a_name(name):
    assert _kinds({"call": name}) == ["string_pattern_mismatch"]


@pytest.mark.parametrize("key", ["load", "save", "metric", "pull"])
def test_an_empty_mapping_does_nothing_and_is_refused(key):
    assert _kinds({key: {}}) == ["too_short"]


def test_a_report_has_an_interval():
    assert steps.ReportSpec(steps=()).every == 1.0
