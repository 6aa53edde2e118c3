"""Whether the state of a job, as far as its size is known before it is made, fits into memory."""

from __future__ import annotations

import os
from pathlib import Path

from jobrun.compile.plan_text import size_text
from jobrun.compile.shapes import state_shapes
from jobrun.core.errors import Fault, JobrunError
from jobrun.formats.headers import describe
from jobrun.graph.types import Job


def memory_faults(job: Job, folder: Path, available_bytes: int | None = None) -> tuple[Fault, ...]:
    """A fault when what is known of the state of all nodes is more than the machine has.

    Args:
        job: The job; its nodes share this machine.
        folder: The spec's folder, where data files are looked at.
        available_bytes: The machine's memory, if not to be asked for.
    """
    shapes = state_shapes(job, lambda path, member: member_header(folder / path, member))
    sizes = {blob: known.size_bytes or 0 for blob, known in shapes.items()}
    needed_bytes = sum(sizes.values())
    limit_bytes = _memory_bytes() if available_bytes is None else available_bytes
    if needed_bytes <= limit_bytes:
        return ()
    node, name = max(sizes, key=lambda blob: sizes[blob])
    message = (
        f"the state needs {size_text(needed_bytes)}, and this machine has "
        f"{size_text(limit_bytes)} of memory; '{name}' on {node} alone needs "
        f"{size_text(sizes[node, name])}"
    )
    mend = "make it smaller, or spread it over nodes on other machines; 'jobrun plan' shows sizes"
    return (Fault("E377", message, mend, path="init"),)


def state_bytes(job: Job, folder: Path) -> int:
    """How many bytes of the state are known to be, before any of it is made: a checkpoint's least.

    Args:
        job: The job.
        folder: The spec's folder, where data files are looked at.
    """
    shapes = state_shapes(job, lambda path, member: member_header(folder / path, member))
    saved = {(node, name) for node, names in job.state for name in names}
    return sum(known.size_bytes or 0 for blob, known in shapes.items() if blob in saved)


def member_header(path: Path, member: str) -> tuple[str, tuple[int, ...]] | None:
    """The dtype and shape that a data file's header tells, or None where it tells nothing."""
    try:
        info = describe(str(path), member)
    except (JobrunError, OSError, ValueError):
        # What cannot be read is told where it is read; here its size is just not known.
        return None
    return (info.dtype, info.shape) if info.dtype else None


def _memory_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
