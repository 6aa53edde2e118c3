"""Lower the steps of a spec: effects such as ``call`` and ``run``, blocks, loops and conditions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import is_
from types import NoneType
from typing import TYPE_CHECKING, Any, assert_never

from msgspec.structs import replace

from jobrun.compile.expressions.calls import require_valid_call
from jobrun.compile.expressions.translate import UNREADABLE
from jobrun.compile.faults import Faults
from jobrun.compile.job_draft.definite_assignment import RepeatedFlow
from jobrun.compile.lowering.context import Context, Env, StepPosition
from jobrun.compile.lowering.expressions import ExpressionLowering
from jobrun.core.file_formats import find_misfit
from jobrun.core.interpreter import lazy_module
from jobrun.core.text.names import did_you_mean
from jobrun.graph.expression_text import render_text
from jobrun.graph.expressions import Call, Const, Expr, Name, Text
from jobrun.graph.steps import (
    Assign,
    CallPython,
    DataFile,
    Guard,
    If,
    Load,
    Loop,
    NameTarget,
    Net,
    Op,
    Parallel,
    Perform,
    Pull,
    PulledBlob,
    RunProgram,
    Save,
    Step,
    Stop,
    While,
)
from jobrun.graph.types import SetupNets
from jobrun.ops.definition import MANY, OpDef
from jobrun.ops.operator_table import OPERATORS, find_operator
from jobrun.spec.yaml.nodes import Path

if TYPE_CHECKING:
    from jobrun.compile.lowering.nets import NetLowering
    from jobrun.compile.lowering.repeated_steps import RepeatedSteps
    from jobrun.spec.models import control_flow
    from jobrun.spec.models import steps as models
else:
    # Most steps are statements, which are text.
    models = lazy_module("jobrun.spec.models.steps")
    control_flow = lazy_module("jobrun.spec.models.control_flow")

_MAX_DEPTH = 64
# From this many tasks on, reusing the lowered steps of earlier tasks is worth the memory.
_MANY_TASKS = 50


class StepLowering:
    """Lowers lists of steps; leaves out the steps that have faults."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._faults = context.faults
        self.read = ExpressionLowering(context)
        self._effects = EffectLowering(context, self.read)
        self._repeated: RepeatedSteps | None = None
        self._nets: NetLowering | None = None
        self._is_ahead = False

    @property
    def nets(self) -> NetLowering:
        """Return the object that lowers ``net`` steps; import its module at the first use."""
        if self._nets is None:
            from jobrun.compile.lowering.nets import NetLowering  # noqa: PLC0415 - of jobs with nets

            self._nets = NetLowering(self._context, self.read, self, self._look_ahead)
        return self._nets

    def _look_ahead(self) -> StepLowering:
        """Return the object that lowers a net's steps in advance, without adding faults."""
        if self._is_ahead:
            return self
        ahead = StepLowering(replace(self._context, faults=Faults()))
        ahead._is_ahead = True
        return ahead

    def steps(self, specs: models.Steps, at: Path, prefix: str, env: Env) -> tuple[Step, ...]:
        """Lower a list of steps of a spec, with the steps inside them.

        Args:
            specs: The steps.
            at: The path of the list in the spec.
            prefix: The path of step ``i`` is ``prefix[i]``.
            env: Its surroundings.
        """
        lowered: list[Step] = []
        run: list[Op] = []
        origins = self._context.source.items(at, len(specs)) if specs else ()
        for index, (spec, origin) in enumerate(zip(specs, origins, strict=True)):
            step = self._step(spec, StepPosition(f"{prefix}[{index}]", origin, (*at, index)), env)
            if isinstance(step, Op):
                run.append(step)
                continue
            if run:
                lowered.append(_net(run))
                run = []
            if step is not None:
                lowered.append(step)
        return (*lowered, _net(run)) if run else tuple(lowered)

    def expect(self, tasks: int) -> None:
        """Set the lowering of steps to copy those that repeat, if there are many tasks."""
        if tasks >= _MANY_TASKS and self._repeated is None:
            from jobrun.compile.lowering.repeated_steps import (  # noqa: PLC0415 - of large jobs
                RepeatedSteps,
            )

            self._repeated = RepeatedSteps(self._context.params)

    def body(
        self, specs: models.Steps, at: Path, prefix: str, env: Env
    ) -> tuple[tuple[Step, ...], RepeatedFlow | None]:
        """Lower all steps of a task, one by one or as a copy of an earlier task's."""
        text = self._repeated.text(specs) if self._repeated is not None else None
        if self._repeated is None or text is None:
            return self.steps(specs, at, prefix, env), None
        known = self._repeated.find(text)
        if known is not None:
            return known.lower(text.words, self._context.source.items(at, len(specs)), prefix)
        before = len(self._faults)
        steps = self.steps(specs, at, prefix, env)
        self._repeated.learn(text, steps, is_sound=len(self._faults) == before)
        return steps, None

    def setup(self, spec: models.SetupSpec, at: Path, path: str, env: Env) -> SetupNets:
        """Lower the set-up steps of a task or net: two blocks, init and exit.

        ``env`` says which nets and names are around it; its blocks are not reachable.
        """
        parts = []
        for part, steps in (("init", spec.init), ("exit", spec.exit)):
            block = f"{path}.{part}"
            inner = Env(((("", block),)), rename=env.rename, nets=env.nets, used=env.used)
            parts.append(self.steps(steps, (*at, part), block, inner))
        return SetupNets(parts[0], parts[1], path)

    def _step(self, spec: models.Step, position: StepPosition, env: Env) -> Step | Op | None:
        if isinstance(spec, str) and spec.strip() != "stop":
            # First, because most steps are statements.
            return self.read.statement(spec, position, env)
        if env.depth > _MAX_DEPTH:
            message = f"more than {_MAX_DEPTH} levels of nested steps"
            self._faults.error("E144", message, "move inner steps out", position)
            return None
        match spec:
            case str():
                return self._stop(None, None, position, env)
            case models.OpStep():
                return self._effects.operator(spec, position, env)
            case models.NetStep():
                return self.nets.use(spec, position, env)
            case models.EffectStep():
                return self._effects.step(spec, position, env)
            case control_flow.LoopStep():
                return self._loop(spec, position, env)
            case control_flow.WhileStep():
                return self._while(spec, position, env)
            case control_flow.IfStep():
                return self._if(spec, position, env)
            case control_flow.GuardStep():
                return self._guard(spec, position, env)
            case control_flow.ParallelStep():
                return self._parallel(spec, position, env)
            case control_flow.StopIfStep():
                at = (*position.at, "stop_if")
                condition = self.read.condition(spec.stop_if, at, position.path, env)
                return self._stop(spec.block, condition, position, env)
            case control_flow.StopStep():
                return self._stop(spec.stop, None, position, env)
            case _:
                assert_never(spec)

    def _loop(self, spec: control_flow.LoopStep, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
        count: Expr | None = None
        if spec.loop != "forever":
            count = self.read.expression(spec.loop, (*at, "loop"), path, env)
            if isinstance(count, Const) and type(count.value) not in (int, NoneType):
                message = f"the count of a loop must be an integer, not {count.value!r}"
                self._faults.error("E155", message, "use an integer, or 'forever'", position)
        return Loop(count, self._repeated_block(spec, position, env), path, origin)

    def _while(self, spec: control_flow.WhileStep, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
        condition = self.read.condition(spec.condition, (*at, "while"), path, env)
        return While(condition, self._repeated_block(spec, position, env), path, origin)

    def _repeated_block(
        self, spec: control_flow.LoopStep | control_flow.WhileStep, position: StepPosition, env: Env
    ) -> tuple[Step, ...]:
        """Lower the steps that a ``loop`` or ``while`` step repeats."""
        path, _, at = position
        self._check_name(spec.name, position, env)
        if spec.index is not None:
            self._context.check_blob_name(spec.index, position)
            if spec.index in env.indices:
                message = f"an outer loop already uses the variable '{spec.index}'"
                self._faults.error("E157", message, "rename one of the two", position)
        inner = env.loop(spec.name, path, spec.index)
        return self.steps(spec.steps, (*at, "steps"), f"{path}.steps", inner)

    def _guard(self, spec: control_flow.GuardStep, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
        name = spec.name or spec.guard
        self._check_name(name, position, env)
        flag = self.read.blob(spec.guard, position, env)
        body = self.steps(spec.steps, (*at, "steps"), f"{path}.steps", env.block(name, path))
        return Guard(flag, body, path, origin)

    def _if(self, spec: control_flow.IfStep, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
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
        elifs = tuple(self._context.source.at((*where, "if")) for _, _, where, _ in written[1:])
        return If(tuple(branches), otherwise, path, origin, elifs)

    def _parallel(self, spec: control_flow.ParallelStep, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
        branches = tuple(
            self.steps(
                steps, (*at, "parallel", i), f"{path}[{i}].steps", env.block(None, f"{path}[{i}]")
            )
            for i, steps in enumerate(spec.parallel)
        )
        return Parallel(branches, path, origin)

    def _stop(
        self, name: str | None, condition: Expr | None, position: StepPosition, env: Env
    ) -> Step | None:
        target = env.target(name)
        if target is not None:
            return Stop(condition, target, position.path, position.origin)
        if not env.is_loose:
            known = [block_name for block_name, _ in env.blocks if block_name]
            message = f"no enclosing block is named '{name}'"
            self._faults.error("E156", message, did_you_mean(str(name), known), position)
        return None

    def _check_name(self, name: str | None, position: StepPosition, env: Env) -> None:
        taken = [block_name for block_name, _ in env.blocks]
        if name is not None and (name in taken or name == "task"):
            message = f"an enclosing block is already named '{name}'"
            self._faults.error("E157", message, "rename one of the two", position)


def _net(run: list[Op]) -> Net:
    return Net(tuple(run), run[0].path, run[0].origin)


class EffectLowering:
    """Lowers steps that hold no other steps."""

    def __init__(self, context: Context, read: ExpressionLowering) -> None:
        self._context = context
        self._faults = context.faults
        self._read = read
        # Valid calls, by the kinds of their arguments.
        self._valid: set[tuple[object, ...]] = set()

    def step(self, spec: models.EffectStep, position: StepPosition, env: Env) -> Step:
        """Lower an effect, a step without inner steps: ``call``, ``run``, ``load``, …."""
        lower = _LOWERING.get(type(spec).__name__, EffectLowering._declared)
        return lower(self, spec, position, env)

    def _load(self, spec: models.LoadStep, position: StepPosition, env: Env) -> Step:
        for blob in spec.load:
            self._context.check_blob_name(blob, position)
        files = self._files(spec.load, "load", position, env, writes=False)
        return Load(files, position.path, position.origin)

    def _save(self, spec: models.SaveStep, position: StepPosition, env: Env) -> Step:
        files = self._files(spec.save, "save", position, env, writes=True)
        self._check_distinct(files, position)
        return Save(files, position.path, position.origin)

    def _check_distinct(self, files: tuple[DataFile, ...], position: StepPosition) -> None:
        """Refuse a ``save`` step in which two blobs are one member of one file."""
        blobs: dict[str, str] = {}
        for file in files:
            other = blobs.setdefault(file.location_text(), file.blob)
            if other != file.blob:
                self._faults.error(
                    "E227",
                    f"'{other}' and '{file.blob}' are both to be saved to {file.location_text()}",
                    "give each a file, or a member, of its own",
                    self._context.inside(position, "save", file.blob),
                )

    def _declared(self, spec: models.EffectStep, position: StepPosition, env: Env) -> Step:
        """Lower a step such as ``log`` by the keys that its effect class declares."""
        path, origin, at = position
        kind: Any = models.DECLARED_MODELS[type(spec)]
        arguments: dict[str, Any] = {
            name: str(getattr(spec, other)) for name, other in kind.sources.items()
        }
        for name, key in kind.keys.items():
            value, where = getattr(spec, name), (*at, key.name)
            match key.kind:
                case "text":
                    arguments[name] = self._read.text(value, where, path, env, holes=True)
                case "condition":
                    arguments[name] = self._read.condition(value, where, path, env)
                case "numbers":
                    arguments[name] = self._values(value, where, path, env)
                case "duration":
                    arguments[name] = value
                case _:
                    assert_never(key.kind)
        step: Step = kind(**arguments, path=path, origin=origin)
        return step

    def operator(self, spec: models.OpStep, position: StepPosition, env: Env) -> Op:
        """Lower an operator step in its long form, ``{op: …}``, to an ``Op``."""
        path, origin, at = position
        outputs = _as_tuple(spec.out)
        read = self._read.expression
        args = tuple(
            [read(value, (*at, "in", i), path, env) for i, value in enumerate(spec.inputs)]
        )
        kwargs = tuple(
            [
                (name, self._argument(value, (*at, name), path, env))
                for name, value in (spec.model_extra or {}).items()
            ]
        )
        for name in outputs:
            self._context.check_blob_name(name, position)
        targets = tuple(NameTarget(self._read.name(name, env)) for name in outputs)
        definition = find_operator(spec.op)
        value: Expr = UNREADABLE
        if definition is None:
            mend = did_you_mean(spec.op, OPERATORS)
            where = self._context.inside(position, "op")
            self._faults.error("E158", f"unknown operator '{spec.op}'", mend, where)
        elif self._check_outputs(definition, outputs, position):
            arguments = (*args, *[argument for _, argument in kwargs])
            if not any(map(partial(is_, UNREADABLE), arguments)):
                value = self._checked(Call(spec.op, args, kwargs), definition, position)
        return Assign(targets, value, path, origin) if targets else Perform(value, path, origin)

    def _checked(self, call: Call, definition: OpDef, position: StepPosition) -> Expr:
        """Check the arguments of a lowered operator step, once for all with equal kinds."""
        key = _kinds_of_arguments(call)
        if key in self._valid:
            return call
        value: Expr = UNREADABLE
        with self._faults.collecting():
            value = require_valid_call(call, definition, position.origin, position.path)
        if key is not None and value is call:
            self._valid.add(key)
        return value

    def _argument(self, value: Any, at: Path, path: str, env: Env) -> Expr:
        if value is None:
            return Const(None)
        return self._read.expression(_frozen(value), at, path, env)

    def _check_outputs(self, op: OpDef, outputs: tuple[str, ...], position: StepPosition) -> bool:
        if not outputs and not op.mutates:
            message = f"the result of '{op.name}' is lost"
            self._faults.error("E159", message, "assign it to a blob: out: NAME", position)
            return False
        if outputs and op.results not in (MANY, len(outputs)):
            results = {0: "no result", 1: "1 result"}.get(op.results, f"{op.results} results")
            message = f"'{op.name}' has {results}, but 'out' names {len(outputs)}"
            self._faults.error("E159", message, f"name {op.results} in 'out'", position)
            return False
        return True

    def _call(self, spec: models.CallStep, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
        arguments = dict(self._values(spec.arguments, (*at, "with"), path, env))
        writable = []
        for blob in spec.inout:
            here = self._read.blob(blob, position, env)
            names = [name for name, value in arguments.items() if value == Name(here)]
            if not names and blob in arguments:
                message = f"'{blob}' is in 'inout', so its value in 'with' must be a blob"
                self._faults.error("E160", message, f"write with: {{{blob}: {blob}}}", position)
            elif not names:
                # Named only in 'inout': passed under its own name.
                arguments[blob] = Name(here)
                names = [blob]
            writable += names
        outputs = tuple(self._read.blob(name, position, env) for name in _as_tuple(spec.out))
        return CallPython(
            spec.call,
            tuple(arguments.items()),
            tuple(writable),
            outputs,
            deterministic=spec.deterministic,
            path=path,
            origin=origin,
        )

    def _run(self, spec: models.RunStep, position: StepPosition, env: Env) -> Step:
        path, origin, at = position
        written = (spec.run,) if isinstance(spec.run, str) else spec.run
        shell = isinstance(spec.run, str)
        if not shell and not written:
            message = "'run' does not name a program"
            self._faults.error("E161", message, "write [prog, arg, …]", position)
        command = tuple(
            self._read.text(
                part, (*at, "run") if shell else (*at, "run", i), path, env, holes=False
            )
            for i, part in enumerate(written)
        )
        for blob in spec.out:
            self._context.check_blob_name(blob, position)
        results = self._files(spec.out, "out", position, env, writes=False)
        name, most_bytes = (
            (spec.state_dir, 0)
            if spec.state_dir is None or isinstance(spec.state_dir, str)
            else (spec.state_dir.name, spec.state_dir.max_size)
        )
        return RunProgram(
            command,
            shell,
            spec.env,
            self._values(spec.values, (*at, "with"), path, env),
            tuple((file.blob, file.path, file.member) for file in results),
            deterministic=spec.deterministic,
            path=path,
            origin=origin,
            state_dir=name or "",
            state_dir_most_bytes=most_bytes or 0,
        )

    def _pull(self, spec: models.PullStep, position: StepPosition, env: Env) -> Step:
        pulled = []
        for name, declared in spec.pull.items():
            blob = self._read.blob(name, position, env)
            where = self._context.inside(position, "pull", name, "from")
            nodes = self._context.nodes.resolve(declared.source, where, self._faults)
            pulled.append(PulledBlob(blob, nodes, declared.blob, declared.reduce))
        return Pull(tuple(pulled), position.path, position.origin)

    def _values(
        self, values: dict[str, Any], at: Path, path: str, env: Env
    ) -> tuple[tuple[str, Expr], ...]:
        return tuple(
            (name, self._read.expression(value, (*at, name), path, env))
            for name, value in values.items()
        )

    def _files(
        self, files: dict[str, str], key: str, position: StepPosition, env: Env, *, writes: bool
    ) -> tuple[DataFile, ...]:
        """Lower the files at a key of a step that loads or saves: blob, path and member of each."""
        data_files = []
        for blob, written in files.items():
            path, _, member = written.partition("::")
            if "${" in member:
                message = "the name of a member cannot contain '${…}'"
                mend = "put the variable part into the path"
                self._faults.error("E162", message, mend, self._context.inside(position, key, blob))
            at = (*position.at, key, blob)
            text = self._read.text(path, at, position.path, env, holes=False)
            file = DataFile(self._read.name(blob, env), text, member.replace("$$", "$"))
            misfit = find_misfit(render_text(text), file.member, writes=writes)
            if misfit is not None and _has_known_ending(text):
                where = self._context.inside(position, key, blob)
                self._faults.error(misfit.code, misfit.message, misfit.mend, where)
            data_files.append(file)
        return tuple(data_files)


def _has_known_ending(path: Text) -> bool:
    """Return whether the ending of a file's path is known before the run."""
    last = path.parts[-1] if path.parts else ""
    return isinstance(last, str) and (len(path.parts) < 2 or "." in last or "/" in last)


# One row for each kind of effect that is not declared, by the name of its model.
_LOWERING: Mapping[str, Callable[[EffectLowering, Any, StepPosition, Env], Step]] = {
    "CallStep": EffectLowering._call,
    "LoadStep": EffectLowering._load,
    "PullStep": EffectLowering._pull,
    "RunStep": EffectLowering._run,
    "SaveStep": EffectLowering._save,
}


def _kinds_of_arguments(call: Call) -> tuple[object, ...] | None:
    """Build the key that operator steps share if their arguments need one check only.

    Returns None for a call with keywords or with nested expressions.

    Which blob a name means does not decide it.
    """
    if call.kwargs:
        return None
    kinds: list[object] = [call.function]
    for argument in call.args:
        if type(argument) is Name:
            kinds.append(Name)
        elif type(argument) is Const:
            kinds.append((type(argument.value), argument.value))
        else:
            return None
    return tuple(kinds)


def _as_tuple(out: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if out is None:
        return ()
    return (out,) if isinstance(out, str) else out


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
