"""What a place for checkpoints must do: the CheckpointStore protocol, and its values.

An epoch exists when it has been committed, and only then. Its commit point is one rename;
before it nothing of the epoch is visible, after it all of it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class StoredFile:
    """The facts about one node's file, as its writer knows them.

    Attributes:
        node: Whose state it holds.
        name: The file's name inside the epoch's directory.
        size_bytes: Its length.
        digest: ``sha256:<hex>`` of its whole content.
        seconds: How long writing it took, fsync included; not compared.
        sync_seconds: Of these, waiting for the disk to have it; not compared.
        written_bytes: How much was handed to the disk: what had not changed since the file was
            last in use, or the last file was written, was there already; not compared.
    """

    node: str
    name: str
    size_bytes: int
    digest: str
    seconds: float = field(default=0.0, compare=False)
    sync_seconds: float = field(default=0.0, compare=False)
    written_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Manifest:
    """What makes an epoch's files one checkpoint. Written last.

    Attributes:
        epoch: 0 after init, then 1, …
        run_id: The run it belongs to.
        generation: Raised by each ``resume --epoch N``.
        files: One per node, in node order.
        spec_digest: ``sha256:<hex>`` of the resolved spec.
        runner: The runner's own state (stop flags, elapsed time, patience, outputs), as
            JSON values.
        environment: Versions and numerics, as JSON values.
    """

    epoch: int
    run_id: str
    generation: int
    files: tuple[StoredFile, ...]
    spec_digest: str
    runner: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Damage:
    """Why an epoch cannot be used."""

    epoch: int
    reason: str


class CheckpointStore(Protocol):
    """A place for the checkpoints of one run."""

    def stage(self, epoch: int) -> str:
        """Make an empty staging place and return its path, for the nodes to write files in.

        Raises:
            EnvironmentFaultError: The disk says no.
        """

    def commit(self, staged: str, manifest: Manifest) -> str:
        """Make the staged epoch exist, durably, and return its path. It never replaces one.

        Raises:
            EnvironmentFaultError: The disk says no; nothing of the epoch is visible, or
                the message says that this is not known.
        """

    def discard(self, staged: str) -> None:
        """Remove a staging place; never raises."""

    def epochs(self) -> tuple[int, ...]:
        """The epochs that exist, ascending; says nothing of their condition."""

    def path(self, epoch: int) -> str:
        """Where the epoch's files are."""

    def manifest(self, epoch: int) -> Manifest:
        """Read the epoch's manifest.

        Raises:
            CheckpointError: It is not there, damaged, or of another format version.
        """

    def verify(self, epoch: int) -> Damage | None:
        """Check the manifest and every file's length and digest; None when all is well."""

    def set_aside(self, epochs: tuple[int, ...], where: str) -> None:
        """Move epochs out of the way, into ``where``; nothing is deleted."""

    def remove(self, epochs: tuple[int, ...], *, keep_spare: bool = False) -> None:
        """Delete epochs that retention has chosen; each disappears whole.

        Args:
            epochs: They.
            keep_spare: The store may keep one set of files out of sight, for the next epoch
                to be written into; who asks for that calls ``close`` in the end.
        """

    def close(self) -> None:
        """Delete what was kept for later epochs. The store can be used again."""

    def sweep(self) -> tuple[str, ...]:
        """Remove what interrupted saves and removals left, and name it."""
