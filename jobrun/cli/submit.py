"""``jobrun submit``: hands a spec to Slurm, with a script that goes on until the job is done."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from jobrun.api import Prepared
from jobrun.cli.completing import SPEC
from jobrun.cli.execution import Duration, given_words
from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, Lines, json_option, option, run_dir_option, value_options
from jobrun.cli.output import document
from jobrun.cli.shell import Shell
from jobrun.core.errors import UsageError
from jobrun.formats.files import make_directory
from jobrun.runner.durable import disk_faults
from jobrun.tools.submitting import Batch, script, setting, slurm_time, submit

_SHORTEST_WARNING_S = 10
# Slurm looks at times once in a while, and may tell so much too early.
_TOO_EARLY_S = 60
# Those that the script gives by itself, or that would end a batch job at once.
_NOT_HERE = {"--resume", "--run-dir", "--set", "-s", "--values", "-f", "--help", "-h"}
_BEFORE = {"run-dir", "set", "s", "values", "f"}


@click.command("submit", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- RUN-OPTIONS]")
@option(
    "--slurm",
    type=Lines(),
    multiple=True,
    metavar="KEY=VALUE",
    help="Any long option of sbatch, such as mem=4G; can be repeated.",
)
@option(
    "--time",
    "time_s",
    type=Duration(),
    metavar="2h",
    envvar="JOBRUN_SUBMIT_TIME",
    show_envvar=True,
    help="The time limit of each start; else the partition's.",
)
@option("--partition", metavar="NAME", help="Where to; else Slurm's default.")
@option(
    "--hosts",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="With several, a Ray cluster is started on them.",
)
@option(
    "--warn",
    "warn_s",
    type=Duration(),
    default="2m",
    show_default=True,
    metavar="2m",
    help="How long before the end the run is told to save.",
)
@option(
    "--before",
    type=Lines(),
    multiple=True,
    metavar="LINE",
    help="Shell before the run, such as 'module load cuda'; can be repeated.",
)
@option("--print", "only_print", is_flag=True, help="Print the script, and submit nothing.")
@json_option
@value_options
@run_dir_option
@click.pass_obj
def command(shell: Shell, /, spec: str, words: tuple[str, ...], **given: Any) -> None:
    r"""Submit SPEC to Slurm as a job that is put back until it has finished.

    Shortly before its time is over the run saves and ends with 75, and the script asks Slurm to
    start it again. Further options of 'jobrun run' come behind '--'. For other batch systems, ssh
    and Kubernetes see 'jobrun explain submit'.

    \b
    Examples:
      jobrun submit kmeans.yaml --time 2h --partition short
      jobrun submit train.yaml --slurm mem=8G --print -- --session processes
    """  # fmt: skip
    shell.texts |= option_texts(given["overrides"])
    prepared = prepare(spec, given["values"], given["overrides"])
    show(prepared.warnings, shell)
    _check_words(words, several=given["hosts"] > 1)
    batch = _batch(spec, prepared, words, given)
    text = script(batch)
    if given["only_print"]:
        shown = document("script", {"script": text}) if given["as_json"] else text.rstrip("\n")
        shell.print(shown)
        return
    with disk_faults(f"make {batch.runs.parent}"):
        make_directory(batch.runs.parent)
    number = submit(text)
    if given["as_json"]:
        shell.print(document("submitted", {"job": number, "script": text}))
        return
    output = str(batch.runs.parent / f"slurm-{batch.name}-{number}.log")
    shell.print(number)
    shell.say(f"submitted {batch.name} as job {number}; what it says goes to {output}")
    if not batch.again:
        shell.say("it keeps no checkpoints ('checkpoint: none'), so it is not put back")
    shell.say(f"next: squeue --job {number} · jobrun status {batch.runs.name}")


def _batch(spec: str, prepared: Prepared, words: Sequence[str], given: dict[str, Any]) -> Batch:
    job = prepared.job
    runs = Path(given["run_dir"]).absolute() / job.name
    told = ("run", spec, *given_words(None, given["values"], given["overrides"]), *words)
    found = Batch(
        name=job.name,
        command=(*told, "--run-dir", str(runs.parent)),
        jobrun=(sys.executable, "-m", "jobrun"),
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
            "E403", f"--time of {given['time_s']:g} s is over before the run is told: --warn of "
            f"{given['warn_s']:g} s, and Slurm may be a minute early",
            "ask for more time, or be told later, such as --warn 30s",
        )  # fmt: skip
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
            "E404", f"'{twice[0]}' is asked of Slurm twice", "say it once, with or without --slurm"
        )
    return tuple(found)


def _check_words(words: Sequence[str], *, several: bool) -> None:
    """See now that ``jobrun run`` will take the words.

    Raises:
        UsageError: It will not, or they are for this command.
    """
    from jobrun.cli.run import command as run  # noqa: PLC0415 - brings what runs a job

    for word in words:
        name = word.partition("=")[0]
        if name in _NOT_HERE or (several and name == "--session"):
            mend = "give it before the '--'" if name.strip("-") in _BEFORE else "leave it out"
            raise UsageError.of("E404", f"'{name}' is not for the run of a batch job", mend)
    context = click.Context(run, info_name="jobrun run", obj=click.get_current_context().obj)
    run.parse_args(context, ["spec.yaml", *words])
