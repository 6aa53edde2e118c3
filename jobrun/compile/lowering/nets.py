"""Lower nets and their uses: refuse recursion, pass parameters, rename names, share set-up.

Nets are named lists of steps; each use has a copy of them. Remote nets are uses which a session
keeps on nodes and runs on request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field
from msgspec.structs import replace

from jobrun.compile.faults import Faults, SpecPosition
from jobrun.compile.lowering.context import Context, Env, NetDef, StepPosition
from jobrun.compile.lowering.expressions import ExpressionLowering
from jobrun.core.interpreter import lazy_module
from jobrun.core.text.names import did_you_mean
from jobrun.graph.expressions import Attribute, Call, Expr, Index, Name
from jobrun.graph.query import blocks, expressions, op_expressions, walk
from jobrun.graph.steps import Assign, Loop, NameTarget, Net, Op, Step, UseNet, While
from jobrun.graph.traversal import walk_expr
from jobrun.graph.types import RemoteNet, SetupNets
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.ops.operator_table import OPERATORS
from jobrun.spec.models.job import JobSpec
from jobrun.spec.yaml.nodes import Path, SourceMap, path_text

if TYPE_CHECKING:
    from jobrun.spec.models import control_flow
    from jobrun.spec.models import steps as models
    from jobrun.spec.models.optional_parts import NetSpec
    from jobrun.spec.models.optional_parts import RemoteNet as RemoteSpec
    from jobrun.spec.models.steps import Step as StepSpec
    from jobrun.spec.models.steps import Steps
else:
    # Most steps are statements, which are text.
    models = lazy_module("jobrun.spec.models.steps")
    control_flow = lazy_module("jobrun.spec.models.control_flow")

# More steps than any real job has, but few enough for memory.
_MAX_STEPS = 1_000_000
# Operators that change or read a counter.
_COUNTING = frozenset(name for name, operator in OPERATORS.items() if operator.atomic) | {
    "count_value"
}


def build_net_table(spec: JobSpec, source: SourceMap, faults: Faults) -> dict[str, NetDef]:
    """Build the table of the spec's nets (lists of steps); refuse recursive ones."""
    used = {name: _used_names(net) for name, net in spec.nets.items()}
    order, cycles = _sort_inner_first(used)
    for cycle in cycles:
        shown = " -> ".join(cycle)
        spec_position = SpecPosition(path_text(("nets", cycle[0])), source.key(("nets", cycle[0])))
        message = f"net '{cycle[0]}' uses itself: {shown}"
        faults.error("E143", message, "use a loop: a net cannot be recursive", spec_position)
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
    setup = {str(level): declared for level, declared in net.setup.items()}
    path = ("nets", name, "steps")
    return NetDef(name, net.steps, path, own_names, net.inputs, net.outputs, setup)


def _used_names(net: Steps | NetSpec) -> list[str]:
    """Return the names of the nets that a net uses, each as often as it is used."""
    steps = (step for step in _all_steps(_all_of(net)) if not isinstance(step, str))
    return [step.net for step in steps if isinstance(step, models.NetStep)]


def _own_size(net: Steps | NetSpec) -> int:
    return sum(1 for _ in _all_steps(_all_of(net)))


def _all_of(net: Steps | NetSpec) -> Steps:
    if isinstance(net, tuple):
        return net
    return net.steps + tuple(
        step for setup in net.setup.values() for step in (*setup.init, *setup.exit)
    )


def _all_steps(steps: Steps) -> Iterator[StepSpec]:
    """Yield all steps of a net in the spec, with the steps nested in them."""
    for step in steps:
        yield step
        for block in _inner_lists(step):
            yield from _all_steps(block)


def _inner_lists(step: StepSpec) -> tuple[Steps, ...]:
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
    """Sort the nets so that each comes after the nets it uses; return the cycles."""
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


class Lowering(Protocol):
    """What lowers the steps of nets, and of their set-up."""

    def steps(self, specs: models.Steps, at: Path, prefix: str, env: Env) -> tuple[Step, ...]:
        """Lower a list of steps of a net."""
        ...

    def setup(self, spec: models.SetupSpec, at: Path, path: str, env: Env) -> SetupNets:
        """Lower the init steps and the exit steps of a net's set-up."""
        ...


class Parameters(Struct):
    """The use that a net's steps make of its parameters.

    Attributes:
        names: Name in the steps → parameter.
        counted: Those that are passed to operators on counters.
        changed: Those whose value is changed in place, with the place.
        bound: Those that are bound again, with the last position; None if that value is read.
    """

    names: Mapping[str, str]
    counted: set[str] = field(default_factory=set)
    changed: dict[str, SpecPosition] = field(default_factory=dict)
    bound: dict[str, SpecPosition | None] = field(default_factory=dict)

    def scan(self, steps: tuple[Step, ...]) -> set[str]:
        """Scan a net's lowered steps for the parameters that they read before binding."""
        read: set[str] = set()
        for step in steps:
            parts = step.ops if isinstance(step, Net) else (step,)
            for part in parts:
                read |= self._touch(part)
            inner = {name for block in blocks(step) for name in self.scan(block)}
            if isinstance(step, Loop | While):
                # The next iteration may read what this one binds.
                self._read(inner)
            read |= inner
        return read

    def _touch(self, part: Step | Op) -> set[str]:
        is_step = not isinstance(part, Op)
        access = ACCESS_FINDER.of_step(part) if is_step else ACCESS_FINDER.of_op(part)  # type: ignore[arg-type]
        exprs = expressions(part) if is_step else op_expressions(part)  # type: ignore[arg-type]
        spec_position = SpecPosition(part.path, part.origin)
        bound = {*access.binds, *access.deletes}
        names = {self.names[name] for name in {*access.reads} - bound if name in self.names}
        changed = {self.names[name] for name in {*access.changes} - bound if name in self.names}
        self._read(names - changed)
        for name in changed:
            self.changed.setdefault(name, spec_position)
        for name in bound & self.names.keys():
            self.bound[self.names[name]] = spec_position
        for expr in exprs:
            for inner in walk_expr(expr):
                if isinstance(inner, Call) and inner.function in _COUNTING and inner.args:
                    counter = inner.args[0]
                    if isinstance(counter, Name) and counter.name in self.names:
                        self.counted.add(self.names[counter.name])
        return names - changed

    def _read(self, names: set[str]) -> None:
        for name in names & self.bound.keys():
            self.bound[name] = None

    @property
    def counters(self) -> set[str]:
        """Return a net's parameters used as counters only, which are not copied."""
        return self.counted - self.changed.keys() - self.bound.keys()

    def dropped(self) -> dict[str, SpecPosition]:
        """Map each parameter that a net assigns and then never reads to the last assignment."""
        return {
            name: spec_position
            for name, spec_position in self.bound.items()
            if spec_position is not None
        }


class NetRenaming(Struct, frozen=True):
    """The renaming of a net's own names, for one use of it.

    Names that the net's set-up makes are shared by all uses in a task; the others are new
    at each use, so that no use sees what an earlier one left. Counters are passed by reference:
    ``counters`` has the caller's name of each parameter that is one.
    """

    net: str
    use: str
    shared: frozenset[str] = frozenset()
    counters: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, name: str) -> str:
        """Return the new name of a net's blob, as renamed for one use of the net."""
        if name in self.counters:
            return self.counters[name]
        return f"nets/{self.net}:{name}" if name in self.shared else f"{self.use}:{name}"


class NetLowering:
    """Lowers steps that use nets, and the set-up of the nets that are used.

    Args:
        context: Has the table of nets.
        read: Lowers expressions.
        steps: Lowers the steps of nets.
        look_ahead: Returns what lowers nets ahead of their use; its faults are discarded.
    """

    def __init__(
        self,
        context: Context,
        read: ExpressionLowering,
        steps: Lowering,
        look_ahead: Callable[[], Lowering],
    ) -> None:
        self._context = context
        self._faults = context.faults
        self._read = read
        self._steps = steps
        self._look_ahead = look_ahead
        self._ahead: Lowering | None = None
        self._expanded = 0
        self._used: set[str] = set()
        self._setups: dict[tuple[str, str], tuple[SetupNets, tuple[str, ...]]] = {}
        self._shared: dict[str, frozenset[str]] = {}
        self._parameters: dict[str, Parameters] = {}
        self._props = {node.name: node.props for node in context.nodes.cluster}

    def setups(self, used: dict[str, None], level: str) -> tuple[SetupNets, ...]:
        """Lower the ``setup`` of each used net at a level: node, task or instance."""
        nets = [self._context.nets[name] for name in used]
        return tuple(self._setup(net, level)[0] for net in nets if level in net.setup)

    def _setup(self, net: NetDef, level: str) -> tuple[SetupNets, tuple[str, ...]]:
        """Lower a net's ``setup`` at one level (node, task or instance), and cache it."""
        key = (net.name, level)
        if key not in self._setups:
            names = self._shared_names(net)
            rename = NetRenaming(net.name, f"nets/{net.name}", names) if net.own_names else None
            env = Env((), rename=rename, nets=(net.name,))
            at = (*_path(net), "setup", level)
            path = f"nets/{net.name}/setup.{level}"
            self._setups[key] = (
                self._steps.setup(net.setup[level], at, path, env),
                tuple(env.used),
            )
        return self._setups[key]

    def _shared_names(self, net: NetDef) -> frozenset[str]:
        """Find the blobs that a net's ``setup`` makes, which all uses of the net share."""
        if net.name not in self._shared:
            bound: set[str] = set()
            for level, setup in net.setup.items():
                at = (*_path(net), "setup", level)
                lowered = self._steps.setup(setup, at, f"nets/{net.name}/setup.{level}", Env(()))
                for step in walk((*lowered.init, *lowered.exit)):
                    bound.update(ACCESS_FINDER.of_step(step).binds)
            self._shared[net.name] = frozenset(bound)
        return self._shared[net.name]

    def use(self, spec: models.NetStep, position: StepPosition, env: Env) -> Step | None:
        """Lower a step that uses a net to the net's steps; return None after a fault."""
        net = self._context.nets.get(spec.net)
        if net is None:
            mend = did_you_mean(spec.net, self._context.nets)
            where = self._context.inside(position, "net")
            self._faults.error("E145", f"unknown net '{spec.net}'", mend, where)
            return None
        self._used.add(net.name)
        if not net.sound or not self._check_interface(spec, net, position):
            return None
        self._expanded += net.size
        if self._expanded > _MAX_STEPS:
            message = f"the nets expand to more than {_MAX_STEPS:,} steps"
            self._faults.error("E146", message, "use a loop instead of nested nets", position)
            return None
        self._note_use(net, env)
        return self._inline(spec, net, position, env)

    def check_all(self) -> None:
        """Check that all nets (named lists of steps) are used, and name valid parameters."""
        inner = {name for net in self._context.nets.values() for name in net.uses}
        for name, net in self._context.nets.items():
            for key, declared in (("in", net.inputs), ("out", net.outputs)):
                for index, parameter in enumerate(declared):
                    spec_position = self._context.spec_position(
                        f"nets.{name}", *_path(net), key, index
                    )
                    self._context.check_blob_name(parameter, spec_position)
            if name not in self._used and name not in inner and net.sound:
                spec_position = SpecPosition(f"nets.{name}", self._context.source.key(_path(net)))
                mend = f"remove it, or use it: {{net: {name}}}"
                self._faults.warn("W134", f"net '{name}' is unused", mend, spec_position)
                self._read_unused(net)

    def _read_unused(self, net: NetDef) -> None:
        """Lower the steps of a net that no step uses, only to report the faults in them."""
        path = f"nets/{net.name}"
        env = Env((("task", path),), loops=(path,), nets=(net.name,), is_loose=True)
        self._steps.steps(net.steps, net.steps_path, f"{path}/steps", env)

    def remote(self, entries: Sequence[RemoteSpec], group: str) -> tuple[RemoteNet, ...]:
        """Lower a group's ``remote`` entries to remote nets, one for each node."""
        return tuple(
            net
            for index, entry in enumerate(entries)
            for net in self._remote_entry(
                entry, (group, "remote", index), f"{group}/remote[{index}]"
            )
        )

    def _remote_entry(self, entry: RemoteSpec, at: Path, path: str) -> list[RemoteNet]:
        source, faults = self._context.source, self._context.faults
        nodes = self._context.nodes.resolve(
            entry.node, SpecPosition(path, source.at((*at, "node"))), faults
        )
        spec_position = SpecPosition(path, source.at((*at, "net")))
        net = self._context.nets.get(entry.net)
        if net is None:
            mend = did_you_mean(entry.net, self._context.nets)
            faults.error("E145", f"unknown net '{entry.net}'", mend, spec_position)
            return []
        self._used.add(net.name)
        if not net.sound:
            return []
        used: dict[str, None] = {net.name: None}
        # There is no task around it: a stop leaves the net itself.
        env = Env((("", path),), nets=(net.name,), used=used)
        steps = self._steps.steps(net.steps, net.steps_path, f"{path}.{net.name}", env)
        setup = tuple(
            setup_nets
            for level in ("node", "task", "instance")
            for setup_nets in self.setups(used, level)
        )
        origin = source.at(at)
        nets = [
            RemoteNet(net.name, node, steps, self._props[node], setup, path, origin)
            for node in nodes
        ]
        for remote_net in nets[:1]:
            check_remote_reads(remote_net, faults)
        message = f"the remote net '{net.name}' does not run in the session 'threads'"
        mend = "use a session whose nodes answer requests, or use the net in a task"
        faults.warn("W136", message, mend, spec_position)
        return nets

    def _note_use(self, net: NetDef, env: Env) -> None:
        if net.name in env.used:
            return
        env.used[net.name] = None
        for level in net.setup:
            for other in self._setup(net, level)[1]:
                env.used.setdefault(other)

    def _inline(self, spec: models.NetStep, net: NetDef, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
        if not net.own_names:
            steps = self._steps.steps(
                net.steps, net.steps_path, f"{path}.{net.name}", env.net(net.name, None)
            )
            return UseNet(net.name, steps, path, origin)
        arguments = {
            name: self._read.expression(value, (*at, "in", name), path, env)
            for name, value in spec.inputs.items()
        }
        parameters = self._find_parameters(net)
        counters = {
            name: value.name
            for name, value in arguments.items()
            if name in parameters.counters and isinstance(value, Name)
        }
        rename = NetRenaming(net.name, path, self._shared_names(net), counters)
        self._check_received(spec, arguments, parameters, position)
        before = [
            Assign((NameTarget(rename(name)),), value, path, origin)
            for name, value in arguments.items()
            if name not in counters
        ]
        prefix = f"{path}.{net.name}"
        steps = self._steps.steps(net.steps, net.steps_path, prefix, env.net(net.name, rename))
        after = []
        for name, blob in spec.outputs.items():
            target = self._read.blob(blob, position, env)
            if target != rename(name):
                after.append(Assign((NameTarget(target),), Name(rename(name)), path, origin))
        return UseNet(net.name, _surround(before, steps, after), path, origin)

    def _find_parameters(self, net: NetDef) -> Parameters:
        """Lower a net's steps before its use, to find parameters that they read or change."""
        parameters = self._parameters.get(net.name)
        if parameters is None:
            self._ahead = ahead = self._ahead or self._look_ahead()
            path = f"nets/{net.name}"
            rename = NetRenaming(net.name, path, self._shared_names(net))
            env = Env(
                (("task", path),), loops=(path,), rename=rename, nets=(net.name,), is_loose=True
            )
            steps = (
                ahead.steps(net.steps, net.steps_path, f"{path}/steps", env) if net.inputs else ()
            )
            parameters = Parameters({rename(name): name for name in net.inputs})
            parameters.scan(steps)
            self._parameters[net.name] = parameters
        return parameters

    def _check_received(
        self,
        spec: models.NetStep,
        arguments: dict[str, Expr],
        parameters: Parameters,
        position: StepPosition,
    ) -> None:
        """Check that a step that uses a net takes back in ``out`` what the net changes."""
        # A view of a blob would change the blob.
        for kinds, parts in ((parameters.changed, True), (parameters.dropped(), False)):
            for name, where in kinds.items():
                value = arguments.get(name)
                while parts and isinstance(value, Index | Attribute):
                    value = value.value
                if not isinstance(value, Name) or name in spec.outputs:
                    continue
                blob = value.name.rpartition(":")[2]
                self._faults.error(
                    "E511",
                    f"net '{spec.net}' changes its parameter '{name}' at "
                    f"{where.origin}, but the change is lost: '{blob}' is not changed",
                    f"add '{name}' to the net's 'out', and out: {{{name}: {blob}}} here; or make "
                    "the net a plain list of steps, which uses the blobs of the caller; or "
                    "change a copy",
                    position,
                )

    def _check_interface(self, spec: models.NetStep, net: NetDef, position: StepPosition) -> bool:
        name = net.name
        if not net.own_names:
            if spec.inputs or spec.outputs:
                mend = f"write {{net: {name}}}, or declare 'in' and 'out' on the net"
                message = f"net '{name}' uses the blobs of the caller and takes no 'in' or 'out'"
                self._faults.error("E147", message, mend, position)
            return not (spec.inputs or spec.outputs)
        problems = [
            (f"net '{name}' has no {noun} '{parameter}'", did_you_mean(parameter, declared))
            for passed, declared, noun in (
                (spec.inputs, net.inputs, "parameter"),
                (spec.outputs, net.outputs, "result"),
            )
            for parameter in passed
            if parameter not in declared
        ]
        problems += [
            (
                f"net '{name}' is missing a value for parameter '{parameter}'",
                f"write in: {{{parameter}: …}}",
            )
            for parameter in net.inputs
            if parameter not in spec.inputs
        ]
        for message, mend in problems:
            self._faults.error("E147", message, mend, position)
        return not problems


def _surround(
    before: list[Assign], steps: tuple[Step, ...], after: list[Assign]
) -> tuple[Step, ...]:
    """Put assignments of inputs and outputs around the lowered steps of a used net."""
    first = steps[0] if steps else None
    if before and isinstance(first, Net):
        steps = (Net((*before, *first.ops), before[0].path, before[0].origin), *steps[1:])
    elif before:
        steps = (Net(tuple(before), before[0].path, before[0].origin), *steps)
    last = steps[-1] if steps else None
    if after and isinstance(last, Net):
        return (*steps[:-1], Net((*last.ops, *after), last.path, last.origin))
    return (*steps, Net(tuple(after), after[0].path, after[0].origin)) if after else steps


def check_remote_reads(net: RemoteNet, faults: Faults) -> None:
    """Refuse reads of task outputs in a remote net: they are on their own node only."""
    setup_steps = [part for setup in net.setup for part in (setup.init, setup.exit)]
    for step in (step for block in (net.steps, *setup_steps) for step in walk(block)):
        for read in ACCESS_FINDER.of_step(step).outputs:
            message = f"a remote net cannot read the output '{read.task}.{read.output}'"
            mend = "read a blob of the node instead"
            faults.error("E125", message, mend, SpecPosition(step.path, step.origin))


def _path(net: NetDef) -> Path:
    return ("nets", net.name)
