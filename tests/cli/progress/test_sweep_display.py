from __future__ import annotations

import io

from rich.console import Console

from jobrun.cli.progress.sweep_display import (
    LiveSweep,
    PlainSweep,
    SweepState,
    render_counts,
    render_display,
    render_heading,
    running_rows,
)
from jobrun.cli.terminal import Shell
from jobrun.core.events import EpochEnded
from jobrun.tools.sweep.process_pool import PointEnded, PointStarted, PoolIdle
from tests.support.sample_events import Clock, written
from tests.support.sweeps import planned


def state(**given):
    clock = Clock()
    values = {"count": 4, "done": 1, "todo": 3, "jobs": 2} | given
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

    said = capsys.readouterr().err
    assert "2 points: 2 to run, 1 at a time" in said
    assert "[1 of 2] k=1: finished" in said
