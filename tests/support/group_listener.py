"""Record what another process reports about the tasks of a group."""

from __future__ import annotations


class GroupListener:
    """Record the ends and failures that are reported to it."""

    def __init__(self):
        self.sent = []

    def notify_task_ended(self, task, outputs):
        self.sent.append((task, dict(outputs)))

    def notify_failure(self):
        self.sent.append("failing")

    def open_queue(self, plan, run):
        return None
