"""What init leaves in each node's global workspace: the state, and the constants beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from jobrun.compile.faults import Faults, Place
from jobrun.compile.flow import Status
from jobrun.compile.scopes import NodeView, place_of
from jobrun.graph.types import Scope


@dataclass(frozen=True, slots=True)
class Left:
    """The names that a group leaves on one node, sorted.

    Attributes:
        callables: Of the constants those that only callables make, and that may be objects.
    """

    state: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    callables: tuple[str, ...] = ()


@dataclass(slots=True)
class _Name:
    """What is known of one name while init's tasks are gone through."""

    status: Status
    rebuilt: Place | None = None
    made: Place | None = None
    is_called: bool = True


def state_of(views: Mapping[str, NodeView], faults: Faults) -> dict[str, Left]:
    """State and constants per node; notes names that init may or may not leave there."""
    return {node: _left(view, faults) for node, view in views.items()}


def left_by(view: NodeView) -> frozenset[str]:
    """The global names that a group certainly leaves on the node."""
    names = _walk(view)
    return frozenset(name for name, one in names.items() if one.status is Status.SET)


def _left(view: NodeView, faults: Faults) -> Left:
    state: list[str] = []
    constants: list[str] = []
    names = _walk(view)
    for name, one in names.items():
        place = one.made or one.rebuilt
        if one.status is Status.MAYBE and place is not None:
            faults.error(
                "E179", f"init may end with '{name}' or without it, and state must be there",
                "make it on every way: in each branch, and before a loop that may have no pass; "
                "or give the task workspace: private if it is not state", place,
            )  # fmt: skip
        elif one.status is Status.SET and one.rebuilt is not None and one.made is not None:
            faults.error(
                "E175", f"'{name}' is made by a 'rebuild' task, at {one.rebuilt.path}, and written "
                "by another, so it is neither a constant nor state",
                "write to a blob of another name", one.made,
            )  # fmt: skip
        if one.status is not Status.GONE:
            # One that is both has a fault, and further ones would follow from it.
            (constants if one.made is None else state).append(name)
    called = [name for name in constants if names[name].is_called]
    return Left(tuple(sorted(state)), tuple(sorted(constants)), tuple(sorted(called)))


def _walk(view: NodeView) -> dict[str, _Name]:
    """The node's global names after set-up, all tasks in order, and the end of set-up."""
    names: dict[str, _Name] = {}
    _walk_setup(view, view.init.end, names)
    for position in sorted(view.tasks, key=view.group.order.rank.__getitem__):
        task = view.tasks[position]
        for name in sorted(task.flow.made() | task.flow.inner.atomic.keys()):
            # What is there before init is state already, of whoever put it there.
            if view.shared_scope(name) is not Scope.NODE or name in view.start:
                continue
            if task.flow.is_only("lent", name) and _is_callables(names.get(name)):
                # Who changes an object has not made it.
                continue
            one = _touched(names, name, task.flow.total.end.get(name))
            one.is_called = one.is_called and task.flow.is_only("called", name)
            if task.spec.rebuild:
                one.rebuilt = one.rebuilt or place_of(task, name)
            else:
                one.made = one.made or place_of(task, name)
    _walk_setup(view, view.exit.end, names)
    return names


def _walk_setup(view: NodeView, end: Mapping[str, Status], names: dict[str, _Name]) -> None:
    for name, place in view.around.writes.items():
        if name in end and view.shared_scope(name) is Scope.NODE:
            one = _touched(names, name, end[name])
            one.made = one.made or place


def _is_callables(known: _Name | None) -> bool:
    """Whether only callables of ``rebuild`` tasks have made it so far."""
    return known is not None and known.is_called and known.made is None


def _touched(names: dict[str, _Name], name: str, status: Status | None) -> _Name:
    known = names.get(name)
    if known is None:
        # Written, but not on every way: it may be there.
        known = names[name] = _Name(status or Status.MAYBE)
    elif status is not None:
        known.status = status
    return known
