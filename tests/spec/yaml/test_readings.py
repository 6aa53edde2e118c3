import pytest

from jobrun.spec.yaml.scalars import both_readings


def test_a_bool_has_two_readings():
    assert both_readings("no", "true or false", "bool") == (
        "expected true or false; 'no' is false in YAML 1.1 and text in YAML 1.2",
        "write false",
    )


def test_an_octal_number_has_two_readings():
    assert both_readings("010", "a number", "number") == (
        "expected a number; '010' is 8 in YAML 1.1 and 10 in YAML 1.2",
        "write 8 or 10",
    )


def test_the_fault_of_a_number_that_is_no_octal_names_its_zero():
    message, mend = both_readings("08", "a number", "number")

    assert "leading zero" in message
    assert mend == "write 8"


def test_a_duration_gets_a_unit():
    message, mend = both_readings("1:30", "a duration", "duration")

    assert "'1:30' is 90 in YAML 1.1" in message
    assert mend == "write 90s for seconds, or 90m for minutes"


@pytest.mark.parametrize(
    ("text", "kind"), [("no", "number"), ("010", "bool"), ("word", "bool"), ("word", "number")]
)
def test_other_texts_have_one(text, kind):
    assert both_readings(text, "a value", kind) is None
