"""Implement ``jobrun metrics``: print the metrics of a run as table, chart, CSV or JSON."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import click
from msgspec import to_builtins

from jobrun.cli.completion_candidates import METRIC, RUN
from jobrun.cli.formatting import number, render_json_document, size
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.runs.chart import draw_chart
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.text.terminal_text import align_cells
from jobrun.runner.rundir.lock import is_live
from jobrun.runner.rundir.logs import describe_losses, read_losses, unreadable_file_error
from jobrun.runner.rundir.metrics_check import MetricsGap
from jobrun.runner.rundir.run_directories import METRICS_NAME, USAGE_NAME, Run, find_run
from jobrun.tools.runs.metrics import (
    Metrics,
    Number,
    find_gaps,
    read_metrics,
    render_csv,
    select_metrics,
)
from jobrun.tools.runs.recorded_usage import read_resources

_WIDTHS = (20, 100)
_GAP = 2
_MARGIN = 14
_LOOK_EVERY_S = 0.5


@click.command("metrics", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@click.argument("names", type=METRIC, nargs=-1, metavar="[NAME...]")
@option("-f", "--follow", is_flag=True, help="Print further epochs until the run ends.")
@option("--plot", is_flag=True, help="Draw a chart of each.")
@option("--csv", "as_csv_text", is_flag=True, help="Print CSV with all digits.")
@option("--resources", is_flag=True, help="Memory, processor, disk and GPU in place of metrics.")
@option("--last", type=click.IntRange(min=1), metavar="N", help="The last N epochs.")
@json_option
@run_dir_option
@click.pass_obj
def command(
    shell: Shell,
    /,
    run: str,
    names: tuple[str, ...],
    last: int | None,
    follow: bool,
    resources: bool,
    run_dir: str,
    **output: bool,
) -> None:
    r"""Show the metrics of RUN, an epoch a line; of the newest run if none is named.

    Metrics of a step are called 'task.name'.

    \b
    Examples:
      jobrun metrics kmeans shift --plot
      jobrun metrics -f
      jobrun metrics latest --csv > metrics.csv
      jobrun metrics --resources
    """
    if sum(output.values()) > 1:
        raise UsageError.of("E404", "--plot, --csv and --json exclude each other", "choose one")
    if follow and (output["plot"] or output["as_json"] or resources):
        mend = "leave --plot, --json or --resources out"
        raise UsageError.of("E404", "--follow prints a table or CSV of metrics", mend)
    found_run = find_run(run, Path(run_dir))
    if follow:
        _follow(shell, found_run.path, names, last, as_csv=output["as_csv_text"])
        return
    read = read_resources(found_run.path) if resources else read_metrics(found_run.path)
    file = USAGE_NAME if resources else METRICS_NAME
    if read.damaged:
        count = f"{read.damaged} line{'s' if read.damaged > 1 else ''}"
        shell.say(f"{count} of {found_run.path / file} cannot be read and are skipped")
    lost = {name: loss for name, loss in read_losses(found_run.path).items() if name == file}
    for words in describe_losses(lost):
        shell.say(f"lost: {words}")
    gaps = () if resources else _find_gaps(found_run)
    for gap in gaps:
        shell.say(f"lost: {gap}")
    metrics = select_metrics(read, names)
    if last:
        metrics = Metrics(metrics.names, metrics.rows[-last:])
    if output["as_json"]:
        shell.print_text(
            render_json_document(
                "metrics",
                {
                    "run": str(found_run.path),
                    **_as_values(metrics),
                    "gaps": list(map(to_builtins, gaps)),
                },
            )
        )
    elif output["as_csv_text"]:
        shell.print_text(render_csv(metrics).rstrip("\n"))
    elif not metrics.names and resources:
        shell.say(f"{found_run.name} has no record of its resources yet")
    elif not metrics.names:
        why = "" if gaps else "; declare them under 'metrics' in the spec"
        shell.say(f"{found_run.name} has no metrics{why}")
    else:
        shell.print(*(_charts(metrics) if output["plot"] else _tables(metrics, shell)))


def _find_gaps(run: Run) -> tuple[MetricsGap, ...]:
    """Find what ``jobrun metrics`` cannot show, as it was lost since its epoch was saved."""
    try:
        return find_gaps(run)
    except OSError as error:
        raise unreadable_file_error(run.path / METRICS_NAME, error) from error


def _follow(
    shell: Shell, run: Path, names: tuple[str, ...], last: int | None, *, as_csv: bool
) -> None:
    """Print a run's metrics so far, then each ended epoch's, until the run ends."""
    printer = _MetricsPrinter(shell, last, as_csv=as_csv)
    while True:
        # Before the look, so that what is measured at the end is not missed.
        live = is_live(run)
        read = read_metrics(run)
        # A live run may still measure the missing ones.
        there = [name for name in names if name in read.names or not live]
        metrics = select_metrics(read, there) if there or not names else Metrics((), ())
        printer.print_new(metrics, live=live)
        if not live or not shell.has_reader:
            return
        time.sleep(_LOOK_EVERY_S)


class _MetricsPrinter:
    """Prints the epochs of a growing table of metrics, each once.

    Args:
        shell: Where to.
        last: Print only so many of the epochs that there are at first; None for all.
        as_csv: As lines of csv, not of a table.
    """

    def __init__(self, shell: Shell, last: int | None, *, as_csv: bool) -> None:
        self._shell, self._last, self._as_csv = shell, last, as_csv
        self._printed_epoch = -1
        self._names: tuple[str, ...] = ()
        self._widths = [0]
        self._newest: tuple[object, ...] = ()

    def print_new(self, metrics: Metrics, *, live: bool) -> None:
        """Print the epochs that were not printed yet, as far as all their metrics are there."""
        # While an epoch runs, some of its metrics may still be missing.
        is_whole = not live or metrics.rows[-1:] == self._newest
        self._newest = metrics.rows[-1:]
        whole_rows = metrics.rows[: None if is_whole else -1]
        rows = [row for row in whole_rows if row[0] > self._printed_epoch]
        if self._last and self._printed_epoch < 0:
            rows = rows[-self._last :]
        if not rows:
            return
        part = Metrics(metrics.names, tuple(rows))
        is_first = self._names != metrics.names
        self._names, self._printed_epoch = metrics.names, rows[-1][0]
        if self._as_csv:
            lines = render_csv(part).splitlines()
        else:
            widths = [0] * (len(self._names) + 1) if is_first else self._widths
            lines, self._widths = _table_lines(part, widths)
        self._shell.print(*(lines if is_first else lines[1:]))


def _as_values(metrics: Metrics) -> dict[str, object]:
    rows = [
        {"epoch": epoch, **dict(zip(metrics.names, values, strict=True))}
        for epoch, values in metrics.rows
    ]
    return {"names": list(metrics.names), "epochs": rows}


def _tables(metrics: Metrics, shell: Shell) -> list[str]:
    """Render metrics as one table, or several with fewer columns that fit the terminal."""
    whole, (first, *widths) = _table_lines(metrics, [0] * (len(metrics.names) + 1))
    parts: list[list[str]] = []
    room = 0
    for name, width in zip(metrics.names, widths, strict=True):
        if not parts or width + _GAP > room:
            parts.append([])
            room = shell.result_width - first
        parts[-1].append(name)
        room -= width + _GAP
    if len(parts) == 1:
        return whole
    lines: list[str] = []
    for part in parts:
        table, _ = _table_lines(select_metrics(metrics, part), [0] * (len(part) + 1))
        lines += [*([""] if lines else []), *table]
    return lines


def _table_lines(metrics: Metrics, least: list[int]) -> tuple[list[str], list[int]]:
    """Render metrics as a text table, a line per epoch; return lines and column widths."""
    head = ("epoch", *metrics.names)
    rows = [(str(epoch), *map(_cell, metrics.names, values)) for epoch, values in metrics.rows]
    widest = [" " * width for width in least]
    first, *table = align_cells((widest, head, *rows), range(len(head)))
    return ["  ".join(cells) for cells in table], list(map(len, first))


def _cell(name: str, value: Number | None) -> str:
    if value is None:
        return "-"
    return size(value) if name.endswith("_bytes") and type(value) is int else number(value)


def _charts(metrics: Metrics) -> list[str]:
    least, most = _WIDTHS
    width = min(most, max(least, shutil.get_terminal_size().columns - _MARGIN))
    lines: list[str] = []
    for name in metrics.names:
        points = [(float(epoch), value) for epoch, value in metrics.column(name)]
        drawn = draw_chart(points, width) if len(points) > 1 else ["  fewer than two numbers"]
        lines += ["", name, *drawn]
    return lines[1:]
