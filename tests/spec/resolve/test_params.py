import pytest

from jobrun.spec.resolve.params import ParamValues
from jobrun.spec.resolve.substitute import Substitution
from jobrun.spec.yaml.parse import read_document
from tests.support.tables import each_case


def _declared(body, **environment):
    values = ParamValues(Substitution({}, environment, 7))
    root = read_document(body, "job.yaml").root
    data = {name: values.declare(name, node) for name, node in root.values.items()}
    return values, data


def _values(body, **environment):
    values, _ = _declared(body, **environment)
    assert values.faults == []
    return values.values


def _fault(body):
    (fault,) = _declared(body)[0].faults
    return fault


def test_short_params_take_their_type_from_the_value():
    values = _values("a: 1\nb: 1e-4\nc: true\nd: no\ne: '1'\n")

    assert values == {"a": 1, "b": 1e-4, "c": True, "d": "no", "e": "1"}
    assert [type(value) for value in values.values()] == [int, float, bool, str, str]


def test_long_params_take_the_type_they_declare():
    values = _values("a: {type: float, default: 1}\nb: {default: 2}\nc: {type: text, default: x}\n")

    assert values == {"a": 1.0, "b": 2, "c": "x"}
    assert type(values["a"]) is float


def test_a_param_may_use_those_above_it_and_the_environment():
    assert _values("a: 2\nb: ${a}\nc: x${b}\nd: '${env:D,4}'\n") == {
        "a": 2,
        "b": 2,
        "c": "x2",
        "d": 4,
    }


def test_a_param_may_not_use_those_below_it():
    values, _ = _declared("b: ${a}\na: 2\n")

    assert len(values._substitution.faults) == 1


def test_an_environment_value_is_text_where_text_is_declared():
    assert _values("a: {type: text, default: '${env:A}'}\n", A="012") == {"a": "012"}


def test_the_long_form_is_given_with_value_and_type():
    _, data = _declared("a: 1\nb: {default: 2, min: 0, help: x}\n")

    assert data == {
        "a": {"type": "int", "default": 1},
        "b": {"type": "int", "default": 2, "min": 0, "help": "x"},
    }


@each_case(
    ("declared", "words"),
    [
        ("{type: int, default: 1.5}", "expected an int, found the number 1.5"),
        ("{type: int, default: true}", "expected an int, found true"),
        ("{type: int, default: x}", "expected an int, found the text 'x'"),
        ("{type: float, default: '1'}", "expected a float, found the text '1'"),
        ("{type: bool, default: 1}", "expected true or false, found the number 1"),
        ("{type: text, default: 1}", "expected text, found the number 1"),
        ("{default: 1, min: 2}", "1 is less than the minimum 2"),
        ("{default: 3.5, max: 2}", "3.5 is greater than the maximum 2"),
        ("{default: .nan, max: 2}", "nan is greater than the maximum 2"),
        ("{default: c, choices: [a, b]}", "'c' is not one of the choices"),
        ("{type: int}", "param 'a' has no value"),
        ("{}", "param 'a' has no value"),
    ],
)
def test_a_value_that_does_not_fit_is_a_fault(declared, words):
    fault = _fault(f"a: {declared}\n")

    assert (fault.code, fault.path) == ("E036", "params.a")
    assert words in fault.message
    assert fault.mend


@pytest.mark.parametrize(
    "declared", ["{default: b, choices: [a, b]}", "{default: 2, min: 2, max: 2}"]
)
def test_a_value_on_its_bounds_fits(declared):
    _values(f"a: {declared}\n")


def test_a_declared_number_with_two_readings_is_a_fault():
    assert _fault("a: {type: int, default: 1_000}\n").code == "E023"


def test_a_short_text_that_looks_like_a_number_is_a_warning():
    values, _ = _declared("a: 1_000\nb: '1_000'\nc: no\nd: 1:30\n")

    assert [warning.path for warning in values.warnings] == ["params.a", "params.d"]
    assert {warning.code for warning in values.warnings} == {"W101"}
    assert values.values["a"] == "1_000"


def test_a_wrong_form_is_left_to_the_check_of_the_whole():
    values, data = _declared("a: {typ: int}\nb: [1]\nc: {default: [1]}\n")

    assert values.faults == []
    assert data == {"a": {"typ": "int"}, "b": [1], "c": {"default": [1]}}
