"""Build the table of a spec's nets: which use which, how large, and which are recursive."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING

from jobrun.compile.faults import Faults, Place
from jobrun.core.lazy_dataclass import dataclass, replace
from jobrun.core.lazy_module import lazy_module
from jobrun.spec.models.job import JobSpec
from jobrun.spec.yaml.nodes import Path, SourceMap, path_text

if TYPE_CHECKING:
    from jobrun.spec.models import control_flow
    from jobrun.spec.models import steps as models
    from jobrun.spec.models.optional_parts import NetSpec
    from jobrun.spec.models.steps import SetupSpec, Step, Steps
else:
    # Most steps are statements, which are text.
    models = lazy_module("jobrun.spec.models.steps")
    control_flow = lazy_module("jobrun.spec.models.control_flow")

# More steps than any real job has, and few enough for memory.
MAX_STEPS = 1_000_000


@dataclass(frozen=True, slots=True)
class NetDef:
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

    @property
    def path(self) -> Path:
        """Return the spec path of a net in the net table: ``nets``, then the net's name."""
        return ("nets", self.name)


def build_net_table(spec: JobSpec, source: SourceMap, faults: Faults) -> dict[str, NetDef]:
    """Build the table of a spec's nets (named lists of steps); refuse nets that use themselves."""
    used = {name: _used_names(net) for name, net in spec.nets.items()}
    order, cycles = _sort_inner_first(used)
    for cycle in cycles:
        shown = " -> ".join(cycle)
        place = Place(path_text(("nets", cycle[0])), source.key(("nets", cycle[0])))
        faults.error(
            "E143",
            f"net '{cycle[0]}' uses itself: {shown}",
            "use a loop: a net cannot be recursive",
            place,
        )
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
    if isinstance(net, tuple):
        return NetDef(name, net, ("nets", name))
    # Without 'in' and 'out' it uses the names of its caller, like a plain list; otherwise such a
    # net could not have set-up.
    own_names = bool({"inputs", "outputs"} & net.model_fields_set)
    setup = {str(level): one for level, one in net.setup.items()}
    path = ("nets", name, "steps")
    return NetDef(name, net.steps, path, own_names, net.inputs, net.outputs, setup)


def _used_names(net: Steps | NetSpec) -> list[str]:
    """Return the names of nets that a net of the table uses, each as often as it is used."""
    steps = (step for step in all_steps(_all_of(net)) if not isinstance(step, str))
    return [step.net for step in steps if isinstance(step, models.NetStep)]


def _own_size(net: Steps | NetSpec) -> int:
    return sum(1 for _ in all_steps(_all_of(net)))


def _all_of(net: Steps | NetSpec) -> Steps:
    if isinstance(net, tuple):
        return net
    return net.steps + tuple(
        step for setup in net.setup.values() for step in (*setup.init, *setup.exit)
    )


def all_steps(steps: Steps) -> Iterator[Step]:
    """Yield all steps of a net, nested ones too, from which the net table has its size and uses."""
    for step in steps:
        yield step
        for block in _blocks(step):
            yield from all_steps(block)


def _blocks(step: Step) -> tuple[Steps, ...]:
    if isinstance(step, str):
        return ()
    match step:
        case models.OpStep() | models.NetStep() | models.EffectStep():
            return ()
        case control_flow.LoopStep() | control_flow.WhileStep() | control_flow.GuardStep():
            return (step.steps,)
        case control_flow.IfStep():
            return (step.then, *(branch.then for branch in step.elifs), step.otherwise)
        case control_flow.ParallelStep():
            return step.parallel
        case _:
            return ()


def _sort_inner_first(used: dict[str, list[str]]) -> tuple[list[str], list[list[str]]]:
    """Sort the nets so that each comes after the nets it uses; return cycles of recursive nets."""
    order: list[str] = []
    cycles: list[list[str]] = []
    done: set[str] = set()
    for start in used:
        # An explicit stack: a chain of nets may be longer than Python's own.
        stack_path: list[str] = []
        on_path: dict[str, int] = {}
        stack: list[tuple[str, bool]] = [(start, False)]
        while stack:
            name, leaving = stack.pop()
            if leaving:
                stack_path.pop()
                del on_path[name]
                done.add(name)
                order.append(name)
            elif name in on_path:
                cycles.append([*stack_path[on_path[name] :], name])
            elif name not in done and name in used:
                on_path[name] = len(stack_path)
                stack_path.append(name)
                stack.append((name, True))
                stack += [(other, False) for other in reversed(dict.fromkeys(used[name]))]
    return order, cycles
