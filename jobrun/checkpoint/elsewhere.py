"""Files of epochs that are in an object store instead of their directory. Not who brings them.

::

    epoch-000012/manifest.json     as ever: the names, lengths and digests of all files
    epoch-000012/trainer.h5.url    in place of trainer.h5: one line, where the object is

Whoever opens ``trainer.h5`` gets a copy, which this process keeps while it needs it; that it is
what the manifest tells of is compared then, as with any file. The objects go with their epoch.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import tempfile
import threading
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from jobrun.checkpoint.userblock import damaged
from jobrun.core.errors import CheckpointError
from jobrun.core.objecturl import ObjectUrl, parse_object_url
from jobrun.formats.files import write_all

SUFFIX = ".url"
_MANIFEST = "manifest.json"
_MOST_BYTES = 1 << 13
# What is read of a foreign directory must not name anything else.
_NAME = re.compile(r"epoch-[0-9]{6,18}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}\.h5")


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a file is.

    Attributes:
        place: Of the epochs.
        name: Of the object, there.
    """

    place: ObjectUrl
    name: str

    def __str__(self) -> str:
        return str(self.place / self.name)


def write_reference(path: Path, reference: Reference) -> None:
    """Say where the file is that is not at ``path``; durably, but for the name.

    Raises:
        OSError: The disk says no, or it was said already.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(f"{path}{SUFFIX}", flags, 0o644)
    try:
        write_all(descriptor, f"{reference.place} {reference.name}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def reference_of(path: str) -> Reference | None:
    """Where the file is that is not at ``path``; None if nothing is said of it.

    Raises:
        CheckpointError: What is said is damaged.
    """
    if not path.endswith(".h5"):
        return None
    said = f"{path}{SUFFIX}"
    try:
        descriptor = os.open(said, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read(_MOST_BYTES)
    except OSError:
        return None
    try:
        place, _, name = data.decode().removesuffix("\n").rpartition(" ")
        url = parse_object_url(place)
    except ValueError as error:
        raise damaged(said, str(error)) from error
    if not _NAME.fullmatch(name):
        raise damaged(said, f"'{name}' is no file of an epoch")
    return Reference(url, name)


def fetch_object(reference: Reference, target: Path) -> None:
    """Write an object as a new file; what its bytes are is for its reader to compare.

    Raises:
        CheckpointError: E333, it is not there, or was cut short.
        EnvironmentFaultError: The store, or the disk, says no.
    """
    # Only who has files there needs it.
    from jobrun.checkpoint.bucket import Bucket  # noqa: PLC0415

    bucket = Bucket(reference.place)
    size = bucket.size_bytes(reference.name)
    if size is None:
        raise _gone(reference, "it is not there")
    found = bucket.download(reference.name, target, size)
    if found is None:
        raise _gone(reference, "it is not there any more")
    if found != size:
        raise _gone(reference, f"{found} bytes of {size} came")


def _gone(reference: Reference, how: str) -> CheckpointError:
    mend = "put it back from a copy, or use another epoch"
    return CheckpointError.of("E333", f"{reference} cannot be used: {how}", mend)


class _Copies:
    """Those that this process has fetched; they go with it."""

    def __init__(self) -> None:
        self._root: Path | None = None
        self._pid = 0
        self._found: dict[Reference, Path] = {}
        self._lock = threading.Lock()
        self._turns: defaultdict[Reference, threading.Lock] = defaultdict(threading.Lock)

    def of(self, reference: Reference) -> str:
        """Where a copy of that is."""
        with self._lock:
            turn = self._turns[reference]
        # Two that want one file fetch it once.
        with turn:
            found = self._found.get(reference)
            if found is None or not found.is_file():
                made = Path(tempfile.mkdtemp(dir=self._made())) / PurePosixPath(reference.name).name
                fetch_object(reference, made)
                found = self._found[reference] = made
        return str(found)

    def forget(self) -> None:
        """Delete them."""
        with self._lock:
            root, self._root, self._found = self._root, None, {}
            self._turns.clear()
        # A process that was forked has no part in them.
        if root is not None and self._pid == os.getpid():
            shutil.rmtree(root, ignore_errors=True)

    def _made(self) -> Path:
        with self._lock:
            if self._root is None:
                self._root = Path(tempfile.mkdtemp(prefix="jobrun-fetched-"))
                self._pid = os.getpid()
            return self._root


_copies = _Copies()
atexit.register(_copies.forget)


def fetched(path: str) -> str:
    """A copy of the file that is not at ``path``; empty if nobody says that it is elsewhere.

    Raises:
        CheckpointError: It is not there.
        EnvironmentFaultError: The store, or the disk, says no.
    """
    reference = reference_of(path)
    return "" if reference is None else _copies.of(reference)


def forget_fetched() -> None:
    """Delete all copies; what is read right now stays readable."""
    _copies.forget()


def delete_objects(directory: Path) -> None:
    """Delete what the files of an epoch that has ended to exist say; the manifest there first.

    Raises:
        EnvironmentFaultError: The store says no.
    """
    by_place: dict[ObjectUrl, list[str]] = {}
    for path in sorted(directory.glob(f"*{SUFFIX}")):
        try:
            reference = reference_of(str(path).removesuffix(SUFFIX))
        except CheckpointError:
            # Nobody knows what it was; nothing is deleted for it.
            continue
        if reference is not None:
            by_place.setdefault(reference.place, []).append(reference.name)
    for place, names in by_place.items():
        from jobrun.checkpoint.bucket import Bucket  # noqa: PLC0415 - see fetch_object

        manifests = dict.fromkeys(f"{PurePosixPath(name).parent}/{_MANIFEST}" for name in names)
        Bucket(place).delete([*manifests, *names])
