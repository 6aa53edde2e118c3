"""Goes on with another number of nodes: which rows of which file become the state of which node.

Only what the job declares is put together and divided anew (``state`` in a spec); everything else
belongs to its node, and is refused with its place. Only reads; who loads is ``repartition``.
Which nodes there were is seen by their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from jobrun.checkpoint.index import BlobType
from jobrun.checkpoint.store import Manifest
from jobrun.core.errors import Fault
from jobrun.graph.divided import FilePart
from jobrun.graph.types import Job
from jobrun.runner.dividing import Blob, Family, FamilyPlan
from jobrun.runner.drift import Change
from jobrun.runner.progress import Progress


@dataclass(frozen=True, slots=True)
class Resizing:
    """What becomes of an epoch on other nodes.

    Attributes:
        families: Those whose state is put together and divided anew.
        parts: Per node of these, what it reads.
        types: Of the blobs that they will have, by node and name, where that is an array.
        faults: By family, why its state cannot be divided; then it is not among ``families``.
    """

    families: tuple[Family, ...] = ()
    parts: Mapping[str, tuple[FilePart, ...]] = field(default_factory=dict)
    types: Mapping[Blob, BlobType] = field(default_factory=dict)
    faults: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> frozenset[str]:
        """Those whose state is not that of one file, before and now."""
        return frozenset(node for one in self.families for node in (*one.before, *one.after))


def resizing(job: Job, manifest: Manifest, directory: str, *, compare: bool = False) -> Resizing:
    """Plan how the nodes of a job get the state that other nodes have saved.

    Args:
        job: The job, perhaps on other nodes than before.
        manifest: Of the epoch.
        directory: Where its files are.
        compare: Read all copies of what is declared to be the same on all nodes, and see.

    Raises:
        CheckpointError: A file is missing or damaged.
    """
    plans = [
        FamilyPlan(job, family, manifest, directory, compare=compare)
        for family in _families(job, manifest)
    ]
    for plan in plans:
        plan.make()
    good = [plan for plan in plans if not plan.faults and plan.layouts]
    return Resizing(
        tuple(replace(plan.family, layouts=tuple(plan.layouts.items())) for plan in good),
        {node: parts for plan in good for node, parts in plan.parts().items()},
        {blob: kind for plan in good for blob, kind in plan.types.items()},
        {plan.family.name: tuple(plan.faults) for plan in plans if plan.faults},
    )


def count_field(family: str) -> str:
    """The field of the spec that says how many nodes a family has."""
    return f"nodes.{family}.count"


def declared_safe(changes: tuple[Change, ...], found: Resizing) -> tuple[Change, ...]:
    """The changes; another number of nodes whose state can be divided is declared to be safe."""
    fields = {count_field(one.name) for one in found.families}
    return tuple(
        replace(change, kind="declared safe") if change.field in fields else change
        for change in changes
    )


def without_midway(found: Resizing, epoch: int) -> Resizing:
    """What becomes of a run that goes on within an epoch: its nodes have to stay."""
    text = f"epoch {epoch} is saved between two of its records, where nodes cannot be others"
    mend = f"go on from the whole epoch before: --epoch {epoch - 1}; or keep the count"
    faults = {
        one.name: (Fault("E387", text, mend, path=count_field(one.name)),) for one in found.families
    }
    return Resizing(faults={**found.faults, **faults})


def adapted(progress: Progress, job: Job, families: Iterable[Family]) -> Progress:
    """How the run stood, as far as that is true of the nodes that it has now.

    What constants were is known of those that were the same everywhere, or are declared to be;
    parts of something are others now, and are not compared.
    """
    layouts = {one.name: one.layout for one in job.layouts}
    constants, made = dict(progress.constants), dict(job.constants)
    for family in families:
        names = {name for node in family.after for name in made.get(node, ())}
        for name in sorted(names):
            old = [constants.pop(f"{node}.{name}", "") for node in family.before]
            # One of one node may be a part, as well as the whole.
            alike = len(set(old)) == 1 and min(len(old), len(family.after)) > 1
            same = layouts.get(name) == "replicated" or (alike and name not in layouts)
            for node in family.after if same and old[:1] != [""] else ():
                constants[f"{node}.{name}"] = old[0]
    there = {node.name for node in job.cluster}
    outputs = {ref: value for ref, value in progress.outputs.items() if ref.node in there}
    return replace(progress, constants=constants, outputs=outputs)


def unknown_constants(progress: Progress, job: Job, families: Iterable[Family]) -> tuple[str, ...]:
    """The fields of constants that an ``adapted`` progress says nothing of: any bits will do."""
    made = dict(job.constants)
    return tuple(
        f"constants.{node}.{name}"
        for family in families
        for node in family.after
        for name in made.get(node, ())
        if f"{node}.{name}" not in progress.constants
    )


def _families(job: Job, manifest: Manifest) -> Iterator[Family]:
    """Families that have other nodes with state than there are files, and something to divide."""
    known = {node.name: node.family or node.name for node in job.cluster}
    names = set(known.values())
    saved = [file.node for file in manifest.files]
    for family in dict.fromkeys(known.values()):
        now = tuple(node for node in job.checkpoint.nodes if known.get(node) == family)
        before = sorted(
            (_index(node, family), node)
            for node in saved
            if known.get(node, _family_of(node, names)) == family
        )
        if before and now and {node for _, node in before} != set(now):
            yield Family(family, tuple(node for _, node in before), now)


def _family_of(node: str, names: set[str]) -> str:
    """The family of a node that is gone."""
    match = re.fullmatch(r"(.+)_\d+", node)
    return match[1] if node not in names and match and match[1] in names else node


def _index(node: str, family: str) -> int:
    return 0 if node == family else int(node.rpartition("_")[2])
