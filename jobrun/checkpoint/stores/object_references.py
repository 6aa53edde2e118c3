"""Refer to checkpoint files in an object store by small local files, and fetch their bytes.

::

    epoch-000012/manifest.json     as ever: the names, lengths and digests of all files
    epoch-000012/trainer.h5.url    in place of trainer.h5: one line, where the object is

Each process that opens ``trainer.h5`` gets a copy, which it keeps while it needs it; that it is
what the manifest describes is compared then, as with any file. The objects go with their epoch.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from msgspec import Struct

from jobrun.checkpoint.hdf5.user_block import damaged_error
from jobrun.checkpoint.read.verified_file import StateFile, open_state
from jobrun.core.errors import CheckpointError
from jobrun.core.files.disk import read_regular, write_new_file
from jobrun.core.text.object_url import ObjectUrl, parse_object_url
from jobrun.core.text.patterns import lazy_pattern

SUFFIX = ".url"
_MANIFEST = "manifest.json"
_MOST_BYTES = 1 << 13
# A reference from a foreign directory must not name anything but an epoch's file.
_NAME = lazy_pattern(r"epoch-[0-9]{6,18}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}\.h5")


class Reference(Struct, frozen=True):
    """Where a file is.

    Attributes:
        url: Where the epochs are.
        name: The name of the object in it.
    """

    url: ObjectUrl
    name: str

    def __str__(self) -> str:
        return str(self.url / self.name)


def write_reference(path: Path, reference: Reference) -> None:
    """Write the reference file that replaces the file ``path`` by its object's location.

    Raises:
        OSError: The system refuses, or it was said already.
    """
    write_new_file(f"{path}{SUFFIX}", f"{reference.url} {reference.name}\n".encode())


def read_reference(path: str) -> Reference | None:
    """Read the reference file that replaces the file ``path``; None if there is no such file.

    Raises:
        CheckpointError: What is said is damaged.
    """
    if not path.endswith(".h5"):
        return None
    reference_path = f"{path}{SUFFIX}"
    try:
        data = read_regular(reference_path, _MOST_BYTES)
    except OSError:
        return None
    try:
        url_text, _, name = data.decode().removesuffix("\n").rpartition(" ")
        url = parse_object_url(url_text)
    except ValueError as error:
        raise damaged_error(reference_path, str(error)) from error
    if not _NAME.fullmatch(name):
        raise damaged_error(reference_path, f"'{name}' is not a file of an epoch")
    return Reference(url, name)


def fetch_object(reference: Reference, target: Path) -> None:
    """Download the object that a reference names to a new file, without verifying its bytes.

    Raises:
        CheckpointError: E333, it is not there, or was cut short.
        EnvironmentFaultError: The store or the disk refuses.
    """
    # Lazy: only runs with an object store need it.
    from jobrun.checkpoint.stores.bucket import Bucket  # noqa: PLC0415

    bucket = Bucket(reference.url)
    size = bucket.size_bytes(reference.name)
    if size is None:
        raise _gone(reference, "it is not there")
    received = bucket.download(reference.name, target, size)
    if received is None:
        raise _gone(reference, "it is not there any more")
    if received != size:
        raise _gone(reference, f"{received} bytes of {size} came")


def _gone(reference: Reference, reason: str) -> CheckpointError:
    mend = "put it back from a copy, or use another epoch"
    return CheckpointError.of("E333", f"{reference} cannot be used: {reason}", mend)


class _FetchedFiles:
    """The copies of objects that this process has fetched; they are deleted when it ends."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._pid = 0
        self._paths: dict[Reference, Path] = {}
        self._lock = threading.Lock()
        self._turns: defaultdict[Reference, threading.Lock] = defaultdict(threading.Lock)

    def of(self, reference: Reference) -> str:
        """Return the local path of the object that a reference names; download it once."""
        with self._lock:
            turn = self._turns[reference]
        # Two threads that want the same file download it once.
        with turn:
            local = self._paths.get(reference)
            if local is None or not local.is_file():
                target = _make_directory(self._made()) / PurePosixPath(reference.name).name
                fetch_object(reference, target)
                local = self._paths[reference] = target
        return str(local)

    def forget(self) -> None:
        """Delete the local copies of all objects that were fetched by their references."""
        with self._lock:
            root, self._root, self._paths = self._root, None, {}
            self._turns.clear()
        # The files belong to the process that made them, not to a forked child.
        if root is not None and self._pid == os.getpid():
            import shutil  # noqa: PLC0415 - only where objects were fetched

            shutil.rmtree(root, ignore_errors=True)

    def _made(self) -> Path:
        with self._lock:
            if self._root is None:
                self._root = _make_directory(None)
                self._pid = os.getpid()
            return self._root


def _make_directory(parent: Path | None) -> Path:
    import tempfile  # noqa: PLC0415 - only where objects are fetched

    return Path(tempfile.mkdtemp(prefix="jobrun-fetched-", dir=parent))


_copies = _FetchedFiles()
atexit.register(_copies.forget)


def local_path(path: str) -> str:
    """Return a local path of a checkpoint file; download its object if only a reference is there.

    Args:
        path: The file in the directory of its epoch.

    Returns:
        ``path`` itself, unless only a reference to an object is there; then a copy of the object,
        fetched once by this process.

    Raises:
        CheckpointError: The reference is damaged, or there is no such object.
        EnvironmentFaultError: The object store or the disk refuses.
    """
    if os.path.lexists(path):
        return path
    reference = read_reference(path)
    return path if reference is None else _copies.of(reference)


def delete_fetched() -> None:
    """Delete this process's downloaded copies of objects that reference files name.

    Copies that are open stay readable.
    """
    _copies.forget()


def delete_objects(directory: Path) -> None:
    """Delete from the object store the objects that a removed epoch's reference files name.

    The epoch's manifest there goes first.

    Raises:
        EnvironmentFaultError: The store refuses.
    """
    by_url: dict[ObjectUrl, list[str]] = {}
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            reference = read_reference(str(path).removesuffix(SUFFIX))
        except CheckpointError:
            # A damaged reference does not say which object it meant; nothing is deleted for it.
            continue
        if reference is not None:
            by_url.setdefault(reference.url, []).append(reference.name)
    for url, names in by_url.items():
        from jobrun.checkpoint.stores.bucket import Bucket  # noqa: PLC0415 - see fetch_object

        manifests = dict.fromkeys(f"{PurePosixPath(name).parent}/{_MANIFEST}" for name in names)
        Bucket(url).delete([*manifests, *names])


@contextmanager
def open_checkpoint(path: str) -> Iterator[StateFile]:
    """Open a checkpoint file, or the downloaded object if only a reference file is there.

    Args:
        path: The file in the directory of its epoch.

    Raises:
        CheckpointError: It is missing, not a regular file, not a checkpoint, of another format,
            or damaged.
        EnvironmentFaultError: It is in an object store that refuses.
    """
    with open_state(path, at=local_path(path)) as file:
        yield file
