"""Implement a metadata handler that keeps everything in memory."""

from __future__ import annotations

from jobrun.checkpoint.metadata_handler import Chosen


class Remembering:
    """Keep the epochs and the times that a run reports."""

    def __init__(self):
        self.epochs = []
        self.times = []

    def last_epoch(self, wanted):
        epoch = max(self.epochs, default=-1) if wanted is None else wanted
        return Chosen(epoch, "as remembered")

    def accessible(self, epoch):
        return epoch is None or epoch in self.epochs

    def written(self, epoch, generation):
        self.epochs.append(epoch)

    def report(self, times):
        self.times.append(times)
