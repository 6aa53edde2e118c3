"""Run the processes of a sweep's points, a limited number at a time, and leave none behind.

Every point is ``jobrun run SPEC --resume auto`` in a process of its own, in a process group of its
own. ::

    until nothing runs and nothing waits
        start what waits, as far as there is room; a point that still runs is waited for
        hear what the processes say
    a signal is passed on once to each, and nothing is started any more

When the sweep itself dies, the kernel asks each process to save and end.
"""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any

from msgspec import Struct

from jobrun.core.child_process import parse_event, python_command, signal_group
from jobrun.core.stop_signals import handleable_signals
from jobrun.core.system_calls import bind_parent_death_signal
from jobrun.runner.rundir.lock import is_live
from jobrun.runner.rundir.run_directories import newest_run
from jobrun.tools.isolation.isolation import plain_environment
from jobrun.tools.sweep.sweep_design import PlannedPoint

_TICK_S = 0.25
_MOST_LINES = 5


class PointStarted(Struct, frozen=True):
    """A point's run was started or resumed in this directory."""

    point: PlannedPoint
    run: Path
    total_epochs: int | None


class PointEnded(Struct, frozen=True):
    """A point's process has ended.

    Attributes:
        exit_code: Negative for the signal that killed it.
        faults: What it said was wrong, as ``jobrun.core.text.fault_text`` lists faults.
        last_lines: The last other lines of its output.
        started: Whether its run was started or resumed.
    """

    point: PlannedPoint
    exit_code: int
    faults: tuple[Mapping[str, Any], ...] = ()
    last_lines: tuple[str, ...] = ()
    started: bool = False


class PoolIdle(Struct, frozen=True):
    """Nothing has happened for a moment."""


SweepEvent = PointStarted | PointEnded | PoolIdle
SweepListener = Callable[[SweepEvent], None]


def run_command(spec: str, run_dir: Path, words: Sequence[str]) -> list[str]:
    """Build the command line of the process that runs or resumes a sweep's point.

    Args:
        spec: The file.
        run_dir: Where runs live.
        words: Further ones, such as ``--epochs 2``.
    """
    return python_command(
        "jobrun", "run", spec, "--resume", "auto",
        "--log-format", "json", "--quiet", "--run-dir", str(run_dir), *words,
    )  # fmt: skip


class Pool:
    """Runs the points of a sweep in child processes, a limited number at a time.

    Args:
        command: The words of a point's command line, in front of the point's own.
        run_dir: Where their runs go.
        jobs: How many at a time.
        listen: Called with each event, in the caller's thread.
        variables: Makes the further environment variables of a point's process, by its label.
    """

    def __init__(
        self,
        command: Sequence[str],
        run_dir: Path,
        jobs: int,
        listen: SweepListener,
        variables: Callable[[str], Mapping[str, str]] = lambda _: {},
    ) -> None:
        self._command = command
        self._run_dir = run_dir
        self._jobs = jobs
        self._listen = listen
        self._variables = variables
        self._heard: SimpleQueue[PointStarted | PointEnded] = SimpleQueue()
        self._running: dict[str, subprocess.Popen[str]] = {}
        self._ended_by = 0

    def run(self, points: Sequence[PlannedPoint]) -> int:
        """Run all points' processes until they end; return the signal that ended this, or 0."""
        waiting = deque(points)
        with self._signals():
            while self._running or (waiting and not self._ended_by):
                self._start(waiting)
                self._hear()
        return self._ended_by

    def _start(self, waiting: deque[PlannedPoint]) -> None:
        """Start the processes of as many points as may run at once; skip live runs."""
        for _ in range(len(waiting)):
            if len(self._running) >= self._jobs or self._ended_by:
                return
            point = waiting.popleft()
            if self._is_live(point):
                # A run that a killed sweep left behind is still saving.
                waiting.append(point)
            else:
                self._open(point)

    def _is_live(self, point: PlannedPoint) -> bool:
        run = newest_run(self._run_dir, point.job, point.inputs)
        return run is not None and is_live(run.path)

    def _open(self, point: PlannedPoint) -> None:
        process = subprocess.Popen(  # noqa: S603 - this interpreter, our own program
            [*self._command, *point.words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env={**plain_environment(), **self._variables(point.label)},
            # Ctrl-C is ours to pass on: a second one means something else to a run.
            process_group=0,
            preexec_fn=_dies_with(os.getpid()),  # noqa: PLW1509 - one call
        )
        self._running[point.job] = process
        threading.Thread(target=self._read, args=(point, process), daemon=True).start()

    def _read(self, point: PlannedPoint, process: subprocess.Popen[str]) -> None:
        """Read the output of a point's process until it ends, in a thread of its own."""
        assert process.stderr is not None  # noqa: S101 - it is a pipe
        faults: list[Mapping[str, Any]] = []
        last_lines: deque[str] = deque(maxlen=_MOST_LINES)
        started = False
        with process.stderr as lines:
            for line in lines:
                event = parse_event(line)
                match event.get("event"):
                    case "RunStarted":
                        started = True
                        run = Path(event["directory"])
                        self._heard.put(PointStarted(point, run, event["total_epochs"]))
                    case "Fault" if event["severity"] == "error":
                        faults.append(event)
                    case None:
                        last_lines.append(line.rstrip())
                    case _:
                        pass
        code = process.wait()
        self._heard.put(PointEnded(point, code, tuple(faults), tuple(last_lines), started))

    def _hear(self) -> None:
        try:
            heard = self._heard.get(timeout=_TICK_S)
        except Empty:
            self._listen(PoolIdle())
            return
        if isinstance(heard, PointEnded):
            del self._running[heard.point.job]
        self._listen(heard)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        handlers = dict.fromkeys(handleable_signals(), self._end) | {signal.SIGTSTP: self._pause}
        before = {number: signal.signal(number, act) for number, act in handlers.items()}
        try:
            yield
        finally:
            for number, act in before.items():
                signal.signal(number, act)

    def _end(self, number: int, frame: FrameType | None) -> None:
        del frame
        self._ended_by = number
        for process in list(self._running.values()):
            process.send_signal(number)

    def _pause(self, number: int, frame: FrameType | None) -> None:
        """Stop all points' processes on ``SIGTSTP`` (Ctrl-Z), and continue them with this one."""
        del frame
        self._to_groups(signal.SIGSTOP)
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        signal.signal(number, self._pause)
        self._to_groups(signal.SIGCONT)

    def _to_groups(self, number: int) -> None:
        for process in list(self._running.values()):
            signal_group(process, number)


def _dies_with(parent: int) -> Callable[[], None]:
    """Build the function by which a point's process asks the kernel to die with its parent."""
    # Looked up here: between fork and exec nothing may be imported.
    ask = bind_parent_death_signal()

    def first() -> None:
        ask(signal.SIGTERM)
        if os.getppid() != parent:
            # It died before the call.
            os._exit(1)

    return first
