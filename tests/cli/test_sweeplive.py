from __future__ import annotations

import io

from rich.console import Console

from jobrun.cli.shell import Shell
from jobrun.cli.sweeplive import LiveSweep, view
from jobrun.cli.sweepprogress import Board
from jobrun.tools.sweeping.pool import Ended, Started
from tests.support.sweeps import planned


def test_the_display_fits_eighty_columns_and_does_not_fold(tmp_path):
    board = Board(40, 3, 37, 2)
    board.see(Started(planned(kind="x" * 100), tmp_path, 100))
    file = io.StringIO()

    Console(file=file, width=80, color_system=None).print(view(board))

    lines = file.getvalue().splitlines()
    assert len(lines) == 3
    assert max(len(line) for line in lines) <= 80
    assert "3 of 40 finished, 1 running" in lines[-1]


def test_what_ended_stays_on_the_screen(capsys):
    with LiveSweep(Shell({}), Board(2, 0, 2, 1)) as progress:
        progress.tell(Ended(planned(k=1), 0))

    said = capsys.readouterr().err
    assert "2 points: 2 to run, 1 at a time" in said
    assert "[1 of 2] k=1: finished" in said
