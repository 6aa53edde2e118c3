"""Writing the nodes' states side by side, and what groups change. Not what a node holds, or how."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from jobrun.checkpoint.plan import Ticket
from jobrun.checkpoint.times import NodeSave
from jobrun.runtime.plan import GroupPlan
from jobrun.runtime.savings import Savings
from jobrun.runtime.together import run_together
from jobrun.session.faults import combined

NodeNames = Mapping[str, frozenset[str]]


def changes_of(plans: Sequence[GroupPlan]) -> tuple[tuple[NodeNames, ...], NodeNames]:
    """What each of the groups changes in place, and what any of them lets opaque code change."""
    opaque: dict[str, frozenset[str]] = {}
    for plan in plans:
        for node, names in plan.opaque.items():
            opaque[node] = opaque.get(node, frozenset()) | names
    return tuple(plan.changed for plan in plans), opaque


def persist_all(
    savings: Savings, tickets: Sequence[Ticket], directory: str
) -> tuple[NodeSave, ...]:
    """Write all nodes' files into the directory, each in a thread of its own.

    Raises:
        TaskFailedError: A blob holds what cannot be stored.
        EnvironmentFaultError: The disk says no.
    """
    saves: dict[Ticket, NodeSave] = {}

    def writing(ticket: Ticket) -> Callable[[], None]:
        def write() -> None:
            saves[ticket] = savings.persist(ticket, directory)

        return write

    raised = run_together(_start, [writing(ticket) for ticket in tickets])
    errors = [error for error in raised if error is not None]
    if errors:
        raise combined(errors)
    return tuple(saves[ticket] for ticket in tickets)


def _start(work: Callable[[], None], done: Callable[[], None]) -> None:
    """As ``Crew.start``; but when the session closes, nobody waits for these threads."""

    def run() -> None:
        work()
        done()

    threading.Thread(target=run, name="jobrun-persist", daemon=True).start()
