"""Store checkpoints in an object store: each file an object, the manifest last.

::

    epoch-000012/trainer.0123456789abcdef.h5    each node's file, named by its digest
    epoch-000012/manifest.json                  last, and only as a new object: now the epoch exists

All who write a file of a name write the same bytes, so what an interrupted upload left, or what
another runner writes at the same time, is no harm; and of several manifests only one can be the
first. Each file is read back and compared before the manifest is made.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from jobrun.checkpoint.read.safe_file import read_regular_file
from jobrun.checkpoint.read.verified_file import read_verified
from jobrun.checkpoint.store_protocol import Damage, EpochHold, Manifest, StoredFile
from jobrun.checkpoint.stores import manifest as manifests
from jobrun.checkpoint.stores.bucket import Bucket
from jobrun.checkpoint.stores.directory import DirectoryStore, epoch_name
from jobrun.checkpoint.stores.manifest import manifest_identity
from jobrun.checkpoint.stores.object_references import Reference, local_path, read_reference
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.failpoints import reach
from jobrun.core.files.digest import PREFIX
from jobrun.core.text.object_url import ObjectUrl
from jobrun.core.text.patterns import lazy_pattern

_EPOCH = lazy_pattern(r"(epoch-([0-9]{6,18}))/.+")
_TAG_LENGTH = 16


# Returns whether an upload is still wanted; called between pieces.
Wanted = Callable[[], bool]


class UploadCancelledError(Exception):
    """The upload is no longer wanted; what it has sent is used again by a later one."""


def _always() -> bool:
    return True


class ObjectStore:
    """A ``CheckpointStore`` in an object store; ``path`` fetches an epoch's files temporarily.

    Args:
        url: Where the epochs are, or go.
    """

    def __init__(self, url: ObjectUrl) -> None:
        self.url = url
        self._bucket = Bucket(url)
        root = tempfile.mkdtemp(prefix="jobrun-objects-")
        self._local = DirectoryStore(root)
        self._root = Path(root)
        self._forget = weakref.finalize(self, shutil.rmtree, root, ignore_errors=True)

    def stage(self, epoch: int) -> str:
        """Create the local staging directory from which the object store uploads an epoch."""
        return self._local.stage(epoch)

    def commit(self, staged: str, manifest: Manifest) -> str:
        """Commit a staged epoch: upload its files as objects, and its manifest last."""
        try:
            if self._find_manifest(manifest.epoch) is not None:
                raise self._another(manifest.epoch)
            self._send_files(staged, manifest, _always)
            data = manifests.encode(manifest)
            # A manifest that exists already may be ours: the reply to a first try may be lost.
            if not (
                self._bucket.put_new(_manifest_name(manifest.epoch), data)
                or self._find_manifest(manifest.epoch) == manifest
            ):
                raise self._another(manifest.epoch)
        finally:
            self.discard(staged)
        return str(self.url / epoch_name(manifest.epoch))

    def upload(self, directory: str, manifest: Manifest, is_wanted: Wanted = _always) -> bool:
        """Copy an epoch's directory into this object store; return False if it was there.

        What an earlier try has brought is compared, and kept where its bytes are right.

        Args:
            directory: Where its files are.
            manifest: Its own.
            is_wanted: Asked between pieces.

        Raises:
            CheckpointError: It is not what its manifest says; or it is gone.
            EnvironmentFaultError: Another one is here, or the store refuses.
            UploadCancelledError: It is not wanted any more.
        """
        if self._is_same(manifest):
            return False
        reach("upload.begun")
        self._send_files(directory, manifest, is_wanted)
        _require_wanted(is_wanted)
        data = read_regular_file(
            str(Path(directory, manifests.NAME)), most_bytes=manifests.MOST_BYTES
        )
        if not self._bucket.put_new(_manifest_name(manifest.epoch), data):
            # It exists already: the reply to a first try was lost, or another runner wrote it.
            self._is_same(manifest)
        reach("upload.published")
        return True

    def discard(self, staged: str) -> None:
        """Delete a local staging directory of the object store."""
        self._local.discard(staged)

    def epochs(self) -> tuple[int, ...]:
        """Return the epochs in the object store that have a manifest, ascending."""
        return tuple(sorted(self._entries()[0]))

    def path(self, epoch: int) -> str:
        """Return a local directory with an epoch's files, downloaded from the object store.

        Raises:
            CheckpointError: The epoch is not there, or damaged.
        """
        directory = self._local.path(epoch)
        if not Path(directory).is_dir():
            self.fetch(epoch, self._local)
        return directory

    def fetch(self, epoch: int, store: DirectoryStore) -> Manifest:
        """Download an epoch from this object store, and commit it in a directory store, durably.

        Raises:
            CheckpointError: It is not there, or damaged.
            EnvironmentFaultError: One of the stores refuses.
        """
        manifest = self.manifest(epoch)
        staged = store.stage(epoch)
        try:
            for file in manifest.files:
                self._fetch_file(epoch, file, staged)
            committed = store.commit(staged, manifest)
            made_at = self._bucket.made_at(_manifest_name(epoch))
            # The age of an epoch counts from its upload, not from its download.
            os.utime(Path(committed, manifests.NAME), (made_at, made_at))
        except BaseException:
            store.discard(staged)
            raise
        damage = store.verify(epoch)
        if damage is not None:
            store.remove((epoch,))
            raise CheckpointError.of(
                "E333",
                f"epoch {epoch} in {self.url} is damaged: {damage.reason}",
                "use another epoch, or upload this one again from where it was saved",
            )
        return manifest

    def manifest(self, epoch: int) -> Manifest:
        """Return the manifest of an epoch in the object store; refuse a missing epoch (E310)."""
        manifest = self._find_manifest(epoch)
        if manifest is None:
            there = ", ".join(map(str, self.epochs())) or "none"
            raise CheckpointError.of(
                "E310", f"there is no epoch {epoch} in {self.url}", f"epochs there: {there}"
            )
        return manifest

    def verify(self, epoch: int) -> Damage | None:
        """Verify an epoch in the object store by downloading all of it; return any damage."""
        try:
            self._local.remove((epoch,))
            self.fetch(epoch, self._local)
        except CheckpointError as error:
            return Damage(epoch, "; ".join(fault.message for fault in error.faults))
        return None

    def set_aside(self, epochs: tuple[int, ...], where: str) -> None:
        """Move epochs in the object store to the key prefix ``Path(where).name``."""
        prefix = Path(where).name
        for epoch in sorted(epochs, reverse=True):
            names = sorted(self._names(epoch), key=lambda name: name.endswith(manifests.NAME))
            for name in names:
                self._bucket.copy(name, f"{prefix}/{name}")
            self._remove(epoch)

    def check(self) -> None:
        """Do nothing: no other object store can replace this one, as its URL identifies it."""

    def hold(self, epoch: int) -> EpochHold | None:
        """Return a read lock that does nothing, as an object store has no locks.

        None if there is no such epoch.
        """
        return EpochHold() if self._find_manifest(epoch) is not None else None

    def remove(self, epochs: tuple[int, ...], *, keep_for_reuse: bool = False) -> tuple[int, ...]:
        """Delete epochs from the object store: each epoch's manifest first, then its files."""
        del keep_for_reuse
        for epoch in sorted(epochs):
            self._remove(epoch)
        return ()

    def close(self) -> None:
        """Delete the epochs that this object store has downloaded to a local directory."""
        self._local.remove(self._local.epochs())

    def sweep(self) -> tuple[str, ...]:
        """Delete epochs without a manifest from the object store, while no upload runs.

        A later upload would use them; this is for who will never make it.
        """
        _, without = self._entries()
        for epoch in sorted(without):
            self._remove(epoch)
        return (*self._local.sweep(), *(epoch_name(epoch) for epoch in sorted(without)))

    def _entries(self) -> tuple[set[int], set[int]]:
        """Return which epochs in the object store have a manifest, and which have none."""
        seen: set[int] = set()
        whole: set[int] = set()
        for name in self._bucket.list():
            match = _EPOCH.fullmatch(name)
            if match and match[1] == epoch_name(int(match[2])):
                seen.add(int(match[2]))
                if name == _manifest_name(int(match[2])):
                    whole.add(int(match[2]))
        return whole, seen - whole

    def _names(self, epoch: int) -> tuple[str, ...]:
        return tuple(self._bucket.list(epoch_name(epoch)))

    def _remove(self, epoch: int) -> None:
        self._local.remove((epoch,))
        last = _manifest_name(epoch)
        names = self._names(epoch)
        self._bucket.delete([*(name for name in names if name == last), *sorted({*names} - {last})])

    def _find_manifest(self, epoch: int) -> Manifest | None:
        name = _manifest_name(epoch)
        data = self._bucket.read(name, manifests.MOST_BYTES)
        if data is None:
            return None
        manifest = manifests.decode(data, str(self.url / name))
        if manifest.epoch != epoch:
            raise CheckpointError.of(
                "E304",
                f"{self.url / name} belongs to epoch {manifest.epoch}; wanted was epoch {epoch}",
                "put the right object back, or use another epoch",
            )
        return manifest

    def _is_same(self, manifest: Manifest) -> bool:
        """Return whether the object store has this manifest; raise if the epoch has another."""
        stored = self._find_manifest(manifest.epoch)
        if stored is None:
            return False
        if manifest_identity(stored) != manifest_identity(manifest):
            raise self._another(manifest.epoch)
        return True

    def _another(self, epoch: int) -> EnvironmentFaultError:
        return EnvironmentFaultError.of(
            "E332",
            f"{self.url / epoch_name(epoch)} is there already and is not this checkpoint: another "
            "runner has made it, or it was computed again since",
            "see which run made it; move it away, or upload to another place, then resume",
        )

    def _send_files(self, directory: str, manifest: Manifest, is_wanted: Wanted) -> None:
        for file in manifest.files:
            source = str(Path(directory, file.name))
            reference = Reference(self.url, object_name(manifest.epoch, file))
            # A file that its node uploaded was verified then.
            if Path(source).exists() or read_reference(source) != reference:
                _send_file(self._bucket, manifest.epoch, file, source, is_wanted)
            reach("upload.file-synced")

    def _fetch_file(self, epoch: int, file: StoredFile, staged: str) -> None:
        name = object_name(epoch, file)
        size = self._bucket.size_bytes(name)
        if size == file.size_bytes:
            target = Path(staged, file.name)
            size = self._bucket.download(name, target, file.size_bytes, durable=True)
        if size != file.size_bytes:
            difference = (
                "is not there" if size is None else f"has {size} bytes, not {file.size_bytes}"
            )
            raise CheckpointError.of(
                "E333",
                f"epoch {epoch} in {self.url} is damaged: {name} {difference}",
                "use another epoch, or upload this one again from where it was saved",
            )


def _manifest_name(epoch: int) -> str:
    return f"{epoch_name(epoch)}/{manifests.NAME}"


def object_name(epoch: int, file: StoredFile) -> str:
    """Build the object store's key for a checkpoint file: epoch, node, start of its digest."""
    tag = file.digest.removeprefix(PREFIX)[:_TAG_LENGTH]
    return f"{epoch_name(epoch)}/{file.node}.{tag}.h5"


def upload_file(url: ObjectUrl, epoch: int, file: StoredFile, source: str) -> Reference:
    """Upload a node's file of an epoch to the object store, unless an equal object is there.

    Of an epoch that has all its files there nothing is seen before it has its manifest.

    Args:
        url: Of the epochs.
        epoch: Its epoch.
        file: What was written.
        source: Where.

    Raises:
        CheckpointError: It is not what was written.
        EnvironmentFaultError: The store refuses, or has something else than what was sent.
    """
    _send_file(Bucket(url), epoch, file, source, _always)
    return Reference(url, object_name(epoch, file))


def require_uploaded(url: ObjectUrl, epoch: int, files: Iterable[StoredFile]) -> None:
    """Require that an object store holds all checkpoint files of an epoch, by name and length.

    Raises:
        EnvironmentFaultError: E334, one is not; or the store refuses.
    """
    stored = Bucket(url).list(epoch_name(epoch))
    for file in files:
        name = object_name(epoch, file)
        if stored.get(name) != file.size_bytes:
            difference = f"has {stored[name]} bytes" if name in stored else "is not there any more"
            raise EnvironmentFaultError.of(
                "E334",
                f"{url / name} {difference}, and a node has just brought it there",
                "see whether anything else writes or deletes there, then resume",
            )


def _send_file(
    bucket: Bucket, epoch: int, file: StoredFile, source: str, is_wanted: Wanted
) -> None:
    name = object_name(epoch, file)
    digest = hashlib.sha256()
    for piece in read_verified(source, file.digest, at=local_path(source)):
        _require_wanted(is_wanted)
        digest.update(piece)
    if _is_stored(bucket, name, file, digest.hexdigest(), is_wanted):
        return
    bucket.put(name, _read_for_upload(source, file, is_wanted), file.size_bytes)
    if not _is_stored(bucket, name, file, digest.hexdigest(), is_wanted):
        raise EnvironmentFaultError.of(
            "E334",
            f"{bucket.url / name} is not what was uploaded",
            "see whether anything else writes there, then resume",
        )


def _is_stored(bucket: Bucket, name: str, file: StoredFile, digest: str, is_wanted: Wanted) -> bool:
    """Read an uploaded file back from the object store; return whether size and digest match."""
    if bucket.size_bytes(name) != file.size_bytes:
        return False
    hasher = hashlib.sha256()
    for piece in bucket.pieces(name):
        _require_wanted(is_wanted)
        hasher.update(piece)
    return hasher.hexdigest() == digest


def _read_for_upload(source: str, file: StoredFile, is_wanted: Wanted) -> Iterator[bytes]:
    for piece in read_verified(source, file.digest, at=local_path(source)):
        _require_wanted(is_wanted)
        yield bytes(piece)
        reach("upload.file-part-written")


def _require_wanted(is_wanted: Wanted) -> None:
    if not is_wanted():
        raise UploadCancelledError
