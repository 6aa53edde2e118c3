"""From the steps of a spec to those of the graph: blocks, branches, stops and nets.

Steps that stand for themselves (operators, callables, files, log lines) are in ``effects``.
"""

from __future__ import annotations

from types import NoneType
from typing import assert_never

from jobrun.compile.context import FINDER, Context, Env, OwnNames
from jobrun.compile.effects import Effects
from jobrun.compile.faults import Place
from jobrun.compile.nets import MOST_STEPS, NetDef
from jobrun.compile.reading import Reading
from jobrun.core.names import did_you_mean
from jobrun.core.origin import Origin
from jobrun.graph.expr import Const, Expr, Name
from jobrun.graph.query import walk
from jobrun.graph.steps import (
    Assign,
    Augment,
    Delete,
    Guard,
    If,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Perform,
    Step,
    Stop,
    UseNet,
    While,
)
from jobrun.graph.types import SetupNets
from jobrun.spec.source import Path
from jobrun.spec.steps import (
    AssertStep,
    CallStep,
    GuardStep,
    IfStep,
    LoadStep,
    LogStep,
    LoopStep,
    MetricStep,
    NetStep,
    OpStep,
    ParallelStep,
    PullStep,
    RunStep,
    SaveStep,
    SetupSpec,
    Steps,
    StopIfStep,
    StopStep,
    WhileStep,
)
from jobrun.spec.steps import Step as StepSpec

_DEEPEST = 64


class StepLowering:
    """Turns lists of steps into graph steps; notes faults and leaves out what has them."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._faults = context.faults
        self.read = Reading(context)
        self._effects = Effects(context, self.read)
        self._expanded = 0
        # Every net that was used so far.
        self.used: set[str] = set()
        self._setups: dict[tuple[str, str], tuple[SetupNets, tuple[str, ...]]] = {}
        self._shared: dict[str, frozenset[str]] = {}

    def steps(self, specs: Steps, at: Path, prefix: str, env: Env) -> tuple[Step, ...]:
        """Lower a list of steps.

        Args:
            specs: The steps.
            at: Where the list stands in the spec.
            prefix: The path of step ``i`` is ``prefix[i]``.
            env: What is around it.
        """
        found: list[Step] = []
        run: list[Op] = []
        for index, spec in enumerate(specs):
            step = self._step(spec, (*at, index), f"{prefix}[{index}]", env)
            if isinstance(step, Assign | Augment | Perform | Delete):
                run.append(step)
                continue
            if run:
                found.append(_net(run))
                run = []
            if step is not None:
                found.append(step)
        return (*found, _net(run)) if run else tuple(found)

    def setup(self, spec: SetupSpec, at: Path, path: str, env: Env) -> SetupNets:
        """Lower the init and exit parts of a set-up; their blocks are ``path.init`` and ``.exit``.

        ``env`` says which nets and names are around it; its blocks are not reachable.
        """
        parts = []
        for part, steps in (("init", spec.init), ("exit", spec.exit)):
            block = f"{path}.{part}"
            inner = Env(((("", block),)), rename=env.rename, nets=env.nets, used=env.used)
            parts.append(self.steps(steps, (*at, part), block, inner))
        return SetupNets(parts[0], parts[1], path)

    def net_setups(self, used: dict[str, None], level: str) -> tuple[SetupNets, ...]:
        """The set-up of one level that the nets in ``used`` bring along, each once."""
        nets = [self._context.nets[name] for name in used]
        return tuple(self._net_setup(net, level)[0] for net in nets if level in net.setup)

    def _net_setup(self, net: NetDef, level: str) -> tuple[SetupNets, tuple[str, ...]]:
        """A net's set-up of a level, and the nets which that uses."""
        key = (net.name, level)
        if key not in self._setups:
            names = self._shared_names(net)
            rename = OwnNames(net.name, f"nets/{net.name}", names) if net.own_names else None
            env = Env((), rename=rename, nets=(net.name,))
            at = (*net.path, "setup", level)
            path = f"nets/{net.name}/setup.{level}"
            self._setups[key] = (self.setup(net.setup[level], at, path, env), tuple(env.used))
        return self._setups[key]

    def _shared_names(self, net: NetDef) -> frozenset[str]:
        """The names that a net's own set-up binds, as written."""
        if net.name not in self._shared:
            bound: set[str] = set()
            for level, setup in net.setup.items():
                at = (*net.path, "setup", level)
                lowered = self.setup(setup, at, f"nets/{net.name}/setup.{level}", Env(()))
                for step in walk((*lowered.init, *lowered.exit)):
                    bound.update(FINDER.of_step(step).binds)
            self._shared[net.name] = frozenset(bound)
        return self._shared[net.name]

    def _step(  # noqa: C901, PLR0912 - one case per kind of a closed union
        self, spec: StepSpec, at: Path, path: str, env: Env
    ) -> Step | Op | None:
        if isinstance(spec, str) and spec.strip() != "stop":
            # First, because most steps are statements.
            return self.read.statement(spec, at, path, env)
        origin = self._context.source.at(at)
        place = Place(path, origin)
        if env.depth > _DEEPEST:
            self._faults.error("E144", f"more than {_DEEPEST} steps inside each other",
                               "move inner steps out", place)  # fmt: skip
            return None
        match spec:
            case str():
                return self._stop(None, None, place, origin, env)
            case OpStep():
                return self._effects.operator(spec, at, place, env)
            case LoopStep():
                return self._loop(spec, at, place, origin, env)
            case WhileStep():
                return self._while(spec, at, place, origin, env)
            case IfStep():
                return self._if(spec, at, path, origin, env)
            case GuardStep():
                return self._guard(spec, at, place, origin, env)
            case ParallelStep():
                return self._parallel(spec, at, path, origin, env)
            case StopIfStep():
                condition = self.read.condition(spec.stop_if, (*at, "stop_if"), path, env)
                return self._stop(spec.block, condition, place, origin, env)
            case StopStep():
                return self._stop(spec.stop, None, place, origin, env)
            case NetStep():
                return self._use_net(spec, at, place, origin, env)
            case (
                CallStep() | RunStep() | LoadStep() | SaveStep() | LogStep() | MetricStep()
                | AssertStep() | PullStep()
            ):  # fmt: skip
                return self._effects.step(spec, at, place, env)
            case _:
                assert_never(spec)

    def _loop(self, spec: LoopStep, at: Path, place: Place, origin: Origin, env: Env) -> Step:
        path = place.path
        count: Expr | None = None
        if spec.loop != "forever":
            count = self.read.expression(spec.loop, (*at, "loop"), path, env)
            if isinstance(count, Const) and type(count.value) not in (int, NoneType):
                message = f"a loop's count must be a whole number, not {count.value!r}"
                self._faults.error("E155", message, "give an int, or 'forever'", place)
        self._check_name(spec.name, place, env)
        inner = env.loop(spec.name, path, self._index(spec.index, place, env))
        body = self.steps(spec.steps, (*at, "steps"), f"{path}.steps", inner)
        return Loop(count, body, path, origin)

    def _while(self, spec: WhileStep, at: Path, place: Place, origin: Origin, env: Env) -> Step:
        path = place.path
        condition = self.read.condition(spec.condition, (*at, "while"), path, env)
        self._check_name(spec.name, place, env)
        inner = env.loop(spec.name, path, self._index(spec.index, place, env))
        body = self.steps(spec.steps, (*at, "steps"), f"{path}.steps", inner)
        return While(condition, body, path, origin)

    def _guard(self, spec: GuardStep, at: Path, place: Place, origin: Origin, env: Env) -> Step:
        path = place.path
        name = spec.name or spec.guard
        self._check_name(name, place, env)
        flag = self.read.blob(spec.guard, place, env)
        body = self.steps(spec.steps, (*at, "steps"), f"{path}.steps", env.block(name, path))
        return Guard(flag, body, path, origin)

    def _if(self, spec: IfStep, at: Path, path: str, origin: Origin, env: Env) -> Step:
        inner = env.branch()
        branches = []
        written = [(spec.condition, spec.then, at, path)]
        written += [
            (branch.condition, branch.then, (*at, "elif", i), f"{path}.elif[{i}]")
            for i, branch in enumerate(spec.elifs)
        ]
        for condition, then, where, way in written:
            read = self.read.condition(condition, (*where, "if"), path, env)
            branches.append((read, self.steps(then, (*where, "then"), f"{way}.then", inner)))
        otherwise = self.steps(spec.otherwise, (*at, "else"), f"{path}.else", inner)
        return If(tuple(branches), otherwise, path, origin)

    def _parallel(self, spec: ParallelStep, at: Path, path: str, origin: Origin, env: Env) -> Step:
        branches = tuple(
            self.steps(
                steps, (*at, "parallel", i), f"{path}[{i}].steps", env.block(None, f"{path}[{i}]")
            )
            for i, steps in enumerate(spec.parallel)
        )
        return Parallel(branches, path, origin)

    def _stop(
        self, name: str | None, condition: Expr | None, place: Place, origin: Origin, env: Env
    ) -> Step | None:
        target = env.target(name)
        if target is None and env.is_loose:
            return None
        if target is None:
            known = [given for given, _ in env.blocks if given]
            self._faults.error("E156", f"no block around this step is named '{name}'",
                               did_you_mean(str(name), known), place)  # fmt: skip
            return None
        return Stop(condition, target, place.path, origin)

    def _index(self, index: str | None, place: Place, env: Env) -> str | None:
        if index is not None:
            self._context.check_blob_name(index, place)
            if index in env.indices:
                self._faults.error("E157", f"an outer loop counts with '{index}' already",
                                   "give one of the two another name", place)  # fmt: skip
        return index

    def _check_name(self, name: str | None, place: Place, env: Env) -> None:
        taken = [given for given, _ in env.blocks]
        if name is not None and (name in taken or name == "task"):
            self._faults.error("E157", f"a block around this one is named '{name}' already",
                               "give one of the two another name", place)  # fmt: skip

    def _use_net(
        self, spec: NetStep, at: Path, place: Place, origin: Origin, env: Env
    ) -> Step | None:
        net = self._context.nets.get(spec.net)
        if net is None:
            mend = did_you_mean(spec.net, self._context.nets)
            where = Place(place.path, self._context.source.at((*at, "net")))
            self._faults.error("E145", f"unknown net '{spec.net}'", mend, where)
            return None
        self.used.add(net.name)
        if not net.sound or not self._check_interface(spec, net, place):
            return None
        self._expanded += net.size
        if self._expanded > MOST_STEPS:
            self._faults.error("E146", f"the nets come to more than {MOST_STEPS:,} steps",
                               "use a loop instead of nets within nets", place)  # fmt: skip
            return None
        self._note_use(net, env)
        return self._inlined(spec, net, at, place, origin, env)

    def read_net(self, net: NetDef) -> None:
        """Read a net that nothing uses, for its faults."""
        path = f"nets/{net.name}"
        env = Env((("task", path),), loops=(path,), nets=(net.name,), is_loose=True)
        self.steps(net.steps, net.steps_path, f"{path}/steps", env)

    def _note_use(self, net: NetDef, env: Env) -> None:
        if net.name in env.used:
            return
        env.used[net.name] = None
        for level in net.setup:
            for other in self._net_setup(net, level)[1]:
                env.used.setdefault(other)

    def _inlined(
        self, spec: NetStep, net: NetDef, at: Path, place: Place, origin: Origin, env: Env
    ) -> Step:
        path = place.path
        rename = OwnNames(net.name, path, self._shared_names(net)) if net.own_names else None
        inner = env.net(net.name, rename)
        steps = self.steps(net.steps, net.steps_path, f"{path}.{net.name}", inner)
        if rename is None:
            return UseNet(net.name, steps, path, origin)
        before = []
        for name, value in spec.inputs.items():
            given = self.read.expression(value, (*at, "in", name), path, env)
            before.append(Assign((NameTarget(rename(name)),), given, path, origin))
        after = []
        for name, blob in spec.outputs.items():
            target = NameTarget(self.read.blob(blob, place, env))
            after.append(Assign((target,), Name(rename(name)), path, origin))
        return UseNet(net.name, _between(before, steps, after), path, origin)

    def _check_interface(self, spec: NetStep, net: NetDef, place: Place) -> bool:
        name = net.name
        if not net.own_names:
            if spec.inputs or spec.outputs:
                mend = f"write {{net: {name}}}, or declare 'in' and 'out' at the net"
                message = f"net '{name}' works on the caller's names, and takes no 'in' or 'out'"
                self._faults.error("E147", message, mend, place)
                return False
            return True
        sound = True
        for given, declared, what in (
            (spec.inputs, net.inputs, "parameter"), (spec.outputs, net.outputs, "result"),
        ):  # fmt: skip
            for one in given:
                if one not in declared:
                    self._faults.error("E147", f"net '{name}' has no {what} '{one}'",
                                       did_you_mean(one, declared), place)  # fmt: skip
                    sound = False
        for one in net.inputs:
            if one not in spec.inputs:
                self._faults.error("E147", f"net '{name}' needs a value for its parameter '{one}'",
                                   f"write in: {{{one}: …}}", place)  # fmt: skip
                sound = False
        return sound


def _net(run: list[Op]) -> Net:
    return Net(tuple(run), run[0].path, run[0].origin)


def _between(
    before: list[Assign], steps: tuple[Step, ...], after: list[Assign]
) -> tuple[Step, ...]:
    """Steps with operators before and behind them, joined to nets they touch."""
    first = steps[0] if steps else None
    if before and isinstance(first, Net):
        steps = (Net((*before, *first.ops), before[0].path, before[0].origin), *steps[1:])
    elif before:
        steps = (_net([*before]), *steps)
    last = steps[-1] if steps else None
    if after and isinstance(last, Net):
        return (*steps[:-1], Net((*last.ops, *after), last.path, last.origin))
    return (*steps, _net([*after])) if after else steps
