from __future__ import annotations

from jobrun.cli.runs.chart import draw_chart


def test_a_rising_line_goes_from_the_lower_left_to_the_upper_right():
    lines = draw_chart([(0.0, 0.0), (1.0, 1.0)], width=4, height=2)

    assert lines == ["1 ┤⠀⠀⡠⠊", "0 ┤⡠⠊", "   0  1"]


def test_no_points_give_no_lines():
    assert draw_chart([]) == []


def test_one_point_and_equal_values_are_drawn_in_the_middle():
    assert len(draw_chart([(3.0, 5.0)], width=4, height=3)) == 4
    assert any("⠤" in line or "⠒" in line for line in draw_chart([(0.0, 5.0), (9.0, 5.0)], 6, 3))


def test_the_chart_has_the_width_and_height_asked_for():
    lines = draw_chart([(float(x), float(x * x)) for x in range(50)], width=30, height=5)

    assert len(lines) == 6
    assert max(map(len, lines)) <= 30 + len("2401 ┤")
    assert lines[0].startswith("2401 ┤")
    assert lines[-1].split() == ["0", "49"]
