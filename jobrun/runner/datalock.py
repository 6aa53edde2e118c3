"""The lock file beside a spec: which bytes its data files have. Pins no epochs (``pins``).

A run records what its data are, and a resume compares that (``fingerprints``). A lock says it
before the first run, and can be committed with the spec: who runs it elsewhere, or a year later,
is told when the data are others. Every byte of a pinned file is read at each start.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from jobrun.core.errors import DriftError, EnvironmentFaultError, Fault
from jobrun.graph.steps import Load, Save
from jobrun.graph.types import Job
from jobrun.runner.authored import Authored, PythonJob
from jobrun.runner.durable import disk_faults, read_plain, write_whole
from jobrun.runner.fingerprints import literal_path
from jobrun.runner.parts import steps_of

SUFFIX = ".lock.json"
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Pin:
    """What a file was when it was pinned; ``sha256`` of all of it, in hexadecimal digits."""

    size_bytes: int
    sha256: str

    def __str__(self) -> str:
        return f"{self.size_bytes:,} bytes, sha256:{self.sha256[:12]}"


def lock_path(authored: Authored) -> Path | None:
    """Where the lock of a spec is, or would be; None for a job without a spec."""
    if isinstance(authored, PythonJob) or not authored.files:
        return None
    main = Path(next(iter(authored.files))).name
    return Path(authored.folder, Path(main).stem + SUFFIX)


def data_files(job: Job, folder: Path) -> dict[str, Load]:
    """The files that the job reads and does not write, as far as their paths are known.

    By path relative to the folder, with slashes; and the step, or the reader's, that reads each
    first.
    """
    steps = tuple(steps_of(job))
    written = {
        literal_path(file, folder) for step in steps if isinstance(step, Save)
        for file in step.files
    }  # fmt: skip
    found: dict[str, Load] = {}
    for step in steps:
        if not isinstance(step, Load):
            continue
        for file in step.files:
            path = literal_path(file, folder)
            if path is not None and path not in written:
                found.setdefault(Path(os.path.relpath(path, folder)).as_posix(), step)
    return dict(sorted(found.items()))


def pins_of(job: Job, folder: Path) -> dict[str, Pin]:
    """What the job's data files are now, by path.

    Raises:
        EnvironmentFaultError: E372, one is missing, with each place; or it cannot be read.
    """
    files = data_files(job, folder)
    missing = [
        Fault("E372", f"no data file {name}", "put it there, and pin it then", one.origin, one.path)
        for name, one in files.items()
        if not Path(folder, name).is_file()
    ]
    if missing:
        raise EnvironmentFaultError(*missing)
    return {name: _pin(Path(folder, name)) for name in files}


def write_lock(path: Path, pins: Mapping[str, Pin]) -> None:
    """Write the lock file, whole or not at all.

    Raises:
        EnvironmentFaultError: The disk says no.
    """
    form = {"format": _FORMAT, "files": {name: asdict(one) for name, one in pins.items()}}
    with disk_faults(f"write {path.name}"):
        write_whole(path, json.dumps(form, indent=2).encode() + b"\n")


def read_lock(path: Path) -> dict[str, Pin] | None:
    """The pins of a lock file; None where there is none.

    Raises:
        EnvironmentFaultError: E266, it is no lock file, or one of a newer format.
    """
    try:
        form = json.loads(read_plain(path))
        if form["format"] != _FORMAT:
            raise _unreadable(path, f"it has format {form['format']!r}, and this is {_FORMAT}")
        return {
            str(name): Pin(int(one["size_bytes"]), str(one["sha256"]))
            for name, one in form["files"].items()
        }
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise _unreadable(path, str(error) or type(error).__name__) from error


def lock_faults(job: Job, folder: Path, lock: Path, pinned: Mapping[str, Pin]) -> tuple[Fault, ...]:
    """How the data of a job differ from what is pinned: errors, and warnings of what is not.

    A file that is missing is no matter of the lock.
    """
    faults = []
    command = f"jobrun lock {lock.name.removesuffix(SUFFIX)}.yaml"
    for name, step in data_files(job, folder).items():
        path, pin = Path(folder, name), pinned.get(name)
        if pin is None:
            faults.append(
                Fault(
                    "W142", f"data file {name} is not pinned by {lock.name}", f"pin it: {command}",
                    step.origin, step.path, severity="warning",
                )
            )  # fmt: skip
        elif path.is_file() and not _is_same(path, pin):
            faults.append(
                Fault(
                    "E265",
                    f"data file {name} is not the one that {lock.name} pins: pinned are {pin}, and "
                    f"it has {_words(path, pin)}",
                    f"put the pinned file back; or, if this one is meant from now on: {command}",
                    step.origin, step.path,
                )
            )  # fmt: skip
    return tuple(faults)


def expect_locked(authored: Authored, job: Job) -> tuple[Fault, ...]:
    """See that the data files are those that the spec's lock file pins, if it has one.

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
    faults = lock_faults(job, Path(authored.folder), path, pinned)
    errors = [fault for fault in faults if fault.severity == "error"]
    if errors:
        raise DriftError(*errors)
    return faults


def _is_same(path: Path, pin: Pin) -> bool:
    # A file of another length need not be read.
    return path.stat().st_size == pin.size_bytes and _pin(path) == pin


def _words(path: Path, pin: Pin) -> str:
    size_bytes = path.stat().st_size
    return f"{size_bytes:,} bytes" if size_bytes != pin.size_bytes else str(_pin(path))


def _pin(path: Path) -> Pin:
    with disk_faults(f"read {path}"), path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
        return Pin(os.fstat(file.fileno()).st_size, digest.hexdigest())


def _unreadable(path: Path, why: str) -> EnvironmentFaultError:
    return EnvironmentFaultError.of(
        "E266",
        f"the lock file {path} cannot be read: {why}",
        "put it back from version control, or delete it and pin the data anew with jobrun lock",
    )
