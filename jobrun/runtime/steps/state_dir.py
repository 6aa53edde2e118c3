"""Pack a program's state directory into a tar archive in an array of bytes, and unpack it.

The same folder gives the same bytes: entries in the order of their names, without times and
owners. What is kept of a file is its content, and whether it may be executed.
"""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from jobrun.core.errors import TaskFailedError
from jobrun.graph.steps import RunProgram
from jobrun.runtime.context.frame import Frame

Bytes = npt.NDArray[np.uint8]

_EXECUTABLE, _PLAIN = 0o755, 0o644


def pack_directory(folder: Path) -> Bytes:
    """Pack the ``state_dir`` of a program into a tar archive; a missing one counts as empty.

    Returns:
        uint8, one-dimensional: a tar archive (pax), of no bytes for an empty folder.

    Raises:
        TaskFailedError: E214, it holds what cannot be kept: a pipe, a device, a link out of it.
    """
    entries = list(_entries(folder))
    if not entries:
        return np.empty(0, np.uint8)
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in entries:
            entry = _entry(folder, path)
            if entry.isreg():
                with path.open("rb") as file:
                    entry.size = os.fstat(file.fileno()).st_size
                    archive.addfile(entry, file)
            else:
                archive.addfile(entry)
    return np.frombuffer(whole.getbuffer(), np.uint8)


def unpack_directory(content: Bytes, folder: Path) -> None:
    """Unpack a tar archive so that a ``state_dir`` holds what was packed, nothing else.

    Raises:
        TaskFailedError: E214, these are not the bytes of a packed folder.
    """
    fresh = folder.with_name(f"{folder.name}.new")
    for old in (fresh, folder):
        if old.exists():
            shutil.rmtree(old)
    fresh.mkdir(parents=True)
    if content.size:
        try:
            with tarfile.open(fileobj=io.BytesIO(content.tobytes()), mode="r:") as archive:
                for entry in archive:
                    _restore_entry(archive, entry, fresh)
        except tarfile.TarError as error:
            raise _not_kept(f"the stored folder cannot be read: {error}") from error
    fresh.rename(folder)


def _entries(folder: Path) -> Iterator[Path]:
    """Iterate over all entries of a ``state_dir`` to pack, sorted by name to be reproducible."""
    if not folder.is_dir():
        return
    with os.scandir(folder) as found:
        here = sorted(found, key=lambda one: one.name)
    for one in here:
        yield Path(one.path)
        if one.is_dir(follow_symlinks=False):
            yield from _entries(Path(one.path))


def _entry(folder: Path, path: Path) -> tarfile.TarInfo:
    name = path.relative_to(folder).as_posix()
    entry = tarfile.TarInfo(name)
    if path.is_symlink():
        entry.type = tarfile.SYMTYPE
        entry.linkname = str(path.readlink())
        _check_link(name, entry.linkname)
    elif path.is_dir():
        entry.type = tarfile.DIRTYPE
        entry.mode = _EXECUTABLE
    elif path.is_file():
        entry.mode = _EXECUTABLE if os.access(path, os.X_OK) else _PLAIN
    else:
        raise _not_kept(f"'{name}' is neither a file nor a folder nor a link")
    return entry


def _restore_entry(archive: tarfile.TarFile, entry: tarfile.TarInfo, folder: Path) -> None:
    name = PurePosixPath(entry.name)
    if name.is_absolute() or ".." in name.parts:
        raise _not_kept(f"'{entry.name}' would lie outside of the folder")
    place = folder / name
    if not place.parent.resolve().is_relative_to(folder.resolve()):
        raise _not_kept(f"'{entry.name}' would lie outside of the folder")
    if entry.isdir():
        place.mkdir()
    elif entry.issym():
        _check_link(entry.name, entry.linkname)
        place.symlink_to(entry.linkname)
    elif entry.isreg():
        content = archive.extractfile(entry)
        with place.open("xb") as file:
            shutil.copyfileobj(content or io.BytesIO(), file)
            os.fchmod(file.fileno(), entry.mode & _EXECUTABLE)
    else:
        raise _not_kept(f"'{entry.name}' is neither a file nor a folder nor a link")


def _check_link(name: str, target: str) -> None:
    """Require that a symbolic link in a ``state_dir`` points to a place inside that folder."""
    inside = os.path.normpath(PurePosixPath(name).parent / target)
    if target.startswith("/") or PurePosixPath(inside).parts[:1] == ("..",):
        raise _not_kept(f"the link '{name}' leads out of the folder, to '{target}'")


def _not_kept(message: str) -> TaskFailedError:
    return TaskFailedError.of(
        "E214", message, "a 'state_dir' keeps files, folders, and links between them"
    )


def state_dir_path(step: RunProgram, frame: Frame) -> Path:
    """Return the path of a program's ``state_dir``, inside the run's directory."""
    return Path(frame.run.run_dir, "state_dirs", frame.node.name, step.state_dir).absolute()


def restore_state_dir(folder: Path, content: Any) -> None:
    """Restore the ``state_dir`` of a program after a failed attempt has changed it."""
    with contextlib.suppress(TaskFailedError):
        # Such as a pipe that a killed program has left: it is not what was stored.
        if folder.is_dir() and np.array_equal(pack_directory(folder), content):
            return
    unpack_directory(content, folder)
