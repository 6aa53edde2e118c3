"""Define the context of lowering: tables of the job, and surroundings of a step."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.compile.expressions.refusals import find_name_refusal
from jobrun.compile.faults import Faults, Located, SpecPosition
from jobrun.compile.job_draft.node_names import NodeNames
from jobrun.compile.lowering.queues import QueueTable
from jobrun.core.errors import Origin
from jobrun.graph.types import Cluster
from jobrun.spec.yaml.nodes import Path, SourceMap, path_text

# From a name in a net to one in the task that uses it.
Rename = Callable[[str], str]

if TYPE_CHECKING:
    from jobrun.spec.models.steps import SetupSpec, Steps


class NetDef(Struct, frozen=True):
    """A net of the spec, as declared.

    Attributes:
        steps_path: The path of its list of steps in the spec.
        own_names: It has parameters or results, so its names are local.
        setup: By level: node, task, instance.
        uses: The nets that it uses directly.
        size: The number of steps that it expands to.
        sound: It is not recursive.
    """

    name: str
    steps: Steps
    steps_path: Path
    own_names: bool = False
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    setup: dict[str, SetupSpec] = field(default_factory=dict)
    uses: frozenset[str] = frozenset()
    size: int = 0
    sound: bool = True


class StepPosition(NamedTuple):
    """The position of a step that is being lowered.

    Attributes:
        path: Its path in the job, in which nets are expanded.
        origin: Its file, line and column.
        at: Its path in the spec, by which the positions of its keys are looked up.
    """

    path: str
    origin: Origin
    at: Path


class Context(Struct, frozen=True):
    """The tables of a job that lowering fills and uses, and the collector of its faults."""

    source: SourceMap
    params: Mapping[str, bool | int | float | str]
    faults: Faults
    nets: Mapping[str, NetDef]
    queues: QueueTable = field(default_factory=QueueTable)
    nodes: NodeNames = field(default_factory=lambda: NodeNames(Cluster(())))

    def spec_position(self, path: str, *spec_path: str | int) -> SpecPosition:
        """Return the position of a step being lowered: its path, and its origin in the spec."""
        return SpecPosition(path, self.source.at(spec_path))

    def inside(self, step: StepPosition, *keys: str | int) -> SpecPosition:
        """Return the position of a value inside a step that is being lowered."""
        return SpecPosition(step.path, self.source.at((*step.at, *keys)))

    def at(self, *spec_path: str | int) -> SpecPosition:
        """Return the position (path, line and column) of a spec's key, for lowering."""
        return SpecPosition(path_text(spec_path), self.source.at(spec_path))

    def check_blob_name(self, name: str, where: Located) -> None:
        """Check while lowering that a blob's name is not a param's, and not reserved."""
        refused = find_name_refusal(name, self.params)
        if refused is not None:
            self.faults.error(*refused, where)


class Env(Struct, frozen=True):
    """The surroundings of a list of steps during lowering: blocks, loops, nets and names.

    Attributes:
        blocks: Name (or empty) and path of each block around it, innermost last.
        loops: Paths of the loops around it, innermost last.
        indices: Loop variables named by ``as``, and their loops' paths.
        rename: From a name in a net of its own names to one in the task.
        nets: The nets around it, innermost last.
        depth: The number of steps around it.
        is_loose: A net read outside any use: a stop may mean a block that is not around it.
        used: Collects, in order, the nets that the task uses; shared by all lists of a task.
    """

    blocks: tuple[tuple[str, str], ...]
    loops: tuple[str, ...] = ()
    indices: Mapping[str, str] = field(default_factory=dict)
    rename: Rename | None = None
    nets: tuple[str, ...] = ()
    depth: int = 0
    is_loose: bool = False
    used: dict[str, None] = field(default_factory=dict)

    def block(self, name: str | None, path: str) -> Env:
        """Return the lowering context inside a block, which a ``stop`` step may leave."""
        return replace(self, blocks=(*self.blocks, (name or "", path)), depth=self.depth + 1)

    def loop(self, name: str | None, path: str, index: str | None) -> Env:
        """Return the lowering context inside a loop, which defines a loop index."""
        inner = self.block(name, path)
        indices = {**self.indices, index: path} if index else self.indices
        return replace(inner, loops=(*self.loops, path), indices=indices)

    def branch(self) -> Env:
        """Return the lowering context inside an ``if``: ``stop`` leaves the block around it."""
        return replace(self, depth=self.depth + 1)

    def net(self, name: str, rename: Rename | None) -> Env:
        """Return the lowering context inside a net, in which the net's blobs are renamed."""
        indices = self.indices if rename is None else {}
        rename = rename or self.rename
        return replace(
            self, rename=rename, indices=indices, nets=(*self.nets, name), depth=self.depth + 1
        )

    def target(self, name: str | None) -> str | None:
        """Return the path of the block that ``stop`` leaves in this context, or None."""
        if name is None:
            return self.blocks[-1][1]
        return next(
            (path for block_name, path in reversed(self.blocks) if block_name == name), None
        )
