"""Judge a killed and resumed run of a proof: compare it bit for bit, and find lost epochs.

Compared are the run, and the files that its process has written into its copy of the user's folder.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from msgspec import Struct

from jobrun.checkpoint.hdf5.dataset_names import STRUCTURE, is_structure
from jobrun.checkpoint.stores.directory import DirectoryStore
from jobrun.core.errors import CheckpointError, JobrunError
from jobrun.graph.blob_access import Access
from jobrun.graph.query import walk
from jobrun.graph.steps import STATE_DIRS, Net, Step
from jobrun.graph.types import Job
from jobrun.ops.access_finder import ACCESS_FINDER
from jobrun.runner.rundir.journal import read_journal
from jobrun.runner.rundir.run_directories import Run, runs
from jobrun.tools.inspection import checkpoint_directory, inspect
from jobrun.tools.isolation.isolation import Isolation
from jobrun.tools.prove.file_difference import describe_file_difference, first_element
from jobrun.values import compare
from jobrun.values.blob_kinds import Value
from jobrun.values.directory_archive import packed_files

_ARTIFACTS = "artifacts"


class Difference(Struct, frozen=True):
    """The first difference between a judged run and the reference.

    Attributes:
        words: What differs, and how.
        epoch: The first kept epoch that differs; -1 when none does, or one is missing.
        node: Of the blob that differs; empty when it is no blob.
        blob: Its name; of a container or an object, with the path inside it.
        element: Where in it, as an index; empty for what is not an array's element.
        is_in_files: It is in files that the copies have written.
    """

    words: str
    epoch: int = -1
    node: str = ""
    blob: str = ""
    element: tuple[int, ...] = ()
    is_in_files: bool = False


class Exclusions(Struct, frozen=True):
    """What a proof does not compare.

    Attributes:
        patterns: Each the name of a blob, an artifact or a file, a path inside a blob, or a shell
            pattern of such names; what is below a name is excluded with it.
    """

    patterns: tuple[str, ...] = ()

    def exclude(self, *names: str) -> bool:
        """Return whether any of the names of one thing is excluded from a proof."""
        return any(_matches(pattern, name) for pattern in self.patterns for name in names)

    def excluded(self, names: Iterable[tuple[str, ...]]) -> dict[str, list[str]]:
        """Return for each pattern the things it excludes from a proof, each by its first name."""
        known = list(names)
        return {
            pattern: [
                aliases[0] for aliases in known if any(_matches(pattern, name) for name in aliases)
            ]
            for pattern in self.patterns
        }


def _matches(pattern: str, name: str) -> bool:
    return (
        name == pattern
        or name.startswith(f"{pattern}/")
        or fnmatchcase(name, pattern)
        or fnmatchcase(name, f"{pattern}/*")
    )


class EndedCopy(Struct, frozen=True):
    """A copy of the job that has ended.

    Attributes:
        run: Its run.
        isolation: Where its process ran, with the files that it has written; None for a process
            that was not isolated: its files are not compared.
    """

    run: Run
    isolation: Isolation | None = None

    def files(self) -> dict[str, Path]:
        """Return the ended copy's artifacts, and its files outside of the run, by their names.

        A file has its path from the working directory, as the process had it.
        """
        changed = self.isolation.files.changed_files() if self.isolation else {}
        return _artifacts(self.run) | {self._name_of(name): path for name, path in changed.items()}

    def removed(self) -> frozenset[str]:
        """Return the names of the files that the process of an ended copy has removed."""
        removed = self.isolation.files.removed_files() if self.isolation else ()
        return frozenset(map(self._name_of, removed))

    def _name_of(self, original: str) -> str:
        """Return the name of a copy's file: its path from the working directory."""
        assert self.isolation is not None  # noqa: S101 - only such a copy has files
        return os.path.relpath(original, self.isolation.original_directory)

    def names(self) -> list[tuple[str, ...]]:
        """List the names of all that is compared of an ended copy; each thing has one or more."""
        store = _store(self.run)
        names: dict[tuple[str, ...], None] = {}
        for epoch in store.epochs():
            for (node, blob), value in _blobs(Path(store.path(epoch))).items():
                names |= dict.fromkeys(_leaf_names(node, blob, value))
        return [*names, *((name,) for name in (*self.files(), *self.removed()))]


def find_difference(
    reference: EndedCopy,
    ended: EndedCopy,
    *,
    ignored: frozenset[str] = frozenset(),
    exclusions: Exclusions = Exclusions(),  # noqa: B008 - it is frozen
) -> Difference | None:
    """Judge whether a proof's two finished copies are equal: find their first difference, or None.

    Compared are: which epochs are kept; every blob of each of them by kind, dtype, shape and
    bits; metrics, patience and the reason to stop; the files under ``artifacts``, and those that
    the process has written, changed or removed elsewhere.

    Args:
        reference: What it should be.
        ended: What it is.
        ignored: Names of files that do not count.
        exclusions: What else does not count.
    """
    expected, actual = _store(reference.run), _store(ended.run)
    if expected.epochs() != actual.epochs():
        return Difference(f"it keeps epochs {_list(actual)}, not {_list(expected)}")
    for epoch in expected.epochs():
        differs = _in_epoch(Path(expected.path(epoch)), Path(actual.path(epoch)), epoch, exclusions)
        differs = differs or _in_progress(expected, actual, epoch)
        if differs is not None:
            return differs
    return _in_files(reference, ended, ignored, exclusions)


def different_files(first: EndedCopy, second: EndedCopy) -> frozenset[str]:
    """Compare what a proof's two copies have written; return the names of files that differ."""
    return frozenset(_file_differences(first, second))


def _in_files(
    reference: EndedCopy, ended: EndedCopy, ignored: frozenset[str], exclusions: Exclusions
) -> Difference | None:
    differences = _file_differences(reference, ended)
    counted = (
        name for name in sorted(differences) if name not in ignored and not exclusions.exclude(name)
    )
    words = "; ".join(f"the file {name}: {differences[name]}" for name in counted)
    return Difference(words, is_in_files=True) if words else None


def _file_differences(reference: EndedCopy, ended: EndedCopy) -> dict[str, str]:
    """Describe how the files that two copies of a proof have written differ, by their names."""
    expected, actual = reference.files(), ended.files()
    differences = {}
    for name in {*expected, *actual, *reference.removed(), *ended.removed()}:
        if words := _file_difference(
            _in_copy(name, expected, reference), _in_copy(name, actual, ended)
        ):
            differences[name] = words
    return differences


def _in_copy(name: str, files: Mapping[str, Path], ended: EndedCopy) -> Path | None:
    """Return where a copy of a proof has a file that another copy has written; None if nowhere."""
    if name in files or ended.isolation is None:
        return files.get(name)
    original = os.path.normpath(ended.isolation.original_directory / name)
    path = ended.isolation.files.top / original.lstrip("/")
    return path if os.path.lexists(path) else None


def _file_difference(expected: Path | None, actual: Path | None) -> str:
    if expected is None:
        return "it should not be there"
    if actual is None:
        return "it is not there"
    if expected.is_symlink() or actual.is_symlink():
        # All copies link to the same originals.
        same = expected.is_symlink() and actual.is_symlink()
        return "" if same else "it is a link in one of them only"
    if not (expected.is_file() and actual.is_file()):
        return ""
    return describe_file_difference(expected, actual, by_bytes=True)


def find_lost_epochs(run: Run) -> str:
    """Judge a killed run: describe the epoch that it saved but lost; empty if there is none."""
    try:
        newest = read_journal(run.path, run.record.run_id).newest
        if newest < 0:
            return ""
        damage = _store(run).verify(newest)
    except JobrunError as error:
        return str(error)
    if damage is None:
        return ""
    return f"epoch {newest} was acknowledged and cannot be used: {damage.reason}"


def find_any_lost_epochs(folder: Path) -> str:
    """Judge the killed runs in a folder: describe the first saved epoch lost; empty if none."""
    return next((words for run in runs(folder) if (words := find_lost_epochs(run))), "")


def _store(run: Run) -> DirectoryStore:
    return DirectoryStore(str(checkpoint_directory(run)))


def _list(store: DirectoryStore) -> str:
    return ", ".join(map(str, store.epochs())) or "none"


def _in_epoch(
    reference: Path, actual: Path, epoch: int, exclusions: Exclusions
) -> Difference | None:
    try:
        expected_blobs, actual_blobs = _blobs(reference), _blobs(actual)
    except CheckpointError as error:
        return Difference(str(error), epoch)
    for node, blob in sorted(expected_blobs.keys() ^ actual_blobs.keys()):
        if not exclusions.exclude(*_blob_names(node, blob)):
            return Difference(
                f"'{blob}' of node '{node}' is in one of them only", epoch, node, blob
            )
    # What differs is named by its own place before the container that has it.
    parts_first = sorted(expected_blobs.items(), key=lambda blob: is_structure(blob[0][1]))
    for (node, blob), value in parts_first:
        names = _blob_names(node, blob)
        if (node, blob) not in actual_blobs or exclusions.exclude(*names):
            continue
        differs = compare.find_difference(
            _counted(node, blob, value, exclusions),
            _counted(node, blob, actual_blobs[node, blob], exclusions),
        )
        if differs is not None:
            element, words = first_element(differs)
            return Difference(words, epoch, node, "/".join((blob, *differs.path)), element)
    return None


def _blob_names(node: str, blob: str, path: Iterable[str] = ()) -> tuple[str, ...]:
    """Return the names by which a blob, or what is at a path in it, is excluded from a proof."""
    name = "/".join((blob, *path))
    short = (name.removeprefix(STATE_DIRS),) if blob.startswith(STATE_DIRS) else ()
    return (name, f"{node}.{name}", *short)


def _counted(node: str, blob: str, value: Value, exclusions: Exclusions) -> Value:
    """Return what counts of a blob in a proof: of a ``state_dir`` its files, by their names."""
    if blob.startswith(STATE_DIRS):
        files = packed_files(value)
        return {
            name: content
            for name, content in files.items()
            if not exclusions.exclude(*_blob_names(node, blob, (name,)))
        }
    if exclusions.patterns and is_structure(blob):
        container = tuple(blob.split("/")[:-1])

        def exclude(path: tuple[str, ...]) -> bool:
            return exclusions.exclude(*_blob_names(node, "/".join(container + path)))

        structure = json.loads(value)
        # That of the whole, with what is excluded.
        structure.pop("digest", None)
        return json.dumps(_counted_structure(structure, (), exclude))
    return value


def _counted_structure(
    structure: Any, path: tuple[str, ...], exclude: Callable[[tuple[str, ...]], bool]
) -> Any:
    """Remove what a proof does not compare from how a container is put together."""
    if isinstance(structure, dict):
        return {
            key: inner if key == "pairs" else _counted_structure(inner, path, exclude)
            for key, inner in structure.items()
        }
    if not isinstance(structure, list):
        return structure
    counted = []
    for number, part in enumerate(structure):
        # A field or a key with its part, else an item.
        is_named = isinstance(part, list)
        name, inner = part if is_named else (number, part)
        inside = (*path, str(name))
        if not exclude(inside):
            inner = _counted_structure(inner, inside, exclude)
            counted.append([name, inner] if is_named else inner)
    return counted


def _leaf_names(node: str, blob: str, value: Value) -> list[tuple[str, ...]]:
    if blob.startswith(STATE_DIRS):
        return [_blob_names(node, blob, (name,)) for name in packed_files(value)]
    return [_blob_names(node, blob.removesuffix(f"/{STRUCTURE}"))]


def _blobs(epoch: Path) -> dict[tuple[str, str], Value]:
    return {
        (file.header.node, blob.name): blob.value
        for file in inspect(str(epoch), epoch.parent).files
        for blob in file.blobs
    }


def _in_progress(expected: DirectoryStore, actual: DirectoryStore, epoch: int) -> Difference | None:
    first = _without_times(expected.manifest(epoch).runner)
    second = _without_times(actual.manifest(epoch).runner)
    for name in sorted(first.keys() | second.keys()):
        if first.get(name) != second.get(name):
            words = f"{name}: it is {second.get(name)}, not {first.get(name)}"
            return Difference(words, epoch)
    return None


def _without_times(runner: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in runner.items() if not name.endswith("_s")}


def _artifacts(run: Run) -> dict[str, Path]:
    root = run.path / _ARTIFACTS
    return {
        f"{_ARTIFACTS}/{path.relative_to(root).as_posix()}": path
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def last_writer(job: Job, node: str, blob: str) -> str:
    """Find the last step of an epoch that writes a blob which a proof judged as different."""
    last_path = ""
    for task in job.epoch.tasks:
        for path, access in _accesses(task.steps) if task.node == node else ():
            if blob in (*access.binds, *access.changes, *access.atomic):
                last_path = path
    return last_path


def _accesses(steps: tuple[Step, ...]) -> Iterator[tuple[str, Access]]:
    for step in walk(steps):
        if isinstance(step, Net):
            yield from ((op.path, ACCESS_FINDER.of_op(op)) for op in step.ops)
        else:
            yield step.path, ACCESS_FINDER.of_step(step)


def accept_without_comparison(reference: EndedCopy, ended: EndedCopy) -> None:
    """Return None, for no difference, since bits cannot judge two runs of an inexact job."""
    del reference, ended
