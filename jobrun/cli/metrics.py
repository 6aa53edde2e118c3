"""``jobrun metrics``: what a run measured, as a table, a chart, CSV or JSON."""

from __future__ import annotations

import shutil
from pathlib import Path

import click

from jobrun.cli.chart import chart
from jobrun.cli.completing import METRIC, RUN
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.output import document, number
from jobrun.cli.shell import Shell
from jobrun.core.errors import UsageError
from jobrun.core.excerpt import visible
from jobrun.runner.rundir import find_run
from jobrun.tools.runs.series import Metrics, as_csv, read_metrics, selected

_WIDTHS = (20, 100)
_MARGIN = 14


@click.command("metrics", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@click.argument("names", type=METRIC, nargs=-1, metavar="[NAME...]")
@option("--plot", is_flag=True, help="Draw a chart of each.")
@option("--csv", "as_csv_text", is_flag=True, help="Print CSV, with all digits.")
@option("--last", type=click.IntRange(min=1), metavar="N", help="The last N epochs.")
@json_option
@run_dir_option
@click.pass_obj
def command(
    shell: Shell, /, run: str, names: tuple[str, ...], last: int | None, run_dir: str, **form: bool
) -> None:
    r"""Show what RUN measured, an epoch a line; the newest run if none is named.

    Metrics of a step are called 'task.name'.

    \b
    Examples:
      jobrun metrics kmeans shift --plot
      jobrun metrics latest --csv > metrics.csv
    """
    if sum(form.values()) > 1:
        raise UsageError.of("E404", "--plot, --csv and --json exclude each other", "choose one")
    found = find_run(run, Path(run_dir))
    metrics = selected(read_metrics(found.path), names)
    if last:
        metrics = Metrics(metrics.names, metrics.rows[-last:])
    if form["as_json"]:
        shell.print(document("metrics", {"run": str(found.path), **_as_values(metrics)}))
    elif form["as_csv_text"]:
        shell.print(as_csv(metrics).rstrip("\n"))
    elif not metrics.names:
        shell.say(f"{found.name} has measured nothing; the spec's 'metrics' say what to measure")
    else:
        shell.print("\n".join(_charts(metrics) if form["plot"] else _table(metrics)))


def _as_values(metrics: Metrics) -> dict[str, object]:
    rows = [
        {"epoch": epoch, **dict(zip(metrics.names, values, strict=True))}
        for epoch, values in metrics.rows
    ]
    return {"names": list(metrics.names), "epochs": rows}


def _table(metrics: Metrics) -> list[str]:
    head = ("epoch", *(visible(name) for name in metrics.names))
    rows = [
        (str(epoch), *("-" if value is None else number(value) for value in values))
        for epoch, values in metrics.rows
    ]
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    return [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(row, widths, strict=True))
        for row in (head, *rows)
    ]


def _charts(metrics: Metrics) -> list[str]:
    least, most = _WIDTHS
    width = min(most, max(least, shutil.get_terminal_size().columns - _MARGIN))
    lines: list[str] = []
    for name in metrics.names:
        points = [(float(epoch), value) for epoch, value in metrics.column(name)]
        drawn = chart(points, width) if len(points) > 1 else ["  fewer than two numbers"]
        lines += ["", visible(name), *drawn]
    return lines[1:]
