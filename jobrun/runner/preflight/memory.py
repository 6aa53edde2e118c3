"""Check whether a job's state, as far as its size is known, fits into memory."""

from __future__ import annotations

import os
from pathlib import Path

from jobrun.compile.types.job_types import infer_state_types
from jobrun.core.errors import Fault, JobrunError
from jobrun.core.text.units import size
from jobrun.graph.types import Job


def check_memory(job: Job, folder: Path, available_bytes: int | None = None) -> tuple[Fault, ...]:
    """Return a fault if the known state of all nodes is larger than the memory.

    Args:
        job: The job; its nodes share this machine.
        folder: The spec's folder, where data files are looked at.
        available_bytes: The machine's memory, if not to be asked for.
    """
    shapes = infer_state_types(job, lambda path, member: read_member_header(folder / path, member))
    sizes = {blob: known.size_bytes or 0 for blob, known in shapes.items()}
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
    shapes = infer_state_types(job, lambda path, member: read_member_header(folder / path, member))
    saved = {(node, name) for node, names in job.state for name in names}
    return sum(known.size_bytes or 0 for blob, known in shapes.items() if blob in saved)


def read_member_header(path: Path, member: str) -> tuple[str, tuple[int, ...]] | None:
    """Read dtype and shape of a file's member, to check the memory it will need; None: unknown."""
    try:
        # Of a job without data files, archives and tables are not imported.
        from jobrun.formats.headers import describe  # noqa: PLC0415

        info = describe(str(path), member)
    except (JobrunError, OSError, ValueError):
        # The step that reads it reports the error; here only its size is unknown.
        return None
    return (info.dtype, info.shape) if info.dtype else None


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
