"""Send a run's metrics to its listeners, each of which runs in a process of its own.

::

    run's process                        a process for each listener
    events -> ListenerFanOut -> pipe --> main -> begin, record, end
                             <-- pipe -- one line: why it has failed

A listener imports large packages, has threads, and may hang or crash; in a process of its own it
can neither slow down nor change what is computed. Nothing here waits for one before the run's end:
what a full pipe does not take is kept until the next epoch, up to a limit.

A listener's process gets its name as the argument, and JSON lines as its input::

    {"begin": {…}, "epoch": 7, "metrics_bytes": 4096}   # read the history from metrics.jsonl
    {"record": 8, "at": 1796000000.5, "values": {"loss": 0.5}}
    {"end": "finished"}

The end of the input without ``end`` means that the run's process was killed. Standard output is for
the reason of a failure alone: whatever else is printed goes to standard error.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from jobrun.core.child_process import start_module, wait_or_kill
from jobrun.core.errors import JobrunError
from jobrun.core.events import (
    EpochEnded,
    Event,
    GroupRetried,
    GroupStarted,
    Measured,
    NodeReplaced,
    RunEnded,
    RunStarted,
)
from jobrun.core.files.json_files import read_lines
from jobrun.core.waiting import wait_until
from jobrun.runner.listeners.listener import (
    EpochMetrics,
    ListenedRun,
    Number,
    RunListener,
    open_listener,
)
from jobrun.runner.rundir.logs import metric_name, read_events
from jobrun.runner.rundir.run_directories import METRICS_NAME

# Each listener's own output, in the run's directory.
FOLDER = "listeners"
_MOST_WAITING_BYTES = 64 << 20
_LAST_S, _LAST_WHEN_STOPPED_S = 60.0, 10.0
# Limit for one call: if the run's process is gone, nothing else would end a call that hangs.
_LONGEST_CALL_S = 600


class ListenerFanOut:
    """Sends the metrics of a run to its listeners; use as a listener of events, in any thread.

    Args:
        run: The run's directory.
        names: Of the listeners.
        facts: What they get as ``ListenedRun``, without the directory.
        keep: Is given the number of each process that may outlive this one.
    """

    def __init__(
        self,
        run: Path,
        names: Sequence[str],
        facts: Mapping[str, Any],
        keep: Callable[[int], None] | None = None,
    ) -> None:
        self._run = run
        self._names = names
        self._facts = dict(facts)
        self._keep = keep
        self._lock = threading.Lock()
        self._processes: list[_ListenerProcess] = []
        # Metrics of epochs that have not ended: epoch, name and value, in order.
        self._waiting: list[tuple[int, str, Number]] = []
        self._begun: dict[str, int] = {}
        self._epoch = -1

    def __call__(self, event: Event) -> list[str]:
        """Send an event to listeners' processes; return a message for each that has failed."""
        if not self._names:
            return []
        with self._lock:
            self._take(event)
            failed = [process for process in self._processes if process.failure]
            is_over = isinstance(event, RunEnded)
            self._processes = [
                process for process in self._processes if not (process.failure or is_over)
            ]
            return [
                f"the listener '{process.name}' is switched off: {process.failure} (its output: "
                f"{self._run / FOLDER / process.name}.log)"
                for process in failed
            ]

    def close(self) -> None:
        """Close the pipes to all listeners' processes, and wait until they have ended."""
        with self._lock:
            self._finish(_LAST_S)
            self._processes = []

    def _take(self, event: Event) -> None:
        match event:
            case RunStarted():
                self._processes = [
                    _ListenerProcess(name, self._run / FOLDER / f"{name}.log")
                    for name in self._names
                ]
                if self._keep is not None:
                    for process in self._processes:
                        self._keep(process.pid)
                self._begin(event.epoch)
            case Measured():
                self._waiting.append((event.epoch, metric_name(event), event.value))
            case GroupStarted():
                self._begun[event.group] = len(self._waiting)
            case GroupRetried():
                del self._waiting[self._begun.get(event.group, 0) :]
            case NodeReplaced():
                self._begin(event.epoch)
            case EpochEnded():
                self._epoch = event.epoch
                self._record()
            case RunEnded():
                self._record()
                self._send({"end": event.outcome})
                # A batch system that requests a stop does not wait; a resume sends what is missing.
                is_asked = event.outcome in {"stopped", "interrupted"}
                self._finish(_LAST_WHEN_STOPPED_S if is_asked else _LAST_S)
            case _:
                pass

    def _finish(self, longest_s: float) -> None:
        """Finish all listeners' processes, waiting at most ``longest_s`` seconds in total."""
        deadline = time.monotonic() + longest_s
        for process in self._processes:
            process.finish(deadline)

    def _begin(self, epoch: int) -> None:
        """Send the run's name and its ``metrics.jsonl`` length to all listeners' processes."""
        self._epoch = epoch
        self._waiting.clear()
        self._begun.clear()
        size_bytes = 0
        with contextlib.suppress(OSError):
            size_bytes = (self._run / METRICS_NAME).stat().st_size
        facts = {**self._facts, "directory": str(self._run)}
        self._send({"begin": facts, "epoch": epoch, "metrics_bytes": size_bytes})

    def _record(self) -> None:
        """Send the metrics of the ended epochs to all listeners' processes."""
        rows: dict[int, dict[str, Number]] = {}
        for epoch, name, value in self._waiting:
            if epoch <= self._epoch:
                rows.setdefault(epoch, {})[name] = value
        self._waiting = [metric for metric in self._waiting if metric[0] > self._epoch]
        self._begun.clear()
        # Sent even without metrics: metrics of this epoch from an earlier start may wait for it.
        rows.setdefault(self._epoch, {})
        for epoch, values in sorted(rows.items()):
            self._send({"record": epoch, "at": time.time(), "values": values})

    def _send(self, content: Mapping[str, Any]) -> None:
        line = json.dumps(content, default=str).encode() + b"\n"
        for process in self._processes:
            process.send(line)


class _ListenerProcess:
    """The process of one listener, and the pipe to it, which is never waited for.

    Args:
        name: Of the listener.
        log: Gets what the listener and its packages print.

    Attributes:
        name: Of the listener.
        failure: Why it does not listen any more; empty while it does.
    """

    def __init__(self, name: str, log: Path) -> None:
        self.name = name
        self.failure = ""
        self._waiting = bytearray()
        log.parent.mkdir(exist_ok=True)
        with log.open("ab") as output:
            # A new session: Ctrl-C goes to the run, which then ends its listeners.
            self._process = start_module(
                "jobrun.runner.listeners.listener_processes",
                name,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )
        self.pid = self._process.pid
        assert self._process.stdin is not None  # noqa: S101 - for the type checker
        assert self._process.stdout is not None  # noqa: S101 - for the type checker
        self._pipe, self._report = self._process.stdin, self._process.stdout
        os.set_blocking(self._pipe.fileno(), False)

    def send(self, line: bytes) -> None:
        """Send a line into the pipe to a listener's process, or keep it if the pipe is full."""
        if self.failure:
            return
        self._waiting += line
        self._flush()
        if len(self._waiting) > _MOST_WAITING_BYTES:
            self._fail("it does not keep up with the run")

    def finish(self, deadline: float) -> None:
        """Send the queued lines to a listener's process, then wait until it ends."""
        wait_until(self._is_flushed, deadline - time.monotonic(), 0.01)
        self.close()
        if self.failure:
            return
        try:
            code = self._process.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            self._fail("it did not end in time")
        else:
            if code:
                self._fail(self._reason())
            self._report.close()

    def _is_flushed(self) -> bool:
        self._flush()
        return not self._waiting

    def close(self) -> None:
        """Close the pipe to a listener's process; may be called twice."""
        with contextlib.suppress(OSError):
            self._pipe.close()

    def _flush(self) -> None:
        try:
            while self._waiting:
                written = os.write(self._pipe.fileno(), self._waiting)
                del self._waiting[:written]
        except BlockingIOError:
            pass
        except OSError:
            # The process has ended; its output says why.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_LAST_S)
            self._fail(self._reason())

    def _reason(self) -> str:
        """Return why a listener's process ended: the text in its pipe, or its exit code."""
        os.set_blocking(self._report.fileno(), False)
        output = (self._report.read() or b"").decode(errors="replace").strip()
        return output or f"its process ended with {self._process.returncode}"

    def _fail(self, why: str) -> None:
        self.failure = why
        self.close()
        self._waiting.clear()
        wait_or_kill(self._process, 0.0)
        self._report.close()


def main(name: str) -> int:
    """Run one listener in its own process until its input ends; return 1 if it has failed."""
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    try:
        serve(open_listener(name), sys.stdin.buffer)
    except JobrunError as error:
        print("; ".join(fault.message for fault in error.faults), file=report)
        return 1
    except Exception as error:
        print(f"{type(error).__name__}: {error}".splitlines()[0], file=report, flush=True)
        # Re-raised, so that the listener's log gets the traceback.
        raise
    return 0


def serve(listener: RunListener, lines: BinaryIO) -> None:
    """Call a listener's methods in its own process, as the lines on standard input say."""
    waiting: dict[int, dict[str, Number]] = {}
    has_begun = False
    for line in lines:
        signal.alarm(_LONGEST_CALL_S)
        if not line.endswith(b"\n"):
            # The run's process was killed while it wrote.
            break
        content = json.loads(line)
        if "begin" in content:
            run = _build_run(content["begin"])
            history = read_history(run.directory, content["metrics_bytes"])
            # Metrics of a partly run next epoch are recorded together with its other metrics.
            waiting = {
                metrics.epoch: dict(metrics.values)
                for metrics in history
                if metrics.epoch > content["epoch"]
            }
            listener.begin(
                run, [metrics for metrics in history if metrics.epoch <= content["epoch"]]
            )
            has_begun = True
        elif "record" in content:
            epoch = content["record"]
            values = {**waiting.pop(epoch, {}), **content["values"]}
            if values:
                at = datetime.fromtimestamp(content["at"], UTC)
                listener.record(EpochMetrics(epoch, at, values))
        else:
            listener.end(content["end"])
            return
        signal.alarm(0)
    if has_begun:
        signal.alarm(_LONGEST_CALL_S)
        listener.end("failed")


def read_history(run: Path, size_bytes: int) -> list[EpochMetrics]:
    """Read past metrics from ``metrics.jsonl``, for a listener's process to begin with.

    Of several values in one epoch the last counts. Lines that cannot be read are left out.

    Raises:
        OSError: The file is there and cannot be read.
    """
    rows: dict[int, tuple[datetime, dict[str, Number]]] = {}
    for recorded in read_events(_first_lines(run / METRICS_NAME, size_bytes), (Measured,)):
        _, values = rows.get(recorded.event.epoch, (recorded.at, {}))
        values[metric_name(recorded.event)] = recorded.event.value
        rows[recorded.event.epoch] = recorded.at, values
    return [EpochMetrics(epoch, *rows[epoch]) for epoch in sorted(rows)]


def _first_lines(path: Path, size_bytes: int) -> Iterator[bytes]:
    end = 0
    for line in read_lines(path) if size_bytes else ():
        end += len(line)
        if end > size_bytes:
            return
        yield line


def _build_run(facts: Mapping[str, Any]) -> ListenedRun:
    return ListenedRun(
        Path(facts["directory"]), facts["job"], facts["name"], facts["run_id"], facts["params"]
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
