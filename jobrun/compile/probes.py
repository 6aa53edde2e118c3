"""Values that the runner looks at between groups: metrics, conditions, expectations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobrun.compile.context import FINDER, Context, Env
from jobrun.compile.faults import Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.missing import state_mend
from jobrun.compile.nodes import NodeNames
from jobrun.compile.outputs import OutputTable
from jobrun.compile.reading import UNREADABLE, Reading
from jobrun.core.names import did_you_mean
from jobrun.graph.conditions import Probe
from jobrun.graph.expr import Builtin, Draw, Expr, LoopIndex, Name, NodeBlob, OutputRead
from jobrun.graph.types import GroupName
from jobrun.graph.walk import map_expr, walk_expr
from jobrun.spec.models import OverNodes
from jobrun.spec.source import Path, path_text

# What a number over nodes cannot be a condition by.
_NUMBERS = ("mean", "sum")
_CONSTANTS = ("inf", "nan", "pi")


@dataclass(frozen=True, slots=True)
class Readable:
    """What probes may read.

    Attributes:
        names: Per node, state and constants.
        groups: The groups whose outputs are there when the probe is looked at.
    """

    names: Mapping[str, frozenset[str]]
    groups: tuple[GroupName, ...]


class Probes:
    """Lowers probes."""

    def __init__(
        self, context: Context, read: Reading, nodes: NodeNames, readable: Readable,
        outputs: OutputTable, groups: Mapping[GroupName, GroupDraft],
    ) -> None:  # fmt: skip
        self._context = context
        self._faults = context.faults
        self._read = read
        self._nodes = nodes
        self._readable = readable
        self._outputs = outputs
        self._groups = groups
        self._owners: dict[str, list[str]] = {}
        for node, names in readable.names.items():
            for name in names:
                self._owners.setdefault(name, []).append(node)

    def probe(self, spec: Any, at: Path, *, is_condition: bool) -> Probe | None:
        """Lower one; None when it has a fault."""
        path = path_text(at)
        if isinstance(spec, OverNodes):
            return self._over_nodes(spec, at, path, is_condition=is_condition)
        expr = self._expression(spec, at, path, is_condition=is_condition)
        if expr is None:
            return None
        place = self._context.place(path, *at)
        resolved = self._resolved(expr, None, place)
        if resolved is None:
            return None
        return Probe(_text(spec), (resolved,), "", path, place.origin)

    def resolved(self, probe: Probe, path: str) -> Probe | None:
        """A probe made of expressions, its blobs given nodes; None when it has a fault."""
        place = Place(probe.path or path, probe.origin)
        parts: list[Expr] = []
        for expr in probe.parts:
            part = self._resolved(expr, None, place) if self._is_readable(expr, place) else None
            if part is None:
                return None
            parts.append(part)
        return replace(probe, parts=tuple(parts), path=probe.path or path)

    def _over_nodes(
        self, spec: OverNodes, at: Path, path: str, *, is_condition: bool
    ) -> Probe | None:
        nodes_place = self._context.place(path, *at, "nodes")
        nodes = self._nodes.resolve(spec.nodes, nodes_place, self._faults)
        boolean = is_condition and spec.reduce in ("any", "all")
        expr = self._expression(spec.of, (*at, "of"), path, is_condition=boolean)
        if is_condition and spec.reduce in _NUMBERS:
            place = self._context.place(path, *at, "reduce")
            message = f"'{spec.reduce}' gives a number, and a condition must be true or false"
            self._faults.error("E152", message, "write any or all", place)
            return None
        if expr is None or not nodes:
            return None
        place = self._context.place(path, *at, "of")
        parts: list[Expr] = []
        for node in nodes:
            part = self._resolved(expr, node, place)
            if part is None:
                # What is wrong on one node is wrong on many.
                return None
            parts.append(part)
        text = f"{spec.reduce} of {_text(spec.of)} over {spec.nodes}"
        return Probe(text, tuple(parts), spec.reduce, path, place.origin)

    def _expression(self, spec: Any, at: Path, path: str, *, is_condition: bool) -> Expr | None:
        env = Env(())
        read = self._read.condition if is_condition else self._read.expression
        expr = read(spec, at, path, env)
        if expr is UNREADABLE:
            return None
        return expr if self._is_readable(expr, self._context.place(path, *at)) else None

    def _is_readable(self, expr: Expr, place: Place) -> bool:
        """Whether it can be looked at between epochs, without changing anything."""
        for part in walk_expr(expr):
            if isinstance(part, Draw):
                self._faults.error("E130", "there is no random stream between epochs",
                                   "draw in a task, and look at the blob", place)  # fmt: skip
                return False
            if isinstance(part, LoopIndex) or (
                isinstance(part, Builtin) and part.name not in _CONSTANTS
            ):
                name = part.name if isinstance(part, Builtin) else "iter"
                self._faults.error("E131", f"'{name}' has no value between epochs",
                                   _builtin_mend(name), place)  # fmt: skip
                return False
        access = FINDER.of_expr(expr)
        changed = [*access.changes, *access.atomic]
        if changed:
            self._faults.error("E132", f"looking at a value cannot change '{changed[0]}'",
                               "change it in a task", place)  # fmt: skip
            return False
        return True

    def _resolved(self, expr: Expr, node: str | None, place: Place) -> Expr | None:
        faulty: list[Expr] = []

        def leaf(part: Expr) -> Expr:
            found: Expr | None = part
            if isinstance(part, Name):
                found = self._blob(part.name, node, place)
            elif isinstance(part, NodeBlob):
                found = self._blob(part.name, part.node, place)
            elif isinstance(part, OutputRead):
                found = self._dotted(part, part.node or node, place)
            if found is None:
                faulty.append(part)
                return part
            return found

        resolved = map_expr(expr, leaf)
        return None if faulty else resolved

    def _blob(self, name: str, node: str | None, place: Place) -> Expr | None:
        owners = self._owners.get(name, [])
        if node is not None:
            if node in owners:
                return NodeBlob(node, name)
            self._unknown(
                name, self._readable.names.get(node, frozenset()), f" on node '{node}'", place
            )
            return None
        if len(owners) == 1:
            return NodeBlob(owners[0], name)
        if owners:
            shown = ", ".join(f"{owner}.{name}" for owner in owners[:3])
            message = f"'{name}' is on {len(owners)} nodes"
            mend = f"write {shown}, or {{of: {name}, nodes: …, reduce: …}}"
            self._faults.error("E133", message, mend, place)
            return None
        self._unknown(name, self._owners, "", place)
        return None

    def _dotted(self, read: OutputRead, node: str | None, place: Place) -> Expr | None:
        """``task.output``, or ``node.blob``."""
        if self._outputs.has_task(read.task):
            return self._outputs.resolve(read, node, self._readable.groups, place, in_probe=True)
        nodes = self._nodes.find(read.task)
        if len(nodes) == 1:
            names = self._readable.names.get(nodes[0], frozenset())
            if read.output in names:
                return NodeBlob(nodes[0], read.output)
            self._unknown(read.output, names, f" on node '{nodes[0]}'", place)
        elif nodes:
            message = f"'{read.task}' is {len(nodes)} nodes"
            mend = f"write {{of: {read.output}, nodes: {read.task}, reduce: …}}, or name one node"
            self._faults.error("E133", message, mend, place)
        else:
            known = [*self._nodes.names[:100], *self._outputs.task_names()]
            self._faults.error("E134", f"'{read.task}' is neither a node nor a task",
                               did_you_mean(read.task, known), place)  # fmt: skip
        return None

    def _unknown(self, name: str, known: Any, where: str, place: Place) -> None:
        tasks = (task for group in self._groups.values() for task in group.tasks)
        task = next((one for one in tasks if name in one.flow.made()), None)
        owners = self._owners.get(name)
        if where and owners:
            message = f"'{name}' is not there{where}, but on '{owners[0]}'"
            mend = f"write {owners[0]}.{name}, or name the nodes that have it"
        elif task is not None and not task.nodes:
            # That it is on no node is told already, and this would be gone with it.
            return
        elif task is not None:
            message = f"'{name}' is no state{where}: it ends with '{task.group}'"
            output = f"give task '{task.name}' outputs: [{name}] and write {task.name}.{name}"
            mend = f"{state_mend(task)}, or {output}"
        else:
            message = f"unknown blob '{name}'{where}"
            mend = did_you_mean(name, known)
        self._faults.error("E135", message, mend, place, name)


def _builtin_mend(name: str) -> str:
    if name == "epoch":
        return "to stop after a number of epochs, write {epochs: N}; else keep a count in the state"
    return "look at a blob, or at an output of a task"


def _text(spec: Any) -> str:
    return spec if isinstance(spec, str) else str(spec)
