"""Implement ``jobrun resume``: parse its options, and continue a run from a checkpoint."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jobrun import api
from jobrun.cli.completion_candidates import RUN
from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import render_json_document, wrap_rows
from jobrun.cli.jobs.run import run_under_progress
from jobrun.cli.jobs.run_options import (
    build_run_options,
    drift_options,
    limit_options,
    spec_arguments,
)
from jobrun.cli.options import Command, option, override_texts, run_dir_option, value_options
from jobrun.cli.progress.lines import warning_printer
from jobrun.cli.terminal import Shell
from jobrun.core.text.object_url import is_object_url
from jobrun.runner.identity.recorded_job import Authored, load_recorded, require_spec
from jobrun.runner.options import RunOptions
from jobrun.runner.rundir.run_directories import Run
from jobrun.runner.rundir.spec_folder import load_changed_spec
from jobrun.runner.start_or_resume import choose_run
from jobrun.spec.load import LoadedSpec

if TYPE_CHECKING:
    from jobrun.tools.resume_dry_run import Forecast


_MOST_ROWS = 24
_REFUSALS = {
    5: "refused: the job is not the one that was run",
    6: "refused: the run is in use",
    7: "refused: a requirement of the job is missing",
}


@click.command("resume", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="")
@option(
    "--epoch",
    type=click.IntRange(min=0),
    metavar="N",
    # JOBRUN_EPOCH is set for the programs of steps; a jobrun started by one must not read it.
    envvar="JOBRUN_RESUME_EPOCH",
    show_envvar=True,
    help="Go back to epoch N; move later epochs aside.",
)
@option("--spec", metavar="FILE", help="Use this spec instead of the recorded one.")
@value_options
@run_dir_option
@limit_options
@drift_options
@option(
    "--dry-run",
    is_flag=True,
    envvar="JOBRUN_DRY_RUN",
    help="Show what would happen; change nothing.",
)
@click.pass_obj
def command(
    shell: Shell,
    /,
    run: str,
    spec: str | None,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    run_dir: str,
    dry_run: bool,
    **limits: Any,
) -> int:
    r"""Continue RUN (directory, name, its start, 'latest' or URL), or the newest unfinished.

    \b
    Examples:
      jobrun resume brisk-heron --epoch 12
      jobrun resume s3://bucket/runs/kmeans/20261121-0942-brisk-heron
    """
    shell.texts |= override_texts(overrides)
    limits["given"] = spec_arguments(spec, values, overrides)
    runs_folder = _place(run, run_dir, dry_run=dry_run)
    chosen = choose_run(run, runs_folder, limits["epoch"], warning_printer(shell))
    loaded = _other_spec(chosen, spec, values, overrides)
    if dry_run:
        options = build_run_options(Path(run_dir), limits, shell)
        return print_forecast(chosen, loaded, options, shell, as_json=limits["as_json"])

    def _act(options: RunOptions, listener: Any) -> Any:
        return api.resume_from(chosen.path, loaded, options, listener=listener)

    return run_under_progress(_act, shell, Path(run_dir), limits)


def _place(run: str, run_dir: str, *, dry_run: bool) -> Path:
    """Return the folder of runs for ``jobrun resume``; a temporary one for a dry run of a URL."""
    if not (dry_run and is_object_url(run)):
        return Path(run_dir)
    folder = tempfile.mkdtemp(prefix="jobrun-fetched-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _other_spec(
    run: Run, spec: str | None, values: tuple[str, ...], overrides: tuple[str, ...]
) -> LoadedSpec | None:
    """Load the spec as options of ``jobrun resume`` change it; None without such options."""
    if not (spec or values or overrides):
        return None
    require_spec(run)
    return load_changed_spec(run, spec=spec or "", values=values, overrides=overrides)


def print_forecast(
    run: Run, loaded: Authored | None, options: RunOptions, shell: Shell, *, as_json: bool
) -> int:
    """Print the forecast of ``jobrun resume --dry-run``; return 0, or the refusal's exit code.

    Args:
        run: The run.
        loaded: What to go on with; None for what is recorded.
        options: As of the resume.
        shell: The terminal.
        as_json: For programs.

    Raises:
        CheckpointError: It would be refused, since no epoch can be used.
    """
    present = loaded if loaded is not None else load_recorded(run)
    # Imports numpy.
    tools = import_module("jobrun.tools.resume_dry_run")
    forecast = tools.forecast(run, present, options)
    if as_json:
        shell.print_text(render_json_document("forecast", tools.forecast_values(forecast)))
    else:
        shell.print(*_text(forecast, shell.result_width))
        print_faults(forecast.faults, shell)
    return forecast.exit_code if forecast.exit_code in _REFUSALS else 0


def _text(forecast: Forecast, terminal: int) -> list[str]:
    rows = _rows(forecast)
    before = ("", *(label for label, _ in rows))
    shown = [
        ("" if label == previous else label, text)
        for (label, text), previous in zip(rows, before, strict=False)
    ]
    return wrap_rows(shown, terminal)


def _rows(forecast: Forecast) -> list[tuple[str, str]]:
    rows = [("run", forecast.run)]
    if forecast.lineage:
        rows.append(("forked from", forecast.lineage))
    if forecast.has_finished:
        rows.append(("from", f"nowhere: {forecast.reason}"))
        rows += _drift(forecast)
        then = (
            f"it returns at once with exit code {forecast.exit_code}; with more epochs "
            "(--epochs N) or another 'stop' it may continue"
        )
        refusal = _REFUSALS.get(forecast.exit_code or 0)
        rows.append(
            ("but", f"{refusal} (exit code {forecast.exit_code})") if refusal else ("then", then)
        )
        if forecast.damage:
            rows.append(
                ("damaged", f"{forecast.damage}; an older epoch can compute it again: --epoch N")
            )
        return [*rows, ("overwritten", "nothing")]
    where = f"epoch {forecast.epoch}" if forecast.epoch >= 0 else "init"
    rows.append(("from", f"{where}: {forecast.reason}"))
    rows += [("skipped", f"epoch {epoch}: {reason}") for epoch, reason in forecast.skipped]
    rows += [("remains", text) for text in forecast.remains]
    rows += _cut(forecast.continues)
    rows += _drift(forecast)
    rows.append(
        (
            "if stopped",
            "exit code 75 (130 after Ctrl-C); complete epochs are saved, and the same command "
            "continues",
        )
    )
    rows.append(("if finished", "download and exit run, once; after that a resume returns at once"))
    moved = f"; to superseded/: {', '.join(forecast.moved)}" if forecast.moved else ""
    rows.append(("overwritten", f"nothing{moved}"))
    if forecast.held:
        rows.append(("held", f"by {forecast.held}"))
    if forecast.exit_code in _REFUSALS:
        rows.append(("but", f"{_REFUSALS[forecast.exit_code]} (exit code {forecast.exit_code})"))
    return rows


def _cut(rows: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    if len(rows) <= _MOST_ROWS:
        return list(rows)
    arrays = [row for row in rows if row[0] == "array"]
    others = [row for row in rows if row[0] != "array"]
    shown = max(1, _MOST_ROWS - len(others))
    return (
        [*arrays[:shown], ("array", f"and {len(arrays) - shown} more"), *others]
        if arrays
        else [*rows]
    )


def _drift(forecast: Forecast) -> list[tuple[str, str]]:
    if not forecast.changes:
        return [("changed", "nothing")]
    refused = {change.field for change in forecast.refused}
    return [
        (
            "changed",
            f"{change} ({change.kind}{', refused' if change.field in refused else ''}"
            f"{f', {change.where}' if change.where else ''})",
        )
        for change in forecast.changes
    ]
