"""Infer and check the types of a job's blobs with the headers of its data files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from jobrun.compile.types.job_types import Types, infer_job_types
from jobrun.core.errors import Fault
from jobrun.graph.step_traversal import iter_steps
from jobrun.graph.steps import CallPython, RunProgram, Save
from jobrun.graph.types import Job
from jobrun.runner.identity.data_fingerprints import literal_path
from jobrun.runner.preflight.memory import read_member_header


def infer_header_types(job: Job, folder: Path) -> Types:
    """Infer the types of a job's blobs from the headers of the data files that exist.

    The header of a file that the job itself writes does not count. Where a program or a callable
    of the job may rewrite a file, errors become warnings.

    Args:
        job: The checked job.
        folder: The spec's folder, absolute.
    """
    return _infer(job, folder)[0]


def _infer(job: Job, folder: Path) -> tuple[Types, bool]:
    """Infer blob types with data files' headers; return them, and whether any was used."""
    steps = tuple(iter_steps(job))
    saves = [file for step in steps if isinstance(step, Save) for file in step.files]
    saved = {literal_path(file, folder) for file in saves}

    def header(path: str, member: str) -> tuple[str, tuple[int, ...]] | None:
        whole = Path(os.path.normpath(folder / path))
        found = None if whole in saved else read_member_header(whole, member)
        headers.append(found)
        return found

    headers: list[tuple[str, tuple[int, ...]] | None] = []
    types = infer_job_types(job, header)
    if any(isinstance(step, CallPython | RunProgram) for step in steps):
        faults = tuple(replace(fault, severity="warning") for fault in types.faults)
        types = replace(types, faults=faults)
    return types, any(headers)


def check_types(job: Job, folder: Path) -> tuple[Fault, ...]:
    """Check the types of a job's blobs that show only in the headers of data files."""
    types, has_headers = _infer(job, folder)
    if not has_headers or not types.faults:
        # These faults were found when the job was compiled.
        return ()
    known = set(infer_job_types(job).faults)
    return tuple(fault for fault in types.faults if fault not in known)
