"""What lowering knows while it goes through a spec: the tables, and where it is. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jobrun.compile.faults import Faults, Place
from jobrun.compile.nets import NetDef
from jobrun.compile.nodes import NodeNames
from jobrun.compile.queues import QueueTable
from jobrun.compile.reserved import refused_name
from jobrun.graph.access import AccessFinder
from jobrun.graph.types import Cluster
from jobrun.ops.table import OPERATORS
from jobrun.spec.source import SourceMap

FINDER = AccessFinder(
    {name: one.mutates for name, one in OPERATORS.items() if one.mutates},
    {name for name, one in OPERATORS.items() if one.atomic},
)


@dataclass(frozen=True, slots=True)
class Context:
    """The tables of one job, and the collector of what is wrong with it."""

    source: SourceMap
    params: Mapping[str, bool | int | float | str]
    faults: Faults
    nets: Mapping[str, NetDef]
    queues: QueueTable = field(default_factory=QueueTable)
    nodes: NodeNames = field(default_factory=lambda: NodeNames(Cluster(())))

    def place(self, path: str, *spec_path: str | int) -> Place:
        """The place of a step or task, by its own path and that in the spec."""
        return Place(path, self.source.at(spec_path))

    def check_blob_name(self, name: str, place: Place) -> None:
        """Note a fault if a blob cannot have this name."""
        refused = refused_name(name, self.params)
        if refused is not None:
            self.faults.error(refused.code, refused.message, refused.mend, place)


@dataclass(frozen=True, slots=True)
class OwnNames:
    """The renaming of one use of a net that has names of its own.

    Names that the net's set-up makes are shared by all uses in a task; the others are new
    at each use, so that no use sees what an earlier one left.
    """

    net: str
    use: str
    shared: frozenset[str] = frozenset()

    def __call__(self, name: str) -> str:
        """The name in the task."""
        return f"nets/{self.net}:{name}" if name in self.shared else f"{self.use}:{name}"


@dataclass(frozen=True, slots=True)
class Env:
    """Where a list of steps stands.

    Attributes:
        blocks: Name (or empty) and path of each block around it, innermost last.
        loops: Paths of the loops around it, innermost last.
        indices: Names given to pass numbers by ``as``, and their loops' paths.
        rename: From a name in a net of its own names to one in the task.
        nets: The nets it is inside, innermost last.
        depth: How many steps it is inside.
        is_loose: It stands nowhere yet: a stop may mean a block that is not around it.
        used: Collects, in order, the nets that the task uses; shared by all of a task.
    """

    blocks: tuple[tuple[str, str], ...]
    loops: tuple[str, ...] = ()
    indices: Mapping[str, str] = field(default_factory=dict)
    rename: OwnNames | None = None
    nets: tuple[str, ...] = ()
    depth: int = 0
    is_loose: bool = False
    used: dict[str, None] = field(default_factory=dict)

    def block(self, name: str | None, path: str) -> Env:
        """Inside a further block."""
        return replace(self, blocks=(*self.blocks, (name or "", path)), depth=self.depth + 1)

    def loop(self, name: str | None, path: str, index: str | None) -> Env:
        """Inside a further loop."""
        inner = self.block(name, path)
        indices = {**self.indices, index: path} if index else self.indices
        return replace(inner, loops=(*self.loops, path), indices=indices)

    def branch(self) -> Env:
        """Inside a step that is no block."""
        return replace(self, depth=self.depth + 1)

    def net(self, name: str, rename: OwnNames | None) -> Env:
        """Inside a net; one with names of its own does not know the caller's."""
        indices = self.indices if rename is None else {}
        rename = rename or self.rename
        return replace(
            self, rename=rename, indices=indices, nets=(*self.nets, name), depth=self.depth + 1
        )

    def target(self, name: str | None) -> str | None:
        """The path of the block that a stop leaves; None when there is no block of the name."""
        if name is None:
            return self.blocks[-1][1]
        return next((path for given, path in reversed(self.blocks) if given == name), None)
