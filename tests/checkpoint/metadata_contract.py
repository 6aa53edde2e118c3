"""What every metadata handler must do. Subclass it, and give it a fixture ``handler``.

``saved`` brings about what the handler is told of: it makes the epoch exist.
"""

from __future__ import annotations

import pytest

from jobrun.checkpoint.metadata import Chosen, MetadataHandler
from jobrun.core.events import CheckpointTimes

TIMES = CheckpointTimes("save", 0, 10, 0.5, 0.0, "n", ())


class MetadataContract:
    """The rules of ``MetadataHandler``."""

    @pytest.fixture
    def handler(self) -> MetadataHandler:
        """One that was told of nothing."""
        raise AssertionError("a subclass gives the handler")

    def saved(self, handler, epoch: int) -> None:
        """Save an epoch and tell the handler."""
        handler.written(epoch, 0)

    def test_before_any_epoch_there_is_none_to_continue_from(self, handler):
        said = handler.last_epoch(None)

        assert said is None or said.epoch == -1

    def test_the_newest_that_was_written_is_the_last(self, handler):
        for epoch in range(3):
            self.saved(handler, epoch)

        said = handler.last_epoch(None)

        assert isinstance(said, Chosen)
        assert said.epoch == 2
        assert said.reason

    def test_an_epoch_that_is_asked_for_is_the_answer_if_it_is_there(self, handler):
        for epoch in range(3):
            self.saved(handler, epoch)

        said = handler.last_epoch(1)

        assert said is None or said.epoch == 1

    def test_asking_changes_nothing(self, handler):
        self.saved(handler, 0)

        assert handler.last_epoch(None) == handler.last_epoch(None)

    def test_what_was_written_is_accessible_and_other_epochs_are_not(self, handler):
        self.saved(handler, 0)

        assert handler.accessible(0) is True
        assert handler.accessible(7) is False
        assert handler.accessible(None) is True

    def test_being_told_again_changes_nothing(self, handler):
        self.saved(handler, 0)

        handler.written(0, 0)

        said = handler.last_epoch(None)
        assert said is not None
        assert said.epoch == 0

    def test_times_are_taken(self, handler):
        handler.report(TIMES)
