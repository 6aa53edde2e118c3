"""Compare a run's recorded spec, code, data and environment with the present, and refuse drift.

Four classes: *safe* changes are applied; *declared safe* ones are those of params that say
``drift: safe``; *numerics* are warned of, or refused when strict; *semantic* ones are
refused unless accepted by name. Comments, key order and written-out defaults never count.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from jobrun.core.codes import Code
from jobrun.core.errors import DriftError, Fault, Origin
from jobrun.runner.rundir.run_json import (
    LIBRARY_VARIABLES,
    NUMERIC_KEYS,
    NUMERIC_PACKAGES,
    numeric_value,
)
from jobrun.spec.load import LoadedSpec
from jobrun.spec.yaml.nodes import Scalar, path_text

Kind = Literal["safe", "declared safe", "numerics", "semantic"]
_Path = tuple[str | int, ...]

_ABSENT = object()
# A change below these keys alters when the run ends, what it keeps, and what it reports;
# never a bit of the state.
_SAFE_KEYS = frozenset(
    {
        # Safe: a value is stored exactly, or refused by name.
        "adapt",
        "stop",
        "metrics",
        "fail_if",
        "expect",
        "deadline",
        "margin",
        "description",
        "checkpoint",
        "state",
        "notify",
        "listeners",
    }
)
# Safe: groups after the last epoch compute no state.
_END_KEYS = frozenset({"download", "exit"})
_END_FIELDS = (
    "download", "exit", "nets", "expect", "checkpoint.upload", "graph.download", "graph.exit",
    "graph.expect",
)  # fmt: skip
# Safe: they decide what a failure of a task means; a group run that succeeds has the same bits.
_SAFE_TASK_KEYS = frozenset({"timeout", "retry", "on_error"})
_SAFE_PARAM_KEYS = frozenset({"help", "min", "max", "choices", "drift"})


class Change(Struct, frozen=True):
    """One difference between a run as recorded and as it would continue.

    Attributes:
        field: Its path in the spec, or ``numerics.numpy``, ``callables.m:f``,
            ``packages.scipy``, ``env.HOME``, ``constants.local.X``.
        before: As recorded, in words; empty for nothing.
        after: As it is now.
    """

    field: str
    kind: Kind
    before: str
    after: str
    where: Origin | None = None

    def __str__(self) -> str:
        return f"{self.field}: was {self.before or 'not there'}, is {self.after or 'not there'}"


def compare_specs(recorded: LoadedSpec, present: LoadedSpec) -> tuple[Change, ...]:
    """Compare the recorded spec with the present one by value; return the keys that drifted."""
    before, after = recorded.spec.model_dump(by_alias=True), present.spec.model_dump(by_alias=True)
    used = _find_epoch_nets(recorded.merged) | _find_epoch_nets(present.merged)
    changes = []
    for path, old, new in _differences(recorded.merged, present.merged, ()):
        if path[0] == "params":
            continue
        meant_before, meant_after = _at(before, path), _at(after, path)
        if meant_before is not _ABSENT and meant_before == meant_after:
            continue
        kind = _kind(path)
        if _moves_safe_points(path, old, new):
            kind = "numerics"
        elif path[0] == "nets" and _nets_at(path, old, new).isdisjoint(used):
            kind = "safe"
        changes.append(
            Change(path_text(path), kind, _shown(old), _shown(new), present.source.at(path))
        )
    return (*_param_changes(recorded, present), *changes)


def compare_mappings(
    prefix: str, before: Mapping[str, Any], after: Mapping[str, Any]
) -> tuple[Change, ...]:
    """Compare recorded digests, such as of code, with present ones; return what drifted."""
    return tuple(
        Change(f"{prefix}.{name}", "semantic", _short(before.get(name)), _short(after.get(name)))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    )


def compare_data(
    before: Mapping[str, Any], after: Mapping[str, Any], *, whole: bool = False
) -> tuple[Change, ...]:
    """Compare data files' recorded sizes and digests with present ones; return what drifted.

    Args:
        before: As recorded.
        after: As they are now.
        whole: Of a result: also files that only init reads, and those that are gone.
    """
    names = (name for name in before if whole or not before[name].get("read_by"))
    return tuple(
        Change(f"data.{name}", "semantic", _file(before[name]), _file(after.get(name, {})))
        for name in sorted(names)
        if (whole or name in after) and _file(before[name]) != _file(after.get(name, {}))
    )


def compare_numerics(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Change, ...]:
    """Compare recorded and present numpy, BLAS and CPU, which decide the last bits of results."""
    keys: list[tuple[str, Kind]] = [(key, "numerics") for key in NUMERIC_KEYS]
    # h5py stores and reads bits, and computes none.
    keys.append(("h5py", "safe"))
    changes = tuple(
        Change(
            f"numerics.{key}",
            kind,
            _shown(numeric_value(before, key)),
            _shown(numeric_value(after, key)),
        )
        for key, kind in keys
        if numeric_value(before, key) not in (None, numeric_value(after, key))
    )
    new = after.get(LIBRARY_VARIABLES, {})
    # Runs of older versions have not recorded it.
    old = before.get(LIBRARY_VARIABLES, new)
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return changes + tuple(
        Change(f"numerics.{name}", "numerics", _shown(old.get(name)), _shown(new.get(name)))
        for name in names
    )


def compare_packages(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Change, ...]:
    """Compare recorded with present versions of imported packages; return what drifted."""
    return tuple(
        Change(f"packages.{name}", "numerics", before.get(name, ""), after.get(name, ""))
        for name in sorted({*before, *after} - NUMERIC_PACKAGES)
        if before.get(name) != after.get(name)
    )


def count_field(family: str) -> str:
    """Return the name of the spec field that drifts with a node count: ``nodes.FAMILY.count``."""
    return f"nodes.{family}.count"


def mark_safe_counts(changes: tuple[Change, ...], divisible: Collection[str]) -> tuple[Change, ...]:
    """Mark drift in a node count as safe where the state of those nodes can be divided."""
    fields = {count_field(name) for name in divisible}
    return tuple(
        replace(change, kind="declared safe") if change.field in fields else change
        for change in changes
    )


def require_no_drift(
    changes: tuple[Change, ...],
    *,
    strict: bool = False,
    accept: tuple[str, ...] = (),
    commands: tuple[str, str] = ("", ""),
    mend: str = "",
    explained: Mapping[str, tuple[Fault, ...]] = MappingProxyType({}),
) -> tuple[Change, ...]:
    """Raise ``DriftError`` if changes of spec, code or data forbid a resume; else return them.

    Args:
        changes: All there are.
        strict: Refuse numerics, too.
        accept: Fields that may change all the same; one includes those below it.
        commands: Those that resume and that fork, for people to choose from.
        mend: What to do about each, where that is something else.
        explained: By field, what is said of it instead, if it is refused.

    Raises:
        DriftError: With every change that is refused.
    """
    refused = find_refused(changes, strict=strict, accept=accept)
    if refused:
        plain = tuple(change for change in refused if change.field not in explained)
        faults = [_fault(change) for change in plain]
        if mend:
            faults = [replace(fault, mend=mend) for fault in faults]
        elif faults:
            # The commands are suggested once, at the end: one command accepts all of the changes.
            faults[-1] = replace(faults[-1], mend=_choices(faults[-1].mend, plain, commands))
        faults += [fault for change in refused for fault in explained.get(change.field, ())]
        raise DriftError(*dict.fromkeys(faults))
    return changes


def find_refused(
    changes: tuple[Change, ...], *, strict: bool = False, accept: tuple[str, ...] = ()
) -> tuple[Change, ...]:
    """Return the changes since a run was recorded (drift) that forbid its resume."""
    return tuple(
        change
        for change in changes
        if (change.kind == "semantic" or (strict and change.kind == "numerics"))
        and not _accepted(change.field, accept)
    )


def _differences(before: Any, after: Any, path: _Path) -> Iterator[tuple[_Path, Any, Any]]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            old, new = before.get(key, _ABSENT), after.get(key, _ABSENT)
            yield from _differences(old, new, (*path, key))
    elif isinstance(before, list) and isinstance(after, list):
        for index in range(max(len(before), len(after))):
            old = before[index] if index < len(before) else _ABSENT
            new = after[index] if index < len(after) else _ABSENT
            yield from _differences(old, new, (*path, index))
    elif type(before) is not type(after) or before != after:
        yield path, before, after


def _param_changes(recorded: LoadedSpec, present: LoadedSpec) -> Iterator[Change]:
    for name in {**recorded.params, **present.params}:
        if name in recorded.secrets or name in present.secrets:
            # Compared by their digests.
            continue
        old = recorded.params.get(name, _ABSENT)
        new = present.params.get(name, _ABSENT)
        if type(old) is type(new) and old == new:
            continue
        declared = present.source.node(("params", name, "drift"))
        is_safe = isinstance(declared, Scalar) and declared.value == "safe"
        kind: Kind = "declared safe" if is_safe else "semantic"
        where = present.source.at(("params", name, "default"))
        yield Change(f"params.{name}", kind, _shown(old), _shown(new), where)


def _moves_safe_points(path: _Path, *values: Any) -> bool:
    """Return whether ``checkpoint.every`` drifted to or from ``N records``, altering results.

    In which order the numbers of an array lie decides in which order they are added.
    """
    if path == ("checkpoint",):
        settings = [
            checkpoint.get("every") for checkpoint in values if isinstance(checkpoint, dict)
        ]
    else:
        settings = list(values) if path == ("checkpoint", "every") else []
    return any("record" in str(setting) for setting in settings)


def _kind(path: _Path) -> Kind:
    match path:
        case ("blas_threads", *_):
            return "numerics"
        case ("checkpoint", ("dir" | "nodes"), *_):
            return "semantic"
        case (str() as key, *_) if key in _SAFE_KEYS | _END_KEYS:
            return "safe"
        case (*_, ("log" | "message")) | (*_, "state_dir", "max_size"):
            return "safe"
        case (_, int(), str() as key, *_) | (_, "tasks", int(), str() as key, *_) if (
            key in _SAFE_TASK_KEYS
        ):
            return "safe"
        case ("nodes", _, ("host" | "resources"), *_):
            return "safe"
        case _:
            return "semantic"


def _nets_at(path: _Path, *values: Any) -> set[Any]:
    """Return the names of the nets that a difference of two specs is in."""
    if len(path) > 1:
        return {path[1]}
    return {name for value in values if isinstance(value, dict) for name in value}


def _find_epoch_nets(merged: Mapping[str, Any]) -> set[str]:
    """Find the nets of a spec that other groups than download and exit use."""
    nets = merged.get("nets") or {}
    waiting = [part for key, part in merged.items() if key not in _END_KEYS | {"nets"}]
    used: set[str] = set()
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = part.get("net")
            if isinstance(name, str) and name not in used:
                used.add(name)
                waiting.append(nets.get(name))
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
    return used


def touches_end(changes: Iterable[Change]) -> bool:
    """Return whether changes are of what runs, or is judged, after the last epoch."""
    return any(change.kind == "safe" and change.field.startswith(_END_FIELDS) for change in changes)


def _at(tree: Any, path: _Path) -> Any:
    for segment in path:
        try:
            tree = tree[segment]
        except (KeyError, IndexError, TypeError):
            return _ABSENT
    return tree


def _accepted(field: str, accept: tuple[str, ...]) -> bool:
    return any(
        field == item or field.startswith((f"{item}.", f"{item}[")) for item in accept if item
    )


def _shown(value: Any) -> str:
    if value is _ABSENT or value is None:
        return ""
    text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _short(digest: Any) -> str:
    return str(digest)[:19] if digest else ""


def _choices(mend: str, refused: tuple[Change, ...], commands: tuple[str, str]) -> str:
    resume, fork = commands
    if not resume or all(change.kind == "numerics" for change in refused):
        return mend
    fields = dict.fromkeys(change.field for change in refused if change.kind != "numerics")
    accepted = " ".join(f"--accept-drift {shlex.quote(field)}" for field in fields)
    return f"undo it; or continue all the same: {resume} {accepted} · or in a new run: {fork}"


def _file(facts: Mapping[str, Any]) -> str:
    if not facts:
        return ""
    return f"{facts.get('size_bytes', 0)} bytes, {_short(facts.get('digest'))}"


def _fault(change: Change) -> Fault:
    code: Code = "E370" if change.kind == "numerics" else "E369"
    if change.field.startswith("constants."):
        code = "E371"
    mend = f"undo it; or accept it with --accept-drift {change.field}; or fork the run"
    if change.kind == "numerics":
        mend = "resume where the run was made, or without --strict"
    was, now = change.before or "not there", change.after or "not there"
    return Fault(code, f"was {was}, is {now}", mend, change.where, change.field)
