"""``jobrun runs``: which runs there are; tag them, remove them, find their directories."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from jobrun.cli.completing import JOB, RUN
from jobrun.cli.groups import SubcommandGroup
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.output import STATUS_COLOURS, document, short_path, size, span
from jobrun.cli.shell import Shell
from jobrun.core.errors import UsageError
from jobrun.core.names import did_you_mean
from jobrun.runner.rundir import find_run
from jobrun.runner.runindex import Indexed
from jobrun.tools.runs.listing import listed_runs
from jobrun.tools.runs.removal import remove_run, size_of
from jobrun.tools.runs.tags import change_tags, tags_of

_LEAST_WHY = 12
_HEAD = ("run", "status", "epoch", "age", "why it ended")

command = SubcommandGroup(
    "runs",
    "List runs; tag, remove, or find them.",
    default="list",
    examples=("jobrun runs kmeans --status failed", "jobrun runs tag brisk-heron baseline"),
)


@command.command("list", cls=Command)
@click.argument("job", type=JOB, default="")
@option("--status", type=click.Choice(list(STATUS_COLOURS)), help="Only those that stand so.")
@option("--tag", "wanted", multiple=True, metavar="TAG", help="Only those with this tag.")
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the newest N.")
@json_option
@run_dir_option
@click.pass_obj
def _list(
    shell: Shell, /, job: str, wanted: tuple[str, ...], as_json: bool, run_dir: str, **given: Any
) -> None:
    r"""List runs, the newest last; of one JOB or of all.

    \b
    Examples:
      jobrun runs kmeans --status failed
      jobrun runs --tag baseline --limit 5
    """
    root = Path(run_dir)
    known = listed_runs(root)
    jobs = {one.job for one in known}
    if job and job not in jobs:
        raise UsageError.of("E351", f"no run of '{job}' in {root}", did_you_mean(job, jobs))
    kept = [one for one in known if job in ("", one.job) and given["status"] in (None, one.status)]
    if given["limit"] and not wanted:
        # Before their tags are read: that is a file of each.
        kept = kept[-given["limit"] :]
    tagged = [(one, tags_of(root / one.path)) for one in kept]
    found = [(one, tags) for one, tags in tagged if set(wanted) <= set(tags)]
    found = found[-given["limit"] :] if given["limit"] else found
    if as_json:
        shell.print(document("runs", {"runs": [_as_values(one, tags) for one, tags in found]}))
    elif found:
        shell.print("\n".join(_table(found, shell)))
    else:
        shell.say(f"no such run in {root}" if known else f"no runs in {root}")


@command.command("tag", cls=Command)
@click.argument("run", type=RUN)
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@option("--remove", is_flag=True, help="Take the tags off.")
@run_dir_option
@click.pass_obj
def _tag(shell: Shell, run: str, tags: tuple[str, ...], remove: bool, run_dir: str) -> None:
    r"""Put words on a RUN, to find it by.

    \b
    Examples:
      jobrun runs tag brisk-heron baseline
      jobrun runs tag brisk-heron baseline --remove
    """
    found = find_run(run, Path(run_dir))
    left = change_tags(found.path, () if remove else tags, tags if remove else ())
    shell.say(f"{found.name}: {_words(left) or 'no tags'}")


@command.command("remove", cls=Command)
@click.argument("runs", type=RUN, nargs=-1, required=True, metavar="RUN...")
@option("--unfinished", is_flag=True, help="Also runs that resume could go on with.")
@option("-y", "--yes", is_flag=True, help="Do not ask.")
@run_dir_option
@click.pass_obj
def _remove(shell: Shell, runs: tuple[str, ...], unfinished: bool, yes: bool, run_dir: str) -> None:
    r"""Delete RUNs with all their checkpoints. One that lives is never touched.

    \b
    Examples:
      jobrun runs remove brisk-heron calm-otter
      jobrun runs remove brisk-heron --yes
    """
    found = [find_run(name, Path(run_dir)) for name in runs]
    if not yes:
        if not shell.terminal:
            raise UsageError.of("E427", "nobody is there to be asked before removing", "add --yes")
        for run in found:
            shell.say(f"{run.name}  {size(size_of(run.path))}  {short_path(str(run.path))}")
        click.confirm("Remove?", abort=True, err=True)
    for run in found:
        remove_run(run, unfinished=unfinished)
        shell.say(f"removed {run.name}")


@command.command("path", cls=Command)
@click.argument("run", type=RUN, default="latest")
@run_dir_option
@click.pass_obj
def _path(shell: Shell, run: str, run_dir: str) -> None:
    r"""Print the directory of a RUN.

    \b
    Examples:
      jobrun runs path
      jobrun runs path brisk-heron
    """
    shell.print(str(find_run(run, Path(run_dir)).path))


def _as_values(one: Indexed, tags: tuple[str, ...]) -> dict[str, Any]:
    return {
        "run": one.path,
        "job": one.job,
        "created": one.created,
        "status": one.status,
        "epoch": one.epoch,
        "exit_code": one.exit_code,
        "reason": one.reason,
        "resumable": one.resumable,
        "tags": list(tags),
    }


def _table(found: list[tuple[Indexed, tuple[str, ...]]], shell: Shell) -> list[str]:
    rows = [_HEAD, *(_row(one, tags) for one, tags in found)]
    widths = [max(len(row[at]) for row in rows) for at in range(4)]
    lines = []
    for number, row in enumerate(rows):
        cells = [f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)]
        if number:
            cells[1] = shell.paint(cells[1], STATUS_COLOURS[row[1]], result=True)
        room = shell.result_width - sum(widths) - 2 * len(widths)
        lines.append("  ".join((*cells, _cut(row[4], room))).rstrip())
    return lines


def _cut(text: str, room: int) -> str:
    """What fits into the room of a terminal; nothing where that would say nothing."""
    if len(text) <= room:
        return text
    return f"{text[: room - 1]}…" if room >= _LEAST_WHY else ""


def _row(one: Indexed, tags: tuple[str, ...]) -> tuple[str, str, str, str, str]:
    born = datetime.fromisoformat(one.created)
    age = span(max(0.0, (datetime.now(UTC) - born).total_seconds()))
    why = "  ".join(filter(None, (one.reason, _words(tags))))
    return one.path, one.status, str(one.epoch) if one.epoch >= 0 else "-", age, why


def _words(tags: tuple[str, ...]) -> str:
    return " ".join(f"#{tag}" for tag in tags)
