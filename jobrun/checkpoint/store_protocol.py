"""Define the protocol of a checkpoint store, with its manifest and other values.

An epoch exists when it has been committed, and only then. Its commit point is one rename;
before it nothing of the epoch is visible, after it all of it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol

from msgspec import Struct, field

from jobrun.core.files.file_lock import close_locked
from jobrun.core.partly_compared import PartlyCompared


class StoredFile(PartlyCompared, frozen=True):
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

    uncompared: ClassVar[tuple[str, ...]] = ("seconds", "sync_seconds", "written_bytes")

    node: str
    name: str
    size_bytes: int
    digest: str
    seconds: float = 0.0
    sync_seconds: float = 0.0
    written_bytes: int = 0


class Manifest(Struct, frozen=True):
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


class Damage(Struct, frozen=True):
    """Why an epoch cannot be used."""

    epoch: int
    reason: str


class EpochHold:
    """A shared lock on an epoch, which keeps it from being deleted.

    It lasts until ``release``, or until this object or its process is gone.

    Args:
        descriptor: The locked file; -1 for a hold of what cannot be locked.
    """

    def __init__(self, descriptor: int = -1) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release a reader's hold on an epoch in a store, so that the epoch can be deleted."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            close_locked(descriptor)

    def __del__(self) -> None:
        self.release()


class CheckpointStore(Protocol):
    """A place for the checkpoints of one run."""

    def stage(self, epoch: int) -> str:
        """Create a directory for an epoch's files, as every store must.

        It is empty, or has files of a removed epoch that the new ones overwrite; see ``remove``.

        Raises:
            EnvironmentFaultError: The system refuses.
        """

    def check(self) -> None:
        """Require that the store was not replaced since its first use (E390), as every store must.

        Raises:
            EnvironmentFaultError: E390, it was removed or replaced, with all epochs in it.
        """

    def commit(self, staged: str, manifest: Manifest) -> str:
        """Commit an epoch's staged files durably, as every store must, and return their path.

        Raises:
            EnvironmentFaultError: The system refuses; nothing of the epoch is visible, or
                the message says that this is not known.
        """

    def discard(self, staged: str) -> None:
        """Delete the files of a save that was not committed, as every store must.

        It raises no error.
        """

    def epochs(self) -> tuple[int, ...]:
        """List the store's epochs in ascending order, damaged ones too, as every store must."""

    def path(self, epoch: int) -> str:
        """Return a local directory that has an epoch's files, as every store must."""

    def manifest(self, epoch: int) -> Manifest:
        """Read an epoch's manifest (files and digests) from the store, as every store must.

        Raises:
            CheckpointError: It is not there, damaged, or of another format version.
        """

    def verify(self, epoch: int) -> Damage | None:
        """Verify an epoch's manifest and files, as every store must, and return any damage."""

    def set_aside(self, epochs: tuple[int, ...], where: str) -> None:
        """Move epochs out of the store, to the path ``where``, as every store must."""

    def hold(self, epoch: int) -> EpochHold | None:
        """Protect an epoch from deletion until the hold is released, as every store must.

        Returns:
            The hold; None when there is no such epoch, or it is just being deleted.
        """

    def remove(self, epochs: tuple[int, ...], *, keep_for_reuse: bool = False) -> tuple[int, ...]:
        """Delete epochs, except those that readers hold, as every store must.

        Args:
            epochs: They.
            keep_for_reuse: The store may keep one set of files out of sight, for the next epoch
                to be written into; who asks for that calls ``close`` in the end.

        Returns:
            The epochs that stay because readers hold them.
        """

    def close(self) -> None:
        """Delete old files kept for later epochs to overwrite, as every store must.

        The store can be used again.
        """

    def sweep(self) -> tuple[str, ...]:
        """Remove files left by interrupted saves and deletions, as every store must."""
