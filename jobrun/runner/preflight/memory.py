"""Check whether a job's state, as far as its size is known, fits into memory."""

from __future__ import annotations

import os
from pathlib import Path

from jobrun.compile.types.job_types import Types
from jobrun.core.errors import Fault
from jobrun.core.text.units import size
from jobrun.graph.types import Job
from jobrun.runner.preflight.blob_types import infer_header_types


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
