"""``jobrun prove``: shows on the user's own spec that a kill costs nothing."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import click

from jobrun.cli.completing import SPEC
from jobrun.cli.execution import session_options, session_words
from jobrun.cli.faults import show
from jobrun.cli.loading import option_texts, prepare
from jobrun.cli.options import Command, json_option, option, run_dir_option, value_options
from jobrun.cli.output import document, short_path, span
from jobrun.cli.shell import Shell
from jobrun.core.errors import ProofError, UsageError
from jobrun.tools.proving.judge import Difference
from jobrun.tools.proving.prove import Demand, Proof, last_writer, prove
from jobrun.tools.proving.trials import Outcome

_LIKELY = (
    "what is kept outside of blobs (a module's variable, a file, the time) is in no checkpoint"
)
# What every command line of the proof would import anew.
_PRELOAD = ("jobrun.cli.invoke", "jobrun.cli.run", "jobrun.cli.plain", "jobrun.cli.live")


@click.command("prove", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@run_dir_option
@option(
    "--kills",
    type=click.IntRange(min=1),
    default=20,
    show_default=True,
    metavar="N",
    help="How many copies of the run are killed.",
)
@option(
    "--epochs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop each copy when N epochs have run.",
)
@option(
    "--seed",
    # JOBRUN_SEED is what a step's program is told.
    envvar="JOBRUN_PROVE_SEED",
    show_envvar=True,
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Another seed kills at other places and instants.",
)
@session_options
@option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="How many copies run at the same time; one per processor if not given.",
)
@option("--keep", is_flag=True, help="Keep the runs of the proof; of a failed one they are kept.")
@option("-v", "--verbose", is_flag=True, help="Say how each copy went.")
@json_option
@click.pass_obj
def command(
    shell: Shell,
    /,
    spec: str,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    **given: Any,
) -> int:
    r"""Kill copies of SPEC's run, resume them, and compare each bit with unbroken runs.

    Copies are killed with SIGKILL, half of them at the named steps of saving and recovering,
    half at random instants; in every third the resume is killed, too. Ends with 8 when
    anything is lost or differs.

    \b
    Examples:
      jobrun prove kmeans.yaml --epochs 5
      jobrun prove kmeans.yaml --kills 200 --seed 1 --json
    """
    shell.texts |= option_texts(overrides)
    prepared = prepare(spec, values, overrides)
    show(prepared.warnings, shell)
    job = prepared.job
    if not job.checkpoint.enabled:
        raise UsageError.of(
            "E419", "the job keeps no checkpoints, so there is nothing to prove",
            "take 'checkpoint: none' out of the spec",
        )  # fmt: skip
    demand = Demand(
        _words(spec, values, overrides, given), job, Path(given["run_dir"]), given["kills"],
        given["seed"], given["jobs"] or os.cpu_count() or 1, given["keep"], preload=_PRELOAD,
    )  # fmt: skip
    teller = _Teller(shell, given["kills"], verbose=given["verbose"])
    proof = prove(demand, teller.tell)
    teller.end()
    if given["as_json"]:
        shell.print(document("proof", _as_values(proof, demand)))
    else:
        shell.print("\n".join(_text(proof, demand)))
    return 0 if proof.holds else ProofError.exit_code


def _words(
    spec: str, values: tuple[str, ...], overrides: tuple[str, ...], given: dict[str, Any]
) -> tuple[str, ...]:
    words = ["run", spec, "--resume", "auto", "--quiet", *session_words(given)]
    words += [word for path in values for word in ("--values", path)]
    words += [word for text in overrides for word in ("--set", text)]
    if given["epochs"]:
        words += ["--epochs", str(given["epochs"])]
    return tuple(words)


class _Teller:
    """Says how far the proof is: a count that redraws itself, or a line per copy."""

    def __init__(self, shell: Shell, count: int, *, verbose: bool) -> None:
        self._shell = shell
        self._count = count
        self._verbose = verbose
        self._done = 0
        self._live = shell.live and not verbose

    def tell(self, outcome: Outcome) -> None:
        """A copy is done. From any thread."""
        self._done += 1
        if self._live:
            click.echo(f"\r{self._done} of {self._count} copies", nl=False, err=True)
        elif self._verbose:
            self._shell.say(f"copy {outcome.trial.number}: {outcome.trial}: {_verdict(outcome)}")

    def end(self) -> None:
        """Take the count away."""
        if self._live:
            click.echo("\r\x1b[K", nl=False, err=True)


def _verdict(outcome: Outcome) -> str:
    if outcome.lost:
        return f"LOST: {outcome.lost}"
    if outcome.failure:
        return f"FAILED: {outcome.failure}"
    if outcome.difference:
        return f"DIFFERENT: {_where(outcome.difference)}"
    return "the same bits" if outcome.landed[0] else "the kill came too late"


def _where(found: Difference) -> str:
    parts = []
    if found.blob:
        element = f"[{', '.join(map(str, found.element))}]" if found.element else ""
        parts.append(f"{found.node}.{found.blob}{element}")
    if found.epoch >= 0:
        parts.append(f"after epoch {found.epoch}")
    return f"{' '.join(parts)}: {found.what}" if parts else found.what


def _text(proof: Proof, demand: Demand) -> list[str]:
    lines = _table(proof)
    if proof.ignored:
        names = ", ".join(proof.ignored)
        lines += ["", f"not compared, for they differ between unbroken runs: {names}"]
    if proof.unsteady is not None:
        lines = [
            "two unbroken runs differ, so no resumed one can be compared with them",
            f"  {_where(proof.unsteady)}",
            *_advice(proof.unsteady, demand),
        ]
    for outcome in proof.bad:
        lines += ["", f"copy {outcome.trial.number}, killed at {outcome.trial}"]
        lines += [f"  {_verdict(outcome)}"]
        if outcome.difference:
            lines += _advice(outcome.difference, demand)
        lines += [f"  its files: {short_path(str(outcome.folder))}"]
    return [*lines, "", _sum(proof)]


def _advice(found: Difference, demand: Demand) -> list[str]:
    step = last_writer(demand.job, found.node, found.blob) if found.blob else ""
    last = [f"  the last step of an epoch that writes it: {step}"] if step else []
    return [*last, f"  {_LIKELY}"]


def _table(proof: Proof) -> list[str]:
    killed, landed, good = Counter[str](), Counter[str](), Counter[str]()
    for outcome in proof.outcomes:
        for kill, hit in zip(outcome.trial.kills, outcome.landed, strict=True):
            killed[kill.place] += 1
            landed[kill.place] += hit
            good[kill.place] += hit and outcome.good
    width = max([len(place) for place in killed] + [len("killed")])
    head = f"{'killed':<{width}}  {'kills':>6}  {'landed':>6}  {'good':>6}"
    return [
        head,
        *(
            f"{place:<{width}}  {killed[place]:>6}  {landed[place]:>6}  {good[place]:>6}"
            for place in sorted(killed)
        ),
    ]


def _sum(proof: Proof) -> str:
    took = span(proof.reference.course.seconds)
    if proof.unsteady is not None:
        return "not proven"
    count = len(proof.outcomes)
    if proof.bad:
        return f"NOT PROVEN: {len(proof.bad)} of {count} copies went wrong"
    if not proof.landed:
        return f"not proven: no kill landed; the run takes only {took}"
    what = "ended with the bits of an unbroken run" if proof.exact else (
        "ended as it should; the job is not exact, so bits were not compared"
    )  # fmt: skip
    missed = count - proof.landed
    late = f"; {missed} came too late and prove nothing" if missed else ""
    return f"proven: of {count} copies {proof.landed} were killed, each {what}{late}"


def _as_values(proof: Proof, demand: Demand) -> dict[str, Any]:
    return {
        "proven": proof.holds,
        "exact": proof.exact,
        "seed": demand.seed,
        "unbroken_s": round(proof.reference.course.seconds, 3),
        "reached": dict(proof.reference.course.reached),
        "unsteady": _difference(proof.unsteady, demand),
        "not_compared": list(proof.ignored),
        "landed": proof.landed,
        "copies": [
            {
                "number": outcome.trial.number,
                "kills": [
                    {"at": str(kill), "landed": hit}
                    for kill, hit in zip(outcome.trial.kills, outcome.landed, strict=True)
                ],
                "good": outcome.good,
                "lost": outcome.lost,
                "failure": outcome.failure,
                "difference": _difference(outcome.difference, demand),
            }
            for outcome in proof.outcomes
        ],
    }


def _difference(found: Difference | None, demand: Demand) -> dict[str, Any] | None:
    if found is None:
        return None
    step = last_writer(demand.job, found.node, found.blob) if found.blob else ""
    return {
        "what": found.what,
        "epoch": found.epoch,
        "node": found.node,
        "blob": found.blob,
        "element": list(found.element),
        "step": step,
    }
