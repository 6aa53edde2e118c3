from __future__ import annotations

import math

import pytest

from jobrun.core.errors import UsageError
from jobrun.tools.sweep.axes import MOST_POINTS, enumerate_points, parse_axes
from tests.support.tables import each_case


def points(*texts, count=None, seed=0):
    return enumerate_points(parse_axes(texts), count, seed)


def faults(*texts, count=None):
    with pytest.raises(UsageError) as caught:
        points(*texts, count=count)
    return caught.value.faults


def test_a_grid_is_every_combination_the_last_axis_turning_fastest():
    assert points("a=1,2", "b=x,y") == (
        (("params.a", "1"), ("params.b", "x")),
        (("params.a", "1"), ("params.b", "y")),
        (("params.a", "2"), ("params.b", "x")),
        (("params.a", "2"), ("params.b", "y")),
    )


def test_a_comma_in_quotes_is_part_of_the_value():
    assert [value for ((_, value),) in points("a=\"x,y\",'z'")] == ['"x,y"', "'z'"]


def test_seed_is_the_spec_s_own_and_a_param_of_that_name_is_reached_in_full():
    (axis,) = parse_axes(["seed=1,2"])
    (param,) = parse_axes(["params.seed=1,2"])

    assert (axis.path, param.path, param.name) == ("seed", "params.seed", "seed")


def test_a_value_written_twice_is_one_point():
    assert len(points("a=1,1,2")) == 2


@each_case(
    ("text", "word"),
    [
        ("a", "not NAME=VALUES"),
        ("=1", "not NAME=VALUES"),
        ("a=", "empty value"),
        ("a=1,,2", "empty value"),
        ('a="1', "no end"),
        ("a=2..1", "nothing in it"),
        ("a=log:0..1", "begin above 0"),
        ("a=log:1,2", "not a range"),
    ],
)
def test_an_axis_that_cannot_be_read_is_refused_at_its_place(text, word):
    (fault,) = faults(text)

    assert fault.code == "E435"
    assert str(fault.where) == "--grid #1"
    assert word in fault.message
    assert fault.mend


def test_all_invalid_axes_are_reported_together():
    assert [str(fault.where) for fault in faults("a", "b=1", "b=2", "c=")] == [
        "--grid #1",
        "--grid #3",
        "--grid #4",
    ]


def test_a_range_needs_a_number_of_points():
    (fault,) = faults("b=1,2", "a=1..2")

    assert (fault.code, str(fault.where)) == ("E436", "--grid #2")


def test_a_text_with_dots_is_no_range():
    assert points("path=../a,../b")[0] == (("params.path", "../a"),)


def test_too_many_points_are_refused_before_they_are_made():
    assert faults("a=1,2", "b=0..9", count=MOST_POINTS + 1)[0].code == "E437"
    grid = ",".join(str(number) for number in range(101))
    assert faults(f"a={grid}", f"b={grid}")[0].code == "E437"


@pytest.mark.parametrize("texts", [("a=1,2,3,4,5", "b=1,2,3,4,5"), ("a=0.0..1.0", "b=x,y,z")])
def test_more_random_points_add_to_those_there_were(texts):
    few = points(*texts, count=5, seed=3)

    assert points(*texts, count=12, seed=3)[:5] == few
    assert points(*texts, count=5, seed=4) != few


def test_random_points_of_a_grid_are_distinct_and_at_most_all_of_it():
    grid = ("a=1,2,3", "b=1,2,3")

    assert len(set(points(*grid, count=7))) == 7
    assert set(points(*grid, count=100)) == set(points(*grid))


def test_the_order_of_the_axes_does_not_change_what_is_drawn():
    drawn = points("a=0.0..1.0", "b=0..9", count=4)
    other = points("b=0..9", "a=0.0..1.0", count=4)

    assert [dict(point) for point in drawn] == [dict(point) for point in other]


def test_values_of_ranges_lie_within_their_ends():
    drawn = [dict(point) for point in points("w=1..3", "u=-1.0..1.0", "l=log:0.001..10", count=300)]

    assert {point["params.w"] for point in drawn} == {"1", "2", "3"}
    assert all(-1 <= float(point["params.u"]) <= 1 for point in drawn)
    logs = [math.log10(float(point["params.l"])) for point in drawn]
    assert -3 <= min(logs) < -2.8
    assert 0.8 < max(logs) <= 1
    assert abs(sum(logs) / 300 + 1) < 0.2
