"""``jobrun ckpt diff|export|copy``: compares checkpoints, and takes them elsewhere."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from jobrun.cli.completing import BLOB, RUN_AT_EPOCH
from jobrun.cli.options import Command, Lines, json_option, option, run_dir_option
from jobrun.cli.output import document, short_path, size
from jobrun.cli.shell import Shell
from jobrun.core.errors import ProofError, UsageError
from jobrun.core.excerpt import visible
from jobrun.tools.checkpoints import checkpoints_of, chosen_epochs


@click.command("diff", cls=Command)
@click.argument("first", type=RUN_AT_EPOCH, metavar="A[@EPOCH]")
@click.argument("second", type=RUN_AT_EPOCH, metavar="B[@EPOCH]")
@option("--all", "show_all", is_flag=True, help="Show the blobs that are equal, too.")
@option("--check", is_flag=True, help="Exit with 8 when a blob differs.")
@json_option
@run_dir_option
@click.pass_obj
def diff(
    shell: Shell, /, first: str, second: str, show_all: bool, check: bool, as_json: bool,
    run_dir: str,
) -> int:  # fmt: skip
    r"""Compare two checkpoints blob by blob: .h5 files, directories of epochs, or runs.

    Of each blob that differs: how many elements, the largest absolute difference, the same in
    units in the last place (ULP), and the relative norm; or that its dtype or shape differs, or
    that only one side has it.

    \b
    Examples:
      jobrun ckpt diff kmeans@5 kmeans@6
      jobrun ckpt diff kmeans@5 backup/epoch-000005 --check
    """
    # Brings numpy in.
    from jobrun.tools.comparing.checkpoints import stored_apart  # noqa: PLC0415
    from jobrun.tools.comparing.words import state_lines  # noqa: PLC0415
    from jobrun.tools.stored import find_stored  # noqa: PLC0415

    sides = [find_stored(text, Path(run_dir)) for text in (first, second)]
    blobs = tuple(stored_apart(*sides))
    equal = all(blob.apart.equal for blob in blobs)
    if as_json:
        values = [
            {"node": blob.node, "blob": blob.name, "only_in": blob.only_in, **asdict(blob.apart)}
            for blob in blobs
            if show_all or not blob.apart.equal
        ]
        facts = [{"path": one.path, "epoch": one.epoch, "run_id": one.run_id} for one in sides]
        content: dict[str, Any] = {"first": facts[0], "second": facts[1], "equal": equal}
        shell.print(document("ckpt-diff", {**content, "compared": len(blobs), "blobs": values}))
    else:
        names = [f"epoch {one.epoch} in {visible(short_path(one.path))}" for one in sides]
        lines = state_lines(blobs, equal_too=show_all) or ["  both are empty"]
        shell.print("\n".join([f"first   {names[0]}", f"second  {names[1]}", *lines]))
    return ProofError.exit_code if check and not equal else 0


@click.command("export", cls=Command)
@click.argument("target", type=RUN_AT_EPOCH, metavar="RUN[@EPOCH]")
@option(
    "--format", "form", type=click.Choice(["npz", "csv", "safetensors"]), default=None,
    help="Of the file; without it, as the name of FILE ends.",
)  # fmt: skip
@option("-o", "--out", metavar="FILE", required=True, help="The file to write.")
@option(
    "--blob", "patterns", type=Lines(), multiple=True, metavar="PATTERN",
    help="Only blobs of these names, such as 'w*' or node.w; all without it.",
    shell_complete=BLOB.shell_complete,
)  # fmt: skip
@option("--force", is_flag=True, help="Replace FILE if it is there.")
@run_dir_option
@click.pass_obj
def export(
    shell: Shell, /, target: str, form: str | None, out: str, patterns: tuple[str, ...],
    force: bool, run_dir: str,
) -> None:  # fmt: skip
    r"""Write blobs of a checkpoint to a file that other programs read.

    npz and safetensors hold any number of arrays, csv one blob of one or two axes. Of several
    nodes the blobs are called node.blob. Without --blob, what the format cannot hold is left out,
    and told.

    \b
    Examples:
      jobrun ckpt export kmeans@12 --out kmeans.npz
      jobrun ckpt export latest --blob C --format csv --out centroids.csv
      jobrun ckpt export latest --blob 'w*' --out weights.safetensors
    """
    from jobrun.tools.exporting import export as write  # noqa: PLC0415 - brings numpy in
    from jobrun.tools.stored import find_stored  # noqa: PLC0415

    path = Path(out)
    found = find_stored(target, Path(run_dir))
    done = write(found, _format(form, path), path, patterns, force=force)
    for name, reason in done.left_out:
        shell.say(f"left out: {visible(name)}: {reason}")
    blobs = f"{len(done.names)} blob" + "s" * (len(done.names) != 1)
    shell.say(f"wrote {short_path(out)}: {blobs}, {size(path.stat().st_size)}")


@click.command("copy", cls=Command)
@click.argument("target", type=RUN_AT_EPOCH, metavar="RUN[@EPOCH]")
@click.argument("place", type=click.Path(), metavar="DIR")
@run_dir_option
@click.pass_obj
def copy(shell: Shell, target: str, place: str, run_dir: str) -> None:
    r"""Copy an epoch of RUN to DIR, a new run directory that can be resumed.

    With the epoch go the spec as it was run and the metrics until then; every byte is compared
    with the manifest. DIR appears whole or not at all, and must not be there before.

    \b
    Examples:
      jobrun ckpt copy kmeans@12 /backup/kmeans-12
      jobrun ckpt copy latest ../elsewhere && jobrun resume ../elsewhere
    """
    from jobrun.tools.copyrun import copy_epoch  # noqa: PLC0415 - rarely needed

    name, at, epoch = target.rpartition("@")
    found = checkpoints_of(name if at else target, Path(run_dir))
    (chosen,) = chosen_epochs(found, epoch if at and epoch else "latest")
    copied = copy_epoch(found, chosen, Path(place))
    shell.say(f"copied epoch {chosen} of {found.run.name} to {short_path(place)} ({size(copied)})")
    shell.say(f"next: jobrun resume {short_path(place)}")


def _format(form: str | None, path: Path) -> Any:
    """What was asked for, else what the name of the file says.

    Raises:
        UsageError: It says nothing.
    """
    told = form or path.suffix.removeprefix(".").lower()
    if told not in {"npz", "csv", "safetensors"}:
        mend = "add --format npz, csv or safetensors"
        raise UsageError.of("E403", f"'{path.name}' does not tell the format", mend)
    return told
