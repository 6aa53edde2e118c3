"""Real power cuts: a file system of its own is shut down under a run, and mounted again.

``FS_IOC_SHUTDOWN`` without a flush of the journal is what a cut leaves: what was not written to the
device is gone. It takes a loop device, the right to mount, and the tools that make file systems;
where one is missing, ``obstacle`` says so, and nothing stands in for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import shutil
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.durability.explorer import Explorer
from tests.durability.promises import NOTHING, Promise, Promises
from tests.durability.scenarios import AUTO, KEPT, SPEC
from tests.support.call_recorder import read_changes
from tests.support.faults import FaultLab
from tests.support.run_judge import unfinished

# ioctl_fsshutdown: of what is in memory nothing is written any more, not even the journal.
_SHUTDOWN, _WITHOUT_FLUSH = 0x8004587D, 2
_MOUNT_TRIES = 300
_LOOK_EVERY_S = 0.0002


@dataclass(frozen=True)
class FileSystem:
    """A kind of file system.

    Attributes:
        name: For tables.
        make: The command that makes it in an image.
        options: Of its mount.
        check: The command that a machine runs before it mounts it again; none for most.
        size_bytes: Of the image, of which little is used.
    """

    name: str
    make: tuple[str, ...]
    options: str = "loop"
    check: tuple[str, ...] = ()
    size_bytes: int = 64 << 20


FILE_SYSTEMS = (
    FileSystem("ext4", ("mkfs.ext4", "-q")),
    FileSystem("ext4, data=writeback", ("mkfs.ext4", "-q"), "loop,data=writeback"),
    FileSystem(
        "ext4 without a journal",
        ("mkfs.ext4", "-q", "-O", "^has_journal"),
        check=("e2fsck", "-p", "-f"),
    ),
    FileSystem("xfs", ("mkfs.xfs", "-q"), size_bytes=320 << 20),
)


@dataclass
class Cuts:
    """What came of some cuts.

    Attributes:
        cuts: How many there were.
        midway: After how many of them something was left to do.
        saved: How many epochs had been promised when they came, in sum.
        faults: What was wrong.
    """

    cuts: int = 0
    midway: int = 0
    saved: int = 0
    faults: list[str] = field(default_factory=list)


def obstacle(kind: FileSystem, scratch: Path) -> str:
    """Why there can be no cuts on this machine; empty if there can."""
    for program in {kind.make[0], *kind.check[:1]}:
        if shutil.which(program) is None:
            return f"{program} is not installed"
    if os.geteuid() != 0:
        return "only root may mount"
    try:
        with (
            _image(kind, scratch) as image,
            _mounted(kind, image) as mount,
            _opened(mount) as descriptor,
        ):
            _shut_down(descriptor)
    except (OSError, subprocess.CalledProcessError) as error:
        message = getattr(error, "stderr", b"") or str(error).encode()
        return message.decode(errors="replace").strip()
    return ""


def cut(kind: FileSystem, count: int, seed: int, scratch: Path) -> Cuts:
    """Cut the power of runs at random instants, and of one resume in three.

    Args:
        kind: Of file system.
        count: Of cuts at least.
        seed: Of the instants.
        scratch: An existing directory on another file system.
    """
    cuts = Cuts()
    chosen = random.Random(f"{seed} {kind.name}")
    with FaultLab(scratch / f"lab-{kind.make[0]}") as lab, Explorer(lab, scratch) as explorer:
        with _image(kind, scratch) as image:
            most = _Trial(kind, image, lab, explorer, cuts).undisturbed()
        while cuts.cuts < count:
            with _image(kind, scratch) as image:
                trial = _Trial(kind, image, lab, explorer, cuts)
                trial.cut_after(chosen.randint(0, most))
                if chosen.random() < 1 / 3 and cuts.cuts < count:
                    trial.cut_after(chosen.randint(0, most))
                trial.finish()
    return cuts


class _Trial:
    """One run on a file system of its own."""

    def __init__(
        self, kind: FileSystem, image: Path, lab: FaultLab, explorer: Explorer, cuts: Cuts
    ) -> None:
        self._kind, self._image, self._lab = kind, image, lab
        self._explorer, self._found = explorer, cuts
        self._promise = NOTHING
        self._log = image.with_suffix(".log")
        # How much of the record there was when the cut began.
        self._noted = 0
        with _mounted(kind, image) as mount:
            (mount / "work").mkdir()
            (mount / "work" / "tiny.yaml").write_text(SPEC)
            os.sync()

    def undisturbed(self) -> int:
        """Run to the end; how many bytes long the record of its calls is."""
        with _mounted(self._kind, self._image) as mount:
            ended = self._lab.run(*AUTO, below=mount / "work", record=self._log)
        assert ended.code == 0, ended.stderr
        return self._log.stat().st_size

    def cut_after(self, size_bytes: int) -> None:
        """Run, or resume, and cut the power when so much is recorded; then look at what is left.

        Where the run ends before that, the cut comes at its end.
        """
        self._log.write_bytes(b"")
        over = threading.Event()
        with _mounted(self._kind, self._image) as mount:
            watch = threading.Thread(target=self._cut, args=(mount, size_bytes, over))
            watch.start()
            try:
                ended = self._lab.run(*AUTO, below=mount / "work", record=self._log, timeout_s=30)
            finally:
                over.set()
                watch.join()
        if "Traceback" in ended.stderr:
            self._tell(f"a traceback: {ended.stderr}")
        self._found.cuts += 1
        self._found.midway += ended.code != 0
        # The power goes at one instant of the cut, which takes long on a busy machine, and some
        # epochs may be saved and removed in it. And calls are under way while the file system is
        # shut down: ext4 may report a sync of that time as done that is not: 29 times in 1,000 cuts
        # of a program that did nothing but append, rename and sync (Linux 6.18), and never one that
        # had ended before.
        possible = _promised(self._log, self._promise, self._noted)
        with self._again() as mount:
            for self._promise in reversed(possible):
                wrong = self._explorer.judged(mount / "work", self._promise)
                if not wrong:
                    break
        self._found.saved += len(self._promise.whole)
        for text in wrong:
            self._tell(text)

    def finish(self) -> None:
        """Resume to the end, and compare all."""
        with self._again() as mount:
            ended = self._lab.run(*AUTO, below=mount / "work")
            if ended.code != 0:
                self._tell(f"the resume ends with {ended.code}: {ended.stderr}")
                return
            paths = (path.parent for path in (mount / "work" / "runs").glob("*/*/committed.jsonl"))
            runs = [path for path in paths if not path.is_symlink()]
            faults = [] if len(runs) == 1 else [f"there are {len(runs)} runs with saved epochs"]
            for text in faults or unfinished(runs[0], self._explorer.reference):
                self._tell(text)

    def _cut(self, mount: Path, size_bytes: int, over: threading.Event) -> None:
        while self._log.stat().st_size < size_bytes and not over.wait(_LOOK_EVERY_S):
            pass
        with _opened(mount) as descriptor:
            self._noted = self._log.stat().st_size
            _shut_down(descriptor)

    @contextlib.contextmanager
    def _again(self) -> Iterator[Path]:
        """The file system after the machine has started again."""
        if self._kind.check:
            subprocess.run([*self._kind.check, self._image], check=False, capture_output=True)
        with _mounted(self._kind, self._image) as mount:
            yield mount

    def _tell(self, text: str) -> None:
        self._found.faults.append(f"{self._kind.name}, cut {self._found.cuts}: {text}")


def _promised(log: Path, before: Promise, begun: int) -> list[Promise]:
    """What a run may have promised when the power went, by the calls that it made, oldest first.

    They are noted on another disk; the cut began when so many bytes were.
    """
    promises = Promises(before, KEPT)
    names: dict[int, str] = {}
    changes = read_changes(log)
    first = len(read_changes(log, begun))
    possible = [before] if first == 0 else []
    for number, change in enumerate(changes, 1):
        if change.kind == "created":
            names[change.inode] = Path(change.path).name
        promises.see(
            change, names.get(change.inode) or _by_content(change.data, names, change.inode)
        )
        if number >= first and promises.now not in possible:
            possible.append(promises.now)
    return possible


def _by_content(data: bytes, names: dict[int, str], inode: int) -> str:
    """The name of a file that was there before: a resume appends to the journal."""
    if b'"crc32"' in data and data.startswith(b"{"):
        names[inode] = "committed.jsonl"
    return names.get(inode, "")


@contextlib.contextmanager
def _image(kind: FileSystem, scratch: Path) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="jobrun-cut-", dir=scratch))
    image = folder / "image"
    try:
        with image.open("wb") as file:
            file.truncate(kind.size_bytes)
        subprocess.run([*kind.make, image], check=True, capture_output=True)
        yield image
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def _mounted(kind: FileSystem, image: Path) -> Iterator[Path]:
    mount = image.with_name("mounted")
    mount.mkdir(exist_ok=True)
    command = ["mount", "-o", kind.options, image, mount]
    subprocess.run(command, check=True, capture_output=True)
    try:
        yield mount.resolve()
    finally:
        for _ in range(_MOUNT_TRIES):
            # What has just died may not have let go of it yet, nor a process with a name space of
            # its own, which has copied the mount: the next one would find it shut down.
            subprocess.run(["umount", mount], check=False, capture_output=True)
            if not mount.is_mount() and not _loop_devices(image):
                break
            time.sleep(0.1)
        else:
            raise OSError(f"{mount} cannot be unmounted")


def _loop_devices(image: Path) -> str:
    command = ["losetup", "--associated", image]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _shut_down(descriptor: int) -> None:
    fcntl.ioctl(descriptor, _SHUTDOWN, struct.pack("I", _WITHOUT_FLUSH))


def contents_after_a_cut(kind: FileSystem, scratch: Path) -> dict[str, bytes]:
    """The files that are there when two were written, of which one was synced."""
    with _image(kind, scratch) as image:
        with _mounted(kind, image) as mount:
            with (mount / "synced").open("wb") as file:
                file.write(b"data")
                file.flush()
                os.fsync(file.fileno())
            descriptor = os.open(mount, os.O_RDONLY)
            os.fsync(descriptor)
            os.close(descriptor)
            (mount / "not synced").write_bytes(b"data")
            with _opened(mount) as descriptor:
                _shut_down(descriptor)
        if kind.check:
            subprocess.run([*kind.check, image], check=False, capture_output=True)
        with _mounted(kind, image) as mount:
            return {path.name: path.read_bytes() for path in mount.iterdir() if path.is_file()}
