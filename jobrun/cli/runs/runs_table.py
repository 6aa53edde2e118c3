"""Render the table of ``jobrun runs`` in the width of the terminal, by leaving columns out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import cast

from jobrun.cli.formatting import STATUS_COLOURS, number, span
from jobrun.cli.terminal import Shell
from jobrun.core.lazy_dataclass import dataclass
from jobrun.core.text.fault_text import visible
from jobrun.tools.runs.filter_and_sort_runs import METRICS, PARAMS, RunGroup
from jobrun.tools.runs.summarise_runs import RunSummary, Value

_GAP = 2
_LEAST_NOTE = 12
_LONGEST_CELL = 24
_EMPTY = "-"
_DAY_S = 86400
# What is left out last has the lowest rank; those of params and metrics follow, in turn.
_RANKS = {"run": 0, "status": 1, "best_epoch": 2, "epoch": 3, "left": 4, "age": 8}
_MENTIONED, _FIRST_VALUE = 2, 5


@dataclass(frozen=True, slots=True)
class _Column:
    """A column that may be shown: what it is called, its cells, and how soon it is left out."""

    key: str
    head: str
    cells: Sequence[str]
    rank: int
    width: int
    is_right: bool = False


class RunsTable:
    """Renders groups of runs, each with columns of its own.

    Args:
        shell: Where they are printed.
        now: The present time.
        mentioned: Columns that were asked for, as ``find_column`` returns them: shown if possible.

    Attributes:
        left_out: The heads of the columns that found no room.
    """

    def __init__(self, shell: Shell, now: datetime, mentioned: Iterable[str] = ()) -> None:
        self._shell = shell
        self._now = now
        self._mentioned = frozenset(mentioned)
        self.left_out: dict[str, None] = {}

    def render(self, groups: Sequence[RunGroup]) -> list[str]:
        """Render the table of ``jobrun runs``: the rows of each group, with empty lines between."""
        # The words of a name find a run as long as no other run has them.
        words = [[run.words for run in group.runs] for group in groups]
        counts = Counter(chain.from_iterable(words))
        lines: list[str] = []
        for group, own in zip(groups, words, strict=True):
            names = [
                ("  " * (depth - 1) + "└ " if depth else "")
                + (word if counts[word] == 1 else run.path)
                for run, depth, word in zip(group.runs, group.depths, own, strict=True)
            ]
            lines += ["", *self._group(group, names)] if lines else self._group(group, names)
        return lines

    def _group(self, group: RunGroup, names: Sequence[str]) -> list[str]:
        columns = self._columns(group, names)
        above = []
        if len(columns[0].head) > max(_LONGEST_CELL, *map(len, columns[0].cells)):
            # A column as wide as this name would take the room of others.
            above = [self._shell.paint(columns[0].head, "bold", result=True)]
            columns[0] = _column("run", "run", columns[0].cells, 0)
        width = self._shell.result_width
        shown = _fitting(columns, width)
        self.left_out |= {one.head: None for one in columns if one not in shown}
        room = width - sum(one.width + _GAP for one in shown)
        notes = _notes(group.runs)
        distinct = set(notes)
        has_notes = room >= min(_LEAST_NOTE, max(map(len, distinct))) and any(distinct)
        lines = [*above, self._head(shown, has_notes=has_notes)]
        status = next(at for at, one in enumerate(shown) if one.key == "status")
        padded = [_padded(one) for one in shown]
        padded[status] = self._painted(padded[status])
        if has_notes:
            cut = {note: cut_at_word(note, room) for note in distinct}
            padded.append([cut[note] for note in notes])
        gap = " " * _GAP
        return [*lines, *[gap.join(cells).rstrip() for cells in zip(*padded, strict=True)]]

    def _painted(self, statuses: Sequence[str]) -> list[str]:
        """Colour the status cells of the table of runs, each by the status that it shows."""
        painted = {
            cell: self._shell.paint(cell, STATUS_COLOURS.get(cell.strip(), "dim"), result=True)
            for cell in set(statuses)
        }
        return [painted[cell] for cell in statuses]

    def _head(self, shown: Sequence[_Column], *, has_notes: bool) -> str:
        heads = [
            f"{one.head:>{one.width}}" if one.is_right else f"{one.head:<{one.width}}"
            for one in shown
        ]
        line = (" " * _GAP).join([*heads, *(["note"] if has_notes else [])]).rstrip()
        return self._shell.paint(line, "bold", result=True)

    def _columns(self, group: RunGroup, names: Sequence[str]) -> list[_Column]:
        runs = group.runs
        found = [_column("run", visible(group.title), names, 0)]
        for at, name in enumerate(group.params):
            seeds = name == "seed" and not any("seed" in run.params for run in runs)
            found.append(
                self._values(
                    "seed" if seeds else PARAMS + name,
                    name,
                    [run.seed if seeds else run.params.get(name) for run in runs],
                    _FIRST_VALUE + 2 * at,
                )
            )
        for at, name in enumerate(group.metrics):
            values = [run.metrics.get(name) for run in runs]
            found.append(self._values(METRICS + name, name, values, _FIRST_VALUE + 1 + 2 * at))
        if any(run.best_epoch is not None for run in runs):
            found.append(
                self._values("best_epoch", "best at", [run.best_epoch for run in runs], _MENTIONED)
            )
        found.append(_column("status", "status", [run.status for run in runs], _RANKS["status"]))
        found.append(self._own("epoch", list(map(_epoch, runs))))
        if any(run.left_s is not None for run in runs):
            found.append(self._own("left", [_coarse(run.left_s) for run in runs]))
        found.append(self._own("age", [_coarse(run.age_s(self._now)) for run in runs]))
        return found

    def _own(self, key: str, cells: Sequence[str]) -> _Column:
        rank = _MENTIONED if key in self._mentioned else _RANKS[key]
        return _column(key, key, cells, rank, is_right=True)

    def _values(self, key: str, head: str, values: Sequence[Value | None], rank: int) -> _Column:
        kinds = set(map(type, values))
        rank = _MENTIONED if key in self._mentioned else rank
        cells = _cells(values, kinds)
        return _column(key, _cut(visible(head)), cells, rank, is_right=str not in kinds)


def _column(
    key: str, head: str, cells: Sequence[str], rank: int, *, is_right: bool = False
) -> _Column:
    """Make a column of the table of runs, as wide as its longest cell, or its head."""
    return _Column(key, head, cells, rank, max(len(head), *map(len, cells)), is_right)


def _cells(values: Sequence[Value | None], kinds: set[type]) -> list[str]:
    """Render the cells of one column in the table of runs, given the types of its values.

    Values of different types may be equal, and yet look different: 1 and True.
    """
    if kinds == {float}:
        # As most are: these are short, and have no control characters.
        return list(map(number, cast("Sequence[float]", values)))
    if len(kinds) > 1:
        return list(map(_cell, values))
    shown = {value: _cell(value) for value in set(values)}
    return [shown[value] for value in values]


def _cell(value: Value | None) -> str:
    return _EMPTY if value is None else _cut(visible(number(value)))


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Select the columns that fit in the table of runs; those of high rank are left out first."""
    room = width + _GAP
    chosen = []
    # Sorting is stable: of one rank the first.
    for one in sorted(columns, key=lambda column: column.rank):
        if one.rank <= 1 or one.width + _GAP <= room:
            chosen.append(one)
            room -= one.width + _GAP
    return [one for one in columns if one in chosen]


def _padded(column: _Column) -> list[str]:
    width = column.width
    if column.is_right:
        return [cell.rjust(width) for cell in column.cells]
    return [cell.ljust(width) for cell in column.cells]


def _epoch(run: RunSummary) -> str:
    if run.epoch < 0:
        return _EMPTY
    return f"{run.epoch}/{run.total_epochs}" if run.total_epochs else str(run.epoch)


def _coarse(seconds: float | None) -> str:
    """Render a duration in the table of runs by its largest unit, as ``3 d`` for three days."""
    if seconds is None:
        return _EMPTY
    # Nearly all runs are older than a day.
    days = round(seconds) // _DAY_S
    return f"{days} d" if days else " ".join(span(seconds).split()[:2])


def _notes(runs: Sequence[RunSummary]) -> list[str]:
    """Render the note in each row of the table of runs; a reason that rows share, only once."""
    reasons = {reason: visible(reason) for reason in {run.reason for run in runs}}
    return [_note(run) if run.tags or run.parent else reasons[run.reason] for run in runs]


def _note(run: RunSummary) -> str:
    """Render one row's notes in the table of runs: tags, fork, reason why the run ended."""
    # The tags of a sweep repeat its name and its params, which have columns.
    tags = [tag for tag in run.tags if not (run.sweep and "=" in tag)]
    fork = f"fork of {run.parent.rpartition('/')[2].split('-', 2)[-1]}@{run.parent_epoch}"
    parts = [" ".join(f"#{tag}" for tag in tags), fork if run.parent else "", run.reason]
    return visible("  ".join(filter(None, parts)))


def cut_at_word(text: str, room: int) -> str:
    """Shorten a cell's text in the printed table of runs to a width, between words if possible."""
    if len(text) <= room:
        return text
    head = text[: max(0, room - 1)]
    if not text[len(head)].isspace() and " " in head:
        head = head.rpartition(" ")[0]
    return f"{head.rstrip()}…"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
