"""``jobrun sweep``: one spec at many points of its params, several at a time, and what came out."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from jobrun.cli.completing import AXIS, METRIC_OF_SPEC, SPEC
from jobrun.cli.execution import session_options, session_words
from jobrun.cli.loading import option_texts
from jobrun.cli.options import Command, Lines, json_option, option, run_dir_option, value_options
from jobrun.cli.output import document, short_path
from jobrun.cli.shell import Shell
from jobrun.core.errors import ExpectationError, LockedError, TaskFailedError, UsageError
from jobrun.runner.durable import disk_faults
from jobrun.runner.lock import RunLock, owner_of
from jobrun.tools.sweeping.axes import parse_axes, points_of
from jobrun.tools.sweeping.design import Base, Design, design
from jobrun.tools.sweeping.marks import mark
from jobrun.tools.sweeping.outcome import (
    OVER,
    UNEXPECTED,
    Aim,
    Outcome,
    aim_of,
    as_csv,
    as_values,
    is_over,
    outcome_of,
    ranked,
)
from jobrun.tools.sweeping.pool import Happening, Pool, Started, run_command
from jobrun.tools.sweeping.record import Asked, read_asked, sweep_folder, write_asked

_COUNT = click.IntRange(min=1)
_STOPPED, _INTERRUPTED = 75, 130


@dataclass(frozen=True, slots=True)
class _Sweep:
    """A sweep that is about to run, or to be looked at; all of it is checked."""

    spec: str
    run_dir: Path
    asked: Asked
    design: Design
    aim: Aim

    def outcomes(self) -> list[Outcome]:
        """How each point stands now."""
        return [outcome_of(point, self.run_dir) for point in self.design.points]


@click.command("sweep", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@option(
    "--grid",
    type=Lines(),
    multiple=True,
    metavar="NAME=V1,V2",
    shell_complete=AXIS.shell_complete,
    help="Values of a param, or of seed; a range LOW..HIGH or log:LOW..HIGH with --random.",
)
@option("--random", "count", type=_COUNT, metavar="N", help="Draw N points of the grid.")
@option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    envvar="JOBRUN_SWEEP_SEED",
    help="Of the draws.",
)
@option("-j", "--jobs", type=_COUNT, metavar="K", help="Runs at a time; else one per processor.")
@option(
    "--best",
    "aim",
    default="",
    metavar="METRIC",
    shell_complete=METRIC_OF_SPEC.shell_complete,
    help="What tells the best point: the least of a metric, or max:METRIC.",
)
@option("--epochs", type=_COUNT, metavar="N", help="Also stop each run when N epochs have run.")
@session_options
@option("--name", default="", metavar="NAME", help="Of the sweep; the job's if not given.")
@option("--status", "only_status", is_flag=True, help="Show how it stands, and run nothing.")
@option("--csv", "as_csv_text", is_flag=True, help="Print the results as CSV.")
@json_option
@value_options
@run_dir_option
@click.pass_obj
def command(shell: Shell, /, spec: str, run_dir: str, **given: Any) -> int:
    r"""Run SPEC at many points of its params, each as a run of its own.

    The same command goes on where it was: what has finished is not run again, what failed or was
    stopped is continued. Without --grid it takes the points it had.

    \b
    Examples:
      jobrun sweep train.yaml --grid lr=0.1,0.01 --grid k=3,5 --best max:accuracy
      jobrun sweep train.yaml --grid lr=log:1e-4..0.1 --random 20 --jobs 4
    """
    if given["as_csv_text"] and given["as_json"]:
        raise UsageError.of("E404", "--csv and --json exclude each other", "choose one")
    sweep = _planned(shell, spec, Path(run_dir), given)
    if given["only_status"]:
        _show(sweep, sweep.outcomes(), shell, given)
        return 0
    ended_by = _run(sweep, shell, given)
    found = sweep.outcomes()
    for one in found:
        # Again: what killed a sweep may have come before the words.
        if one.run is not None:
            mark(one.run, sweep.design.name, one.point)
    _show(sweep, found, shell, given)
    if ended_by:
        return _INTERRUPTED if ended_by == signal.SIGINT else _STOPPED
    return _exit_code(found)


def _planned(shell: Shell, spec: str, run_dir: Path, given: dict[str, Any]) -> _Sweep:
    """What is asked for, all of it checked; nothing is started, and nothing written."""
    shell.texts |= option_texts(given["overrides"])
    base = Base(spec, given["values"], given["overrides"], given["name"])
    asked = Asked(given["grid"], given["count"], given["seed"])
    if not asked.grid:
        asked = read_asked(sweep_folder(run_dir, base.sweep_name()))
    shell.texts |= {f"--grid #{number}": text for number, text in enumerate(asked.grid, 1)}
    axes = parse_axes(asked.grid)
    made = design(base, axes, points_of(axes, asked.random, asked.seed))
    return _Sweep(spec, run_dir, asked, made, aim_of(given["aim"], made.metrics, made.best))


def _run(sweep: _Sweep, shell: Shell, given: dict[str, Any]) -> int:
    """Run what is not over; the signal that ended it early, else 0."""
    from jobrun.cli.sweepprogress import sweep_progress  # noqa: PLC0415 - not for --status

    epochs = given["epochs"] or 0
    with _held(sweep_folder(sweep.run_dir, sweep.design.name)) as folder:
        write_asked(folder, sweep.asked)
        points = sweep.design.points
        todo = [point for point in points if not is_over(point, sweep.run_dir, epochs)]
        words = [*session_words(given), *(["--epochs", str(epochs)] if epochs else [])]
        jobs = given["jobs"] or os.cpu_count() or 1
        with sweep_progress(shell, sweep.design, len(todo), jobs) as progress:

            def tell(event: Happening) -> None:
                if isinstance(event, Started):
                    mark(event.run, sweep.design.name, event.point)
                progress.tell(event)

            words = run_command(sweep.spec, sweep.run_dir, words)
            return Pool(words, sweep.run_dir, jobs, tell).run(todo)


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """The sweep's folder, which nobody else works in.

    Raises:
        LockedError: E439, somebody does.
    """
    with disk_faults(f"make {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = RunLock.acquire(folder)
    except LockedError as error:
        raise LockedError.of(
            "E439",
            f"the sweep '{folder.name}' runs already: {owner_of(folder)}",
            "wait for its end, look at it with --status, or give this one another --name",
        ) from error
    with lock:
        yield folder


def _exit_code(found: Sequence[Outcome]) -> int:
    bad = {one.state for one in found if one.state != "finished"}
    if not bad:
        return 0
    if bad == {UNEXPECTED}:
        return ExpectationError.exit_code
    # Those that were asked to stop, one by one, may go on.
    return _STOPPED if bad <= {"stopped", "interrupted"} else TaskFailedError.exit_code


def _show(sweep: _Sweep, found: Sequence[Outcome], shell: Shell, given: dict[str, Any]) -> None:
    best = ranked(found, sweep.aim)
    if given["as_csv_text"]:
        shell.print(as_csv(found).rstrip("\n"))
        return
    if given["as_json"]:
        content = {
            "sweep": sweep.design.name,
            "metric": sweep.aim.metric,
            "mode": sweep.aim.mode,
            "best": as_values(best[0]) if best else None,
            "points": [as_values(one) for one in found],
        }
        shell.print(document("sweep", content))
        return
    from jobrun.cli.sweepresults import show_results  # noqa: PLC0415 - brings rich in

    show_results(found, sweep.aim, shell)
    if any(one.state not in OVER for one in found):
        shell.say("next: the same command again runs what is not finished")
    elif best:
        shell.say(f"next: jobrun report {short_path(str(best[0].run))}")
