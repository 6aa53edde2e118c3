"""Pin the data files of a spec in a lock file beside it, and check them against the pins.

A run records what its data are, and a resume compares that (``fingerprints``). A lock says it
before the first run, and can be committed with the spec: a run elsewhere, or a year later, is
refused when the data differ. Every byte of a pinned file is read at each start.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct, to_builtins

from jobrun.core.errors import DriftError, EnvironmentFaultError, Fault
from jobrun.core.files.digest import PREFIX
from jobrun.core.files.disk import disk_faults
from jobrun.core.files.json_files import build, read_json, write_json
from jobrun.graph.query import iter_steps
from jobrun.graph.steps import Load, Save
from jobrun.graph.types import Job
from jobrun.runner.identity.data_fingerprints import literal_path
from jobrun.runner.identity.recorded_job import Authored, PythonJob

SUFFIX = ".lock.json"
_FORMAT = 1


class Pin(Struct, frozen=True):
    """What a file was when it was pinned; ``sha256`` of all of it, in hexadecimal digits."""

    size_bytes: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.size_bytes:,} bytes, {PREFIX}{self.sha256[:12]}"


def lock_path(authored: Authored) -> Path | None:
    """Return the path of a spec's lock file of data pins; None for a job without a spec."""
    if isinstance(authored, PythonJob) or not authored.files:
        return None
    main = Path(next(iter(authored.files))).name
    return Path(authored.folder, Path(main).stem + SUFFIX)


def find_data_files(job: Job, folder: Path) -> dict[str, Load]:
    """Find the data files to pin in a lock file: those that the job reads and does not write.

    By path relative to the folder, with slashes; and the step, or the reader's, that reads each
    first.
    """
    steps = tuple(iter_steps(job))
    written = {
        literal_path(file, folder)
        for step in steps
        if isinstance(step, Save)
        for file in step.files
    }
    loads: dict[str, Load] = {}
    for step in steps:
        if not isinstance(step, Load):
            continue
        for file in step.files:
            path = literal_path(file, folder)
            if path is not None and path not in written:
                loads.setdefault(Path(os.path.relpath(path, folder)).as_posix(), step)
    return dict(sorted(loads.items()))


def pin_data(job: Job, folder: Path) -> dict[str, Pin]:
    """Digest the job's data files to pin them in the lock file, by path.

    Raises:
        EnvironmentFaultError: E372, one is missing, with each place; or it cannot be read.
    """
    files = find_data_files(job, folder)
    missing = [
        Fault(
            "E372", f"no data file {name}", "put it there, and pin it then", step.origin, step.path
        )
        for name, step in files.items()
        if not Path(folder, name).is_file()
    ]
    if missing:
        raise EnvironmentFaultError(*missing)
    return {name: _pin(Path(folder, name)) for name in files}


def write_lock(path: Path, pins: Mapping[str, Pin]) -> None:
    """Write the lock file that pins digests of data files, replacing it atomically.

    Raises:
        EnvironmentFaultError: Writing failed (such as ``ENOSPC``, ``EIO``).
    """
    content = {"format": _FORMAT, "files": {name: to_builtins(pin) for name, pin in pins.items()}}
    with disk_faults("E354", f"write {path.name}"):
        write_json(path, content, indent=2)


class _LockForm(Struct, frozen=True):
    files: Mapping[str, Pin]


def read_lock(path: Path) -> dict[str, Pin] | None:
    """Read the pins of data files from a lock file; return None if there is no lock file.

    Raises:
        EnvironmentFaultError: E266, it is no lock file, or one of a newer format.
    """
    try:
        content = read_json(path)
        if isinstance(content, dict) and content.get("format") != _FORMAT:
            raise _unreadable(path, f"it has format {content.get('format')!r}, not {_FORMAT}")
        return dict(build(_LockForm, content).files)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else ""
        raise _unreadable(path, why or str(error)) from error


def check_lock(job: Job, folder: Path, lock: Path, pinned: Mapping[str, Pin]) -> tuple[Fault, ...]:
    """Compare a job's data files with the digests in the data lock; return errors and warnings.

    A file that is missing is no matter of the lock.
    """
    faults = []
    command = f"jobrun lock {lock.name.removesuffix(SUFFIX)}.yaml"
    for name, step in find_data_files(job, folder).items():
        path, pin = Path(folder, name), pinned.get(name)
        if pin is None:
            faults.append(
                Fault(
                    "W142",
                    f"data file {name} is not pinned by {lock.name}",
                    f"pin it: {command}",
                    step.origin,
                    step.path,
                    severity="warning",
                )
            )
        elif path.is_file() and not _is_same(path, pin):
            faults.append(
                Fault(
                    "E265",
                    f"data file {name} is not the one that {lock.name} pins: pinned are {pin}, and "
                    f"it has {_words(path, pin)}",
                    f"put the pinned file back; or, if this one is meant from now on: {command}",
                    step.origin,
                    step.path,
                )
            )
    return tuple(faults)


def require_locked(authored: Authored, job: Job) -> tuple[Fault, ...]:
    """Require that data files match the pins in the spec's lock file, if there is such a file.

    Returns:
        Warnings of files that are not pinned.

    Raises:
        DriftError: E265, with each place.
        EnvironmentFaultError: E266, the lock cannot be read.
    """
    path = lock_path(authored)
    pinned = read_lock(path) if path is not None else None
    if path is None or pinned is None:
        return ()
    faults = check_lock(job, Path(authored.folder), path, pinned)
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors:
        raise DriftError(*errors)
    return faults


def _is_same(path: Path, pin: Pin) -> bool:
    # A different length is a difference already: the file need not be read.
    return path.stat().st_size == pin.size_bytes and _pin(path) == pin


def _words(path: Path, pin: Pin) -> str:
    size_bytes = path.stat().st_size
    return f"{size_bytes:,} bytes" if size_bytes != pin.size_bytes else str(_pin(path))


def _pin(path: Path) -> Pin:
    with disk_faults("E354", f"read {path}"), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return Pin(os.fstat(file.fileno()).st_size, digest.hexdigest())


def _unreadable(path: Path, why: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E266",
        f"the lock file {path} cannot be read: {why}",
        "put it back from version control, or delete it and pin the data again with jobrun lock",
    )
