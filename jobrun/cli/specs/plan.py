"""Implement ``jobrun plan``: show what a run would do, without executing anything."""

from __future__ import annotations

from pathlib import Path

import click

from jobrun.cli.completion_candidates import SPEC
from jobrun.cli.error_output import print_faults
from jobrun.cli.formatting import render_json, size, span, wrap_line
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
from jobrun.graph.steps import STATE_DIRS
from jobrun.graph.types import Job
from jobrun.runner.preflight.blob_types import infer_header_types
from jobrun.runner.saving.time_budget import measure_loss_bound

# Events of a job's newest run, relative to the job's folder.
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
    directories = _stored_directories(job, Path(run_dir))
    if as_json:
        document = plan_json(job, types.owned, types.task_blobs)
        document |= {"loss_bound_s": bound_s, "state_dir_bytes": directories}
        shell.print_text(render_json(document))
    else:
        bound = ""
        if bound_s is not None:
            bound = f"by its newest run, a kill loses at most {span(bound_s)} of work"
        measured = [
            f"by its newest run, a save stores {size(count)} of the state_dir {name}"
            if count is not None
            else f"each save stores the state_dir {name}; its first save says how much that is"
            for name, count in directories.items()
        ]
        text = plan_text(job, types.owned, types.task_blobs, bound, measured).rstrip("\n")
        shell.print(*_wrapped(text, shell.result_width))
    return SpecError.exit_code if errors_only((*types.faults, *calls)) else 0


def _call_faults(job: Job, folder: Path) -> list[Fault]:
    from jobrun.runner.preflight.callable_signatures import check_callables  # noqa: PLC0415 - of few jobs
    from jobrun.runner.preflight.checks import SPEC_CODES  # noqa: PLC0415 - of few jobs

    return list(
        dict.fromkeys(fault for fault in check_callables(job, folder) if fault.code in SPEC_CODES)
    )


def _stored_directories(job: Job, run_dir: Path) -> dict[str, int | None]:
    """Return how much the newest run's save stores of each ``state_dir``; None if unknown."""
    names = [
        f"{node}.{name.removeprefix(STATE_DIRS)}"
        for node, blobs in job.state
        for name in blobs
        if name.startswith(STATE_DIRS)
    ]
    if not names:
        return {}
    from jobrun.tools.inspection import measure_state_directories  # noqa: PLC0415 - of few jobs

    measured = measure_state_directories(run_dir, job.name)
    return {name: measured.get(name) for name in names}


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap the long lines that ``jobrun plan`` prints, and indent their continuation lines."""
    lines: list[str] = []
    for line in text.splitlines():
        beginning = len(line) - len(line.lstrip())
        is_row = LABEL_COLUMNS > beginning == 0 and line[LABEL_COLUMNS - 1 : LABEL_COLUMNS] == " "
        below = LABEL_COLUMNS if is_row or beginning >= LABEL_COLUMNS else beginning + 4
        lines += wrap_line(line, width, below)
    return lines
