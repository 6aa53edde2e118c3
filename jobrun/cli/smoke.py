"""``jobrun test``: runs specs as smoke tests, several at a time, and tells CI the results."""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path
from threading import Lock
from typing import Any

import click

from jobrun.cli.completing import SPEC
from jobrun.cli.execution import Duration, session_options, session_words
from jobrun.cli.options import Command, option, value_options
from jobrun.cli.output import document, number, span
from jobrun.cli.shell import Shell
from jobrun.core.errors import ExpectationError, Fault, TaskFailedError
from jobrun.core.excerpt import render_github, visible
from jobrun.core.origin import Origin
from jobrun.runner.durable import disk_faults, write_whole
from jobrun.tools.smoke import Smoked, junit, markdown, smoke

_SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_FORMS = ("text", "json", "github")


@click.command("test", cls=Command)
@click.argument("specs", type=SPEC, metavar="SPEC...", nargs=-1, required=True)
@value_options
@option(
    "--epochs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop each when N epochs have run, and look at what it expects.",
)
@option(
    "--time",
    "time_s",
    type=Duration(),
    metavar="2m",
    help="Stop each after so long; what it expects is not looked at then.",
)
@option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many at a time; one per processor if not given.",
)
@session_options
@option("--junit", metavar="FILE", help="Write the results as JUnit XML.")
@option(
    "--summary",
    metavar="FILE",
    help=f"Append a table in Markdown; where {_SUMMARY_VARIABLE} is set, to that file.",
)
@option(
    "--format",
    "form",
    type=click.Choice(_FORMS),
    default="text",
    show_default=True,
    help="How to report; github adds annotations at the lines of the specs.",
)
@option("--keep", metavar="DIR", help="Keep the runs there; else they are removed.")
@click.pass_obj
def command(
    shell: Shell,
    /,
    specs: tuple[str, ...],
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    **given: Any,
) -> int:
    r"""Run SPECs as smoke tests: each in a process of its own, several at a time.

    Exit code 0 when all passed, 9 when all that failed is an 'expect', else 1.

    \b
    Examples:
      jobrun test specs/*.yaml --epochs 2
      jobrun test train.yaml --set params.rows=100 --junit results.xml
    """
    words = _words(values, overrides, given)
    teller = _Teller(shell, given["form"])
    run_dir = Path(given["keep"] or tempfile.mkdtemp(prefix="jobrun-test-"))
    try:
        results = smoke(specs, words, run_dir, given["jobs"] or os.cpu_count() or 1, teller.tell)
    finally:
        if not given["keep"]:
            shutil.rmtree(run_dir, ignore_errors=True)
    _write(results, given["junit"], given["summary"] or shell.environment.get(_SUMMARY_VARIABLE))
    if given["form"] == "json":
        shell.print(document("test", {"specs": [asdict(one) for one in results]}))
    else:
        shell.print("\n".join(_table(results, shell)))
    bad = {one.exit_code for one in results if not one.good}
    return (
        0 if not bad
        else ExpectationError.exit_code if bad == {ExpectationError.exit_code}
        else TaskFailedError.exit_code
    )  # fmt: skip


def _words(values: tuple[str, ...], overrides: tuple[str, ...], given: dict[str, Any]) -> list[str]:
    words = [word for path in values for word in ("--values", path)]
    words += [word for text in overrides for word in ("--set", text)]
    if given["epochs"]:
        words += ["--epochs", str(given["epochs"])]
    if given["time_s"]:
        words += ["--time", f"{given['time_s']:.3f}s"]
    return [*words, *session_words(given)]


class _Teller:
    """Says what failed as soon as it is known."""

    def __init__(self, shell: Shell, form: str) -> None:
        self._shell = shell
        self._form = form
        self._lock = Lock()

    def tell(self, result: Smoked) -> None:
        """A spec is done. From any thread."""
        with self._lock:
            if not result.good:
                self._failed(result)

    def _failed(self, result: Smoked) -> None:
        self._shell.say(self._shell.paint(f"{result.spec}: {result.word}", "bold", "red"))
        for line in result.said[-5:]:
            self._shell.say(f"  {visible(line)}")
        for one in result.faults:
            fault = _fault(one)
            place = f"{fault.where}  " if fault.where else ""
            self._shell.say(f"  error[{fault.code}] {place}{visible(fault.message)}")
            self._shell.say(f"      = {visible(fault.mend)}")
            if self._form == "github":
                self._shell.print(render_github(fault))


def _fault(one: Any) -> Fault:
    file, line = one.get("file"), one.get("line")
    where = (
        Origin(file, line or 0, one.get("column") or 0, one.get("length") or 1) if file else None
    )
    return Fault(one["code"], one["message"], one["mend"], where, one["path"])


def _write(results: tuple[Smoked, ...], to_junit: str | None, to_summary: str | None) -> None:
    if to_junit:
        with disk_faults(f"write {to_junit}"):
            write_whole(Path(to_junit), junit(results).encode())
    if to_summary:
        with disk_faults(f"write {to_summary}"), Path(to_summary).open("a") as file:
            file.write(markdown(results))


def _table(results: tuple[Smoked, ...], shell: Shell) -> list[str]:
    rows = [
        (one.word, one.spec, f"epoch {one.epoch}" if one.epoch >= 0 else "-", span(one.seconds),
         _why(one))
        for one in results
    ]  # fmt: skip
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    lines = []
    for one, row in zip(results, rows, strict=True):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        cells[0] = shell.paint(cells[0], "green" if one.good else "red", result=True)
        lines.append("  ".join((*cells, row[4])).rstrip())
    bad = sum(not one.good for one in results)
    passed = f"{len(results) - bad} of {len(results)} passed"
    return [*lines, passed]


def _why(one: Smoked) -> str:
    metrics = "  ".join(f"{name} {number(value)}" for name, value in one.metrics.items())
    return "  ".join(filter(None, (visible(one.reason), metrics if one.good else "")))
