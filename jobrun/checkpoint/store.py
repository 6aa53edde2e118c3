"""Define the protocol of a checkpoint store, with its manifest and other values.

An epoch exists when it has been committed, and only then. Its commit point is one rename;
before it nothing of the epoch is visible, after it all of it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Protocol

from jobrun.core.files.file_lock import unlock
from jobrun.core.lazy_dataclass import dataclass


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


class EpochHold:
    """A shared lock on an epoch, which keeps it from being deleted.

    It lasts until ``release``, or until this object or its process is gone.

    Args:
        descriptor: The locked file; -1 for a hold of what cannot be locked.
    """

    def __init__(self, descriptor: int = -1) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Release a store's hold on an epoch, which may then be deleted (protocol)."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            # close() alone would leave the lock to a process that was forked meanwhile.
            unlock(descriptor)
            os.close(descriptor)

    def __del__(self) -> None:
        self.release()


class CheckpointStore(Protocol):
    """A place for the checkpoints of one run."""

    def stage(self, epoch: int) -> str:
        """Create an empty staging place in the store, where nodes write files (protocol).

        Raises:
            EnvironmentFaultError: The system refuses.
        """

    def check(self) -> None:
        """Require that the store is still the one found at its first use (store protocol).

        Raises:
            EnvironmentFaultError: E390, it was removed or replaced, with all epochs in it.
        """

    def commit(self, staged: str, manifest: Manifest) -> str:
        """Commit the staged epoch to the store durably; return its path (protocol).

        Raises:
            EnvironmentFaultError: The system refuses; nothing of the epoch is visible, or
                the message says that this is not known.
        """

    def discard(self, staged: str) -> None:
        """Discard a staging place of the store without raising an error (protocol)."""

    def epochs(self) -> tuple[int, ...]:
        """Return the epochs in the store, ascending, including damaged ones (protocol)."""

    def path(self, epoch: int) -> str:
        """Return a local directory that holds the files of a stored epoch (protocol)."""

    def manifest(self, epoch: int) -> Manifest:
        """Read the manifest of an epoch in the checkpoint store (store protocol).

        Raises:
            CheckpointError: It is not there, damaged, or of another format version.
        """

    def verify(self, epoch: int) -> Damage | None:
        """Verify the manifest, lengths and digests of a stored epoch (protocol)."""

    def set_aside(self, epochs: tuple[int, ...], where: str) -> None:
        """Move checkpoints of the store to the path ``where`` instead of deleting them."""

    def hold(self, epoch: int) -> EpochHold | None:
        """Keep an epoch of the store from being deleted until released (protocol).

        Returns:
            The hold; None when there is no such epoch, or it is just being deleted.
        """

    def remove(self, epochs: tuple[int, ...], *, keep_for_reuse: bool = False) -> tuple[int, ...]:
        """Delete from the store the epochs that retention has chosen (protocol).

        Args:
            epochs: They.
            keep_for_reuse: The store may keep one set of files out of sight, for the next epoch
                to be written into; who asks for that calls ``close`` in the end.

        Returns:
            The epochs that stay because readers hold them.
        """

    def close(self) -> None:
        """Delete files of deleted epochs that the store kept for reuse by later ones (protocol).

        The store can be used again.
        """

    def sweep(self) -> tuple[str, ...]:
        """Remove from the store what interrupted saves and removals left (protocol)."""
