from __future__ import annotations

import json

from jobrun.cli.shell import Shell
from jobrun.cli.sweepprogress import Board, PlainSweep, counts, heading, running_rows
from jobrun.tools.sweeping.pool import Ended, Started, Waits
from tests.support.happenings import Clock
from tests.support.sweeps import planned


def board(**given):
    clock = Clock()
    values = {"count": 4, "done": 1, "todo": 3, "jobs": 2} | given
    return Board(clock=clock, started_at=clock.now, **values), clock


def test_the_heading_says_what_is_left_to_do():
    assert heading(board()[0]) == "4 points: 1 finished before, 3 to run, 2 at a time"
    assert heading(board(count=1, done=0, todo=1)[0]) == "1 point: 1 to run, 1 at a time"
    assert heading(board(done=4, todo=0)[0]) == "4 points: all finished before"


def test_a_line_for_each_point_and_the_first_faults(capsys):
    progress = PlainSweep(Shell({}), board()[0])
    fault = {"code": "E205", "file": "a.yaml", "line": 3, "message": "no", "mend": "do"}

    with progress:
        progress.tell(Ended(planned(k=1), 0))
        progress.tell(Ended(planned(k=2), 1, (fault,)))
        progress.tell(Ended(planned(k=3), -9, (), ("last words",)))

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
    seen, clock = board()
    seen.see(Started(planned(k=2), tmp_path, 9))
    assert running_rows(seen) == [("k=2", "starts", "")]

    for epoch in (1, 2, 3):
        event = {"event": "EpochEnded", "epoch": epoch, "metrics": [["x", epoch / 4]]}
        (tmp_path / "events.jsonl").write_text(json.dumps(event) + "\n")
        clock.now += 1
        seen.see(Waits())

    assert running_rows(seen) == [("k=2", "epoch 3 of at most 9", "x 0.75 ▁▅█")]


def test_the_time_that_is_left_follows_from_what_has_ended():
    seen, clock = board()
    assert counts(seen) == "1 of 4 finished, 0 running"

    clock.now += 60
    seen.see(Ended(planned(k=1), 1))

    assert counts(seen) == "1 of 4 finished, 0 running, 1 failed   about 2 m 00 s left"
