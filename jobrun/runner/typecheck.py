"""What data files' headers add to what is known of a job's blobs. Reads headers, runs nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from jobrun.compile.shapes import Types, job_types
from jobrun.core.errors import Fault, SpecError, errors_only
from jobrun.graph.steps import CallPython, RunProgram, Save
from jobrun.graph.types import Job
from jobrun.runner.fingerprints import literal_path
from jobrun.runner.memory import member_header
from jobrun.runner.parts import steps_of

# What the rules of operators find; a fault of the spec, wherever it is found.
TYPE_CODES = frozenset({"E290", "E291", "E292", "E294"})


def header_types(job: Job, folder: Path) -> Types:
    """What is known of the blobs of a job, with the data files that are there.

    A file that the job itself writes tells nothing of what it will hold. One that a program
    or a callable of the job may write anew makes warnings of errors.

    Args:
        job: The checked job.
        folder: The spec's folder, absolute.
    """
    steps = tuple(steps_of(job))
    saves = [file for step in steps if isinstance(step, Save) for file in step.files]
    saved = {literal_path(file, folder) for file in saves}

    def header(path: str, member: str) -> tuple[str, tuple[int, ...]] | None:
        whole = Path(os.path.normpath(folder / path))
        return None if whole in saved else member_header(whole, member)

    types = job_types(job, header)
    if any(isinstance(step, CallPython | RunProgram) for step in steps):
        faults = tuple(replace(fault, severity="warning") for fault in types.faults)
        return replace(types, faults=faults)
    return types


def type_faults(job: Job, folder: Path) -> tuple[Fault, ...]:
    """What cannot be computed with the data files that are there, beside what compiling told."""
    told = set(job_types(job).faults)
    return tuple(fault for fault in header_types(job, folder).faults if fault not in told)


def refuse_types(faults: tuple[Fault, ...]) -> None:
    """Raise the errors of types among some faults, if there are any.

    Raises:
        SpecError: There are.
    """
    errors = tuple(fault for fault in errors_only(faults) if fault.code in TYPE_CODES)
    if errors:
        raise SpecError(*errors)
