"""Compare the files that a job writes with those of the program it was ported from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath

import numpy as np

from jobrun.core.errors import JobrunError, ProofError, UsageError
from jobrun.core.hash_seed import DEFAULT, VARIABLE
from jobrun.core.lazy_dataclass import dataclass
from jobrun.formats.headers import members
from jobrun.formats.load_save import read_member
from jobrun.runner.identity.blas_libraries import thread_variables
from jobrun.runner.rundir.run_directories import Run
from jobrun.tools.prove.judge import first_element
from jobrun.values import compare

_OUTPUT = "output.txt"
_LAST_LINES = 12
# Of a file before a run; None where there was none.
_Stamp = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Original:
    """The program that a job was ported from, and the files that both write.

    Attributes:
        command: A line of shell that runs it.
        artifacts: Relative paths of files that it writes where it runs.
        here: Where its command is meant, absolute.
        folder: Of the spec, absolute: where the job writes them.
        threads: How many threads BLAS has, as in the job.
    """

    command: str
    artifacts: tuple[str, ...]
    here: Path
    folder: Path
    threads: int = 1

    def __post_init__(self) -> None:
        for name in self.artifacts:
            if PurePath(name).is_absolute() or ".." in PurePath(name).parts:
                raise UsageError.of(
                    "E404",
                    f"--artifact {name}: its path is not below the folder of the run",
                    "give the path as the program writes it, relative to where it runs",
                )


class JobArtifacts:
    """Finds the files that a run of the ported job has written.

    Make it before the run begins.
    """

    def __init__(self, original: Original) -> None:
        self._original = original
        self._before = {path: _stamp(path) for path in self._outside()}

    def take(self, run: Run, into: Path) -> None:
        """Copy the files written by a run of the job that was ported from the original program.

        Raises:
            ProofError: E482, it has not written one of them.
        """
        for name in self._original.artifacts:
            places = [run.path / "artifacts" / name, run.path / name]
            fresh = [path for path, stamp in self._before.items() if _stamp(path) != stamp]
            places += [
                path
                for path in fresh
                if path.parts[-len(PurePath(name).parts) :] == PurePath(name).parts
            ]
            found = next((path for path in places if path.is_file()), None)
            if found is None:
                raise ProofError.of(
                    "E482",
                    f"the job has not written '{name}'",
                    f"save it in a task of exit: {{save: {{NAME: {name}}}}}",
                )
            _copy(found, into / name)

    def _outside(self) -> Iterable[Path]:
        for name in self._original.artifacts:
            yield from (self._original.folder / name, self._original.here / name)


def run_original(original: Original, scratch: Path, environment: Mapping[str, str]) -> None:
    """Run the original program, which the job was ported from, to its end.

    Args:
        original: The program.
        scratch: A missing directory. What lies where its command is meant can be seen there, too,
            but for what it is to write.
        environment: Its variables, without those that are the same as in the job's process.

    Raises:
        ProofError: E481, it fails; E482, it has not written one of its artifacts.
    """
    parts = {PurePath(name).parts for name in original.artifacts}
    _link_entries(original.here, scratch, parts)
    output = scratch.with_name(f"{scratch.name}-{_OUTPUT}")
    # As the job's own process: one thread count, and one order of sets of text.
    variables = {VARIABLE: DEFAULT, **environment, **thread_variables(original.threads)}
    # 'python' is the one that has what the job needs.
    own = os.path.dirname(sys.executable)  # noqa: PTH120 - of a link, where it is
    variables["PATH"] = os.pathsep.join((own, variables.get("PATH", os.defpath)))
    with output.open("wb") as said:
        done = subprocess.run(  # noqa: S602 - a line of shell that the user gave
            original.command,
            shell=True,
            cwd=scratch,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            check=False,
        )
    if done.returncode:
        lines = output.read_text(errors="replace").strip().splitlines()[-_LAST_LINES:]
        raise ProofError.of(
            "E481",
            f"'{original.command}' fails with exit code {done.returncode}: "
            + ("\n".join(lines) or "no output"),
            "make sure that it runs by itself in this directory; it runs in a scratch directory "
            "that has links to what is here",
        )
    for name in original.artifacts:
        if not (scratch / name).is_file():
            raise ProofError.of(
                "E482",
                f"'{original.command}' has not written '{name}'",
                "give the path as it writes it, relative to the directory in which it runs",
            )


def file_difference(expected: Path, found: Path) -> str:
    """Compare a file that the original program wrote with the job's; describe how they differ.

    Arrays in npy, npz, CSV, HDF5 and Parquet are compared by dtype, shape and bits, whatever else
    is in the file; any other file by its bytes.
    """
    try:
        ours, theirs = members(str(expected)), members(str(found))
        if missing := sorted({*ours} - {*theirs}):
            return f"it has no '{missing[0]}'"
        if more := sorted({*theirs} - {*ours}):
            return f"it has '{more[0]}', and should not"
        for member in ours or ("",):
            words = _member_difference(str(expected), str(found), member)
            if words:
                return words
    except JobrunError:
        # Of no format that is known, or with what is no array.
        return _bytes_difference(expected.read_bytes(), found.read_bytes())
    return ""


def _member_difference(expected: str, found: str, member: str) -> str:
    # How a file has its axes in order is no part of the value.
    values = (np.asarray(read_member(path, member), order="C") for path in (expected, found))
    differs = compare.find_difference(*values)
    if differs is None:
        return ""
    element, words = first_element(differs)
    place = member + (f"[{', '.join(map(str, element))}]" if element else "")
    return f"{place}: {words}" if place else words


def _bytes_difference(expected: bytes, found: bytes) -> str:
    if expected == found:
        return ""
    pairs = enumerate(zip(expected, found, strict=False))
    at = next((at for at, (one, other) in pairs if one != other), min(len(expected), len(found)))
    sizes = (
        "" if len(expected) == len(found) else (f"; it has {len(found)} bytes, not {len(expected)}")
    )
    return f"its bytes differ from byte {at} on{sizes}"


def _link_entries(here: Path, scratch: Path, but: set[tuple[str, ...]]) -> None:
    scratch.mkdir(parents=True)
    for entry in here.iterdir():
        below = {parts[1:] for parts in but if parts[:1] == (entry.name,)}
        if () in below:
            continue
        if below and entry.is_dir():
            _link_entries(entry, scratch / entry.name, below)
        else:
            (scratch / entry.name).symlink_to(entry)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def _stamp(path: Path) -> _Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
