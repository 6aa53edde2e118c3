from __future__ import annotations

from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.session.base import GroupCancelledError, TasksStuckError


def test_a_cancelled_group_is_no_failure():
    assert not issubclass(GroupCancelledError, JobrunError)


def test_tasks_stuck_error_is_a_task_failure():
    assert issubclass(TasksStuckError, TaskFailedError)
    assert TasksStuckError.exit_code == 1
