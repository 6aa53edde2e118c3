"""A group run that is tried again, on all nodes, from where it started. Runs no task itself."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping

from jobrun.core.errors import JobrunError
from jobrun.core.events import GroupRetried, Listener, Noted
from jobrun.graph.types import Retry, TaskGroup
from jobrun.runner.signals import StopRequests
from jobrun.session.base import Outputs, Session
from jobrun.session.cancel import GroupCancelledError, TasksStuckError

# How soon a request to end is seen while nothing runs.
_POLL_S = 0.05


def run_with_retries(
    session: Session,
    group: TaskGroup,
    epoch: int,
    outputs: Outputs,
    requests: StopRequests,
    listen: Listener,
) -> Outputs:
    """Run the group; after a failure of tasks that declare ``retry``, again from the same bits.

    ::

        keep what the group may change
        until it ends well:
            run it
            give up if a failure is of no task with a retry left, each counting its own
            tell why, and wait the longest backoff of those that failed
            put back what was kept

    Random streams are keyed by names and by the epoch, so what a later attempt makes has the
    bits of an undisturbed one.

    Raises:
        GroupCancelledError: Someone asked to end before the next attempt.
        JobrunError: What failed last.
    """
    declared = {task.name: task.retry for task in group.tasks if task.retry and task.retry.most}
    if not declared:
        return session.run(group, epoch, outputs)
    start = session.snapshot(group)
    failures: Counter[str] = Counter()
    attempt = 1
    while True:
        try:
            return session.run(group, epoch, outputs)
        except TasksStuckError:
            raise
        except JobrunError as error:
            failures.update(error.tasks)
            chosen = _retries(error.tasks, declared, failures)
            if chosen is None:
                if attempt > 1:
                    listen(Noted(f"{_failed(group, attempt, error)}; no retry is left", "warning"))
                raise
            wait_s = max(one.backoff_s for one in chosen)
            when = f"in {wait_s:g} s" if wait_s else "now"
            text = f"{_failed(group, attempt, error)}; it runs again {when}, from where it started"
            listen(Noted(text, "warning"))
            _pause(wait_s, requests, group, error)
        session.restore(start)
        listen(GroupRetried(group.name, epoch, attempt))
        attempt += 1


def _retries(
    failed: tuple[str, ...], declared: Mapping[str, Retry], failures: Counter[str]
) -> list[Retry] | None:
    """The retries of the tasks that failed; None if one of them has none left."""
    chosen = []
    for name in failed:
        retry = declared.get(name)
        if retry is None or failures[name] > retry.most:
            return None
        chosen.append(retry)
    return chosen or None


def _failed(group: TaskGroup, attempt: int, error: JobrunError) -> str:
    said = "; ".join(f"{fault.path}: {fault.message}" for fault in error.faults)
    return f"attempt {attempt} of group '{group.name}' failed: {said}"


def _pause(wait_s: float, requests: StopRequests, group: TaskGroup, error: JobrunError) -> None:
    end = time.monotonic() + wait_s
    while not requests.reason:
        left_s = end - time.monotonic()
        if left_s <= 0:
            return
        time.sleep(min(left_s, _POLL_S))
    raise GroupCancelledError(group.name) from error
