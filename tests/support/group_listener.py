"""Record what another process reports about the tasks of a group."""

from __future__ import annotations


class GroupListener:
    """Record the ends and failures that are reported to it."""

    def __init__(self):
        self.told = []

    def notify_task_ended(self, task, outputs):
        self.told.append((task, dict(outputs)))

    def notify_failure(self):
        self.told.append("failing")

    def open_queue(self, plan, run):
        return None
