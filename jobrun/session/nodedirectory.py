"""A node's directory on its own machine, where files of epochs are only for a time.

What a node writes there counts for nothing before the master has it. ::

    NODE_DIR/jobrun-RUN/trainer_1/3-0f6a21bc/    of this process: incarnation 3 of the node
        .tmp-epoch-000004-…/trainer_1.h5         of one save, until the master has it
        in-1/trainer_1.h5                        of the master, while it is read
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

from jobrun.core.errors import CheckpointError, EnvironmentFaultError
from jobrun.formats.files import disk_faults
from jobrun.session.calls import Answer
from jobrun.session.nodefiles import NO_FOOTING, Footing, Piece
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
        self._numbers = count(1)
        self._root: Path | None = None
        if footing.node_dir:
            name = f"{footing.incarnation}-{secrets.token_hex(4)}"
            self._root = Path(footing.node_dir, node, name)
            with disk_faults("E313", f"make {self._root} on the machine of node '{node}'"):
                self._make(self._root)

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

    def forget(self, token: str) -> None:
        """Delete what was written for a save. Any thread, any number of times."""
        if self._root is not None:
            shutil.rmtree(self._staged(token), ignore_errors=True)

    @contextlib.contextmanager
    def landed(self, path: str, ask: Callable[[int], Answer]) -> Iterator[str]:
        """While inside, a copy of one of the master's files is here; its path.

        Args:
            path: There.
            ask: Asks the master for the piece at an offset.
        """
        if self._root is None:
            yield path
            return
        place = self._root / f"in-{next(self._numbers)}"
        with disk_faults("E313", f"make {place}"):
            place.mkdir(mode=0o700)
        try:
            target = place / Path(path).name
            write_pieces(target, ask)
            yield str(target)
        finally:
            shutil.rmtree(place, ignore_errors=True)

    def close(self) -> None:
        """Delete all of it, and what it is in, if there is nothing else."""
        if self._root is not None:
            shutil.rmtree(self._root, ignore_errors=True)
            with contextlib.suppress(OSError):
                self._root.parent.rmdir()
                self._root.parent.parent.rmdir()

    def _staged(self, token: str) -> Path:
        if self._root is None:
            raise RuntimeError("this node collects nothing")
        return self._root / Path(token).name

    def _make(self, root: Path) -> None:
        node, run = root.parent, root.parent.parent
        run.parent.mkdir(parents=True, exist_ok=True)
        for path in (run, node):
            path.mkdir(mode=0o700, exist_ok=True)
            _expect_own(path)
        # Of earlier ones of this node, which were killed; or cut off, and then of no use.
        for left in node.iterdir():
            shutil.rmtree(left, ignore_errors=True)
        root.mkdir(mode=0o700)


def _expect_own(path: Path) -> None:
    facts = path.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.geteuid():
        raise EnvironmentFaultError.of(
            "E313",
            f"{path} is not a directory of this user",
            "see who has made it, or give another 'checkpoint.node_dir'",
        )
