"""Implement ``jobrun test``: parse its options, print failures and summary, write CI reports."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import closing
from pathlib import Path
from threading import Lock
from typing import Any

import click
from msgspec import to_builtins

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.formatting import number, render_json_document, span
from jobrun.cli.jobs.run_options import session_arguments, session_options
from jobrun.cli.options import (
    Command,
    Duration,
    OneOf,
    choose_form,
    json_option,
    option,
    value_options,
)
from jobrun.cli.terminal import Shell
from jobrun.core.errors import ExpectationError, Fault, Origin, TaskFailedError
from jobrun.core.files.disk import disk_faults, write_file
from jobrun.core.text.fault_text import render_github
from jobrun.core.text.terminal_text import align_cells
from jobrun.tools.isolation.shared_files import SharedFiles, folders_of, shared_file_warnings
from jobrun.tools.smoke_tests import SmokeResult, junit, markdown, run_smoke_tests

_SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
_FORMS = ("text", "json", "github")


@click.command("test", cls=Command)
@click.argument("specs", type=SPEC, metavar="SPEC...", nargs=-1, required=True)
@value_options
@option(
    "--epochs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop each after N epochs, and check its expectations.",
)
@option(
    "--time",
    "time_s",
    type=Duration(),
    metavar="2h",
    help="Stop each after this time; its expectations are then not checked.",
)
@option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Concurrent runs [default: one per processor].",
)
@session_options
@option("--junit", metavar="FILE", help="Write the results as JUnit XML.")
@option(
    "--summary",
    metavar="FILE",
    help=f"Append a Markdown table to this file [default: {_SUMMARY_VARIABLE} if set].",
)
@option(
    "--format",
    "output_format",
    type=OneOf(_FORMS),
    default="text",
    show_default=True,
    help="Output format; github adds annotations at the lines of the specs.",
)
@json_option
@option(
    "--keep-in",
    "keep",
    metavar="DIR",
    help="Keep the runs in this directory [default: remove them].",
)
@click.pass_obj
def command(
    shell: Shell,
    /,
    specs: tuple[str, ...],
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    **options: Any,
) -> int:
    r"""Run SPECs as smoke tests: each in a process of its own, several at a time.

    Exit code 0 when all passed, 9 when all that failed is an 'expect', else 1.

    \b
    Examples:
      jobrun test specs/*.yaml --epochs 2
      jobrun test train.yaml --set params.rows=100 --junit results.xml
    """
    words = _words(values, overrides, options)
    options["output_format"] = choose_form(options["output_format"], as_json=options["as_json"])
    printer = _FailurePrinter(shell, options["output_format"])
    run_dir = Path(options["keep"] or tempfile.mkdtemp(prefix="jobrun-test-"))
    jobs = options["jobs"] or os.cpu_count() or 1
    try:
        with closing(SharedFiles(folders_of(*specs), run_dir)) as files:
            results = run_smoke_tests(specs, words, run_dir, jobs, printer.listen, files.variables)
            shared = files.find()
    finally:
        if not options["keep"]:
            shutil.rmtree(run_dir, ignore_errors=True)
    _write(
        results, options["junit"], options["summary"] or shell.environment.get(_SUMMARY_VARIABLE)
    )
    for line in shared_file_warnings(shared):
        shell.say(line)
    if options["output_format"] == "json":
        content = {
            "specs": [to_builtins(result) for result in results],
            "shared_files": [file.as_values() for file in shared],
        }
        shell.print_text(render_json_document("test", content))
    else:
        shell.print(*_table(results, shell))
    bad = {result.exit_code for result in results if not result.good}
    return (
        0
        if not bad
        else ExpectationError.exit_code
        if bad == {ExpectationError.exit_code}
        else TaskFailedError.exit_code
    )


def _words(
    values: tuple[str, ...], overrides: tuple[str, ...], options: dict[str, Any]
) -> list[str]:
    words = [word for path in values for word in ("--values", path)]
    words += [word for text in overrides for word in ("--set", text)]
    if options["epochs"]:
        words += ["--epochs", str(options["epochs"])]
    if options["time_s"]:
        words += ["--time", f"{options['time_s']:.3f}s"]
    return [*words, *session_arguments(options)]


class _FailurePrinter:
    """Prints failed specs of ``jobrun test`` as soon as they are known."""

    def __init__(self, shell: Shell, output_format: str) -> None:
        self._shell = shell
        self._format = output_format
        self._lock = Lock()

    def listen(self, result: SmokeResult) -> None:
        """Print the result of a spec that ``jobrun test`` has run. Thread-safe."""
        with self._lock:
            if not result.good:
                self._failed(result)

    def _failed(self, result: SmokeResult) -> None:
        self._shell.say(self._shell.paint(f"{result.spec}: {result.word}", "bold", "red"))
        for line in result.said[-5:]:
            self._shell.say(f"  {line}")
        for event in result.faults:
            fault = _fault(event)
            position = f"{fault.where}  " if fault.where else ""
            self._shell.say(f"  error[{fault.code}] {position}{fault.message}")
            self._shell.say(f"      = {fault.mend}")
            if self._format == "github":
                self._shell.print(render_github(fault))


def _fault(event: Any) -> Fault:
    file, line = event.get("file"), event.get("line")
    where = (
        Origin(file, line or 0, event.get("column") or 0, event.get("length") or 1)
        if file
        else None
    )
    return Fault(event["code"], event["message"], event["mend"], where, event["path"])


def _write(results: tuple[SmokeResult, ...], to_junit: str | None, to_summary: str | None) -> None:
    if to_junit:
        with disk_faults("E354", f"write {to_junit}"):
            write_file(Path(to_junit), junit(results).encode())
    if to_summary:
        with disk_faults("E354", f"write {to_summary}"), Path(to_summary).open("a") as file:
            file.write(markdown(results))


def _table(results: tuple[SmokeResult, ...], shell: Shell) -> list[str]:
    rows = [
        (
            result.word,
            result.spec,
            f"epoch {result.epoch}" if result.epoch >= 0 else "-",
            span(result.seconds),
            _why(result),
        )
        for result in results
    ]
    lines = []
    for result, cells in zip(results, align_cells(rows), strict=True):
        cells[0] = shell.paint(cells[0], "green" if result.good else "red", result=True)
        lines.append("  ".join(cells).rstrip())
    bad = sum(not result.good for result in results)
    passed = f"{len(results) - bad} of {len(results)} passed"
    return [*lines, passed]


def _why(result: SmokeResult) -> str:
    metrics = "  ".join(f"{name} {number(value)}" for name, value in result.metrics.items())
    return "  ".join(filter(None, (result.reason, metrics if result.good else "")))
