"""Share memory between a supervised child and its parent: state, stacks of a crash, and news."""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
from collections.abc import Callable
from typing import NoReturn

from jobrun.core.captured_output import STREAMS, open_output_files
from jobrun.core.system_calls import open_anonymous_file

_PAGE_BYTES = 16384
_SLOT_BYTES = 2048
_SLOTS = ("run", "group", "exit", "limit", "grace", "hash", "keep")
_MOST_STACK_BYTES = 1 << 20


class SharedState:
    """Shared memory in which the child leaves its state for the parent; made before the fork.

    Attributes:
        can_start_again: Whether the command can ask for another hash seed, in the slot ``hash``.
        output: Where the child lets its standard descriptors lead while tasks run.
        unexpected_end: How the child ended without an exit code, in words; known to the parent.
        spared: Processes of the parent's own, which end by themselves.
    """

    def __init__(self, *, can_start_again: bool = False) -> None:
        self.can_start_again = can_start_again
        self.spared: set[int] = set()
        self.unexpected_end = ""
        self._page = mmap.mmap(-1, _PAGE_BYTES)
        self.output = open_output_files()
        self._stacks = open_anonymous_file("jobrun-stacks")
        self._news = open_anonymous_file("jobrun-news")
        self._news_read = 0
        self._pid = 0

    def write(self, slot: str, text: str) -> None:
        """Write a short text of the child into a slot of the memory shared with its supervisor."""
        data = text.encode(errors="replace")[: _SLOT_BYTES - 1] + b"\0"
        place = 2 + _SLOT_BYTES * _SLOTS.index(slot)
        self._page[place : place + len(data)] = data

    def read(self, slot: str) -> str:
        """Read a slot of supervisor memory: the text that the supervised child wrote there last."""
        place = 2 + _SLOT_BYTES * _SLOTS.index(slot)
        data = self._page[place : place + _SLOT_BYTES]
        return data.partition(b"\0")[0].decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        """The exit code that the child wrote to memory shared with its supervisor, or None."""
        return self._page[1] if self._page[0] else None

    @property
    def stacks(self) -> str:
        """The stack traces of a crash that the child left in memory shared with its supervisor."""
        return os.pread(self._stacks, _MOST_STACK_BYTES, 0).decode(errors="replace")

    def keep(self, pid: int) -> None:
        """Note in shared memory a process that the supervisor must not kill at the child's end."""
        self.write("keep", f"{self.read('keep')} {pid}")

    @property
    def kept(self) -> set[int]:
        """The processes, recorded in supervisor memory, that may outlive the child."""
        return {int(pid) for pid in self.read("keep").split()}

    def write_news(self, line: bytes) -> None:
        """Append news of the child's run to shared memory, for the supervisor to notify users."""
        os.pwrite(self._news, line + b"\n", os.fstat(self._news).st_size)

    def read_news(self) -> list[bytes]:
        """Read from supervisor memory the lines of news that the child added since last time."""
        left = os.fstat(self._news).st_size - self._news_read
        whole = os.pread(self._news, left, self._news_read).rpartition(b"\n")[0]
        self._news_read += len(whole) + bool(whole)
        return whole.splitlines()

    @property
    def has_news(self) -> bool:
        """Whether the child has put news into supervisor memory that the parent has not read."""
        return os.fstat(self._news).st_size > self._news_read

    def run(self, work: Callable[[], int]) -> int:
        """Run the child's command, and share its exit code or crash stacks with the supervisor."""
        self._pid = os.getpid()
        STREAMS.use_files(self.output)
        faulthandler.enable(self._stacks)
        if signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL:
            # Where each thread was; then it ends, as it would have without this.
            faulthandler.register(signal.SIGQUIT, self._stacks, chain=True)
        leave = os._exit
        os._exit = self._record_caller(leave)  # type: ignore[assignment]
        code = work()
        if os.getpid() != self._pid:
            # A callable has forked, and its copy has come all the way out here.
            leave(code)
        self._page[1] = code
        self._page[0] = 1
        return code

    def _record_caller(self, leave: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
        """Wrap ``os._exit`` in the child to record who called it in supervisor memory."""

        def _exit(status: int) -> NoReturn:
            if os.getpid() == self._pid and self.exit_code is None:
                self.write("exit", f"os._exit({status})")
                faulthandler.dump_traceback(self._stacks, all_threads=False)
            leave(status)

        return _exit
