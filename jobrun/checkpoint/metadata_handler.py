"""Define the protocol of metadata handlers, which choose and record a run's epochs.

The run's own implementation (its manifests and its journal) is the runner's; another one can
be handed to the runner, which then asks and informs both.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from jobrun.core.events import CheckpointTimes


class Chosen(Struct, frozen=True):
    """An epoch to continue from, and why that one, in words; -1 is the beginning."""

    epoch: int
    reason: str


class MetadataHandler(Protocol):
    """Knows which epochs there are. Called by the runner alone, one call at a time."""

    def last_epoch(self, wanted: int | None) -> Chosen | None:
        """Return the epoch to continue a run from; None leaves that to other metadata handlers.

        Asked at each start, also of a new run, which has no epoch to continue from.

        Args:
            wanted: The epoch that the user named, or None.

        Raises:
            CheckpointError: There is none, or not the wanted one.
        """

    def accessible(self, epoch: int | None) -> bool:
        """Return whether a metadata handler can read ``epoch``, or save a new one if it is None."""

    def written(self, epoch: int, generation: int) -> None:
        """Record in any metadata handler that an epoch's checkpoint is durable.

        Called once for an epoch, or at a resume if the handler then denies having it.

        Raises:
            EnvironmentFaultError: It could not be noted; the save counts as failed.
        """

    def report(self, times: CheckpointTimes) -> None:
        """Report to any metadata handler how long a save, load or upload took."""
