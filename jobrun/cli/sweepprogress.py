"""Progress of a sweep: what ended, as lines; on a terminal also what runs. Decides nothing."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from jobrun.cli.output import number, span, sparkline
from jobrun.cli.shell import Shell
from jobrun.core.excerpt import visible
from jobrun.tools.runs.latest import last_epoch
from jobrun.tools.sweeping.design import Design, Planned
from jobrun.tools.sweeping.pool import Ended, Happening, Started

_LOOK_EVERY_S = 1.0
_HISTORY = 64
_MOST_SHOWN = 12
_MOST_METRICS = 3
_MOST_FAULTS = 3
_WORDS = {0: "finished", 9: "finished, but not as expected", 75: "stopped", 130: "interrupted"}
_COLOURS = {0: "green", 75: "yellow", 130: "yellow"}


@dataclass(slots=True)
class Running:
    """A run that goes on: where it is, as its files say."""

    run: Path
    total_epochs: int | None
    epoch: int = -1
    metrics: dict[str, list[float]] = field(default_factory=dict)

    def look(self) -> None:
        """Look at its files again."""
        epoch, values = last_epoch(self.run)
        if epoch == self.epoch:
            return
        self.epoch = epoch
        for name, value in values.items():
            if isinstance(value, int | float):
                history = self.metrics.setdefault(name, [])
                history.append(float(value))
                del history[:-_HISTORY]


@dataclass(slots=True)
class Board:
    """What is known of a sweep that runs.

    Attributes:
        count: How many points there are.
        done: How many are over, before or now.
        todo: How many there were to run.
        jobs: How many run at a time.
    """

    count: int
    done: int
    todo: int
    jobs: int
    clock: Callable[[], float] = time.monotonic
    running: dict[str, tuple[Planned, Running]] = field(default_factory=dict)
    ended: int = 0
    failed: int = 0
    started_at: float = 0.0
    looked_at: float = 0.0

    def see(self, event: Happening) -> None:
        """Take in what has happened."""
        match event:
            case Started():
                self.running[event.point.job] = event.point, Running(event.run, event.total_epochs)
            case Ended():
                self.running.pop(event.point.job, None)
                self.ended += 1
                self.done += event.exit_code in (0, 9)
                self.failed += event.exit_code not in _WORDS
            case _:
                pass
        if self.clock() >= self.looked_at + _LOOK_EVERY_S:
            self.looked_at = self.clock()
            for _, one in self.running.values():
                one.look()

    @property
    def left_s(self) -> float | None:
        """Until all have ended, as those so far let expect; None when nothing is known."""
        if not self.ended:
            return None
        return (self.clock() - self.started_at) / self.ended * max(0, self.todo - self.ended)


class PlainSweep:
    """Says a line for each point that has ended.

    Args:
        shell: Where to.
        board: Told of everything first.
    """

    def __init__(self, shell: Shell, board: Board) -> None:
        self._shell = shell
        self._board = board

    def __enter__(self) -> Self:
        self._board.started_at = self._board.clock()
        self._say(heading(self._board))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is left to be said."""

    def tell(self, event: Happening) -> None:
        """Something has happened."""
        self._board.see(event)
        if isinstance(event, Ended):
            for line in ended_lines(event, self._board, self._shell):
                self._say(line)

    def _say(self, text: str) -> None:
        self._shell.say(text)


def sweep_progress(shell: Shell, design: Design, todo: int, jobs: int) -> Any:
    """A context manager with ``tell``: live on a terminal, else plain lines."""
    count = len(design.points)
    board = Board(count, count - todo, todo, jobs)
    if shell.live and todo:
        from jobrun.cli.sweeplive import LiveSweep  # noqa: PLC0415 - brings rich in

        return LiveSweep(shell, board)
    return PlainSweep(shell, board)


def heading(board: Board) -> str:
    """``12 points: 3 finished before, 9 to run, 2 at a time``."""
    before = f"{board.done} finished before, " if board.done else ""
    points = "1 point" if board.count == 1 else f"{board.count} points"
    if not board.todo:
        return f"{points}: all finished before"
    return f"{points}: {before}{board.todo} to run, {min(board.jobs, board.todo)} at a time"


def ended_lines(event: Ended, board: Board, shell: Shell) -> list[str]:
    """What is said of a point that has ended, the first fault with it."""
    word = _WORDS.get(event.exit_code, f"failed with exit code {event.exit_code}")
    if event.exit_code < 0:
        word = f"killed by signal {-event.exit_code}"
    colour = _COLOURS.get(event.exit_code, "red")
    lines = [
        f"[{board.done} of {board.count}] {visible(event.point.label)}: {shell.paint(word, colour)}"
    ]
    if event.exit_code in (0, 75, 130):
        return lines
    for fault in event.faults[:_MOST_FAULTS]:
        place = f"{fault['file']}:{fault['line']}  " if fault.get("line") else ""
        lines.append(visible(f"  error[{fault['code']}] {place}{fault['message']}"))
        if fault.get("mend"):
            lines.append(visible(f"      = {fault['mend']}"))
    if not event.faults:
        lines += [f"  {visible(line)}" for line in event.said]
    return lines


def running_rows(board: Board) -> list[tuple[str, str, str]]:
    """For each run: its point, where it is, and its metrics."""
    rows = []
    for point, one in list(board.running.values())[:_MOST_SHOWN]:
        total = f" of at most {one.total_epochs}" if one.total_epochs else ""
        where = f"epoch {one.epoch}{total}" if one.epoch >= 0 else "starts"
        metrics = [
            f"{visible(name)} {number(values[-1])} {sparkline(values, 12)}".rstrip()
            for name, values in list(one.metrics.items())[:_MOST_METRICS]
        ]
        rows.append((visible(point.label), where, "  ".join(metrics)))
    return rows


def counts(board: Board) -> str:
    """``3 of 12 finished, 2 running, 1 failed   about 2 m 10 s left``."""
    text = f"{board.done} of {board.count} finished, {len(board.running)} running"
    if board.failed:
        text += f", {board.failed} failed"
    return text if board.left_s is None else f"{text}   about {span(board.left_s)} left"
