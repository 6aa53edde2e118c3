"""Implement ``jobrun report``: write a page about runs, or files for TensorBoard."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completion_candidates import RUN
from jobrun.cli.formatting import render_json_document, shorten_path, size
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.files.disk import disk_faults, write_file
from jobrun.runner.rundir.run_directories import Run, find_run

_NAME = "report.html"
_STDOUT = "-"


@click.command("report", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@click.argument("others", type=RUN, nargs=-1, metavar="[OTHER...]")
@option(
    "-o",
    "--out",
    metavar="FILE",
    default="",
    help="Output file; '-' is stdout [default: the run's directory; for several runs the "
    "current one].",
)
@option("--tensorboard", metavar="DIR", default="", help="Write files for TensorBoard instead.")
@json_option
@run_dir_option
@click.pass_obj
def command(
    shell: Shell,
    /,
    run: str,
    others: tuple[str, ...],
    out: str,
    tensorboard: str,
    as_json: bool,
    run_dir: str,
) -> None:
    r"""Write a report page about RUN, the newest if none is named; with OTHERs a comparison.

    One HTML file that needs nothing else: curves, timeline, tasks, times, parameters, blobs.
    It can be made while the run lives, and however it ended; an older one is replaced.

    \b
    Examples:
      jobrun report
      jobrun report brisk-heron calm-otter --out comparison.html
      jobrun report latest --tensorboard tb && tensorboard --logdir tb
    """
    if sum(map(bool, (out, tensorboard, as_json))) > 1:
        mend = "choose one"
        raise UsageError.of("E404", "--out, --tensorboard and --json exclude each other", mend)
    chosen = _runs((run, *others), Path(run_dir))
    # Imports numpy.
    from jobrun.tools.report.report_data import read_report  # noqa: PLC0415

    reports = [read_report(chosen_run, Path(run_dir), len(chosen)) for chosen_run in chosen]
    if tensorboard:
        from jobrun.tools.report.tensorboard import export  # noqa: PLC0415

        for path in export(reports, Path(tensorboard)):
            shell.say(f"wrote {shorten_path(str(path))}")
        shell.say(f"next: tensorboard --logdir {tensorboard}")
    elif as_json:
        from jobrun.tools.report.report_json import report_values  # noqa: PLC0415

        shell.print_text(render_json_document("report", report_values(reports)))
    else:
        from jobrun.tools.report.page import format_now, render_page  # noqa: PLC0415

        write_page(shell, render_page(reports, format_now()), out or _place(chosen))


def write_page(shell: Shell, page: str, out: str) -> None:
    """Write the page of ``jobrun report`` to the path asked for, and print that path.

    Args:
        shell: Where to say it.
        page: The document.
        out: A file, or ``-``.

    Raises:
        UsageError: E433, the file is there, and is no page of ours.
        EnvironmentFaultError: Writing or deleting fails.
    """
    if out == _STDOUT:
        shell.print_text(page.rstrip("\n"))
        return
    path = Path(out)
    _expect_ours(path)
    data = page.encode()
    with disk_faults("E354", f"write {out}"):
        write_file(path, data)
    shell.say(f"wrote {shorten_path(str(path.absolute()))} ({size(len(data))})")


def _runs(names: tuple[str, ...], run_dir: Path) -> list[Run]:
    from jobrun.tools.report.page import MOST_RUNS  # noqa: PLC0415

    named = [find_run(name, run_dir) for name in names]
    distinct = list({run.path: run for run in named}.values())
    if len(distinct) > MOST_RUNS:
        raise UsageError.of(
            "E431",
            f"too many runs for one page: {len(distinct)}",
            f"name at most {MOST_RUNS} runs",
        )
    return distinct


def _place(reported: list[Run]) -> str:
    return str(reported[0].path / _NAME) if len(reported) == 1 else _NAME


def _expect_ours(path: Path) -> None:
    """Raise an error if ``jobrun report`` would overwrite a file that is not a report."""
    from jobrun.tools.report.page import START  # noqa: PLC0415

    try:
        with path.open("rb") as file:
            there = file.read(len(START))
    except OSError:
        # It does not exist, or writing it will report the reason.
        return
    if there and there != START.encode():
        raise UsageError.of(
            "E433",
            f"{path} exists and is not a report of jobrun",
            "name another file, or remove it first",
        )
