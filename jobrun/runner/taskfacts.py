"""What a run tells of its tasks at its start, for whoever shows them. Nothing is run by it."""

from __future__ import annotations

from jobrun.core.events import TaskFacts
from jobrun.graph.types import Job

# The start of a run is one line of its events; nobody shows so many one by one.
MOST_TASKS = 500


def task_facts(job: Job) -> tuple[TaskFacts, ...]:
    """The tasks of all groups, in their order; none if they are very many."""
    found = tuple(
        TaskFacts(group.name, task.name, task.node, task.needs)
        for group in job.groups
        for task in group.tasks
    )
    return found if len(found) <= MOST_TASKS else ()
