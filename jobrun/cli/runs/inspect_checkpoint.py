"""Implement ``jobrun inspect-checkpoint``: verify a checkpoint and print what it holds."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import click

from jobrun import api
from jobrun.checkpoint.checkpoint_file import BlobFacts, FileFacts
from jobrun.checkpoint.checkpoint_times import save_phases
from jobrun.cli.completions import BLOB, RUN_AT_EPOCH
from jobrun.cli.formatting import number, render_json_document, shorten_path, size, span
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.events import CheckpointTimes, NodeTime
from jobrun.core.text.fault_text import visible
from jobrun.tools.inspect import (
    Inspection,
    dtype_name,
    inspection_values,
    render_position,
    render_structure,
    select_blobs,
    sort_objects_first,
    value_text,
)

# Half of what is shown as 1 ms.
_NOTHING = 0.0005


@click.command("inspect-checkpoint", cls=Command)
@click.argument("target", type=RUN_AT_EPOCH, metavar="PATH|RUN[@EPOCH]")
# JOBRUN_NODE is set for the programs of steps, and JOBRUN_VALUES is a list of files.
@option(
    "--node",
    default="",
    metavar="NAME",
    envvar="JOBRUN_SHOW_NODE",
    show_envvar=True,
    help="Only this node.",
)
@option("--blob", type=BLOB, default="", metavar="NAME", help="Only this blob.")
@option(
    "--values",
    is_flag=True,
    envvar="JOBRUN_SHOW_VALUES",
    show_envvar=True,
    help="Show the values.",
)
@option("--plot", is_flag=True, help="Draw histograms, and matrices as pictures.")
@option(
    "-o", "--out", metavar="FILE", default="",
    help="Write a page (HTML) with drawings instead; '-' is stdout.",
)  # fmt: skip
@json_option
@run_dir_option
@click.pass_obj
def command(
    shell: Shell, /, target: str, node: str, blob: str, as_json: bool, run_dir: str, **form: Any
) -> None:
    r"""Show what a checkpoint holds: a .h5 file, an epoch's directory, or a run.

    Of a run the newest epoch is shown, or the one behind '@'. Every byte is verified first.

    \b
    Examples:
      jobrun inspect-checkpoint kmeans@12
      jobrun inspect-checkpoint latest --blob C --values
    """
    if as_json + form["plot"] + bool(form["out"]) > 1:
        raise UsageError.of("E404", "--plot, --out and --json exclude each other", "choose one")
    found = api.inspect_checkpoint(target, run_dir)
    files = select_blobs(found, node, blob)
    if as_json:
        shell.print(
            render_json_document(
                "checkpoint", inspection_values(found, files, values=form["values"])
            )
        )
    elif form["out"]:
        _write_page(shell, found, files, form["out"])
    else:
        lines = _text(found, files, values=form["values"])
        shell.print("\n".join([*lines, *(_drawings(shell, found, files) if form["plot"] else [])]))


def _write_page(shell: Shell, found: Inspection, files: tuple[FileFacts, ...], place: str) -> None:
    from jobrun.cli.runs.report import format_now, write_page  # noqa: PLC0415 - only when asked for
    from jobrun.tools.report.page import render_checkpoint_page  # noqa: PLC0415
    from jobrun.tools.report.pictures import draw_each_blob  # noqa: PLC0415

    write_page(
        shell, render_checkpoint_page(found, draw_each_blob(found, files), format_now()), place
    )


def _drawings(shell: Shell, found: Inspection, files: tuple[FileFacts, ...]) -> list[str]:
    from jobrun.cli.runs.blob_plots import draw_blobs  # noqa: PLC0415 - only when asked for

    size_ = shutil.get_terminal_size()
    return draw_blobs(found, files, (size_.columns, size_.lines), colours=shell.result_colours)


def _text(found: Inspection, files: tuple[FileFacts, ...], *, values: bool) -> list[str]:
    facts = [
        ("epoch", f"{found.epoch}, {_how_far(found)}saved {span(found.age_s)} ago"),
        ("path", shorten_path(found.path)),
        ("run", found.run_id),
    ]
    if found.ahead:
        facts.append(("and then", f"epoch {found.epoch + 1}, {found.ahead} records in"))
    if found.spec_digest:
        facts.append(("spec", found.spec_digest))
    if found.times is not None:
        facts.append(("saved in", _speed(found.times) + f", slowest node {found.times.slowest}"))
        facts.append(("made of", _made_of(found.times)))
        if 0 < found.times.written_bytes < found.times.size_bytes:
            facts.append(("written", _written(found.times)))
    facts += [("stream", f"{visible(place)} ({kind})") for place, kind in found.streams.items()]
    facts += [(visible(name), number(value)) for name, value in found.metrics.items()]
    width = max(len(name) for name, _ in facts)
    lines = [f"{name:<{width}}  {text}" for name, text in facts]
    for file in files:
        took = _took(found, file.header.node)
        lines += ["", f"{file.header.node}   {Path(file.path).name}, {size(file.size_bytes)}{took}"]
        lines += _table(file.blobs, values=values)
    return lines


def _how_far(found: Inspection) -> str:
    return f"{found.records} records in, " if found.records else ""


def _made_of(times: CheckpointTimes) -> str:
    """Render the phases of a save for ``jobrun inspect-checkpoint``: ``write 210 ms, …``."""
    parts = [
        f"{name} {span(seconds)}" for name, seconds in save_phases(times) if seconds >= _NOTHING
    ]
    stall = "continued meanwhile, and waited" if times.beside else "waited"
    return f"{', '.join(parts) or 'nothing to speak of'}; the run {stall} {span(times.stall_s)}"


def _written(times: CheckpointTimes) -> str:
    what = f"{size(times.written_bytes)} of {size(times.size_bytes)}"
    return f"{what}; the rest had not changed"


def _took(found: Inspection, node: str) -> str:
    nodes = found.times.nodes if found.times else ()
    return next((f", written in {_speed(one)}" for one in nodes if one.node == node), "")


def _speed(times: CheckpointTimes | NodeTime) -> str:
    return f"{span(times.seconds)} ({size(round(times.megabytes_per_s * 1e6))}/s)"


def _table(blobs: tuple[BlobFacts, ...], *, values: bool) -> list[str]:
    blobs = sort_objects_first(blobs)
    rows = [_row(blob) for blob in blobs]
    widths = [max(len(row[column]) for row in rows) for column in range(4)] if rows else []
    lines = []
    for blob, row in zip(blobs, rows, strict=True):
        cells = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False))
        lines.append(f"  {cells}  {row[4]}".rstrip())
        if values and blob.shape:
            lines += [f"    {line}" for line in value_text(blob.value).splitlines()]
    return lines


def _row(blob: BlobFacts) -> tuple[str, str, str, str, str]:
    if head := render_structure(blob):
        kind, _, of = head.partition(" of class ")
        return (visible(blob.name.partition("/")[0]), kind, "-", "-", visible(of))
    kind = dtype_name(blob.dtype)
    if blob.kind != "array":
        kind = f"numpy {kind}" if blob.kind == "numpy" else blob.kind
    shape = " x ".join(map(str, blob.shape)) if blob.shape else "-"
    return (visible(blob.name), kind, shape, size(blob.size_bytes), _contents(blob))


def _contents(blob: BlobFacts) -> str:
    """Render what ``jobrun inspect-checkpoint`` prints of a blob: its number, or their range."""
    if not blob.shape:
        return visible(value_text(blob.value))
    if position := render_position(blob):
        return position
    parts = []
    if blob.minimum is not None and blob.mean is not None and blob.maximum is not None:
        parts.append(
            f"min {number(blob.minimum)}  mean {number(blob.mean)}  max {number(blob.maximum)}"
        )
    if blob.nans:
        parts.append(f"{blob.nans} NaN")
    return "  ".join(parts)
