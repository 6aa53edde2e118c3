"""Copy the folders in which a job runs, so that each copy has the same relative paths.

First a plan is made, as a value, then each copy by it. Below the copy's top is every directory from
the root of the file system down to the copied folders, so that ``../data`` leads where it led: what
else is in these directories is a symbolic link to the original. Small files are copied, and large
ones where the file system shares their blocks (reflink); else they are links, too. Only a process
that cannot write through these links (``landlock``) leaves the originals alone.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct

from jobrun.core.files.disk import disk_faults

# A proof has some dozens of copies, several at a time.
MOST_BYTES = 256 << 20
MOST_ENTRIES = 10_000
# The folder of a proof is below that of its spec.
SCRATCH_PREFIX = ".prove-"
# <linux/fs.h>
_FICLONE = 0x40049409
# A directory that has one of these is linked whole: an environment of Python, a run.
_MARKS_OF_LINKED = ("pyvenv.cfg", "conda-meta", "run.json")
_LINKED_NAMES = frozenset({".git", ".hg", ".svn", "node_modules", ".tox", ".nox"})
_CACHES = frozenset({"__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"})

Stamp = tuple[int, int, int]


class CopyPlan(Struct, frozen=True):
    """The plan of copies of folders. Paths are absolute, those of the originals.

    Attributes:
        copied: Directories to copy, parents first.
        ancestors: The directories above them, parents first.
        files: Those to copy.
        large: Files to share blocks with, else to link to.
        linked: Files and directories to link to.
        links: Symbolic links, with what is written in them.
    """

    copied: tuple[Path, ...]
    ancestors: tuple[Path, ...]
    files: tuple[Path, ...]
    large: tuple[Path, ...]
    linked: tuple[Path, ...]
    links: tuple[tuple[Path, str], ...]

    def has_copied(self, path: Path) -> bool:
        """Return whether a file or directory is in a copied folder, below nothing that is linked.

        It need not exist.
        """
        if any(part.startswith(SCRATCH_PREFIX) for part in path.parts):
            return False
        copied, linked = frozenset(self.copied), frozenset(self.linked)
        nearest = (
            parent for parent in (path, *path.parents) if parent in copied or parent in linked
        )
        return next(nearest, None) in copied


class FolderCopy(Struct, frozen=True):
    """A copy of folders, with the same paths below another top.

    Attributes:
        plan: By which it was made.
        top: What the root of the file system is to the originals.
        stamps: Of all files and links when the copy was made, by their path below the top.
    """

    plan: CopyPlan
    top: Path
    stamps: Mapping[str, Stamp]

    def path_of(self, original: str | os.PathLike[str]) -> Path:
        """Return where the copy has a file or directory; the original where it has none."""
        path = Path(original)
        return _below(self.top, path) if self.plan.has_copied(path) else path

    def changed_files(self) -> dict[str, Path]:
        """Return the files that are new in the folder copy, or written, by their original path."""
        return {
            f"/{name}": self.top / name
            for name, stamp in _stamps(self.top).items()
            if self.stamps.get(name) != stamp
        }

    def removed_files(self) -> frozenset[str]:
        """Return the original paths of files that the folder copy had and has no more."""
        return frozenset(f"/{name}" for name in self.stamps.keys() - _stamps(self.top).keys())


def plan_copy(folders: Sequence[Path]) -> CopyPlan:
    """Plan a copy of folders: what is copied, and what is linked.

    Directories nearest to the folders come first until there are ``MOST_ENTRIES``, and the smallest
    files until there are ``MOST_BYTES``; what is beyond that is linked.

    Args:
        folders: Absolute, without symbolic links. The first are the most needed.
    """
    ancestors = sorted({parent for folder in folders for parent in folder.parents})
    walk = _Walk(folders, frozenset(ancestors))
    walk.run()
    outside = [
        entry.path
        for ancestor in ancestors
        if ancestor not in walk.directories
        for entry in _scan(ancestor)
        if Path(entry.path) not in walk.directories and Path(entry.path) not in ancestors
    ]
    small, large = _split_by_size(walk.files)
    return CopyPlan(
        tuple(sorted(walk.directories)),
        tuple(ancestor for ancestor in ancestors if ancestor not in walk.directories),
        small,
        large,
        (*walk.linked, *map(Path, outside)),
        tuple(walk.links),
    )


class _Walk:
    """Walks through the folders to copy, breadth first, and sorts what is in them."""

    def __init__(self, starts: Sequence[Path], ancestors: frozenset[Path]) -> None:
        self._waiting = deque(starts)
        self._starts = frozenset(starts)
        self._ancestors = ancestors
        self._count = 0
        self.directories: set[Path] = set()
        self.files: list[tuple[Path, os.stat_result]] = []
        self.linked: list[Path] = []
        self.links: list[tuple[Path, str]] = []

    def run(self) -> None:
        """Walk through the folders to copy until the limit is reached."""
        while self._waiting:
            folder = self._waiting.popleft()
            if folder in self.directories:
                continue
            self.directories.add(folder)
            device = folder.stat().st_dev
            for entry in _scan(folder):
                self._sort(entry, device)
        # A start may be below a directory that was linked before it came.
        self.linked = [
            path for path in self.linked if path not in self.directories | self._ancestors
        ]

    def _sort(self, entry: os.DirEntry[str], device: int) -> None:
        path = Path(entry.path)
        if path.name.startswith(SCRATCH_PREFIX):
            return
        self._count += 1
        if entry.is_symlink():
            self.links.append((path, os.fspath(path.readlink())))
        elif entry.is_dir():
            # Another file system may be /proc, or a server's with all data.
            is_mounted = entry.stat(follow_symlinks=False).st_dev != device
            if is_mounted or self._is_linked_whole(path):
                self.linked.append(path)
            else:
                self._waiting.append(path)
        elif entry.is_file() and os.access(path, os.R_OK) and self._count <= MOST_ENTRIES:
            self.files.append((path, entry.stat()))
        else:
            self.linked.append(path)

    def _is_linked_whole(self, path: Path) -> bool:
        if path in self._starts or path in self._ancestors:
            return False
        return (
            self._count > MOST_ENTRIES
            or path.name in _LINKED_NAMES
            or not os.access(path, os.R_OK | os.X_OK)
            or any(os.path.lexists(path / name) for name in _MARKS_OF_LINKED)
        )


def _scan(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:
        # It may not be listed, or was just removed.
        return []


def _split_by_size(
    files: Iterable[tuple[Path, os.stat_result]],
) -> tuple[tuple[Path, ...], tuple[Path, ...]]:
    small: list[Path] = []
    large: list[Path] = []
    total = 0
    for path, facts in sorted(files, key=lambda pair: (pair[1].st_size, pair[0])):
        total += facts.st_size
        (small if total <= MOST_BYTES else large).append(path)
    return tuple(small), tuple(large)


def make_copy(plan: CopyPlan, top: Path, source: Path = Path("/")) -> FolderCopy:
    """Make a copy of folders by its plan.

    Args:
        plan: What is copied and linked.
        top: A missing directory for the copy.
        source: Where the contents of files are read: the top of an earlier copy, or the originals.

    Raises:
        CheckpointError: E354, it cannot be written, such as for lack of space.
    """
    with disk_faults("E354", f"copy the files of the job to {top}"):
        for path in (*plan.ancestors, *plan.copied):
            _below(top, path).mkdir(parents=True)
        copies: dict[tuple[int, int], Path] = {}
        for path in plan.files:
            # A file that is gone, such as a temporary one, is none of the job's.
            with suppress(FileNotFoundError):
                _copy_file(_below(source, path), _below(top, path), copies)
        for path in plan.large:
            _share_or_link(path, _below(source, path), _below(top, path))
        for path in plan.linked:
            _below(top, path).symlink_to(path)
        for path, target in plan.links:
            inside = plan.has_copied(Path(target))
            _below(top, path).symlink_to(_below(top, Path(target)) if inside else target)
    return FolderCopy(plan, top, _stamps(top))


def remove_copy(top: Path) -> None:
    """Remove a copy of folders, and what has been written into it."""
    shutil.rmtree(top, ignore_errors=True)


def _below(top: Path, path: Path) -> Path:
    return top / path.relative_to("/")


def _copy_file(source: Path, target: Path, copies: dict[tuple[int, int], Path]) -> None:
    facts = source.stat()
    key = facts.st_dev, facts.st_ino
    if facts.st_nlink > 1 and key in copies:
        # Two names of one file are so in the copy, too.
        os.link(copies[key], target)
        return
    if not _share_blocks(source, target):
        shutil.copyfile(source, target)
    shutil.copystat(source, target)
    copies[key] = target


def _share_or_link(path: Path, source: Path, target: Path) -> None:
    if not source.is_symlink() and _share_blocks(source, target):
        shutil.copystat(source, target)
    else:
        target.unlink(missing_ok=True)
        target.symlink_to(path)


def _share_blocks(source: Path, target: Path) -> bool:
    with source.open("rb") as reading, target.open("wb") as writing:
        try:
            fcntl.ioctl(writing, _FICLONE, reading.fileno())
        except OSError:
            return False
    return True


def _stamps(top: Path) -> dict[str, Stamp]:
    return dict(_walk_stamps(os.fspath(top), ""))


def _walk_stamps(folder: str, name: str) -> Iterator[tuple[str, Stamp]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            path = f"{name}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in _CACHES:
                    yield from _walk_stamps(entry.path, f"{path}/")
            else:
                yield path, stamp_of(entry.stat(follow_symlinks=False))


def stamp_of(facts: os.stat_result) -> Stamp:
    """Return what changes of a file when it is written: inode, modification time and size."""
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def stamps_of(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """Return the stamps of regular files, to find out which of them are changed later."""
    stamps = {}
    for path in paths:
        with suppress(OSError):
            facts = path.stat()
            if stat.S_ISREG(facts.st_mode):
                stamps[path] = stamp_of(facts)
    return stamps
