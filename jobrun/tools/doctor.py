"""Check whether jobs can run on a machine and in a directory (``jobrun doctor``)."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from msgspec import Struct

from jobrun.core.errors import JobrunError
from jobrun.core.files.disk import sync_file
from jobrun.core.system_calls import read_proc, rename_noreplace, usable_cpus
from jobrun.core.text.units import size
from jobrun.runner.identity.environment import describe_environment
from jobrun.runner.preflight.filesystem import check_file_system, find_file_system
from jobrun.runner.rundir.lock import RunLock, is_live
from jobrun.version import __version__

Verdict = Literal["good", "note", "bad"]

_PROBE_BYTES = 4096
_FSYNCS = 9
# An epoch that is saved costs several of them.
_SLOW_FSYNC_MS = 20.0
_LITTLE_SPACE_BYTES = 1 << 30
_CLOCK_SLACK_S = 0.5


class Finding(Struct, frozen=True):
    """One fact about the machine, and whether it is fit.

    Attributes:
        topic: What it is about, in a word or two.
        text: The fact.
        verdict: ``bad``: runs here will fail or lose their promise.
        mend: What to do about it; empty where nothing is to be done.
    """

    topic: str
    text: str
    verdict: Verdict = "good"
    mend: str = ""


def examine(run_dir: Path) -> tuple[Finding, ...]:
    """Measure the software, machine and directory for runs, and return the doctor's findings.

    The directory is made if it is missing, and taken away again; what is tried in it leaves
    nothing behind.
    """
    return (*_software(), *_machine(), *_directory(run_dir))


def _software() -> Iterator[Finding]:
    yield Finding("jobrun", f"{__version__}, Python {platform.python_version()}")
    environment = describe_environment()
    yield Finding("libraries", f"numpy {environment['numpy']}, h5py {environment['h5py']}")
    blas = environment["blas"] or "of a kind that does not say"
    kernel = f", kernel {environment['blas_kernel']}" if environment["blas_kernel"] else ""
    yield Finding("BLAS", f"{blas}{kernel}")
    locking = os.environ.get("HDF5_USE_FILE_LOCKING", "")
    if locking:
        yield Finding(
            "HDF5 locking", f"HDF5_USE_FILE_LOCKING={locking}: checkpoints need no locks of HDF5"
        )


def _machine() -> Iterator[Finding]:
    cores = os.cpu_count() or 1
    usable = usable_cpus()
    few = f", {usable} of them for this process" if usable != cores else ""
    yield Finding(
        "machine", f"{platform.machine()}, {cores} processors{few}, {sys.byteorder} endian"
    )
    memory = _memory()
    if memory is not None:
        yield memory
    yield _clock()
    limit = _open_files()
    if limit is not None:
        yield limit


def _memory() -> Finding | None:
    try:
        lines = read_proc("meminfo").decode().splitlines()
        kib = {line.split(":")[0]: int(line.split()[1]) for line in lines}
        return Finding(
            "memory", f"{size(kib['MemAvailable'] << 10)} of {size(kib['MemTotal'] << 10)} free"
        )
    except (OSError, KeyError, IndexError, ValueError):
        return None


def _clock() -> Finding:
    """Examine for ``jobrun doctor`` whether the wall clock is being adjusted."""
    wall, steady = time.time(), time.monotonic()
    time.sleep(0.05)
    slip = (time.time() - wall) - (time.monotonic() - steady)
    year = time.gmtime().tm_year
    if abs(slip) > _CLOCK_SLACK_S or year < 2025:
        return Finding(
            "clock",
            f"the wall clock is in {year} and slips by {slip:.1f} s",
            "note",
            "names and ages of runs will be odd; epochs are ordered by their numbers",
        )
    return Finding("clock", "steady")


def _open_files() -> Finding | None:
    import resource  # noqa: PLC0415 - only here

    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit != resource.RLIM_INFINITY and limit < 256:
        return Finding("open files", f"at most {limit}", "note", "raise it: ulimit -n 1024")
    return None


def _directory(run_dir: Path) -> Iterator[Finding]:
    existing = next(
        path for path in (run_dir.absolute(), *run_dir.absolute().parents) if path.exists()
    )
    kind = find_file_system(existing)
    notes = check_file_system(run_dir, kind)
    yield Finding(
        "file system",
        kind or "of an unknown kind",
        "note" if notes else "good",
        "; ".join(f"{fault.message}; {fault.mend}" for fault in notes),
    )
    yield _space(existing)
    try:
        with tempfile.TemporaryDirectory(prefix=".doctor-", dir=existing) as folder:
            for look in (_fsync, _rename, _lock, _links):
                yield _tried(look, Path(folder))
    except OSError as error:
        yield Finding(
            "writing",
            f"{existing} cannot be written to: {error.strerror}",
            "bad",
            "choose another --run-dir, or mend its permissions",
        )


def _space(path: Path) -> Finding:
    usage = shutil.disk_usage(path)
    text = f"{size(usage.free)} of {size(usage.total)} free"
    if usage.free < _LITTLE_SPACE_BYTES:
        return Finding(
            "disk", text, "note", "free some: a full disk stops a run, and loses nothing"
        )
    return Finding("disk", text)


def _tried(examine: Callable[[Path], Finding], folder: Path) -> Finding:
    try:
        return examine(folder)
    except (OSError, JobrunError) as error:
        topic = examine.__name__.strip("_")
        return Finding(
            topic, f"does not work: {error}", "bad", "choose a --run-dir on a local disk"
        )


def _fsync(folder: Path) -> Finding:
    times_ms = []
    for number in range(_FSYNCS):
        descriptor = os.open(
            folder / f"probe-{number}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600
        )
        try:
            os.write(descriptor, bytes(_PROBE_BYTES))
            started = time.perf_counter()
            sync_file(descriptor)
            times_ms.append((time.perf_counter() - started) * 1000)
        finally:
            os.close(descriptor)
    middle = statistics.median(times_ms)
    text = f"{middle:.1f} ms for a small file"
    if middle > _SLOW_FSYNC_MS:
        return Finding(
            "fsync", text, "note", "each saved epoch takes several; save less often, or elsewhere"
        )
    return Finding("fsync", text)


def _rename(folder: Path) -> Finding:
    """Examine for ``jobrun doctor`` if the file system's rename can refuse to replace a target."""
    for name in ("one", "two"):
        (folder / name).mkdir()
        (folder / name / "file").touch()
    try:
        rename_noreplace(str(folder / "one"), str(folder / "two"))
    except FileExistsError:
        rename_noreplace(str(folder / "one"), str(folder / "three"))
        return Finding("rename", "atomic, and never replaces a file unasked")
    return Finding("rename", "replaces what is there", "bad", "choose a --run-dir on a local disk")


def _lock(folder: Path) -> Finding:
    with RunLock.acquire(folder):
        program = (
            "import sys; from jobrun.runner.rundir.lock import is_live; from pathlib import Path; "
        )
        program += "sys.exit(0 if is_live(Path(sys.argv[1])) else 1)"
        held = subprocess.run(  # noqa: S603 - this interpreter, our own words
            [sys.executable, "-P", "-c", program, str(folder)],
            check=False,
            stdin=subprocess.DEVNULL,
        )
    if held.returncode or is_live(folder):
        return Finding(
            "lock",
            "another process does not see it",
            "bad",
            "start a run on one host only, and choose a --run-dir on a local disk",
        )
    return Finding("lock", "flock works across processes, and ends with its holder")


def _links(folder: Path) -> Finding:
    with contextlib.suppress(OSError):
        (folder / "latest").symlink_to("one")
        return Finding("links", "symbolic links work")
    return Finding("links", "there are none: 'latest' will be missing", "note")
