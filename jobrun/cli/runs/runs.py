"""Implement ``jobrun runs list|tag|remove|path``: print a table of runs; tag, remove, find runs."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, cast

import click
from msgspec import Struct
from msgspec.structs import asdict

from jobrun.cli.app import SubcommandGroup
from jobrun.cli.completion_candidates import JOB, RUN
from jobrun.cli.formatting import (
    STATUS_COLOURS,
    number,
    render_json_document,
    shorten_path,
    size,
    span,
)
from jobrun.cli.options import (
    Command,
    Duration,
    OneOf,
    RepeatableText,
    json_option,
    option,
    run_dir_option,
)
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.runner.rundir.run_directories import Run, find_run, open_run, suggest_run_dir
from jobrun.tools.runs.filter_and_sort_runs import (
    METRICS,
    PARAMS,
    RunGroup,
    filter_runs,
    find_columns,
    group_runs,
    parse_condition,
    render_csv,
    sort_runs,
    with_best_metrics,
)
from jobrun.tools.runs.summarise_runs import RunSummary, Value, read_summaries
from jobrun.tools.runs.tag_and_remove_runs import change_tags, measure_size, remove_run

_WIDEST = 1 << 16

command = SubcommandGroup(
    "runs",
    "List runs with params and metrics; tag or remove them.",
    default="list",
    examples=("jobrun runs kmeans --status failed", "jobrun runs tag brisk-heron baseline"),
)

_GAP = 2
_LEAST_NOTE = 12
_LONGEST_CELL = 24
_EMPTY = "-"
_DAY_S = 86400
# The lowest rank is left out last; params and metrics alternate after these.
_RANKS = {"run": 0, "status": 1, "best_epoch": 2, "epoch": 3, "left": 4, "age": 8}
_MENTIONED, _FIRST_VALUE = 2, 5


@command.command("list", cls=Command)
@click.argument("job", type=JOB, default="")
@option("--status", type=OneOf(list(STATUS_COLOURS)), help="Only runs with this status.")
@option("--tag", "wanted", multiple=True, metavar="TAG", help="Only runs with this tag.")
@option(
    "--where",
    "conditions",
    type=RepeatableText(),
    multiple=True,
    metavar="'NAME<VALUE'",
    help="Only runs whose param, metric, epoch, age or seed is so.",
)
@option(
    "--sort",
    metavar="[-]NAME",
    default="",
    help="Sort by a param, a metric, epoch, age …; - for descending.",
)
@option(
    "--best",
    metavar="METRIC",
    default="",
    help="Metrics of the epoch where METRIC, or max:METRIC, was best.",
)
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the last N rows.")
@option("--csv", "as_csv_text", is_flag=True, help="Print CSV with all columns and digits.")
@json_option
@run_dir_option
@click.pass_obj
def _list(shell: Shell, /, job: str, run_dir: str, **options: Any) -> None:
    r"""Show runs with the params that differ and their last metrics, the newest last.

    Of one JOB or sweep, or of all: each has a table of its own. Columns that find no room are left
    out.

    \b
    Examples:
      jobrun runs kmeans --where 'k>=8' --sort -shift
      jobrun runs train --best max:accuracy --status finished
    """
    if options["as_csv_text"] and options["as_json"]:
        raise UsageError.of("E404", "--csv and --json exclude each other", "choose one")
    root = Path(run_dir)
    chooses = any(options[name] for name in ("status", "wanted", "conditions", "sort", "best"))
    listed = read_summaries(root, job, None if chooses else options["limit"])
    for fault in listed.faults:
        shell.say(f"warning: {fault}")
    if job and not listed.runs and not listed.faults:
        jobs = {summary.sweep or summary.job for summary in read_summaries(root).runs}
        raise UsageError.of("E351", f"no run of '{job}' in {root}", did_you_mean(job, jobs))
    now = datetime.now(UTC)
    selected = _selected(listed.runs, root, now, options)
    if options["as_json"]:
        content = {
            "runs": [_as_values(summary) for summary in selected],
            "faults": list(listed.faults),
        }
        shell.print_text(render_json_document("runs", content))
    elif options["as_csv_text"]:
        shell.print_text(render_csv(selected).rstrip("\n"))
    elif selected:
        _print_table(selected, shell, now, options)
    else:
        none = f"no runs in {root}; {suggest_run_dir(root)}"
        shell.say(f"no such run in {root}" if listed.runs or listed.faults else none)


def _selected(
    runs: Sequence[RunSummary], root: Path, now: datetime, options: dict[str, Any]
) -> list[RunSummary]:
    """Apply the options of the command ``jobrun runs list`` that select and sort runs."""
    selected = [
        run
        for run in runs
        if options["status"] in (None, run.status) and set(options["wanted"]) <= set(run.tags)
    ]
    if not selected:
        return selected
    selected = filter_runs(selected, map(parse_condition, options["conditions"]), now)
    if selected and options["best"]:
        # The best run comes first, so --limit keeps the first ones.
        selected = with_best_metrics(selected, root, options["best"], now)
    if selected and options["sort"]:
        selected = sort_runs(selected, options["sort"], now)
    limit = options["limit"] or len(selected)
    return selected[:limit] if options["best"] or options["sort"] else selected[-limit:]


def _print_table(
    selected: list[RunSummary], shell: Shell, now: datetime, options: dict[str, Any]
) -> None:
    asked = [parse_condition(text).name for text in options["conditions"]]
    asked += [options["sort"].removeprefix("-"), options["best"].rpartition(":")[2]]
    columns = set(find_columns(filter(None, asked), selected)) if any(asked) else set()
    table = RunsTable(shell, now, columns)
    is_sorted = bool(options["sort"] or options["best"])
    groups = group_runs(selected, nest_forks=not is_sorted, always=columns)
    shell.print(*table.render(groups))
    if table.left_out:
        text = f"no room for: {', '.join(table.left_out)} (--csv prints all)"
        shell.say(*textwrap.wrap(text, min(_WIDEST, shell.message_width), break_on_hyphens=False))


@command.command("tag", cls=Command)
@click.argument("run", type=RUN)
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@option("--remove", is_flag=True, help="Remove the tags.")
@run_dir_option
@click.pass_obj
def _tag(shell: Shell, run: str, tags: tuple[str, ...], remove: bool, run_dir: str) -> None:
    r"""Tag RUN with words by which 'jobrun runs' finds it.

    \b
    Examples:
      jobrun runs tag brisk-heron baseline
      jobrun runs tag brisk-heron baseline --remove
    """
    found_run = find_run(run, Path(run_dir))
    tags_now = change_tags(found_run.path, () if remove else tags, tags if remove else ())
    shell.say(f"{found_run.name}: {_words(tags_now) or 'no tags'}")


@command.command("remove", cls=Command)
@click.argument("runs", type=RUN, nargs=-1, metavar="[RUN...]")
@option("--older-than", type=Duration(), metavar="30d", help="All runs made longer ago.")
@option("--status", type=OneOf(list(STATUS_COLOURS)), help="All runs with this status.")
@option("--unfinished", is_flag=True, help="Also remove unfinished runs.")
@option("--dry-run", is_flag=True, help="Only show what would be removed.")
@option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@run_dir_option
@click.pass_obj
def _remove(
    shell: Shell, /, runs: tuple[str, ...], run_dir: str, dry_run: bool, yes: bool, **options: Any
) -> None:
    r"""Delete RUNs, or all old ones, with their checkpoints. A live run is never touched.

    \b
    Examples:
      jobrun runs remove brisk-heron calm-otter --yes
      jobrun runs remove --older-than 30d --status failed --dry-run
    """
    root, unfinished = Path(run_dir), options["unfinished"]
    if bool(runs) == bool(options["older_than"] or options["status"]):
        raise UsageError.of(
            "E404",
            "name the runs to remove, or choose them by --older-than and --status, not both",
            "list them first: jobrun runs",
        )
    chosen = [find_run(name, root) for name in runs] or _old_runs(shell, root, options)
    if dry_run:
        sizes = [measure_size(run.path) for run in chosen]
        for run, size_bytes in zip(chosen, sizes, strict=True):
            shell.print(f"{run.name}  {size(size_bytes)}")
        if chosen:
            shell.say(f"{_count(len(chosen))}, {size(sum(sizes))}")
    if not (chosen or options.get("kept")):
        shell.say(f"no such run in {root}")
    if dry_run or not chosen:
        return
    if not yes:
        if not shell.terminal:
            raise UsageError.of(
                "E427",
                "removing runs needs confirmation, but standard error is not a terminal",
                "add --yes",
            )
        for run in chosen:
            shell.say(f"{run.name}  {size(measure_size(run.path))}  {shorten_path(str(run.path))}")
        click.confirm("Remove?", abort=True, err=True)
    for run in chosen:
        remove_run(run, unfinished=unfinished)
        shell.say(f"removed {run.name}")


def _old_runs(shell: Shell, root: Path, options: dict[str, Any]) -> list[Run]:
    """Choose runs for ``jobrun runs remove`` by age and status; print which runs it keeps."""
    now = datetime.now(UTC)
    listed = read_summaries(root)
    for fault in listed.faults:
        shell.say(f"warning: {fault}")
    chosen = [
        summary
        for summary in listed.runs
        if summary.status != "running"
        and options["status"] in (None, summary.status)
        and summary.age_s(now) >= (options["older_than"] or 0.0)
    ]
    old = [open_run(root / summary.path) for summary in chosen]
    unfinished = [
        run for run in old if run.unfinished and run.has_saved and not options["unfinished"]
    ]
    options["kept"] = len(unfinished)
    if unfinished:
        shell.say(f"{_count(len(unfinished))} unfinished, and kept; --unfinished removes them, too")
    return [run for run in old if run not in unfinished]


def _count(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


@command.command("path", cls=Command)
@click.argument("run", type=RUN, default="latest")
@run_dir_option
@click.pass_obj
def _path(shell: Shell, run: str, run_dir: str) -> None:
    r"""Print the directory of a RUN.

    \b
    Examples:
      jobrun runs path
      jobrun runs path brisk-heron
    """
    shell.print(str(find_run(run, Path(run_dir)).path))


def _as_values(summary: RunSummary) -> dict[str, Any]:
    values = asdict(summary)
    fork = {"run": summary.parent, "run_id": summary.parent_id, "epoch": summary.parent_epoch}
    renamed = {name: values.pop(name) for name in ("path", "order", "parent_id", "parent_epoch")}
    return {
        "run": renamed["path"],
        **values,
        "parent": fork if summary.parent else None,
        "sweep": summary.sweep or None,
    }


def _words(tags: tuple[str, ...]) -> str:
    return " ".join(f"#{tag}" for tag in tags)


class _Column(Struct, frozen=True):
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
        """Render the table of ``jobrun runs``, with an empty line between groups of runs."""
        # The words of a name identify a run if no other run has them.
        words = [[run.words for run in group.runs] for group in groups]
        counts = Counter(chain.from_iterable(words))
        lines: list[str] = []
        for group, group_words in zip(groups, words, strict=True):
            names = [
                ("  " * (depth - 1) + "└ " if depth else "")
                + (word if counts[word] == 1 else run.path)
                for run, depth, word in zip(group.runs, group.depths, group_words, strict=True)
            ]
            lines += ["", *self._group(group, names)] if lines else self._group(group, names)
        return lines

    def _group(self, group: RunGroup, names: Sequence[str]) -> list[str]:
        columns = self._columns(group, names)
        above = []
        if len(columns[0].head) > max(_LONGEST_CELL, *map(len, columns[0].cells)):
            # A column as wide as this name would leave no room for others.
            above = [self._shell.paint(columns[0].head, "bold", result=True)]
            columns[0] = _column("run", "run", columns[0].cells, 0)
        width = self._shell.result_width
        shown = _fitting(columns, width)
        self.left_out |= {column.head: None for column in columns if column not in shown}
        room = width - sum(column.width + _GAP for column in shown)
        notes = _notes(group.runs)
        distinct = set(notes)
        has_notes = room >= min(_LEAST_NOTE, max(map(len, distinct))) and any(distinct)
        status = next(at for at, column in enumerate(shown) if column.key == "status")
        padded = [_padded(column) for column in shown]
        padded[status][1:] = self._painted(padded[status][1:])
        if has_notes:
            cut = {note: cut_at_word(note, room) for note in distinct}
            padded.append(["note", *[cut[note] for note in notes]])
        gap = " " * _GAP
        head, *lines = [gap.join(cells).rstrip() for cells in zip(*padded, strict=True)]
        return [*above, self._shell.paint(head, "bold", result=True), *lines]

    def _painted(self, statuses: Sequence[str]) -> list[str]:
        """Colour the words in the status column of the table of runs: ``failed`` in red."""
        painted = {
            cell: self._shell.paint(cell, STATUS_COLOURS.get(cell.strip(), "dim"), result=True)
            for cell in set(statuses)
        }
        return [painted[cell] for cell in statuses]

    def _columns(self, group: RunGroup, names: Sequence[str]) -> list[_Column]:
        runs = group.runs
        columns = [_column("run", group.title, names, 0)]
        for at, name in enumerate(group.params):
            seeds = name == "seed" and not any("seed" in run.params for run in runs)
            columns.append(
                self._values(
                    "seed" if seeds else PARAMS + name,
                    name,
                    [run.seed if seeds else run.params.get(name) for run in runs],
                    _FIRST_VALUE + 2 * at,
                )
            )
        for at, name in enumerate(group.metrics):
            values = [run.metrics.get(name) for run in runs]
            columns.append(self._values(METRICS + name, name, values, _FIRST_VALUE + 1 + 2 * at))
        # Always shown: runs of other code or data must not be compared unnoticed.
        for name in group.origins:
            cells = [getattr(run, name) or _EMPTY for run in runs]
            columns.append(_column(name, name, cells, _RANKS["status"]))
        if any(run.best_epoch is not None for run in runs):
            columns.append(
                self._values("best_epoch", "best at", [run.best_epoch for run in runs], _MENTIONED)
            )
        columns.append(_column("status", "status", [run.status for run in runs], _RANKS["status"]))
        columns.append(self._own("epoch", list(map(_epoch, runs))))
        if any(run.left_s is not None for run in runs):
            columns.append(self._own("left", [_coarse(run.left_s) for run in runs]))
        columns.append(self._own("age", [_coarse(run.age_s(self._now)) for run in runs]))
        return columns

    def _own(self, key: str, cells: Sequence[str]) -> _Column:
        rank = _MENTIONED if key in self._mentioned else _RANKS[key]
        return _column(key, key, cells, rank, is_right=True)

    def _values(self, key: str, head: str, values: Sequence[Value | None], rank: int) -> _Column:
        kinds = set(map(type, values))
        rank = _MENTIONED if key in self._mentioned else rank
        cells = _cells(values, kinds)
        return _column(key, _cut(head), cells, rank, is_right=str not in kinds)


def _column(
    key: str, head: str, cells: Sequence[str], rank: int, *, is_right: bool = False
) -> _Column:
    """Build a column of the table of runs, as wide as its longest cell or its heading."""
    return _Column(key, head, cells, rank, max(len(head), *map(len, cells)), is_right)


def _cells(values: Sequence[Value | None], kinds: set[type]) -> list[str]:
    """Render the values of a column in the table of ``jobrun runs`` as texts.

    ``kinds`` are the types of the values: values of different types may be equal, and yet look
    different, as 1 and True do.
    """
    if kinds == {float}:
        # As most are: these are short, and have no control characters.
        return list(map(number, cast("Sequence[float]", values)))
    if len(kinds) > 1:
        return list(map(_cell, values))
    shown = {value: _cell(value) for value in set(values)}
    return [shown[value] for value in values]


def _cell(value: Value | None) -> str:
    return _EMPTY if value is None else _cut(number(value))


def _fitting(columns: Sequence[_Column], width: int) -> list[_Column]:
    """Select the columns that fit the width of the table of runs; drop the least important."""
    room = width + _GAP
    chosen = []
    # Sorting is stable: the first of equal rank comes first.
    for column in sorted(columns, key=lambda each: each.rank):
        if column.rank <= 1 or column.width + _GAP <= room:
            chosen.append(column)
            room -= column.width + _GAP
    return [column for column in columns if column in chosen]


def _padded(column: _Column) -> list[str]:
    """Pad the heading and the cells of a column to the column's width."""
    pad = str.rjust if column.is_right else str.ljust
    return [pad(cell, column.width) for cell in (column.head, *column.cells)]


def _epoch(run: RunSummary) -> str:
    if run.epoch < 0:
        return _EMPTY
    return f"{run.epoch}/{run.total_epochs}" if run.total_epochs else str(run.epoch)


def _coarse(seconds: float | None) -> str:
    """Render a duration for the table of ``jobrun runs`` in its largest unit: ``3 d``, ``5 h``."""
    if seconds is None:
        return _EMPTY
    # Nearly all runs are older than a day.
    days = round(seconds) // _DAY_S
    return f"{days} d" if days else " ".join(span(seconds).split()[:2])


def _notes(runs: Sequence[RunSummary]) -> list[str]:
    """Render the notes column of the table of runs: tags, parent run, why the run ended."""
    return [_note(run) if run.tags or run.parent else run.reason for run in runs]


def _note(run: RunSummary) -> str:
    """Render the note on one run in the table of runs: tags, parent run, and why it ended."""
    # The tags of a sweep repeat its name and its params, which have columns.
    tags = [tag for tag in run.tags if not (run.sweep and "=" in tag)]
    fork = f"fork of {run.parent.rpartition('/')[2].split('-', 2)[-1]}@{run.parent_epoch}"
    parts = [" ".join(f"#{tag}" for tag in tags), fork if run.parent else "", run.reason]
    return "  ".join(filter(None, parts))


def cut_at_word(text: str, room: int) -> str:
    """Shorten the text of a cell in the table of runs to a width, between words if possible."""
    if len(text) <= room:
        return text
    head = text[: max(0, room - 1)]
    if not text[len(head)].isspace() and " " in head:
        head = head.rpartition(" ")[0]
    return f"{head.rstrip()}…"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
