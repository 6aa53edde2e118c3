"""One family of nodes that are others than before: which rows of which file each of them reads.

A *family* is the nodes of one counted name. What it declares is divided anew, or taken over;
anything else is a fault with its place. Only reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from jobrun.checkpoint.index import BlobType
from jobrun.checkpoint.plan import checkpointed_blobs
from jobrun.checkpoint.statefile import open_state
from jobrun.checkpoint.store import Manifest, StoredFile
from jobrun.checkpoint.wholes import whole_names
from jobrun.core.errors import Fault
from jobrun.core.origin import Origin
from jobrun.graph.data import POSITION_PREFIX
from jobrun.graph.divided import FilePart, Layout, Rows
from jobrun.graph.types import Job, OutputRef
from jobrun.runner.progress import from_json
from jobrun.runner.replicas import first_difference
from jobrun.runner.storedtypes import makers

Blob = tuple[str, str]
_MOST_NAMED = 4


@dataclass(frozen=True, slots=True)
class Family:
    """Nodes of one name, of which there were others when the epoch was saved.

    Attributes:
        before: Those with a file, in their order.
        after: Those that are to have state now.
        layouts: Of the blobs that are divided anew, or taken over.
    """

    name: str
    before: tuple[str, ...]
    after: tuple[str, ...]
    layouts: tuple[tuple[str, Layout], ...] = ()

    def __str__(self) -> str:
        words = [
            f"{name} {'divided anew by rows' if layout == 'rows' else 'the same on all'}"
            for name, layout in self.layouts
        ]
        counts = f"{len(self.before)} before, {len(self.after)} now"
        return f"nodes of '{self.name}': {counts}; {', '.join(words)}"


class FamilyPlan:
    """What the nodes of a family read.

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
        self, job: Job, family: Family, manifest: Manifest, directory: str, *, compare: bool
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
        self._declared = {one.name: one for one in job.layouts}
        self._rows: dict[str, list[Rows]] = {}

    def make(self) -> None:
        """Look at each blob that the family has saved and is to have."""
        stored = dict.fromkeys(name for one in self._there.values() for name in one)
        for name in stored:
            # Positions are a matter of ``repartition``; what nobody is to have stays unread.
            if self._holders(name) and not name.startswith(POSITION_PREFIX):
                self._look(name, self._sources(name))
        lacking = {
            name for node in self.family.after for name in self._wanted[node]
            if name not in stored and not name.startswith(POSITION_PREFIX)
        }  # fmt: skip
        for name in sorted(lacking):
            self._fault(name, "E307", f"epoch {self._manifest.epoch} has no blob '{name}'",
                        "go on with the spec that it was saved with, or fork the run")  # fmt: skip
        self._check_outputs()

    def parts(self) -> dict[str, tuple[FilePart, ...]]:
        """What each node reads, file by file."""
        found: dict[str, dict[str, list[Rows]]] = {node: {} for node in self.family.after}
        for name, layout in self.layouts.items():
            holders = self._holders(name)
            sources = self._sources(name)
            for place, node in enumerate(holders):
                if layout == "replicated":
                    source = node if node in sources else sources[0]
                    found[node].setdefault(source, []).append(Rows(name))
                    continue
                for source, rows in self._pieces(name, sources, place, len(holders)):
                    found[node].setdefault(source, []).append(rows)
        return {
            node: tuple(self._part(source, files[source]) for source in self.family.before
                        if source in files)
            for node, files in found.items()
        }  # fmt: skip

    def _sources(self, name: str) -> list[str]:
        return [node for node in self.family.before if name in self._there[node]]

    def _holders(self, name: str) -> list[str]:
        """The nodes that are to have the blob now; of an object's state those that make it."""
        made = dict(self._job.constants)
        return [
            node for node in self.family.after
            if name in self._wanted[node] or name in made.get(node, ())
        ]  # fmt: skip

    def _stored(self, file: StoredFile) -> dict[str, BlobType | None]:
        """The blobs of a file, with the types of those that are single values."""
        with open_state(str(self._directory / file.name)) as opened:
            opened.expect_digest(file.digest)
            index = opened.index
            return {
                name: index.type_of(index.rows[name]) if name in index.rows else None
                for name in whole_names(index.names)
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
            name, "E387",
            f"'{name}' of {nodes} is declared neither partitioned nor replicated, so it cannot go "
            f"from {counts}",
            f"declare it: {rows if kind is not None and kind.shape else ''}"
            f"'state: {{{name}: replicated}}' if all have the same; or keep the count",
        )  # fmt: skip

    def _divide(self, name: str, sources: list[str]) -> None:
        kinds = {node: self._there[node][name] for node in sources}
        first = kinds[sources[0]]
        for node, kind in kinds.items():
            if kind is None or kind.kind != "array" or not kind.shape:
                self._fault(name, "E387", f"'{name}' of {node} is no array with rows, and is "
                            "declared to be divided by rows", "declare it replicated, or keep it "
                            "in an array", declared=True)  # fmt: skip
                return
            if first and (kind.dtype, kind.shape[1:]) != (first.dtype, first.shape[1:]):
                self._fault(
                    name, "E387",
                    f"the rows of '{name}' do not fit together: {first.dtype} {first.shape} of "
                    f"{sources[0]}, {kind.dtype} {kind.shape} of {node}",
                    "give the rows one dtype and one shape on all nodes, or keep the count",
                    declared=True,
                )  # fmt: skip
                return
        self.layouts[name] = "rows"
        holders = self._holders(name)
        for place, node in enumerate(holders):
            begin, end = _share(self._total(name, sources), place, len(holders))
            assert first is not None  # noqa: S101 - seen above
            self.types[node, name] = replace(first, shape=(end - begin, *first.shape[1:]))

    def _take_over(self, name: str, sources: list[str]) -> None:
        files = [
            (node, str(self._directory / self._files[node].name), self._files[node].digest)
            for node in sources
        ]
        told = first_difference(name, files, self._manifest) if self._compare else ""
        if told:
            self._fault(
                name, "E388", f"'{name}' is declared replicated, and is not the same on all nodes: "
                f"{told}", "make it the same on all nodes before the end of an epoch, or declare "
                "what it is, or keep the count", declared=True,
            )  # fmt: skip
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
        self, name: str, sources: list[str], place: int, places: int
    ) -> Iterator[tuple[str, Rows]]:
        """Where in the files the rows of one share are."""
        begin, end = _share(self._total(name, sources), place, places)
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
        """Outputs that are read later belong to a task on its node."""
        there = from_json(self._manifest.runner).outputs
        known = {(ref.task, ref.output) for ref in there if ref.node in self.family.before}
        for task in (*self._job.init.tasks, *self._job.epoch.tasks):
            for one in task.outputs if task.node in self.family.after else ():
                ref = OutputRef(task.name, task.node, one.name)
                if (task.name, one.name) in known and ref not in there:
                    self.faults.append(Fault(
                        "E387", f"the output '{task.name}.{one.name}' is read later, and "
                        f"{task.node} has not given one yet",
                        "read a blob instead of an output, or keep the count",
                        task.origin, task.path,
                    ))  # fmt: skip

    def _fault(
        self, name: str, code: str, message: str, mend: str, *, declared: bool = False
    ) -> None:
        path, where = self._place(name)
        if declared and name in self._declared:
            path, where = self._declared[name].path, self._declared[name].origin
        self.faults.append(Fault(code, message, mend, where, path))

    def _place(self, name: str) -> tuple[str, Origin | None]:
        """Where init makes the blob."""
        for node in self.family.after:
            for path, origin in makers(self._job, node, name):
                return path, origin
        return f"state.{name}", None


def _share(count: int, place: int, places: int) -> tuple[int, int]:
    """As ``runtime.standing.part_of`` says of a node's share of a reader's rows."""
    return count * place // places, count * (place + 1) // places
