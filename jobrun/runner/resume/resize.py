"""Plan how the state of an epoch is redistributed over another number of nodes, and load it.

A *family* is the nodes of one counted name; which nodes there were is seen by their files. Only
what the job declares is put together and redistributed by rows, or copied (``state`` in a spec);
everything else belongs to its node, and is refused with its place. Planning only reads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.checkpoint.checkpoint_file import read_state
from jobrun.checkpoint.hdf5.index_parser import BlobType
from jobrun.checkpoint.store_protocol import Manifest, StoredFile
from jobrun.checkpoint.stores.manifest import saved_settings
from jobrun.checkpoint.stores.object_references import open_checkpoint
from jobrun.checkpoint.task_groups import (
    LOAD_TASK,
    load_group,
)
from jobrun.core.codes import Code
from jobrun.core.errors import Fault, Origin
from jobrun.graph import expressions as e
from jobrun.graph.query import checkpointed_blobs
from jobrun.graph.readers import POSITION_PREFIX, ReadRecords, readers_in
from jobrun.graph.steps import Assign, FilePart, LoadState, NameTarget, Net, Rows
from jobrun.graph.types import Job, Layout, OutputRef, Scope, Task, TaskGroup
from jobrun.runner.identity.drift import count_field
from jobrun.runner.locate_faults import iter_bindings
from jobrun.runner.saved_progress import Progress, from_json
from jobrun.values import compare
from jobrun.values.blob_kinds import Value, describe
from jobrun.values.compare import same_bits
from jobrun.values.object_state import ObjectState

Positions = Mapping[str, np.ndarray[Any, Any]]
# A node and a name.
Blob = tuple[str, str]
_MOST_NAMED = 4
_MOST_CHARACTERS = 40


class ResizedFamily(Struct, frozen=True):
    """A family of nodes whose number differs from that in the checkpoint.

    Attributes:
        before: Those with a file, in their order.
        after: Those that are to have state now.
        layouts: Of the blobs that are redistributed or copied.
    """

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    layouts: tuple[tuple[str, Layout], ...] = ()

    def __str__(self) -> str:
        words = [
            f"{name} {'redistributed by rows' if layout == 'rows' else 'the same on all'}"
            for name, layout in self.layouts
        ]
        counts = f"{len(self.before)} before, {len(self.after)} now"
        return f"nodes of '{self.name}': {counts}; {', '.join(words)}"


class ResizePlan(Struct, frozen=True):
    """How the state of an epoch is distributed over other nodes.

    Attributes:
        families: Those whose state is redistributed.
        parts: Per node of these, what it reads.
        types: Of the blobs that they will have, by node and name, where that is an array.
        faults: By family, why its state cannot be divided; then it is not among ``families``.
    """

    families: tuple[ResizedFamily, ...] = ()
    parts: Mapping[str, tuple[FilePart, ...]] = field(default_factory=dict)
    types: Mapping[Blob, BlobType] = field(default_factory=dict)
    faults: Mapping[str, tuple[Fault, ...]] = field(default_factory=dict)

    @property
    def nodes(self) -> frozenset[str]:
        """Return all nodes, old and new, among which the resize redistributes state."""
        return frozenset(
            node for family in self.families for node in (*family.before, *family.after)
        )


def plan_resize(
    job: Job, manifest: Manifest, directory: str, *, compare: bool = False
) -> ResizePlan:
    """Plan a resize: which rows of saved state each node reads when there are more or fewer.

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
        for family in _find_resized(job, manifest)
    ]
    for plan in plans:
        plan.make()
    good = [plan for plan in plans if not plan.faults and plan.layouts]
    return ResizePlan(
        tuple(replace(plan.family, layouts=tuple(plan.layouts.items())) for plan in good),
        {node: parts for plan in good for node, parts in plan.parts().items()},
        {blob: kind for plan in good for blob, kind in plan.types.items()},
        {plan.family.name: tuple(plan.faults) for plan in plans if plan.faults},
    )


def refuse_mid_epoch(plan: ResizePlan, epoch: int) -> ResizePlan:
    """Add faults to a resize plan, because a mid-epoch checkpoint needs the same nodes."""
    text = f"epoch {epoch} is saved between two of its records, where nodes cannot be others"
    mend = f"continue from the whole epoch before: --epoch {epoch - 1}; or keep the count"
    faults = {
        family.name: (Fault("E387", text, mend, path=count_field(family.name)),)
        for family in plan.families
    }
    return ResizePlan(faults={**plan.faults, **faults})


def list_resizes(
    earlier: Sequence[Mapping[str, Any]], epoch: int, plan: ResizePlan
) -> tuple[Mapping[str, Any], ...]:
    """List the resizes of a run for ``run.json``: earlier ones, and the present one."""
    new = [
        {
            "epoch": epoch,
            "nodes": family.name,
            "before": len(family.before),
            "now": len(family.after),
            "state": dict(family.layouts),
        }
        for family in plan.families
    ]
    # A resume that was killed before its first save repeats the same resize.
    return (*earlier, *(resize for resize in new if resize not in earlier[-len(new) :]))


def adapt_progress(progress: Progress, job: Job, families: Iterable[ResizedFamily]) -> Progress:
    """Adapt the progress restored from an epoch to the nodes that the resized run has now.

    What constants were is known of those that were the same everywhere, or are declared to be;
    parts of something are others now, and are not compared.
    """
    layouts = {declaration.name: declaration.layout for declaration in job.layouts}
    constants, constants_by_node = dict(progress.constants), dict(job.constants)
    for family in families:
        names = {name for node in family.after for name in constants_by_node.get(node, ())}
        for name in sorted(names):
            old = [constants.pop(f"{node}.{name}", "") for node in family.before]
            # With a single node it is unknown whether its constant was a part or the whole.
            alike = len(set(old)) == 1 and min(len(old), len(family.after)) > 1
            same = layouts.get(name) == "replicated" or (alike and name not in layouts)
            for node in family.after if same and old[:1] != [""] else ():
                constants[f"{node}.{name}"] = old[0]
    there = {node.name for node in job.cluster}
    outputs = {ref: value for ref, value in progress.outputs.items() if ref.node in there}
    return replace(progress, constants=constants, outputs=outputs)


def unknown_constants(
    progress: Progress, job: Job, families: Iterable[ResizedFamily]
) -> tuple[str, ...]:
    """List the constants on nodes that a resize adds, which have no recorded digest."""
    constants_by_node = dict(job.constants)
    return tuple(
        f"constants.{node}.{name}"
        for family in families
        for node in family.after
        for name in constants_by_node.get(node, ())
        if f"{node}.{name}" not in progress.constants
    )


def _find_resized(job: Job, manifest: Manifest) -> Iterator[ResizedFamily]:
    """Yield a ``ResizedFamily`` for each ``nodes`` entry with other nodes than were saved."""
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
            yield ResizedFamily(family, tuple(node for _, node in before), now)


def _family_of(node: str, names: set[str]) -> str:
    """Return the ``nodes`` key (``worker``) of a node (``worker_3``) that a resize removed."""
    match = re.fullmatch(r"(.+)_\d+", node)
    return match[1] if node not in names and match and match[1] in names else node


def _index(node: str, family: str) -> int:
    return 0 if node == family else int(node.rpartition("_")[2])


def load_repartitioned(job: Job, manifest: Manifest, directory: str) -> TaskGroup:
    """Build the tasks that load an epoch after a resize, with its state divided among nodes.

    Args:
        job: The job, perhaps on other nodes than before.
        manifest: Of the epoch.
        directory: Where its files are.

    Raises:
        CheckpointError: The epoch has no file of a node that has other state; or damage.
    """
    there = {file.node for file in manifest.files}
    if there == set(job.checkpoint.nodes):
        return load_group(job, manifest, directory)
    moved = _read_positions(job, manifest, directory)
    parts = plan_resize(job, manifest, directory).parts
    if not moved and not parts:
        return load_group(job, manifest, directory)
    blobs = checkpointed_blobs(job)
    loading = tuple(
        node
        for node in job.checkpoint.nodes
        if node not in parts and (node in there or set(blobs[node]) - moved.keys())
    )
    fewer = replace(job, checkpoint=replace(job.checkpoint, nodes=loading))
    plain = {task.node: task for task in load_group(fewer, manifest, directory).tasks}
    tasks = tuple(
        _add_positions(
            plain.get(node) or _build_load_task(node, parts.get(node, ()), manifest),
            {name: moved[name] for name in blobs[node] if name in moved},
        )
        for node in job.checkpoint.nodes
    )
    return TaskGroup(name="checkpoint", tasks=tasks, workspace="global")


def restore_progress(
    job: Job, manifest: Manifest, directory: str
) -> tuple[Progress, TaskGroup, tuple[str, ...]]:
    """Restore an epoch after a resize; return progress, load tasks, new nodes' constants.

    Raises:
        CheckpointError: As by ``load_repartitioned``; or the manifest has no progress.
    """
    families = plan_resize(job, manifest, directory).families
    progress = adapt_progress(from_json(manifest.runner), job, families)
    load = load_repartitioned(job, manifest, directory)
    return progress, load, unknown_constants(progress, job, families)


def _build_load_task(node: str, parts: tuple[FilePart, ...], manifest: Manifest) -> Task:
    step = LoadState(
        "",
        (),
        manifest.epoch,
        manifest.run_id,
        digest="",
        parts=parts,
        path=LOAD_TASK,
        settings=saved_settings(manifest, node),
    )
    return Task(LOAD_TASK, node, (step,), path=LOAD_TASK)


def _read_positions(job: Job, manifest: Manifest, directory: str) -> Positions:
    """Read all readers' positions from the nodes' files, for a resize to redistribute."""
    names = [
        reader.position
        for task in (task for group in job.groups for task in group.tasks)
        if isinstance(task.read, ReadRecords) and task.read.reader.shard != "none"
        for reader in readers_in(task.read.reader)
    ]
    parts: dict[str, list[Any]] = {}
    for file in manifest.files:
        values = read_state(
            str(PurePath(directory, file.name)),
            node=file.node,
            epoch=manifest.epoch,
            run_id=manifest.run_id,
            digest=file.digest,
            names=dict.fromkeys(names),
            partial=True,
        )
        for name, value in values.items():
            parts.setdefault(name, []).append(value)
    return {name: np.concatenate(values) for name, values in parts.items()}


def _add_positions(task: Task, positions: Positions) -> Task:
    if not positions:
        return task
    ops = tuple(
        Assign((NameTarget(name),), _literal(value), LOAD_TASK) for name, value in positions.items()
    )
    scopes = tuple((name, Scope.NODE) for name in positions)
    return replace(task, steps=(*task.steps, Net(ops)), scopes=(*task.scopes, *scopes))


def _literal(blob: np.ndarray[Any, Any]) -> e.Expr:
    rows = tuple(e.Sequence(tuple(e.Const(number) for number in row)) for row in blob.tolist())
    return e.Call("array", (e.Sequence(rows),), (("dtype", e.Dtype("int64")),))


class FamilyPlan:
    """Plans which rows of which files the nodes of a resized family read.

    Args:
        job: The job.
        family: Its nodes before and now.
        manifest: Of the epoch.
        directory: Where its files are.
        compare: See whether what is declared to be the same on all nodes is.

    Attributes:
        layouts: Of the blobs that are to be moved.
        types: What they will be.
        faults: What cannot be moved, and why.
    """

    def __init__(
        self, job: Job, family: ResizedFamily, manifest: Manifest, directory: str, *, compare: bool
    ) -> None:
        self.family = family
        self.layouts: dict[str, Layout] = {}
        self.types: dict[Blob, BlobType] = {}
        self.faults: list[Fault] = []
        self._job = job
        self._manifest = manifest
        self._directory = Path(directory)
        self._compare = compare
        self._files = {file.node: file for file in manifest.files}
        self._there = {node: self._stored(self._files[node]) for node in family.before}
        self._wanted = checkpointed_blobs(job)
        self._declared = {declaration.name: declaration for declaration in job.layouts}
        self._rows: dict[str, list[Rows]] = {}

    def make(self) -> None:
        """Plan a resize: divide the rows of each saved blob among the present nodes."""
        stored = dict.fromkeys(name for blobs in self._there.values() for name in blobs)
        for name in stored:
            # Reader positions are redistributed elsewhere; blobs that no node needs stay unread.
            if self._holders(name) and not name.startswith(POSITION_PREFIX):
                self._look(name, self._sources(name))
        lacking = {
            name
            for node in self.family.after
            for name in self._wanted[node]
            if name not in stored and not name.startswith(POSITION_PREFIX)
        }
        for name in sorted(lacking):
            self._fault(
                name,
                "E307",
                f"epoch {self._manifest.epoch} has no blob '{name}'",
                "continue with the spec that it was saved with, or fork the run",
            )
        self._check_outputs()

    def parts(self) -> dict[str, tuple[FilePart, ...]]:
        """Plan which rows of which saved files each node of the resized family reads."""
        rows_by_node: dict[str, dict[str, list[Rows]]] = {node: {} for node in self.family.after}
        for name, layout in self.layouts.items():
            holders = self._holders(name)
            sources = self._sources(name)
            for position, node in enumerate(holders):
                if layout == "replicated":
                    source = node if node in sources else sources[0]
                    rows_by_node[node].setdefault(source, []).append(Rows(name))
                    continue
                for source, rows in self._pieces(name, sources, position, len(holders)):
                    rows_by_node[node].setdefault(source, []).append(rows)
        return {
            node: tuple(
                self._part(source, files[source])
                for source in self.family.before
                if source in files
            )
            for node, files in rows_by_node.items()
        }

    def _sources(self, name: str) -> list[str]:
        return [node for node in self.family.before if name in self._there[node]]

    def _holders(self, name: str) -> list[str]:
        """List the nodes that will have rows of a blob after the resize."""
        constants_by_node = dict(self._job.constants)
        return [
            node
            for node in self.family.after
            if name in self._wanted[node] or name in constants_by_node.get(node, ())
        ]

    def _stored(self, file: StoredFile) -> dict[str, BlobType | None]:
        """Read for a resize which blobs a node's checkpoint file has, and of which types."""
        with open_checkpoint(str(self._directory / file.name)) as opened:
            opened.require_digest(file.digest)
            index = opened.index
            rows = index.blob_rows()
            return {
                name: index.type_of(rows[name]) if name in rows else None for name in index.blobs
            }

    def _look(self, name: str, sources: list[str]) -> None:
        declared = self._declared.get(name)
        if declared is None:
            self._refuse(name, sources)
        elif declared.layout == "rows":
            self._divide(name, sources)
        else:
            self._take_over(name, sources)

    def _refuse(self, name: str, sources: list[str]) -> None:
        nodes = ", ".join(sources[:_MOST_NAMED]) + (" …" if len(sources) > _MOST_NAMED else "")
        counts = f"{len(self.family.before)} nodes of '{self.family.name}' to "
        counts += str(len(self.family.after))
        kind = self._there[sources[0]][name]
        rows = f"'state: {{{name}: {{partition: rows}}}}' if the nodes have parts of one array, "
        self._fault(
            name,
            "E387",
            f"'{name}' of {nodes} is declared neither partitioned nor replicated, so it cannot go "
            f"from {counts}",
            f"declare it: {rows if kind is not None and kind.shape else ''}"
            f"'state: {{{name}: replicated}}' if all have the same; or keep the count",
        )

    def _divide(self, name: str, sources: list[str]) -> None:
        kinds = {node: self._there[node][name] for node in sources}
        first = kinds[sources[0]]
        for node, kind in kinds.items():
            if kind is None or kind.kind != "array" or not kind.shape:
                self._fault(
                    name,
                    "E387",
                    f"'{name}' of {node} is no array with rows, and is "
                    "declared to be divided by rows",
                    "declare it replicated, or keep it in an array",
                    declared=True,
                )
                return
            if first and (kind.dtype, kind.shape[1:]) != (first.dtype, first.shape[1:]):
                self._fault(
                    name,
                    "E387",
                    f"the rows of '{name}' do not fit together: {first.dtype} {first.shape} of "
                    f"{sources[0]}, {kind.dtype} {kind.shape} of {node}",
                    "give the rows one dtype and one shape on all nodes, or keep the count",
                    declared=True,
                )
                return
        self.layouts[name] = "rows"
        holders = self._holders(name)
        for position, node in enumerate(holders):
            begin, end = _row_range(self._total(name, sources), position, len(holders))
            assert first is not None  # noqa: S101 - seen above
            self.types[node, name] = replace(first, shape=(end - begin, *first.shape[1:]))

    def _take_over(self, name: str, sources: list[str]) -> None:
        files = [
            (node, str(self._directory / self._files[node].name), self._files[node].digest)
            for node in sources
        ]
        difference = find_first_difference(name, files, self._manifest) if self._compare else ""
        if difference:
            self._fault(
                name,
                "E388",
                f"'{name}' is declared replicated, and is not the same on all nodes: {difference}",
                "make it the same on all nodes before the end of an epoch, or declare what it is, "
                "or keep the count",
                declared=True,
            )
            return
        self.layouts[name] = "replicated"
        kind = self._there[sources[0]][name]
        if kind is not None:
            self.types |= {(node, name): kind for node in self._holders(name)}

    def _total(self, name: str, sources: list[str]) -> int:
        return sum(self._count(name, node) for node in sources)

    def _count(self, name: str, source: str) -> int:
        kind = self._there[source][name]
        return kind.shape[0] if kind is not None else 0

    def _pieces(
        self, name: str, sources: list[str], position: int, holder_count: int
    ) -> Iterator[tuple[str, Rows]]:
        """Yield which rows of a blob a node loads, after a resize, from which nodes' files."""
        begin, end = _row_range(self._total(name, sources), position, holder_count)
        at, is_empty = 0, True
        for source in sources:
            count = self._count(name, source)
            first, stop = max(begin - at, 0), min(end - at, count)
            if first < stop:
                is_empty = False
                yield source, Rows(name, first, stop)
            at += count
        if is_empty:
            yield sources[0], Rows(name, 0, 0)

    def _part(self, source: str, blobs: list[Rows]) -> FilePart:
        file = self._files[source]
        return FilePart(str(self._directory / file.name), source, file.digest, tuple(blobs))

    def _check_outputs(self) -> None:
        """Add a fault to the resize plan for each output that an added node lacks."""
        there = from_json(self._manifest.runner).outputs
        known = {(ref.task, ref.output) for ref in there if ref.node in self.family.before}
        for task in (*self._job.init.tasks, *self._job.epoch.tasks):
            for output in task.outputs if task.node in self.family.after else ():
                ref = OutputRef(task.name, task.node, output.name)
                if (task.name, output.name) in known and ref not in there:
                    self.faults.append(
                        Fault(
                            "E387",
                            f"the output '{task.name}.{output.name}' is read later, and "
                            f"{task.node} has not given one yet",
                            "read a blob instead of an output, or keep the count",
                            task.origin,
                            task.path,
                        )
                    )

    def _fault(
        self, name: str, code: Code, message: str, mend: str, *, declared: bool = False
    ) -> None:
        path, where = self._place(name)
        if declared and name in self._declared:
            path, where = self._declared[name].path, self._declared[name].origin
        self.faults.append(Fault(code, message, mend, where, path))

    def _place(self, name: str) -> tuple[str, Origin | None]:
        """Return where in the spec an init step creates a blob, for a resize's faults."""
        for node in self.family.after:
            for path, origin in iter_bindings(self._job, node, name):
                return path, origin
        return f"state.{name}", None


def _row_range(count: int, position: int, holder_count: int) -> tuple[int, int]:
    """Return the first and the end row of a blob's rows that a node gets after a resize."""
    return count * position // holder_count, count * (position + 1) // holder_count


def find_first_difference(
    name: str, files: Sequence[tuple[str, str, str]], manifest: Manifest
) -> str:
    """Describe how a blob differs in nodes' files that a resize needs equal; else return "".

    Two values at a time are in memory.

    Args:
        name: Of the blob.
        files: Node, path and digest of each file that holds it.
        manifest: Of the epoch.

    Raises:
        CheckpointError: A file is missing or damaged.
    """
    first: Value = None
    for index, (node, path, digest) in enumerate(files):
        value = read_state(
            path,
            node=node,
            epoch=manifest.epoch,
            run_id=manifest.run_id,
            digest=digest,
            names=[name],
        )[name]
        if index == 0:
            first = value
        elif text := describe_difference(first, value):
            return text.format(first=files[0][0], second=node)
    return ""


def describe_difference(first: Value, second: Value) -> str:
    """Describe, for a resize, how a blob differs on two nodes; return "" if it does not."""
    differs = compare.find_difference(first, second)
    if differs is None:
        return ""
    if isinstance(first, ObjectState) or differs.path or same_bits(first, second):
        return f"{{second}} differs from {{first}}: {_escape_braces(str(differs))}"
    if describe(first) != describe(second):
        first_text, second_text = _escape_braces(describe(first)), _escape_braces(describe(second))
        return f"{first_text} on {{first}}, {second_text} on {{second}}"
    if isinstance(first, np.ndarray) and first.size:
        return _first_element(first, second)
    return f"{_short_repr(first)} on {{first}}, {_short_repr(second)} on {{second}}"


def _first_element(first: Value, second: Value) -> str:
    for index in np.ndindex(first.shape):
        first_item, second_item = first[index], second[index]
        if not same_bits(np.asarray(first_item), np.asarray(second_item)):
            at = ", ".join(map(str, index))
            first_text, second_text = _short_repr(first_item), _short_repr(second_item)
            return f"[{at}] is {first_text} on {{first}}, {second_text} on {{second}}"
    return "{first} and {second} have other bits"


def _short_repr(value: Value) -> str:
    text = value.item() if isinstance(value, np.generic) else value
    return _escape_braces(repr(text)[:_MOST_CHARACTERS])


def _escape_braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
