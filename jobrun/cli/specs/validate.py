"""Implement ``jobrun validate``: check that specs are valid and compile."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import click
from msgspec import Struct
from msgspec.structs import replace

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.options import (
    Command,
    OneOf,
    choose_form,
    json_option,
    option,
    override_texts,
    prepare,
    value_options,
)
from jobrun.cli.terminal import Shell
from jobrun.core.errors import Fault, SpecError, errors_only
from jobrun.graph.query import find_objects
from jobrun.graph.types import Job
from jobrun.runner.preflight.checks import SPEC_CODES, preflight


class Verdict(Struct, frozen=True):
    """What was found of one spec.

    Attributes:
        summary: What the job is, for a spec without errors.
        exact: None where the spec does not compile.
    """

    spec: str
    faults: tuple[Fault, ...]
    summary: str = ""
    exact: bool | None = None


@click.command("validate", cls=Command)
@click.argument("specs", type=SPEC, metavar="SPEC...", nargs=-1, required=True)
@value_options
@option(
    "--format",
    "output_format",
    type=OneOf(["text", "json", "github"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@json_option
@option("--strict", is_flag=True, help="Fail on warnings too.")
@option(
    "--imports", is_flag=True, help="Also import the Python callables (executes their modules)."
)
@click.pass_obj
def command(
    shell: Shell,
    specs: tuple[str, ...],
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    output_format: str,
    as_json: bool,
    strict: bool,
    imports: bool,
) -> int:
    r"""Check that specs are valid: syntax, names, shapes, races. Nothing is executed.

    Exit code 0 when all are valid, 3 when one is not.

    \b
    Examples:
      jobrun validate kmeans.yaml
      jobrun validate specs/*.yaml --strict --format github
    """
    shell.texts |= override_texts(overrides)
    verdicts = [_judged(spec, values, overrides, imports) for spec in specs]
    _REPORTS[choose_form(output_format, as_json=as_json)](verdicts, shell)
    bad = [
        verdict
        for verdict in verdicts
        if errors_only(verdict.faults) or (strict and verdict.faults)
    ]
    return SpecError.exit_code if bad else 0


def _judged(spec: str, values: Sequence[str], overrides: Sequence[str], imports: bool) -> Verdict:
    try:
        prepared = prepare(spec, values, overrides)
    except SpecError as error:
        return Verdict(spec, error.faults)
    job = prepared.job
    folder = Path(prepared.authored.folder)
    missing_faults = preflight(job, folder, imports=imports, compiled=prepared.compiled.types)
    # A thing missing on this machine is no fault of the spec; a contradiction is one.
    missing = tuple(
        fault if fault.code in SPEC_CODES else replace(fault, severity="warning")
        for fault in missing_faults
    )
    return Verdict(spec, (*prepared.warnings, *missing), _summary(job), job.exactness.exact)


def _summary(job: Job) -> str:
    state = sorted({name for _, names in (*job.state, *find_objects(job)) for name in names})
    shown = ", ".join(state[:6]) + (", …" if len(state) > 6 else "")
    parts = [
        "exact" if job.exactness.exact else "not exact",
        _count(len(job.cluster.nodes), "node"),
        _count(len({task.name for group in job.groups for task in group.tasks}), "task"),
        f"state {shown}" if state else "no state",
    ]
    return "; ".join(parts)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _as_text(verdicts: Sequence[Verdict], shell: Shell) -> None:
    for verdict in verdicts:
        if verdict.faults:
            from jobrun.cli.error_output import print_faults  # noqa: PLC0415 - of faults only

            print_faults(verdict.faults, shell)
        if not errors_only(verdict.faults):
            shell.print(f"{verdict.spec}: ok ({verdict.summary})")


def _as_json(verdicts: Sequence[Verdict], shell: Shell) -> None:
    from jobrun.cli.formatting import render_json_document  # noqa: PLC0415 - of this format only
    from jobrun.core.text.fault_text import as_json  # noqa: PLC0415

    specs = [
        {
            "spec": verdict.spec,
            "ok": not errors_only(verdict.faults),
            "exact": verdict.exact,
            "faults": as_json(verdict.faults)["faults"],
        }
        for verdict in verdicts
    ]
    shell.print_text(render_json_document("validate", {"specs": specs}))


def _as_github(verdicts: Sequence[Verdict], shell: Shell) -> None:
    from jobrun.core.text.fault_text import render_github  # noqa: PLC0415 - of this format only

    for verdict in verdicts:
        for fault in verdict.faults:
            shell.print(render_github(fault))


_REPORTS: dict[str, Callable[[Sequence[Verdict], Shell], None]] = {
    "text": _as_text,
    "json": _as_json,
    "github": _as_github,
}
