"""Implement ``jobrun plan``: show what a run would do, without executing anything."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import render_json, span, wrap_line
from jobrun.cli.options import (
    Command,
    json_option,
    override_texts,
    prepare,
    run_dir_option,
    value_options,
)
from jobrun.cli.terminal import Shell
from jobrun.compile.plan_document import plan_json
from jobrun.compile.plan_text import LABEL_COLUMNS, plan_text
from jobrun.core.errors import Fault, SpecError, errors_only
from jobrun.graph.query import has_callables
from jobrun.graph.types import Job
from jobrun.runner.preflight.blob_types import infer_header_types
from jobrun.runner.saving.time_budget import measure_loss_bound

# Of the newest run of a job, below its folder.
_EVENTS = Path("latest", "events.jsonl")


@click.command("plan", cls=Command)
@click.argument("spec", type=SPEC, metavar="SPEC")
@value_options
@json_option
@run_dir_option
@click.pass_obj
def command(
    shell: Shell,
    spec: str,
    values: tuple[str, ...],
    overrides: tuple[str, ...],
    as_json: bool,
    run_dir: str,
) -> int:
    r"""Show the plan of SPEC: its state, saves, stop and exactness; then its tasks in order.

    How much work a kill loses at most is estimated by the job's newest run, if any.

    \b
    Examples:
      jobrun plan kmeans.yaml
      jobrun plan kmeans.yaml --set params.k=12 --json
    """
    shell.texts |= override_texts(overrides)
    prepared = prepare(spec, values, overrides)
    print_faults(prepared.warnings, shell)
    job, folder = prepared.job, Path(prepared.authored.folder)
    types = infer_header_types(job, folder, prepared.compiled.types)
    calls = _call_faults(job, folder) if has_callables(job) else []
    faults = [fault for fault in types.faults if fault not in prepared.warnings]
    print_faults([*faults, *calls], shell)
    bound_s = measure_loss_bound(Path(run_dir, job.name) / _EVENTS, job.checkpoint)
    if as_json:
        document = plan_json(job, types.owned, types.made)
        shell.print_text(render_json({**document, "loss_bound_s": bound_s}))
    else:
        bound = ""
        if bound_s is not None:
            bound = f"by its newest run, a kill loses at most {span(bound_s)} of work"
        text = plan_text(job, types.owned, types.made, bound).rstrip("\n")
        shell.print(*_wrapped(text, shell.result_width))
    return SpecError.exit_code if errors_only((*types.faults, *calls)) else 0


def _call_faults(job: Job, folder: Path) -> list[Fault]:
    from jobrun.runner.preflight.callable_signatures import check_callables  # noqa: PLC0415 - of few jobs
    from jobrun.runner.preflight.checks import SPEC_CODES  # noqa: PLC0415 - of few jobs

    return list(
        dict.fromkeys(one for one in check_callables(job, folder) if one.code in SPEC_CODES)
    )


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap the long lines that ``jobrun plan`` prints, and indent their continuation lines."""
    lines: list[str] = []
    for line in text.splitlines():
        beginning = len(line) - len(line.lstrip())
        is_row = LABEL_COLUMNS > beginning == 0 and line[LABEL_COLUMNS - 1 : LABEL_COLUMNS] == " "
        below = LABEL_COLUMNS if is_row or beginning >= LABEL_COLUMNS else beginning + 4
        lines += wrap_line(line, width, below)
    return lines
