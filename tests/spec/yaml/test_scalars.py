import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobrun.spec.yaml.scalars import NumberRangeError, old_reading, resolve
from tests.support.tables import each_case


@each_case(
    ("text", "value"),
    [
        ("", None), ("~", None), ("null", None), ("Null", None), ("NULL", None),
        ("true", True), ("True", True), ("TRUE", True), ("false", False), ("FALSE", False),
        ("0", 0), ("-0", 0), ("+12", 12), ("-7", -7), ("0o17", 15), ("0x1F", 31), ("0xff", 255),
        ("1.", 1.0), (".5", 0.5), ("-.5", -0.5), ("1e3", 1000.0), ("1e-4", 1e-4), ("1E+2", 100.0),
        ("012.5", 12.5), ("9223372036854775807", 2**63 - 1), ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)), (".inf", math.inf), ("+.Inf", math.inf),
        ("-.INF", -math.inf),
    ],
)  # fmt: skip
def test_the_core_schema_of_yaml_1_2(text, value):
    resolved = resolve(text)

    assert resolved == value
    assert type(resolved) is type(value)


@pytest.mark.parametrize("text", [".nan", ".NaN", ".NAN"])
def test_not_a_number_is_a_float(text):
    assert math.isnan(resolve(text))


@each_case(
    "text",
    ["yes", "no", "on", "off", "y", "n", "tRUE", "nULL", "010", "-007", "08", "1_000", "1:30",
     "12:30:00", "2001-12-14", "0b101", "0o8", "0x", "0xZ", "+0x1", "1e", "e5", ".", "-", "+", "..",
     "=", "<<", "1.2.3", "٣", "1 2", ".infinity", "nan", "inf", "0o", "--1"],
)  # fmt: skip
def test_what_only_yaml_1_1_reads_is_text(text):
    assert resolve(text) == text


@pytest.mark.parametrize(
    "text", ["2" * 20, "9" * 5000, "-9223372036854775809", "0x1" + "0" * 16, "1e999", "-1e999"]
)
def test_numbers_beyond_64_bits_are_refused(text):
    with pytest.raises(NumberRangeError):
        resolve(text)


@each_case(
    ("text", "value"),
    [
        ("no", False), ("Off", False), ("N", False), ("yes", True), ("ON", True), ("y", True),
        ("010", 8), ("-010", -8), ("08", 8), ("1_000", 1000), ("1_0.5", 10.5), ("1:30", 90),
        ("12:30:00", 45000), ("-1:30", -90),
    ],
)  # fmt: skip
def test_what_yaml_1_1_made_of_it(text, value):
    assert old_reading(text) == value


@pytest.mark.parametrize("text", ["nope", "text", "2001-12-14", "1:99", "a:b", "", "_1"])
def test_where_the_versions_agree(text):
    assert old_reading(text) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_come_back_as_they_were_written(number):
    assert resolve(repr(number)) == number


@given(st.integers(-(2**63), 2**64 - 1))
def test_integers_come_back_as_they_were_written(number):
    assert resolve(str(number)) == number


@given(st.text())
def test_any_text_is_a_value_or_a_number_too_large(text):
    try:
        value = resolve(text)
    except NumberRangeError:
        return
    assert value is None or isinstance(value, bool | int | float) or value == text
    old_reading(text)
