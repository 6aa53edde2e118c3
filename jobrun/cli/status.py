"""``jobrun status``: how a run stands, from another terminal or host."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from jobrun.cli.completing import RUN
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.output import document, number, size, span, sparkline
from jobrun.cli.progress import short_path
from jobrun.cli.runs import STATUS_COLOURS
from jobrun.cli.shell import Shell
from jobrun.core.excerpt import visible
from jobrun.runner.rundir import find_run
from jobrun.tools.runs.status import Status, status_of

_MOST_METRICS = 8
_LOOK_EVERY_S = 1.0
_CLEAR = "\x1b[H\x1b[2J"


@click.command("status", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@option("-w", "--watch", is_flag=True, help="Look again each second, until it ends.")
@json_option
@run_dir_option
@click.pass_obj
def command(shell: Shell, run: str, watch: bool, as_json: bool, run_dir: str) -> None:
    r"""Show how RUN stands: the newest if none is named.

    Only the run's files are read, so it works from another terminal, and from another host
    that sees them.

    \b
    Examples:
      jobrun status
      jobrun status kmeans --watch
    """
    found = find_run(run, Path(run_dir))
    while True:
        # Its record changes when it ends.
        found = find_run(str(found.path), Path(run_dir))
        state = status_of(found)
        if as_json:
            shell.print(document("status", _as_values(state)))
        else:
            clear = _CLEAR if watch and shell.terminal else ""
            shell.print(clear + "\n".join(_text(state, shell)))
        if not watch or state.owner is None:
            return
        time.sleep(_LOOK_EVERY_S)


def _text(state: Status, shell: Shell) -> list[str]:
    colour = STATUS_COLOURS.get(state.status, "dim")
    rows = [("status", shell.paint(state.status, "bold", colour, result=True) + _why(state))]
    rows.append(("epoch", _position(state)))
    for name in state.metrics.names[:_MOST_METRICS]:
        values = [value for _, value in state.metrics.column(name)]
        last = state.metrics.rows[-1][1][state.metrics.names.index(name)]
        shown = "-" if last is None else number(last)
        rows.append((visible(name), f"{shown:<12}{sparkline(values)}".rstrip()))
    rows.append(("saved", _saved(state)))
    if state.tags:
        rows.append(("tags", " ".join(f"#{tag}" for tag in state.tags)))
    rows.append(("path", short_path(str(state.run.path))))
    width = max(len(name) for name, _ in rows)
    lines = [state.run.name, *(f"  {name:<{width}}  {text}" for name, text in rows)]
    lines += [f"  {shell.paint(visible(line), 'dim', result=True)}" for line in state.lines]
    following = _next(state)
    return [*lines, f"next: {following}"] if following else lines


def _why(state: Status) -> str:
    if state.owner is not None:
        return f"   {state.owner}"
    if state.run.record.reason and state.run.record.status != "running":
        return f"   {state.run.record.reason}"
    return ""


def _position(state: Status) -> str:
    text = str(state.epoch) if state.epoch >= 0 else "-"
    if state.total_epochs:
        text += f" of at most {state.total_epochs}"
    if state.group and state.group != "epoch":
        text += f", now in {state.group}"
    if state.left_s is not None:
        text += f", at most {span(state.left_s)} left"
    if state.owner is not None and state.age_s is not None:
        text += f", last heard of {span(state.age_s)} ago"
    return text


def _saved(state: Status) -> str:
    if state.saved < 0:
        return "nothing" if state.run.record.resumable else "nothing; the job keeps no checkpoints"
    age = f", {span(state.saved_age_s)} ago" if state.saved_age_s is not None else ""
    return f"epoch {state.saved}{age}" + (
        f", {size(state.saved_bytes)}" if state.saved_bytes else ""
    )


def _next(state: Status) -> str:
    run = short_path(str(state.run.path))
    if state.owner is not None:
        return f"jobrun stop {run}"
    if state.run.unfinished and state.saved >= 0:
        return f"jobrun resume {run}"
    return ""


def _as_values(state: Status) -> dict[str, Any]:
    latest = state.metrics.rows[-1][1] if state.metrics.rows else ()
    owner = state.owner
    return {
        "run": str(state.run.path),
        "job": state.run.record.job,
        "status": state.status,
        "reason": state.run.record.reason,
        "exit_code": state.run.record.exit_code,
        "owner": {"pid": owner.pid, "host": owner.host, "since": owner.since} if owner else None,
        "epoch": state.epoch,
        "total_epochs": state.total_epochs,
        "left_s": state.left_s,
        "saved_epoch": state.saved,
        "saved_age_s": state.saved_age_s,
        "saved_bytes": state.saved_bytes,
        "metrics": dict(zip(state.metrics.names, latest, strict=False)),
        "tags": list(state.tags),
        "lines": list(state.lines),
    }
