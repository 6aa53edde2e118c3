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
import time
from pathlib import Path

from jobrun.core.errors import EnvironmentFaultError
from jobrun.session.channel import Channel
from jobrun.session.peers import ASK, SERVE, introduce

_PR_SET_PDEATHSIG = 1
_ROOT = str(Path(__file__).parent.parent.parent)
# A terminal or a batch system sends them to all processes; whether to end is the master's matter.
_NOT_FOR_NODES = frozenset(
    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
)
_END_S = 5.0
# So long a process that was stopped is waited for, while this one runs.
STOPPED_S = 30.0
_MOMENT_S = 0.1


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
        self._stood_still = False
        self._channel = Channel(ours)
        with contextlib.suppress(OSError):
            self.channel.send("begin", tuple(sys.path), before)

    @property
    def channel(self) -> Channel:
        """The master's end."""
        return self._channel

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def kill(self) -> None:
        """End it at once."""
        self._process.kill()

    def abort(self) -> None:
        """End it; the interpreter writes where each of its threads is to the standard error."""
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._process.kill()

    def meet(self, asker: str, owner: str, other: Process) -> None:
        """Connect this node, the asker, with another one, so that it can ask that."""
        asking, serving = socket.socketpair()
        with asking, serving:
            introduce(other.door, SERVE, asker, serving)
            introduce(self.door, ASK, owner, asking)

    def release(self) -> None:
        """Give the sockets back. Only when nobody uses them any more."""
        self.channel.release()
        self.door.close()

    def watch(self) -> None:
        """Return when it has ended, by itself or not. Any thread.

        One that is stopped (SIGSTOP) would never answer: it is ended when it stays so. That the
        kernel tells; one that only computes long, and holds its interpreter, is never taken for it.
        """
        with contextlib.suppress(ChildProcessError):
            while (told := self._state(0)) is not None and told.si_code == os.CLD_STOPPED:
                self._bear_stopped()

    def _bear_stopped(self) -> None:
        """Return when it goes on or has ended; end it if that takes too long."""
        # Counted in moments of our own: if all were stopped, no time has passed for any.
        for _ in range(round(STOPPED_S / _MOMENT_S)):
            time.sleep(_MOMENT_S)
            told = self._state(os.WNOHANG)
            if told is None or told.si_code != os.CLD_STOPPED:
                return
        self._stood_still = True
        self._process.kill()
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def _state(self, more: int) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | more)

    def end(self) -> str:
        """Wait for its end, which has begun; by force if it takes long. How it ended, in words."""
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._stood_still:
            return f"was stopped by a signal and did not go on for {STOPPED_S:g} s"
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
