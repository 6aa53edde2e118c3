"""Launch the process of a node on this machine, and end it.

A fresh interpreter, not a fork: this process has threads, and BLAS has its own. Nothing is left
behind, since there is nothing but a pair of sockets that both processes inherit: no file, no
directory, no port.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from jobrun.core.captured_output import STREAMS, OutputFile, open_output_files, take_left_output
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import Listener, Logged
from jobrun.core.system_calls import die_with_parent, open_message_sockets
from jobrun.session.wire.codec import SocketChannel
from jobrun.session.wire.peer_transfer import ASK, SERVE, send_connection

_ROOT = str(Path(__file__).parent.parent.parent)
# A terminal or a batch system sends them to the process group; only the master acts on them.
_NOT_FOR_NODES = frozenset(
    (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
)
_END_S = 5.0
# How long a stopped process (SIGSTOP) is waited for, while this one runs.
STOPPED_S = 30.0
_MOMENT_S = 0.1


class LocalProcess:
    """A node's process on this machine, seen from its master.

    Args:
        node: Its name, shown in the list of processes.
    """

    def __init__(self, node: str) -> None:
        ours, theirs = socket.socketpair()
        # Each message comes with one descriptor of a connection to another node.
        self.handoff, inside = open_message_sockets()
        before = os.environ.get("PYTHONPATH")
        paths = _ROOT if before is None else os.pathsep.join((_ROOT, before))
        # Where the process lets its descriptors lead; what it leaves there is read after its end.
        self._output = open_output_files()
        inherited = [number for file in self._output for number in file.inheritable]
        command = [
            sys.executable, *subprocess._args_from_interpreter_flags(), "-P",  # type: ignore[attr-defined]
            "-m", "jobrun.session.processes.worker", str(theirs.fileno()),
            str(inside.fileno()), str(os.getpid()), node,
        ]  # fmt: skip
        # Blocked until its handlers are installed; it unblocks them itself.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, _NOT_FOR_NODES)
        try:
            with theirs, inside:
                self._process = subprocess.Popen(  # noqa: S603 - ourselves
                    command,
                    stdin=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), inside.fileno(), *inherited),
                    env={**os.environ, "PYTHONPATH": paths},
                )
        except OSError as error:
            ours.close()
            self.handoff.close()
            raise EnvironmentFaultError.of(
                "E396",
                f"the process of node '{node}' could not be started: {error.strerror}",
                "see the limits (ulimit -a) and the memory, or use the session 'threads'",
            ) from error
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._was_stopped = False
        self._channel = SocketChannel(ours)
        with contextlib.suppress(OSError):
            files = [(one.descriptors, one.inheritable) for one in self._output]
            self.channel.send("begin", tuple(sys.path), before, STREAMS.is_shown, files)

    @property
    def channel(self) -> SocketChannel:
        """Return the master's end of the message channel to the launched process."""
        return self._channel

    @property
    def pid(self) -> int:
        """Return the process ID of the launched process."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the launched process with SIGKILL."""
        self._process.kill()

    def abort(self) -> None:
        """Abort the launched process: SIGABRT to print its stack traces, after 5 s SIGKILL."""
        self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_S)
        self._process.kill()

    def connect_peer(self, asker: str, owner: str, other: LocalProcess) -> None:
        """Connect two launched processes by a socket pair, for one to request the other's blobs."""
        asking, serving = socket.socketpair()
        with asking, serving:
            send_connection(other.handoff, SERVE, asker, serving)
            send_connection(self.handoff, ASK, owner, asking)

    def release(self) -> None:
        """Close the sockets of the launched process, once no thread uses them."""
        self.channel.release()
        self.handoff.close()
        output, self._output = self._output, ()
        for file in output:
            file.close()

    def wait_for_exit(self) -> None:
        """Wait until the launched process has exited or was killed; kill it if it stays stopped.

        Can be called from any thread.

        One that is stopped (SIGSTOP) would never answer: it is killed if it stays stopped.
        waitid(WSTOPPED) reports that; one that only computes long, and holds the GIL, is not
        mistaken for it. Where there is no ``waitid``, a stopped process is waited for.
        """
        if not hasattr(os, "waitid"):
            self._process.wait()
            return
        with contextlib.suppress(ChildProcessError):
            while (state := self._state(0)) is not None and state.si_code == os.CLD_STOPPED:
                self._wait_while_stopped()

    def _wait_while_stopped(self) -> None:
        """Wait until a launched process that SIGSTOP stopped continues; kill it after 30 s."""
        # Counted in own sleeps: if the whole job was stopped, no time has passed for any process.
        for _ in range(round(STOPPED_S / _MOMENT_S)):
            time.sleep(_MOMENT_S)
            state = self._state(os.WNOHANG)
            if state is None or state.si_code != os.CLD_STOPPED:
                return
        self._was_stopped = True
        self._process.kill()
        os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)

    def _state(self, more: int) -> os.waitid_result | None:
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | more)

    def take_output(self, emit: Listener) -> None:
        """Emit, as events, lines that a launched process printed but had not sent when it ended."""
        for left in take_left_output(self._output):
            for line in left.lines if left.task else ():
                emit(
                    Logged(line, left.task, left.node, left.instance, left.epoch, "", printed=True)
                )

    def join(self) -> str:
        """Wait for the launched process to end, by force if needed; return how it ended."""
        try:
            status = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        if self._was_stopped:
            return f"was stopped by a signal and did not continue for {STOPPED_S:g} s"
        if status >= 0:
            return f"ended with exit code {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"


def prepare_worker(descriptor: int, master: int) -> SocketChannel | None:
    """Set up this process, launched for a node; return its channel to the master, or None.

    Args:
        descriptor: Of the inherited socket.
        master: The process that started this one.
    """
    if not die_with_parent(master):
        return None
    for number in _NOT_FOR_NODES:
        # A no-op handler: SIG_IGN would be inherited by the programs that tasks start.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _NOT_FOR_NODES)
    # To the terminal: descriptor 2 will lead to what is logged.
    faulthandler.enable(os.dup(2))
    channel = SocketChannel(socket.socket(fileno=descriptor))
    first = channel.receive()
    if first is None:
        return None
    _, paths, before, STREAMS.is_shown, files = first
    STREAMS.use_files([OutputFile(*one) for one in files])
    sys.path[:] = paths
    if before is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = before
    return channel
