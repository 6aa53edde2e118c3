"""Infer in the preflight the types of a job's blobs, and check them and the memory they need.

The headers of data files that exist count, too.
"""

from __future__ import annotations

import os
from pathlib import Path

from msgspec.structs import replace

from jobrun.compile.types.job_types import Types, infer_job_types
from jobrun.core.errors import Fault, JobrunError
from jobrun.core.text.units import size
from jobrun.graph.query import iter_steps
from jobrun.graph.steps import CallPython, Load, RunProgram, Save
from jobrun.graph.types import Job
from jobrun.runner.identity.data_fingerprints import literal_path


def infer_header_types(job: Job, folder: Path, compiled: Types | None = None) -> Types:
    """Infer in the preflight the types of a job's blobs, with the headers of files that exist.

    The header of a file that the job itself writes does not count. Where a program or a callable
    of the job may rewrite a file, errors become warnings.

    Args:
        job: The checked job.
        folder: The spec's folder, absolute.
        compiled: The types that the compiler inferred, which are those of a job that loads no file.
    """
    steps = tuple(iter_steps(job))
    if compiled is not None and not any(isinstance(step, Load) for step in steps):
        return compiled
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


def check_types(job: Job, types: Types, compiled: Types | None = None) -> tuple[Fault, ...]:
    """Check in the preflight the types of blobs that show only in data files' headers.

    Args:
        job: The checked job.
        types: What ``infer_header_types`` found of it.
        compiled: The types that the compiler inferred; their faults are reported already.
    """
    if not types.faults:
        return ()
    known = set((compiled or infer_job_types(job)).faults)
    return tuple(fault for fault in types.faults if fault not in known)


def read_member_header(path: Path, member: str) -> tuple[str, tuple[int, ...]] | None:
    """Read dtype and shape of a blob from a data file in the preflight; None if unreadable."""
    try:
        # Lazy: a job without data files does not import the readers of archives and tables.
        from jobrun.formats.headers import describe  # noqa: PLC0415

        info = describe(str(path), member)
    except (JobrunError, OSError, ValueError):
        # The step that reads it reports the error; here only its size is unknown.
        return None
    return (info.dtype, info.shape) if info.dtype else None


def check_memory(types: Types, available_bytes: int | None = None) -> tuple[Fault, ...]:
    """Return a fault if all nodes' state, as far as its size is known, exceeds the memory.

    Args:
        types: The types of the job's blobs; its nodes share this machine.
        available_bytes: The machine's memory, if not to be asked for.
    """
    sizes = {blob: known.size_bytes or 0 for blob, known in types.owned.items()}
    needed_bytes = sum(sizes.values())
    limit_bytes = _memory_bytes() if available_bytes is None else available_bytes
    if needed_bytes <= limit_bytes:
        return ()
    node, name = max(sizes, key=lambda blob: sizes[blob])
    message = (
        f"the state needs {size(needed_bytes)}, and this machine has "
        f"{size(limit_bytes)} of memory; '{name}' on {node} alone needs "
        f"{size(sizes[node, name])}"
    )
    mend = "make it smaller, or spread it over nodes on other machines; 'jobrun plan' shows sizes"
    return (Fault("E377", message, mend, path="init"),)


def estimate_state_bytes(job: Job, folder: Path) -> int:
    """Estimate how many bytes of memory the state will need, as far as sizes are known.

    Args:
        job: The job.
        folder: The spec's folder, where data files are looked at.
    """
    shapes = infer_header_types(job, folder).owned
    saved = {(node, name) for node, names in job.state for name in names}
    return sum(known.size_bytes or 0 for blob, known in shapes.items() if blob in saved)


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
