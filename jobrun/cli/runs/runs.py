"""Implement ``jobrun runs list|tag|remove|path``: print, tag, remove and find runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from jobrun.cli.app import SubcommandGroup
from jobrun.cli.completion_candidates import JOB, RUN
from jobrun.cli.formatting import STATUS_COLOURS, render_json_document, shorten_path, size
from jobrun.cli.options import (
    Command,
    Duration,
    OneOf,
    RepeatableText,
    json_option,
    option,
    run_dir_option,
)
from jobrun.cli.runs.runs_table import RunsTable
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.text.fault_text import visible
from jobrun.core.text.names import did_you_mean
from jobrun.runner.rundir.run_directories import Run, find_run, open_run, suggest_run_dir
from jobrun.tools.runs.filter_and_sort_runs import (
    filter_runs,
    find_columns,
    group_runs,
    parse_condition,
    render_csv,
    sort_runs,
    with_best_metrics,
)
from jobrun.tools.runs.summarise_runs import RunSummary, read_summaries
from jobrun.tools.runs.tag_and_remove_runs import change_tags, measure_size, remove_run

_WIDEST = 1 << 16

command = SubcommandGroup(
    "runs",
    "List runs with params and metrics; tag or remove them.",
    default="list",
    examples=("jobrun runs kmeans --status failed", "jobrun runs tag brisk-heron baseline"),
)


@command.command("list", cls=Command)
@click.argument("job", type=JOB, default="")
@option("--status", type=OneOf(list(STATUS_COLOURS)), help="Only runs with this status.")
@option("--tag", "wanted", multiple=True, metavar="TAG", help="Only runs with this tag.")
@option(
    "--where",
    "conditions",
    type=RepeatableText(),
    multiple=True,
    metavar="'NAME<VALUE'",
    help="Only runs whose param, metric, epoch, age or seed is so.",
)
@option(
    "--sort",
    metavar="[-]NAME",
    default="",
    help="Sort by a param, a metric, epoch, age …; - for descending.",
)
@option(
    "--best",
    metavar="METRIC",
    default="",
    help="Metrics of the epoch where METRIC, or max:METRIC, was best.",
)
@option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the last N rows.")
@option("--csv", "as_csv_text", is_flag=True, help="Print CSV with all columns and digits.")
@json_option
@run_dir_option
@click.pass_obj
def _list(shell: Shell, /, job: str, run_dir: str, **given: Any) -> None:
    r"""Show runs with the params that differ and their last metrics, the newest last.

    Of one JOB or sweep, or of all: each has a table of its own. Columns that find no room are left
    out.

    \b
    Examples:
      jobrun runs kmeans --where 'k>=8' --sort -shift
      jobrun runs train --best max:accuracy --status finished
    """
    if given["as_csv_text"] and given["as_json"]:
        raise UsageError.of("E404", "--csv and --json exclude each other", "choose one")
    root = Path(run_dir)
    chooses = any(given[name] for name in ("status", "wanted", "conditions", "sort", "best"))
    listed = read_summaries(root, job, None if chooses else given["limit"])
    for fault in listed.faults:
        shell.say(f"warning: {visible(fault)}")
    if job and not listed.runs and not listed.faults:
        jobs = {one.sweep or one.job for one in read_summaries(root).runs}
        raise UsageError.of("E351", f"no run of '{job}' in {root}", did_you_mean(job, jobs))
    now = datetime.now(UTC)
    found = _selected(listed.runs, root, now, given)
    if given["as_json"]:
        content = {
            "runs": [_as_values(one) for one in found],
            "faults": list(listed.faults),
        }
        shell.print(render_json_document("runs", content))
    elif given["as_csv_text"]:
        shell.print(render_csv(found).rstrip("\n"))
    elif found:
        _print_table(found, shell, now, given)
    else:
        none = f"no runs in {root}; {suggest_run_dir(root)}"
        shell.say(f"no such run in {root}" if listed.runs else none)


def _selected(
    runs: Sequence[RunSummary], root: Path, now: datetime, given: dict[str, Any]
) -> list[RunSummary]:
    """Apply the options of the command ``jobrun runs list`` that select and sort runs."""
    found = [
        one
        for one in runs
        if given["status"] in (None, one.status) and set(given["wanted"]) <= set(one.tags)
    ]
    if not found:
        return found
    found = filter_runs(found, map(parse_condition, given["conditions"]), now)
    if found and given["best"]:
        # The best one is the first, and so of these the first are kept.
        found = with_best_metrics(found, root, given["best"], now)
    if found and given["sort"]:
        found = sort_runs(found, given["sort"], now)
    limit = given["limit"] or len(found)
    return found[:limit] if given["best"] or given["sort"] else found[-limit:]


def _print_table(
    found: list[RunSummary], shell: Shell, now: datetime, given: dict[str, Any]
) -> None:
    asked = [parse_condition(text).name for text in given["conditions"]]
    asked += [given["sort"].removeprefix("-"), given["best"].rpartition(":")[2]]
    columns = set(find_columns(filter(None, asked), found)) if any(asked) else set()
    table = RunsTable(shell, now, columns)
    is_sorted = bool(given["sort"] or given["best"])
    groups = group_runs(found, nest_forks=not is_sorted, always=columns)
    shell.print("\n".join(table.render(groups)))
    if table.left_out:
        text = f"no room for: {', '.join(table.left_out)} (--csv prints all)"
        shell.say(textwrap.fill(text, min(_WIDEST, shell.message_width), break_on_hyphens=False))


@command.command("tag", cls=Command)
@click.argument("run", type=RUN)
@click.argument("tags", nargs=-1, required=True, metavar="TAG...")
@option("--remove", is_flag=True, help="Remove the tags.")
@run_dir_option
@click.pass_obj
def _tag(shell: Shell, run: str, tags: tuple[str, ...], remove: bool, run_dir: str) -> None:
    r"""Tag RUN with words by which 'jobrun runs' finds it.

    \b
    Examples:
      jobrun runs tag brisk-heron baseline
      jobrun runs tag brisk-heron baseline --remove
    """
    found = find_run(run, Path(run_dir))
    left = change_tags(found.path, () if remove else tags, tags if remove else ())
    shell.say(f"{found.name}: {_words(left) or 'no tags'}")


@command.command("remove", cls=Command)
@click.argument("runs", type=RUN, nargs=-1, metavar="[RUN...]")
@option("--older-than", type=Duration(), metavar="30d", help="All runs made longer ago.")
@option("--status", type=OneOf(list(STATUS_COLOURS)), help="All runs with this status.")
@option("--unfinished", is_flag=True, help="Also remove unfinished runs.")
@option("--dry-run", is_flag=True, help="Only show what would be removed.")
@option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
@run_dir_option
@click.pass_obj
def _remove(
    shell: Shell, /, runs: tuple[str, ...], run_dir: str, dry_run: bool, yes: bool, **given: Any
) -> None:
    r"""Delete RUNs, or all old ones, with their checkpoints. A live run is never touched.

    \b
    Examples:
      jobrun runs remove brisk-heron calm-otter --yes
      jobrun runs remove --older-than 30d --status failed --dry-run
    """
    root, unfinished = Path(run_dir), given["unfinished"]
    if bool(runs) == bool(given["older_than"] or given["status"]):
        raise UsageError.of(
            "E404",
            "name the runs to remove, or choose them by --older-than and --status, not both",
            "list them first: jobrun runs",
        )
    found = [find_run(name, root) for name in runs] or _old_runs(shell, root, given)
    if dry_run:
        sizes = [measure_size(run.path) for run in found]
        for run, size_bytes in zip(found, sizes, strict=True):
            shell.print(f"{run.name}  {size(size_bytes)}")
        if found:
            shell.say(f"{_count(len(found))}, {size(sum(sizes))}")
    if not (found or given.get("kept")):
        shell.say(f"no such run in {root}")
    if dry_run or not found:
        return
    if not yes:
        if not shell.terminal:
            raise UsageError.of(
                "E427",
                "removing runs needs confirmation, but standard error is not a terminal",
                "add --yes",
            )
        for run in found:
            shell.say(f"{run.name}  {size(measure_size(run.path))}  {shorten_path(str(run.path))}")
        click.confirm("Remove?", abort=True, err=True)
    for run in found:
        remove_run(run, unfinished=unfinished)
        shell.say(f"removed {run.name}")


def _old_runs(shell: Shell, root: Path, given: dict[str, Any]) -> list[Run]:
    """Choose runs for ``jobrun runs remove`` by age and status; print which runs it keeps."""
    now = datetime.now(UTC)
    listed = read_summaries(root)
    for fault in listed.faults:
        shell.say(f"warning: {visible(fault)}")
    chosen = [
        one
        for one in listed.runs
        if one.status != "running"
        and given["status"] in (None, one.status)
        and one.age_s(now) >= (given["older_than"] or 0.0)
    ]
    found = [open_run(root / one.path) for one in chosen]
    kept = [run for run in found if run.unfinished and run.has_saved and not given["unfinished"]]
    given["kept"] = len(kept)
    if kept:
        shell.say(f"{_count(len(kept))} unfinished, and kept; --unfinished removes them, too")
    return [run for run in found if run not in kept]


def _count(number: int) -> str:
    return "1 run" if number == 1 else f"{number} runs"


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


def _as_values(one: RunSummary) -> dict[str, Any]:
    values = asdict(one)
    fork = {"run": one.parent, "run_id": one.parent_id, "epoch": one.parent_epoch}
    left = {name: values.pop(name) for name in ("path", "order", "parent_id", "parent_epoch")}
    return {
        "run": left["path"],
        **values,
        "parent": fork if one.parent else None,
        "sweep": one.sweep or None,
    }


def _words(tags: tuple[str, ...]) -> str:
    return " ".join(f"#{tag}" for tag in tags)
