"""Implement ``jobrun ckpt verify|list|pin|unpin|prune|diff|export|copy``: options, output."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from jobrun.checkpoint.store_protocol import Damage
from jobrun.cli.app import SubcommandGroup
from jobrun.cli.completion_candidates import BLOB, RUN, RUN_AT_EPOCH
from jobrun.cli.formatting import (
    number,
    render_columns,
    render_json_document,
    shorten_path,
    size,
    span,
)
from jobrun.cli.options import Command, OneOf, RepeatableText, json_option, option, run_dir_option
from jobrun.cli.terminal import Shell
from jobrun.core.errors import ProofError, UsageError
from jobrun.core.text.object_url import is_object_url
from jobrun.runner.rundir.journal import read_pins
from jobrun.runner.rundir.lost_epochs import describe_lost_epochs
from jobrun.runner.rundir.run_directories import find_run
from jobrun.tools.checkpoint_maintenance import (
    Checkpoints,
    Pruning,
    change_pins,
    chosen_epochs,
    hold_chosen,
    list_epochs,
    open_checkpoints,
    plan_pruning,
    prune,
    verify,
    verify_presence,
    verify_within,
)

command = SubcommandGroup(
    "ckpt",
    "List, verify, compare, keep and copy the checkpoints of a run.",
    examples=("jobrun ckpt list", "jobrun ckpt verify", "jobrun ckpt diff kmeans@5 kmeans@6"),
)


@command.command("verify", cls=Command)
@click.argument("target", metavar="[RUN[@EPOCH]]", type=RUN, default="latest")
@json_option
@run_dir_option
@click.pass_obj
def _verify(shell: Shell, /, target: str, as_json: bool, run_dir: str) -> int:
    r"""Compare every byte of RUN's checkpoints with what was written.

    Exits with 8 when one is damaged. RUN may be the URL of a run in an object store.

    \b
    Examples:
      jobrun ckpt verify
      jobrun ckpt verify kmeans@12
    """
    if is_object_url(target):
        return _verify_remote(shell, target, as_json=as_json)
    name, at, wanted = target.rpartition("@")
    checkpoints = open_checkpoints(name if at else target, Path(run_dir))
    # Without '@', what a live run deletes meanwhile is passed over.
    chosen = hold_chosen(checkpoints, wanted) if at else None
    epochs = (chosen[0],) if chosen else chosen_epochs(checkpoints, "")

    verified: list[int] = []
    within: list[dict[str, Any]] = []

    def report(epoch: int, damage: Damage | None) -> None:
        verified.append(epoch)
        if not as_json:
            shell.print(_condition(f"epoch {epoch}", damage, shell))

    def told_within(epoch: int, records: int, damage: Damage | None) -> None:
        reason = "" if damage is None else damage.reason
        within.append(
            {"epoch": epoch, "records": records, "good": damage is None, "reason": reason}
        )
        if not as_json:
            words = f"epoch {epoch} after {records} of its records"
            shell.print(_condition(words, damage, shell))

    damaged = verify(checkpoints, epochs, report)
    torn: tuple[Damage, ...] = ()
    if not at:
        # An epoch that is named is verified alone, without those within epochs.
        damaged += verify_presence(checkpoints, report)
        torn = verify_within(checkpoints, told_within)
    if as_json:
        content = _verified(checkpoints.run.name, tuple(verified), damaged)
        content["good"] = not (damaged or torn)
        shell.print_text(render_json_document("ckpt-verify", {**content, "within": within}))
    return ProofError.exit_code if damaged or torn else 0


def _verify_remote(shell: Shell, target: str, *, as_json: bool) -> int:
    from jobrun.runner.rundir.object_store_run import verify_remote  # noqa: PLC0415 - only who has some there

    def report(epoch: int, damage: Damage | None) -> None:
        if not as_json:
            shell.print(_condition(f"epoch {epoch}", damage, shell))

    name, damages = verify_remote(target, report)
    damaged = tuple(damage for damage in damages.values() if damage is not None)
    if as_json:
        content = _verified(name, tuple(damages), damaged)
        shell.print_text(render_json_document("ckpt-verify", {**content, "within": []}))
    return ProofError.exit_code if damaged else 0


@command.command("list", cls=Command)
@click.argument("run", metavar="[RUN]", type=RUN, default="latest")
@json_option
@run_dir_option
@click.pass_obj
def _list(shell: Shell, run: str, as_json: bool, run_dir: str) -> None:
    r"""List RUN's checkpoints: age, size, metrics, and which are pinned; nothing is verified.

    \b
    Examples:
      jobrun ckpt list
      jobrun ckpt list kmeans --json
    """
    found_run = find_run(run, Path(run_dir))
    epochs = list_epochs(found_run)
    lost = describe_lost_epochs(found_run, lambda: tuple(epoch.epoch for epoch in epochs))
    if lost:
        shell.say(f"warning: {lost}")
    if as_json:
        content = {
            "run": found_run.name,
            "epochs": [to_builtins(epoch) for epoch in epochs],
            "fault": lost,
        }
        shell.print_text(render_json_document("ckpt-list", content))
    elif not epochs:
        shell.say(f"{found_run.name} has no checkpoint")
    else:
        names = list(dict.fromkeys(name for epoch in epochs for name in epoch.metrics))
        head = ["epoch", "age", "size", "pinned", *names]
        rows = [
            [
                str(epoch.epoch),
                span(max(0.0, time.time() - epoch.saved)),
                size(epoch.size_bytes),
                "pinned" if epoch.pinned else "",
                *(number(epoch.metrics[name]) if name in epoch.metrics else "-" for name in names),
            ]
            for epoch in epochs
        ]
        shell.print(*render_columns([head, *rows], shell.result_width))


@command.command("pin", cls=Command)
@click.argument("target", metavar="RUN@EPOCH", type=RUN)
@run_dir_option
@click.pass_obj
def _pin(shell: Shell, target: str, run_dir: str) -> None:
    r"""Keep an epoch, whatever 'keep' says; RUN@latest is the newest.

    \b
    Examples:
      jobrun ckpt pin kmeans@12
      jobrun ckpt pin kmeans@latest
    """
    _change_pins(shell, target, run_dir, pin=True)


@command.command("unpin", cls=Command)
@click.argument("target", metavar="RUN@EPOCH", type=RUN)
@run_dir_option
@click.pass_obj
def _unpin(shell: Shell, target: str, run_dir: str) -> None:
    r"""Take the pin off an epoch; the next prune, or save, may delete it.

    \b
    Examples:
      jobrun ckpt unpin kmeans@12
      jobrun ckpt unpin brisk-heron@latest
    """
    _change_pins(shell, target, run_dir, pin=False)


@command.command("prune", cls=Command)
@click.argument("run", type=RUN, default="latest")
@option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@option(
    "--last",
    type=click.IntRange(min=2),
    metavar="N",
    help="Keep the newest N instead of following the spec.",
)
@json_option
@run_dir_option
@click.pass_obj
def _prune(
    shell: Shell, /, run: str, dry_run: bool, last: int | None, as_json: bool, run_dir: str
) -> None:
    r"""Delete the checkpoints of RUN that its spec does not keep.

    Epoch 0, what is pinned, and the two newest that are whole always stay.

    \b
    Examples:
      jobrun ckpt prune --dry-run
      jobrun ckpt prune kmeans --last 3
    """
    checkpoints = open_checkpoints(run, Path(run_dir))
    planned = plan_pruning(checkpoints, last or 0) if dry_run else prune(checkpoints, last or 0)
    if as_json:
        shell.print_text(
            render_json_document("ckpt-prune", _pruned(checkpoints, planned, dry_run=dry_run))
        )
        return
    for damage in planned.damaged:
        shell.say(f"warning: epoch {damage.epoch} is damaged, and is kept: {damage.reason}")
    shell.say(_pruning_words(planned, dry_run=dry_run))


def _change_pins(shell: Shell, target: str, run_dir: str, *, pin: bool) -> None:
    name, at, epoch = target.rpartition("@")
    checkpoints = open_checkpoints(name if at else target, Path(run_dir))
    gone = () if pin else read_pins(checkpoints.run.path)
    epochs = chosen_epochs(checkpoints, epoch if at and epoch else "latest", gone)
    pinned = sorted(change_pins(checkpoints, epochs, pin=pin))
    listed = ", ".join(map(str, pinned)) or "none"
    shell.say(f"{checkpoints.run.name}: pinned epochs: {listed}")


def _condition(subject: str, damage: Damage | None, shell: Shell) -> str:
    if damage is None:
        return f"{subject}  " + shell.paint("good", "green", result=True)
    word = shell.paint("damaged", "red", result=True)
    return f"{subject}  {word}  {damage.reason}"


def _pruning_words(planned: Pruning, *, dry_run: bool) -> str:
    held = f"; {_epochs(planned.held)} is being read and is kept" if planned.held else ""
    if not planned.doomed:
        return f"nothing to delete: {_epochs(planned.retained)} stay{held}"
    verb = "would delete" if dry_run else "deleted"
    pinned = f" ({_epochs(planned.pinned)} pinned)" if planned.pinned else ""
    return (
        f"{verb} {_epochs(planned.doomed)}, {size(planned.size_bytes)}; "
        f"{_epochs(planned.retained)} stay{pinned}{held}"
    )


def _epochs(epochs: tuple[int, ...]) -> str:
    """Render epoch numbers in the output of ``jobrun ckpt`` as ranges: ``epochs 1-3, 5``."""
    spans: list[list[int]] = []
    for epoch in epochs:
        if spans and epoch == spans[-1][-1] + 1:
            spans[-1][1:] = [epoch]
        else:
            spans.append([epoch])
    listed = ", ".join("-".join(map(str, numbers)) for numbers in spans)
    return f"epoch {listed}" if len(epochs) == 1 else f"epochs {listed}"


def _verified(name: str, epochs: tuple[int, ...], damaged: tuple[Damage, ...]) -> dict[str, Any]:
    reasons = {damage.epoch: damage.reason for damage in damaged}
    return {
        "run": name,
        "good": not damaged,
        "epochs": [
            {"epoch": epoch, "good": epoch not in reasons, "reason": reasons.get(epoch, "")}
            for epoch in epochs
        ],
    }


def _pruned(checkpoints: Checkpoints, planned: Pruning, *, dry_run: bool) -> dict[str, Any]:
    return {
        "run": checkpoints.run.name,
        "dry_run": dry_run,
        "deleted": list(planned.doomed),
        "kept": list(planned.retained),
        "pinned": list(planned.pinned),
        "held": list(planned.held),
        "damaged": [{"epoch": damage.epoch, "reason": damage.reason} for damage in planned.damaged],
        "size_bytes": planned.size_bytes,
    }


@click.command("diff", cls=Command)
@click.argument("first", type=RUN_AT_EPOCH, metavar="A[@EPOCH]")
@click.argument("second", type=RUN_AT_EPOCH, metavar="B[@EPOCH]")
@option("--all", "show_all", is_flag=True, help="Also show the blobs that are equal.")
@option("--check", is_flag=True, help="Exit with 8 when a blob differs.")
@json_option
@run_dir_option
@click.pass_obj
def diff(
    shell: Shell,
    /,
    first: str,
    second: str,
    show_all: bool,
    check: bool,
    as_json: bool,
    run_dir: str,
) -> int:
    r"""Compare two checkpoints blob by blob: .h5 files, directories of epochs, or runs.

    Of each blob that differs: how many elements, the largest absolute difference, the same in
    units in the last place (ULP), and the relative norm; or that its dtype or shape differs, or
    that only one side has it.

    \b
    Examples:
      jobrun ckpt diff kmeans@5 kmeans@6
      jobrun ckpt diff kmeans@5 backup/epoch-000005 --check
    """
    # They import numpy.
    from jobrun.cli.runs.diff import render_differences  # noqa: PLC0415
    from jobrun.tools.diff import compare_stored  # noqa: PLC0415
    from jobrun.tools.lazy_blobs import find_stored_epoch  # noqa: PLC0415

    sides = [find_stored_epoch(text, Path(run_dir)) for text in (first, second)]
    blobs = tuple(compare_stored(*sides))
    equal = all(blob.apart.equal for blob in blobs)
    if as_json:
        values = [
            {
                "node": blob.node,
                "blob": blob.name,
                "only_in": blob.only_in,
                **to_builtins(blob.apart),
            }
            for blob in blobs
            if show_all or not blob.apart.equal
        ]
        facts = [{"path": side.path, "epoch": side.epoch, "run_id": side.run_id} for side in sides]
        content: dict[str, Any] = {"first": facts[0], "second": facts[1], "equal": equal}
        shell.print_text(
            render_json_document("ckpt-diff", {**content, "compared": len(blobs), "blobs": values})
        )
    else:
        names = [f"epoch {side.epoch} in {shorten_path(side.path)}" for side in sides]
        lines = render_differences(blobs, equal_too=show_all) or ["  both are empty"]
        shell.print(f"first   {names[0]}", f"second  {names[1]}", *lines)
    return ProofError.exit_code if check and not equal else 0


@click.command("export", cls=Command)
@click.argument("target", type=RUN_AT_EPOCH, metavar="RUN[@EPOCH]")
@option(
    "--format",
    "file_format",
    type=OneOf(["npz", "csv", "safetensors"]),
    default=None,
    help="Format of the file [default: by its extension].",
)
@option("-o", "--out", metavar="FILE", required=True, help="The file to write.")
@option(
    "--blob",
    "patterns",
    type=RepeatableText(),
    multiple=True,
    metavar="PATTERN",
    help="Only blobs with these names, such as 'w*' or node.w [default: all].",
    shell_complete=BLOB.shell_complete,
)
@option("--force", is_flag=True, help="Overwrite FILE if it exists.")
@run_dir_option
@click.pass_obj
def export(
    shell: Shell,
    /,
    target: str,
    file_format: str | None,
    out: str,
    patterns: tuple[str, ...],
    force: bool,
    run_dir: str,
) -> None:
    r"""Write blobs of a checkpoint to a file that other programs read.

    npz and safetensors hold any number of arrays, csv one blob of one or two axes. Of several
    nodes the blobs are called node.blob. Without --blob, what the format cannot hold is left out,
    with a message.

    \b
    Examples:
      jobrun ckpt export kmeans@12 --out kmeans.npz
      jobrun ckpt export latest --blob C --format csv --out centroids.csv
      jobrun ckpt export latest --blob 'w*' --out weights.safetensors
    """
    from jobrun.tools.export import export as write  # noqa: PLC0415 - brings numpy in
    from jobrun.tools.lazy_blobs import find_stored_epoch  # noqa: PLC0415

    path = Path(out)
    stored = find_stored_epoch(target, Path(run_dir))
    done = write(stored, _format(file_format, path), path, patterns, force=force)
    for name, reason in done.left_out:
        shell.say(f"left out: {name}: {reason}")
    blobs = f"{len(done.names)} blob" + "s" * (len(done.names) != 1)
    shell.say(f"wrote {shorten_path(out)}: {blobs}, {size(path.stat().st_size)}")


@click.command("copy", cls=Command)
@click.argument("target", type=RUN_AT_EPOCH, metavar="RUN[@EPOCH]")
@click.argument("folder", type=click.Path(), metavar="DIR")
@run_dir_option
@click.pass_obj
def copy(shell: Shell, target: str, folder: str, run_dir: str) -> None:
    r"""Copy an epoch of RUN to DIR, a new run directory that can be resumed.

    With the epoch go the spec as it was run and the metrics until then; every byte is compared
    with the manifest. DIR appears whole or not at all, and must not be there before.

    \b
    Examples:
      jobrun ckpt copy kmeans@12 /backup/kmeans-12
      jobrun ckpt copy latest ../elsewhere && jobrun resume ../elsewhere
    """
    from jobrun.tools.export import copy_epoch  # noqa: PLC0415 - rarely needed

    name, at, epoch = target.rpartition("@")
    checkpoints = open_checkpoints(name if at else target, Path(run_dir))
    chosen, hold = hold_chosen(checkpoints, epoch if at else "")
    try:
        copied = copy_epoch(checkpoints, chosen, Path(folder))
    finally:
        hold.release()
    shell.say(
        f"copied epoch {chosen} of {checkpoints.run.name} to {shorten_path(folder)} "
        f"({size(copied)})"
    )
    shell.say(f"next: jobrun resume {shorten_path(folder)}")


def _format(option: str | None, path: Path) -> Any:
    """Choose the file format for ``jobrun ckpt export``: ``--format``, or by the file's suffix.

    Raises:
        UsageError: It says nothing.
    """
    chosen = option or path.suffix.removeprefix(".").lower()
    if chosen not in {"npz", "csv", "safetensors"}:
        mend = "add --format npz, csv or safetensors"
        raise UsageError.of("E403", f"'{path.name}' has no known extension", mend)
    return chosen


for _command in (diff, export, copy):
    command.add_command(_command)
