from __future__ import annotations

import pytest

from jobrun.checkpoint.metadata import Chosen
from tests.checkpoint.metadata_contract import MetadataContract


class Remembering:
    """A handler that keeps all it is told in memory."""

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


class TestRemembering(MetadataContract):
    @pytest.fixture
    def handler(self):
        return Remembering()
