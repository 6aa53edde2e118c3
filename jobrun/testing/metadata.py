"""Test that a metadata handler keeps the promises of ``MetadataHandler``.

Subclass ``MetadataContract``, and supply a fixture ``handler`` that returns a handler which knows
of no epoch. Where an epoch must exist before the handler hears of it, override ``save_epoch``.
"""

from __future__ import annotations

import pytest

from jobrun.checkpoint.metadata_handler import Chosen, MetadataHandler
from jobrun.core.events import CheckpointTimes

TIMES = CheckpointTimes("save", 0, 10, 0.5, 0.0, "n", ())


class MetadataContract:
    """Tests that a metadata handler of your own passes; subclass it."""

    @pytest.fixture
    def handler(self) -> MetadataHandler:
        """Return a metadata handler to test, without any epoch yet; override this."""
        raise AssertionError("a subclass supplies the fixture 'handler'")

    def save_epoch(self, handler: MetadataHandler, epoch: int) -> None:
        """Notify the metadata handler under test that an epoch was saved; may be overridden."""
        handler.written(epoch, 0)

    def test_before_any_epoch_there_is_none_to_continue_from(
        self, handler: MetadataHandler
    ) -> None:
        answer = handler.last_epoch(None)

        assert answer is None or answer.epoch == -1

    def test_the_newest_that_was_written_is_the_last(self, handler: MetadataHandler) -> None:
        for epoch in range(3):
            self.save_epoch(handler, epoch)

        answer = handler.last_epoch(None)

        assert isinstance(answer, Chosen)
        assert answer.epoch == 2
        assert answer.reason

    def test_an_epoch_that_is_asked_for_is_the_answer_if_it_is_there(
        self, handler: MetadataHandler
    ) -> None:
        for epoch in range(3):
            self.save_epoch(handler, epoch)

        answer = handler.last_epoch(1)

        assert answer is None or answer.epoch == 1

    def test_asking_changes_nothing(self, handler: MetadataHandler) -> None:
        self.save_epoch(handler, 0)

        assert handler.last_epoch(None) == handler.last_epoch(None)

    def test_what_was_written_is_accessible_and_other_epochs_are_not(
        self, handler: MetadataHandler
    ) -> None:
        self.save_epoch(handler, 0)

        assert handler.accessible(0) is True
        assert handler.accessible(7) is False
        assert handler.accessible(None) is True

    def test_hearing_of_an_epoch_twice_changes_nothing(self, handler: MetadataHandler) -> None:
        self.save_epoch(handler, 0)

        handler.written(0, 0)

        answer = handler.last_epoch(None)
        assert answer is not None
        assert answer.epoch == 0

    def test_times_are_taken(self, handler: MetadataHandler) -> None:
        handler.report(TIMES)
