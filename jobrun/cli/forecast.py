"""``jobrun resume --dry-run``: what would happen, in words or as JSON. Changes nothing."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from jobrun.cli.faults import show
from jobrun.cli.output import document
from jobrun.cli.shell import Shell
from jobrun.core.excerpt import visible
from jobrun.runner.authored import Authored, recorded
from jobrun.runner.rundir import Run
from jobrun.runner.settings import RunOptions

if TYPE_CHECKING:
    from jobrun.tools.forecast import Forecast

_MOST_ROWS = 24
_REFUSALS = {
    5: "refused: what would go on is not what was run",
    6: "refused: the run is in use",
    7: "refused: something that the job needs is missing",
}


def show_forecast(
    run: Run, loaded: Authored | None, options: RunOptions, shell: Shell, *, as_json: bool
) -> int:
    """Say what a resume of ``run`` would do; the exit code it would be refused with, or 0.

    Args:
        run: The run.
        loaded: What to go on with; None for what is recorded.
        options: As of the resume.
        shell: The terminal.
        as_json: For programs.

    Raises:
        CheckpointError: It would be refused, since no epoch can be used.
    """
    present = loaded if loaded is not None else recorded(run)
    # Brings numpy in.
    tools = import_module("jobrun.tools.forecast")
    found = tools.forecast(run, present, options)
    if as_json:
        shell.print(document("forecast", tools.as_values(found)))
    else:
        shell.print("\n".join(_text(found)))
        show(found.faults, shell)
    return found.exit_code if found.exit_code in _REFUSALS else 0


def _text(found: Forecast) -> list[str]:
    rows = [(label, visible(text)) for label, text in _rows(found)]
    width = max(len(label) for label, _ in rows)
    lines, before = [], ""
    for label, text in rows:
        lines.append(f"{label if label != before else '':<{width}}  {text}")
        before = label
    return lines


def _rows(forecast: Forecast) -> list[tuple[str, str]]:
    rows = [("run", forecast.run)]
    if forecast.lineage:
        rows.append(("forked from", forecast.lineage))
    if forecast.exit_code in (0, 9):
        rows.append(("from", f"nowhere: {forecast.reason}"))
        code = forecast.exit_code
        rows.append(("then", f"it returns at once with exit code {code}; with more epochs "
                     "(--epochs N) or a changed 'stop' it may go on"))  # fmt: skip
        if forecast.damage:
            rows.append(("damaged", f"{forecast.damage}; an older epoch makes it again: --epoch N"))
        return [*rows, ("overwritten", "nothing")]
    where = f"epoch {forecast.epoch}" if forecast.epoch >= 0 else "init"
    rows.append(("from", f"{where}: {forecast.reason}"))
    rows += [("skipped", f"epoch {epoch}: {reason}") for epoch, reason in forecast.skipped]
    rows += [("remains", text) for text in forecast.remains]
    rows += _cut(forecast.continues)
    rows += _drift(forecast)
    rows.append(("if stopped", "exit code 75 (130 after Ctrl-C); what is whole is saved, and the "
                 "same command continues"))  # fmt: skip
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
    kept = max(1, _MOST_ROWS - len(others))
    return [*arrays[:kept], ("array", f"and {len(arrays) - kept} more"), *others] if arrays else [
        *rows
    ]  # fmt: skip


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
