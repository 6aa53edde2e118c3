"""A node's directory on its own machine, where files of epochs are only for a time.

What a node writes there counts for nothing before the master has it. ::

    NODE_DIR/jobrun-RUN/trainer_1/3-0f6a21bc/    of this process: incarnation 3 of the node
        .tmp-epoch-000004-…/trainer_1.h5         of one save, until the master, or the store, has it
        in-1/trainer_1.h5                        from there, while it is read
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

from jobrun.checkpoint.elsewhere import Reference, fetch_object
from jobrun.checkpoint.times import NodeSave
from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.core.objecturl import ObjectUrl, parse_object_url
from jobrun.formats.files import disk_faults, is_locked
from jobrun.session.calls import Answer
from jobrun.session.nodefiles import NO_FOOTING, Brought, Footing, Piece
from jobrun.session.pieces import not_collected, read_piece, write_pieces


class NodeDirectory:
    """The directory of one node's process; without one, files are where the master says.

    Args:
        node: The name of the node's place.
        footing: What the master says.

    Raises:
        EnvironmentFaultError: E313, it cannot be made.
    """

    def __init__(self, node: str = "", footing: Footing = NO_FOOTING) -> None:
        self._incarnation = footing.incarnation
        self._objects = parse_object_url(footing.objects) if footing.objects else None
        self._numbers = count(1)
        self._root: Path | None = None
        self._held = -1
        if footing.node_dir:
            name = f"{footing.incarnation}-{secrets.token_hex(4)}"
            self._root = Path(footing.node_dir, node, name)
            with disk_faults("E313", f"make {self._root} on the machine of node '{node}'"):
                self._held = _made(self._root)

    def stage(self, directory: str) -> str:
        """Where files of a save are written.

        Args:
            directory: Its staging directory; its name alone, if files are collected.
        """
        if self._root is None:
            return directory
        path = self._staged(directory)
        with disk_faults("E313", f"make {path}"):
            path.mkdir(mode=0o700, exist_ok=True)
        return str(path)

    def piece(self, token: str, name: str, offset: int) -> Piece:
        """A piece of a file that was written here.

        Raises:
            EnvironmentFaultError: E327, it is not there any more, or cannot be read.
        """
        path = str(self._staged(token) / Path(name).name)
        try:
            return read_piece(path, offset, token, self._incarnation)
        except CheckpointError as error:
            raise not_collected(name, error.faults[0].message) from error

    def brought(
        self, token: str, epoch: int, saves: tuple[NodeSave, ...]
    ) -> tuple[NodeSave, ...] | Brought:
        """What was written for a save, brought to where files go, if that is an object store.

        Args:
            token: The save's.
            epoch: Its epoch.
            saves: What writing came to.

        Raises:
            EnvironmentFaultError: The store says no.
        """
        if self._objects is None:
            return saves
        made = tuple(self._bring(self._objects, self._staged(token), epoch, one) for one in saves)
        return Brought(Path(token).name, self._incarnation, made)

    def _bring(self, place: ObjectUrl, staged: Path, epoch: int, save: NodeSave) -> NodeSave:
        # Only who keeps checkpoints in an object store needs it.
        from jobrun.checkpoint.objectstore import bring_file  # noqa: PLC0415

        started = time.perf_counter()
        file, path = save.file, staged / save.file.name
        try:
            bring_file(place, epoch, file, str(path))
        except CheckpointError as error:
            # What was just written here is something else by now.
            raise not_collected(file.name, error.faults[0].message) from error
        path.unlink(missing_ok=True)
        seconds = file.seconds + time.perf_counter() - started
        return replace(save, file=replace(file, seconds=seconds))

    def forget(self, token: str) -> None:
        """Delete what was written for a save. Any thread, any number of times."""
        if self._root is not None:
            shutil.rmtree(self._staged(token), ignore_errors=True)

    @contextlib.contextmanager
    def landed(
        self, path: str, ask: Callable[[int], Answer], where: Callable[[], Answer]
    ) -> Iterator[str]:
        """While inside, a copy of one of the master's files is here; its path.

        Args:
            path: There.
            ask: Asks the master for the piece at an offset.
            where: Asks it for where the file is, if it has none.
        """
        if self._root is None:
            yield path
            return
        place = self._root / f"in-{next(self._numbers)}"
        with disk_faults("E313", f"make {place}"):
            place.mkdir(mode=0o700)
        try:
            target = place / Path(path).name
            reference: Reference | None = where().wait()
            if reference is None:
                write_pieces(target, ask)
            else:
                fetch_object(reference, target)
            yield str(target)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Delete all of it, and what it is in, if there is nothing else."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            self.let_go()
            with contextlib.suppress(OSError):
                _end_with(self._root.parent)

    def let_go(self) -> None:
        """Leave the directory to whoever begins there next, as the end of the process does."""
        held, self._held = self._held, -1
        if held >= 0:
            os.close(held)

    def _staged(self, token: str) -> Path:
        if self._root is None:
            raise RuntimeError("this node collects nothing")
        return self._root / Path(token).name


def _made(root: Path) -> int:
    """Make the directory of a process; the descriptor by which it is known to be of a live one.

    What earlier processes of the node have left there is removed. Who still lives is another run
    of that name, a copy of this one, or was cut off and will remove its own.
    """
    node, run = root.parent, root.parent.parent
    run.parent.mkdir(parents=True, exist_ok=True)
    for path in (run, node):
        path.mkdir(mode=0o700, exist_ok=True)
        _expect_own(path)
    # Nobody may take for left behind what is being made.
    making = _opened(node)
    try:
        fcntl.flock(making, fcntl.LOCK_EX)
        _sweep(node)
        root.mkdir(mode=0o700)
        held = _opened(root)
        fcntl.flock(held, fcntl.LOCK_EX)
        return held
    finally:
        os.close(making)


def _sweep(node: Path) -> None:
    """Remove the directories of a node's processes that have ended."""
    for left in node.iterdir():
        if not is_locked(left):
            shutil.rmtree(left, ignore_errors=True)


def _end_with(node: Path) -> None:
    """Remove what is left of a node, also of who was cut off, and has ended since without a word.

    Not while somebody begins there, who does it then.

    Raises:
        OSError: Somebody does, or is there.
    """
    ending = _opened(node)
    try:
        fcntl.flock(ending, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _sweep(node)
        node.rmdir()
        node.parent.rmdir()
    finally:
        os.close(ending)


def _opened(directory: Path) -> int:
    return os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def _expect_own(path: Path) -> None:
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise EnvironmentFaultError.of(
            "E313",
            f"{path} is not a directory of this user",
            "see who has made it, or give another 'checkpoint.node_dir'",
        )
