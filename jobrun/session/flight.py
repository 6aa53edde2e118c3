"""One run of a group whose parts run in several processes: waits for all, and joins what they say.

The thread that runs the group waits here for one thing at a time, in the order of happening; the
threads that hear the nodes, and a signal handler, only put things into its inbox.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue

from jobrun.core.errors import Fault, JobrunError
from jobrun.core.events import Event, TaskEnded, TaskLimited, TasksGivenUp
from jobrun.core.origin import Origin
from jobrun.graph.types import OutputRef
from jobrun.runtime.cancel import CancelScope
from jobrun.runtime.lines import Line
from jobrun.runtime.midway import Points
from jobrun.runtime.queues import LineKey
from jobrun.session.base import Outputs
from jobrun.session.calls import Outcome
from jobrun.session.cancel import GroupCancelledError, TasksStuckError
from jobrun.session.conduct import LAST_S
from jobrun.session.faults import combined
from jobrun.session.lost import NodeLostError
from jobrun.session.share import Shares

# A node says itself that its tasks are stuck, unless something holds the whole interpreter.
_UNHEARD_S = 4.0
_CONTINUING_S = 1.0
# A node, and what came of its part; None: it is failing; or what it tells of its tasks' limits.
# No node: somebody asked to end.
_Limit = TaskLimited | TaskEnded | TasksGivenUp
_News = tuple[str, Outcome | _Limit | None]


@dataclass(slots=True)
class Flight:
    """The run of one group on several nodes.

    Attributes:
        number: No two runs of a session have the same.
        lines: The queues that several nodes use.
        points: See ``Session.run``.
        scope: Cancelled when the run fails, is asked to end, or has ended.
    """

    number: int
    shares: Shares
    grace_s: float
    points: Points | None = None
    scope: CancelScope = field(default_factory=CancelScope)
    lines: Mapping[LineKey, Line] = field(default_factory=dict)
    _inbox: SimpleQueue[_News] = field(default_factory=SimpleQueue)
    _order: dict[str, None] = field(default_factory=dict)
    _errors: dict[str, BaseException] = field(default_factory=dict)
    _outputs: dict[OutputRef, object] = field(default_factory=dict)
    _deadline: float | None = None
    # By task and node, until when a node says itself that the task's time is over.
    _limits: dict[tuple[str, str], tuple[float, TaskLimited]] = field(default_factory=dict)

    def heard(self, node: str, event: Event) -> None:
        """A node tells of an event. Any thread."""
        if isinstance(event, _Limit):
            self._inbox.put((node, event))

    def came(self, node: str, outcome: Outcome | None) -> None:
        """Something came of a node's part, or, with None, it is failing. Any thread."""
        self._inbox.put((node, outcome))

    def request_stop(self) -> None:
        """Somebody asks to end. Any thread, also a signal handler."""
        self._inbox.put(("", None))

    def wait(self, cancel: Callable[[], None], kill: Callable[[str], None]) -> Outputs:
        """Wait until all parts have ended; the outputs of all tasks, in their order.

        Args:
            cancel: Asks the nodes' parts to end.
            kill: Ends the process of a node that is not heard of any more.

        Raises:
            NodeLostError: A node's process has ended.
            JobrunError: What failed first, with the faults of everything that failed.
            GroupCancelledError: Somebody asked to end.
            TasksStuckError: Tasks did not end in time; their processes have to.
        """
        waiting = dict.fromkeys(self.shares.by_node)
        while waiting:
            news = self._next()
            if news is None:
                self._give_up(waiting, kill)
                break
            node, outcome = news
            if isinstance(outcome, _Limit):
                self._limit(node, outcome)
                continue
            if outcome is not None:
                waiting.pop(node, None)
                self._note(node, outcome)
            if node:
                self._order.setdefault(node) if outcome is None else None
            if (outcome is None or not outcome[0]) and self._deadline is None:
                self._deadline = time.monotonic() + self.grace_s + 2 * LAST_S + _UNHEARD_S
                self.scope.cancel()
                cancel()
        return self._result()

    def _next(self) -> _News | None:
        ends = [at for at, _ in self._limits.values()]
        ends += [] if self._deadline is None else [self._deadline]
        if not ends:
            return self._inbox.get()
        # The second time: all may have been stopped meanwhile, and nodes go on only now.
        for wait_s in (min(ends) - time.monotonic(), _CONTINUING_S):
            with contextlib.suppress(Empty):
                return self._inbox.get(timeout=max(0.0, wait_s))
        return None

    def _limit(self, node: str, event: _Limit) -> None:
        match event:
            case TaskLimited():
                left_s = event.limit_s + event.grace_s + 2 * LAST_S + _UNHEARD_S
                self._limits[event.task, node] = (time.monotonic() + left_s, event)
            case TaskEnded():
                self._limits.pop((event.task, node), None)
            case TasksGivenUp():
                self._limits = {key: one for key, one in self._limits.items() if key[1] != node}

    def _give_up(self, waiting: Mapping[str, None], kill: Callable[[str], None]) -> None:
        """End nodes that are not heard of any more, though they should be."""
        now = time.monotonic()
        for at, event in self._limits.values():
            if at <= now:
                self._errors.setdefault(event.node, _overdue(event))
                kill(event.node)
        if self._errors.keys().isdisjoint(waiting):
            for node in waiting:
                self._errors[node] = _unheard(node, self.grace_s)
                kill(node)

    def _note(self, node: str, outcome: Outcome) -> None:
        is_well, value = outcome
        if is_well:
            self._outputs.update(value)
        else:
            self._errors[node] = value
            self._order.setdefault(node)

    def _result(self) -> Outputs:
        ranked = [self._errors[node] for node in self._order if node in self._errors]
        ranked += [error for error in self._errors.values() if error not in ranked]
        lost = next((one for one in ranked if isinstance(one, NodeLostError)), None)
        if lost is not None:
            raise lost
        errors = [one for one in ranked if not isinstance(one, GroupCancelledError)]
        if errors:
            raise _joined(errors)
        if ranked or self.scope.cancelled:
            raise GroupCancelledError(self.shares.whole.name)
        return {ref: self._outputs[ref] for ref in self.shares.outputs if ref in self._outputs}


def _joined(errors: list[BaseException]) -> BaseException:
    """All errors as one; the tasks that may be tried again are those of all of them."""
    tasks = [one.tasks if isinstance(one, JobrunError) else () for one in errors]
    stuck = next((one for one in errors if isinstance(one, TasksStuckError)), None)
    if stuck is not None and errors[0] is not stuck:
        # Whatever else went wrong, the process has to end.
        whole: BaseException = TasksStuckError(
            *(fault for one in errors if isinstance(one, JobrunError) for fault in one.faults)
        )
        whole.__cause__ = errors[0]
        return whole
    whole = combined(errors)
    if isinstance(whole, JobrunError):
        whole.tasks = tuple(sorted(set().union(*tasks))) if all(tasks) else ()
    return whole


def _overdue(event: TaskLimited) -> TasksStuckError:
    message = (
        f"the task took longer than its limit of {event.limit_s:g} s (task {event.task}, node "
        f"{event.node}, epoch {event.epoch}), and kept the interpreter for itself, so that only "
        "its process could be ended"
    )
    mend = "what was saved is intact; resume continues from the last saved epoch"
    place = Origin(event.file, event.line, event.column) if event.line else None
    return TasksStuckError(Fault("E220", message, mend, place, event.path))


def _unheard(node: str, grace_s: float) -> TasksStuckError:
    return TasksStuckError.of(
        "E215",
        f"node '{node}' did not end its tasks within {grace_s:g} s of being asked to, nor say so",
        "look for a callable that does not return; resume continues from the last saved epoch",
    )
