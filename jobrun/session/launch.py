"""Starts a node's process, and what it does first. What is said afterwards is not known here.

A fresh interpreter, not a fork: this process has threads, and BLAS has its own. Nothing is left
behind, since there is nothing but a pair of sockets that both processes inherit: no file, no
directory, no port.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError
from jobrun.session.channel import Channel

_PR_SET_PDEATHSIG = 1
_ROOT = str(Path(__file__).parent.parent.parent)
# A terminal or a batch system sends them to all processes; whether to end is the master's matter.
_NOT_FOR_NODES = frozenset(
    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
)
_END_S = 5.0


class Process:
    """A node's process, seen from its master.

    Args:
        node: Its name, for whoever looks at the list of processes.
    """

    def __init__(self, node: str) -> None:
        ours, theirs = socket.socketpair()
        # Whole messages, each with an end of a connection to another node.
        self.door, inside = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        before = os.environ.get("PYTHONPATH")
        paths = _ROOT if before is None else os.pathsep.join((_ROOT, before))
        command = [
            sys.executable, *subprocess._args_from_interpreter_flags(), "-P",  # type: ignore[attr-defined]
            "-m", "jobrun.session.worker", str(theirs.fileno()),
            str(inside.fileno()), str(os.getpid()), node,
        ]  # fmt: skip
        # Nothing may interrupt it before it can answer; it unblocks them itself.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_NODES)
        try:
            with theirs, inside:
                self._process = subprocess.Popen(  # noqa: S603 - ourselves
                    command, stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), inside.fileno()),
                    env={**os.environ, "PYTHONPATH": paths},
                )  # fmt: skip
        except OSError as error:
            ours.close()
            self.door.close()
            raise EnvironmentFaultError.of(
                "E396",
                f"the process of node '{node}' could not be started: {error.strerror}",
                "see the limits (ulimit -a) and the memory, or use the session 'threads'",
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self.channel = Channel(ours)
        with contextlib.suppress(OSError):
            self.channel.send("begin", tuple(sys.path), before)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def release(self) -> None:
        """Give the sockets back. Only when nobody uses them any more."""
        self.channel.release()
        self.door.close()

    def watch(self) -> None:
        """Return when it has ended, by itself or not. Any thread."""
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def end(self) -> str:
        """Wait for its end, which has begun; by force if it takes long. How it ended, in words."""
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if status >= 0:
            return f"ended with exit code {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"


def prepared(descriptor: int, master: int) -> Channel | None:
    """What a node's process does first; the channel to its master, None if that is gone.

    Args:
        descriptor: Of the inherited socket.
        master: The process that started this one.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != master:
        # It had died before it could be asked to tell.
        return None
    for number in _NOT_FOR_NODES:
        # A function, since programs that are started inherit what is ignored.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_FOR_NODES)
    if sys.stderr is not None:
        faulthandler.enable()
    channel = Channel(socket.socket(fileno=descriptor))
    first = channel.receive()
    if first is None:
        return None
    _, paths, before = first
    sys.path[:] = paths
    if before is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = before
    return channel
