"""From the steps of a spec to those of the graph: operators, callables, programs, files, logs."""

from __future__ import annotations

from typing import Any, assert_never

from jobrun.compile.calls import check_call
from jobrun.compile.context import Context, Env
from jobrun.compile.faults import Place
from jobrun.compile.reading import UNREADABLE, Reading
from jobrun.core.names import did_you_mean
from jobrun.core.origin import Origin
from jobrun.graph.expr import Call, Const, Expr, Name
from jobrun.graph.pulled import PulledBlob
from jobrun.graph.steps import (
    Assert,
    Assign,
    CallPython,
    DataFile,
    Load,
    Log,
    NameTarget,
    Op,
    Perform,
    Pull,
    Record,
    RunProgram,
    Save,
    Step,
)
from jobrun.ops.plugins import find_operator
from jobrun.ops.table import MANY, OPERATORS, OpDef
from jobrun.spec.source import Path
from jobrun.spec.steps import (
    AssertStep,
    CallStep,
    LoadStep,
    LogStep,
    MetricStep,
    OpStep,
    PullStep,
    RunStep,
    SaveStep,
)

Effect = CallStep | RunStep | LoadStep | SaveStep | LogStep | MetricStep | AssertStep | PullStep


class Effects:
    """Lowers steps that hold no other steps."""

    def __init__(self, context: Context, read: Reading) -> None:
        self._context = context
        self._faults = context.faults
        self._read = read

    def step(self, spec: Effect, at: Path, place: Place, env: Env) -> Step | Op:
        """Lower one step."""
        origin = self._context.source.at(at)
        path = place.path
        match spec:
            case CallStep():
                return self._call(spec, at, place, origin, env)
            case RunStep():
                return self._run(spec, at, place, origin, env)
            case LoadStep():
                for blob in spec.load:
                    self._context.check_blob_name(blob, place)
                return Load(self._files(spec.load, (*at, "load"), place, env), path, origin)
            case SaveStep():
                return Save(self._files(spec.save, (*at, "save"), place, env), path, origin)
            case LogStep():
                text = self._read.text(spec.log, (*at, "log"), path, env, holes=True)
                return Log(text, path, origin)
            case MetricStep():
                return Record(self._values(spec.metric, (*at, "metric"), path, env), path, origin)
            case AssertStep():
                condition = self._read.condition(spec.condition, (*at, "assert"), path, env)
                message = self._read.text(spec.message, (*at, "message"), path, env, holes=True)
                return Assert(condition, message, str(spec.condition), path, origin)
            case PullStep():
                return self._pull(spec, at, place, origin, env)
            case _:
                assert_never(spec)

    def operator(self, spec: OpStep, at: Path, place: Place, env: Env) -> Op:
        """Lower the long form of an operator."""
        path = place.path
        origin = self._context.source.at(at)
        outputs = _as_tuple(spec.out)
        args = tuple(
            self._read.expression(value, (*at, "in", i), path, env)
            for i, value in enumerate(spec.inputs)
        )
        kwargs = tuple(
            (name, self._argument(value, (*at, name), path, env))
            for name, value in (spec.model_extra or {}).items()
        )
        for name in outputs:
            self._context.check_blob_name(name, place)
        targets = tuple(NameTarget(self._read.name(name, env)) for name in outputs)
        definition = find_operator(spec.op)
        value: Expr = UNREADABLE
        if definition is None:
            where = Place(path, self._context.source.at((*at, "op")))
            self._faults.error("E158", f"unknown operator '{spec.op}'",
                               did_you_mean(spec.op, OPERATORS), where)  # fmt: skip
        elif self._check_outputs(definition, outputs, place):
            given = (*args, *(argument for _, argument in kwargs))
            if all(one is not UNREADABLE for one in given):
                with self._faults.collecting():
                    value = check_call(Call(spec.op, args, kwargs), definition, origin, path)
        return Assign(targets, value, path, origin) if targets else Perform(value, path, origin)

    def _argument(self, value: Any, at: Path, path: str, env: Env) -> Expr:
        if value is None:
            return Const(None)
        return self._read.expression(_frozen(value), at, path, env)

    def _check_outputs(self, op: OpDef, outputs: tuple[str, ...], place: Place) -> bool:
        if not outputs and not op.mutates:
            self._faults.error("E159", f"the result of '{op.name}' is lost",
                               "name a blob for it: out: NAME", place)  # fmt: skip
            return False
        if outputs and op.results not in (MANY, len(outputs)):
            results = {0: "no result", 1: "1 result"}.get(op.results, f"{op.results} results")
            message = f"'{op.name}' has {results}, and 'out' names {len(outputs)}"
            self._faults.error("E159", message, f"name {op.results} in 'out'", place)
            return False
        return True

    def _call(self, spec: CallStep, at: Path, place: Place, origin: Origin, env: Env) -> Step:
        path = place.path
        arguments = dict(self._values(spec.arguments, (*at, "with"), path, env))
        writable = []
        for blob in spec.inout:
            here = self._read.blob(blob, place, env)
            names = [name for name, value in arguments.items() if value == Name(here)]
            if not names and blob in arguments:
                message = f"'{blob}' is in 'inout', so its value in 'with' must be a blob alone"
                self._faults.error("E160", message, f"write with: {{{blob}: {blob}}}", place)
            elif not names:
                # Named in 'inout' alone: handed over under its own name.
                arguments[blob] = Name(here)
                names = [blob]
            writable += names
        outputs = tuple(self._read.blob(name, place, env) for name in _as_tuple(spec.out))
        return CallPython(
            spec.call, tuple(arguments.items()), tuple(writable), outputs,
            deterministic=spec.deterministic, path=path, origin=origin,
        )  # fmt: skip

    def _run(self, spec: RunStep, at: Path, place: Place, origin: Origin, env: Env) -> Step:
        path = place.path
        written = (spec.run,) if isinstance(spec.run, str) else spec.run
        shell = isinstance(spec.run, str)
        if not shell and not written:
            self._faults.error("E161", "'run' names no program", "write [prog, arg, …]", place)
        command = tuple(
            self._read.text(one, (*at, "run") if shell else (*at, "run", i), path, env, holes=False)
            for i, one in enumerate(written)
        )
        for blob in spec.out:
            self._context.check_blob_name(blob, place)
        results = self._files(spec.out, (*at, "out"), place, env)
        return RunProgram(
            command, shell, spec.env, self._values(spec.values, (*at, "with"), path, env),
            tuple((file.blob, file.path, file.member) for file in results),
            deterministic=spec.deterministic, path=path, origin=origin,
            state_dir=spec.state_dir or "",
        )  # fmt: skip

    def _pull(self, spec: PullStep, at: Path, place: Place, origin: Origin, env: Env) -> Step:
        pulled = []
        for name, one in spec.pull.items():
            blob = self._read.blob(name, place, env)
            where = Place(place.path, self._context.source.at((*at, "pull", name, "from")))
            nodes = self._context.nodes.resolve(one.source, where, self._faults)
            pulled.append(PulledBlob(blob, nodes, one.blob, one.reduce))
        return Pull(tuple(pulled), place.path, origin)

    def _values(
        self, values: dict[str, Any], at: Path, path: str, env: Env
    ) -> tuple[tuple[str, Expr], ...]:
        return tuple(
            (name, self._read.expression(value, (*at, name), path, env))
            for name, value in values.items()
        )

    def _files(
        self, files: dict[str, str], at: Path, place: Place, env: Env
    ) -> tuple[DataFile, ...]:
        """From ``blob: path::member`` to blob, path and member."""
        found = []
        for blob, written in files.items():
            path, _, member = written.partition("::")
            if "${" in member:
                where = Place(place.path, self._context.source.at((*at, blob)))
                self._faults.error("E162", "a member's name cannot hold '${…}'",
                                   "put the varying part into the path", where)  # fmt: skip
            text = self._read.text(path, (*at, blob), place.path, env, holes=False)
            found.append(DataFile(self._read.name(blob, env), text, member.replace("$$", "$")))
        return tuple(found)


def _as_tuple(out: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if out is None:
        return ()
    return (out,) if isinstance(out, str) else out


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
