"""Implement ``jobrun submit``: parse its options, and print what is submitted to Slurm."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from msgspec.structs import replace

from jobrun.api import Prepared
from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import render_json_document
from jobrun.cli.jobs.run_options import spec_arguments
from jobrun.cli.options import (
    Command,
    Duration,
    RepeatableText,
    json_option,
    option,
    override_texts,
    prepare,
    run_dir_option,
    value_options,
)
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.files.disk import disk_faults, make_directory
from jobrun.tools.slurm import Batch, render_script, setting, slurm_time, submit
from jobrun.tools.sweep.axes import Axis, enumerate_points, list_range, parse_axes
from jobrun.tools.sweep.sweep_design import (
    Design,
    SweepBase,
    SweepRequest,
    design_sweep,
    sweep_folder,
    write_request,
)

_SHORTEST_WARNING_S = 10
# Slurm checks times periodically, and may send the signal this much too early.
_TOO_EARLY_S = 60
# Those that the script gives by itself, or that would end a batch job at once.
_NOT_HERE = {"--resume", "--run-dir", "--set", "-s", "--values", "-f", "--help", "-h"}
_BEFORE = {"run-dir", "set", "s", "values", "f"}


@click.command("submit", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUN-OPTIONS]")
@option(
    "--slurm",
    type=RepeatableText(),
    multiple=True,
    metavar="KEY=VALUE",
    help="A long option of sbatch, such as mem=4G; repeatable.",
)
@option(
    "--time",
    "time_s",
    type=Duration(),
    metavar="2h",
    envvar="JOBRUN_SUBMIT_TIME",
    show_envvar=True,
    help="Time limit of each start [default: the partition's].",
)
@option("--partition", metavar="NAME", help="Slurm partition [default: Slurm's].")
@option(
    "--hosts",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="Number of hosts; with several, a Ray cluster is started on them.",
)
@option(
    "--warn",
    "warn_s",
    type=Duration(),
    default="2m",
    show_default=True,
    metavar="2m",
    help="Signal the run this long before the time limit, so that it saves.",
)
@option(
    "--before",
    type=RepeatableText(),
    multiple=True,
    metavar="LINE",
    help="Shell command before the run, such as 'module load cuda'; repeatable.",
)
@option(
    "--array",
    "axes",
    type=RepeatableText(),
    multiple=True,
    metavar="NAME=VALUES",
    help="Submit a job array, an element for each value: seed=1..8, lr=0.1,0.01; repeatable.",
)
@option("--print", "only_print", is_flag=True, help="Print the script; submit nothing.")
@json_option
@value_options
@run_dir_option
@click.pass_obj
def command(shell: Shell, /, spec: str, words: tuple[str, ...], **options: Any) -> None:
    r"""Submit SPEC to Slurm as a job that is requeued until the run has finished.

    Shortly before its time is over the run saves and ends with 75, and the script asks Slurm to
    start it again. Further options of 'jobrun run' come behind '--'. For other batch systems, ssh
    and Kubernetes see 'jobrun explain submit'.

    \b
    Examples:
      jobrun submit kmeans.yaml --time 2h --partition short
      jobrun submit train.yaml --slurm mem=8G --print -- --session processes
      jobrun submit train.yaml --time 2h --array seed=1..8 --array lr=0.1,0.01
    """
    shell.texts |= override_texts(options["overrides"])
    axes = _array_axes(shell, options)
    array = _design_array(spec, axes, options) if axes else None
    # An array is checked by its first element: a param may have no value without the axes.
    first = [f"{axis.path}={axis.values[0]}" for axis in axes]
    prepared = prepare(spec, options["values"], (*options["overrides"], *first))
    several = options["hosts"] > 1
    parsed = _check_words(words, several=several)
    print_faults(prepared.warnings_in("ray" if several else parsed["session"]), shell)
    batch = _batch(spec, prepared, array, words, options)
    text = render_script(batch)
    if options["only_print"]:
        shown = (
            render_json_document("script", {"script": text})
            if options["as_json"]
            else text.rstrip("\n")
        )
        shell.print_text(shown)
        return
    with disk_faults("E354", f"make {batch.runs.parent}"):
        make_directory(batch.runs.parent)
    if array is not None:
        # Lets jobrun sweep show the elements, and run those that have not finished.
        grid = tuple(f"{axis.path}={','.join(axis.values)}" for axis in axes)
        write_request(sweep_folder(batch.runs.parent, array.name), SweepRequest(grid))
    number = submit(text)
    if options["as_json"]:
        shell.print_text(render_json_document("submitted", {"job": number, "script": text}))
        return
    output = batch.output.replace("%j", number).replace("%A", number)
    shell.print(number)
    description = f"an array of {len(batch.elements)} jobs" if array else "job"
    shell.say(
        f"submitted {batch.name} as {description} {number}; its output is written to {output}"
    )
    if not batch.again:
        shell.say("the job keeps no checkpoints ('checkpoint: none'), so it is not requeued")
    look = f"sweep {spec} --status" if array else f"status {batch.runs.name}"
    shell.say(f"next: squeue --job {number} · jobrun {look}")


def _array_axes(shell: Shell, options: dict[str, Any]) -> tuple[Axis, ...]:
    """Parse the values of a job array, which are listed as those of a sweep.

    Raises:
        UsageError: They cannot be read, or there are several hosts.
    """
    if options["axes"] and options["hosts"] > 1:
        raise UsageError.of(
            "E404", "--array and --hosts exclude each other", "submit once for each value"
        )
    shell.texts |= {f"--array #{number}": text for number, text in enumerate(options["axes"], 1)}
    return tuple(map(list_range, parse_axes(options["axes"], "--array")))


def _design_array(spec: str, axes: tuple[Axis, ...], options: dict[str, Any]) -> Design:
    """Check the elements of a job array, which are the points of a sweep.

    Raises:
        SpecError: A value is not valid.
    """
    base = SweepBase(spec, options["values"], options["overrides"])
    return design_sweep(base, axes, enumerate_points(axes, None, 0))


def _batch(
    spec: str,
    prepared: Prepared,
    array: Design | None,
    words: Sequence[str],
    options: dict[str, Any],
) -> Batch:
    job = prepared.job
    runs = Path(options["run_dir"]).absolute() / job.name
    # An element has words of its own, which include these.
    spec_words = () if array else spec_arguments(None, options["values"], options["overrides"])
    words_of_run = ("run", spec, *spec_words, *words)
    batch = Batch(
        name=job.name,
        command=(*words_of_run, "--run-dir", str(runs.parent)),
        jobrun=(sys.executable, "-P", "-m", "jobrun"),
        directory=Path.cwd(),
        runs=runs,
        settings=_settings(options),
        warn_s=max(_SHORTEST_WARNING_S, math.ceil(options["warn_s"])),
        before=options["before"],
        again=job.checkpoint.enabled,
        has_deadline=job.deadline is not None,
        elements=tuple((point.job, point.words) for point in array.points) if array else (),
    )
    return replace(batch, hosts=options["hosts"])


def _settings(options: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    settings = [setting(text) for text in options["slurm"]]
    if options["time_s"] and options["time_s"] <= options["warn_s"] + _TOO_EARLY_S:
        raise UsageError.of(
            "E403",
            f"--time of {options['time_s']:g} s ends before the run is signalled: --warn of "
            f"{options['warn_s']:g} s, and Slurm may be a minute early",
            "request more time, or signal later, for example --warn 30s",
        )
    if options["time_s"]:
        settings.append(("time", slurm_time(options["time_s"])))
    if options["partition"]:
        settings.append(setting(f"partition={options['partition']}"))
    keys = [key for key, _ in settings]
    if options["hosts"] > 1:
        keys += ["nodes", "ntasks-per-node"]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise UsageError.of(
            "E404", f"'{twice[0]}' is given twice", "give it once, with or without --slurm"
        )
    return tuple(settings)


def _check_words(words: Sequence[str], *, several: bool) -> dict[str, Any]:
    """Parse the words that ``jobrun submit`` passes to ``jobrun run``; refuse those that cannot be.

    Raises:
        UsageError: It will not, or they are for this command.
    """
    from jobrun.cli.jobs.run import command as run  # noqa: PLC0415 - brings what runs a job

    for word in words:
        name = word.partition("=")[0]
        if name in _NOT_HERE or (several and name == "--session"):
            mend = "give it before the '--'" if name.strip("-") in _BEFORE else "remove it"
            raise UsageError.of("E404", f"'{name}' is not available for batch jobs", mend)
    context = click.Context(run, info_name="jobrun run", obj=click.get_current_context().obj)
    run.parse_args(context, ["spec.yaml", *words])
    return context.params
