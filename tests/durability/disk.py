"""What a disk may hold after a power cut: a model of what POSIX promises, and of less. No run.

Recorded calls are applied one by one. What an ``fsync`` has made durable is in every state; of the
rest a state has any part that the model allows:

* ``weak``: of a file's bytes that are not synced any sectors, any length that it had on the way,
  zeros or old bytes in the gaps; of the changes of names any, in any order, but that a rename is
  one act, and that two changes of one name, or of the name of one file, keep their order. A name
  is durable when its directory was synced.
* ``ordered``: names become durable in the order in which they were changed, as with a journal;
  a file's bytes in the order in which they were written, or none (delayed allocation).
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tests.support.call_recorder import Change

Model = Literal["weak", "ordered"]
ROOT = 0
_SECTOR_BYTES = 512
# What a sector holds that was given to a file and never written: somebody's old bytes.
_STALE = b"\xa5"
Write = tuple[int, bytes]


@dataclass(slots=True)
class Inode:
    """A file, a link or a directory.

    Attributes:
        name: The last one that it had.
        durable: A file's content as of its last sync.
        pending: Since then; a write with its offset, or a new length.
        target: Of a symbolic link.
    """

    name: str
    is_directory: bool = False
    durable: bytes = b""
    pending: list[Write | int] = field(default_factory=list)
    target: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Naming:
    """A change of names: one is taken away, one is given, or both in one act."""

    removed: tuple[int, str] | None
    added: tuple[int, str, int] | None
    inode: int

    def touches(self, directory: int) -> bool:
        """Whether it changes this directory."""
        return any(
            location is not None and location[0] == directory
            for location in (self.removed, self.added)
        )

    def precedes(self, later: Naming) -> bool:
        """Whether the later one cannot be there without this one."""
        if self.inode == later.inode:
            return True
        mine = {location[:2] for location in (self.removed, self.added) if location}
        return any(location[:2] in mine for location in (later.removed, later.added) if location)


Names = dict[int, dict[str, int]]


@dataclass(frozen=True, slots=True)
class Crash:
    """One state: which pending changes of names are there, and how much of each file.

    Attributes:
        names: Numbers of pending changes.
        files: By inode how its pending bytes are; those that are not named have all of them.
    """

    names: frozenset[int]
    files: tuple[tuple[int, str], ...] = ()


class Disk:
    """A directory's files, as far as they are durable, and all that may be.

    Args:
        root: The directory, absolute, without links in its path. What it holds is durable.
        model: What a power cut may leave.
    """

    def __init__(self, root: Path, model: Model = "weak") -> None:
        self._root = str(root)
        self._model = model
        self.inodes: dict[int, Inode] = {ROOT: Inode("", is_directory=True)}
        self._ids = {root.stat().st_ino: ROOT}
        self._next = 1
        self.durable: Names = {ROOT: {}}
        self._scan(root, ROOT)
        self.live: Names = {number: dict(names) for number, names in self.durable.items()}
        self.pending: list[Naming] = []

    def inode(self, number: int) -> Inode:
        """What has this inode number in the real directory."""
        return self.inodes[self._ids[number]]

    def name_of(self, change: Change) -> str:
        """The name of the file that an applied call was about; empty for one that is removed."""
        return self.inode(change.inode).name if change.inode in self._ids else ""

    def apply(self, change: Change) -> None:
        """Do what was done."""
        match change.kind:
            case "created" | "made":
                self._create(change)
            case "written":
                self.inode(change.inode).pending.append((change.offset, change.data))
            case "cut":
                self.inode(change.inode).pending.append(change.offset)
            case "renamed":
                location, target = self._place(change.path), self._place(change.other)
                moved = self.live[location[0]][location[1]]
                self.inodes[moved].name = target[1]
                self._name(Naming(location, (*target, moved), moved))
            case "linked":
                linked = self._ids[change.inode]
                self._name(Naming(None, (*self._place(change.other), linked), linked))
            case "removed":
                location = self._place(change.path)
                self._name(Naming(location, None, self.live[location[0]][location[1]]))
            case "synced":
                self._sync(change.inode)

    def content(self, number: int, loss: str = "all") -> bytes:
        """A file's bytes in a state.

        Args:
            number: Of ours.
            loss: ``all``, ``none``; ``empty``: the length, and no bytes; ``stale``: likewise,
                and there are old bytes; ``first:N``: as long as only N changes were made;
                ``cut:SEED``: as long as it became, up to some byte; ``sectors:SEED``: some.
        """
        inode = self.inodes[number]
        kind, _, argument = loss.partition(":")
        if kind == "none" or not inode.pending:
            return inode.durable
        if kind == "all":
            return _written(inode.durable, inode.pending)
        if kind == "first":
            return _written(inode.durable, inode.pending[: int(argument)])
        if kind in {"empty", "stale"}:
            gap = b"\0" if kind == "empty" else _STALE
            return _gaps(inode.durable, inode.pending, gap)
        chosen = random.Random(int(argument))
        if kind == "cut":
            whole = _written(inode.durable, inode.pending)
            least = min(len(inode.durable), len(whole))
            return whole[: chosen.randint(least, len(whole))]
        return _sectors(inode.durable, inode.pending, chosen)

    def names_of(self, crash: Crash) -> Names:
        """The directories of a state."""
        names_by_directory = {number: dict(names) for number, names in self.durable.items()}
        for number, naming in enumerate(self.pending):
            if number in crash.names:
                _rename(names_by_directory, naming)
        return names_by_directory

    def closed(self, wanted: set[int]) -> frozenset[int]:
        """Pending changes of names, with those that must then be there too."""
        if not wanted:
            return frozenset()
        if self._model == "ordered":
            return frozenset(range(max(wanted) + 1))
        closed = set(wanted)
        for number in range(max(wanted), -1, -1):
            if number in closed:
                later = self.pending[number]
                closed.update(
                    other for other in range(number) if self.pending[other].precedes(later)
                )
        return frozenset(closed)

    def without(self, lost: int) -> frozenset[int]:
        """All pending changes of names but one, and those that need it."""
        if self._model == "ordered":
            return frozenset(range(lost))
        gone = {lost}
        for number in range(lost + 1, len(self.pending)):
            if any(self.pending[other].precedes(self.pending[number]) for other in gone):
                gone.add(number)
        return frozenset(range(len(self.pending))) - gone

    def unsynced(self) -> list[int]:
        """Files with pending bytes that have, or may have, a name."""
        named = {number for names in self.live.values() for number in names.values()}
        named |= {number for names in self.durable.values() for number in names.values()}
        return [number for number in sorted(named) if self.inodes[number].pending]

    def files(self, crash: Crash) -> Iterator[tuple[str, int, str]]:
        """Relative path, inode and how of each file, and of each directory (``/`` behind it)."""
        names, losses = self.names_of(crash), dict(crash.files)
        waiting = [("", ROOT)]
        seen: set[int] = set()
        while waiting:
            path, directory = waiting.pop()
            for name, number in sorted(names.get(directory, {}).items()):
                if not self.inodes[number].is_directory:
                    yield path + name, number, losses.get(number, "all")
                elif number not in seen:
                    # One that two names lead to, which no file system has, is there once.
                    seen.add(number)
                    yield f"{path}{name}/", number, ""
                    waiting.append((f"{path}{name}/", number))

    def write(self, crash: Crash, target: Path) -> None:
        """Make a directory that holds a state."""
        target.mkdir()
        base = f"{target}/"
        for path, number, loss in self.files(crash):
            link = self.inodes[number].target
            if path.endswith("/"):
                os.mkdir(base + path)  # noqa: PTH102 - thousands of them a second
            elif link is not None:
                Path(base + path).symlink_to(link)
            else:
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                descriptor = os.open(base + path, flags, 0o644)
                os.write(descriptor, self.content(number, loss))
                os.close(descriptor)

    def _scan(self, directory: Path, number: int) -> None:
        for path in sorted(directory.iterdir()):
            facts = path.lstat()
            inode = Inode(path.name)
            if path.is_symlink():
                inode.target = str(path.readlink())
            elif path.is_dir():
                inode.is_directory = True
            else:
                inode.durable = path.read_bytes()
            new = self._add(facts.st_ino, inode)
            self.durable[number][path.name] = new
            if inode.is_directory:
                self.durable[new] = {}
                self._scan(path, new)

    def _add(self, number: int, inode: Inode) -> int:
        new, self._next = self._next, self._next + 1
        # A number that was freed is given again.
        self._ids[number], self.inodes[new] = new, inode
        return new

    def _create(self, change: Change) -> None:
        location = self._place(change.path)
        inode = Inode(location[1], is_directory=change.kind == "made")
        inode.target = change.other or None
        new = self._add(change.inode, inode)
        if inode.is_directory:
            self.durable[new], self.live[new] = {}, {}
        self._name(Naming(None, (*location, new), new))

    def _name(self, naming: Naming) -> None:
        self.pending.append(naming)
        _rename(self.live, naming)

    def _sync(self, number: int) -> None:
        mine = self._ids[number]
        inode = self.inodes[mine]
        if not inode.is_directory:
            inode.durable = _written(inode.durable, inode.pending)
            inode.pending.clear()
            return
        touched = {at for at, naming in enumerate(self.pending) if naming.touches(mine)}
        synced = self.closed(touched)
        for at in sorted(synced):
            _rename(self.durable, self.pending[at])
        self.pending = [naming for at, naming in enumerate(self.pending) if at not in synced]

    def _place(self, path: str) -> tuple[int, str]:
        relative = os.path.relpath(os.path.normpath(path), self._root)
        *folders, name = relative.split("/")
        directory = ROOT
        for folder in folders:
            directory = self.live[directory][folder]
        return directory, name


def _rename(names: Names, naming: Naming) -> None:
    if naming.removed:
        directory, name = naming.removed
        if names[directory].get(name) == naming.inode:
            del names[directory][name]
    if naming.added:
        directory, name, number = naming.added
        names[directory][name] = number


def _written(durable: bytes, pending: list[Write | int]) -> bytes:
    data = bytearray(durable)
    for change in pending:
        if isinstance(change, int):
            del data[change:]
            data.extend(bytes(change - len(data)))
            continue
        offset, piece = change
        data.extend(bytes(max(0, offset - len(data))))
        data[offset : offset + len(piece)] = piece
    return bytes(data)


def _gaps(durable: bytes, pending: list[Write | int], gap: bytes) -> bytes:
    """As long as it became, with nothing of what was written."""
    length = len(_written(durable, pending))
    durable_part = durable[:length]
    return durable_part + gap * (length - len(durable_part))


def _sectors(durable: bytes, pending: list[Write | int], chosen: random.Random) -> bytes:
    """Some sectors as they became, the others as they were."""
    whole = _written(durable, pending)
    data = bytearray(_gaps(durable, pending, chosen.choice([b"\0", _STALE])))
    for at in range(0, len(whole), _SECTOR_BYTES):
        if chosen.random() < 0.5:
            data[at : at + _SECTOR_BYTES] = whole[at : at + _SECTOR_BYTES]
    return bytes(data)
