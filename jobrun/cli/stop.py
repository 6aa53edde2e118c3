"""``jobrun stop``: asks a live run to save and end."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completing import RUN
from jobrun.cli.execution import Duration
from jobrun.cli.options import Command, option, run_dir_option
from jobrun.cli.shell import Shell
from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.rundir import find_run
from jobrun.tools.runs.ending import ask_to_end, wait_for_end


@click.command("stop", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@option("--now", is_flag=True, help="At once: what is not saved is dropped.")
@option(
    "--wait",
    "wait_s",
    type=Duration(),
    metavar="5m",
    help="Wait so long for its end; else return at once.",
)
@run_dir_option
@click.pass_obj
def command(shell: Shell, run: str, now: bool, wait_s: float | None, run_dir: str) -> None:
    r"""Ask RUN to end; the newest if none is named. It ends with 75, and resume continues it.

    The epoch that runs is finished and saved if that does not take too long, else dropped.

    \b
    Examples:
      jobrun stop
      jobrun stop brisk-heron --wait 30s
    """
    found = find_run(run, Path(run_dir))
    owner = ask_to_end(found, now=now)
    shell.say(f"asked {found.name} to end, {owner}")
    if wait_s is not None:
        if not wait_for_end(found, wait_s):
            raise EnvironmentFaultError.of(
                "E426",
                f"{found.name} has not ended yet",
                "wait longer, or drop what it does now: jobrun stop --now",
            )
        shell.say("it has ended")
