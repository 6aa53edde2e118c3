"""What a job declares of its state: parts of one array on the nodes, or the same on all of them.

Only the declarations are checked here. What a resume on another number of nodes makes of them is
the runner's matter.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobrun.compile.faults import Faults, Place
from jobrun.compile.shapes import job_types
from jobrun.compile.state import Left
from jobrun.core.names import did_you_mean
from jobrun.graph.data import POSITION_PREFIX
from jobrun.graph.divided import StateLayout
from jobrun.graph.types import Job
from jobrun.spec.models import JobSpec
from jobrun.spec.source import SourceMap, path_text


def state_layouts(
    spec: JobSpec, source: SourceMap, kept: Mapping[str, Left], faults: Faults
) -> tuple[StateLayout, ...]:
    """The declarations, in their order; see ``check_layouts``."""
    layouts = tuple(
        StateLayout(
            name,
            "replicated" if declared == "replicated" else "rows",
            path_text(("state", name)),
            source.key(("state", name)),
        )
        for name, declared in spec.state.items()
    )
    check_layouts(layouts, kept, faults)
    return layouts


def check_layouts(
    layouts: tuple[StateLayout, ...], kept: Mapping[str, Left], faults: Faults
) -> None:
    """Note declarations of what no epoch boundary has.

    Args:
        layouts: The declarations.
        kept: State and constants, by node.
        faults: Where to.
    """
    names = {
        name
        for one in kept.values()
        for name in (*one.state, *one.constants)
        if not name.startswith(POSITION_PREFIX)
    }
    for one in layouts:
        if one.name not in names:
            mend = did_you_mean(one.name, names) if names else "let init make it, or leave it out"
            message = f"'{one.name}' is no state: no task of init makes it, or it is not saved"
            faults.error("E044", message, mend, Place(one.path, one.origin))


def check_types(job: Job, faults: Faults) -> None:
    """Note what cannot be computed, and blobs that are to be divided by rows and have none."""
    types = job_types(job)
    owned = types.owned
    for one in job.layouts:
        flat = [
            node for (node, name), known in owned.items()
            if one.layout == "rows" and name == one.name and known.shape == ()
        ]  # fmt: skip
        if flat:
            faults.error(
                "E045", f"'{one.name}' on node '{flat[0]}' is a single value, which has no rows",
                "write replicated if all nodes have the same value, or keep it in an array",
                Place(one.path, one.origin),
            )  # fmt: skip
    faults.extend(types.faults)
