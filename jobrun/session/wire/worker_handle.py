"""Launch, control and end a node's worker process from the master; dispatch its messages.

The process, its message channel and the listener to its messages are protocols: a process of this
machine (``LocalProcess``) and an actor of Ray are such processes. The former is a fresh
interpreter, not a fork: this process has threads, and BLAS has its own. Nothing is left behind,
since there is nothing but a pair of sockets that both processes inherit: no file, no directory, no
port.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from jobrun.core.captured_output import STREAMS, take_left_output
from jobrun.core.child_process import wait_or_kill
from jobrun.core.errors import EnvironmentFaultError
from jobrun.core.events import Listener, Logged
from jobrun.core.files.output_file import open_output_files
from jobrun.core.stop_signals import requested_signals, signal_name
from jobrun.core.system_calls import open_message_sockets
from jobrun.graph.types import OutputRef
from jobrun.runtime.codegen.meter_protocol import BlockTime
from jobrun.session.base import NodeLostError
from jobrun.session.wire.codec import SocketChannel, serialize_error
from jobrun.session.wire.partition_group import Partition
from jobrun.session.wire.peer_transfer import ASK, SERVE, send_connection
from jobrun.session.wire.rpc import RpcClient
from jobrun.values.blob_kinds import Value

_ROOT = str(Path(__file__).parent.parent.parent)
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
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, requested_signals())
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
            files = [(file.descriptors, file.inheritable) for file in self._output]
            self.channel.send("begin", tuple(sys.path), before, STREAMS.is_shown, files)

    @property
    def channel(self) -> SocketChannel:
        """Return the master's end of the message channel to the local worker process."""
        return self._channel

    @property
    def pid(self) -> int:
        """Return the process ID of the local worker process."""
        return self._process.pid

    def kill(self) -> None:
        """Kill the local worker process with SIGKILL."""
        self._process.kill()

    def abort(self) -> None:
        """Make a local worker process print its stack traces and end; kill it after 5 s."""
        self._process.send_signal(signal.SIGABRT)
        wait_or_kill(self._process, _END_S)

    def connect_peer(self, asker: str, owner: str, other: LocalProcess) -> None:
        """Connect a local worker process to another one by a socket pair, to request its blobs."""
        asking, serving = socket.socketpair()
        with asking, serving:
            send_connection(other.handoff, SERVE, asker, serving)
            send_connection(self.handoff, ASK, owner, asking)

    def release(self) -> None:
        """Close the master's sockets to the local worker process, once no thread uses them."""
        self.channel.release()
        self.handoff.close()
        output, self._output = self._output, ()
        for file in output:
            file.close()

    def wait_for_exit(self) -> None:
        """Wait until the local worker process has ended; kill it if it stays stopped (SIGSTOP).

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
        """Wait until a worker process that was stopped (SIGSTOP) continues; kill it after 30 s."""
        # Counted in sleeps of this process: a SIGSTOP of the whole job must not use up the limit.
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
        """Emit as events the lines that an ended local worker process printed but had not sent."""
        for output in take_left_output(self._output):
            for line in output.lines if output.task else ():
                emit(
                    Logged(
                        line,
                        output.task,
                        output.node,
                        output.instance,
                        output.epoch,
                        "",
                        printed=True,
                    )
                )

    def join(self) -> str:
        """Wait until the local worker process ends, or kill it after 5 s; return how it ended."""
        status = wait_or_kill(self._process, _END_S)
        if self._was_stopped:
            return f"was stopped by a signal and did not continue for {STOPPED_S:g} s"
        if status >= 0:
            return f"ended with exit code {status}"
        return f"was ended by {signal_name(-status)}"


class WorkerHandle:
    """Owns a node's process, from its start to its end.

    Args:
        node: Its name.
        listener: Receives what it sends unasked.
        emit: Receives its events.
        start: Starts the process.
        incarnation: Counts the processes of the session, from 1.
    """

    def __init__(
        self,
        node: str,
        listener: WorkerListener,
        emit: Listener,
        start: Callable[[str], WorkerProcess] = LocalProcess,
        incarnation: int = 0,
    ) -> None:
        self.node = node
        self.incarnation = incarnation
        self._listener = listener
        self._emit = emit
        self._process = start(node)
        self.rpc = RpcClient(self._process.channel.send)
        self.loss: NodeLostError | None = None
        self._known: set[int] = set()
        self._is_closing = False
        self._threads = [
            threading.Thread(target=work, name=f"jobrun-{node}", daemon=True)
            for work in (self._receive_messages, self._wait_for_exit)
        ]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Return the process ID of the worker that this handle controls."""
        return self._process.pid

    def send(self, *message: Any) -> None:
        """Send the worker process a message without a reply, unless it has ended."""
        with contextlib.suppress(OSError):
            self._process.channel.send(*message)

    def send_partition(self, key: int, partition: Partition) -> None:
        """Send the worker process its tasks of a group, unless it has received them before."""
        if key not in self._known:
            self._known.add(key)
            self.send("partition", key, partition)

    def forget_partition(self, key: int) -> None:
        """Ask the worker process to delete the tasks of a group that it has stored."""
        if key in self._known:
            self._known.remove(key)
            self.send("forget", key)

    def answer(self, number: int, *, value: Any = None, error: BaseException | None = None) -> None:
        """Reply to a request of this handle's worker process, with a value or an error."""
        if error is not None:
            self.send("answer", number, (False, serialize_error(error)))
        else:
            self.send("answer", number, (True, value))

    def connect_to(self, other: WorkerHandle) -> None:
        """Connect this handle's worker with another handle's worker, to request blobs there."""
        self._process.connect_peer(self.node, other.node, other._process)

    def kill(self) -> None:
        """Kill the process that this ``WorkerHandle`` controls; its listener is notified."""
        self._process.kill()

    def abort(self) -> None:
        """Kill this worker handle's unresponsive process; let it print its stack traces first."""
        self._process.abort()

    def request_close(self) -> None:
        """Ask the worker process by a message to end, unless it has ended."""
        self._is_closing = True
        self.send("close")

    def close(self, *, at_once: bool = False) -> None:
        """Wait for the handle's worker to end, and free what it used; may be called again."""
        self._is_closing = True
        if at_once:
            self._process.kill()
        self._process.join()
        for thread in self._threads:
            thread.join()
        self._process.release()

    def _receive_messages(self) -> None:
        channel = self._process.channel
        while (message := channel.receive()) is not None:
            self._dispatch(*message)
            # Freed before waiting for the next one: it may be large.
            del message
        ending = "was closed"
        if not self._is_closing:
            ending = self._process.join()
            self._process.take_output(self._emit)
        channel.close()
        self.loss = NodeLostError.of_node(self.node, ending)
        self.rpc.fail_all(self.loss)
        if not self._is_closing:
            self._listener.worker_lost(self.node)

    def _wait_for_exit(self) -> None:
        # A process forked by a callable inherits the socket and would keep it open.
        self._process.wait_for_exit()
        self._process.channel.close()

    def _dispatch(self, kind: str, *arguments: Any) -> None:
        match kind:
            case "event":
                self._emit(arguments[0])
            case "answer":
                self.rpc.resolve(*arguments)
            case "failing":
                self._listener.part_failed(self.node, *arguments)
            case "ended":
                self._listener.task_ended(self.node, *arguments)
            case "ask":
                self._listener.handle_request(self, *arguments)
            case "measured":
                self._listener.add_step_times(f"{self.node} {self.pid}", *arguments)
            case _:
                raise RuntimeError(f"node '{self.node}' sent an unknown message '{kind}'")


class WorkerListener(Protocol):
    """Receives what a node sends unasked, in the handle's own thread; must not wait for nodes."""

    def part_failed(self, node: str, run: int) -> None:
        """Receive from a worker handle the message that tasks of a group run have failed."""

    def task_ended(
        self, node: str, run: int, task: str, outputs: Mapping[OutputRef, Value]
    ) -> None:
        """Receive from a worker handle the message that a task has ended, with its outputs."""

    def handle_request(
        self, link: WorkerHandle, number: int, run: int, request: str, arguments: tuple[Any, ...]
    ) -> None:
        """Receive from a worker handle a request of its process, and answer it through the handle.

        ``WorkerHandle.answer`` sends the reply.
        """

    def add_step_times(self, reporter: str, times: Sequence[BlockTime]) -> None:
        """Receive from a worker handle the step times that its process has measured.

        See ``Instrumenter.merge_times``.
        """

    def worker_lost(self, node: str) -> None:
        """Receive from a worker handle the message that its process has ended unexpectedly."""


class MessageChannel(Protocol):
    """One end of what carries messages between a node and its master, whole and in order."""

    def send(self, *message: Any) -> None:
        """Send a message to the other end of a worker process's channel.

        Can be called from any thread.

        Raises:
            OSError: The other side has ended.
            TaskFailedError: E274, a value has a dtype that cannot be encoded.
        """

    def receive(self) -> tuple[Any, ...] | None:
        """Wait for a message on a worker process's channel and return it; None after its end."""

    def close(self) -> None:
        """Close a worker process's channel, so that a thread waiting in ``receive`` gets None."""


class WorkerProcess(Protocol):
    """The process of one node, from its start to its end, as its master controls it."""

    @property
    def channel(self) -> MessageChannel:
        """Return the master's end of the message channel to any worker process."""

    @property
    def pid(self) -> int:
        """Return the process ID of a worker process of any kind; 0 until it is known."""

    def kill(self) -> None:
        """Kill this worker process at once, be it a local process or a Ray actor."""

    def abort(self) -> None:
        """Kill a worker process that does not respond; let it print its stack traces first."""

    def wait_for_exit(self) -> None:
        """Wait until a worker process has ended, by itself or by a signal."""

    def join(self) -> str:
        """Wait until a worker process ends, or kill it if it takes long; return how it ended."""

    def take_output(self, emit: Listener) -> None:
        """Emit as events the lines that an ended worker process printed but had not sent."""

    def release(self) -> None:
        """Free what the master holds for an ended worker process, such as its sockets."""

    def connect_peer(self, asker: str, owner: str, other: Any) -> None:
        """Connect the worker process of this handle with another one, to request blobs from it."""
