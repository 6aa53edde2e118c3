"""``jobrun logs``: what the tasks of a run said."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import click

from jobrun.cli.completing import RUN, TASK
from jobrun.cli.options import Command, option, run_dir_option
from jobrun.cli.shell import Shell
from jobrun.core.errors import UsageError
from jobrun.core.excerpt import visible
from jobrun.core.names import did_you_mean
from jobrun.runner.lock import is_live
from jobrun.runner.rundir import find_run

_LOOK_EVERY_S = 0.2
_PIECE_BYTES = 64 << 10


@click.command("logs", cls=Command)
@click.argument("run", type=RUN, metavar="[RUN]", default="latest")
@click.argument("task", type=TASK, metavar="[TASK]", default="")
@option("-f", "--follow", is_flag=True, help="Go on until the run ends.")
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
    r"""Print what the tasks of RUN said, the newest run if none is named; or one TASK.

    Each line begins with the epoch. With several tasks each line begins with the task's name.

    \b
    Examples:
      jobrun logs latest lloyd -f
      jobrun logs kmeans -n 20
    """
    found = find_run(run, Path(run_dir))
    folder = found.path / "logs"
    files = _files(folder, task)
    if task and not files and not follow:
        known = [path.stem for path in _files(folder, "")]
        raise UsageError.of(
            "E428",
            f"no task '{task}' of {found.name} has said anything",
            did_you_mean(task, known),
        )
    if not files and not follow:
        shell.say(f"no task of {found.name} has said anything")
        return
    places: dict[Path, int] = {}
    while True:
        # Before the last look, so that nothing that was said before the end is missed.
        live = is_live(found.path)
        for path in _files(folder, task):
            name = "" if task else f"{path.stem} "
            for line in _new_lines(path, places, lines):
                shell.print(f"{name}{visible(line)}")
        if not follow or not live or not shell.is_heard:
            return
        time.sleep(_LOOK_EVERY_S)


def _files(folder: Path, task: str) -> list[Path]:
    """The logs of a task, one per instance; of all tasks where none is named."""
    try:
        found = sorted(folder.glob("*.log"))
    except OSError:
        return []
    return [path for path in found if task in ("", path.stem, path.stem.rpartition(".")[0])]


def _new_lines(path: Path, places: dict[Path, int], last: int | None) -> Iterator[str]:
    """The whole lines behind the place where the last look ended."""
    with path.open("rb") as file:
        if path not in places and last is not None:
            places[path] = _start_of_last(file.fileno(), last)
        file.seek(places.get(path, 0))
        for line in file:
            if not line.endswith(b"\n"):
                break
            places[path] = places.get(path, 0) + len(line)
            yield line.rstrip(b"\n").decode(errors="backslashreplace")


def _start_of_last(descriptor: int, count: int) -> int:
    """Where the last ``count`` whole lines begin; read from the end."""
    end = os.fstat(descriptor).st_size
    data, at = b"", end
    while at > 0 and data.count(b"\n") <= count:
        step = min(_PIECE_BYTES, at)
        at -= step
        data = os.pread(descriptor, step, at) + data
    whole = data.rpartition(b"\n")[0] + b"\n" if b"\n" in data else b""
    wanted = whole.splitlines(keepends=True)
    kept = wanted[-count:] if count else []
    return end - (len(data) - len(whole)) - sum(map(len, kept))
