"""Lower steps without steps in them: operators, callables, programs, files, log lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import is_
from typing import Any, assert_never

from jobrun.compile.expressions.calls import require_valid_call
from jobrun.compile.faults import Place
from jobrun.compile.lowering.context import Context, Env
from jobrun.compile.lowering.expressions import UNREADABLE, ExpressionLowering
from jobrun.core.text.names import did_you_mean
from jobrun.graph.effects.effect import declared_keys, declared_sources
from jobrun.graph.expressions import Call, Const, Expr, Name
from jobrun.graph.steps import (
    Assign,
    CallPython,
    DataFile,
    Load,
    NameTarget,
    Op,
    Perform,
    Pull,
    PulledBlob,
    RunProgram,
    Save,
    Step,
)
from jobrun.ops.plugins import find_operator
from jobrun.ops.table import MANY, OPERATORS, OpDef
from jobrun.spec.models.steps import (
    DECLARED_MODELS,
    CallStep,
    EffectStep,
    LoadStep,
    OpStep,
    PullStep,
    RunStep,
    SaveStep,
)
from jobrun.spec.yaml.source_map import Path


class EffectLowering:
    """Lowers steps that hold no other steps."""

    def __init__(self, context: Context, read: ExpressionLowering) -> None:
        self._context = context
        self._faults = context.faults
        self._read = read
        # The calls without a fault, by the kinds of their arguments.
        self._valid: set[tuple[object, ...]] = set()

    def step(self, spec: EffectStep, at: Path, place: Place, env: Env) -> Step:
        """Lower an effect, a step that holds no other steps: ``call``, ``run``, ``load``, …."""
        lower = _LOWERING.get(type(spec), EffectLowering._declared)
        return lower(self, spec, at, place, env)

    def _load(self, spec: LoadStep, at: Path, place: Place, env: Env) -> Step:
        for blob in spec.load:
            self._context.check_blob_name(blob, place)
        return Load(self._files(spec.load, (*at, "load"), place, env), place.path, place.origin)

    def _save(self, spec: SaveStep, at: Path, place: Place, env: Env) -> Step:
        return Save(self._files(spec.save, (*at, "save"), place, env), place.path, place.origin)

    def _declared(self, spec: EffectStep, at: Path, place: Place, env: Env) -> Step:
        """Lower an effect of a declared kind, such as ``log``, field by field."""
        kind: Any = DECLARED_MODELS[type(spec)]
        given: dict[str, Any] = {
            field: str(getattr(spec, other)) for field, other in declared_sources(kind).items()
        }
        for field, key in declared_keys(kind).items():
            value, where = getattr(spec, field), (*at, key.name)
            match key.kind:
                case "text":
                    given[field] = self._read.text(value, where, place.path, env, holes=True)
                case "condition":
                    given[field] = self._read.condition(value, where, place.path, env)
                case "numbers":
                    given[field] = self._values(value, where, place.path, env)
                case "duration":
                    given[field] = value
                case _:
                    assert_never(key.kind)
        step: Step = kind(**given, path=place.path, origin=place.origin)
        return step

    def operator(self, spec: OpStep, at: Path, place: Place, env: Env) -> Op:
        """Lower the effect of an operator step's long form, ``{op: …}``."""
        path, origin = place
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
            self._context.check_blob_name(name, place)
        targets = tuple(NameTarget(self._read.name(name, env)) for name in outputs)
        definition = find_operator(spec.op)
        value: Expr = UNREADABLE
        if definition is None:
            where = Place(path, self._context.source.at((*at, "op")))
            self._faults.error(
                "E158", f"unknown operator '{spec.op}'", did_you_mean(spec.op, OPERATORS), where
            )
        elif self._check_outputs(definition, outputs, place):
            given = (*args, *[argument for _, argument in kwargs])
            if not any(map(partial(is_, UNREADABLE), given)):
                value = self._checked(Call(spec.op, args, kwargs), definition, place)
        return Assign(targets, value, path, origin) if targets else Perform(value, path, origin)

    def _checked(self, call: Call, definition: OpDef, place: Place) -> Expr:
        """Check the arguments of an operator that is lowered; those that differ in names, once."""
        key = _kinds_of_arguments(call)
        if key in self._valid:
            return call
        value: Expr = UNREADABLE
        with self._faults.collecting():
            value = require_valid_call(call, definition, place.origin, place.path)
        if key is not None and value is call:
            self._valid.add(key)
        return value

    def _argument(self, value: Any, at: Path, path: str, env: Env) -> Expr:
        if value is None:
            return Const(None)
        return self._read.expression(_frozen(value), at, path, env)

    def _check_outputs(self, op: OpDef, outputs: tuple[str, ...], place: Place) -> bool:
        if not outputs and not op.mutates:
            self._faults.error(
                "E159",
                f"the result of '{op.name}' is lost",
                "assign it to a blob: out: NAME",
                place,
            )
            return False
        if outputs and op.results not in (MANY, len(outputs)):
            results = {0: "no result", 1: "1 result"}.get(op.results, f"{op.results} results")
            message = f"'{op.name}' has {results}, but 'out' names {len(outputs)}"
            self._faults.error("E159", message, f"name {op.results} in 'out'", place)
            return False
        return True

    def _call(self, spec: CallStep, at: Path, place: Place, env: Env) -> Step:
        path = place.path
        arguments = dict(self._values(spec.arguments, (*at, "with"), path, env))
        writable = []
        for blob in spec.inout:
            here = self._read.blob(blob, place, env)
            names = [name for name, value in arguments.items() if value == Name(here)]
            if not names and blob in arguments:
                message = f"'{blob}' is in 'inout', so its value in 'with' must be a blob"
                self._faults.error("E160", message, f"write with: {{{blob}: {blob}}}", place)
            elif not names:
                # Named only in 'inout': passed under its own name.
                arguments[blob] = Name(here)
                names = [blob]
            writable += names
        outputs = tuple(self._read.blob(name, place, env) for name in _as_tuple(spec.out))
        return CallPython(
            spec.call,
            tuple(arguments.items()),
            tuple(writable),
            outputs,
            deterministic=spec.deterministic,
            path=path,
            origin=place.origin,
        )

    def _run(self, spec: RunStep, at: Path, place: Place, env: Env) -> Step:
        path = place.path
        written = (spec.run,) if isinstance(spec.run, str) else spec.run
        shell = isinstance(spec.run, str)
        if not shell and not written:
            self._faults.error(
                "E161", "'run' does not name a program", "write [prog, arg, …]", place
            )
        command = tuple(
            self._read.text(one, (*at, "run") if shell else (*at, "run", i), path, env, holes=False)
            for i, one in enumerate(written)
        )
        for blob in spec.out:
            self._context.check_blob_name(blob, place)
        results = self._files(spec.out, (*at, "out"), place, env)
        return RunProgram(
            command,
            shell,
            spec.env,
            self._values(spec.values, (*at, "with"), path, env),
            tuple((file.blob, file.path, file.member) for file in results),
            deterministic=spec.deterministic,
            path=path,
            origin=place.origin,
            state_dir=spec.state_dir or "",
        )

    def _pull(self, spec: PullStep, at: Path, place: Place, env: Env) -> Step:
        pulled = []
        for name, one in spec.pull.items():
            blob = self._read.blob(name, place, env)
            where = Place(place.path, self._context.source.at((*at, "pull", name, "from")))
            nodes = self._context.nodes.resolve(one.source, where, self._faults)
            pulled.append(PulledBlob(blob, nodes, one.blob, one.reduce))
        return Pull(tuple(pulled), place.path, place.origin)

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
        """Lower the files of the effect ``load`` or ``save``: blob, path and member of each."""
        found = []
        for blob, written in files.items():
            path, _, member = written.partition("::")
            if "${" in member:
                where = Place(place.path, self._context.source.at((*at, blob)))
                self._faults.error(
                    "E162",
                    "the name of a member cannot contain '${…}'",
                    "put the variable part into the path",
                    where,
                )
            text = self._read.text(path, (*at, blob), place.path, env, holes=False)
            found.append(DataFile(self._read.name(blob, env), text, member.replace("$$", "$")))
        return tuple(found)


# One row for each kind of effect that is not declared.
_LOWERING: Mapping[type[EffectStep], Callable[[EffectLowering, Any, Path, Place, Env], Step]] = {
    CallStep: EffectLowering._call,
    LoadStep: EffectLowering._load,
    PullStep: EffectLowering._pull,
    RunStep: EffectLowering._run,
    SaveStep: EffectLowering._save,
}


def _kinds_of_arguments(call: Call) -> tuple[object, ...] | None:
    """Return what of the effect of a call's arguments decides if it is valid; None if they all do.

    Which blob a name means does not decide it.
    """
    if call.kwargs:
        return None
    kinds: list[object] = [call.function]
    for one in call.args:
        if type(one) is Name:
            kinds.append(Name)
        elif type(one) is Const:
            kinds.append((type(one.value), one.value))
        else:
            return None
    return tuple(kinds)


def _as_tuple(out: str | tuple[str, ...] | None) -> tuple[str, ...]:
    if out is None:
        return ()
    return (out,) if isinstance(out, str) else out


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
