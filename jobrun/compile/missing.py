"""Says why a blob is not there where it is read, and how to mend that. Runs only on faults."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from jobrun.compile.faults import Faults, Place
from jobrun.compile.groups import GroupDraft
from jobrun.compile.scopes import NodeView, place_of
from jobrun.compile.tasks import FAILED, Draft
from jobrun.core.names import did_you_mean, nearest
from jobrun.graph.expr import BUILTINS
from jobrun.graph.types import GroupName

# Searching for the nearest name is slow; among so many it helps nobody.
_MOST_NAMES = 2_000


class _Words(NamedTuple):
    """What is wrong, and how to mend it."""

    code: str
    message: str
    mend: str


class Missing:
    """Reports names that are read and may not be there.

    Args:
        groups: All groups of the job.
        params: Names of the params.
        faults: Where to report.
    """

    def __init__(
        self, groups: Mapping[GroupName, GroupDraft], params: Mapping[str, object], faults: Faults
    ) -> None:
        self._groups = groups
        self._params = params
        self._faults = faults
        self._told: set[tuple[str, Place]] = set()
        # Names whose reading before they are made was told, by task: no race besides.
        self.unordered: set[tuple[str, str]] = set()
        # Nodes whose state is not checkpointed; filled in once that is known.
        self.dropped: dict[str, frozenset[str]] = {}

    def report(self, view: NodeView, position: int | None, name: str, place: Place) -> None:
        """Note one fault: ``name`` is read at ``place``, and may not be there.

        ``position`` is the reading task's; None for what runs around or beside the tasks.
        """
        task = view.tasks[position] if position is not None else None
        if (name, place) in self._told or (task is not None and task.records.are_unknown):
            # Once for all nodes; and not where a record would bring the name.
            return
        self._told.add((name, place))
        if name in self._made_nowhere:
            # That its task is on no node is told already, and this would be gone with it.
            return
        words = (
            self._special(view, name)
            or self._in_own_task(task, name)
            or self._beside(view, task, position, name)
            or self._elsewhere(view, task, name)
            or self._unknown(view, task, name)
        )
        if words.code == "E182" and not view.group.order.is_sound:
            return
        if words.code == "E182" and task is not None:
            self.unordered.add((task.path, name))
        self._faults.error(words.code, words.message, words.mend, place, name.rsplit(":", 1)[-1])

    def _special(self, view: NodeView, name: str) -> _Words | None:
        if name == FAILED:
            return _Words(
                "E180",
                "'failed' is readable in the exit part of set-up only",
                "move the step there, or give the blob another name",
            )
        if ":" in name:
            own = name.rsplit(":", 1)[1]
            return _Words(
                "E186",
                f"the net was not given '{own}', and has not certainly made it before this",
                f"add '{own}' to the net's 'in', and give it a value where the net is used",
            )
        if name in self.dropped.get(view.node, ()):
            return _Words(
                "E184",
                f"'checkpoint.nodes' leaves out node '{view.node}', so '{name}', which init makes "
                "there, ends with init",
                f"add '{view.node}' to 'checkpoint.nodes'",
            )
        return None

    @staticmethod
    def _in_own_task(task: Draft | None, name: str) -> _Words | None:
        if task is None or name not in task.flow.made():
            return None
        made = place_of(task, name)
        return _Words(
            "E181",
            f"'{name}' is read before it has certainly been made; the task makes it at {made.path}",
            "make it before, on every way: in each branch, and before a loop that may have no pass",
        )

    def _beside(
        self, view: NodeView, task: Draft | None, position: int | None, name: str
    ) -> _Words | None:
        """Another task of the group makes it in a workspace that both see."""
        if view.shared_scope(name) is None:
            return None
        others = (other for other in self._writers.get(name, []) if other is not task)
        other = next((one for one in others if _runs_in(one, view)), None)
        if other is None:
            return None
        made = f"'{name}' is made by task '{other.name}'"
        if position is None or task is None:
            return _Words(
                "E182", f"{made}, and may not be there yet", "make it in the init of the set-up"
            )
        if task.spec.rebuild and not other.spec.rebuild:
            return _Words(
                "E182",
                f"{made}, which does not run again at a resume, as this task does",
                f"give '{other.name}' 'rebuild: true' too, or take it from this one",
            )
        return _unordered(view, position, other.position, made)

    def _elsewhere(self, view: NodeView, task: Draft | None, name: str) -> _Words | None:
        """A task makes it where this one cannot see it."""
        others = (other for other in self._writers.get(name, []) if other is not task)
        for other in others:
            hand_over = f"give '{other.name}' outputs: [{name}] and read {other.name}.{name}"
            if view.node in other.nodes and not other.is_global:
                message = f"'{name}' is a blob of task '{other.name}' alone, and ends with it"
                return _Words("E183", message, f"{state_mend(other)}, or {hand_over}")
            if view.node not in other.nodes:
                message = f"'{name}' is a blob of node '{other.nodes[0]}', not of '{view.node}'"
                return _Words("E183", message, hand_over)
            if other.group != view.group.name:
                message = f"'{name}', which task '{other.name}' makes, ends with '{other.group}'"
                return _Words("E183", message, f"{state_mend(other)}: that makes it state")
        return None

    def _unknown(self, view: NodeView, task: Draft | None, name: str) -> _Words:
        if name in self._params:
            return _Words(
                "E180", f"'{name}' is a param, not a blob", "assign its value to a blob first"
            )
        known = set(view.start) | view.global_names | view.group_names | set(self._params)
        if task is not None:
            known |= task.flow.made()
        # Names inside nets, and positions of readers, are none that a spec could say.
        known = {one for one in known if ":" not in one and "/" not in one}
        message = f"unknown blob '{name}'"
        if len(known) > _MOST_NAMES:
            return _Words("E180", message, "make it first")
        builtin = nearest(name, [one for one in BUILTINS if "." not in one])
        if builtin is not None and nearest(name, known) is None:
            return _Words("E180", message, f"did you mean '{builtin}'?")
        return _Words("E180", message, did_you_mean(name, known))

    @cached_property
    def _made_nowhere(self) -> frozenset[str]:
        tasks = (task for group in self._groups.values() for task in group.tasks)
        return frozenset(name for task in tasks if not task.nodes for name in task.flow.made())

    @cached_property
    def _writers(self) -> dict[str, list[Draft]]:
        writers: dict[str, list[Draft]] = {}
        for group in self._groups.values():
            for task in group.tasks:
                # What a record brings comes from the very task that may miss it.
                made = task.flow.made() - {*task.records.fields}
                for name in made if task.nodes else ():
                    writers.setdefault(name, []).append(task)
        return writers


def state_mend(task: Draft) -> str:
    """What makes a blob of that task state."""
    if task.group == "init":
        return "make it in a global task without instances"
    return "make it in init"


def _runs_in(task: Draft, view: NodeView) -> bool:
    return task.group == view.group.name and view.node in task.nodes


def _unordered(view: NodeView, position: int, other: int, made: str) -> _Words:
    name = view.group.tasks[other].name
    order = view.group.order
    if order.is_before(position, other):
        return _Words(
            "E182", f"{made}, which waits for this task", "make it before, or turn the needs around"
        )
    if order.is_before(other, position):
        return _Words(
            "E182",
            f"{made}, which may end without it: it makes it on some ways only, or deletes it",
            "make it on every way through that task",
        )
    return _Words("E182", f"{made}, which runs at the same time", f"write needs: [{name}]")
