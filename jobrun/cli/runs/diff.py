"""Implement ``jobrun diff``: print how two runs differ, or a run and its present spec."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from jobrun import api
from jobrun.cli.completion_candidates import RUN_AT_EPOCH
from jobrun.cli.formatting import number, render_json_document
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import ProofError, UsageError
from jobrun.core.text.terminal_text import align_cells
from jobrun.runner.identity.drift import Change
from jobrun.runner.rundir.run_directories import Run, find_run
from jobrun.tools.diff import (
    BlobDifference,
    RunDifference,
    ValueDifference,
    compare_run_with_spec,
    compare_runs,
)

# A longer number is not readable as a count.
_MANY = 10**6


@click.command("diff", cls=Command)
@click.argument("first", type=RUN_AT_EPOCH, metavar="A[@EPOCH]")
@click.argument("second", type=RUN_AT_EPOCH, metavar="[B[@EPOCH]]", default="")
@option(
    "--working",
    metavar="SPEC",
    default="",
    help="Compare A with this spec, and its code and data as they are now, instead of with B.",
)
@option("--check", is_flag=True, help="Exit with 8 when the states differ.")
@json_option
@run_dir_option
@click.pass_obj
def command(
    shell: Shell, /, first: str, second: str, working: str, check: bool, as_json: bool, run_dir: str
) -> int:
    r"""Show how run B differs from run A: spec, code, data, environment, metrics, state.

    Of each blob it says by how much: the number of elements, the largest absolute difference,
    the same in units in the last place (ULP), and the relative norm.

    \b
    Examples:
      jobrun diff kmeans@5 kmeans@6
      jobrun diff brisk-heron calm-otter --check
      jobrun diff latest --working kmeans.yaml
    """
    if bool(second) == bool(working):
        raise UsageError.of(
            "E429",
            "exactly one thing to compare with is required",
            "name a run B, or give --working SPEC",
        )
    root = Path(run_dir)
    ours, our_epoch = _run(first, root)
    if working:
        difference = compare_run_with_spec(ours, api.load(working))
    else:
        theirs, their_epoch = _run(second, root)
        difference = compare_runs(ours, theirs, (our_epoch, their_epoch))
    if as_json:
        shell.print_text(render_json_document("diff", _as_values(difference)))
    else:
        shell.print(*(_text(difference) or ["no difference"]))
    return ProofError.exit_code if check and not difference.state_is_equal else 0


def _run(text: str, root: Path) -> tuple[Run, str]:
    name, at, epoch = text.rpartition("@")
    return (find_run(name, root), epoch) if at else (find_run(text, root), "")


def _text(difference: RunDifference) -> list[str]:
    lines: list[str] = []
    for title, changes in (
        ("spec", difference.spec),
        ("code", difference.code),
        ("data", difference.data),
        ("environment", difference.environment),
    ):
        if changes:
            lines += ["", title, *(f"  {_change(change)}" for change in changes)]
    metrics = [metric for metric in difference.metrics if metric[1] != metric[2]]
    if metrics:
        lines += [
            "",
            "metrics, last values",
            *align_columns(_metric(*metric) for metric in metrics),
        ]
    if difference.state:
        lines += ["", f"state after epoch {difference.epochs[0]} | {difference.epochs[1]}"]
        lines += render_differences(difference.state)
    return lines[1:]


def render_differences(blobs: Sequence[BlobDifference], *, equal_too: bool = False) -> list[str]:
    """Render for ``jobrun diff`` a line for each blob that differs, and how many blobs are equal.

    Args:
        blobs: All that were compared.
        equal_too: Give those a line, too, that do not differ.
    """
    several = len({blob.node for blob in blobs}) > 1
    equal = sum(blob.apart.equal for blob in blobs)
    rows = [
        (
            f"{blob.node}.{blob.name}" if several else blob.name,
            render_difference(blob.apart),
        )
        for blob in blobs
        if equal_too or not blob.apart.equal
    ]
    alike = [f"  {equal} of {len(blobs)} blobs have the same bits"] if equal else []
    return [*align_columns(rows), *alike]


def render_difference(difference: ValueDifference) -> str:
    """Render for ``jobrun diff`` how a blob's values differ: ``3 of 10 differ, max 0.5``."""
    if difference.equal:
        return "the same bits"
    if difference.words:
        return difference.words
    parts = [f"{difference.count} of {difference.size} differ"]
    if difference.largest is not None:
        parts.append(f"max {number(difference.largest)}")
    # For values that are far apart, ULPs add nothing to the largest difference.
    if difference.ulps is not None and difference.ulps < _MANY:
        parts.append(f"{difference.ulps} ULP")
    if difference.relative is not None:
        parts.append(f"relative norm {difference.relative:.2e}")
    return ", ".join(parts)


def align_columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    """Align the lines of a checkpoint diff in two columns: blob name, and how it differs."""
    return [f"  {name}  {text}" for name, text in align_cells(list(rows))]


def _change(change: Change) -> str:
    before, after = change.before or "not there", change.after or "not there"
    return f"{change.field}: {before} | {after}"


def _metric(name: str, before: Any, after: Any) -> tuple[str, str]:
    first, second = ("-" if value is None else number(value) for value in (before, after))
    return name, f"{first} | {second}"


def _as_values(difference: RunDifference) -> dict[str, Any]:
    return {
        "spec": [_change_values(change) for change in difference.spec],
        "code": [_change_values(change) for change in difference.code],
        "data": [_change_values(change) for change in difference.data],
        "environment": [_change_values(change) for change in difference.environment],
        "metrics": [
            {"name": name, "first": first, "second": second}
            for name, first, second in difference.metrics
        ],
        "epochs": list(difference.epochs),
        "state_is_equal": difference.state_is_equal,
        "state": [
            {"node": blob.node, "blob": blob.name, **to_builtins(blob.apart)}
            for blob in difference.state
        ],
    }


def _change_values(change: Change) -> dict[str, str]:
    return {
        "field": change.field,
        "kind": change.kind,
        "first": change.before,
        "second": change.after,
        "where": str(change.where or ""),
    }
