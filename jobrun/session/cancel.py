"""How a group run ends when it neither succeeds nor fails: on request, or stuck."""

from __future__ import annotations

from jobrun.core.errors import TaskFailedError


class GroupCancelledError(Exception):
    """``request_stop`` ended the group. Not a failure: whoever asked knows what it means."""


class TasksStuckError(TaskFailedError):
    """Tasks did not end within the time given to them after a failure or a stop request.

    Their threads may still run, so nothing that they can reach may be used or saved any
    more: whoever gets this has to end the process.
    """
