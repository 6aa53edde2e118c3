"""The nets of a spec as a table: who uses whom, how large they get, and which use themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from jobrun.compile.faults import Faults, Place
from jobrun.spec.models import JobSpec, NetSpec
from jobrun.spec.source import Path, SourceMap, path_text
from jobrun.spec.steps import (
    GuardStep,
    IfStep,
    LoopStep,
    NetStep,
    ParallelStep,
    SetupSpec,
    Step,
    Steps,
    WhileStep,
)

# More steps than anyone writes, and few enough to be built in memory.
MOST_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class NetDef:
    """One net, as declared.

    Attributes:
        steps_path: Where its list of steps stands in the spec.
        own_names: It has parameters or results; its names are then its own.
        setup: By level: node, task, instance.
        uses: The nets that it uses directly.
        size: How many steps it comes to, with all nets that it uses.
        sound: It does not use itself, directly or through others.
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

    @property
    def path(self) -> Path:
        """Where the net stands in the spec."""
        return ("nets", self.name)


def net_table(spec: JobSpec, source: SourceMap, faults: Faults) -> dict[str, NetDef]:
    """All nets by name; a net that uses itself is in it, and marked."""
    used = {name: _used_names(net) for name, net in spec.nets.items()}
    order, cycles = _inner_first(used)
    for cycle in cycles:
        shown = " -> ".join(cycle)
        place = Place(path_text(("nets", cycle[0])), source.key(("nets", cycle[0])))
        faults.error("E143", f"net '{cycle[0]}' uses itself: {shown}",
                     "write a loop instead; a net cannot be recursive", place)  # fmt: skip
    unsound = {name for cycle in cycles for name in cycle}
    table: dict[str, NetDef] = {}
    for name in order:
        # One that uses an unsound net is unsound too: it has no finite size.
        sound = name not in unsound and all(
            table[other].sound for other in used[name] if other in table
        )
        size = _own_size(spec.nets[name]) + sum(
            table[other].size for other in used[name] if other in table
        )
        inner = frozenset(used[name])
        table[name] = replace(
            _definition(name, spec.nets[name]), uses=inner, size=size, sound=sound
        )
    return {name: table[name] for name in spec.nets}


def _definition(name: str, net: Steps | NetSpec) -> NetDef:
    if not isinstance(net, NetSpec):
        return NetDef(name, net, ("nets", name))
    # Without 'in' and 'out' it works on its caller's names, as a plain list does:
    # else there would be no way to attach set-up to such a net.
    own_names = bool({"inputs", "outputs"} & net.model_fields_set)
    setup = {str(level): one for level, one in net.setup.items()}
    path = ("nets", name, "steps")
    return NetDef(name, net.steps, path, own_names, net.inputs, net.outputs, setup)


def _used_names(net: Steps | NetSpec) -> list[str]:
    """The nets used, once per use."""
    return [step.net for step in all_steps(_all_of(net)) if isinstance(step, NetStep)]


def _own_size(net: Steps | NetSpec) -> int:
    return sum(1 for _ in all_steps(_all_of(net)))


def _all_of(net: Steps | NetSpec) -> Steps:
    if not isinstance(net, NetSpec):
        return net
    return net.steps + tuple(
        step for setup in net.setup.values() for step in (*setup.init, *setup.exit)
    )


def all_steps(steps: Steps) -> Iterator[Step]:
    """Every step as written, outer before inner."""
    for step in steps:
        yield step
        for block in _blocks(step):
            yield from all_steps(block)


def _blocks(step: Step) -> tuple[Steps, ...]:
    match step:
        case LoopStep() | WhileStep() | GuardStep():
            return (step.steps,)
        case IfStep():
            return (step.then, *(branch.then for branch in step.elifs), step.otherwise)
        case ParallelStep():
            return step.parallel
        case _:
            return ()


def _inner_first(used: dict[str, list[str]]) -> tuple[list[str], list[list[str]]]:
    """Nets after those they use, and the cycles, each from its first net back to it."""
    order: list[str] = []
    cycles: list[list[str]] = []
    done: set[str] = set()
    for start in used:
        # An explicit stack: a chain of nets may be longer than Python's own.
        way: list[str] = []
        on_way: dict[str, int] = {}
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                way.pop()
                del on_way[name]
                done.add(name)
                order.append(name)
            elif name in on_way:
                cycles.append([*way[on_way[name] :], name])
            elif name not in done and name in used:
                on_way[name] = len(way)
                way.append(name)
                stack.append((name, True))
                stack += [(other, False) for other in reversed(dict.fromkeys(used[name]))]
    return order, cycles
