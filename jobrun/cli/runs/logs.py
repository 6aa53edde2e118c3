"""Implement ``jobrun logs``: print and follow the logs of a run's tasks."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from jobrun.cli.completion_candidates import RUN, TASK
from jobrun.cli.options import Command, option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.files.disk import open_regular
from jobrun.core.text.terminal_text import keep_colours
from jobrun.runner.rundir.lock import is_live
from jobrun.runner.rundir.logs import describe_losses, read_losses, unreadable_file_error
from jobrun.runner.rundir.run_directories import find_run
from jobrun.tools.runs.task_logs import list_logs, require_logs

_LOOK_EVERY_S = 0.2
_PIECE_BYTES = 64 << 10
_MOST_TAIL_BYTES = 64 << 20
# A longer line is shown as several.
_LINE_BYTES = 1 << 20


@click.command("logs", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@click.argument("task", type=TASK, metavar="[TASK]", default="")
@option("-f", "--follow", is_flag=True, help="Follow the log until the run ends.")
@option(
    "-n",
    "--lines",
    type=click.IntRange(min=0),
    metavar="N",
    help="Only the last N of each task.",
)
@run_dir_option
@click.pass_obj
def command(
    shell: Shell, run: str, task: str, follow: bool, lines: int | None, run_dir: str
) -> None:
    r"""Print what the tasks of RUN wrote to their logs, the newest run if none is named.

    Each line begins with the epoch. With several tasks each line begins with the task's name.

    \b
    Examples:
      jobrun logs latest lloyd -f
      jobrun logs kmeans -n 20
    """
    found_run = find_run(run, Path(run_dir))
    if not follow and not require_logs(found_run.path, task, found_run.name):
        shell.say(f"no log output in {found_run.name}")
        return
    offsets: dict[Path, int] = {}
    while True:
        # Before the last look, so that nothing that was said before the end is missed.
        live = is_live(found_run.path)
        fault = None
        for path in list_logs(found_run.path, task):
            name = "" if task else f"{path.stem} "
            try:
                for line in _new_lines(path, offsets, lines):
                    shell.print(f"{name}{keep_colours(line)}")
            except OSError as error:
                # The others are shown first.
                fault = unreadable_file_error(path, error)
        if fault is not None:
            raise fault
        if not follow or not live or not shell.has_reader:
            _say_lost(shell, found_run.path)
            return
        time.sleep(_LOOK_EVERY_S)


def _say_lost(shell: Shell, run: Path) -> None:
    """Print on stderr which lines of a run's logs were lost."""
    lost = {name: loss for name, loss in read_losses(run).items() if name.startswith("logs/")}
    for words in describe_losses(lost):
        shell.say(f"lost: {words}")


def _new_lines(path: Path, places: dict[Path, int], last: int | None) -> Iterator[str]:
    """Implement ``jobrun logs --follow``: read the complete lines added since the last look."""
    with os.fdopen(open_regular(path), "rb") as file:
        if path not in places and last is not None:
            places[path] = _start_of_last(file.fileno(), last)
        file.seek(places.get(path, 0))
        while line := file.readline(_LINE_BYTES):
            if len(line) == _LINE_BYTES and not line.strip(b"\0"):
                raise OSError(errno.EINVAL, "it is not a text file", str(path))
            if not line.endswith(b"\n") and len(line) < _LINE_BYTES:
                break
            places[path] = places.get(path, 0) + len(line)
            yield line.rstrip(b"\n").decode(errors="backslashreplace")


def _start_of_last(descriptor: int, count: int) -> int:
    """Implement ``jobrun logs --lines``: find where the last complete lines of a log begin."""
    end = os.fstat(descriptor).st_size
    data, at = b"", end
    while at > 0 and data.count(b"\n") <= count and len(data) < _MOST_TAIL_BYTES:
        step = min(_PIECE_BYTES, at)
        at -= step
        data = os.pread(descriptor, step, at) + data
    whole = data.rpartition(b"\n")[0] + b"\n" if b"\n" in data else b""
    wanted = whole.splitlines(keepends=True)
    shown = wanted[-count:] if count else []
    return end - (len(data) - len(whole)) - sum(map(len, shown))
