"""Keep a pool of threads from one group run to the next."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from queue import SimpleQueue

from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.interpreter import call_with_large_stack
from jobrun.core.system_calls import usable_cpus

Work = Callable[[], None]
_Inbox = SimpleQueue[tuple[Work, Work] | None]

_JOIN_S = 5.0


def _run_plainly(work: Work) -> None:
    work()


class ThreadPool:
    """Threads that are reused; there are as many as work has ever overlapped.

    Work must be able to start at once, since its parts may wait for each
    other; so there is no limit, and no queue of waiting work.

    Args:
        inside: Makes the context that each thread lives in.
        around: Runs each piece of work.
    """

    def __init__(
        self,
        inside: Callable[[], AbstractContextManager[object]],
        run_work: Callable[[Work], None] = _run_plainly,
    ) -> None:
        self._inside = inside
        self._run_work = run_work
        self._idle: deque[_Inbox] = deque()
        self._threads: list[threading.Thread] = []
        self._inboxes: list[_Inbox] = []
        self._lock = threading.Lock()
        self._closed = False

    def start(self, work: Work, done: Work) -> None:
        """Run ``work`` in a thread of the pool, then call ``done`` when the thread is free again.

        ``work`` must not raise. ``done`` must not block.
        """
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = self._add_thread()
        inbox.put((work, done))

    def close(self) -> None:
        """End the pool's idle threads; stuck ones end with the process. May be called twice."""
        with self._lock:
            self._closed = True
            threads, self._threads = self._threads, []
            inboxes, self._inboxes = self._inboxes, []
        for inbox in inboxes:
            inbox.put(None)
        deadline = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _add_thread(self) -> _Inbox:
        inbox: _Inbox = SimpleQueue()
        with self._lock:
            if self._closed:
                raise RuntimeError("the session is closed")
            name = f"jobrun-{len(self._threads)}"
            # Daemon: a callable that never returns must not keep the process alive.
            thread = threading.Thread(
                target=call_with_large_stack,
                args=(partial(self._run_thread, inbox),),
                name=name,
                daemon=True,
            )
            # Started before it is listed: close must not join a thread that never started.
            try:
                thread.start()
            except RuntimeError as error:
                raise EnvironmentFaultError.of(
                    "E391",
                    f"cannot start another thread besides {len(self._threads)}: {error}",
                    "raise the limits of memory and processes (ulimit -v, ulimit -u), or use less",
                ) from error
            self._threads.append(thread)
            self._inboxes.append(inbox)
        return inbox

    def _run_thread(self, inbox: _Inbox) -> None:
        with self._inside():
            while (entry := inbox.get()) is not None:
                work, done = entry
                self._run_work(work)
                # Before done: the caller that it wakes may need a thread next.
                self._idle.append(inbox)
                del work, entry
                done()
                del done


# Its fourth field has the number of runnable threads of the machine, and of all threads.
_LOAD = "/proc/loadavg"


class IdleCpuStarter:
    """Starts work in a thread of the pool, but only if a CPU would otherwise be idle.

    On a busy machine two threads that take turns with the interpreter are slower than one.
    """

    def __init__(self, pool: ThreadPool) -> None:
        self._pool = pool

    def __call__(self, work: Work, done: Work) -> None:
        """Start work in a thread of the pool if a CPU is idle, else raise ``RuntimeError``.

        Raises:
            RuntimeError: No processor is idle.
            EnvironmentFaultError: E391, there is no thread.
        """
        if count_runnable_threads() >= usable_cpus():
            raise RuntimeError("no processor is idle")
        self._pool.start(work, done)


def count_runnable_threads() -> float:
    """Count the machine's threads that run or wait for a CPU, to keep the pool from crowding.

    Infinity if /proc/loadavg cannot be read.
    """
    try:
        descriptor = os.open(_LOAD, os.O_RDONLY)
        try:
            text = os.read(descriptor, 100)
        finally:
            os.close(descriptor)
        return int(text.split()[3].partition(b"/")[0])
    except (OSError, ValueError, IndexError):
        return float("inf")
