from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from jobrun.cli.progress.sweep_results import (
    build_table,
    print_results,
    render_plot,
    render_reasons,
    render_verdict,
)
from jobrun.cli.terminal import Shell
from jobrun.tools.sweep.point_outcomes import Objective, rank_outcomes
from tests.support.sweeps import outcome

AIM = Objective("x")
SOME = [
    outcome(x=3.0, k=1, kind="a"),
    outcome(x=1.5, k=2, kind="b"),
    outcome("failed", k=3, kind="a"),
]


def test_the_table_marks_the_best_and_fits_eighty_columns():
    file = io.StringIO()
    Console(file=file, width=80, color_system=None).print(build_table(SOME, SOME[1:2], AIM))
    lines = file.getvalue().splitlines()

    assert lines[0].split() == ["k", "kind", "state", "epoch", "x"]
    assert [line.startswith("*") for line in lines[1:]] == [False, True, False]
    assert max(len(line) for line in lines) <= 80


def test_reasons_have_a_column_where_there_is_room_and_else_lines():
    failed = replace(SOME[2], reason="the assertion 'x < bad' does not hold (task s, node local)")
    wide = io.StringIO()
    Console(file=wide, width=120, color_system=None).print(build_table([failed], [], AIM, room=80))

    assert "node local)" in wide.getvalue().splitlines()[1]
    assert render_reasons([SOME[0], failed]) == [f"  k=3 kind=a: {failed.reason}"]


class _Terminal(Shell):
    result_width = 80


def test_what_is_long_gives_way_in_eighty_columns(capsys):
    failed = replace(SOME[2], reason="the assertion 'x < bad' does not hold " * 3)

    print_results([SOME[0], failed], AIM, _Terminal({}))

    head, first, second, *_ = capsys.readouterr().out.splitlines()
    assert head.split() == ["k", "kind", "state", "epoch", "x", "why"]
    assert first.split() == ["*", "1", "a", "finished", "3", "3"]
    assert len(second) <= 80


def test_metrics_without_room_are_left_out_and_named_and_no_word_is_cut(capsys):
    names = [f"a_metric_with_a_long_name_{at}" for at in range(4)]
    one = replace(outcome(x=3.0, k=1), metrics=dict.fromkeys(("x", *names), 1.5))

    print_results([one], AIM, _Terminal({}))

    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[:4] == ["*", "1", "finished", "3"]
    assert out[0].split()[:4] == ["k", "state", "epoch", "x"]
    assert any(line.startswith("no room for: a_metric_with_a_long_na…") for line in out)
    assert max(map(len, out)) <= 80


def test_bars_stand_in_the_order_of_rank():
    lines = render_plot(rank_outcomes(SOME, AIM), AIM, 80)

    assert lines[1] == "x"
    assert [line.split()[0] for line in lines[2:]] == ["k=2", "k=1"]
    assert len(lines[3]) > len(lines[2])
    assert max(len(line) for line in lines) <= 80


def test_one_axis_of_numbers_gives_a_chart():
    found = [outcome(x=float(k * k), k=k) for k in (3, 1, 2)]

    lines = render_plot(rank_outcomes(found, AIM), AIM, 80)

    assert lines[1] == "x over k"
    assert lines[-1].split() == ["1", "3"]


def test_an_axis_of_magnitudes_is_drawn_in_powers_of_ten():
    found = [outcome(x=rate, rate=rate) for rate in (0.001, 0.01, 0.1)]

    lines = render_plot(rank_outcomes(found, AIM), AIM, 80)

    assert lines[1] == "x over rate (powers of 10)"
    assert lines[-1].split() == ["-3", "-1"]


def test_equal_values_and_negative_ones_have_bars():
    same = [outcome(x=2.0, k=k, kind="a") for k in (1, 2)]
    below = [outcome(x=float(-k), k=k, kind="a") for k in (1, 2)]

    assert all("█" in line or "▏" in line for line in render_plot(same, AIM, 80)[2:])
    assert len(render_plot(below, AIM, 80)) == 4


def test_fewer_than_two_scores_are_not_plotted():
    assert render_plot(rank_outcomes(SOME[:1], AIM), AIM, 80) == []


def test_more_bars_than_fit_are_counted():
    many = [outcome(x=float(k), k=k, kind="a") for k in range(1, 30)]

    assert render_plot(many, AIM, 80)[-1] == "  and 9 more"


def test_the_last_line_counts_and_names_the_best():
    text = render_verdict(SOME, rank_outcomes(SOME, Objective("x", "max")), Objective("x", "max"))

    assert "2 of 3 points finished, 1 failed" in text
    assert "best (greatest x): k=1 kind=a  3" in text


def test_a_pipe_gets_no_colours_and_whole_rows(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    long = outcome(x=1.0, kind="x" * 150)

    print_results([long], AIM, Shell({}))

    said = capsys.readouterr().out
    assert "\x1b" not in said
    assert "x" * 150 in said
