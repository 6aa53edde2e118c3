"""Implement ``jobrun status``: print and watch the status of a run."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from jobrun.cli.completion_candidates import RUN
from jobrun.cli.formatting import (
    STATUS_COLOURS,
    TASK_MARKS,
    list_resources,
    list_times,
    number,
    render_json_document,
    render_rows,
    shorten_path,
    size,
    span,
)
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.runs.chart import sparkline
from jobrun.cli.terminal import Shell
from jobrun.core.text.terminal_text import control
from jobrun.runner.identity.provenance import iter_code_rows
from jobrun.runner.rundir.logs import describe_losses
from jobrun.runner.rundir.run_directories import find_run
from jobrun.tools.runs.recorded_usage import usage_values
from jobrun.tools.runs.status import Status, read_status

_MOST_METRICS = 8
_MOST_NODES = 6
_LOOK_EVERY_S = 1.0
# Tasks of shorter epochs have ended before anybody has read of them.
_CALM_S = 1.0
# Home, and what is left of an older text taken away line by line: a cleared screen would flicker.
_CLEAR, _HOME, _REST_OF_LINE, _REST = map(control, ("2J", "H", "K", "J"))


@click.command("status", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@option("-w", "--watch", is_flag=True, help="Refresh every second until the run ends.")
@json_option
@run_dir_option
@click.pass_obj
def command(shell: Shell, run: str, watch: bool, as_json: bool, run_dir: str) -> None:
    r"""Show the status of RUN; of the newest run if none is named.

    Only the run's files are read, so it works from another terminal, and from another host
    that sees them.

    \b
    Examples:
      jobrun status
      jobrun status kmeans --watch
    """
    found_run = find_run(run, Path(run_dir))
    before = _CLEAR
    while True:
        # Its record changes when it ends.
        found_run = find_run(str(found_run.path), Path(run_dir))
        state = read_status(found_run)
        if as_json:
            shell.print_text(render_json_document("status", _as_values(state)))
        else:
            lines = _text(state, shell)
            redraws = watch and shell.on_terminal
            shell.print(*(_in_place(lines, before) if redraws else lines))
            before = ""
        if not watch or state.owner is None or not shell.has_reader:
            return
        time.sleep(_LOOK_EVERY_S)


def _in_place(lines: list[str], before: str) -> list[str]:
    """Add to the lines of ``jobrun status --watch`` what lets them overwrite those before."""
    first, *others = (f"{line}{_REST_OF_LINE}" for line in lines)
    *others, last = f"{before}{_HOME}{first}", *others
    return [*others, last + _REST]


def _text(state: Status, shell: Shell) -> list[str]:
    colour = STATUS_COLOURS.get(state.status, "dim")
    rows = [("status", state.status + _why(state))]
    rows.append(("epoch", _position(state)))
    rows += _tasks(state)
    for name in state.metrics.names[:_MOST_METRICS]:
        values = [value for _, value in state.metrics.column(name)]
        last = state.metrics.rows[-1][1][state.metrics.names.index(name)]
        shown = "-" if last is None else number(last)
        rows.append((name, f"{shown:<12}{sparkline(values)}".rstrip()))
    rows.append(("saved", _saved(state)))
    rows += _used(state)
    rows += iter_code_rows(state.run.record)
    if state.tags:
        rows.append(("tags", " ".join(f"#{tag}" for tag in state.tags)))
    rows += [("lost", words) for words in describe_losses(state.lost)]
    rows += [("damaged", words) for words in state.faults]
    rows.append(("path", shorten_path(str(state.run.path))))
    lines = [state.run.name, *render_rows(rows, shell.result_width)]
    label, _, text = lines[1].partition("status ")
    painted = shell.paint(state.status, "bold", colour, result=True)
    lines[1] = f"{label}status {text.replace(state.status, painted, 1)}"
    lines += [f"  {shell.paint(_fitting(line, shell), 'dim', result=True)}" for line in state.lines]
    following = _next(state)
    return [*lines, f"next: {following}"] if following else lines


def _fitting(line: str, shell: Shell) -> str:
    """Cut a line of ``jobrun status`` to the terminal's width, less a margin of two columns."""
    room = max(1, shell.result_width - 2)
    return line if len(line) <= room else f"{line[: room - 1]}…"


def _tasks(state: Status) -> list[tuple[str, str]]:
    """Return the rows of ``jobrun status`` on tasks: each node, with the states of its tasks."""
    if len(state.tasks) < 2 or (state.epoch_s or _CALM_S) < _CALM_S:
        return []
    nodes: dict[str, list[str]] = {}
    for node, task, task_state in state.tasks:
        nodes.setdefault(node, []).append(f"{TASK_MARKS[task_state]} {task}")
    shown = [(node, "   ".join(words)) for node, words in nodes.items()]
    left_out = len(shown) - _MOST_NODES
    return shown[:_MOST_NODES] + ([("", f"and {left_out} more nodes")] if left_out > 0 else [])


def _why(state: Status) -> str:
    if state.owner is not None:
        return f"   {state.owner}"
    if state.run.record.reason:
        reason = state.run.record.reason
        # "stopped (signal SIGTERM): epoch 4 …": the status is printed before it.
        reason = re.sub(rf"^{state.status} (?:\((.*)\)(?=: ))?", r"\1", reason)
        return f"   {reason}"
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
        text += f", last seen {span(state.age_s)} ago"
    return text


def _used(state: Status) -> list[tuple[str, str]]:
    """Render the rows of ``jobrun status`` about where time went and what the processes use."""
    used = state.usage
    if not used.starts:
        return []
    starts = f" in {used.starts} starts" if used.starts > 1 else ""
    created = state.run.record.created
    begun = f", begun {created[:10]} {created[11:16]} UTC" if created else ""
    rows = [("time", f"{span(used.times.total_s)}{starts}{begun}")]
    rows += [("", line) for line in list_times(used.times)]
    if used.advice:
        rows.append(("hint", used.advice))
    rows += list_resources(used.processes)
    if used.within and state.owner is None:
        rows.append(("", f"that was in epoch {used.epoch + 1}, in which memory grew"))
    return rows


def _saved(state: Status) -> str:
    if state.saved < 0:
        return "nothing" if state.run.record.resumable else "nothing; the job keeps no checkpoints"
    age = f", {span(state.saved_age_s)} ago" if state.saved_age_s is not None else ""
    return f"epoch {state.saved}{age}" + (
        f", {size(state.saved_bytes)}" if state.saved_bytes else ""
    )


def _next(state: Status) -> str:
    run = shorten_path(str(state.run.path))
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
        "command": list(state.run.record.provenance.get("command", ())),
        "git": state.run.record.provenance.get("git"),
        "lock_files": dict(state.run.record.provenance.get("lock_files", {})),
        "packages": dict(state.run.record.packages),
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
        "lost": {name: to_builtins(loss) for name, loss in state.lost.items()},
        "faults": list(state.faults),
        **usage_values(state.usage),
        "tasks": [
            {"node": node, "task": task, "state": progress} for node, task, progress in state.tasks
        ],
    }
