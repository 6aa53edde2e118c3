"""Implement ``jobrun submit``: parse its options, and print what is submitted to Slurm."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

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
from jobrun.core.lazy_dataclass import replace
from jobrun.tools.slurm import Batch, render_script, setting, slurm_time, submit

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
@option("--print", "only_print", is_flag=True, help="Print the script; submit nothing.")
@json_option
@value_options
@run_dir_option
@click.pass_obj
def command(shell: Shell, /, spec: str, words: tuple[str, ...], **given: Any) -> None:
    r"""Submit SPEC to Slurm as a job that is requeued until the run has finished.

    Shortly before its time is over the run saves and ends with 75, and the script asks Slurm to
    start it again. Further options of 'jobrun run' come behind '--'. For other batch systems, ssh
    and Kubernetes see 'jobrun explain submit'.

    \b
    Examples:
      jobrun submit kmeans.yaml --time 2h --partition short
      jobrun submit train.yaml --slurm mem=8G --print -- --session processes
    """
    shell.texts |= override_texts(given["overrides"])
    prepared = prepare(spec, given["values"], given["overrides"])
    several = given["hosts"] > 1
    parsed = _check_words(words, several=several)
    print_faults(prepared.warnings_in("ray" if several else parsed["session"]), shell)
    batch = _batch(spec, prepared, words, given)
    text = render_script(batch)
    if given["only_print"]:
        shown = (
            render_json_document("script", {"script": text})
            if given["as_json"]
            else text.rstrip("\n")
        )
        shell.print_text(shown)
        return
    with disk_faults("E354", f"make {batch.runs.parent}"):
        make_directory(batch.runs.parent)
    number = submit(text)
    if given["as_json"]:
        shell.print_text(render_json_document("submitted", {"job": number, "script": text}))
        return
    output = str(batch.runs.parent / f"slurm-{batch.name}-{number}.log")
    shell.print(number)
    shell.say(f"submitted {batch.name} as job {number}; its output is written to {output}")
    if not batch.again:
        shell.say("the job keeps no checkpoints ('checkpoint: none'), so it is not requeued")
    shell.say(f"next: squeue --job {number} · jobrun status {batch.runs.name}")


def _batch(spec: str, prepared: Prepared, words: Sequence[str], given: dict[str, Any]) -> Batch:
    job = prepared.job
    runs = Path(given["run_dir"]).absolute() / job.name
    words_of_run = ("run", spec, *spec_arguments(None, given["values"], given["overrides"]), *words)
    found = Batch(
        name=job.name,
        command=(*words_of_run, "--run-dir", str(runs.parent)),
        jobrun=(sys.executable, "-P", "-m", "jobrun"),
        directory=Path.cwd(),
        runs=runs,
        settings=_settings(given),
        warn_s=max(_SHORTEST_WARNING_S, math.ceil(given["warn_s"])),
        before=given["before"],
        again=job.checkpoint.enabled,
        has_deadline=job.deadline is not None,
    )
    return replace(found, hosts=given["hosts"])


def _settings(given: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    found = [setting(text) for text in given["slurm"]]
    if given["time_s"] and given["time_s"] <= given["warn_s"] + _TOO_EARLY_S:
        raise UsageError.of(
            "E403",
            f"--time of {given['time_s']:g} s ends before the run is signalled: --warn of "
            f"{given['warn_s']:g} s, and Slurm may be a minute early",
            "request more time, or signal later, for example --warn 30s",
        )
    if given["time_s"]:
        found.append(("time", slurm_time(given["time_s"])))
    if given["partition"]:
        found.append(setting(f"partition={given['partition']}"))
    keys = [key for key, _ in found]
    if given["hosts"] > 1:
        keys += ["nodes", "ntasks-per-node"]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise UsageError.of(
            "E404", f"'{twice[0]}' is given twice", "give it once, with or without --slurm"
        )
    return tuple(found)


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
