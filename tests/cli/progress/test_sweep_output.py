from __future__ import annotations

import io

from msgspec.structs import replace
from rich.console import Console

from jobrun.cli.progress.sweep_output import (
    LiveSweep,
    PlainSweep,
    SweepState,
    build_table,
    print_results,
    render_counts,
    render_display,
    render_heading,
    render_plot,
    render_reasons,
    render_verdict,
    running_rows,
)
from jobrun.cli.terminal import Shell
from jobrun.core.events import EpochEnded
from jobrun.tools.sweep.point_outcomes import Objective, rank_outcomes
from jobrun.tools.sweep.process_pool import PointEnded, PointStarted, PoolIdle
from tests.support.sample_events import Clock, written
from tests.support.sweeps import outcome, planned


def state(**changes):
    clock = Clock()
    values = {"count": 4, "done": 1, "todo": 3, "jobs": 2} | changes
    return SweepState(clock=clock, started_at=clock.now, **values), clock


def test_the_heading_says_what_is_left_to_do():
    assert render_heading(state()[0]) == "4 points: 1 finished before, 3 to run, 2 at a time"
    assert render_heading(state(count=1, done=0, todo=1)[0]) == "1 point: 1 to run, 1 at a time"
    assert render_heading(state(done=4, todo=0)[0]) == "4 points: all finished before"


def test_a_line_for_each_point_and_the_first_faults(capsys):
    progress = PlainSweep(Shell({}), state()[0])
    fault = {"code": "E205", "file": "a.yaml", "line": 3, "message": "no", "mend": "do"}

    with progress:
        progress.listen(PointEnded(planned(k=1), 0))
        progress.listen(PointEnded(planned(k=2), 1, (fault,)))
        progress.listen(PointEnded(planned(k=3), -9, (), ("last words",)))

    assert capsys.readouterr().err.splitlines() == [
        "4 points: 1 finished before, 3 to run, 2 at a time",
        "[2 of 4] k=1: finished",
        "[2 of 4] k=2: failed with exit code 1",
        "  error[E205] a.yaml:3  no",
        "      = do",
        "[2 of 4] k=3: killed by signal 9",
        "  last words",
    ]


def test_what_runs_is_shown_from_its_files(tmp_path):
    seen, clock = state()
    seen.update(PointStarted(planned(k=2), tmp_path, 9))
    assert running_rows(seen) == [("k=2", "starts", "")]

    for epoch in (1, 2, 3):
        event = EpochEnded(epoch, 0.1, (("x", epoch / 4),), ())
        (tmp_path / "events.jsonl").write_text(written(event))
        clock.now += 1
        seen.update(PoolIdle())

    assert running_rows(seen) == [("k=2", "epoch 3 of at most 9", "x 0.75 ▁▅█")]


def test_the_time_that_is_left_follows_from_what_has_ended():
    seen, clock = state()
    assert render_counts(seen) == "1 of 4 finished, 0 running"

    clock.now += 60
    seen.update(PointEnded(planned(k=1), 1))

    assert render_counts(seen) == "1 of 4 finished, 0 running, 1 failed   about 2 m 00 s left"


def test_the_display_fits_eighty_columns_and_does_not_fold(tmp_path):
    state = SweepState(40, 3, 37, 2)
    state.update(PointStarted(planned(kind="x" * 100), tmp_path, 100))
    file = io.StringIO()

    Console(file=file, width=80, color_system=None).print(render_display(state))

    lines = file.getvalue().splitlines()
    assert len(lines) == 3
    assert max(len(line) for line in lines) <= 80
    assert "3 of 40 finished, 1 running" in lines[-1]


def test_what_ended_stays_on_the_screen(capsys):
    with LiveSweep(Shell({}), SweepState(2, 0, 2, 1)) as progress:
        progress.listen(PointEnded(planned(k=1), 0))

    errors = capsys.readouterr().err
    assert "2 points: 2 to run, 1 at a time" in errors
    assert "[1 of 2] k=1: finished" in errors


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
    point_outcome = replace(outcome(x=3.0, k=1), metrics=dict.fromkeys(("x", *names), 1.5))

    print_results([point_outcome], AIM, _Terminal({}))

    out = capsys.readouterr().out.splitlines()
    assert out[1].split()[:4] == ["*", "1", "finished", "3"]
    assert out[0].split()[:4] == ["k", "state", "epoch", "x"]
    assert any(line.startswith("no room for: a_metric_with_a_long_na…") for line in out)
    assert max(map(len, out)) <= 80


def test_bars_are_in_the_order_of_rank():
    lines = render_plot(rank_outcomes(SOME, AIM), AIM, 80)

    assert lines[1] == "x"
    assert [line.split()[0] for line in lines[2:]] == ["k=2", "k=1"]
    assert len(lines[3]) > len(lines[2])
    assert max(len(line) for line in lines) <= 80


def test_one_axis_of_numbers_gives_a_chart():
    outcomes = [outcome(x=float(k * k), k=k) for k in (3, 1, 2)]

    lines = render_plot(rank_outcomes(outcomes, AIM), AIM, 80)

    assert lines[1] == "x over k"
    assert lines[-1].split() == ["1", "3"]


def test_an_axis_of_magnitudes_is_drawn_in_powers_of_ten():
    outcomes = [outcome(x=rate, rate=rate) for rate in (0.001, 0.01, 0.1)]

    lines = render_plot(rank_outcomes(outcomes, AIM), AIM, 80)

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
    aim = Objective("x", "max")
    counts, best = render_verdict(SOME, rank_outcomes(SOME, aim), aim)

    assert counts == "2 of 3 points finished, 1 failed"
    assert best.startswith("best (greatest x): k=1 kind=a  3")


def test_a_pipe_gets_no_colours_and_whole_rows(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    long = outcome(x=1.0, kind="x" * 150)

    print_results([long], AIM, Shell({}))

    output = capsys.readouterr().out
    assert "\x1b" not in output
    assert "x" * 150 in output
