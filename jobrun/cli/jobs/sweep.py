"""Implement ``jobrun sweep``: parse its options, show its progress, and print its results."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
from msgspec import Struct

from jobrun.cli.completion_candidates import AXIS, METRIC_OF_SPEC, SPEC
from jobrun.cli.formatting import render_json_document, shorten_path
from jobrun.cli.jobs.run_options import (
    session_arguments,
    session_options,
    strict_option,
)
from jobrun.cli.options import (
    Command,
    RepeatableText,
    json_option,
    option,
    override_texts,
    run_dir_option,
    value_options,
)
from jobrun.cli.terminal import Shell
from jobrun.core.errors import LockedError, TaskFailedError, UsageError
from jobrun.core.files.disk import disk_faults
from jobrun.core.text.terminal_text import control
from jobrun.runner.rundir.lock import RunLock, is_live, owner_of
from jobrun.tools.isolation.shared_files import (
    SharedFile,
    SharedFiles,
    folders_of,
    shared_file_warnings,
)
from jobrun.tools.sweep.axes import enumerate_points, parse_axes
from jobrun.tools.sweep.point_changes import PointComparer
from jobrun.tools.sweep.point_outcomes import (
    OVER,
    Objective,
    Outcome,
    apply_attempt,
    is_over,
    outcome_values,
    outcomes_csv,
    parse_objective,
    rank_outcomes,
    read_outcome,
)
from jobrun.tools.sweep.process_pool import (
    PointEnded,
    PointStarted,
    Pool,
    SweepEvent,
    run_command,
)
from jobrun.tools.sweep.sweep_design import (
    Design,
    SweepBase,
    SweepRequest,
    design_sweep,
    read_request,
    sweep_folder,
    tag_run,
    write_request,
)

_COUNT = click.IntRange(min=1)
_STOPPED, _INTERRUPTED = 75, 130
_LOOK_EVERY_S = 1.0
_CLEAR_SCREEN = control("2J") + control("H")


class _Sweep(Struct, frozen=True):
    """The designed sweep of a command line, ready to run or to be shown."""

    spec: str
    run_dir: Path
    request: SweepRequest
    design: Design
    aim: Objective
    base: SweepBase

    def outcomes(self) -> list[Outcome]:
        """Read each point's outcome from its run directory, for ``jobrun sweep`` to print."""
        comparer = PointComparer(self.base)
        return [read_outcome(point, self.run_dir, comparer) for point in self.design.points]


@click.command("sweep", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@option(
    "--grid",
    type=RepeatableText(),
    multiple=True,
    metavar="NAME=V1,V2",
    shell_complete=AXIS.shell_complete,
    help="Values of a param, or of seed; a range LOW..HIGH or log:LOW..HIGH with --random.",
)
@option("--random", "count", type=_COUNT, metavar="N", help="Draw N points at random.")
@option(
    "--seed",
    type=int,
    default=0,
    show_default=True,
    metavar="N",
    envvar="JOBRUN_SWEEP_SEED",
    help="Seed for the random points.",
)
@option(
    "-j", "--jobs", type=_COUNT, metavar="N", help="Concurrent runs [default: one per processor]."
)
@option(
    "--best",
    "aim",
    default="",
    metavar="METRIC",
    shell_complete=METRIC_OF_SPEC.shell_complete,
    help="What makes a point the best: the minimum of a metric, or max:METRIC.",
)
@option("--epochs", type=_COUNT, metavar="N", help="Stop each run after N epochs.")
@strict_option
@session_options
@option("--name", default="", metavar="NAME", help="Name of the sweep [default: job name].")
@option(
    "--status",
    "only_status",
    is_flag=True,
    envvar="JOBRUN_SWEEP_STATUS",
    help="Show the status; run nothing.",
)
@option("-w", "--watch", is_flag=True, help="With --status: refresh until the sweep ends.")
@option("--csv", "as_csv_text", is_flag=True, help="Print the results as CSV.")
@json_option
@value_options
@run_dir_option
@click.pass_obj
def command(shell: Shell, /, spec: str, run_dir: str, **options: Any) -> int:
    r"""Run SPEC at many points of its params, each as a run of its own.

    The same command continues where it was: what has finished is not run again, what failed or was
    stopped is continued. Without --grid it takes the points it had.

    \b
    Examples:
      jobrun sweep train.yaml --grid lr=0.1,0.01 --grid k=3,5 --best max:accuracy
      jobrun sweep train.yaml --grid lr=log:1e-4..0.1 --random 20 --jobs 4
    """
    if options["as_csv_text"] and options["as_json"]:
        raise UsageError.of("E404", "--csv and --json exclude each other", "choose one")
    if options["watch"] and not options["only_status"]:
        raise UsageError.of("E404", "--watch shows a sweep that runs elsewhere", "add --status")
    if options["count"] and not options["grid"]:
        raise UsageError.of(
            "E404",
            "--random draws the values of axes, and no axis is given",
            "add an axis, such as --grid lr=log:1e-4..0.1",
        )
    sweep = _planned(shell, spec, Path(run_dir), options)
    if options["only_status"]:
        _watch(sweep, shell, options)
        return 0
    ended_by, attempts, shared = _run(sweep, shell, options)
    outcomes = [
        apply_attempt(outcome, attempts[outcome.point.job])
        if outcome.point.job in attempts
        else outcome
        for outcome in sweep.outcomes()
    ]
    for outcome in outcomes:
        # Tagged again: a killed sweep may not have tagged it.
        if outcome.run is not None:
            tag_run(outcome.run, sweep.design.name, outcome.point)
    for line in shared_file_warnings(shared):
        shell.say(line)
    _show(sweep, outcomes, shell, options, shared)
    if ended_by:
        return _INTERRUPTED if ended_by == signal.SIGINT else _STOPPED
    return _exit_code(outcomes)


def _watch(sweep: _Sweep, shell: Shell, options: dict[str, Any]) -> None:
    """Implement ``jobrun sweep --status``: print the points, with ``--watch`` until they end."""
    folder = sweep_folder(sweep.run_dir, sweep.design.name)
    while True:
        live = is_live(folder)
        outcomes = sweep.outcomes()
        if options["watch"] and shell.on_terminal:
            shell.print(_CLEAR_SCREEN)
        _show(sweep, outcomes, shell, options)
        if not options["watch"] or not shell.has_reader:
            return
        if not live and not any(outcome.state == "running" for outcome in outcomes):
            return
        time.sleep(_LOOK_EVERY_S)


def _planned(shell: Shell, spec: str, run_dir: Path, options: dict[str, Any]) -> _Sweep:
    """Check the whole sweep of the command line, without starting or writing anything."""
    shell.texts |= override_texts(options["overrides"])
    base = SweepBase(spec, options["values"], options["overrides"], options["name"])
    request = SweepRequest(options["grid"], options["count"], options["seed"])
    if not request.grid:
        request = read_request(sweep_folder(run_dir, base.sweep_name()))
    shell.texts |= {f"--grid #{number}": text for number, text in enumerate(request.grid, 1)}
    axes = parse_axes(request.grid)
    design = design_sweep(base, axes, enumerate_points(axes, request.random, request.seed))
    return _Sweep(
        spec,
        run_dir,
        request,
        design,
        parse_objective(options["aim"], design.metrics, design.best),
        base,
    )


def _run(
    sweep: _Sweep, shell: Shell, options: dict[str, Any]
) -> tuple[int, dict[str, PointEnded], tuple[SharedFile, ...]]:
    """Run the unfinished points of the sweep under a display.

    Returns:
        The signal that ended it; how the points that were run have ended, by job; and the files
        that several points have written.
    """
    from jobrun.cli.progress.sweep_output import create_display  # noqa: PLC0415 - not for --status

    epochs, attempts = options["epochs"] or 0, dict[str, PointEnded]()
    with _held(sweep_folder(sweep.run_dir, sweep.design.name)) as folder:
        write_request(folder, sweep.request)
        todo = [
            outcome.point
            for outcome in sweep.outcomes()
            if not is_over(outcome.point, sweep.run_dir, epochs)
            # It is started for its message on why it is refused.
            or (options["strict"] and outcome.outdated)
        ]
        words = [*session_arguments(options), *(["--epochs", str(epochs)] if epochs else [])]
        words += ["--strict"] if options["strict"] else []
        jobs = options["jobs"] or os.cpu_count() or 1
        with (
            closing(SharedFiles(folders_of(sweep.spec), sweep.run_dir)) as files,
            create_display(shell, sweep.design, len(todo), jobs) as progress,
        ):

            def listen(event: SweepEvent) -> None:
                match event:
                    case PointStarted():
                        tag_run(event.run, sweep.design.name, event.point)
                    case PointEnded():
                        attempts[event.point.job] = event
                    case _:
                        pass
                progress.listen(event)

            words = run_command(sweep.spec, sweep.run_dir, words)
            pool = Pool(words, sweep.run_dir, jobs, listen, files.variables)
            return pool.run(todo), attempts, files.find()


@contextmanager
def _held(folder: Path) -> Iterator[Path]:
    """Create and lock a sweep's directory, so that no second ``jobrun sweep`` can run it.

    Raises:
        LockedError: E439, another process runs this sweep.
    """
    with disk_faults("E354", f"make {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    try:
        lock = RunLock.acquire(folder)
    except LockedError as error:
        raise LockedError.of(
            "E439",
            f"the sweep '{folder.name}' is already running: {owner_of(folder)}",
            "wait until it ends, watch it with --status, or use another --name",
        ) from error
    with lock:
        yield folder


def _exit_code(outcomes: Sequence[Outcome]) -> int:
    bad = {outcome.state for outcome in outcomes if outcome.state != "finished"}
    if not bad:
        return 0
    # Points that were stopped one by one may continue.
    if bad <= {"stopped", "interrupted"}:
        return _STOPPED
    # If all failed for one reason, such as drift, its code is the sweep's.
    codes = {outcome.exit_code or 0 for outcome in outcomes if outcome.state != "finished"}
    return max(codes) if len(codes) == 1 and min(codes) > 0 else TaskFailedError.exit_code


def _show(
    sweep: _Sweep,
    outcomes: Sequence[Outcome],
    shell: Shell,
    options: dict[str, Any],
    shared: Sequence[SharedFile] = (),
) -> None:
    best = rank_outcomes(outcomes, sweep.aim)
    if options["as_csv_text"]:
        shell.print_text(outcomes_csv(outcomes).rstrip("\n"))
        return
    if options["as_json"]:
        content = {
            "sweep": sweep.design.name,
            "metric": sweep.aim.metric,
            "mode": sweep.aim.mode,
            "best": outcome_values(best[0]) if best else None,
            "points": [outcome_values(outcome) for outcome in outcomes],
            "shared_files": [file.as_values() for file in shared],
        }
        shell.print_text(render_json_document("sweep", content))
        return
    from jobrun.cli.progress.sweep_output import print_results  # noqa: PLC0415 - brings rich in

    print_results(outcomes, sweep.aim, shell)
    states = {outcome.state for outcome in outcomes} - set(OVER)
    if states == {"running"}:
        shell.say("next: the points that run need nothing; --watch shows how they end")
    elif states:
        shell.say("next: repeat the command to run the unfinished points")
    elif any(outcome.outdated for outcome in outcomes):
        shell.say(
            "next: to compute all points with what is there now, repeat the command with another "
            "--name; --strict refuses such points"
        )
    elif best:
        shell.say(f"next: jobrun report {shorten_path(str(best[0].run))}")
