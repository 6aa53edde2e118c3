"""Implement ``jobrun stop``: ask a live run to save and end, and print whether it did."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completion_candidates import RUN
from jobrun.cli.options import Command, Duration, option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import EnvironmentFaultError
from jobrun.runner.rundir.run_directories import find_run
from jobrun.tools.runs.stop_signal import send_stop_signal, wait_for_end


@click.command("stop", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@option("--now", is_flag=True, help="Stop at once, without saving.")
@option(
    "--wait",
    "wait_s",
    type=Duration(),
    metavar="5m",
    help="Wait this long for the run to end [default: do not wait].",
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
    found_run = find_run(run, Path(run_dir))
    owner = send_stop_signal(found_run, now=now)
    shell.say(f"asked {found_run.name} to end, {owner}")
    if wait_s is not None:
        if not wait_for_end(found_run, wait_s):
            raise EnvironmentFaultError.of(
                "E426",
                f"{found_run.name} has not ended yet",
                "wait longer, or stop without saving: jobrun stop --now",
            )
        shell.say("the run has ended")
