"""Start a command as a child process that a supervisor watches, and set that child up.

The child gets the hash seed with it, which no process can change once it runs. What both see is
made before: memory with a slot for each short text, and files in memory, of which the child
inherits the descriptors. ::

    parent   makes them; starts the child; only then imports what a supervisor needs
    child    dies with its parent; runs the command; notes its exit code in the shared memory

An interpreter of its own starts sooner than a copy of the parent (``fork``), which has to copy each
page of memory that either of the two writes to.
"""

from __future__ import annotations

import mmap
import os
import signal
import sys

from jobrun.core.files.output_file import OutputFile, open_output_files
from jobrun.core.hash_seed import VARIABLE as HASH_SEED
from jobrun.core.stop_signals import (
    MEANT,
    RELAYS,
    export_stop_option,
    requested_signals,
    site_stop_signals,
)
from jobrun.core.system_calls import (
    die_with_parent,
    has_children,
    open_anonymous_file,
    read_process_stat,
)

# Known to type checkers by its name. The child waits for each import of its parent.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType
    from typing import NoReturn

    # Those of the memory, the stacks and the news, and of each file of output: the standard
    # descriptors that lead to it, and its own.
    Descriptors = tuple[
        tuple[int, int, int], tuple[tuple[tuple[int, ...], tuple[int, int, int]], ...]
    ]

# Marks a process as a supervised child: the number of its parent, the signals that are
# blocked for it, and the descriptors that it inherits.
_VARIABLE = "JOBRUN_SUPERVISED_CHILD"
_PARENT_TICK_S = 0.5

# Sizes of the memory shared by child and parent, in which each short text has a slot.
_PAGE_BYTES = 16384
_SLOT_BYTES = 2048
_SLOTS = ("run", "group", "exit", "limit", "grace", "hash", "keep")
_MOST_STACK_BYTES = 1 << 20


class SupervisedChild:
    """A command line's child process, which has just been started.

    All signals that a supervisor waits for are blocked from then on, in both processes; the child
    lets them in when it can handle them (``SharedState.let_signals_in``).

    Args:
        arguments: The program and its arguments.
        hash_seed: The ``PYTHONHASHSEED`` that the child starts with.

    Attributes:
        arguments: As given.
        pid: Its process ID.
        is_only_one: Whether its parent had no other child when it started this one.
        shared: What it leaves behind for its parent.
        asking: The signals that ask for its end; those that are ignored from outside are not.
        awaited: All signals that are blocked.
        mask: The signals that were blocked before.

    Raises:
        OSError: There can be no other process, or no files in memory: they count as files where
            the size of files is limited to less than 16 KiB (``ulimit -f``).
    """

    def __init__(self, arguments: list[str], hash_seed: str) -> None:
        self.arguments = arguments
        self.is_only_one = not has_children()
        self.shared = SharedState()
        export_stop_option(arguments)
        self.asking = {number for number in requested_signals() if _is_not_ignored(number)}
        self.awaited = self.asking | {signal.SIGCHLD, signal.SIGCONT}
        if _is_not_ignored(signal.SIGQUIT):
            # It ends the child at once; its parent stays, to say so.
            self.awaited.add(signal.SIGQUIT)
        # If SIGCHLD is ignored (inherited), the kernel reaps children itself, and waitpid fails.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for stream in (sys.stdout, sys.stderr):
            # None where it was closed from the start.
            if stream is not None:
                stream.flush()
        blocked = self.awaited | {RELAYS.get(number, number) for number in self.asking}
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, blocked)
        facts = (os.getpid(), sorted(map(int, blocked - self.mask)), self.shared.share())
        environment = {**os.environ, HASH_SEED: hash_seed, _VARIABLE: repr(facts)}
        try:
            self.pid = os.posix_spawn(arguments[0], arguments, environment)
        except OSError:
            signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
            raise


def find_command_line() -> list[str]:
    """Return the program and arguments that run this process's command again; [] if unknown.

    That is so where ``main`` was called by another program, which would be what runs again.
    """
    is_command = os.path.basename(sys.argv[0]) in {"jobrun", "__main__.py"}  # noqa: PTH119 - cheap
    arguments = sys.argv[1:]
    if not (is_command and sys.executable and sys.orig_argv[-len(arguments) :] == arguments):
        return []
    return [sys.executable, *sys.orig_argv[1:]]


def is_supervised_child() -> bool:
    """Return whether this process was started by a supervisor as its child."""
    return _VARIABLE in os.environ


def run_as_child(work: Callable[[SharedState], int]) -> int:
    """Run a command in the process that a supervisor has started for it; return its exit code.

    The command calls ``SharedState.let_signals_in`` when it can handle what that raises.
    """
    # Also imported by what each command needs.
    from ast import literal_eval  # noqa: PLC0415 - only the child

    parent, blocked, descriptors = literal_eval(os.environ.pop(_VARIABLE))
    shared = SharedState(descriptors, blocked)
    if not die_with_parent(parent):
        os.kill(os.getpid(), signal.SIGKILL)
    for number in RELAYS.keys() & set(blocked):
        if RELAYS[number] != number:
            signal.signal(RELAYS[number], _raise_original_signal)
    _stop_with_parent(parent)
    return shared.run(lambda: work(shared))


def _is_not_ignored(number: int) -> bool:
    """Return whether a signal is not ignored, so that the supervisor forwards it to its child."""
    return signal.getsignal(number) is not signal.SIG_IGN


def _raise_original_signal(number: int, frame: FrameType | None) -> None:
    """Raise the signal, such as SIGTERM, that the supervisor passed on to this child."""
    del frame
    os.kill(os.getpid(), MEANT[number])


def _stop_with_parent(parent: int) -> None:
    """Start a thread that stops this child whenever its parent is stopped (``kill -STOP``)."""
    import threading  # noqa: PLC0415 - only the child
    import time  # noqa: PLC0415 - only the child

    def watch() -> None:
        while os.getppid() == parent:
            if read_process_stat(parent)[:1] == [b"T"]:
                os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(_PARENT_TICK_S)

    threading.Thread(target=watch, name="jobrun-guarded", daemon=True).start()


class SharedState:
    """Memory and files in memory in which the child leaves its state for its parent.

    Args:
        inherited: In the child: the descriptors, as ``share`` gave them to the parent.
        blocked: In the child: the signals that are blocked until ``let_signals_in``.

    Attributes:
        can_start_again: Whether the command can ask for another hash seed, in the slot ``hash``.
        output: Where the child lets its standard descriptors lead while tasks run.
        unexpected_end: How the child ended without an exit code, in words; known to the parent.
        spared: Processes of the parent's own, which end by themselves.
    """

    def __init__(self, inherited: Descriptors | None = None, blocked: Sequence[int] = ()) -> None:
        self.can_start_again = not sys.flags.ignore_environment
        self.spared: set[int] = set()
        self.unexpected_end = ""
        self._blocked = blocked
        if inherited is None:
            self._memory, self._stacks, self._news = (
                open_anonymous_file(f"jobrun-{name}") for name in ("state", "stacks", "news")
            )
            os.ftruncate(self._memory, _PAGE_BYTES)
            self.output = open_output_files()
        else:
            (self._memory, self._stacks, self._news), files = inherited
            for number in inherited[0]:
                os.set_inheritable(number, False)
            self.output = tuple(OutputFile(*file) for file in files)
        self._page = mmap.mmap(self._memory, _PAGE_BYTES)
        self._news_read = 0
        self._pid = 0

    def let_signals_in(self) -> None:
        """Let the signals in that were blocked while the supervised child started.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed meanwhile.
        """
        signal.pthread_sigmask(signal.SIG_UNBLOCK, self._blocked)

    def share(self) -> Descriptors:
        """Let processes that are started from now on inherit all descriptors; return these."""
        descriptors = (self._memory, self._stacks, self._news)
        files = tuple((file.descriptors, file.inheritable) for file in self.output)
        for numbers in (descriptors, *(inheritable for _, inheritable in files)):
            for number in numbers:
                os.set_inheritable(number, True)
        return descriptors, files

    def close(self) -> None:
        """Close the descriptors of shared state whose child has ended, and is started again."""
        self._page.close()
        for file in self.output:
            file.close()
        for number in (self._memory, self._stacks, self._news):
            os.close(number)

    def write(self, slot: str, text: str) -> None:
        """Write a short text of the child into a slot of the memory shared with its supervisor."""
        data = text.encode(errors="replace")[: _SLOT_BYTES - 1] + b"\0"
        offset = 2 + _SLOT_BYTES * _SLOTS.index(slot)
        self._page[offset : offset + len(data)] = data

    def read(self, slot: str) -> str:
        """Read what the supervised child wrote last into a slot of the shared memory."""
        offset = 2 + _SLOT_BYTES * _SLOTS.index(slot)
        data = self._page[offset : offset + _SLOT_BYTES]
        return data.partition(b"\0")[0].decode(errors="replace")

    @property
    def exit_code(self) -> int | None:
        """Return the supervised child's exit code from shared memory; None if it wrote none."""
        return self._page[1] if self._page[0] else None

    @property
    def stacks(self) -> str:
        """Read the stack traces that the supervised child wrote to a file when it crashed."""
        return os.pread(self._stacks, _MOST_STACK_BYTES, 0).decode(errors="replace")

    def keep(self, pid: int) -> None:
        """Record the id of a process that the supervisor must not kill when its child ends."""
        self.write("keep", f"{self.read('keep')} {pid}")

    @property
    def left_alive(self) -> set[int]:
        """Return the ids of processes that the supervisor must leave alive when its child ends."""
        return {int(pid) for pid in self.read("keep").split()}

    def write_news(self, line: bytes) -> None:
        """Write a notification into memory shared with the supervisor, which sends it."""
        os.pwrite(self._news, line + b"\n", os.fstat(self._news).st_size)

    def read_news(self) -> list[bytes]:
        """Read the child's notifications that its supervisor has yet to send, one line each."""
        unread = os.fstat(self._news).st_size - self._news_read
        whole = os.pread(self._news, unread, self._news_read).rpartition(b"\n")[0]
        self._news_read += len(whole) + bool(whole)
        return whole.splitlines()

    @property
    def has_news(self) -> bool:
        """Return whether shared memory holds notifications that the supervisor has not read."""
        return os.fstat(self._news).st_size > self._news_read

    def run(self, work: Callable[[], int]) -> int:
        """Run a command in the supervised child; record its exit code or crash stack traces."""
        import faulthandler  # noqa: PLC0415 - only the child

        from jobrun.core.captured_output import STREAMS  # noqa: PLC0415 - only the child

        self._pid = os.getpid()
        STREAMS.use_files(self.output)
        faulthandler.enable(self._stacks)
        is_default = signal.getsignal(signal.SIGQUIT) is signal.SIG_DFL
        if is_default and signal.SIGQUIT not in site_stop_signals(os.environ):
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
        """Wrap ``os._exit`` in the supervised child, to record its caller in shared memory."""

        def _exit(status: int) -> NoReturn:
            if os.getpid() == self._pid and self.exit_code is None:
                self.write("exit", f"os._exit({status})")
                import faulthandler  # noqa: PLC0415 - in the interpreter, not a file

                faulthandler.dump_traceback(self._stacks, all_threads=False)
            leave(status)

        return _exit
