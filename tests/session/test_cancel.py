from __future__ import annotations

from jobrun.core.errors import JobrunError, TaskFailedError
from jobrun.session.base import GroupCancelledError, TasksStuckError


def test_a_cancelled_group_is_no_failure():
    assert not issubclass(GroupCancelledError, JobrunError)


def test_a_stuck_task_is_one():
    assert issubclass(TasksStuckError, TaskFailedError)
    assert TasksStuckError.exit_code == 1
