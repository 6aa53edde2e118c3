"""Implement ``jobrun prove``: parse its options, show its progress, and print the verdict."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import render_json_document, shorten_path, span
from jobrun.cli.jobs.run_options import session_arguments, session_options
from jobrun.cli.options import (
    Command,
    json_option,
    option,
    override_texts,
    prepare,
    run_dir_option,
    value_options,
)
from jobrun.cli.terminal import Shell
from jobrun.core.errors import ProofError, UsageError
from jobrun.core.text.names import did_you_mean
from jobrun.core.text.terminal_text import align_cells
from jobrun.graph.query import checkpointed_blobs
from jobrun.graph.types import Job
from jobrun.tools.isolation.shared_files import folders_of
from jobrun.tools.prove.judge import Difference, Exclusions, last_writer
from jobrun.tools.prove.original_program import Original
from jobrun.tools.prove.proof import Proof, ProofRequest, prove
from jobrun.tools.prove.trials import Outcome

_MOST_NAMES = 6
_LIKELY = (
    "a frequent cause is state outside blobs, which no checkpoint contains: a module "
    "variable, a file, the time"
)
_LIKELY_IN_FILES = (
    "a frequent cause: a resume repeats the epochs after the newest saved one, and what these have "
    "written is still there; rows belong in a blob or a sink, and a result is saved in exit"
)
# Modules that every command of the proof would import again.
_PRELOAD = (
    "jobrun.cli.run_command",
    "jobrun.cli.jobs.run",
    "jobrun.cli.progress.lines",
    "jobrun.cli.progress.live",
)


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
    help="Number of copies of the run to kill.",
)
@option(
    "--epochs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Stop each copy after N epochs.",
)
@option(
    "--seed",
    # JOBRUN_SEED is set for the programs of steps.
    envvar="JOBRUN_PROVE_SEED",
    show_envvar=True,
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Seed for the places and times of the kills.",
)
@session_options
@option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Copies to run concurrently [default: one per processor].",
)
@option(
    "--against",
    metavar="COMMAND",
    help="Also run the program that the job was ported from, such as 'python original.py'.",
)
@option(
    "--artifact",
    "artifacts",
    multiple=True,
    metavar="FILE",
    help="A file that both that program and the job write; repeatable.",
)
@option(
    "--without",
    multiple=True,
    metavar="NAME",
    help="Exclude a blob, BLOB/PATH inside one, a file, or a pattern of these; repeatable.",
)
@option(
    "--keep",
    is_flag=True,
    help="Keep the copies and what they wrote; those of a failed proof are always kept.",
)
@option("-v", "--verbose", is_flag=True, help="Print the result of each copy.")
@json_option
@click.pass_obj
def command(
    shell: Shell,
    /,
    spec: str,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    **options: Any,
) -> int:
    r"""Kill copies of SPEC's run, resume them, and compare each bit with unbroken runs.

    Copies are killed with SIGKILL, half of them at the named steps of saving and recovering,
    half at random instants; in every third the resume is killed, too. Each runs in a copy of the
    folder of SPEC and of this directory, and can write nowhere else. With --against, each FILE that
    COMMAND writes in such a copy is compared with the job's. Ends with 8 when anything is lost or
    differs, or when too few copies were killed to show it. More: 'jobrun explain prove'.

    \b
    Examples:
      jobrun prove kmeans.yaml --kills 200 --seed 1 --json
      jobrun prove walk.yaml --against 'python original.py' --artifact w.npy
    """
    shell.texts |= override_texts(overrides)
    prepared = prepare(spec, values, overrides)
    print_faults(prepared.warnings_in(options["session"]), shell)
    job = prepared.job
    if not job.checkpoint.enabled:
        raise UsageError.of(
            "E419",
            "the job keeps no checkpoints, so there is nothing to prove",
            "remove 'checkpoint: none' from the spec",
        )
    request = ProofRequest(
        _words(spec, values, _every_epoch(job, overrides), options),
        job,
        Path(options["run_dir"]),
        folders_of(spec),
        Path.cwd(),
        options["kills"],
        options["seed"],
        options["jobs"] or os.cpu_count() or 1,
        options["keep"],
        preload=_PRELOAD,
        exclusions=_exclusions(job, options["without"]),
        original=_original(spec, job, options),
        epochs=options["epochs"],
    )
    counter = _CopyCounter(shell, options["kills"], verbose=options["verbose"])
    proof = prove(request, counter.listen)
    counter.end()
    if options["as_json"]:
        shell.print_text(render_json_document("proof", _as_values(proof, request)))
    else:
        shell.print(*_text(proof, request))
    return 0 if proof.holds else ProofError.exit_code


def _exclusions(job: Job, names: tuple[str, ...]) -> Exclusions:
    """Check the names of ``--without``, as far as they are known before ``jobrun prove`` runs.

    Which paths there are inside a blob, and which files, is known when the job has run.
    """
    state = checkpointed_blobs(job)
    known = {name for blobs in state.values() for name in blobs}
    known |= {f"{node}.{name}" for node, blobs in state.items() for name in blobs}
    for name in names:
        if name not in known and re.fullmatch(r"\w+", name):
            raise UsageError.of(
                "E404",
                f"--without {name}: the job has no such state blob",
                did_you_mean(name, sorted(known)),
            )
    return Exclusions(names)


def _original(spec: str, job: Job, options: dict[str, Any]) -> Original | None:
    if bool(options["against"]) != bool(options["artifacts"]):
        raise UsageError.of(
            "E404",
            "--against and --artifact belong together",
            "--against 'python original.py' --artifact FILE, a file that both write",
        )
    if not options["against"]:
        return None
    folder = Path(spec).parent.resolve()
    return Original(options["against"], options["artifacts"], Path.cwd(), folder, job.blas_threads)


def _every_epoch(job: Job, overrides: tuple[str, ...]) -> tuple[str, ...]:
    """Add ``checkpoint.every=1ep`` to overrides for ``jobrun prove`` if the spec says ``auto``.

    Which epochs ``every: auto`` saves depends on how busy the machine is.
    """
    return (*overrides, "checkpoint.every=1ep") if job.checkpoint.is_automatic else overrides


def _words(
    spec: str, values: tuple[str, ...], overrides: tuple[str, ...], options: dict[str, Any]
) -> tuple[str, ...]:
    words = ["run", spec, "--resume", "auto", "--quiet", *session_arguments(options)]
    words += [word for path in values for word in ("--values", path)]
    words += [word for text in overrides for word in ("--set", text)]
    if options["epochs"]:
        words += ["--epochs", str(options["epochs"])]
    return tuple(words)


class _CopyCounter:
    """Prints how many copies of ``jobrun prove`` are done: a redrawn counter, or lines."""

    def __init__(self, shell: Shell, count: int, *, verbose: bool) -> None:
        self._shell = shell
        self._count = count
        self._verbose = verbose
        self._done = 0
        self._live = shell.live and not verbose

    def listen(self, outcome: Outcome) -> None:
        """Print that ``jobrun prove`` has tested one more copy of the run. Thread-safe."""
        self._done += 1
        if self._live:
            click.echo(f"\r{self._done} of {self._count} copies", nl=False, err=True)
        elif self._verbose:
            self._shell.say(f"copy {outcome.trial.number}: {outcome.trial}: {_verdict(outcome)}")

    def end(self) -> None:
        """Erase the counter of tested copies that ``jobrun prove`` shows on the terminal."""
        if self._live:
            click.echo("\r\x1b[K", nl=False, err=True)


def _verdict(outcome: Outcome) -> str:
    if outcome.lost:
        return f"LOST: {outcome.lost}"
    if outcome.failure:
        return f"FAILED: {outcome.failure}"
    if outcome.difference:
        return f"DIFFERENT: {_where(outcome.difference)}"
    if not outcome.landed[0]:
        return "it had finished before the kill and does not count"
    return f"the same bits{f', from epoch {outcome.loaded} on' if outcome.loaded else ''}"


def _where(difference: Difference) -> str:
    parts = []
    if difference.blob:
        element = f"[{', '.join(map(str, difference.element))}]" if difference.element else ""
        parts.append(f"{difference.node}.{difference.blob}{element}")
    if difference.epoch >= 0:
        parts.append(f"after epoch {difference.epoch}")
    return f"{' '.join(parts)}: {difference.words}" if parts else difference.words


def _text(proof: Proof, request: ProofRequest) -> list[str]:
    lines = _table(proof)
    if proof.ignored:
        ignored = ", ".join(proof.ignored)
        lines += ["", f"not compared, because they differ between uninterrupted runs: {ignored}"]
    if proof.unsteady is not None:
        lines = [
            "two uninterrupted runs differ, so resumed runs cannot be compared with them",
            f"  {_where(proof.unsteady)}",
            *_advice(proof.unsteady, request),
        ]
    for outcome in proof.bad:
        lines += ["", f"copy {outcome.trial.number}, killed at {outcome.trial}"]
        lines += [f"  {_verdict(outcome)}"]
        if outcome.difference:
            lines += _advice(outcome.difference, request)
        lines += [f"  its files: {shorten_path(str(outcome.folder))}"]
    for pattern, names in proof.excluded.items():
        lines += ["", f"left out by --without {pattern}: {_listed(names)}"]
    if request.original:
        lines += ["", *_likeness(proof, request)]
    lines += ["", *_scope(proof)]
    if request.keep:
        lines += ["", f"kept: {shorten_path(str(proof.folder))}"]
    return [*lines, "", _sum(proof, request)]


def _scope(proof: Proof) -> list[str]:
    """List what ``jobrun prove`` has compared, and what it could not see."""
    files = _listed(proof.compared) if proof.compared else "none is written"
    compared = f"the blobs of all kept epochs, metrics, and files ({files})"
    unseen = ["what the job does over a network"]
    if proof.outside:
        tense = "may not write" if proof.enforced else "wrote (nothing here can prevent it)"
        unseen.append(f"files elsewhere, which the copies {tense}: {_listed(proof.outside)}")
    if not proof.enforced:
        unseen.append("what other programs and libraries in C write elsewhere")
    return [
        f"compared: {compared}" if proof.exact else "compared: nothing; the job is not exact",
        f"not seen: {'; '.join(unseen)}",
    ]


def _listed(names: Sequence[object]) -> str:
    shown = [*map(str, names[:_MOST_NAMES])]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _likeness(proof: Proof, request: ProofRequest) -> list[str]:
    assert request.original is not None  # noqa: S101 - the caller has asked
    after = f"; the job ran {request.epochs} epochs (--epochs)" if request.epochs else ""
    same = f"the same as that of '{request.original.command}'"
    return [f"{name}: {words or same}{after}" for name, words in proof.unlike.items()]


def _advice(difference: Difference, request: ProofRequest) -> list[str]:
    if difference.is_in_files:
        return [f"  {_LIKELY_IN_FILES}"]
    step = last_writer(request.job, difference.node, difference.blob) if difference.blob else ""
    last = [f"  the last step of an epoch that writes it: {step}"] if step else []
    return [*last, f"  {_LIKELY}"]


def _table(proof: Proof) -> list[str]:
    killed, landed, good = Counter[str](), Counter[str](), Counter[str]()
    for outcome in proof.outcomes:
        for kill, hit in zip(outcome.trial.kills, outcome.landed, strict=True):
            killed[kill.label] += 1
            landed[kill.label] += hit
            good[kill.label] += hit and outcome.good
    rows = [
        ("killed", " kills", "landed", "  good"),
        *(
            (label, *(str(counter[label]) for counter in (killed, landed, good)))
            for label in sorted(killed)
        ),
    ]
    return ["  ".join(row) for row in align_cells(rows, range(1, 4))]


def _sum(proof: Proof, request: ProofRequest) -> str:
    took = span(proof.reference.course.seconds)
    if proof.unsteady is not None:
        return "not proven"
    if proof.changed:
        return (
            f"NOT PROVEN: files of the job changed meanwhile: {_listed(proof.changed)}; no copy of "
            "the run is to change them, and all need the same ones"
        )
    count = len(proof.outcomes)
    if proof.bad:
        return f"NOT PROVEN: {len(proof.bad)} of {count} copies failed"
    counted = (
        f"{proof.landed} of {count} copies were killed before they finished, and "
        f"{proof.loaded} of them continued from a saved epoch"
    )
    unlike = [name for name, words in proof.unlike.items() if words]
    if unlike:
        return f"NOT PROVEN: the original program writes a different {', '.join(unlike)}"
    if not proof.is_shown:
        more = f"--kills {2 * count}"
        return (
            f"not shown: {counted}; too few; the uninterrupted run takes only {took}. Run "
            f"more epochs (--epochs), make epochs longer, or kill more ({more})"
        )
    ending = (
        "ended with the blobs, metrics and files of an uninterrupted run, bit for bit"
        if proof.exact
        else ("ended normally; the job is not exact, so bits were not compared")
    )
    missed = count - proof.landed
    late = f"; {missed} had finished before the kill and do not count" if missed else ""
    after = f" after {request.epochs} epochs (--epochs)" if request.epochs else ""
    same = f"; it writes{after} what the original program writes" if proof.unlike else ""
    return f"proven: {counted}; each {ending}{late}{same}"


def _as_values(proof: Proof, request: ProofRequest) -> dict[str, Any]:
    return {
        "proven": proof.holds,
        "exact": proof.exact,
        "seed": request.seed,
        "unbroken_s": round(proof.reference.course.seconds, 3),
        "reached": dict(proof.reference.course.reached),
        "unsteady": _difference(proof.unsteady, request),
        "not_compared": list(proof.ignored),
        "without": {pattern: [*names] for pattern, names in proof.excluded.items()},
        "compared_files": list(proof.compared),
        "outside_files": [str(path) for path in proof.outside],
        "changed_files": [str(path) for path in proof.changed],
        "confined": proof.enforced,
        "epochs": request.epochs,
        "kept_in": str(proof.folder) if request.keep else None,
        "unlike_original": {name: words for name, words in proof.unlike.items() if words},
        "landed": proof.landed,
        "loaded": proof.loaded,
        "shown": proof.is_shown,
        "copies": [
            {
                "number": outcome.trial.number,
                "kills": [
                    {"at": str(kill), "landed": hit}
                    for kill, hit in zip(outcome.trial.kills, outcome.landed, strict=True)
                ],
                "good": outcome.good,
                "loaded_epoch": outcome.loaded,
                "lost": outcome.lost,
                "failure": outcome.failure,
                "difference": _difference(outcome.difference, request),
            }
            for outcome in proof.outcomes
        ],
    }


def _difference(difference: Difference | None, request: ProofRequest) -> dict[str, Any] | None:
    if difference is None:
        return None
    step = last_writer(request.job, difference.node, difference.blob) if difference.blob else ""
    return {
        "what": difference.words,
        "epoch": difference.epoch,
        "node": difference.node,
        "blob": difference.blob,
        "element": list(difference.element),
        "step": step,
    }
