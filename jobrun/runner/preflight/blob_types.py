"""Infer and check in the preflight the types of a job's blobs, with its data files' headers."""

from __future__ import annotations

import os
from pathlib import Path

from jobrun.compile.types.job_types import Types, infer_job_types
from jobrun.core.errors import Fault, JobrunError
from jobrun.core.lazy_dataclass import replace
from jobrun.graph.query import iter_steps
from jobrun.graph.steps import CallPython, RunProgram, Save
from jobrun.graph.types import Job
from jobrun.runner.identity.data_fingerprints import literal_path


def infer_header_types(job: Job, folder: Path) -> Types:
    """Infer in the preflight the types of a job's blobs, with the headers of files that exist.

    The header of a file that the job itself writes does not count. Where a program or a callable
    of the job may rewrite a file, errors become warnings.

    Args:
        job: The checked job.
        folder: The spec's folder, absolute.
    """
    steps = tuple(iter_steps(job))
    saves = [file for step in steps if isinstance(step, Save) for file in step.files]
    saved = {literal_path(file, folder) for file in saves}

    def header(path: str, member: str) -> tuple[str, tuple[int, ...]] | None:
        whole = Path(os.path.normpath(folder / path))
        return None if whole in saved else read_member_header(whole, member)

    types = infer_job_types(job, header)
    if any(isinstance(step, CallPython | RunProgram) for step in steps):
        faults = tuple(replace(fault, severity="warning") for fault in types.faults)
        types = replace(types, faults=faults)
    return types


def check_types(job: Job, types: Types) -> tuple[Fault, ...]:
    """Check in the preflight the types of blobs that show only in data files' headers.

    Args:
        job: The checked job.
        types: What ``infer_header_types`` found of it.
    """
    if not types.faults:
        return ()
    # The others were found when the job was compiled.
    known = set(infer_job_types(job).faults)
    return tuple(fault for fault in types.faults if fault not in known)


def read_member_header(path: Path, member: str) -> tuple[str, tuple[int, ...]] | None:
    """Read in the preflight dtype and shape in a data file, for blob types; None if unreadable."""
    try:
        # Of a job without data files, archives and tables are not imported.
        from jobrun.formats.headers import describe  # noqa: PLC0415

        info = describe(str(path), member)
    except (JobrunError, OSError, ValueError):
        # The step that reads it reports the error; here only its size is unknown.
        return None
    return (info.dtype, info.shape) if info.dtype else None
