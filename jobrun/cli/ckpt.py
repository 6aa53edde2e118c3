"""``jobrun ckpt``: looks after the checkpoints of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jobrun.checkpoint.store import Damage
from jobrun.cli import ckptfiles
from jobrun.cli.completing import RUN
from jobrun.cli.groups import SubcommandGroup
from jobrun.cli.options import Command, json_option, option, run_dir_option
from jobrun.cli.output import document, size
from jobrun.cli.shell import Shell
from jobrun.core.errors import ProofError
from jobrun.core.excerpt import visible
from jobrun.core.objecturl import is_object_url
from jobrun.runner.pins import read_pins
from jobrun.tools.checkpoints import (
    Checkpoints,
    Pruning,
    change_pins,
    checkpoints_of,
    chosen_epochs,
    plan_pruning,
    prune,
    verify,
    verify_within,
)

command = SubcommandGroup(
    "ckpt",
    "Verify, compare, keep and copy the checkpoints of a run.",
    examples=("jobrun ckpt verify", "jobrun ckpt diff kmeans@5 kmeans@6"),
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
    found, epochs = _chosen(target, run_dir)

    within: list[dict[str, Any]] = []

    def told(epoch: int, damage: Damage | None) -> None:
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

    damaged = verify(found, epochs, told)
    # Whoever names an epoch means the whole of it.
    torn = () if "@" in target else verify_within(found, told_within)
    if as_json:
        form = {**_verified(found.run.name, epochs, damaged), "good": not (damaged or torn)}
        shell.print(document("ckpt-verify", {**form, "within": within}))
    return ProofError.exit_code if damaged or torn else 0


def _verify_remote(shell: Shell, target: str, *, as_json: bool) -> int:
    from jobrun.runner.remoterun import verify_remote  # noqa: PLC0415 - only who has some there

    def told(epoch: int, damage: Damage | None) -> None:
        if not as_json:
            shell.print(_condition(f"epoch {epoch}", damage, shell))

    name, found = verify_remote(target, told)
    damaged = tuple(damage for damage in found.values() if damage is not None)
    if as_json:
        form = _verified(name, tuple(found), damaged)
        shell.print(document("ckpt-verify", {**form, "within": []}))
    return ProofError.exit_code if damaged else 0


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
    help="Keep the newest N, instead of what the spec says.",
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
    found = checkpoints_of(run, Path(run_dir))
    planned = plan_pruning(found, last or 0) if dry_run else prune(found, last or 0)
    if as_json:
        shell.print(document("ckpt-prune", _pruned(found, planned, dry_run=dry_run)))
        return
    for damage in planned.damaged:
        shell.say(f"warning: epoch {damage.epoch} is damaged, and stays: {damage.reason}")
    shell.say(_pruning_words(planned, dry_run=dry_run))


for _command in (ckptfiles.diff, ckptfiles.export, ckptfiles.copy):
    command.add_command(_command)


def _chosen(target: str, run_dir: str) -> tuple[Checkpoints, tuple[int, ...]]:
    name, at, epoch = target.rpartition("@")
    found = checkpoints_of(name if at else target, Path(run_dir))
    return found, chosen_epochs(found, epoch if at else "")


def _change_pins(shell: Shell, target: str, run_dir: str, *, pin: bool) -> None:
    name, at, epoch = target.rpartition("@")
    found = checkpoints_of(name if at else target, Path(run_dir))
    gone = () if pin else read_pins(found.run.path)
    epochs = chosen_epochs(found, epoch if at and epoch else "latest", gone)
    pinned = sorted(change_pins(found, epochs, pin=pin))
    listed = ", ".join(map(str, pinned)) or "none"
    shell.say(f"{found.run.name}: pinned epochs: {listed}")


def _condition(what: str, damage: Damage | None, shell: Shell) -> str:
    if damage is None:
        return f"{what}  " + shell.paint("good", "green", result=True)
    word = shell.paint("damaged", "red", result=True)
    return f"{what}  {word}  {visible(damage.reason)}"


def _pruning_words(planned: Pruning, *, dry_run: bool) -> str:
    if not planned.doomed:
        return f"nothing to delete: {_epochs(planned.kept)} stay"
    verb = "would delete" if dry_run else "deleted"
    pinned = f" ({_epochs(planned.pinned)} pinned)" if planned.pinned else ""
    return (
        f"{verb} {_epochs(planned.doomed)}, {size(planned.size_bytes)}; "
        f"{_epochs(planned.kept)} stay{pinned}"
    )


def _epochs(epochs: tuple[int, ...]) -> str:
    """``epochs 1-3, 5``."""
    spans: list[list[int]] = []
    for epoch in epochs:
        if spans and epoch == spans[-1][-1] + 1:
            spans[-1][1:] = [epoch]
        else:
            spans.append([epoch])
    listed = ", ".join("-".join(map(str, one)) for one in spans)
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


def _pruned(found: Checkpoints, planned: Pruning, *, dry_run: bool) -> dict[str, Any]:
    return {
        "run": found.run.name,
        "dry_run": dry_run,
        "deleted": list(planned.doomed),
        "kept": list(planned.kept),
        "pinned": list(planned.pinned),
        "damaged": [{"epoch": one.epoch, "reason": one.reason} for one in planned.damaged],
        "size_bytes": planned.size_bytes,
    }
