"""Whole specs, made at random: nodes, groups, tasks, set-up, outputs, stop conditions."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from tests.property.bodies import Bodies, Scope, Touches
from tests.property.expressions import Expressions, Picker
from tests.property.kinds import COUNTER, GROW, INT, TEXT, Type
from tests.support.expression_models import Assign, Target, join, name

_DEEP = 3
# Of what the tasks of a global group make: what some of them may have made is still a blob of the
# node when the next group runs, so no two share a letter.
_PREFIXES = {"init": "lm", "epoch": "abcdef", "download": "h"}
Names = dict[str, Type]


@dataclass
class Unit:
    """A declared node, or a counted one: its nodes have the same names.

    Attributes:
        prefix: Begins the names of its state; they may be names of other nodes' tasks.
        gathered: What download has brought.
    """

    node: str | None
    count: int = 1
    prefix: str = "s"
    state: Names = field(default_factory=dict)
    constants: Names = field(default_factory=dict)
    gathered: Names = field(default_factory=dict)

    @property
    def names(self) -> Names:
        return {**self.state, **self.constants, **self.gathered}


@dataclass
class GroupDraft:
    """A group while its tasks are made.

    Attributes:
        shared: Per unit, what a further task finds if it waits for those before it.
        around: Per unit, what set-up around the group run finds.
        touches: Name, unit and touches of each task.
    """

    kind: str
    shared: dict[int, Names] = field(default_factory=dict)
    node_setups: dict[int, Names] = field(default_factory=dict)
    tasks: list[dict[str, Any]] = field(default_factory=list)
    touches: list[tuple[str, int, Touches]] = field(default_factory=list)


class Jobs:
    """Makes one spec."""

    def __init__(self, pick: Picker) -> None:
        self._pick = pick
        self._nets: dict[str, Any] = {}
        self._bodies = Bodies(pick, self._nets)
        # (task, output) -> type, and the unit the task is on.
        self._outputs: dict[tuple[str, str], tuple[Type, int]] = {}
        self._units = self._make_units()

    def spec(self) -> dict[str, Any]:
        spec: dict[str, Any] = {"jobrun": 1, "name": "made", "seed": self._pick.upto(9)}
        if self._units[0].node is not None:
            spec["nodes"] = {
                str(unit.node): {"count": unit.count} if unit.count > 1 else {}
                for unit in self._units
            }
        init = self._init()
        epoch = self._group("epoch", self._pick.upto(4, 1), _global=self._pick.chance(15))
        groups = {"init": init, "epoch": epoch}
        if self._pick.chance(25):
            groups["download"] = self._group("download", 1, _global=True)
        if self._pick.chance(50):
            groups["exit"] = self._exit()
        spec |= {"nets": self._nets} if self._nets else {}
        return {**spec, **groups, "stop": self._stop(), **self._metrics()}

    def _make_units(self) -> list[Unit]:
        choice = self._pick.upto(5)
        if choice < 3:
            return [Unit(None)]
        if choice == 3:
            return [Unit("a", prefix="t"), Unit("b", prefix="t")]
        if choice == 4:
            return [Unit("w", 2), Unit("a", prefix="t")]
        return [Unit("w", 2)]

    # Groups

    def _init(self) -> dict[str, Any]:
        draft = GroupDraft("global", {index: {} for index in range(len(self._units))})
        for index, unit in enumerate(self._units):
            if self._pick.chance(40):
                self._rebuild_task(draft, index, unit)
            self._state_task(draft, index, unit)
            if self._pick.chance(25):
                self._task(draft, "init", index, instances=2)
            if self._pick.chance(25):
                self._task(draft, "init", index, number=1, is_simple=True)
        for index, unit in enumerate(self._units):
            shared = draft.shared[index]
            unit.state |= {
                blob: kind for blob, kind in shared.items() if blob not in unit.constants
            }
        return {"tasks": draft.tasks}

    def _rebuild_task(self, draft: GroupDraft, index: int, unit: Unit) -> None:
        self._bodies.begin(draft.shared[index])
        constants: Names = {}
        steps = []
        for number in range(self._pick.upto(2, 1)):
            kind = Type("array", self._pick.choose(("float64", "int8", "bool")), (2, 3))
            blob = f"k{index}{number}"
            value = Expressions(self._pick, constants, ["epoch"], {}).of(kind, 1)
            steps.append(Assign((Target(blob),), (value,)))
            constants[blob] = kind
        task = self._place({"task": f"const{index}", "rebuild": True, "steps": steps}, unit)
        draft.tasks.append(task)
        draft.touches.append((task["task"], index, Touches(writes=set(constants))))
        draft.shared[index] |= constants
        unit.constants |= constants

    def _state_task(self, draft: GroupDraft, index: int, unit: Unit) -> None:
        """The task that makes most of the state, of all kinds."""
        self._bodies.begin(draft.shared[index])
        kinds = [INT, Type("array", "float64", (3,))]
        kinds += [self._pick.a_type() for _ in range(self._pick.upto(4, 1))]
        kinds += self._pick.some((COUNTER, GROW, TEXT, Type("float"), Type("bool")), 30)
        scope = Scope(
            dict(draft.shared[index]),
            dict(draft.shared[index]),
            fixed=set(unit.constants),
            prefix="u",
            nested=_DEEP,
        )
        steps: list[Any] = []
        for number, kind in enumerate(kinds):
            blob = f"{self._units[index].prefix}{index}{number}"
            value = self._bodies.expression(scope, kind)
            scope.names[blob] = scope.types[blob] = kind
            scope.touches.writes.add(blob)
            steps.append(Assign((Target(blob),), (value,)))
        if self._pick.chance(40):
            steps += self._bodies.steps(scope, 4)
        self._finish(draft, index, {"task": f"state{index}", "steps": steps}, scope)

    def _group(self, group: str, count: int, *, _global: bool) -> dict[str, Any]:
        default = "global" if group == "download" else "private"
        kind = "global" if _global else "private"
        draft = GroupDraft(kind, {at: unit.names for at, unit in enumerate(self._units)})
        settings: dict[str, Any] = {} if kind == default else {"workspace": kind}
        for number in range(count):
            index = self._pick.upto(len(self._units) - 1)
            several = group == "epoch" and self._pick.chance(25)
            self._task(
                draft,
                group,
                index,
                instances=2 if several else 1,
                number=number,
                is_simple=group == "download",
            )
        if group == "download":
            for index, unit in enumerate(self._units):
                unit.gathered = draft.shared[index]
        return {**settings, "tasks": draft.tasks}

    def _exit(self) -> dict[str, Any]:
        draft = GroupDraft("private", {at: unit.names for at, unit in enumerate(self._units)})
        index = self._pick.upto(len(self._units) - 1)
        if self._units[index].count > 1:
            index = len(self._units) - 1
        task, scope = self._task(draft, "exit", index)
        arrays = [blob for blob, kind in scope.names.items() if kind.kind == "array"]
        if self._units[index].count == 1:
            for blob in self._pick.some(arrays, 50):
                task["steps"].append({"save": {blob: f"${{run.dir}}/artifacts/{blob}.npy"}})
        return {"tasks": draft.tasks}

    # Tasks

    def _task(
        self,
        draft: GroupDraft,
        group: str,
        index: int,
        *,
        instances: int = 1,
        number: int = 0,
        is_simple: bool = False,
    ) -> tuple[dict[str, Any], Scope]:
        self._bodies.begin(draft.shared[index])
        is_global = draft.kind == "global"
        unit, known = self._units[index], draft.shared[index]
        prefix = _PREFIXES[group][number] if is_global else "t"
        scope = Scope(
            dict(known),
            dict(known),
            fixed=set(unit.constants),
            prefix=prefix,
            outputs=self._readable(index),
            words=("epoch", "instances"),
            nested=_DEEP if is_simple else 0,
        )
        task: dict[str, Any] = {"task": f"{group}{index}{number}"}
        setup: dict[str, Any] = {}
        if group != "init" and self._pick.chance(25):
            setup["node"] = self._node_setup(draft, index, scope)
        if group != "init" and self._pick.chance(25):
            # In a global group what set-up makes is the node's: tasks must not meet in it.
            setup["task"] = self._setup(scope, "ABCDEF"[number] if is_global else "x")
        if instances > 1:
            task["instances"] = instances
            # Shared by the instances: what was there before they began.
            scope.fixed |= set(scope.names)
            scope.words = (*scope.words, "instance")
        if group != "init" and self._pick.chance(20):
            setup["instance"] = self._setup(scope, "GHIJKL"[number] if is_global else "y")
        body = scope.inner(block="task")
        body.nested = scope.nested
        task["steps"] = self._bodies.steps(body, 7, 2)
        if self._pick.chance(15) and instances == 1:
            task["report"] = [{"every": "1h", "steps": [self._observation(scope)]}]
        sure = set(body.names).intersection(*body.early[-1])
        scope.names = {blob: kind for blob, kind in body.names.items() if blob in sure}
        if setup:
            task["setup"] = setup
        self._take_outputs(task, scope, index, instances)
        self._finish(draft, index, task, scope)
        return task, scope

    def _observation(self, scope: Scope) -> dict[str, Any]:
        """A step of a report, which sees what is there when the body begins."""
        shown = self._bodies.expression(scope, INT, 1)
        return {"log": f"at {{{shown}}}"}

    def _node_setup(self, draft: GroupDraft, index: int, scope: Scope) -> dict[str, Any]:
        """Around the group run on the node: what it makes, all tasks that follow here see."""
        names = draft.node_setups.setdefault(index, dict(self._units[index].names))
        inner = Scope(
            dict(names), dict(scope.types), fixed=set(scope.fixed), prefix="g", nested=_DEEP
        )
        parts = {"init": self._bodies.steps(inner, 2)}
        sure = dict(inner.names)
        if self._pick.chance(60):
            parts["exit"] = self._bodies.steps(inner, 2)
            sure = {blob: kind for blob, kind in sure.items() if blob in inner.names}
        names |= sure
        draft.shared[index] |= sure
        scope.names |= sure
        scope.types |= inner.types
        return parts

    def _setup(self, scope: Scope, prefix: str) -> dict[str, Any]:
        """Around the task or an instance; the exit sees what the init has made."""
        nested, scope.nested = scope.nested, _DEEP
        parts = {"init": self._bodies.steps(scope, 2)}
        if self._pick.chance(60):
            inner = scope.inner(is_block=False)
            # What it makes must not have a name that each instance has for itself.
            inner.prefix = prefix
            parts["exit"] = self._bodies.steps(inner, 2)
        scope.nested = nested
        return parts

    def _take_outputs(self, task: dict[str, Any], scope: Scope, index: int, instances: int) -> None:
        outputs = []
        for number in range(self._pick.upto(2)):
            kind = Type("array", self._pick.choose(("float64", "int64", "bool")), (3,))
            if self._pick.chance(20):
                kind = Type("numpy", "float32")
            value = self._bodies.expression(scope, kind, 1)
            outputs.append((f"o{number}", kind, value))
        if outputs:
            task["outputs"] = [{output_name: value} for output_name, _, value in outputs]
        for output_name, kind, _ in outputs:
            output_type = kind if instances == 1 else Type("list", kind.dtype, kind.shape)
            self._outputs[task["task"], output_name] = (output_type, index)

    def _readable(self, index: int) -> dict[tuple[str, str], Type]:
        return {
            ref: kind
            for ref, (kind, unit) in self._outputs.items()
            if unit == index or self._units[unit].count == 1
        }

    def _finish(self, draft: GroupDraft, index: int, task: dict[str, Any], scope: Scope) -> None:
        """Note what the task touches, and let it wait for all that it must come after."""
        touches = scope.touches
        needs = []
        for earlier, unit, other in draft.touches:
            here = unit == index and _conflict(touches, other)
            if here or earlier in touches.outputs or self._pick.chance(5):
                needs.append(earlier)
        if needs:
            task["needs"] = needs
        draft.tasks.append(self._place(task, self._units[index]))
        draft.touches.append((task["task"], index, touches))
        if draft.kind == "global" and task.get("instances", 1) == 1:
            draft.shared[index] |= scope.names

    def _place(self, task: dict[str, Any], unit: Unit) -> dict[str, Any]:
        if unit.node is not None:
            task["node"] = unit.node
        return task

    # The rest

    def _stop(self) -> list[dict[str, Any]]:
        conditions: list[dict[str, Any]] = [{"epochs": self._pick.upto(3, 2)}]
        for unit in self._units:
            ints = self._single_ints(unit)
            if ints and self._pick.chance(30):
                blob = self._pick.choose(ints)
                conditions.append({"when": join("({} > 3)", lambda a: a > 3, name(blob))})
        return conditions

    def _metrics(self) -> dict[str, Any]:
        metrics = {blob: name(blob) for unit in self._units for blob in self._single_ints(unit)}
        return {"metrics": metrics} if metrics and self._pick.chance(30) else {}

    def _single_ints(self, unit: Unit) -> list[str]:
        """State that can be said without its node."""
        others = [blob for other in self._units if other is not unit for blob in other.state]
        return [
            blob
            for blob, kind in unit.state.items()
            if kind == INT and unit.count == 1 and blob not in others
        ]


def _conflict(first: Touches, second: Touches) -> bool:
    return bool(
        first.writes & (second.writes | second.reads | second.counts)
        or first.reads & (second.writes | second.counts)
        or first.counts & (second.writes | second.reads)
    )


@st.composite
def specs(draw: st.DrawFn) -> dict[str, Any]:
    """Specs whose expressions are terms."""
    return Jobs(Picker(draw)).spec()
