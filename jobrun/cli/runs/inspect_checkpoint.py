"""Implement ``jobrun inspect-checkpoint``: verify a checkpoint and print what it holds."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from jobrun import api
from jobrun.checkpoint.checkpoint_file import BlobFacts, FileFacts
from jobrun.checkpoint.checkpoint_times import save_phases
from jobrun.cli.completion_candidates import BLOB, RUN_AT_EPOCH
from jobrun.cli.formatting import render_json_document, shorten_path, wrap_line, wrap_rows
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import UsageError
from jobrun.core.events import CheckpointTimes, NodeTime
from jobrun.core.files.digest import PREFIX
from jobrun.core.text.terminal_text import align_cells, control
from jobrun.core.text.units import number, size, span
from jobrun.tools.inspection import (
    Inspection,
    dtype_name,
    inspection_values,
    render_position,
    render_structure,
    select_blobs,
    sort_objects_first,
    value_text,
)
from jobrun.tools.report.blob_pictures import (
    NOT_A_NUMBER,
    DrawnBlob,
    Histogram,
    Picture,
    draw_each_blob,
)

# Characters of a digest that are shown: its kind, and 12 of the number.
_DIGEST = len(PREFIX) + 12
# Half of what is shown as 1 ms.
_NOTHING = 0.0005

_BARS = " ▁▂▃▄▅▆▇█"
_SHADES = " ░▒▓█"
_HEIGHT = 5
_INDENT = "    "
# In the 256 colours of terminals: the first grey, the number of greys, and the colour of NaN.
_GREYS, _GREY_COUNT, _NAN = 232, 24, 162
_NO_PLOT = -1
_RESET = control("0m")


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
    "-o",
    "--out",
    metavar="FILE",
    default="",
    help="Write a page (HTML) with drawings instead; '-' is stdout.",
)
@json_option
@run_dir_option
@click.pass_obj
def command(
    shell: Shell, /, target: str, node: str, blob: str, as_json: bool, run_dir: str, **output: Any
) -> None:
    r"""Show what a checkpoint holds: a .h5 file, an epoch's directory, or a run.

    Of a run the newest epoch is shown, or the one behind '@'. Every byte is verified first.

    \b
    Examples:
      jobrun inspect-checkpoint kmeans@12
      jobrun inspect-checkpoint latest --blob C --values
    """
    if as_json + output["plot"] + bool(output["out"]) > 1:
        raise UsageError.of("E404", "--plot, --out and --json exclude each other", "choose one")
    inspection = api.inspect_checkpoint(target, run_dir)
    files = select_blobs(inspection, node, blob)
    if as_json:
        shell.print_text(
            render_json_document(
                "checkpoint", inspection_values(inspection, files, values=output["values"])
            )
        )
    elif output["out"]:
        _write_page(shell, inspection, files, output["out"])
    else:
        lines = _text(inspection, files, shell.result_width, values=output["values"])
        shell.print(*lines, *(_drawings(shell, inspection, files) if output["plot"] else []))


def _write_page(
    shell: Shell, inspection: Inspection, files: tuple[FileFacts, ...], out: str
) -> None:
    from jobrun.cli.runs.report import write_page  # noqa: PLC0415 - only when asked for
    from jobrun.tools.report.blob_pictures import draw_each_blob  # noqa: PLC0415
    from jobrun.tools.report.page import format_now, render_checkpoint_page  # noqa: PLC0415

    write_page(
        shell,
        render_checkpoint_page(inspection, draw_each_blob(inspection, files), format_now()),
        out,
    )


def _drawings(shell: Shell, inspection: Inspection, files: tuple[FileFacts, ...]) -> list[str]:
    size_ = shutil.get_terminal_size()
    return draw_blobs(inspection, files, (size_.columns, size_.lines), colours=shell.result_colours)


def _text(
    inspection: Inspection, files: tuple[FileFacts, ...], columns: int, *, values: bool
) -> list[str]:
    facts = [
        ("epoch", f"{inspection.epoch}, {_how_far(inspection)}saved {span(inspection.age_s)} ago"),
        ("path", shorten_path(inspection.path)),
        ("run", inspection.run_id),
    ]
    if inspection.ahead:
        facts.append(("and then", f"epoch {inspection.epoch + 1}, {inspection.ahead} records in"))
    if inspection.spec_digest:
        facts.append(("spec", f"{inspection.spec_digest[:_DIGEST]}…"))
    if inspection.times is not None:
        facts.append(
            ("saved in", _speed(inspection.times) + f", slowest node {inspection.times.slowest}")
        )
        facts.append(("made of", _made_of(inspection.times)))
        if 0 < inspection.times.written_bytes < inspection.times.size_bytes:
            facts.append(("written", _written(inspection.times)))
    facts += [("stream", f"{stream} ({kind})") for stream, kind in inspection.streams.items()]
    facts += [(name, number(value)) for name, value in inspection.metrics.items()]
    lines = wrap_rows(facts, columns)
    for file in files:
        took = _took(inspection, file.header.node)
        title = f"{file.header.node}   {Path(file.path).name}, {size(file.size_bytes)}{took}"
        lines += ["", *wrap_line(title, columns, len(_INDENT))]
        lines += _table(file.blobs, columns, values=values)
    return lines


def _how_far(inspection: Inspection) -> str:
    return f"{inspection.records} records in, " if inspection.records else ""


def _made_of(times: CheckpointTimes) -> str:
    """Render the phases of a save for ``jobrun inspect-checkpoint``: ``write 210 ms, …``."""
    parts = [
        f"{name} {span(seconds)}" for name, seconds in save_phases(times) if seconds >= _NOTHING
    ]
    stall = "continued meanwhile, and waited" if times.beside else "waited"
    return f"{', '.join(parts) or 'nothing to speak of'}; the run {stall} {span(times.stall_s)}"


def _written(times: CheckpointTimes) -> str:
    sizes = f"{size(times.written_bytes)} of {size(times.size_bytes)}"
    return f"{sizes}; the rest had not changed"


def _took(inspection: Inspection, node: str) -> str:
    nodes = inspection.times.nodes if inspection.times else ()
    return next(
        (f", written in {_speed(written)}" for written in nodes if written.node == node), ""
    )


def _speed(times: CheckpointTimes | NodeTime) -> str:
    return f"{span(times.seconds)} ({size(round(times.megabytes_per_s * 1e6))}/s)"


def _table(blobs: tuple[BlobFacts, ...], columns: int, *, values: bool) -> list[str]:
    blobs = sort_objects_first(blobs)
    rows = [_row(blob) for blob in blobs]
    lines = []
    for blob, cells in zip(blobs, align_cells(rows), strict=True):
        lines += wrap_line(f"  {'  '.join(cells)}".rstrip(), columns, len(_INDENT))
        if values and blob.shape:
            lines += [f"    {line}" for line in value_text(blob.value).splitlines()]
    return lines


def _row(blob: BlobFacts) -> tuple[str, str, str, str, str]:
    if head := render_structure(blob):
        kind, _, of = head.partition(" of class ")
        return (blob.name.partition("/")[0], kind, "-", "-", of)
    kind = dtype_name(blob.dtype)
    if blob.kind != "array":
        kind = f"numpy {kind}" if blob.kind == "numpy" else blob.kind
    shape = " x ".join(map(str, blob.shape)) if blob.shape else "-"
    return (blob.name, kind, shape, size(blob.size_bytes), _contents(blob))


def _contents(blob: BlobFacts) -> str:
    """Render a blob for ``jobrun inspect-checkpoint``: one value, or its range and mean."""
    if not blob.shape:
        return value_text(blob.value)
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


def draw_blobs(
    inspection: Inspection,
    files: tuple[FileFacts, ...],
    terminal: tuple[int, int],
    *,
    colours: bool,
) -> list[str]:
    """Draw on the terminal, for ``jobrun inspect-checkpoint``, each blob that can be drawn.

    Args:
        inspection: The checkpoint.
        files: What of it is wanted.
        terminal: Its columns and lines.
        colours: Whether it takes them; without, pictures are made of shades.
    """
    columns = max(20, terminal[0] - len(_INDENT) - 1)
    # A picture fits on the screen, under its title; a half block is one row of it.
    most_lines = max(8, terminal[1] - 4)
    most = (2 * most_lines if colours else most_lines, columns)
    blobs = [
        drawn
        for drawn in draw_each_blob(inspection, files, most)
        if drawn.histogram or drawn.pictures
    ]
    several = len({drawn.node for drawn in blobs}) > 1
    printed: list[str] = []
    for drawn in blobs:
        name = f"{drawn.node}.{drawn.facts.name}" if several else drawn.facts.name
        printed += ["", name, *_drawing(drawn, columns, colours=colours)]
    return printed or ["", "nothing to plot: all blobs are scalars or text"]


def _drawing(blob: DrawnBlob, columns: int, *, colours: bool) -> list[str]:
    lines = draw_histogram(blob.histogram, columns) if blob.histogram else []
    for drawn in blob.pictures:
        if drawn.shades.shape[1] <= columns:
            lines += ["", *draw_picture(drawn, colours=colours)]
    return [_INDENT + line if line else "" for line in lines]


def draw_histogram(histogram: Histogram, columns: int) -> list[str]:
    """Draw a histogram on the terminal for ``jobrun inspect-checkpoint``, as vertical bars."""
    bars = _pooled(histogram.counts, columns)
    wide = max(1, min(4, columns // len(bars), 40 // len(bars)))
    eighths = [-(-bar * 8 * _HEIGHT // max(bars)) for bar in bars]
    lines = []
    for line in reversed(range(_HEIGHT)):
        cells = (_BARS[min(8, max(0, eighth - 8 * line))] * wide for eighth in eighths)
        lines.append("".join(cells).rstrip())
    low, high = number(histogram.low), number(histogram.high)
    gap = max(1, wide * len(bars) - len(low) - len(high))
    notes = [histogram.of] if histogram.of else []
    notes += [f"one of {histogram.step} values"] if histogram.step > 1 else []
    return [*lines, "  ".join([low + " " * gap + high, *notes])]


def draw_picture(drawn: Picture, *, colours: bool) -> list[str]:
    """Draw a picture on the terminal for ``jobrun inspect-checkpoint``, in half blocks."""
    # Between tiles there is nothing; elsewhere there is an item that is no number.
    blank = _NO_PLOT if drawn.tile else NOT_A_NUMBER
    rows = [[int(shade) or blank for shade in row] for row in drawn.shades]
    if not colours:
        return ["".join(_shade(shade) for shade in row).rstrip() for row in rows]
    if len(rows) % 2:
        rows.append([_NO_PLOT] * len(rows[0]))
    return [_half_blocks(rows[at], rows[at + 1]) for at in range(0, len(rows), 2)]


def _pooled(counts: Sequence[int], columns: int) -> list[int]:
    """Merge neighbouring histogram bins to as many as ``jobrun inspect-checkpoint`` prints."""
    step = -(-len(counts) // columns)
    return [sum(counts[at : at + step]) for at in range(0, len(counts), step)]


def _half_blocks(upper: Sequence[int], lower: Sequence[int]) -> str:
    return "".join(map(_half_block, upper, lower)) + _RESET


def _half_block(above: int, below: int) -> str:
    # Where nothing is, the ground is the terminal's own.
    if above == below == _NO_PLOT:
        return f"{_RESET} "
    if above == _NO_PLOT:
        return control(f"38;5;{_grey(below)};49m") + "▄"
    ground = "49" if below == _NO_PLOT else f"48;5;{_grey(below)}"
    return control(f"38;5;{_grey(above)};{ground}m") + "▀"


def _grey(shade: int) -> int:
    if shade == NOT_A_NUMBER:
        return _NAN
    return _GREYS + (shade - 1) * (_GREY_COUNT - 1) // 254


def _shade(shade: int) -> str:
    if shade == _NO_PLOT:
        return " "
    if shade == NOT_A_NUMBER:
        return "?"
    return _SHADES[(shade - 1) * (len(_SHADES) - 1) // 254]
