"""What may be asked about, and told of, a run's checkpoints: the MetadataHandler protocol.

The run's own implementation (its manifests and its journal) is the runner's; another one can
be handed to the runner, which then asks and tells both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from jobrun.core.events import CheckpointTimes


@dataclass(frozen=True, slots=True)
class Chosen:
    """An epoch to continue from, and why that one, in words; -1 is the beginning."""

    epoch: int
    reason: str


class MetadataHandler(Protocol):
    """Knows which epochs there are. Called by the runner alone, one call at a time."""

    def last_epoch(self, wanted: int | None) -> Chosen | None:
        """The epoch to continue from; None when it has no opinion. Changes nothing.

        Args:
            wanted: The epoch that the user named, or None.

        Raises:
            CheckpointError: There is none, or not the wanted one.
        """

    def accessible(self, epoch: int | None) -> bool:
        """Whether an epoch can be read as a whole; with None, whether one can be saved now."""

    def written(self, epoch: int, generation: int) -> None:
        """An epoch exists, durably. At least once per epoch: again after a resume from it.

        Raises:
            EnvironmentFaultError: It could not be noted; the save counts as failed.
        """

    def report(self, times: CheckpointTimes) -> None:
        """How long a save, a load or an upload took."""
